//! Settings and heartbeat: what the agent tells the kernel programs beside the tables.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What the programs do when the agent's heartbeat is stale (`--on-agent-loss`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum OnAgentLoss {
    /// Go on with the last complete state.
    #[default]
    Freeze = 0,
    /// Leave connections alone, as if Weir were not there.
    Bypass = 1,
    /// Refuse connections to frontends.
    Reject = 2,
}

impl OnAgentLoss {
    /// Reads the ABI number; an unknown one freezes.
    #[inline(always)]
    #[must_use]
    pub const fn from_abi(number: u8) -> Self {
        match number {
            1 => Self::Bypass,
            2 => Self::Reject,
            _ => Self::Freeze,
        }
    }
}

/// The one value of `SETTINGS`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Settings {
    /// When a heartbeat is stale, nanoseconds.
    pub agent_lost_after_ns: u64,
    /// Passive ejection.
    pub ejection: Ejection,
    /// Where the kernel keeps what its programs cannot ask for.
    pub sock: SockOffsets,
    /// [`OnAgentLoss`] as ABI number.
    pub on_agent_loss: u8,
    reserved: [u8; 7],
}

/// Offsets in the kernel's `struct sock`, bytes; 0 where not known.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct SockOffsets {
    /// Of `sk_err`: why a connect failed.
    pub err: u32,
    /// Of `sk_flags`: whether the peer's FIN was received.
    pub flags: u32,
}

impl Settings {
    /// Makes settings.
    #[must_use]
    pub const fn new(
        on_agent_loss: OnAgentLoss,
        agent_lost_after_ns: u64,
        ejection: Ejection,
        sock: SockOffsets,
    ) -> Self {
        Self { agent_lost_after_ns, ejection, sock, on_agent_loss: on_agent_loss as u8, reserved: [0; 7] }
    }
}

/// Passive ejection of endpoints whose connects fail. Times in nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Ejection {
    /// Failures in a row that eject; 0 switches ejection off.
    pub failures: u64,
    /// The failures must lie within this time.
    pub window_ns: u64,
    /// The first ejection lasts this long; each further one in a row twice as long.
    pub base_ns: u64,
    /// No ejection lasts longer than this.
    pub max_ns: u64,
}

impl Default for Ejection {
    fn default() -> Self {
        Self { failures: 3, window_ns: 10_000_000_000, base_ns: 5_000_000_000, max_ns: 120_000_000_000 }
    }
}

/// The one value of `HEARTBEAT`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Heartbeat {
    /// CLOCK_MONOTONIC of the agent's last sign of life, nanoseconds; 0 before the first.
    pub last_ns: u64,
}
