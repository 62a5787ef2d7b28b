//! Keeps the programs small for the kernel's verifier. Older kernels follow more paths than the one
//! here, and all of them give up after a million instructions.

use std::{fs, path::PathBuf};
use weir::bpf::{Kernel, Options};
use weir_common::abi::settings::{Ejection, OnAgentLoss, Settings};

/// Most instructions that the verifier may follow, by program. A program that needs more has grown
/// branches that should be looked at before the number is raised.
const BUDGETS: [(&str, u32); 6] = [
    ("weir_connect4", 50_000),
    ("weir_connect6", 50_000),
    ("weir_getpeername4", 200),
    ("weir_getpeername6", 200),
    ("weir_sockops", 10_000),
    ("weir_egress", 200_000),
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
    let mut kernel = Kernel::open(&options, settings).expect("programs that load");
    kernel.can_verify().expect("a kernel that can verify");
    kernel.set_verifying(true).expect("the program attaches");
    for attachment in kernel.attachments() {
        let (_, budget) =
            BUDGETS.into_iter().find(|(name, _)| *name == attachment.name).expect("a budget for each program");
        let verified = attachment.verified.expect("the kernel's count");
        println!("{}: {verified}", attachment.name);
        assert!(verified <= budget, "{}: {verified} instructions followed, {budget} allowed", attachment.name);
    }
    assert_eq!(kernel.attachments().len(), BUDGETS.len());
}
