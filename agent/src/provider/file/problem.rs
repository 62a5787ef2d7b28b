//! What is wrong with a file: where, which object, which field, what is allowed, what to do.

use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// One finding about a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// The file, relative to the folder that was read; empty for the folder itself.
    pub file: PathBuf,
    /// The document in the file, from 1; 0 if it is about the file as a whole.
    pub document: usize,
    /// The line in the file, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The object, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// The field, for instance `spec.rules[0].backendRefs[1].weight`; empty if it is about the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, what is allowed, what to do.
    pub message: String,
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that was written has no effect.
    Error,
    /// Something that was written may not do what its writer thinks.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    /// Returns the word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// Names an object in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// Kind.
    pub kind: String,
    /// Namespace; empty for kinds that have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

impl fmt::Display for Problem {
    /// Writes one line: `error: routes.yaml:12 (document 2): TCPRoute shop/web: spec.rules: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity.name(), self.place())?;
        if let Some(object) = &self.object {
            write!(f, ": {object}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Problem {
    /// Makes an error about a file as a whole, or about the folder if the path is empty.
    pub(super) fn whole(file: &Path, message: String) -> Self {
        Self {
            file: file.to_owned(),
            document: 0,
            line: None,
            object: None,
            path: String::new(),
            severity: Severity::Error,
            message,
        }
    }

    /// Returns where it is, for people: `routes.yaml:12 (document 2)`.
    #[must_use]
    pub fn place(&self) -> String {
        let mut place =
            if self.file.as_os_str().is_empty() { "folder".to_owned() } else { self.file.display().to_string() };
        if let Some(line) = self.line {
            place.push_str(&format!(":{line}"));
        }
        if self.document > 0 {
            place.push_str(&format!(" (document {})", self.document));
        }
        place
    }
}
