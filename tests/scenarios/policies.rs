//! How an endpoint is chosen inside a leg. Whatever the policy, the legs' shares stay exact, except
//! with client-hash, where a client keeps its leg.

use crate::stage::{Family, Stage, WEB_IPS, addresses, families, network};
use anyhow::Result;
use weir_tests::{
    manifest::{Manifest, Route},
    share,
};

const WEIGHTS: [(&str, u16, u32); 2] = [("shop/a", 80, 3), ("shop/b", 80, 1)];

families!(round_robin_takes_the_endpoints_in_turn);

fn round_robin_takes_the_endpoints_in_turn(family: Family) -> Result<()> {
    let stage = Stage::set(&manifest("round-robin", &[("shop/a", 80, 1)], &[1, 2, 3, 4]))?;
    let _servers = stage.serve(family, "a", &[1, 2, 3, 4])?;
    let report = stage.connect(&family.dial_frontend(), 40)?;
    for host in 1..=4 {
        assert_eq!(report.answered(&format!("a/{host}")), 10, "{report:?}");
    }
    Ok(())
}

families!(random_uses_every_endpoint_and_keeps_the_shares);

fn random_uses_every_endpoint_and_keeps_the_shares(family: Family) -> Result<()> {
    spread("random", family)
}

families!(power_of_two_choices_uses_every_endpoint_and_keeps_the_shares);

fn power_of_two_choices_uses_every_endpoint_and_keeps_the_shares(family: Family) -> Result<()> {
    spread("power-of-two-choices", family)
}

fn spread(policy: &str, family: Family) -> Result<()> {
    let stage = Stage::set(&manifest(policy, &WEIGHTS, &[1, 2, 3, 4]))?;
    let _a = stage.serve(family, "a", &[1, 2, 3, 4])?;
    let _b = stage.serve(family, "b", &[11])?;
    let report = stage.connect(&family.dial_frontend().workers(2), 400)?;
    share::check(400, &[("a", 3, report.answered_by("a/")), ("b", 1, report.answered_by("b/"))])?;
    for host in 1..=4 {
        // 75 on average; less than 30 happens once in a thousand million runs.
        assert!(report.answered(&format!("a/{host}")) > 30, "{report:?}");
    }
    Ok(())
}

families!(power_of_two_choices_avoids_the_busy_endpoint);

fn power_of_two_choices_avoids_the_busy_endpoint(family: Family) -> Result<()> {
    let stage = Stage::set(&manifest("power-of-two-choices", &[("shop/a", 80, 1)], &[1]))?;
    let _servers = stage.serve(family, "a", &[1, 2, 3])?;
    let mut busy = stage.client(0)?.hold(&family.dial_frontend(), 50)?;
    assert_eq!(busy.report()?.answered("a/1"), 50);
    stage.apply(&manifest("power-of-two-choices", &[("shop/a", 80, 1)], &[1, 2, 3]))?;
    let report = stage.connect(&family.dial_frontend(), 60)?;
    assert_eq!(report.answered("a/1"), 0, "its 50 open connections speak against it: {report:?}");
    Ok(())
}

families!(with_client_hash_a_client_stays_and_few_move);

fn with_client_hash_a_client_stays_and_few_move(family: Family) -> Result<()> {
    const CLIENTS: usize = 24;
    let stage = Stage::on(network(CLIENTS)?, &manifest("client-hash", &WEIGHTS, &[1, 2, 3, 4]), "")?;
    let _a = stage.serve(family, "a", &[1, 2, 3, 4, 5])?;
    let _b = stage.serve(family, "b", &[11])?;
    let servers = || -> Result<Vec<String>> {
        let mut all = Vec::new();
        for number in 0..CLIENTS {
            let report = stage.client(number)?.connect(&family.dial_frontend(), 4)?;
            assert_eq!(report.answers.len(), 1, "client {number} has one server: {report:?}");
            all.extend(report.answers.into_keys());
        }
        Ok(all)
    };
    let first = servers()?;
    assert_eq!(servers()?, first, "nobody moves without a reason");
    let used: std::collections::BTreeSet<&String> = first.iter().collect();
    assert!(used.len() >= 3, "{CLIENTS} clients spread over endpoints: {used:?}");

    stage.apply(&manifest("client-hash", &WEIGHTS, &[1, 2, 3, 4, 5]))?;
    let second = servers()?;
    for (number, (before, after)) in first.iter().zip(&second).enumerate() {
        assert!(before == after || after == "a/5", "client {number} moved from {before} to {after}");
    }
    let moved = first.iter().zip(&second).filter(|(before, after)| before != after).count();
    assert!(moved <= CLIENTS / 2, "{moved} of {CLIENTS} clients moved to one endpoint of five");
    Ok(())
}

fn manifest(policy: &str, legs: &[(&str, u16, u32)], hosts: &[u8]) -> Manifest {
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .service("shop/a", &[], &[("http", 80)])
        .service("shop/b", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &addresses(hosts))
        .endpoints("shop/b", "http", 80, &addresses(&[11]))
        .route(&Route { policy: Some(policy), ..Route::new("shop/web", "shop/web", legs) })
}
