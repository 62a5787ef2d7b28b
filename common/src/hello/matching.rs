//! Chooses the route of a server name: by name, then by ALPN.
//!
//! The exact name first, then wildcards from the longest to the shortest. Among the routes of one
//! name those win that ask for a protocol which the client offers, in the order of their ranks;
//! then the route that asks for none. A name all of whose routes ask for something else is passed
//! over.

use super::{Bytes, NameKey, NameValue, Protocols, Span, copy};
use crate::abi::ids::{SplitId, StatsId};

/// The table `NAMES`.
pub trait Names {
    /// Finds the entry whose key is the longest prefix of `key`.
    fn longest(&self, key: &NameKey) -> Option<NameValue>;
}

/// The routes that ask for ALPN. Only the agent has them.
pub trait Alpns {
    /// Finds the first route of the set ([`NameValue::alpn`]) that asks for a protocol.
    fn candidate(&self, set: u64, protocol: &[u8]) -> Option<Candidate>;
}

/// A route that asks for a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Precedence among the routes of the set: the lowest wins.
    pub rank: u32,
    /// Where it leads.
    pub matched: Matched,
}

/// Where a connection is led by its server name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Matched {
    /// The route's split.
    pub split: SplitId,
    /// The route's counters.
    pub route_stats: StatsId,
}

/// A name has at most as many labels, and so as many wildcards, and itself.
const MAX_MATCHES: usize = 128;

/// Longest ALPN protocol, in bytes (RFC 7301, 3.1).
const MAX_PROTOCOL: usize = 255;

/// Chooses the route for a query; `alpn` is that of [`super::Found`]. The key's `bits` are used up.
pub fn choose<N: Names, A: Alpns, B: Bytes + ?Sized>(
    names: &N,
    alpns: &A,
    key: &mut NameKey,
    bytes: &B,
    alpn: Option<Span>,
) -> Option<Matched> {
    for _ in 0..MAX_MATCHES {
        let value = names.longest(key)?;
        if let Some(candidate) = best_offered(alpns, value.alpn, bytes, alpn) {
            return Some(candidate.matched);
        }
        if value.plain != 0 {
            return Some(Matched { split: value.split, route_stats: value.route_stats });
        }
        key.bits = value.bits.checked_sub(1)?;
    }
    None
}

/// Returns the candidate with the lowest rank among those for the protocols offered.
fn best_offered<A: Alpns, B: Bytes + ?Sized>(alpns: &A, set: u64, bytes: &B, alpn: Option<Span>) -> Option<Candidate> {
    if set == 0 {
        return None;
    }
    let mut text = [0; MAX_PROTOCOL];
    let candidates =
        Protocols::new(bytes, alpn).filter_map(|protocol| alpns.candidate(set, copy(bytes, protocol, &mut text)?));
    candidates.min_by_key(|candidate| candidate.rank)
}
