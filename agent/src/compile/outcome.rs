//! What a TLS connection leads to, by the tables alone: for the acceptor, `weir explain` and tests.

use super::{
    name::{HEADER, TABLE},
    tables::Tables,
};
use weir_common::{
    abi::{
        ids::{NameTableId, NamespaceId},
        tables::{FrontendKey, ScopedKey, Target, TargetKind},
    },
    hello::{self, Alpns, Bytes, Candidate, Found, MAX_NAME, Matched, NameKey, NameValue, Read, Records, Span},
    reason::Reason,
};
use zerocopy::IntoBytes;

impl hello::Names for Tables {
    /// Tries the ends that a key can have: that of the name, and those of its labels.
    fn longest(&self, key: &NameKey) -> Option<NameValue> {
        let mut prefix = *key;
        let mut end = key.data().len();
        prefix.as_mut_bytes().get_mut(HEADER + end..)?.fill(0);
        while end > TABLE {
            let last = *prefix.as_bytes().get(HEADER + end - 1)?;
            if matches!(last, 0 | b'.') {
                prefix.bits = u32::try_from(8 * end).ok()?;
                if let Some(value) = self.names.get(&prefix) {
                    return Some(*value);
                }
            }
            end -= 1;
            *prefix.as_mut_bytes().get_mut(HEADER + end)? = 0;
        }
        None
    }
}

impl Alpns for Tables {
    fn candidate(&self, set: u64, protocol: &[u8]) -> Option<Candidate> {
        self.alpns.get(&set)?.get(protocol).copied()
    }
}

impl Tables {
    /// Returns what applies now to connections of a frontend, as a decision would: `namespace` is the
    /// client's if its own routes decide, else 0. `None` if it is no frontend any more.
    #[must_use]
    pub fn scope_target(&self, frontend: &FrontendKey, namespace: NamespaceId) -> Option<Target> {
        let value = self.frontends.get(frontend)?;
        let own = ScopedKey { frontend: value.id, namespace };
        Some(self.scoped.get(&own).copied().unwrap_or(value.everyone))
    }
}

/// Says what a connection leads to, by the bytes that its client has sent so far. `None` asks for more.
///
/// A target whose route changed to a TCPRoute meanwhile leads to its split, whatever the bytes. One that
/// leaves connections alone rejects: the acceptor has the connection and cannot give it back.
#[must_use]
pub fn tls_outcome(tables: &Tables, target: &Target, stream: &[u8]) -> Option<Result<Matched, Reason>> {
    let names = match names(target) {
        Ok(names) => names,
        Err(decided) => return Some(decided),
    };
    let records = Records::new(stream);
    Some(match records.read() {
        Read::NeedMore { .. } => return None,
        Read::Found(found) => lookup(tables, names, &records, found.name, found.alpn),
        Read::NotTls | Read::Malformed => Err(Reason::NotTls),
        Read::TooBig | Read::BeyondMe => Err(Reason::HelloTooBig),
    })
}

/// Says what a connection leads to whose ClientHello was read already.
///
/// # Errors
///
/// Why it is rejected.
pub fn hello_outcome(tables: &Tables, target: &Target, hello: &Records<'_>, found: &Found) -> Result<Matched, Reason> {
    match names(target) {
        Ok(names) => lookup(tables, names, hello, found.name, found.alpn),
        Err(decided) => decided,
    }
}

/// Says what a ClientHello with this server name and these ALPN protocols leads to.
///
/// # Errors
///
/// Why it is rejected.
pub fn name_outcome(
    tables: &Tables,
    target: &Target,
    name: Option<&str>,
    protocols: &[String],
) -> Result<Matched, Reason> {
    let names = match names(target) {
        Ok(names) => names,
        Err(decided) => return decided,
    };
    let name = name.unwrap_or_default().as_bytes();
    let mut bytes = name.to_vec();
    for protocol in protocols {
        bytes.push(u8::try_from(protocol.len()).map_err(|_| Reason::NameNotMatched)?);
        bytes.extend(protocol.as_bytes());
    }
    let list = span(name.len(), bytes.len() - name.len());
    lookup(tables, names, bytes.as_slice(), span(0, name.len()), list)
}

/// Returns the table of a target whose names decide, or what it leads to without.
fn names(target: &Target) -> Result<NameTableId, Result<Matched, Reason>> {
    match target.kind() {
        TargetKind::Verify(_, names) | TargetKind::Accept(names) => Ok(names),
        TargetKind::Split(split) => Err(Ok(Matched { split, route_stats: target.route_stats })),
        TargetKind::Reject(reason) => Err(Err(reason)),
        TargetKind::Pass => Err(Err(Reason::NotFrontend)),
    }
}

/// Looks a name up, copied first: from its end, a stream of many records is slow to read.
fn lookup<B: Bytes + ?Sized>(
    tables: &Tables,
    table: NameTableId,
    bytes: &B,
    name: Option<Span>,
    alpn: Option<Span>,
) -> Result<Matched, Reason> {
    let name = name.ok_or(Reason::NoServerName)?;
    // Names that are none, or too long for any table, are names that no route has.
    let mut buffer = [0; MAX_NAME];
    let text = hello::copy(bytes, name, &mut buffer).ok_or(Reason::NameNotMatched)?;
    let mut key = NameKey::EMPTY;
    key.query(table, text, Span { at: 0, len: name.len }).map_err(|_| Reason::NameNotMatched)?;
    hello::choose(tables, tables, &mut key, bytes, alpn).ok_or(Reason::NameNotMatched)
}

