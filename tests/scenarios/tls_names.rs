//! The server name decides: names of the route pass, everything else ends at once with its reason, at
//! both ends.

use crate::{
    stage::{Family, PORT, Stage, families, network, shop},
    tls_stage::{NAME, NAMES, Path, WILD_NAME, WRONG_NAME, expect_ended_at_once, expect_reset, paths},
};
use anyhow::Result;
use weir_tests::{
    client::Dial,
    manifest::Route,
    tls::{
        options::{Speech, TlsOptions},
        server::Conduct,
    },
};

paths!(exact_names_and_wildcards_pass);

fn exact_names_and_wildcards_pass(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let _server = stage.listen(family, "b/11", 11).start()?;
    for name in [NAME, WILD_NAME, "a.shop.example"] {
        let report = stage.connect(&family.dial_frontend().speaking(TlsOptions::full(name)), 10)?;
        assert_eq!(report.answered("b/11"), 10, "{name}: {report:?}");
    }
    for name in ["xshop.example", "example", WRONG_NAME] {
        let report = stage.connect(&family.dial_frontend().speaking(TlsOptions::full(name)), 3)?;
        expect_ended_at_once(&report)?;
    }
    stage.expect_rejected("name_not_matched", 9)
}

paths!(a_wrong_name_no_name_and_no_tls_end_at_once_at_both_ends);

fn a_wrong_name_no_name_and_no_tls_end_at_once_at_both_ends(path: Path, family: Family) -> Result<()> {
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]))?;
    let server = stage.listen(family, "b/11", 11).speech(Speech::Hello).start()?;
    let dial = |tls| family.dial_frontend().speaking(tls);
    let cases = [
        ("name_not_matched", TlsOptions::full(WRONG_NAME)),
        ("no_server_name", TlsOptions { sni: None, ..TlsOptions::full("") }),
        ("not_tls", TlsOptions { raw: Some("GET / HTTP/1.0\r\n\r\n".to_owned()), ..TlsOptions::default() }),
        ("not_tls", TlsOptions { raw: Some("x".to_owned()), ..TlsOptions::default() }),
    ];
    let mut not_tls = 0;
    for (reason, tls) in cases {
        let report = stage.connect(&dial(tls), 20)?;
        expect_ended_at_once(&report).map_err(|error| error.context(reason))?;
        not_tls += if reason == "not_tls" { 20 } else { 0 };
        stage.expect_rejected(reason, if reason == "not_tls" { not_tls } else { 20 })?;
    }
    expect_reset(&server)?;
    let good = stage.connect(&family.dial_hello(), 20)?;
    assert_eq!(good.answered("b/11"), 20, "{good:?}");
    Ok(())
}

families!(each_name_leads_to_its_own_backend);

fn each_name_leads_to_its_own_backend(family: Family) -> Result<()> {
    let manifest = shop()
        .route(&Route::tls("shop/exact", "shop/web", &[NAME], &[("shop/a", PORT, 1)]))
        .route(&Route::tls("shop/wild", "shop/web", &["*.example"], &[("shop/b", PORT, 1)]));
    let stage = Stage::set(&manifest)?;
    let _servers = stage.serve_tls_shop(family, Speech::Full, Conduct::Greet)?;
    let to = |name: &str| stage.connect(&family.dial_frontend().speaking(TlsOptions::full(name)), 20);
    assert_eq!(to(NAME)?.answered_by("a/"), 20, "the exact name wins");
    assert_eq!(to("b.shop.example")?.answered_by("b/"), 20, "several labels");
    assert_eq!(to("x.example")?.answered_by("b/"), 20);
    expect_ended_at_once(&to("example")?)
}

families!(the_older_of_two_routes_has_the_name);

fn the_older_of_two_routes_has_the_name(family: Family) -> Result<()> {
    let route =
        |name, created, backends| Route { created: Some(created), ..Route::tls(name, "shop/web", &NAMES, backends) };
    let manifest = shop().route(&route("shop/young", "2026-02-01T00:00:00Z", &[("shop/a", PORT, 1)])).route(&route(
        "shop/old",
        "2026-01-01T00:00:00Z",
        &[("shop/b", PORT, 1)],
    ));
    let stage = Stage::set(&manifest)?;
    let _servers = stage.serve_tls_shop(family, Speech::Full, Conduct::Greet)?;
    let report = stage.connect(&family.dial_tls(), 20)?;
    assert_eq!(report.answered_by("b/"), 20, "{report:?}");
    Ok(())
}

