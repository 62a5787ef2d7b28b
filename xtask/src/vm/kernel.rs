//! A kernel that is not the host's: Debian's, downloaded once and kept in the checkout's cache.

use crate::{
    process::{self, answer, find},
    setup,
    tally::number_before,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A bootable kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Its release, for instance `6.1.0-57-cloud-amd64`.
    pub(super) release: String,
    /// The image.
    pub(super) image: PathBuf,
    /// Modules that the agent needs, in the order in which they are to be loaded.
    pub(super) modules: Vec<PathBuf>,
}

const IMAGE: &str = "vmlinuz-";
/// What ends connections (`sock_diag`); a machine with `modprobe` loads them when they are asked for. The
/// second needs the first.
const MODULES: [&str; 2] = ["inet_diag.ko", "tcp_diag.ko"];

/// Finds a kernel of a series (`6.1`) in the cache, or downloads it. `None` if no package source has it.
///
/// # Errors
///
/// If the download or the unpacking fails.
pub(super) fn get(series: &str, cache: &Path) -> Result<Option<Kernel>> {
    let folder = cache.join("vm").join(series);
    if let Some(kernel) = cached(&folder) {
        return Ok(Some(kernel));
    }
    if find("apt-get").is_none() || find("dpkg-deb").is_none() {
        return Ok(None);
    }
    let mut package = newest(series);
    if package.is_none() {
        setup::update_package_lists()?;
        package = newest(series);
    }
    let Some(package) = package else { return Ok(None) };
    eprintln!("vm: {package} is downloaded to {}", folder.display());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    download(&package, &folder)?;
    Ok(Some(cached(&folder).with_context(|| format!("{package} has no kernel image in it"))?))
}

fn cached(folder: &Path) -> Option<Kernel> {
    let mut images: Vec<String> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(IMAGE))
        .collect();
    images.sort();
    let image = images.pop()?;
    let modules = MODULES.map(|name| folder.join(name));
    // A cache of before they were kept is filled anew.
    if !modules.iter().all(|module| module.exists()) {
        return None;
    }
    let release = image.trim_start_matches(IMAGE).to_owned();
    Some(Kernel { release, image: folder.join(&image), modules: modules.into() })
}

/// Names the newest package of a series that the package sources have.
fn newest(series: &str) -> Option<String> {
    let pattern = format!("^linux-image-{}\\.0-[0-9]+-cloud-amd64$", series.replace('.', "\\."));
    let found = answer(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
    pick_newest(&found)
}

fn pick_newest(found: &str) -> Option<String> {
    let names = found.lines().filter_map(|line| line.split_whitespace().next());
    let revision = |name: &str| number_before(&name.replace('-', " "), "cloud");
    names.max_by_key(|name| revision(name)).map(str::to_owned)
}

fn download(package: &str, folder: &Path) -> Result<()> {
    let scratch = folder.join("download");
    // What an interrupted download left.
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    // As root, apt would give up its rights, and then could not write into a checkout.
    let arguments = ["-q", "-o", "APT::Sandbox::User=root", "download", package];
    process::run(Command::new("apt-get").args(arguments).current_dir(&scratch))?;
    let archive = fs::read_dir(&scratch)?.filter_map(|entry| Some(entry.ok()?.path())).next();
    let archive = archive.context("apt-get has downloaded nothing")?;
    process::run(Command::new("dpkg-deb").arg("-x").arg(archive).arg(&scratch))?;
    let releases = fs::read_dir(scratch.join("lib/modules")).context("the package has no folder lib/modules")?;
    let release = releases.filter_map(|entry| Some(entry.ok()?.path())).next().context("the package has no modules")?;
    for module in MODULES {
        let from = release.join("kernel/net/ipv4").join(module);
        fs::rename(&from, folder.join(module)).with_context(|| format!("the package has no module {module}"))?;
    }
    for entry in fs::read_dir(scratch.join("boot")).context("the package has no folder boot")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(IMAGE) {
            // The image comes last and whole: a folder with an image is complete.
            fs::rename(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    fs::remove_dir_all(&scratch).context("cannot remove what was unpacked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_package_is_found_by_number() {
        let found = "linux-image-6.1.0-9-cloud-amd64 - Linux 6.1\nlinux-image-6.1.0-57-cloud-amd64 - Linux 6.1\n\
                     linux-image-6.1.0-48-cloud-amd64 - Linux 6.1\n";
        assert_eq!(pick_newest(found).as_deref(), Some("linux-image-6.1.0-57-cloud-amd64"));
        assert_eq!(pick_newest(""), None);
    }

    #[test]
    fn a_cached_kernel_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        assert!(cached(folder.path()).is_none());
        fs::write(folder.path().join("vmlinuz-6.1.0-57-cloud-amd64"), "").unwrap();
        assert!(cached(folder.path()).is_none(), "without its modules");
        MODULES.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        assert_eq!(cached(folder.path()).unwrap().release, "6.1.0-57-cloud-amd64");
    }
}
