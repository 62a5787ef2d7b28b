//! Which steps a purpose needs on a machine. Pure: looks at a [`System`], touches nothing.

use std::collections::BTreeSet;
use thiserror::Error;

/// What a machine is to be prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Purpose {
    /// `cargo xtask build`.
    Build,
    /// `cargo xtask demo`.
    Demo,
    /// `cargo xtask test` and `cargo xtask vm`.
    Test,
    /// `cargo xtask bench`.
    Bench,
    /// `cargo xtask cluster`.
    Cluster,
    /// `cargo xtask ci`.
    Ci,
}

/// A machine, as far as it matters here.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// Where programs can be had from.
    pub(crate) distribution: Distribution,
    /// Programs of [`PROGRAMS`] that are there.
    pub(crate) programs: BTreeSet<&'static str>,
    /// LLVM 22 with its headers.
    pub(crate) has_llvm: bool,
    /// A bpf-linker that runs and is new enough.
    pub(crate) has_linker: bool,
    /// A core library for BPF, or its source, in the toolchain that was chosen.
    pub(crate) has_core: bool,
    /// Whether rustup can add to the toolchain.
    pub(crate) has_rustup: bool,
    /// cargo-deny.
    pub(crate) has_deny: bool,
    /// The compiler for the kernel programs.
    pub(crate) toolchain: Toolchain,
}

/// Where programs can be had from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Debian and its relatives.
    Apt,
    /// One that this command does not know, by the name it gives itself.
    Unknown(String),
}

/// The compiler for the kernel programs; `WEIR_BPF_TOOLCHAIN` chooses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The one that builds the agent.
    Own,
    /// Debian's.
    Debian,
    /// The user's, by its name in rustup.
    Named(String),
}

/// A program that comes in a package of the distribution.
#[derive(Debug)]
pub(crate) struct Program {
    /// The command's name.
    pub(crate) name: &'static str,
    /// The package in Debian.
    pub(crate) package: &'static str,
    /// What it is for.
    pub(crate) why: &'static str,
    needed_by: &'static [Purpose],
}

const WITH_NAMESPACES: &[Purpose] = &[Purpose::Demo, Purpose::Test, Purpose::Bench, Purpose::Cluster, Purpose::Ci];
const WITH_CLUSTER: &[Purpose] = &[Purpose::Cluster];

/// A program that is not on the search path, where Debian puts it.
const BRIDGE: &str = "/usr/lib/cni/bridge";

/// Programs that are looked for by name, so that it does not matter who installed them.
pub(crate) const PROGRAMS: [Program; 9] = [
    Program { name: "ip", package: "iproute2", why: "makes network namespaces", needed_by: WITH_NAMESPACES },
    Program {
        name: "qemu-system-x86_64",
        package: "qemu-system-x86",
        why: "boots other kernels",
        needed_by: &[Purpose::Test, Purpose::Ci],
    },
    Program {
        name: "nft",
        package: "nftables",
        why: "is measured beside Weir, and is what kube-proxy leads Services with",
        needed_by: &[Purpose::Bench, Purpose::Cluster],
    },
    Program { name: "haproxy", package: "haproxy", why: "is measured beside Weir", needed_by: &[Purpose::Bench] },
    // The module is a package of its own, which depends on the server.
    Program {
        name: "nginx",
        package: "libnginx-mod-stream",
        why: "is measured beside Weir",
        needed_by: &[Purpose::Bench],
    },
    Program {
        name: "containerd",
        package: "containerd",
        why: "runs the pods of the test cluster",
        needed_by: WITH_CLUSTER,
    },
    Program { name: "runc", package: "runc", why: "starts the pods of the test cluster", needed_by: WITH_CLUSTER },
    Program {
        name: BRIDGE,
        package: "containernetworking-plugins",
        why: "connects the pods of the test cluster",
        needed_by: WITH_CLUSTER,
    },
    Program {
        name: "go",
        package: "golang-go",
        why: "builds Kubernetes for the test cluster",
        needed_by: WITH_CLUSTER,
    },
];

