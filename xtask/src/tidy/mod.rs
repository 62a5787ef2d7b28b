//! `cargo xtask tidy`: rules of the code base that neither the compiler nor clippy knows.
//!
//! Which module may use which, a first line that says what a module is for, the length of files,
//! words that are left over from work, and metrics that nobody documented. Also a test.

mod borders;
mod metrics;
mod source;
mod text;

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use source::Source;
use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
};

/// Folders that are not ours, or that are made.
const NOT_OURS: [&str; 5] = [".git", ".cache", "target", "corpus", "artifacts"];

/// A line that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// From the checkout's top folder.
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks the checkout and prints what breaks a rule.
///
/// # Errors
///
/// If there is such a line, or a file that cannot be read.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace.root())?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if !findings.is_empty() {
        bail!("{} lines break a rule of this code base; CONTRIBUTING.md lists the rules", findings.len());
    }
    Ok(())
}

fn check(root: &Path) -> Result<BTreeSet<Finding>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let readme = fs::read_to_string(root.join("README.md")).unwrap_or_default();
    let mut findings = BTreeSet::new();
    let mut sources = Vec::new();
    for file in &files {
        let path = file.strip_prefix(root)?.to_string_lossy().into_owned();
        // What is not text has no words in it.
        let Ok(content) = fs::read_to_string(file) else { continue };
        findings.extend(text::check(&path, &content));
        findings.extend(metrics::check_shipped(&path, &content, &readme));
        if path.ends_with(".rs") {
            sources.push(Source::read(&path, &content)?);
        }
    }
    let tests: BTreeSet<PathBuf> = sources.iter().flat_map(Source::test_files).collect();
    let is_test = |source: &Source| tests.iter().any(|test| Path::new(source.path()).starts_with(test));
    for source in &sources {
        findings.extend(source.check());
        if !is_test(source) {
            findings.extend(source.check_length());
            findings.extend(borders::check(source));
        }
    }
    findings.extend(metrics::check(&sources, &readme));
    Ok(findings)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
                collect(&entry.path(), files)?;
            }
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        check(root.path()).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn this_checkout_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let findings = check(root).unwrap();
        assert!(findings.is_empty(), "{}", findings.iter().map(|f| format!("\n{f}")).collect::<String>());
    }

    #[test]
    fn a_clean_tree_has_no_findings() {
        let source = "//! Plans.\nuse crate::ir::Split;\nfn plan(_: Split) {}\n";
        assert_eq!(lines(&[("agent/src/plan/mod.rs", source), ("notes.bin", "x")]), [""; 0]);
    }

    #[test]
    fn files_of_test_modules_are_free_of_borders_and_length() {
        let tests = format!("//! Tests.\nuse tokio::time::sleep;\n{}", "// x\n".repeat(600));
        let parent = "//! Plans.\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(lines(&[("agent/src/plan/mod.rs", parent), ("agent/src/plan/tests.rs", &tests)]), [""; 0]);
        // The same file is not free where it is no test.
        let found = lines(&[("agent/src/plan/tests.rs", &tests)]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn made_files_are_not_looked_at() {
        assert_eq!(lines(&[("target/x.rs", "mod y;"), (".cache/x.rs", "mod y;")]), [""; 0]);
    }
}
