//! Weir's agent: reads routes, compiles them into tables and keeps the kernel's in step.
//!
//! Data flow, one module an arrow: `provider` → `resources` → `translate` → `ir` → `compile` →
//! tables → `plan` → `bpf`. Only `bpf` touches the kernel's BPF side.

pub mod admin;
pub mod api;
pub mod compile;
pub mod plan;
pub mod bpf;
pub mod ir;
pub mod metrics;
pub mod resources;
pub mod stats;
pub mod telemetry;
pub mod view;
