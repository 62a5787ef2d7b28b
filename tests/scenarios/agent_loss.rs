//! What becomes of new connections when the agent is gone, as it was told to.

use crate::stage::{Family, Stage, families, shop_route};
use anyhow::Result;
use weir_tests::{report::Report, wait};

families!(with_bypass_connections_are_left_alone_when_the_agent_is_gone);

fn with_bypass_connections_are_left_alone_when_the_agent_is_gone(family: Family) -> Result<()> {
    lose("bypass", family, |report| report.answered("untouched") == 1)
}

families!(with_reject_connections_are_refused_when_the_agent_is_gone);

fn with_reject_connections_are_refused_when_the_agent_is_gone(family: Family) -> Result<()> {
    lose("reject", family, |report| report.refused() == 1)
}

/// Kills an agent with a policy, waits for what becomes of connections, and starts it again.
fn lose(policy: &str, family: Family, lost: impl Fn(&Report) -> bool) -> Result<()> {
    let options = format!("--on-agent-loss {policy} --agent-lost-after 2s");
    let mut stage = Stage::with_options(&shop_route(&[("shop/a", 80, 1)]), &options)?;
    let _servers = stage.serve_shop(family)?;
    let _untouched = stage.serve_untouched(family.frontend())?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 20)?.answered_by("a/"), 20, "while the agent is alive");
    stage.agent.kill_9()?;
    wait::until("the policy", wait::SOON, || stage.connect(&dial, 1).ok().filter(&lost))?;
    stage.agent.restart()?;
    assert_eq!(stage.connect(&dial, 20)?.answered_by("a/"), 20, "when it is back");
    Ok(())
}
