//! Cgroup ids: the inode numbers of the folders of the cgroup2 hierarchy.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// How deep units are looked for; systemd nests user slices about six levels.
const MAX_DEPTH: usize = 16;

/// Returns the id of the cgroup at a path below the mount.
pub(super) fn at(mount: &Path, path: &str) -> Option<u64> {
    let folder = mount.join(path.trim_start_matches('/'));
    let metadata = fs::metadata(folder).ok()?;
    metadata.is_dir().then(|| metadata.ino())
}

/// Returns name and id of every cgroup whose name is one of `names`.
pub(super) fn named(mount: &Path, names: &BTreeSet<&str>) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    if !names.is_empty() {
        walk(mount, names, MAX_DEPTH, &mut found);
    }
    found
}

fn walk(folder: &Path, names: &BTreeSet<&str>, depth: usize, found: &mut Vec<(String, u64)>) {
    // A cgroup may go while it is read: then there is nothing to find in it.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let (Some(name), Ok(metadata)) = (entry.file_name().to_str(), entry.metadata())
            && names.contains(name)
        {
            found.push((name.to_owned(), metadata.ino()));
        }
        if depth > 1 {
            walk(&entry.path(), names, depth - 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_at_any_depth_and_under_any_slice() {
        let mount = tempfile::tempdir().expect("a folder");
        for path in ["system.slice/db.service", "user.slice/user-1.slice/db.service", "system.slice/web.service"] {
            fs::create_dir_all(mount.path().join(path)).expect("a cgroup");
        }
        let found = named(mount.path(), &BTreeSet::from(["db.service"]));
        assert_eq!(found.len(), 2);
        let at = at(mount.path(), "/system.slice/db.service").expect("an id");
        assert!(found.contains(&("db.service".to_owned(), at)));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let mount = tempfile::tempdir().expect("a folder");
        assert_eq!(at(mount.path(), "/nowhere"), None);
        assert!(named(mount.path(), &BTreeSet::from(["db.service"])).is_empty());
    }
}