families!(alpn_chooses_among_routes_with_the_same_name);

fn alpn_chooses_among_routes_with_the_same_name(family: Family) -> Result<()> {
    let manifest = shop()
        .route(&Route { alpn: Some("h2"), ..Route::tls("shop/h2", "shop/web", &[NAME], &[("shop/a", PORT, 1)]) })
        .route(&Route::tls("shop/any", "shop/web", &[NAME], &[("shop/b", PORT, 1)]))
        .route(&Route {
            alpn: Some("h2"),
            ..Route::tls("shop/only", "shop/web", &["only.example"], &[("shop/a", PORT, 1)])
        });
    let stage = Stage::set(&manifest)?;
    let _servers = stage.serve_tls_shop(family, Speech::Full, Conduct::Greet)?;
    let to = |name: &str, alpn: &[&str]| {
        let alpn = alpn.iter().map(|name| (*name).to_owned()).collect();
        stage.connect(&family.dial_frontend().speaking(TlsOptions { alpn, ..TlsOptions::full(name) }), 20)
    };
    assert_eq!(to(NAME, &["h2", "http/1.1"])?.answered_by("a/"), 20, "one that is offered beats none");
    assert_eq!(to(NAME, &["http/1.1"])?.answered_by("b/"), 20);
    assert_eq!(to(NAME, &[])?.answered_by("b/"), 20);
    assert_eq!(to("only.example", &["http/1.1", "h2"])?.answered_by("a/"), 20);
    expect_ended_at_once(&to("only.example", &["http/1.1"])?)?;
    stage.expect_rejected("name_not_matched", 20)
}

paths!(a_tlsroute_beats_a_tcproute_on_its_port);

fn a_tlsroute_beats_a_tcproute_on_its_port(path: Path, family: Family) -> Result<()> {
    let plain =
        Route { created: Some("2020-01-01T00:00:00Z"), ..Route::new("shop/tcp", "shop/web", &[("shop/a", PORT, 1)]) };
    let stage = Stage::set(&path.shop(&[("shop/b", PORT, 1)]).route(&plain))?;
    let _servers = stage.serve_tls_shop(family, Speech::Full, Conduct::Greet)?;
    assert_eq!(stage.connect(&family.dial_tls(), 20)?.answered_by("b/"), 20);
    let report = stage.connect(&family.dial_frontend().speaking(TlsOptions::full(WRONG_NAME)), 5)?;
    expect_ended_at_once(&report)?;
    // Without the TLSRoutes the TCPRoute has the port.
    stage.apply(&shop().route(&plain))?;
    let report = stage.connect(&family.dial_frontend().speaking(TlsOptions::full(WRONG_NAME)), 5)?;
    assert_eq!(report.answered_by("a/"), 5, "{report:?}");
    Ok(())
}

paths!(a_consumer_tlsroute_is_for_the_clients_of_its_namespace);

fn a_consumer_tlsroute_is_for_the_clients_of_its_namespace(path: Path, family: Family) -> Result<()> {
    let net = network(2)?;
    let group = format!(
        "apiVersion: weir.dev/v1alpha1\nkind: ClientGroup\nmetadata: {{name: batch, namespace: billing}}\n\
         spec:\n  clients:\n  - networkNamespace: {}\n",
        net.client(0).name()
    );
    let consumer = Route::tls("billing/web", "shop/web", &["pay.example"], &[("shop/b", PORT, 1)]);
    let manifest = path.shop(&[("shop/a", PORT, 1)]).route(&consumer).yaml(&group);
    let stage = Stage::on(net, &manifest, "")?;
    let _servers = stage.serve_tls_shop(family, Speech::Full, Conduct::Greet)?;
    let from = |client: usize, name: &str| -> Result<_> {
        let dial = Dial { tls: TlsOptions::full(name), ..family.dial_frontend() };
        stage.client(client)?.connect(&dial, 10)
    };
    assert_eq!(from(0, "pay.example")?.answered_by("b/"), 10, "a client of the group");
    expect_ended_at_once(&from(0, NAME)?)?;
    assert_eq!(from(1, NAME)?.answered_by("a/"), 10, "any other client");
    expect_ended_at_once(&from(1, "pay.example")?)
}
