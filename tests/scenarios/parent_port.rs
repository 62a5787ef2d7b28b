//! A parentRef with a port or a section name is about that port only; other ports are left alone.

use crate::stage::{Family, SERVICE_NET, Stage, WEB_IPS, addresses, families};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::manifest::{Manifest, Route};

families!(a_route_for_one_port_leaves_the_others_alone);

fn a_route_for_one_port_leaves_the_others_alone(family: Family) -> Result<()> {
    let base = Route::new("shop/web", "shop/web", &[("shop/a", 80, 1)]);
    let stage = Stage::set(&manifest(&Route { port: Some(81), ..base.clone() }))?;
    let _servers = stage.serve(family, "a", &[1])?;
    let http = SocketAddr::new(family.address(SERVICE_NET, 10), 80);
    let admin = SocketAddr::new(family.address(SERVICE_NET, 10), 81);
    let _untouched = [stage.serve_untouched(http)?, stage.serve_untouched(admin)?];
    let goes = |address, to| -> Result<()> {
        let report = stage.connect(&family.dial(address), 10)?;
        assert_eq!(report.answered_by(to), 10, "{address}: {report:?}");
        Ok(())
    };
    goes(admin, "a/")?;
    goes(http, "untouched")?;
    stage.apply(&manifest(&Route { section: Some("http"), ..base.clone() }))?;
    goes(http, "a/")?;
    goes(admin, "untouched")?;
    stage.apply(&manifest(&base))?;
    goes(http, "a/")?;
    goes(admin, "a/")
}

fn manifest(route: &Route<'_>) -> Manifest {
    Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80), ("admin", 81)])
        .service("shop/a", &[], &[("http", 80)])
        .endpoints("shop/a", "http", 80, &addresses(&[1]))
        .route(route)
}
