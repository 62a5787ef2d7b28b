//! Keeps the programs small for the kernel's verifier. Older kernels follow more paths than the one
//! here, and all of them give up after a million instructions.

use std::{fs, path::PathBuf};
use weir::bpf::{Kernel, Options};
use weir_common::abi::settings::{Ejection, OnAgentLoss, Settings};

/// Most instructions that the verifier may follow, by program. A program that needs more has grown
/// branches that should be looked at before the number is raised.
const BUDGETS: [(&str, u32); 9] = [
    ("weir_connect4", 50_000),
    ("weir_connect6", 50_000),
    ("weir_dial4", 50_000),
    ("weir_dial6", 50_000),
    ("weir_getpeername4", 200),
    ("weir_getpeername6", 200),
    ("weir_sockops", 10_000),
    ("weir_egress", 200_000),
    ("weir_egress_piece", 200_000),
];

/// A cgroup and a bpffs of the test's own.
struct Places {
    cgroup: PathBuf,
    pins: tempfile::TempDir,
}

impl Places {
    fn make() -> Self {
        let root = weir::bpf::CgroupRoot::find(None).expect("a cgroup2 hierarchy");
        let cgroup = root.path.join(format!("weir-{}-verifier", std::process::id()));
        fs::create_dir(&cgroup).expect("a cgroup");
        Self { cgroup, pins: tempfile::tempdir().expect("a folder") }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // The pins go with their bpffs, the attachments with the pins.
        let _ = nix::mount::umount(self.pins.path());
        let _ = fs::remove_dir(&self.cgroup);
    }
}

#[test]
fn every_program_is_verified_within_its_budget() {
    if !weir_tests::privilege::is_root("loading programs") {
        return;
    }
    let places = Places::make();
    let options = Options { pin_dir: places.pins.path().to_owned(), cgroup_root: Some(places.cgroup.clone()) };
    let settings = |sock| Settings::new(OnAgentLoss::Freeze, 0, Ejection::default(), sock);
    let kernel = Kernel::open(&options, settings).expect("programs that load");
    kernel.can_verify().expect("a kernel that can verify");
    let mut n_programs = 0;
    for (name, verified) in kernel.verified() {
        let (_, budget) = BUDGETS.into_iter().find(|(known, _)| *known == name).expect("a budget for each program");
        let verified = verified.expect("the kernel's count");
        println!("{name}: {verified}");
        assert!(verified <= budget, "{name}: {verified} instructions followed, {budget} allowed");
        n_programs += 1;
    }
    assert_eq!(n_programs, BUDGETS.len());
}
