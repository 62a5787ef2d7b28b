//! `NAMES` as a sorted slice, for the agent: the same answers as the kernel's trie.

use super::{NameKey, NameValue, Names};

/// Entries in the order of their keys.
#[derive(Clone, Copy, Debug)]
pub struct SortedNames<'a> {
    entries: &'a [(NameKey, NameValue)],
}

impl<'a> SortedNames<'a> {
    /// Sorts the entries; each key is there once.
    #[must_use]
    pub fn sort(entries: &'a mut [(NameKey, NameValue)]) -> Self {
        entries.sort_unstable_by(|(a, _), (b, _)| a.data().cmp(b.data()));
        Self { entries }
    }

    fn get(&self, data: &[u8]) -> Option<NameValue> {
        let at = self.entries.binary_search_by(|(key, _)| key.data().cmp(data)).ok()?;
        self.entries.get(at).map(|(_, value)| *value)
    }
}

impl Names for SortedNames<'_> {
    fn longest(&self, key: &NameKey) -> Option<NameValue> {
        let data = key.data();
        // A key ends with the 0 of an exact name or with the dot of a wildcard.
        let ends = (1..=data.len()).rev().filter(|end| matches!(data.get(end - 1), Some(0 | b'.')));
        ends.into_iter().find_map(|end| self.get(data.get(..end)?))
    }
}
