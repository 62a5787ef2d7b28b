//! Pins: `PIN_DIR/v<ABI>/{maps,links}/NAME`. What is under another ABI version is never touched.

use super::{Bpffs, Error, sys};
use aya::maps::MapInfo;
use nix::fcntl::{Flock, FlockArg};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};
use weir_common::abi::{
    ABI_VERSION,
    maps::{MAPS, MapSpec},
};

/// The folders of the pins, locked against a second agent while this lives.
pub struct Pins {
    maps: PathBuf,
    links: PathBuf,
    _lock: Flock<File>,
}

impl Pins {
    /// Makes the folders (and bpffs, where there is none) and takes the lock.
    ///
    /// # Errors
    ///
    /// If that is not possible, or another agent has the lock.
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let bpffs = Bpffs::make(pin_dir)?;
        if let Some(at) = &bpffs.mounted {
            tracing::info!(at = %at.display(), "mounted bpffs, because there was none");
        }
        let lock = lock(pin_dir)?;
        let version = pin_dir.join(format!("v{ABI_VERSION}"));
        let (maps, links) = (version.join("maps"), version.join("links"));
        for folder in [&maps, &links] {
            fs::create_dir_all(folder).map_err(|error| Error::Bpffs {
                path: pin_dir.to_owned(),
                what: format!("cannot make {}: {error}", folder.display()),
            })?;
        }
        Ok(Self { maps, links, _lock: lock })
    }

    /// Returns the path of a map's pin.
    pub(super) fn map(&self, name: &str) -> PathBuf {
        self.maps.join(name)
    }

    /// Returns the path of a link's pin.
    pub(super) fn link(&self, name: &str) -> PathBuf {
        self.links.join(name)
    }

    /// Checks that every pinned map is one that this version would make.
    pub(super) fn check_maps(&self) -> Result<(), Error> {
        MAPS.iter().try_for_each(|spec| check(&self.map(spec.name), spec))
    }
}

fn lock(pin_dir: &Path) -> Result<Flock<File>, Error> {
    let failed = |error: io::Error| Error::Bpffs { path: pin_dir.to_owned(), what: format!("cannot lock: {error}") };
    let folder = File::open(pin_dir).map_err(failed)?;
    Flock::lock(folder, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        if errno == nix::Error::EWOULDBLOCK { Error::AlreadyRunning(pin_dir.to_owned()) } else { failed(errno.into()) }
    })
}

/// aya reuses a pin of any shape, so the shape is checked before.
fn check(path: &Path, spec: &MapSpec) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    let foreign = |what: String| Error::ForeignPin { path: path.to_owned(), what };
    let info = MapInfo::from_pin(path).map_err(|error| foreign(error.to_string()))?;
    let kind = info.map_type().map_err(|error| foreign(error.to_string()))? as u32;
    let wanted = [
        ("type", spec.kind as u32),
        ("key size", spec.key as u32),
        ("value size", spec.value as u32),
        ("capacity", spec.capacity),
    ];
    let got = [kind, info.key_size(), info.value_size(), info.max_entries()];
    match wanted.into_iter().zip(got).find(|((_, wanted), got)| wanted != got) {
        Some(((what, wanted), got)) => Err(foreign(format!("{what} {got} instead of {wanted}"))),
        None => Ok(()),
    }
}

/// Removes all pins of every ABI version, which detaches the programs, and returns what it removed.
///
/// # Errors
///
/// If an agent is running, or a pin cannot be removed.
pub fn clean(pin_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    if !pin_dir.exists() {
        return Ok(Vec::new());
    }
    if !super::places::is_bpffs(pin_dir) {
        return Err(Error::Bpffs {
            path: pin_dir.to_owned(),
            what: "not on bpffs: nothing of weir is pinned there".to_owned(),
        });
    }
    let _lock = lock(pin_dir)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Error::Bpffs { what: format!("cannot remove {}: {error}", path.display()), path }
    };
    let mut removed = Vec::new();
    for version in entries(pin_dir).map_err(failed(pin_dir))? {
        if !is_version(&version) {
            continue;
        }
        // Links first: a program whose maps are gone from bpffs still works, but nobody could steer it.
        for kind in ["links", "maps"] {
            let folder = version.join(kind);
            if !folder.exists() {
                continue;
            }
            for pin in entries(&folder).map_err(failed(&folder))? {
                fs::remove_file(&pin).map_err(failed(&pin))?;
                removed.push(pin);
            }
            fs::remove_dir(&folder).map_err(failed(&folder))?;
        }
        fs::remove_dir(&version).map_err(failed(&version))?;
    }
    // The folder itself stays if it is a mount point or holds what is not ours.
    let _ = fs::remove_dir(pin_dir);
    Ok(removed)
}

fn is_version(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix('v')).is_some_and(|number| number.parse::<u32>().is_ok())
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    Ok(entries)
}

/// Opens the pin of a link, if it is there.
pub(super) fn open_link(path: &Path) -> io::Result<Option<std::os::fd::OwnedFd>> {
    match sys::open_pin(path) {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
