//! Files that break, change by parts or are swapped as a mounted ConfigMap: the last good state of
//! what is broken stays, the rest goes on.

use crate::stage::{Family, PORT, SERVICE_NET, Stage, addresses, families, network, shop, shop_route};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    agent::Launch,
    cgroup::Cgroup,
    config::ConfigDir,
    manifest::{Manifest, Route},
    pin_dir::PinDir,
    wait,
};

families!(a_broken_file_keeps_its_last_good_state);

fn a_broken_file_keeps_its_last_good_state(family: Family) -> Result<()> {
    let stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    stage.config.write("main.yaml", "spec: [this is\n  not: {YAML\n")?;
    wait::until("a word about the broken file", wait::SOON, || stage.agent.log().contains("main.yaml").then_some(()))?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("a/"), 10, "the last good state");

    // Another file is applied meanwhile.
    let other = Manifest::new()
        .service("shop/other", &["10.96.0.30", "fd00:96::30"], &[("http", PORT)])
        .service("shop/c", &[], &[("http", PORT)])
        .endpoints("shop/c", "http", PORT, &addresses(&[11]))
        .route(&Route::new("shop/other", "shop/other", &[("shop/c", PORT, 1)]));
    stage.agent.apply(|| stage.config.write("other.yaml", &other))?;
    let address = SocketAddr::new(family.address(SERVICE_NET, 30), PORT);
    assert_eq!(stage.connect(&family.dial(address), 10)?.answered_by("b/"), 10, "the good file");
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("a/"), 10, "and still the last good state");

    stage.apply(&shop_route(&[("shop/b", 80, 1)]))?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("b/"), 10, "mended");
    Ok(())
}

families!(a_new_agent_keeps_what_it_cannot_read);

fn a_new_agent_keeps_what_it_cannot_read(family: Family) -> Result<()> {
    let mut stage = Stage::set(&shop_route(&[("shop/a", 80, 1)]))?;
    let _servers = stage.serve_shop(family)?;
    stage.agent.kill_9()?;
    stage.config.write("main.yaml", "spec: [this is\n  not: {YAML\n")?;
    stage.agent.restart()?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("a/"), 10, "the earlier agent's route");
    stage.apply(&shop_route(&[("shop/b", 80, 1)]))?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("b/"), 10, "mended");
    stage.agent.apply(|| stage.config.remove("main.yaml"))?;
    let _untouched = stage.serve_untouched(family.frontend())?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered("untouched"), 10, "no longer kept");
    Ok(())
}

families!(a_removed_file_takes_its_routes_along);

fn a_removed_file_takes_its_routes_along(family: Family) -> Result<()> {
    let stage = Stage::set(&shop())?;
    let _servers = stage.serve_shop(family)?;
    let _untouched = stage.serve_untouched(family.frontend())?;
    stage.agent.apply(|| stage.config.write_in_place("route.json", ROUTE))?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered_by("a/"), 10);
    stage.agent.apply(|| stage.config.remove("route.json"))?;
    assert_eq!(stage.connect(&family.dial_frontend(), 10)?.answered("untouched"), 10);
    Ok(())
}

families!(a_swapped_config_map_is_followed);

fn a_swapped_config_map_is_followed(family: Family) -> Result<()> {
    let net = network(1)?;
    let cgroup = Cgroup::new("clients")?;
    let pins = PinDir::new()?;
    let config = ConfigDir::new()?;
    config.swap("2026_01", "main.yaml", shop_route(&[("shop/a", 80, 1)]))?;
    let agent = Launch::new(&config, &cgroup, &pins)?.shows_log().start()?;
    let stage = Stage { agent, config, pins, cgroup, net };
    let _servers = stage.serve_shop(family)?;
    let dial = family.dial_frontend();
    assert_eq!(stage.connect(&dial, 10)?.answered_by("a/"), 10);
    for (version, backend) in [("2026_02", "b"), ("2026_03", "a"), ("2026_04", "b")] {
        let name = format!("shop/{backend}");
        let manifest = shop_route(&[(name.as_str(), 80, 1)]);
        stage.agent.apply(|| stage.config.swap(version, "main.yaml", &manifest))?;
        assert_eq!(stage.connect(&dial, 10)?.answered_by(&format!("{backend}/")), 10, "{version}");
    }
    Ok(())
}

/// A route to `shop/a`, as JSON.
const ROUTE: &str = r#"{
  "apiVersion": "gateway.networking.k8s.io/v1",
  "kind": "TCPRoute",
  "metadata": {"name": "web", "namespace": "shop"},
  "spec": {
    "parentRefs": [{"group": "", "kind": "Service", "name": "web"}],
    "rules": [{"backendRefs": [{"name": "a", "port": 80}]}]
  }
}
"#;
