//! Keys of server names, made and read.

use weir_common::{
    abi::ids::NameTableId,
    hello::{NameKey, QueryRefused},
};
use zerocopy::IntoBytes;

/// Bytes of a key before its data.
pub(super) const HEADER: usize = size_of::<u32>();
/// Bytes of the table's id in a key's data.
pub(super) const TABLE: usize = size_of::<NameTableId>();

/// Makes the key of a hostname as TLSRoutes have them.
///
/// # Errors
///
/// If it is none, or too long to be matched.
pub fn name_key(table: NameTableId, hostname: &str) -> Result<NameKey, QueryRefused> {
    if hostname.starts_with("*.") { NameKey::wildcard(table, hostname) } else { NameKey::exact(table, hostname) }
}

/// Returns the table that an entry belongs to.
#[must_use]
pub fn table(key: &NameKey) -> NameTableId {
    let id = key.as_bytes().get(HEADER..).and_then(|data| data.first_chunk::<TABLE>());
    NameTableId(id.map_or(0, |id| u64::from_ne_bytes(*id)))
}

/// Returns the hostname of an entry.
#[must_use]
pub fn hostname(key: &NameKey) -> String {
    let reversed = key.data().get(TABLE..).unwrap_or_default();
    let (star, reversed) = match reversed.split_last() {
        Some((0, name)) => ("", name),
        Some((_, _)) => ("*", reversed),
        None => ("", reversed),
    };
    star.chars().chain(reversed.iter().rev().map(|byte| char::from(*byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_its_table_and_its_hostname() {
        for name in ["a.example", "*.a.example", "*.example"] {
            let key = name_key(NameTableId(0x0102_0304_0506_0708), name).expect("a hostname");
            assert_eq!((table(&key), hostname(&key)), (NameTableId(0x0102_0304_0506_0708), name.to_owned()));
        }
    }
}
