//! Empty on purpose: a library target lets the agent depend on this crate for rebuilds. The
//! programs are in `main.rs`.
#![no_std]
