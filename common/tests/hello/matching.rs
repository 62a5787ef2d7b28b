//! The trie's keys find what a matcher on strings finds.

use crate::builder::{alpn, with_len};
use proptest::{collection::vec, prelude::*, sample::subsequence};
use std::{cmp::Reverse, collections::BTreeMap};
use weir_common::{
    abi::ids::{NameTableId, SplitId, StatsId},
    hello::{
        Alpns, Candidate, MAX_MATCHED_NAME, Matched, NameKey, NameValue, Names, QueryRefused, SortedNames, Span,
        check_name, choose,
    },
};

const TABLE: NameTableId = NameTableId(0x0102_0304_0506_0708);

/// A route as a user writes it; the place in the list is its precedence.
#[derive(Clone, Debug)]
struct Route {
    pattern: String,
    alpn: Vec<String>,
}

fn route(pattern: &str, alpn: &[&str]) -> Route {
    Route { pattern: pattern.to_owned(), alpn: alpn.iter().map(|protocol| (*protocol).to_owned()).collect() }
}

/// The trie, as a list, in which one looks for the longest prefix.
struct Table {
    entries: Vec<(NameKey, NameValue)>,
    routes: Vec<Route>,
}

fn matched(route: usize) -> Matched {
    Matched { split: SplitId(100 + route as u64), route_stats: StatsId(200 + route as u64) }
}

fn key(table: NameTableId, pattern: &str) -> Result<NameKey, QueryRefused> {
    if pattern.starts_with("*.") { NameKey::wildcard(table, pattern) } else { NameKey::exact(table, pattern) }
}

impl Table {
    fn new(routes: Vec<Route>) -> Self {
        let mut patterns: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, route) in routes.iter().enumerate() {
            patterns.entry(route.pattern.to_ascii_lowercase()).or_default().push(i);
        }
        let entry = |(pattern, of_pattern): (&String, &Vec<usize>)| {
            let key = key(TABLE, pattern).expect("a valid pattern");
            let plain = of_pattern.iter().find(|route| routes[**route].alpn.is_empty());
            let Matched { split, route_stats } = plain.map_or(matched(9_999), |route| matched(*route));
            let asks = of_pattern.iter().find(|route| !routes[**route].alpn.is_empty());
            let alpn = asks.map_or(0, |first| 1 + *first as u64);
            (key, NameValue { split, route_stats, alpn, bits: key.bits, plain: plain.is_some().into() })
        };
        let mut entries: Vec<_> = patterns.iter().map(entry).collect();
        entries.rotate_left(patterns.len() / 2);
        Self { entries, routes }
    }

    fn choose(&self, name: &str, offered: &[&str]) -> Result<Option<Matched>, QueryRefused> {
        let mut key = NameKey::EMPTY;
        key.query(TABLE, name.as_bytes(), Span { at: 0, len: name.len().try_into().unwrap() })?;
        let list = alpn(&offered.iter().map(|protocol| protocol.as_bytes().to_vec()).collect::<Vec<_>>()).1;
        let span = Span { at: 2, len: (list.len() - 2).try_into().unwrap() };
        Ok(choose(self, self, &mut key, &list[..], (!offered.is_empty()).then_some(span)))
    }

    /// Returns the place of the route that wins.
    fn winner(&self, name: &str, offered: &[&str]) -> Option<usize> {
        let chosen = self.choose(name, offered).expect("a valid name")?;
        Some((chosen.split.0 - 100) as usize)
    }
}

impl Names for Table {
    fn longest(&self, key: &NameKey) -> Option<NameValue> {
        let fitting = self.entries.iter().filter(|(entry, _)| entry.matches(key));
        let longest = fitting.max_by_key(|(entry, _)| entry.bits).map(|(_, value)| *value);
        assert_eq!(SortedNames::sort(&mut self.entries.clone()).longest(key), longest, "the agent's form");
        longest
    }
}

