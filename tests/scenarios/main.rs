//! Scenarios: the built `weir` command on this machine's kernel, one behaviour a file.
//!
//! Each scenario has namespaces, cgroup and bpffs of its own. They need root and cgroup2; without,
//! they say so and pass, except in CI.

mod stage;
mod tls_stage;

mod agent_life;
mod agent_loss;
mod changes;
mod clean;
mod consumers;
mod counters;
mod ejection;
mod exact_weights;
mod files;
mod foreign_programs;
mod hairpin;
mod harness;
mod one_family;
mod parent_port;
mod peer_name;
mod policies;
mod precedence;
mod refusals;
mod target_ports;
mod terminating;
mod tls_bounds;
mod tls_bytes;
mod tls_clients;
mod tls_harness;
mod tls_hello;
mod tls_life;
mod tls_names;
mod tls_shares;
mod tls_sockets;
mod untouched;
mod zero_weights;
