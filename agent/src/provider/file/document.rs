//! One document of a file: parsed, typed, and with the lines of what is wrong.

use super::{
    lines::Lines,
    object::{self, Contents, Identity, Object},
    problem::{ObjectName, Severity},
    strict,
};

/// What was read from one document. Lines count from the start of the document, from 0, so that it
/// is the same wherever in its file the document stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DocumentReading {
    pub(super) objects: Vec<(Identity, Object)>,
    pub(super) invalid: Vec<Identity>,
    /// Whether something is there of which not even the name is known.
    pub(super) unnamed: bool,
    pub(super) findings: Vec<Located>,
}

/// A finding and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) line: Option<usize>,
    pub(super) object: Option<ObjectName>,
    pub(super) path: String,
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// Reads a YAML document.
pub(super) fn read_yaml(text: &str) -> DocumentReading {
    match strict::yaml(text) {
        Ok(value) => located(object::read(&value), text),
        Err(syntax) => broken(syntax),
    }
}

/// Reads a JSON file.
pub(super) fn read_json(text: &str) -> DocumentReading {
    match strict::json(text) {
        Ok(value) => located(object::read(&value), text),
        Err(syntax) => broken(syntax),
    }
}

fn located(contents: Contents, text: &str) -> DocumentReading {
    let Contents { objects, invalid, unnamed, findings } = contents;
    let lines = if findings.is_empty() { Lines::default() } else { Lines::read(text) };
    let findings = findings
        .into_iter()
        .map(|finding| Located {
            line: lines.of(&finding.path).map(|line| line - 1),
            object: finding.object,
            path: finding.path,
            severity: finding.severity,
            message: finding.message,
        })
        .collect();
    DocumentReading { objects, invalid, unnamed, findings }
}

fn broken(syntax: strict::SyntaxError) -> DocumentReading {
    let finding = Located {
        line: syntax.line.map(|line| line.saturating_sub(1)),
        object: None,
        path: String::new(),
        severity: Severity::Error,
        message: format!("cannot be read: {}; correct the document", syntax.message),
    };
    DocumentReading { unnamed: true, findings: vec![finding], ..DocumentReading::default() }
}
