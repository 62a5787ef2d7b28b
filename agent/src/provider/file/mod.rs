//! Resources from YAML and JSON files in a folder.
//!
//! A bad file never stops another, a bad document never hides the others of its file, and while an
//! object is bad its last good version stays in force. No rule that needs two objects is here: that
//! is `translate`'s job.

mod document;
mod folder;
mod kind;
mod lines;
mod object;
mod path;
mod problem;
mod split;
mod store;
mod strict;
mod tree;
mod watch;

pub use problem::{ObjectName, Problem, Severity};
pub use watch::{FileProvider, StartError};

use crate::resources::Resources;
use std::{path::Path, time::Instant};
use store::Store;

/// One reading of a folder.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The objects in force.
    pub resources: Resources,
    /// What is wrong, ordered by file, document and line.
    pub problems: Vec<Problem>,
    /// When it was read.
    pub read_at: Instant,
}

impl Reading {
    /// A reading of nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { resources: Resources::default(), problems: Vec::new(), read_at: Instant::now() }
    }

    /// Whether something that was written has no effect.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Reads a folder once. Never fails: what cannot be read is a problem in the reading.
#[must_use]
pub fn read_dir(dir: &Path) -> Reading {
    let mut store = Store::new(dir.to_owned());
    // A first reading has nothing to compare with; only its outcome is of interest.
    let _ = store.refresh(true);
    store.reading()
}

/// Reads one text as if it were a YAML file: for tests and fuzzing, where no folder is wanted.
#[must_use]
pub fn read_text(text: &str) -> Vec<Problem> {
    let documents = split::documents(text);
    let numbered = documents.iter().enumerate();
    numbered.flat_map(|(i, part)| store::problems_of(Path::new("text.yaml"), i + 1, part)).collect()
}
