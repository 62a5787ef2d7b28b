//! A client that is a backend of the Service it dials may reach itself.

use crate::stage::{Family, PORT, Stage, WEB_IPS, families, network};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    manifest::{Manifest, Route},
    server::{Behaviour, Server},
};

families!(a_client_can_be_its_own_backend);

fn a_client_can_be_its_own_backend(family: Family) -> Result<()> {
    let manifest = Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", PORT)])
        .service("shop/a", &[], &[("http", PORT)])
        .endpoints("shop/a", "http", PORT, &["10.100.0.2", "fd00:100:0::2", "10.201.0.1", "fd00:201::1"])
        .route(&Route { policy: Some("round-robin"), ..Route::new("shop/web", "shop/web", &[("shop/a", PORT, 1)]) });
    let stage = Stage::on(network(1)?, &manifest, "")?;
    let own = match family {
        Family::V4 | Family::Mapped => "10.100.0.2",
        Family::V6 => "fd00:100::2",
    };
    let _own = Server::tcp(stage.net.client(0), SocketAddr::new(own.parse()?, PORT), "itself", Behaviour::Greet)?;
    let _other = stage.serve(family, "other", &[1])?;
    let report = stage.connect(&family.dial_frontend(), 40)?;
    assert_eq!((report.answered("itself"), report.answered("other/1")), (20, 20), "{report:?}");
    Ok(())
}