/// Returns `None` for no bytes.
fn span(at: usize, len: usize) -> Option<Span> {
    let (at, len) = (u32::try_from(at).ok()?, u16::try_from(len).ok()?);
    (len > 0).then_some(Span { at, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::name::name_key;
    use proptest::prelude::*;
    use weir_common::{
        abi::{
            ids::{FrontendId, SplitId, StatsId},
            tables::FrontendValue,
        },
        addr::Address,
        hello::Names as _,
    };

    const TABLE: NameTableId = NameTableId(7);
    const ROUTE: StatsId = StatsId(1);

    fn tables(names: &[&str]) -> Tables {
        let mut tables = Tables::default();
        for (split, name) in (1..).zip(names) {
            let key = name_key(TABLE, name).expect("a hostname");
            let value =
                NameValue { split: SplitId(split), route_stats: StatsId(split), plain: 1, ..NameValue::default() };
            tables.names.insert(key, NameValue { bits: key.bits, ..value });
        }
        tables
    }

    /// A ClientHello with this server name, or without any.
    fn hello(name: Option<&str>) -> Vec<u8> {
        let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat();
        let name = name.map(|name| {
            let host = [&[0], sized(name.as_bytes()).as_slice()].concat();
            [&[0, 0], sized(&sized(&host)).as_slice()].concat()
        });
        let extensions = sized(&[name.unwrap_or_default(), vec![0, 23, 0, 0]].concat());
        let body = [&[3, 3], [0; 32].as_slice(), &[0, 0, 2, 0x13, 0x01, 1, 0], &extensions].concat();
        let handshake = [&[1, 0], sized(&body).as_slice()].concat();
        [&[22, 3, 1], sized(&handshake).as_slice()].concat()
    }

    #[test]
    fn a_whole_hello_leads_to_the_split_of_its_name_on_both_paths() {
        let tables = tables(&["a.example", "*.example"]);
        for target in [Target::accept(ROUTE, TABLE), Target::verify(ROUTE, SplitId(1), TABLE)] {
            for (name, split) in [("a.example", 1), ("b.example", 2)] {
                let wanted = Matched { split: SplitId(split), route_stats: StatsId(split) };
                assert_eq!(tls_outcome(&tables, &target, &hello(Some(name))), Some(Ok(wanted)));
            }
            let outcome = |bytes: &[u8]| tls_outcome(&tables, &target, bytes);
            assert_eq!(outcome(&hello(Some("other"))), Some(Err(Reason::NameNotMatched)));
            assert_eq!(outcome(&hello(Some("10.0.0.1"))), Some(Err(Reason::NameNotMatched)));
            assert_eq!(outcome(&hello(None)), Some(Err(Reason::NoServerName)));
            assert_eq!(outcome(b"GET / HTTP/1.1\r\n\r\n"), Some(Err(Reason::NotTls)));
        }
    }

    #[test]
    fn a_part_of_a_hello_asks_for_more() {
        let tables = tables(&["a.example"]);
        let hello = hello(Some("a.example"));
        for len in 0..hello.len() {
            assert_eq!(tls_outcome(&tables, &Target::accept(ROUTE, TABLE), &hello[..len]), None, "{len}");
        }
    }

    #[test]
    fn a_hello_that_is_too_long_is_rejected_as_soon_as_it_says_so() {
        let endless = [22, 3, 1, 0x40, 0, 1, 1, 0, 0];
        let outcome = tls_outcome(&tables(&[]), &Target::accept(ROUTE, TABLE), &endless);
        assert_eq!(outcome, Some(Err(Reason::HelloTooBig)));
    }

    #[test]
    fn a_target_that_is_not_for_tls_any_more_decides_without_a_name() {
        let tables = Tables::default();
        let split = Matched { split: SplitId(5), route_stats: ROUTE };
        let cases = [
            (Target::split(ROUTE, SplitId(5)), Ok(split)),
            (Target::reject(ROUTE, Reason::NoWeight), Err(Reason::NoWeight)),
            (Target::pass(), Err(Reason::NotFrontend)),
        ];
        for (target, wanted) in cases {
            assert_eq!(tls_outcome(&tables, &target, b""), Some(wanted));
            assert_eq!(name_outcome(&tables, &target, None, &[]), wanted);
        }
    }

    #[test]
    fn the_target_of_a_scope_is_the_namespace_s_own_or_that_of_everyone() {
        let mut tables = Tables::default();
        let key = FrontendKey::tcp(Address::from_v4_octets([10, 0, 0, 1]), 443);
        let everyone = Target::accept(ROUTE, TABLE);
        let own = Target::accept(StatsId(2), TABLE);
        tables.frontends.insert(key, FrontendValue::new(FrontendId(9), everyone, true));
        tables.scoped.insert(ScopedKey { frontend: FrontendId(9), namespace: NamespaceId(4) }, own);
        assert_eq!(tables.scope_target(&key, NamespaceId(0)), Some(everyone));
        assert_eq!(tables.scope_target(&key, NamespaceId(3)), Some(everyone));
        assert_eq!(tables.scope_target(&key, NamespaceId(4)), Some(own));
        assert_eq!(tables.scope_target(&FrontendKey::tcp(key.address, 80), NamespaceId(4)), None);
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_the_one_that_a_look_at_every_entry_finds(
            names in prop::collection::vec("(\\*\\.)?([ab]\\.){0,3}[ab]", 0..8),
            query in "([ab]\\.){0,4}[ab]",
            shorter in 0..40_u32,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let tables = tables(&names);
            let mut key = NameKey::exact(TABLE, &query).expect("a name");
            key.bits -= shorter.min(key.bits);
            let matching = tables.names.iter().filter(|(entry, _)| entry.matches(&key));
            let wanted = matching.max_by_key(|(entry, _)| entry.bits).map(|(_, value)| *value);
            prop_assert_eq!(tables.longest(&key), wanted);
        }
    }
}
