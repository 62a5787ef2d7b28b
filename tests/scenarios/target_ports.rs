//! An EndpointSlice's port is found by the name of the Service's port, and may have any number.

use crate::stage::{ENDPOINT_NET, Family, Stage, WEB_IPS, addresses, families};
use anyhow::Result;
use std::net::SocketAddr;
use weir_tests::{
    manifest::{Manifest, Route},
    server::{Behaviour, Server},
};

families!(endpoints_are_dialled_on_their_target_port);

fn endpoints_are_dialled_on_their_target_port(family: Family) -> Result<()> {
    let manifest = Manifest::new()
        .service("shop/web", &WEB_IPS, &[("http", 80)])
        .yaml(
            "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\nspec:\n  clusterIP: None\n  ports:\n  \
             - {name: metrics, port: 9000, targetPort: metrics, protocol: TCP}\n  \
             - {name: http, port: 80, targetPort: web, protocol: TCP}\n",
        )
        .endpoints("shop/a", "http", 8_080, &addresses(&[1]))
        .endpoints("shop/a", "metrics", 9_090, &addresses(&[2]))
        .route(&Route::new("shop/web", "shop/web", &[("shop/a", 80, 1)]));
    let stage = Stage::set(&manifest)?;
    let address = SocketAddr::new(family.address(ENDPOINT_NET, 1), 8_080);
    let _server = Server::tcp(stage.net.backend(0), address, "target", Behaviour::Greet)?;
    let report = stage.connect(&family.dial_frontend(), 10)?;
    assert_eq!(report.answered("target"), 10, "{report:?}");
    Ok(())
}
