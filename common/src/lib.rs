//! The decision, the tables and the border types that kernel programs and agent share.
//!
//! Everything here runs unchanged in the kernel (eBPF), in the agent and in host tests. This crate
//! holds no state, does no I/O, allocates nothing and has no `unsafe`.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod abi;
pub mod addr;
pub mod decide;
pub mod endpoint;
pub mod env;
pub mod hello;
pub mod mix;
pub mod reason;
pub mod split;
