//! Weir's agent: reads routes, compiles them into tables and keeps the kernel's in step.
//!
//! Data flow, one module an arrow: `provider` → `resources` → `translate` → `ir` → `compile` →
//! tables → `plan` → `bpf`. Only `bpf` touches the kernel's BPF side.

pub mod api;
pub mod provider;
pub mod requests;
pub mod resources;

pub mod translate;

pub mod ir;

pub mod compile;
pub mod plan;

pub mod accept;
pub mod bpf;
pub mod clients;
pub mod events;
pub mod memory;
pub mod netns;
pub mod reconcile;

pub mod stats;
pub mod view;

pub mod admin;
pub mod metrics;
pub mod telemetry;
pub mod time;

pub mod cli;
