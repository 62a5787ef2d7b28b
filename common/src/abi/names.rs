//! The server names of TLSRoutes: one longest-prefix-match trie for all tables.
//!
//! A name is stored from its end, so that a wildcard is a prefix: `*.example.com` as `moc.elpmaxe.`, and
//! `www.example.com` as `moc.elpmaxe.www` with a 0 behind it. One look-up of a whole name with its 0 then
//! finds the exact entry if there is one, else the longest wildcard with at least one label in its place.

use super::ids::{NameTableId, SplitId, StatsId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a name in a key, its 0 included: the kernel's tries take keys of 256 bytes, 8 of which are the
/// table's id. Longer names (up to 253 characters are allowed) never match.
pub const NAME_BYTES: usize = 248;
/// Bits of a key that the table's id takes.
pub const TABLE_BITS: u32 = 64;

/// Key of `NAMES`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NameKey {
    /// How many bits of what follows count: [`TABLE_BITS`], and 8 for each byte of the name.
    pub bits: u32,
    /// The table's id, in bytes because a key has no room for alignment.
    pub table: [u8; 8],
    /// The name from its end, lower case.
    pub reversed: [u8; NAME_BYTES],
}

impl NameKey {
    /// Makes the key of no name in a table.
    #[must_use]
    pub const fn empty(table: NameTableId) -> Self {
        Self { bits: TABLE_BITS, table: table.0.to_ne_bytes(), reversed: [0; NAME_BYTES] }
    }
}

/// Value of `NAMES`: where a name leads.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NameValue {
    /// The split of the route that asks for no ALPN protocol, if `plain` is 1.
    pub split: SplitId,
    /// Counters of that route.
    pub route_stats: StatsId,
    /// Names the routes that ask for ALPN protocols; 0 if there are none. Only the agent has them.
    pub alpn: u64,
    /// `bits` of this entry's key: shorter matches have fewer.
    pub bits: u32,
    /// 1 if a route that asks for no ALPN protocol has this name, else 0.
    pub plain: u32,
}