/// A package of the distribution, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its name in Debian.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) why: &'static str,
}

/// One thing to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Packages of the distribution.
    Packages(Vec<Package>),
    /// The source of Rust's core library, by rustup, for the toolchain named or the own one.
    RustSource(Option<String>),
    /// Debian's compiler with a core library for BPF.
    DebianRust,
    /// The linker for BPF.
    Linker,
    /// The check of dependencies.
    Deny,
}

/// What cannot be planned.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The packages have to be found by the user.
    #[error(
        "this machine ({distribution}) has no apt-get, so these must be installed by hand, then run this again:{list}"
    )]
    ByHand {
        /// The name that the distribution gives itself.
        distribution: String,
        /// One line a thing.
        list: String,
    },
    /// A toolchain without rustup and without Debian.
    #[error("WEIR_BPF_TOOLCHAIN is `{0}`, and only rustup knows toolchains by name: install rustup, or unset it")]
    NoRustup(String),
}

/// Debian's compiler that can make BPF code.
pub(crate) const DEBIAN_RUST: [Package; 2] = [
    Package { name: "rustc-web", why: "compiles the kernel programs" },
    Package { name: "libstd-rust-web-dev-bpf", why: "is Rust's core library for BPF" },
];

const LLVM: Package = Package { name: "llvm-22-dev", why: "bpf-linker is built with it" };

/// Lists what is missing, in the order in which it is to be installed.
///
/// # Errors
///
/// If something is missing that this machine has no known source for.
pub(crate) fn plan(purpose: Purpose, system: &System) -> Result<Vec<Step>, Refusal> {
    let mut packages: Vec<Package> = PROGRAMS
        .iter()
        .filter(|program| program.needed_by.contains(&purpose) && !system.programs.contains(program.name))
        .map(|program| Package { name: program.package, why: program.why })
        .collect();
    if !system.has_linker && !system.has_llvm {
        packages.push(LLVM);
    }
    let mut steps = Vec::new();
    if !system.has_core {
        steps.push(match &system.toolchain {
            Toolchain::Own if system.has_rustup => Step::RustSource(None),
            Toolchain::Own | Toolchain::Debian => Step::DebianRust,
            Toolchain::Named(name) if system.has_rustup => Step::RustSource(Some(name.clone())),
            Toolchain::Named(name) => return Err(Refusal::NoRustup(name.clone())),
        });
    }
    if !system.has_linker {
        steps.push(Step::Linker);
    }
    if purpose == Purpose::Ci && !system.has_deny {
        steps.push(Step::Deny);
    }
    by_hand(system, &packages, &steps)?;
    if !packages.is_empty() {
        steps.insert(0, Step::Packages(packages));
    }
    Ok(steps)
}

