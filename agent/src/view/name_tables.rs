//! Tables of server names, as `/tables` and `weir dump` show them.

use super::tables::{Namer, hex};
use crate::compile::name;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_common::hello::{Matched, NameValue};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NameTable {
    id: String,
    names: Vec<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Name {
    name: String,
    /// Where clients are led that offer none of the protocols below.
    #[serde(skip_serializing_if = "Option::is_none")]
    any: Option<MatchedRow>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    alpn: BTreeMap<String, ProtocolRow>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct MatchedRow {
    route: String,
    split: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ProtocolRow {
    rank: u32,
    #[serde(flatten)]
    matched: MatchedRow,
}

impl Namer<'_> {
    pub(super) fn name_tables(&self) -> Vec<NameTable> {
        let mut tables: BTreeMap<u64, Vec<Name>> = BTreeMap::new();
        for (key, value) in &self.tables.names {
            tables.entry(name::table(key).0).or_default().push(self.name(name::hostname(key), value));
        }
        let table = |(id, mut names): (u64, Vec<Name>)| {
            names.sort_by(|one, other| one.name.cmp(&other.name));
            NameTable { id: hex(id), names }
        };
        tables.into_iter().map(table).collect()
    }

    fn name(&self, name: String, value: &NameValue) -> Name {
        let any = Matched { split: value.split, route_stats: value.route_stats };
        let protocols = self.tables.alpns.get(&value.alpn).into_iter().flatten().map(|(protocol, candidate)| {
            let row = ProtocolRow { rank: candidate.rank, matched: self.matched(candidate.matched) };
            (String::from_utf8_lossy(protocol).into_owned(), row)
        });
        Name { name, any: (value.plain != 0).then(|| self.matched(any)), alpn: protocols.collect() }
    }

    fn matched(&self, matched: Matched) -> MatchedRow {
        MatchedRow { route: self.stats(matched.route_stats), split: hex(matched.split.0) }
    }
}

#[cfg(test)]
mod tests {
    use crate::view::{TablesView, sample_tls};

    #[test]
    fn server_names_are_shown_as_they_are_written_and_with_their_routes() {
        let published = sample_tls::published();
        let view = TablesView::new(&published.tables, &published.names);
        let json = serde_json::to_value(&view).expect("JSON");
        insta::assert_snapshot!(serde_json::to_string_pretty(&json["names"]).expect("JSON"));
    }
}
