//! A made-up agent for tests of what people see: two routes, a broken leg, an ejected endpoint.

use super::{ClientView, ConditionView, Coverage, Notice, ObjectView, ProgramView, Published, Severity};
use crate::{
    compile::tables::{Names, StatsName, Tables},
    ir::{self, BackendKey, BackendKind, Desired, RouteKey, RouteKind},
    resources::ObjectKey,
    stats::Snapshot,
};
use std::{
    net::Ipv6Addr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use weir_common::{
    abi::{
        ids::{BackendId, BackendStateId, EndpointId, FrontendId, NamespaceId, SequenceId, SplitId, StatsId},
        socket::Transferred,
        stats::{Counter, Histogram, HistogramKey, LegStats, Measure, RejectKey},
        tables::{
            Backend, ClientKey, Endpoint, EndpointReadiness, EndpointState, FrontendKey, FrontendValue, Leg, Policy,
            ScopedKey, SlotKey, Target,
        },
    },
    addr::Address,
    reason::Reason,
    split,
};

/// The reading's time.
pub(crate) const NOW_NS: u64 = 1_000_000_000_000;

const WEB: StatsId = StatsId(1);
const STABLE: StatsId = StatsId(2);
const CANARY: StatsId = StatsId(3);
const BROKEN: StatsId = StatsId(4);
const BATCH: StatsId = StatsId(5);
const BATCH_LEG: StatsId = StatsId(6);

/// Returns the name of the route that most tests look at.
pub(crate) fn web() -> RouteKey {
    RouteKey { kind: RouteKind::Tcp, object: ObjectKey::new("shop", "web") }
}

fn batch() -> RouteKey {
    RouteKey { kind: RouteKind::Tcp, object: ObjectKey::new("batch", "web") }
}

fn service(name: &str) -> BackendKey {
    BackendKey { kind: BackendKind::Service, object: ObjectKey::new("shop", name), port: 80 }
}

fn static_backend() -> BackendKey {
    BackendKey { kind: BackendKind::Backend, object: ObjectKey::new("batch", "legacy"), port: 0 }
}

fn v4(last: u8) -> Address {
    Address::from_v4_octets([10, 0, 0, last])
}

fn v6() -> Address {
    Address::from("fd00::10".parse::<Ipv6Addr>().expect("an address"))
}

/// Makes what the agent published.
pub(crate) fn published() -> Published {
    let mut published =
        Published::starting("0.1.0", "node-1".to_owned(), UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    published.generation = 3;
    published.applied_at = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_300));
    published.applied_in = Duration::from_millis(12);
    published.readings = 4;
    published.desired = Arc::new(desired());
    published.tables = Arc::new(tables());
    published.names = Arc::new(names());
    published.problems = vec![Notice {
        severity: Severity::Error,
        object: "TCPRoute shop/broken".to_owned(),
        place: "shop/broken.yaml, document 2, spec.rules[0].backendRefs[0].weight".to_owned(),
        message: "2000000 is above 1000000".to_owned(),
    }];
    published.objects = objects();
    published.coverage = Coverage {
        cgroup_root: "/sys/fs/cgroup".into(),
        covers: vec!["every process of this machine in the cgroup2 hierarchy".to_owned()],
        not_covered: vec!["virtual machines".to_owned()],
        self_test: "passed for IPv4 and IPv6".to_owned(),
        programs: ["connect4", "connect6"]
            .into_iter()
            .zip(40..)
            .map(|(name, id)| ProgramView { name: name.to_owned(), id, attach: format!("cgroup/{name}") })
            .collect(),
        lost: Vec::new(),
    };
    published.clients =
        vec![ClientView { namespace: "batch".to_owned(), selector: "systemd unit batch.service".to_owned(), found: 1 }];
    published
}

fn desired() -> Desired {
    let mut desired = Desired::default();
    let leg = |label: &str, weight, target| ir::Leg { label: label.to_owned(), weight, target };
    let legs = vec![
        leg("shop/web-v1:80", 90, Ok(service("web-v1"))),
        leg("shop/web-v2:80", 8, Ok(service("web-v2"))),
        leg("shop/web-v3:80", 2, Err(Reason::BackendNotFound)),
    ];
    desired.routes.insert(web(), ir::Route { policy: Policy::PowerOfTwoChoices, legs, tls: None });
    let legs = vec![leg("Backend batch/legacy", 1, Ok(static_backend()))];
    desired.routes.insert(batch(), ir::Route { policy: Policy::ClientHash, legs, tls: None });
    let frontend = |scoped: bool| ir::Frontend {
        service: ObjectKey::new("shop", "web"),
        everyone: Some(ir::Scope::Tcp(web())),
        namespaces: scoped.then(|| ("batch".to_owned(), ir::Scope::Tcp(batch()))).into_iter().collect(),
    };
    desired.frontends.insert((v4(1), 80), frontend(true));
    desired.frontends.insert((v6(), 80), frontend(false));
    let endpoint = |last| ir::Endpoint { address: v4(last), port: 8080, readiness: EndpointReadiness::Ready };
    let backend = |endpoints: &[u8]| ir::Backend {
        endpoints: endpoints.iter().copied().map(endpoint).collect(),
        empty: endpoints.is_empty().then_some(Reason::NotResolved),
    };
    desired.backends.insert(service("web-v1"), backend(&[11, 12]));
    desired.backends.insert(service("web-v2"), backend(&[21]));
    desired.backends.insert(static_backend(), backend(&[]));
    desired
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    let web = Target::split(WEB, SplitId(100));
    tables.frontends.insert(FrontendKey::tcp(v4(1), 80), FrontendValue::new(FrontendId(7), web, true));
    tables.frontends.insert(FrontendKey::tcp(v6(), 80), FrontendValue::new(FrontendId(8), web, false));
    let batch = ScopedKey { frontend: FrontendId(7), namespace: NamespaceId(70) };
    tables.scoped.insert(batch, Target::split(BATCH, SplitId(200)));
    let legs = [
        Leg::backend(STABLE, 90, BackendId(11)),
        Leg::backend(CANARY, 8, BackendId(12)),
        Leg::reject(BROKEN, 2, Reason::BackendNotFound),
    ];
    let split = split::build::build(&legs, Policy::PowerOfTwoChoices, SequenceId(1), 0);
    tables.splits.insert(SplitId(100), split.expect("valid legs"));
    let legs = [Leg::backend(BATCH_LEG, 1, BackendId(13))];
    let split = split::build::build(&legs, Policy::ClientHash, SequenceId(2), 0);
    tables.splits.insert(SplitId(200), split.expect("valid legs"));
    for (id, count) in [(11, 2), (12, 1), (13, 0)] {
        tables.backends.insert(BackendId(id), Backend { state: BackendStateId(id), count, ring: 0 });
    }
    for (backend, slot, last) in [(11, 0, 11), (11, 1, 12), (12, 0, 21)] {
        let id = EndpointId(u64::from(last));
        let endpoint = Endpoint::new(id, v4(last), 8080, EndpointReadiness::Ready);
        tables.endpoints.insert(SlotKey::new(BackendId(backend), slot), endpoint);
    }
    tables.clients.insert(ClientKey::cgroup(4242), NamespaceId(70));
    tables
}

