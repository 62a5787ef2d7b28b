//! YAML and JSON text to a value; a key that stands twice is an error in both.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Text that is not YAML or JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// From 1, in the text that was given.
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

/// Parses one YAML document.
pub(super) fn yaml(text: &str) -> Result<Value, SyntaxError> {
    // `n` and `no` are names, too: only `true` and `false` are booleans (YAML 1.2).
    let options = serde_saphyr::options! { strict_booleans: true };
    let parsed: Result<Strict, _> = serde_saphyr::from_str_with_options(text, options);
    parsed.map(|strict| strict.0).map_err(|error| SyntaxError {
        line: error.location().and_then(|at| usize::try_from(at.line()).ok()).filter(|line| *line > 0),
        message: first_line(&error.without_snippet().to_string()),
    })
}

/// Parses one JSON document.
pub(super) fn json(text: &str) -> Result<Value, SyntaxError> {
    let parsed: Result<Strict, _> = serde_json::from_str(text);
    parsed.map(|strict| strict.0).map_err(|error| SyntaxError {
        line: Some(error.line()).filter(|line| *line > 0),
        message: first_line(&error.to_string()),
    })
}

/// Shortens a message to what is wrong. Where, is said elsewhere: its place counts from the document.
fn first_line(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let what = first.split_once(" at line ").map_or(first, |(what, _)| what);
    what.trim_end_matches(['.', ';', ',', ' ']).to_owned()
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // Infinity and NaN are no JSON; nothing that is read here has a use for them.
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("numbers must be finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if entries.contains_key(&key) {
                return Err(A::Error::custom(format!("the key \"{key}\" stands there twice")));
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_and_json_give_the_same_values() {
        let wanted = json!({"a": [1, -1, 1.5, true, null, "x"], "b": {"c": "5"}});
        assert_eq!(yaml("a: [1, -1, 1.5, true, null, x]\nb:\n  c: '5'\n"), Ok(wanted.clone()));
        assert_eq!(json(&wanted.to_string()), Ok(wanted));
    }

    #[test]
    fn words_that_were_booleans_once_are_text() {
        assert_eq!(yaml("[y, n, yes, no, on, off]"), Ok(json!(["y", "n", "yes", "no", "on", "off"])));
        assert_eq!(yaml("[true, false]"), Ok(json!([true, false])));
    }

    #[test]
    fn a_key_that_stands_twice_is_an_error_with_its_line() {
        assert_eq!(yaml("a: 1\nb: 2\na: 3\n").unwrap_err().line, Some(3));
        assert_eq!(json("{\"a\": 1,\n\"a\": 2}").unwrap_err().line, Some(2));
    }

    #[test]
    fn broken_text_is_an_error_with_its_line() {
        assert!(yaml("a: 1\nb: [1, 2\nc: 3\n").unwrap_err().line.is_some());
        assert!(json("{\"a\": }").is_err());
    }

    #[test]
    fn aliases_cannot_blow_up() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 10].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert!(yaml(&text).is_err());
    }
}
