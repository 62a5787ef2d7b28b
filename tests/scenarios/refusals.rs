//! An agent that cannot work says why, and what to do.

use crate::stage::{Stage, scenario, shop_route};
use anyhow::Result;
use std::path::Path;
use weir_tests::{agent::Launch, cgroup::Cgroup, config::ConfigDir, leftovers, pin_dir::PinDir};

scenario!(a_second_agent_is_refused_and_the_first_goes_on);

fn a_second_agent_is_refused_and_the_first_goes_on() -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let second = Launch::new(&stage.config, &stage.cgroup, &stage.pins)?;
    let (status, log) = second.run_to_end()?;
    assert!(!status.success());
    assert!(log.contains("already running") || log.contains("another agent"), "{log}");
    assert!(stage.agent.page("/readyz").is_ok());
    Ok(())
}

scenario!(a_folder_that_is_no_cgroup_is_named);

fn a_folder_that_is_no_cgroup_is_named() -> Result<()> {
    let (status, log) = refused(|launch| launch.cgroup_root(Path::new("/etc")))?;
    assert!(!status);
    assert!(log.contains("/etc") && log.contains("cgroup"), "{log}");
    let (status, log) = refused(|launch| launch.cgroup_root(Path::new("/nowhere/at/all")))?;
    assert!(!status);
    assert!(log.contains("/nowhere/at/all"), "{log}");
    Ok(())
}

scenario!(a_pin_folder_outside_of_a_bpffs_is_named);

fn a_pin_folder_outside_of_a_bpffs_is_named() -> Result<()> {
    // A folder whose parent is a plain file: nothing can be mounted or made there.
    let file = leftovers::folder("file");
    std::fs::write(&file, "")?;
    let pins = file.join("weir");
    let outcome = refused(|launch| launch.pin_dir(&pins));
    std::fs::remove_file(&file)?;
    let (status, log) = outcome?;
    assert!(!status);
    assert!(log.contains(&pins.display().to_string()) || log.contains(&file.display().to_string()), "{log}");
    Ok(())
}

scenario!(without_root_the_missing_right_is_named);

fn without_root_the_missing_right_is_named() -> Result<()> {
    let (status, log) = refused(|launch| launch.as_user(65_534))?;
    assert!(!status);
    assert!(log.contains("root") || log.contains("CAP_BPF"), "{log}");
    Ok(())
}

/// Runs an agent that must refuse to work; returns whether it ended well, and what it said.
fn refused(change: impl FnOnce(Launch) -> Launch) -> Result<(bool, String)> {
    let config = ConfigDir::with(shop_route(&[("shop/a", 80, 1)]))?;
    let cgroup = Cgroup::new("refused")?;
    let pins = PinDir::new()?;
    let (status, log) = change(Launch::new(&config, &cgroup, &pins)?).run_to_end()?;
    Ok((status.success(), log))
}
