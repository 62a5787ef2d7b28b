//! Which files a folder holds, and which folders must be watched to see them change.

use super::problem::Problem;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What tells one version of a file from the next, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    inode: (u64, u64),
    len: u64,
    modified: (i64, i64),
    // Also moves where a copy keeps the time of its original.
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A folder as it was found.
#[derive(Debug, Default)]
pub(super) struct Folder {
    /// Files to read, relative to the folder.
    pub(super) files: BTreeMap<PathBuf, Stamp>,
    /// Real folders in which files, or links to them, stand; with device and inode.
    pub(super) watch: BTreeMap<PathBuf, (u64, u64)>,
    /// Folders and links that cannot be read.
    pub(super) problems: Vec<Problem>,
}

/// Lists the YAML and JSON files of a folder and its sub-folders, following links. Names that begin
/// with a dot are left out: that covers editors' files and the inner folders of a ConfigMap mount.
///
/// Fails if the folder itself is not there or cannot be read.
pub(super) fn list(root: &Path) -> io::Result<Folder> {
    let mut folder = Folder::default();
    let mut seen = BTreeSet::new();
    let entries = fs::read_dir(root)?;
    visit(root, Path::new(""), entries, &mut seen, &mut folder);
    Ok(folder)
}

fn visit(root: &Path, relative: &Path, entries: fs::ReadDir, seen: &mut BTreeSet<(u64, u64)>, folder: &mut Folder) {
    let path = root.join(relative);
    if let Some(inode) = watch(&path, folder)
        && !seen.insert(inode)
    {
        // A link that leads back up, or a second way to the same folder.
        return;
    }
    for entry in entries {
        let name = match entry {
            Ok(entry) => entry.file_name(),
            Err(error) => {
                folder.problems.push(Problem::whole(relative, format!("cannot be listed: {error}")));
                return;
            }
        };
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let relative = relative.join(&name);
        let path = root.join(&relative);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                follow_links(&path, folder);
                match fs::read_dir(&path) {
                    Ok(entries) => visit(root, &relative, entries, seen, folder),
                    Err(error) => folder.problems.push(Problem::whole(&relative, format!("cannot be listed: {error}"))),
                }
            }
            Ok(metadata) if metadata.is_file() && is_wanted(&relative) => {
                follow_links(&path, folder);
                folder.files.insert(relative, Stamp::of(&metadata));
            }
            Ok(_) => {}
            Err(error) if is_wanted(&relative) && fs::symlink_metadata(&path).is_ok() => {
                follow_links(&path, folder);
                folder
                    .problems
                    .push(Problem::whole(&relative, format!("cannot be read: {error}; correct or remove the link")));
            }
            // Gone since it was listed, or nothing that would be read.
            Err(_) => {}
        }
    }
}

/// Whether a file is read, by its name.
pub(super) fn is_wanted(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}

/// Watches where each step of a chain of links stands: any step may be replaced.
fn follow_links(path: &Path, folder: &mut Folder) {
    const MOST_STEPS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST_STEPS {
        let Ok(target) = fs::read_link(&at) else {
            break;
        };
        let Some(parent) = at.parent() else {
            break;
        };
        at = parent.join(target);
        if let Some(parent) = at.parent() {
            watch(parent, folder);
        }
    }
}

fn watch(path: &Path, folder: &mut Folder) -> Option<(u64, u64)> {
    let real = fs::canonicalize(path).ok()?;
    let metadata = fs::metadata(&real).ok()?;
    let inode = (metadata.dev(), metadata.ino());
    folder.watch.insert(real, inode);
    Some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn files(root: &Path) -> Vec<String> {
        list(root).unwrap().files.keys().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn yaml_and_json_files_are_found_in_sub_folders() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("b/c")).unwrap();
        fs::create_dir_all(dir.path().join(".git")).unwrap();
        for name in ["z.yaml", "a.yml", "b/c/d.json", "b/readme.md", ".git/x.yaml", ".hidden.yaml", "a.yaml~"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(files(dir.path()), ["a.yml", "b/c/d.json", "z.yaml"]);
    }

    #[test]
    fn a_config_map_mount_shows_each_key_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("..2026_1")).unwrap();
        fs::write(dir.path().join("..2026_1/a.yaml"), "").unwrap();
        symlink("..2026_1", dir.path().join("..data")).unwrap();
        symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
        assert_eq!(files(dir.path()), ["a.yaml"]);
        let folder = list(dir.path()).unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        assert!(folder.watch.contains_key(&real));
        assert!(folder.watch.contains_key(&real.join("..2026_1")));
    }

    #[test]
    fn links_in_a_circle_end_and_dead_links_are_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        symlink("..", dir.path().join("a/up")).unwrap();
        symlink("nowhere", dir.path().join("dead.yaml")).unwrap();
        fs::write(dir.path().join("a/x.yaml"), "").unwrap();
        assert_eq!(files(dir.path()), ["a/x.yaml"]);
        let problems = list(dir.path()).unwrap().problems;
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].file, Path::new("dead.yaml"));
    }

    #[test]
    fn a_rewritten_file_has_another_stamp() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        fs::write(&path, "a: 1").unwrap();
        let before = list(dir.path()).unwrap().files;
        assert_eq!(before, list(dir.path()).unwrap().files);
        fs::write(dir.path().join("new"), "a: 2").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert_ne!(before, list(dir.path()).unwrap().files);
    }
}