/// Refuses what needs packages where there is no apt.
pub(crate) fn by_hand(system: &System, packages: &[Package], steps: &[Step]) -> Result<(), Refusal> {
    let Distribution::Unknown(distribution) = &system.distribution else { return Ok(()) };
    let mut wanted = packages.to_vec();
    if steps.contains(&Step::DebianRust) {
        wanted.extend(DEBIAN_RUST);
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let line = |package: &Package| format!("\n  - what Debian calls {}: {}", package.name, package.why);
    let mut list: String = wanted.iter().map(line).collect();
    if wanted.contains(&LLVM) {
        list.push_str("\n    (or a bpf-linker 0.13 or newer of your own on the search path)");
    }
    Err(Refusal::ByHand { distribution: distribution.clone(), list })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> System {
        System {
            distribution: Distribution::Apt,
            programs: PROGRAMS.iter().map(|program| program.name).collect(),
            has_llvm: true,
            has_linker: true,
            has_core: true,
            has_rustup: true,
            has_deny: true,
            toolchain: Toolchain::Own,
        }
    }

    fn bare() -> System {
        System {
            programs: BTreeSet::new(),
            has_llvm: false,
            has_linker: false,
            has_core: false,
            has_deny: false,
            ..complete()
        }
    }

    fn names(steps: &[Step]) -> Vec<&'static str> {
        let packages = steps.iter().filter_map(|step| match step {
            Step::Packages(packages) => Some(packages),
            Step::RustSource(_) | Step::DebianRust | Step::Linker | Step::Deny => None,
        });
        packages.flatten().map(|package| package.name).collect()
    }

    #[test]
    fn a_complete_machine_needs_nothing() {
        for purpose in [Purpose::Build, Purpose::Demo, Purpose::Test, Purpose::Bench, Purpose::Cluster, Purpose::Ci] {
            assert_eq!(plan(purpose, &complete()), Ok(vec![]), "{purpose:?}");
        }
    }

    #[test]
    fn a_bare_machine_gets_packages_before_what_is_built_with_them() {
        let steps = plan(Purpose::Ci, &bare()).unwrap();
        assert_eq!(names(&steps), ["iproute2", "qemu-system-x86", "llvm-22-dev"]);
        assert!(matches!(steps[0], Step::Packages(_)));
        assert_eq!(steps[1..], [Step::RustSource(None), Step::Linker, Step::Deny]);
    }

    #[test]
    fn a_build_needs_no_programs_of_the_tests() {
        assert_eq!(names(&plan(Purpose::Build, &bare()).unwrap()), ["llvm-22-dev"]);
    }

    #[test]
    fn programs_to_compare_with_come_only_for_the_bench() {
        let system = System { programs: BTreeSet::from(["ip"]), ..complete() };
        assert_eq!(names(&plan(Purpose::Bench, &system).unwrap()), ["nftables", "haproxy", "libnginx-mod-stream"]);
        assert_eq!(plan(Purpose::Demo, &system), Ok(vec![]));
    }

    #[test]
    fn what_runs_pods_comes_only_for_the_cluster() {
        let system = System { programs: BTreeSet::from(["ip"]), ..complete() };
        let packages = ["nftables", "containerd", "runc", "containernetworking-plugins", "golang-go"];
        assert_eq!(names(&plan(Purpose::Cluster, &system).unwrap()), packages);
    }

    #[test]
    fn a_linker_of_ones_own_needs_no_llvm() {
        let system = System { has_llvm: false, ..complete() };
        assert_eq!(plan(Purpose::Build, &system), Ok(vec![]));
    }

    #[test]
    fn without_rustup_the_core_library_is_debians() {
        let system = System { has_core: false, has_rustup: false, ..complete() };
        assert_eq!(plan(Purpose::Build, &system), Ok(vec![Step::DebianRust]));
    }

    #[test]
    fn a_toolchain_of_ones_own_gets_its_own_source() {
        let own = Toolchain::Named("nightly".to_owned());
        let system = System { has_core: false, toolchain: own.clone(), ..complete() };
        assert_eq!(plan(Purpose::Build, &system), Ok(vec![Step::RustSource(Some("nightly".to_owned()))]));
        let system = System { has_core: false, has_rustup: false, toolchain: own, ..complete() };
        assert_eq!(plan(Purpose::Build, &system), Err(Refusal::NoRustup("nightly".to_owned())));
    }

    #[test]
    fn debians_compiler_can_be_asked_for() {
        let system = System { has_core: false, toolchain: Toolchain::Debian, ..complete() };
        assert_eq!(plan(Purpose::Build, &system), Ok(vec![Step::DebianRust]));
    }

    #[test]
    fn an_unknown_distribution_gets_a_list() {
        let distribution = Distribution::Unknown("Plan 10".to_owned());
        let system = System { distribution: distribution.clone(), ..bare() };
        let message = plan(Purpose::Test, &system).unwrap_err().to_string();
        for part in ["(Plan 10)", "qemu-system-x86: boots", "llvm-22-dev: ", "a bpf-linker 0.13 or newer of your own"] {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
        // What comes by rustup and cargo can be had everywhere.
        let system = System { distribution, has_core: false, has_deny: false, ..complete() };
        assert_eq!(plan(Purpose::Ci, &system), Ok(vec![Step::RustSource(None), Step::Deny]));
    }
}