impl Alpns for Table {
    fn candidate(&self, set: u64, protocol: &[u8]) -> Option<Candidate> {
        let pattern = &self.routes[set as usize - 1].pattern;
        let asks = |route: &Route| {
            route.pattern.eq_ignore_ascii_case(pattern) && route.alpn.iter().any(|alpn| alpn.as_bytes() == protocol)
        };
        let rank = self.routes.iter().position(asks)?;
        Some(Candidate { rank: rank as u32, matched: matched(rank) })
    }
}

/// The rules, on strings.
fn naive(routes: &[Route], name: &str, offered: &[&str]) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    let is_match = |pattern: &str| match pattern.strip_prefix('*') {
        Some(suffix) => name.len() > suffix.len() && name.ends_with(suffix),
        None => name == pattern,
    };
    let patterns = routes.iter().map(|route| route.pattern.to_ascii_lowercase());
    let mut patterns: Vec<String> = patterns.filter(|pattern| is_match(pattern)).collect();
    patterns.sort_by_key(|pattern| (pattern.starts_with('*'), Reverse(pattern.len())));
    patterns.iter().find_map(|pattern| {
        let of_pattern = || routes.iter().enumerate().filter(|(_, route)| route.pattern.eq_ignore_ascii_case(pattern));
        let offered = of_pattern().find(|(_, route)| route.alpn.iter().any(|alpn| offered.contains(&alpn.as_str())));
        offered.or_else(|| of_pattern().find(|(_, route)| route.alpn.is_empty())).map(|(i, _)| i)
    })
}

#[test]
fn the_exact_name_wins_then_the_longest_wildcard() {
    let patterns = ["*.example", "*.shop.example", "www.shop.example", "*.a.shop.example"];
    let table = Table::new(patterns.iter().map(|pattern| route(pattern, &[])).collect());
    assert_eq!(table.winner("www.shop.example", &[]), Some(2));
    assert_eq!(table.winner("WWW.Shop.Example", &[]), Some(2));
    assert_eq!(table.winner("x.www.shop.example", &[]), Some(1));
    assert_eq!(table.winner("b.a.shop.example", &[]), Some(3));
    assert_eq!(table.winner("shop.example", &[]), Some(0));
    assert_eq!(table.winner("example", &[]), None);
    assert_eq!(table.winner("www.shop.example.org", &[]), None);
}

#[test]
fn a_wildcard_stands_for_one_or_more_labels_never_none() {
    let table = Table::new(vec![route("*.example.com", &[])]);
    assert_eq!(table.winner("a.example.com", &[]), Some(0));
    assert_eq!(table.winner("a.b.example.com", &[]), Some(0));
    assert_eq!(table.winner("example.com", &[]), None);
    assert_eq!(table.winner("aexample.com", &[]), None);
}

#[test]
fn a_name_is_not_found_in_another_table() {
    let here = NameKey::exact(TABLE, "a.example").unwrap();
    let there = NameKey::exact(NameTableId(TABLE.0 ^ 1), "a.example").unwrap();
    assert!(here.matches(&here) && !here.matches(&there));
    assert!(!NameKey::wildcard(TABLE, "*.example").unwrap().matches(&there));
}

#[test]
fn an_offered_protocol_beats_no_protocol_and_no_protocol_a_shorter_name() {
    let table = Table::new(vec![
        route("*.example", &["h2"]),
        route("a.example", &[]),
        route("a.example", &["http/1.1"]),
        route("a.example", &["h2", "h3"]),
        route("b.example", &["h3"]),
    ]);
    assert_eq!(table.winner("a.example", &["h2"]), Some(3));
    assert_eq!(table.winner("a.example", &["h2", "http/1.1"]), Some(2), "the route's precedence, not the client's");
    assert_eq!(table.winner("a.example", &["imap"]), Some(1));
    assert_eq!(table.winner("a.example", &[]), Some(1));
    assert_eq!(table.winner("b.example", &["h2"]), Some(0), "no route of the name is asked for: the next shorter");
    assert_eq!(table.winner("b.example", &["imap"]), None);
}

