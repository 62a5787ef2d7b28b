//! Scenarios: the built `weir` command on this machine's kernel, one behaviour a file.
//!
//! Each scenario has namespaces, cgroup and bpffs of its own. They need root and cgroup2; without,
//! they say so and pass, except in CI.

mod harness;
mod stage;
