//! The admin port: health, metrics, tables and status over HTTP, and the small client that asks.
//!
//! Read-only: nothing that arrives here changes the agent or the kernel.

pub mod client;
mod server;

pub use server::{Admin, serve};

/// Where the admin port listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9754";