fn names() -> Names {
    let mut names = Names::default();
    let name = |route, leg: Option<&str>| StatsName { route, leg: leg.map(str::to_owned) };
    names.stats.insert(WEB, name(web(), None));
    names.stats.insert(STABLE, name(web(), Some("shop/web-v1:80")));
    names.stats.insert(CANARY, name(web(), Some("shop/web-v2:80")));
    names.stats.insert(BROKEN, name(web(), Some("shop/web-v3:80")));
    names.stats.insert(BATCH, name(batch(), None));
    names.stats.insert(BATCH_LEG, name(batch(), Some("Backend batch/legacy")));
    for (id, key) in [(11, service("web-v1")), (12, service("web-v2")), (13, static_backend())] {
        names.backends.insert(BackendStateId(id), key);
    }
    names.namespaces.insert(NamespaceId(70), "batch".to_owned());
    names
}

fn objects() -> Vec<ObjectView> {
    let condition = |kind: &str, status, reason: &str, message: &str| ConditionView {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let object = |name: &str, conditions| ObjectView {
        object: name.to_owned(),
        parent: Some("Service shop/web".to_owned()),
        conditions,
        notes: Vec::new(),
    };
    let accepted = || condition("Accepted", true, "Accepted", "the route is in force");
    let missing = "backendRefs[2]: there is no Service shop/web-v3";
    vec![
        object("TCPRoute shop/web", vec![accepted(), condition("ResolvedRefs", false, "BackendNotFound", missing)]),
        object(
            "TCPRoute shop/web-old",
            vec![
                accepted(),
                condition(ConditionView::SUPERSEDED, true, "OlderRoute", "TCPRoute shop/web is older and wins"),
            ],
        ),
        ObjectView {
            object: "Backend batch/legacy".to_owned(),
            parent: None,
            conditions: Vec::new(),
            notes: vec!["no route refers to it".to_owned()],
        },
    ]
}

/// Makes a reading: 1,000 connections to the web frontend, a few of them failed.
pub(crate) fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot { at_ns: NOW_NS, ..Snapshot::default() };
    let stats = |n: u64| LegStats {
        forwarded: n,
        attempted: n,
        opened: n - 4,
        closed: n - 10,
        failed: [3, 1, 0, 0],
        transferred: Transferred { sent: n * 100, received: n * 4_000, retransmissions: n / 50 },
        connect_ns: (n - 4) * 300_000,
        lifetime_ns: (n - 10) * 50_000_000,
        rtt_ns: (n - 10) * 200_000,
    };
    for (id, n) in [(STABLE, 900), (CANARY, 80)] {
        let stats = stats(n);
        snapshot.legs.insert(id, stats);
        let times = [
            (Measure::ConnectLatency, stats.opened, 300_000),
            (Measure::RoundTrip, stats.closed, 200_000),
            (Measure::Lifetime, stats.closed, 50_000_000),
        ];
        for (measure, count, ns) in times {
            let mut histogram = Histogram::EMPTY;
            histogram.buckets[Histogram::bucket(ns)] = count;
            snapshot.histograms.insert(HistogramKey::new(id, measure), histogram);
        }
    }
    snapshot.rejects.insert(RejectKey::new(BROKEN, Reason::BackendNotFound), 20);
    snapshot.rejects.insert(RejectKey::new(WEB, Reason::AgentLost), 5);
    // A route that is gone: its counters are still in the kernel, but nobody is shown them.
    snapshot.rejects.insert(RejectKey::new(StatsId(999), Reason::NoEndpoints), 7);
    snapshot.legs.insert(StatsId(998), stats(50));
    for counter in Counter::ALL {
        snapshot.counters.insert(counter, u64::from(counter == Counter::Ejected));
    }
    let ejected = EndpointState { ejected_until_ns: NOW_NS + 4_500_000_000, ejections: 1, ..EndpointState::default() };
    snapshot.endpoints.insert(EndpointId(11), EndpointState { open: 4, ..EndpointState::default() });
    snapshot.endpoints.insert(EndpointId(12), EndpointState { open: 2, failures: 1, ..ejected });
    snapshot.endpoints.insert(EndpointId(21), EndpointState { open: 6, ..EndpointState::default() });
    snapshot
}
