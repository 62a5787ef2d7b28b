//! One look at who is in which network namespace. Opens nothing; reads links and names.

use super::Origin;
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where a namespace was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// How people name it.
    pub(super) origin: Origin,
    /// A file that leads to it.
    pub(super) path: PathBuf,
}

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By inode of the namespace.
    pub(super) namespaces: BTreeMap<u64, Seen>,
    /// Processes looked at.
    pub(super) processes: usize,
    /// Processes whose namespace may not be read.
    pub(super) unreadable: usize,
    /// Names in the folder that do not lead to a namespace, or not yet.
    pub(super) unfinished: usize,
}

impl Found {
    /// Keeps the better of two ways to name one namespace.
    fn add(&mut self, inode: u64, seen: Seen) {
        let place = self.namespaces.entry(inode).or_insert_with(|| seen.clone());
        if seen.origin < place.origin {
            *place = seen;
        }
    }
}

/// Looks at all processes and at the folder of named namespaces.
pub(super) fn scan(proc_dir: &Path, names_dir: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    let own = proc_dir.join("self/ns/net");
    let home = fs::metadata(&own)?;
    found.add(home.ino(), Seen { origin: Origin::Host, path: own });
    processes(proc_dir, &mut found)?;
    names(names_dir, home.dev(), &mut found);
    Ok(found)
}

fn processes(proc_dir: &Path, found: &mut Found) -> io::Result<()> {
    for entry in fs::read_dir(proc_dir)?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        found.processes += 1;
        let path = entry.path().join("ns/net");
        match inode_of_link(&path) {
            Ok(Some(inode)) => found.add(inode, Seen { origin: Origin::Process(pid), path }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.unreadable += 1,
            // It has ended meanwhile.
            Ok(None) | Err(_) => {}
        }
    }
    Ok(())
}

/// Without the folder there are no named namespaces.
fn names(folder: &Path, device: u64, found: &mut Found) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // A name is made first and becomes a namespace with a mount; namespaces share a device.
        match fs::metadata(&path) {
            Ok(metadata) if metadata.dev() == device => {
                let origin = Origin::Name(entry.file_name().to_string_lossy().into_owned());
                found.add(metadata.ino(), Seen { origin, path });
            }
            Ok(_) => found.unfinished += 1,
            Err(_) => {}
        }
    }
}

/// The namespaces of a process and of its threads, which may have gone elsewhere.
pub(super) fn of_process(proc_dir: &Path, pid: u32) -> Vec<(u64, Seen)> {
    let process = proc_dir.join(pid.to_string());
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten().map(|thread| thread.path());
    let mut found = Found::default();
    for folder in std::iter::once(process.clone()).chain(threads) {
        let path = folder.join("ns/net");
        if let Ok(Some(inode)) = inode_of_link(&path) {
            found.add(inode, Seen { origin: Origin::Process(pid), path });
        }
    }
    found.namespaces.into_iter().collect()
}

/// Whether a file still leads to a namespace.
pub(super) fn leads_to(path: &Path, inode: u64) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.ino() == inode)
}

/// Reads `net:[4026531840]`, for which the namespace need not be opened.
fn inode_of_link(path: &Path) -> io::Result<Option<u64>> {
    let link = fs::read_link(path)?;
    let number = link.to_str().and_then(|text| text.strip_prefix("net:[")?.strip_suffix(']'));
    Ok(number.and_then(|number| number.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A process as procfs shows it.
    fn process(proc_dir: &Path, pid: &str, link: &str) {
        let folder = proc_dir.join(pid).join("ns");
        fs::create_dir_all(&folder).unwrap();
        symlink(link, folder.join("net")).unwrap();
    }

    #[test]
    fn namespaces_are_told_apart_by_inode_and_named_by_the_lowest_pid() {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), "70", "net:[11]");
        process(folder.path(), "9", "net:[11]");
        process(folder.path(), "8", "net:[12]");
        process(folder.path(), "not-a-pid", "net:[13]");
        process(folder.path(), "10", "elsewhere");
        let mut found = Found::default();
        processes(folder.path(), &mut found).unwrap();
        let origins: Vec<_> = found.namespaces.iter().map(|(inode, seen)| (*inode, seen.origin.clone())).collect();
        assert_eq!(origins, [(11, Origin::Process(9)), (12, Origin::Process(8))]);
        assert_eq!(found.processes, 4);
    }

    #[test]
    fn a_name_that_is_no_namespace_yet_is_unfinished() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("new"), "").unwrap();
        let mut found = Found::default();
        names(folder.path(), 0, &mut found);
        assert_eq!((found.unfinished, found.namespaces.len()), (1, 0));
    }

    #[test]
    fn the_host_is_named_so_whatever_else_leads_to_it() {
        let names = tempfile::tempdir().unwrap();
        let found = scan(Path::new("/proc"), names.path()).unwrap();
        let home = fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert_eq!(found.namespaces.get(&home).unwrap().origin, Origin::Host);
    }
}
