//! Border types: the bytes that pinned BPF maps hold, the same for kernel programs and agent.
//!
//! Every struct is `repr(C)`, has no padding (zerocopy refuses it) and says its units. Change a
//! layout, a key or the meaning of a number, and [`ABI_VERSION`] goes up: a new agent then makes
//! tables of its own beside the old ones.

pub mod ids;
pub mod maps;
pub mod settings;
pub mod socket;
pub mod stats;
pub mod tables;
pub mod tls;

/// The version of every layout in this module; part of the pin path.
pub const ABI_VERSION: u32 = 1;