#[test]
fn names_of_248_bytes_and_more_match_nothing() {
    let name = |len: usize| format!("{0}.{0}.{0}.{1}", "a".repeat(60), "b".repeat(len - 183));
    let exact = name(243);
    assert!(NameKey::exact(TABLE, &exact).is_ok());
    let longest = format!("abc.{exact}");
    assert_eq!(longest.len(), MAX_MATCHED_NAME);
    assert!(NameKey::exact(TABLE, &longest).is_ok());
    let wildcard = NameKey::wildcard(TABLE, &format!("*.{longest}")).unwrap();
    assert_eq!(wildcard.data().len(), 256, "the trie's limit");
    for long in [format!("a{longest}"), format!("abcdef.{longest}"), "a".repeat(70_000)] {
        assert_eq!(NameKey::exact(TABLE, &long).unwrap_err(), QueryRefused::TooLong);
    }
    assert!(check_name(format!("a{longest}").as_bytes()).is_ok());
}

#[test]
fn invalid_names_are_neither_asked_for_nor_stored() {
    for name in ["", "a..b", "a.", ".a", "10.0.0.1", "a b", "*.a", "ä.example"] {
        assert_eq!(NameKey::exact(TABLE, name).unwrap_err(), QueryRefused::Invalid, "{name:?}");
    }
    for pattern in ["*", "*.", "*a.example", "a.example", "*.*.example", "*.1", "*..a"] {
        assert_eq!(NameKey::wildcard(TABLE, pattern).unwrap_err(), QueryRefused::Invalid, "{pattern:?}");
    }
}

#[test]
fn the_keys_layout_is_that_of_the_kernels_trie() {
    let key = NameKey::wildcard(TABLE, "*.aB").unwrap();
    assert_eq!(size_of::<NameKey>(), 4 + 256);
    assert_eq!(size_of::<NameValue>(), 32);
    assert_eq!(key.bits, 8 * (8 + 3));
    assert_eq!(key.data(), [&TABLE.0.to_ne_bytes()[..], b"ba."].concat());
    let key = NameKey::exact(TABLE, "aB").unwrap();
    assert_eq!(key.bits, 8 * (8 + 3));
    assert_eq!(key.data(), [&TABLE.0.to_ne_bytes()[..], b"ba\0"].concat());
}

#[test]
fn a_list_of_protocols_ends_where_it_does_not_add_up() {
    let table = Table::new(vec![route("a.example", &["h2"]), route("a.example", &[])]);
    let h2 = with_len::<1>(b"h2");
    for (list, winner) in [
        (h2.clone(), 0),
        ([&h2[..], &[9, 1]].concat(), 0),
        ([&[0][..], &h2].concat(), 1),
        ([&[9][..], &h2].concat(), 1),
    ] {
        let mut key = NameKey::exact(TABLE, "a.example").unwrap();
        let span = Span { at: 0, len: list.len() as u16 };
        let chosen = choose(&table, &table, &mut key, &[&list[..], b"behind the list"].concat()[..], Some(span));
        assert_eq!(chosen, Some(matched(winner)), "{list:?}");
    }
}

/// Few labels, so that names and patterns meet.
fn name() -> impl Strategy<Value = String> {
    vec(prop_oneof!["[abB]", "ab", "a-"], 1..6).prop_map(|labels| labels.join("."))
}

fn pattern() -> impl Strategy<Value = String> {
    (any::<bool>(), name()).prop_map(|(wild, name)| if wild { format!("*.{name}") } else { name })
}

const PROTOCOLS: [&str; 3] = ["h2", "h3", "http/1.1"];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_trie_chooses_what_the_rules_on_strings_choose(
        routes in vec((pattern(), prop_oneof![Just(vec![]), subsequence(&PROTOCOLS[..], 0..3)]), 0..16),
        names in vec((name(), subsequence(&PROTOCOLS[..], 0..=3).prop_shuffle()), 8),
    ) {
        let routes: Vec<Route> = routes.iter().map(|(pattern, alpn)| route(pattern, alpn)).collect();
        let table = Table::new(routes.clone());
        for (name, offered) in names {
            let expected = naive(&routes, &name, &offered);
            prop_assert_eq!(table.winner(&name, &offered), expected, "{} offers {:?}", name, offered);
        }
    }
}
