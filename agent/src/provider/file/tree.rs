//! Reads a typed object from a parsed document, noticing what serde alone would not tell: which
//! fields nobody reads and what they may have been meant to be, and where a bad value stands.

use super::path;
use serde::{
    Deserialize,
    de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor, value::StrDeserializer},
    forward_to_deserialize_any,
};
use serde_json::{Error, Map, Value};
use std::cell::RefCell;

/// A field that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownField {
    pub(super) path: String,
    /// The fields that there are at this place.
    pub(super) known: &'static [&'static str],
}

/// A value that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadValue {
    pub(super) path: String,
    pub(super) message: String,
}

/// Reads a `T`; tells the unknown fields also where it fails (as far as it came).
pub(super) fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> (Result<T, BadValue>, Vec<UnknownField>) {
    let trace = Trace::default();
    let result = T::deserialize(Tree { value, path: String::new(), trace: &trace });
    let failed_at = trace.failed_at.into_inner().unwrap_or_default();
    let result = result.map_err(|error| BadValue { path: failed_at, message: error.to_string() });
    (result, trace.unknown.into_inner())
}

#[derive(Default)]
struct Trace {
    unknown: RefCell<Vec<UnknownField>>,
    failed_at: RefCell<Option<String>>,
}

struct Tree<'de, 't> {
    value: &'de Value,
    path: String,
    trace: &'t Trace,
}

impl<'de, 't> Tree<'de, 't> {
    /// Notes where a value does not fit; the innermost place is the first to report.
    fn traced<R>(self, read: impl FnOnce(Self) -> Result<R, Error>) -> Result<R, Error> {
        let (trace, path) = (self.trace, self.path.clone());
        read(self).inspect_err(|_| {
            trace.failed_at.borrow_mut().get_or_insert(path);
        })
    }
}

impl<'de> de::Deserializer<'de> for Tree<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.traced(|tree| match tree.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(_) => tree.value.deserialize_any(visitor),
            Value::String(value) => visitor.visit_borrowed_str(value),
            Value::Array(items) => {
                visitor.visit_seq(Items { items: items.iter().enumerate(), path: tree.path, trace: tree.trace })
            }
            Value::Object(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), value: None, path: tree.path, trace: tree.trace })
            }
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.traced(|tree| visitor.visit_newtype_struct(tree))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Value::Object(entries) = self.value {
            note_unknown(entries, fields, &self.path, self.trace);
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.traced(|tree| tree.value.deserialize_enum(name, variants, visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

fn note_unknown(entries: &Map<String, Value>, fields: &'static [&'static str], at: &str, trace: &Trace) {
    for name in entries.keys().filter(|name| !fields.contains(&name.as_str())) {
        trace.unknown.borrow_mut().push(UnknownField { path: path::key(at, name), known: fields });
    }
}

struct Items<'de, 't> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
    path: String,
    trace: &'t Trace,
}

impl<'de> SeqAccess<'de> for Items<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((i, value)) = self.items.next() else {
            return Ok(None);
        };
        seed.deserialize(Tree { value, path: path::item(&self.path, i), trace: self.trace }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de, 't> {
    entries: serde_json::map::Iter<'de>,
    value: Option<(&'de str, &'de Value)>,
    path: String,
    trace: &'t Trace,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some((name, value));
        let key: StrDeserializer<'_, Error> = name.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let Some((name, value)) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(Tree { value, path: path::key(&self.path, name), trace: self.trace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::TCPRoute;
    use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
    use serde_json::json;

    fn unknown<'de, T: Deserialize<'de>>(value: &'de Value) -> Vec<String> {
        let (result, unknown) = read::<T>(value);
        assert!(result.is_ok());
        unknown.into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn unknown_fields_are_found_in_own_and_foreign_kinds() {
        let route = json!({"metadata": {"name": "r", "lables": {}}, "spec": {
            "rules": [{"backendRefs": [{"name": "b", "wieght": 3}]}],
        }});
        assert_eq!(unknown::<TCPRoute>(&route), ["metadata.lables", "spec.rules[0].backendRefs[0].wieght"]);
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1, "protcol": "TCP"}]}});
        assert_eq!(unknown::<Service>(&service), ["spec.ports[0].protcol"]);
        let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": [], "condition": {}}]});
        assert_eq!(unknown::<EndpointSlice>(&slice), ["endpoints[0].condition"]);
    }

    #[test]
    fn a_bad_value_is_named_with_its_place() {
        let route =
            json!({"metadata": {"name": "r"}, "spec": {"rules": [{"backendRefs": [{"name": "b", "port": "x"}]}]}});
        let error = read::<TCPRoute>(&route).0.unwrap_err();
        assert_eq!(error.path, "spec.rules[0].backendRefs[0].port");
        assert!(error.message.contains("invalid type: string \"x\""), "{}", error.message);
        let missing = json!({"metadata": {"name": "r"}, "spec": {"rules": [{"backendRefs": [{"port": 1}]}]}});
        let error = read::<TCPRoute>(&missing).0.unwrap_err();
        assert_eq!(error.path, "spec.rules[0].backendRefs[0]");
        assert!(error.message.contains("missing field `name`"), "{}", error.message);
    }
}
