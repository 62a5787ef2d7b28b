//! What is there already. Only looks; takes well under a second and no network.

use super::plan::{Distribution, PROGRAMS, System, Toolchain};
use crate::process::{USUAL_GO, answer, find};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Where Debian puts LLVM 22.
pub(super) const LLVM: &str = "/usr/lib/llvm-22";

/// Where Debian's `rustc-web` has its compiler.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// The oldest bpf-linker that is known to work.
const LINKER: (u64, u64) = (0, 13);

/// The oldest compiler that builds the workspace; `rust-version` of the workspace says the same.
pub(super) const RUST: (u64, u64) = (1, 95);

/// Looks at this machine.
pub(super) fn system() -> System {
    let toolchain = toolchain();
    System {
        distribution: distribution(),
        programs: PROGRAMS.iter().map(|program| program.name).filter(|name| is_there(name)).collect(),
        has_llvm: Path::new(LLVM).join("bin/llvm-config").is_file(),
        has_linker: has_linker(),
        has_core: has_core(&toolchain),
        has_rustup: find("rustup").is_some(),
        has_deny: in_cargo_bin("cargo-deny").is_some(),
        toolchain,
    }
}

fn is_there(program: &str) -> bool {
    // Go's own installer does not put it on the search path.
    find(program).is_some() || (program == "go" && Path::new(USUAL_GO).is_file())
}

/// Reads the user's choice of a compiler for the kernel programs.
fn toolchain() -> Toolchain {
    match env::var("WEIR_BPF_TOOLCHAIN").unwrap_or_default().as_str() {
        "" => Toolchain::Own,
        "debian" => Toolchain::Debian,
        name => Toolchain::Named(name.to_owned()),
    }
}

fn distribution() -> Distribution {
    if find("apt-get").is_some() {
        return Distribution::Apt;
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Distribution::Unknown(name.map_or("unknown", |name| name.trim_matches('"')).to_owned())
}

/// Finds a program that `cargo install` puts somewhere.
fn in_cargo_bin(program: &str) -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")));
    find(program).or_else(|| home.map(|home| home.join("bin").join(program)).filter(|path| path.is_file()))
}

/// A linker that is there but does not start (its LLVM may be gone) does not count.
pub(super) fn has_linker() -> bool {
    let version = in_cargo_bin("bpf-linker").and_then(|linker| answer(Command::new(linker).arg("--version")));
    version.as_deref().and_then(version_of).is_some_and(|version| version >= LINKER)
}

/// Whether a toolchain can compile for BPF.
pub(super) fn has_core(toolchain: &Toolchain) -> bool {
    let own = || {
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "sysroot"]);
        answer(&mut rustc)
    };
    match toolchain {
        Toolchain::Own => {
            own().is_some_and(|sysroot| has_source(&sysroot) || has_precompiled(&sysroot)) || debian_has_core()
        }
        Toolchain::Debian => debian_has_core(),
        Toolchain::Named(name) => {
            let mut rustc = Command::new("rustup");
            rustc.args(["run", name, "rustc", "--print", "sysroot"]);
            answer(&mut rustc).is_some_and(|sysroot| has_source(&sysroot))
        }
    }
}

fn has_source(sysroot: &str) -> bool {
    Path::new(sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs").is_file()
}

fn has_precompiled(sysroot: &str) -> bool {
    let target = if cfg!(target_endian = "big") { "bpfeb-unknown-none" } else { "bpfel-unknown-none" };
    Path::new(sysroot).join("lib/rustlib").join(target).is_dir()
}

fn debian_has_core() -> bool {
    let ask = |arguments: &[&str]| answer(Command::new(DEBIAN_RUSTC).args(arguments));
    ask(&["--print", "sysroot"]).is_some_and(|sysroot| has_precompiled(&sysroot))
        && ask(&["--version"]).as_deref().and_then(version_of).is_some_and(|version| version >= RUST)
}

/// Reads major and minor number of the first version in a program's or package's words.
pub(super) fn version_of(text: &str) -> Option<(u64, u64)> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_and_packages_write_them() {
        assert_eq!(version_of("bpf-linker 0.13.0"), Some((0, 13)));
        assert_eq!(version_of("rustc 1.96.0 (abcdef 2026-05-25) (built from a source tarball)"), Some((1, 96)));
        assert_eq!(version_of("1.96.0+dfsg1-1~deb12u2"), Some((1, 96)));
        assert_eq!(version_of("no version"), None);
    }

    #[test]
    fn a_toolchain_with_the_source_counts() {
        let sysroot = tempfile::tempdir().unwrap();
        let path = sysroot.path().to_str().unwrap();
        assert!(!has_source(path) && !has_precompiled(path));
        let core = sysroot.path().join("lib/rustlib/src/rust/library/core/src");
        fs::create_dir_all(&core).unwrap();
        fs::write(core.join("lib.rs"), "").unwrap();
        assert!(has_source(path));
    }
}
