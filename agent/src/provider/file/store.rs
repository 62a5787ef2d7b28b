//! What is in force from each file: its newest version, and where that is bad, its last good one.

use super::{
    Reading,
    document::{self, DocumentReading, Located},
    folder::{self, Folder, Stamp},
    object::{Identity, Object},
    problem::{Problem, Severity},
    split,
};
use crate::resources::Resources;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::Hasher,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

/// The files of a folder, as far as they were read.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
    files: BTreeMap<PathBuf, File>,
    problems: Vec<Problem>,
}

#[derive(Debug, Default)]
struct File {
    /// `None` if the newest version has not been read.
    stamp: Option<Stamp>,
    /// Documents by the hash of their text: those that did not change are not read again.
    documents: BTreeMap<u128, Arc<DocumentReading>>,
    in_force: BTreeMap<Identity, InForce>,
    problems: Vec<Problem>,
}

#[derive(Clone, Debug)]
struct InForce {
    object: Object,
    /// The document that it stands in, from 1; of an older version, if the newest is bad.
    document: usize,
}

impl Store {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, files: BTreeMap::new(), problems: Vec::new() }
    }

    /// Reads what changed since the last time, or everything. Returns the folder as it was found
    /// (`None` if it is not there) and whether anything may be different now.
    pub(super) fn refresh(&mut self, everything: bool) -> (Option<Folder>, bool) {
        let folder = match folder::list(&self.root) {
            Ok(folder) => folder,
            Err(error) => {
                // A folder that is gone says nothing about what is wanted: all stays as it was.
                let kept = if self.files.is_empty() { "" } else { "; what was read before stays in force" };
                let message = format!("{} cannot be read: {error}{kept}", self.root.display());
                return (None, self.set_problems(vec![Problem::whole(Path::new(""), message)]));
            }
        };
        let mut changed = self.set_problems(folder.problems.clone());
        let unreadable: BTreeSet<&Path> = folder.problems.iter().map(|problem| problem.file.as_path()).collect();
        let before = self.files.len();
        // Files below a folder, or behind a link, that cannot be read just now are not gone.
        self.files.retain(|path, _| {
            folder.files.contains_key(path) || path.ancestors().any(|ancestor| unreadable.contains(ancestor))
        });
        changed |= self.files.len() != before;
        for (path, stamp) in &folder.files {
            let file = self.files.entry(path.clone()).or_default();
            if everything || file.stamp != Some(*stamp) {
                file.read(&self.root, path, *stamp);
                changed = true;
            }
        }
        (Some(folder), changed)
    }

    fn set_problems(&mut self, problems: Vec<Problem>) -> bool {
        let changed = self.problems != problems;
        self.problems = problems;
        changed
    }

    /// Puts together what all files say. The first of two objects of one name wins, in the order of
    /// paths and documents.
    pub(super) fn reading(&self) -> Reading {
        let mut resources = Resources::default();
        let mut problems = self.problems.clone();
        for (path, file) in &self.files {
            problems.extend(file.problems.iter().cloned());
            for (identity, found) in &file.in_force {
                if !found.object.insert(identity.key.clone(), &mut resources) {
                    problems.push(self.defined_twice(path, identity, found.document));
                }
            }
        }
        problems.sort();
        Reading { resources, problems, read_at: Instant::now() }
    }

    fn defined_twice(&self, path: &Path, identity: &Identity, document: usize) -> Problem {
        let first = self.files.iter().find_map(|(path, file)| file.in_force.get(identity).map(|first| (path, first)));
        let (file, at) = first.map_or((path, document), |(path, first)| (path.as_path(), first.document));
        twice(path, identity, document, None, &format!("{} (document {at})", file.display()))
    }
}

