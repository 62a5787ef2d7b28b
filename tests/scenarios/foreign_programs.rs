//! Programs of others on the same hooks stay where they are and go on working, whether they came
//! before Weir or after it, through a restart and through `weir clean`.

use crate::stage::{Family, Stage, families, network, shop_route};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    agent::Launch,
    cgroup::Cgroup,
    config::ConfigDir,
    foreign::{DENIED_PORT, ForeignProgram},
    pin_dir::PinDir,
};

families!(a_program_that_was_there_before_stays);

fn a_program_that_was_there_before_stays(family: Family) -> Result<()> {
    let net = network(1)?;
    let cgroup = Cgroup::new("clients")?;
    let pins = PinDir::new()?;
    let config = ConfigDir::with(shop_route(&[("shop/a", 80, 1)]))?;
    let foreign = ForeignProgram::attach(&cgroup)?;
    let agent = Launch::new(&config, &cgroup, &pins)?.shows_log().start()?;
    let stage = Stage { agent, config, pins, cgroup, net };
    go_through_life(stage, family)?;
    drop(foreign);
    Ok(())
}

families!(a_program_that_comes_later_stays);

fn a_program_that_comes_later_stays(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let foreign = ForeignProgram::attach(&stage.cgroup)?;
    go_through_life(stage, family)?;
    drop(foreign);
    Ok(())
}

/// Checks that both work: now, after a restart, and the foreign one after `weir clean`.
fn go_through_life(mut stage: Stage, family: Family) -> Result<()> {
    let _servers = stage.serve_shop(family)?;
    let denied = family.dial(SocketAddr::new(family.endpoint(1).ip(), DENIED_PORT));
    let both_work = |stage: &Stage, when: &str| -> Result<()> {
        assert_eq!(stage.connect(&denied, 3)?.failed("EPERM"), 3, "the foreign program {when}");
        assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("a/"), 10, "Weir's program {when}");
        Ok(())
    };
    both_work(&stage, "beside each other")?;
    stage.agent.restart()?;
    both_work(&stage, "after a restart")?;
    stage.agent.terminate()?;
    stage.agent.clean()?;
    assert_eq!(stage.connect(&denied, 3)?.failed("EPERM"), 3, "the foreign program after `weir clean`");
    Ok(())
}
