//! Keys and values of `NAMES`, a longest-prefix-match trie over reversed names.
//!
//! One look-up finds the exact name, else the longest wildcard. A key's data is the table's id, then
//! the name from its last byte to its first, then a 0 that ends a whole name. A wildcard
//! `*.example.com` is stored as the reversed `.example.com` without that 0: it is a prefix of every
//! name with one or more labels in front, and not of `example.com`. The exact name is always the
//! longer prefix, and so is the wildcard with more labels.

use super::{
    Bytes, Span,
    name::{Check, InvalidName, check_name},
};
use crate::abi::ids::{NameTableId, SplitId, StatsId};
use core::hint::black_box;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Longest name that can be matched, in bytes: with the table's id and the 0 it fills the 256 bytes
/// that the kernel's trie allows.
pub const MAX_MATCHED_NAME: usize = 247;

/// Bytes of a key's table id.
const TABLE: usize = 8;

/// Key of `NAMES`. The bytes behind `bits` mean nothing.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NameKey {
    /// Length of the prefix (of a query: of the whole), in bits, host byte order.
    pub bits: u32,
    table: [u8; TABLE],
    reversed: [u8; MAX_MATCHED_NAME + 1],
}

/// Value of `NAMES`: where a name leads.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NameValue {
    /// The split of the route that asks for no ALPN, if `plain` is 1.
    pub split: SplitId,
    /// Counters of that route.
    pub route_stats: StatsId,
    /// Names the routes that ask for ALPN; 0 if there are none.
    pub alpn: u64,
    /// `bits` of this entry's key: shorter matches have fewer.
    pub bits: u32,
    /// 1 if a route that asks for no ALPN has this name, else 0.
    pub plain: u32,
}

/// Why a server name cannot be looked up. Neither kind matches anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueryRefused {
    /// The name is none, by the rules of [`check_name`].
    Invalid,
    /// The name is longer than [`MAX_MATCHED_NAME`]; whether it is valid was not looked at.
    TooLong,
}

impl NameKey {
    /// A key of all zeros, to be filled in place: the BPF stack is too small for keys.
    pub const EMPTY: Self = Self { bits: 0, table: [0; TABLE], reversed: [0; MAX_MATCHED_NAME + 1] };

    /// Makes this the query for the name at `span`, validated and lower-cased.
    ///
    /// # Errors
    ///
    /// [`QueryRefused`]; the key is then not to be used.
    #[inline(always)]
    pub fn query<B: Bytes + ?Sized>(&mut self, table: NameTableId, bytes: &B, span: Span) -> Result<(), QueryRefused> {
        let len = u32::from(span.len);
        if len == 0 || len > MAX_MATCHED_NAME as u32 {
            return Err(if len == 0 { QueryRefused::Invalid } else { QueryRefused::TooLong });
        }
        self.table = table.0.to_ne_bytes();
        let mut check = Check::new();
        // The black box keeps the compiler from dropping the array's bound for that of the name, which
        // the verifier cannot follow.
        let len = black_box(len);
        for (i, place) in (0..).zip(&mut self.reversed) {
            if i == len {
                // The 0 that ends the name.
                *place = 0;
                break;
            }
            let Some(byte) = bytes.u8(span.at + (len - 1 - i)) else { return Err(QueryRefused::Invalid) };
            *place = check.next(byte);
        }
        self.bits = bits(len + 1);
        if check.is_valid() { Ok(()) } else { Err(QueryRefused::Invalid) }
    }

    /// Makes the key of an exact name. Host side only: it returns the key by value.
    ///
    /// # Errors
    ///
    /// [`QueryRefused`], as for a query.
    pub fn exact(table: NameTableId, name: &str) -> Result<Self, QueryRefused> {
        let mut key = Self::EMPTY;
        let len = u16::try_from(name.len()).map_err(|_| QueryRefused::TooLong)?;
        key.query(table, name.as_bytes(), Span { at: 0, len })?;
        Ok(key)
    }

    /// Makes the key of a wildcard, `*.` and a name. Host side only.
    ///
    /// # Errors
    ///
    /// [`QueryRefused::Invalid`] if there is no `*.` or the rest is no name, else as for a query.
    pub fn wildcard(table: NameTableId, pattern: &str) -> Result<Self, QueryRefused> {
        let name = pattern.strip_prefix("*.").ok_or(QueryRefused::Invalid)?;
        check_name(name.as_bytes()).map_err(|InvalidName| QueryRefused::Invalid)?;
        let mut key = Self::exact(table, name)?;
        // In the place of the 0 that ends the exact name, and as long.
        key.reversed[name.len()] = b'.';
        Ok(key)
    }

    /// Returns the data that `bits` covers, without the bits of a last broken byte.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let data = self.as_bytes().get(size_of::<u32>()..).unwrap_or(&[]);
        data.get(..(self.bits / 8) as usize).unwrap_or(data)
    }

    /// Whether this key, of a table's entry, is a prefix of a query.
    #[must_use]
    pub fn matches(&self, query: &Self) -> bool {
        self.bits <= query.bits && query.data().starts_with(self.data())
    }
}

/// Returns the bits of a key with so many bytes behind the table's id.
#[inline(always)]
const fn bits(len: u32) -> u32 {
    8 * (TABLE as u32 + len)
}
