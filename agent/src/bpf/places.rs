//! Finds, and where needed makes, the places that BPF needs: the cgroup2 hierarchy and bpffs.

use super::Error;
use nix::{
    mount::{MsFlags, mount},
    sys::{
        resource::{Resource, setrlimit},
        statfs::{BPF_FS_MAGIC, CGROUP2_SUPER_MAGIC, statfs},
    },
};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Lifts the locked-memory limit, which kernels before 5.11 charge maps to. May fail unnoticed.
pub(super) fn raise_memlock() {
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, libc::RLIM_INFINITY, libc::RLIM_INFINITY);
}

/// The cgroup that the programs attach to.
#[derive(Debug)]
pub struct CgroupRoot {
    /// Its folder.
    pub path: PathBuf,
    /// Its id: the inode number of the folder.
    pub id: u64,
    /// Where the hierarchy is mounted.
    pub mount: PathBuf,
    /// The open folder.
    pub(super) folder: File,
}

impl CgroupRoot {
    /// Opens the given cgroup, or the root of the cgroup2 hierarchy wherever it is mounted.
    ///
    /// # Errors
    ///
    /// If there is no cgroup2 hierarchy or the folder is not in one.
    pub fn find(given: Option<&Path>) -> Result<Self, Error> {
        let mount = cgroup2_mount();
        let path = match (given, &mount) {
            (Some(path), _) => path.to_owned(),
            (None, Some(mount)) => mount.clone(),
            (None, None) => return Err(Error::NoCgroup2),
        };
        let hint = mount.as_deref().map_or_else(|| "a cgroup2 mount".to_owned(), |mount| mount.display().to_string());
        let not_cgroup2 = || Error::NotCgroup2(path.clone(), hint.clone());
        let kind = statfs(&path).map_err(|_| not_cgroup2())?.filesystem_type();
        if kind != CGROUP2_SUPER_MAGIC {
            return Err(not_cgroup2());
        }
        let folder = File::open(&path).map_err(|_| not_cgroup2())?;
        let id = folder.metadata().map_err(|_| not_cgroup2())?.ino();
        Ok(Self { mount: mount.unwrap_or_else(|| path.clone()), path, id, folder })
    }

    /// Whether processes of another cgroup of the same hierarchy are in this one, too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self.path.canonicalize(), other.path.canonicalize()) {
            (Ok(here), Ok(there)) => there.starts_with(here),
            _ => false,
        }
    }

    /// Whether this is the root of the whole hierarchy as this process sees it.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.path.canonicalize().ok() == self.mount.canonicalize().ok()
    }
}

/// Returns the folder of the cgroup that this process is in. Where it cannot be told (a mount of a part of
/// the hierarchy only), the root as it is seen here, which the process is always in.
pub(super) fn own_cgroup(mount: &Path) -> PathBuf {
    let own = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| {
        let path = text.lines().find_map(|line| line.strip_prefix("0::/").map(str::to_owned))?;
        Some(mount.join(path))
    });
    own.filter(|path| path.is_dir()).unwrap_or_else(|| mount.to_owned())
}

/// Returns the first mount point of a cgroup2 file system, also in a hybrid layout.
fn cgroup2_mount() -> Option<PathBuf> {
    mount_of_kind(&fs::read_to_string("/proc/self/mountinfo").ok()?, "cgroup2")
}

/// Finds a mount point by file-system type in the text of mountinfo (proc(5)).
fn mount_of_kind(mountinfo: &str, kind: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (head, tail) = line.split_once(" - ")?;
        (tail.split(' ').next()? == kind).then(|| PathBuf::from(unescape(head.split(' ').nth(4).unwrap_or_default())))
    })
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(field: &str) -> String {
    let mut text = String::new();
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        match rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                text.push(byte.into());
                rest = &rest[at + 4..];
            }
            None => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// A folder on bpffs.
#[derive(Debug)]
pub struct Bpffs {
    /// The folder.
    pub path: PathBuf,
    /// Where bpffs was mounted for it, if it was not there.
    pub mounted: Option<PathBuf>,
}

const USUAL_BPFFS: &str = "/sys/fs/bpf";

impl Bpffs {
    /// Makes a folder on bpffs, mounting one where there is none: at `/sys/fs/bpf` for folders below
    /// it, else at the folder itself.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made or bpffs cannot be mounted.
    pub fn make(path: &Path) -> Result<Self, Error> {
        let failed = |what: String| Error::Bpffs { path: path.to_owned(), what };
        let usual = Path::new(USUAL_BPFFS);
        let mut mounted = None;
        let below_usual = path.starts_with(usual) && usual.is_dir();
        if below_usual && !is_bpffs(usual) {
            mount_bpffs(usual).map_err(|error| failed(cannot_mount(usual, &error)))?;
            mounted = Some(usual.to_owned());
        }
        fs::create_dir_all(path).map_err(|error| failed(format!("cannot make the folder: {error}")))?;
        if !is_bpffs(path) {
            mount_bpffs(path).map_err(|error| failed(cannot_mount(path, &error)))?;
            mounted = Some(path.to_owned());
        }
        Ok(Self { path: path.to_owned(), mounted })
    }
}

fn cannot_mount(path: &Path, error: &io::Error) -> String {
    format!(
        "no bpffs is mounted there and mounting one failed ({error}): run as root, or mount it first (`mount -t bpf \
         bpf {}`)",
        path.display()
    )
}

/// Whether a folder is on bpffs.
pub(super) fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|fs| fs.filesystem_type() == BPF_FS_MAGIC)
}

fn mount_bpffs(path: &Path) -> io::Result<()> {
    mount(Some("bpf"), path, Some("bpf"), MsFlags::empty(), Some("mode=0700"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
40 30 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn cgroup2_is_found_wherever_it_is_mounted() {
        assert_eq!(mount_of_kind(HYBRID, "cgroup2"), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_of_kind("24 1 254:0 / / rw - ext4 /dev/vda rw\n", "cgroup2"), None);
    }

    #[test]
    fn optional_fields_and_escapes_do_not_disturb() {
        let line = "40 30 0:36 / /mnt/my\\040cgroups rw shared:9 master:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_of_kind(line, "cgroup2"), Some("/mnt/my cgroups".into()));
    }

    #[test]
    fn a_folder_of_another_file_system_is_not_a_cgroup() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = CgroupRoot::find(Some(folder.path())).expect_err("not a cgroup");
        assert!(matches!(error, Error::NotCgroup2(..)), "{error}");
    }
}
