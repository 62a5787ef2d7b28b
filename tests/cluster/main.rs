//! Scenarios on a real cluster with two nodes: Weir as its manifests install it, one behaviour a file.
//!
//! `cargo xtask test --cluster` starts the cluster, with Weir, and runs them one after the other. Each has namespaces of
//! its own.

mod churn;
mod manifests;
mod metrics;
mod outages;
mod routes;
mod start_race;
mod status;
mod unrouted;