impl File {
    fn read(&mut self, root: &Path, path: &Path, stamp: Stamp) {
        let text = match fs::read(root.join(path)).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
        }) {
            Ok(text) => text,
            Err(error) => {
                // Tried again at the next look, without a change of the file: rights may come back.
                self.stamp = None;
                let kept = if self.in_force.is_empty() { "" } else { "; what it held before stays in force" };
                self.problems = vec![Problem::whole(path, format!("cannot be read: {error}{kept}"))];
                return;
            }
        };
        self.stamp = Some(stamp);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let parts =
            if is_json { vec![split::Document { first_line: 0, text: &text }] } else { split::documents(&text) };
        let mut known = BTreeMap::new();
        let mut documents = Vec::new();
        for part in parts {
            let hash = hash(part.text);
            let reading = self.documents.get(&hash).map_or_else(
                || Arc::new(if is_json { document::read_json(part.text) } else { document::read_yaml(part.text) }),
                Arc::clone,
            );
            known.insert(hash, Arc::clone(&reading));
            documents.push((part.first_line, reading));
        }
        self.documents = known;
        self.take(path, &documents);
    }

    /// Lets the newest version take effect, as far as it is good.
    fn take(&mut self, path: &Path, documents: &[(usize, Arc<DocumentReading>)]) {
        let mut in_force: BTreeMap<Identity, InForce> = BTreeMap::new();
        let mut problems = Vec::new();
        for (i, (first_line, reading)) in documents.iter().enumerate() {
            let document = i + 1;
            for (identity, object) in &reading.objects {
                if let Some(first) = in_force.get(identity) {
                    let place = format!("document {} of this file", first.document);
                    problems.push(twice(path, identity, document, Some(first_line + 1), &place));
                } else {
                    in_force.insert(identity.clone(), InForce { object: object.clone(), document });
                }
            }
        }
        let invalid: BTreeSet<&Identity> = documents.iter().flat_map(|(_, reading)| &reading.invalid).collect();
        let unnamed = documents.iter().any(|(_, reading)| reading.unnamed);
        let mut kept = BTreeSet::new();
        let mut kept_unnamed = false;
        for (identity, old) in std::mem::take(&mut self.in_force) {
            if in_force.contains_key(&identity) || !(unnamed || invalid.contains(&identity)) {
                continue;
            }
            kept_unnamed |= !invalid.contains(&identity);
            kept.insert(identity.name());
            in_force.insert(identity, old);
        }
        for (i, (first_line, reading)) in documents.iter().enumerate() {
            for finding in &reading.findings {
                let mut problem = place(path, i + 1, *first_line, finding);
                if problem.severity == Severity::Error {
                    match &problem.object {
                        Some(object) if kept.contains(object) => {
                            problem.message.push_str("; its last good version stays in force");
                        }
                        None if kept_unnamed => {
                            problem.message.push_str("; what this file held before stays in force");
                        }
                        Some(_) | None => {}
                    }
                }
                problems.push(problem);
            }
        }
        self.in_force = in_force;
        self.problems = problems;
    }
}

/// Reads one document and places its findings.
pub(super) fn problems_of(path: &Path, document: usize, part: &split::Document<'_>) -> Vec<Problem> {
    let reading = document::read_yaml(part.text);
    reading.findings.iter().map(|finding| place(path, document, part.first_line, finding)).collect()
}

fn hash(text: &str) -> u128 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish128().as_u128()
}

fn place(path: &Path, document: usize, first_line: usize, finding: &Located) -> Problem {
    Problem {
        file: path.to_owned(),
        document,
        line: finding.line.map(|line| first_line + line + 1),
        object: finding.object.clone(),
        path: finding.path.clone(),
        severity: finding.severity,
        message: finding.message.clone(),
    }
}

fn twice(path: &Path, identity: &Identity, document: usize, line: Option<usize>, first: &str) -> Problem {
    Problem {
        file: path.to_owned(),
        document,
        line,
        object: Some(identity.name()),
        path: String::new(),
        severity: Severity::Error,
        message: format!("is defined twice: {first} comes first and is in force; remove one of the two"),
    }
}
