//! On which line a field stands. Only asked for documents in which something is wrong, because it
//! parses the document once more.

use super::path;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;
use std::{collections::BTreeMap, fmt};

/// Lines of a document's fields, from 1, by path.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// Reads the lines of a YAML (or JSON) document; a document that cannot be read has none.
    pub(super) fn read(text: &str) -> Self {
        let mut lines = BTreeMap::new();
        if let Ok(root) = serde_saphyr::from_str::<Spanned<Node>>(text) {
            walk(&root, String::new(), &mut lines);
        }
        Self(lines)
    }

    /// Returns the line of a field, or of the closest thing around it that is there.
    pub(super) fn of(&self, field: &str) -> Option<usize> {
        std::iter::successors(Some(field), |field| path::parent(field)).find_map(|field| self.0.get(field)).copied()
    }
}

fn walk(node: &Spanned<Node>, at: String, lines: &mut BTreeMap<String, usize>) {
    let line = usize::try_from(node.referenced.line()).unwrap_or_default();
    if line > 0 {
        lines.insert(at.clone(), line);
    }
    match &node.value {
        Node::Scalar => {}
        Node::List(items) => {
            for (i, child) in items.iter().enumerate() {
                walk(child, path::item(&at, i), lines);
            }
        }
        Node::Map(entries) => {
            for (name, child) in entries {
                walk(child, path::key(&at, name), lines);
            }
        }
    }
}

/// The shape of a document, without its scalars.
#[derive(Debug)]
enum Node {
    Scalar,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_lines() {
        let lines = Lines::read("kind: A\nspec:\n  rules:\n    - name: x\n      weight: 3\n    - {name: y}\n");
        assert_eq!(lines.of("kind"), Some(1));
        assert_eq!(lines.of("spec.rules[0].weight"), Some(5));
        assert_eq!(lines.of("spec.rules[1].name"), Some(6));
    }

    #[test]
    fn a_missing_field_has_the_line_of_what_is_around_it() {
        let lines = Lines::read("kind: A\nspec:\n  rules:\n    - name: x\n");
        assert_eq!(lines.of("spec.rules[0].backendRefs[7].port"), Some(4));
        assert_eq!(lines.of("metadata.name"), Some(1));
    }
}
