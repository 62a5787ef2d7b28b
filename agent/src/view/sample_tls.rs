//! A made-up agent with TLSRoutes on both paths, for tests of what people see.

use super::{AcceptorView, NamespaceView, Published};
use crate::{
    compile::{FoundClients, compile, path::Capabilities},
    ir::{self, BackendKey, BackendKind, Desired, RouteKey, RouteKind, Scope},
    resources::ObjectKey,
};
use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use weir_common::{
    abi::tables::{EndpointReadiness, Policy},
    addr::Address,
};

/// The address of its one frontend, port 443.
pub(crate) const ADDRESS: Address = Address::from_v4_octets([10, 0, 0, 2]);

fn key(namespace: &str, name: &str) -> RouteKey {
    RouteKey { kind: RouteKind::Tls, object: ObjectKey::new(namespace, name) }
}

fn service(name: &str) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", name), port: 443 }
}

/// Two routes for everyone that lead to the same, and two for a namespace of which one asks for ALPN.
pub(crate) fn desired() -> Desired {
    let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let leg = |name: &str, weight| ir::Leg { label: format!("shop/{name}:443"), weight, target: Ok(service(name)) };
    let route = |hostnames: &[&str], alpn: &[&str], legs| {
        let tls = ir::TlsMatch { hostnames: owned(hostnames), alpn: owned(alpn), idle_timeout: None };
        ir::Route { policy: Policy::PowerOfTwoChoices, legs, tls: Some(tls) }
    };
    let both = || vec![leg("web-v1", 9), leg("web-v2", 1)];
    let mut api = route(&["api.example"], &["h2", "http/1.1"], vec![leg("web-v2", 1)]);
    api.tls.as_mut().expect("a TLSRoute").idle_timeout = Some(Duration::from_secs(30));
    let mut desired = Desired::default();
    desired.routes.insert(key("shop", "blog"), route(&["blog.example"], &[], both()));
    let shop = ["shop.example", "*.shop.example", "pay.example", "help.example"];
    desired.routes.insert(key("shop", "shop"), route(&shop, &[], both()));
    desired.routes.insert(key("team", "api"), api);
    desired.routes.insert(key("team", "rest"), route(&["api.example", "*.example"], &[], both()));
    let frontend = ir::Frontend {
        service: ObjectKey::new("shop", "tls"),
        everyone: Some(Scope::Tls(vec![key("shop", "blog"), key("shop", "shop")])),
        namespaces: [("team".to_owned(), Scope::Tls(vec![key("team", "api"), key("team", "rest")]))].into(),
    };
    desired.frontends.insert((ADDRESS, 443), frontend);
    for (name, last) in [("web-v1", 31), ("web-v2", 32)] {
        let address = Address::from_v4_octets([10, 0, 0, last]);
        let endpoint = ir::Endpoint { address, port: 8443, readiness: EndpointReadiness::Ready };
        desired.backends.insert(service(name), ir::Backend { endpoints: [endpoint].into(), empty: None });
    }
    desired
}

/// Makes what the agent published.
pub(crate) fn published() -> Published {
    let mut published =
        Published::starting("0.1.0", "node-1".to_owned(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let desired = desired();
    let compiled = compile(&desired, &FoundClients::new(), "node-1", &Capabilities::default());
    published.generation = 1;
    published.applied_at = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_300));
    published.desired = Arc::new(desired);
    published.tables = compiled.tables;
    published.names = compiled.names;
    let namespace = |name: &str, cookie, problem: Option<&str>| NamespaceView {
        name: name.to_owned(),
        cookie,
        listening: problem.is_none(),
        problem: problem.map(str::to_owned),
    };
    published.acceptor = AcceptorView {
        namespaces: vec![
            namespace("blue", 12, None),
            namespace("process 4242", 13, Some("cannot listen on ::1: address not available")),
        ],
        open_connections: 1_200,
        unfinished_hellos: 3,
        hello_bytes: 1_536,
        accepted: 34_567,
        retried: 2,
        refused_strangers: 1,
        aborted: 2,
        not_aborted: 0,
        hello_pieces: 4,
    };
    published
}
