//! Harness of everything that runs the built `weir` command on a real kernel: scenarios, demo, bench.
//!
//! Each run has its own network namespaces, cgroup and bpffs, so runs go side by side and beside an
//! agent that is in use. The harness knows nothing of the agent's insides: it starts the command,
//! writes its files and opens connections.

pub mod agent;
pub mod binaries;
pub mod cgroup;
pub mod client;
pub mod cluster;
pub mod config;
pub mod foreign;
pub mod host;
pub mod http;
pub mod kernel;
pub mod leftovers;
pub mod manifest;
pub mod namespace;
pub mod pin_dir;
pub mod privilege;
pub mod report;
pub mod server;
pub mod share;
mod syscall;
pub mod tls;
pub mod topology;
pub mod wait;
