//! Makes the view of what was published and one reading of the counters.

use super::{
    BackendView, EndpointView, FrontendView, LegView, PathView, Published, RouteView, SettingsView, Timing, TlsView,
    View, tables::slots,
};
use crate::{
    compile::{
        path::Path,
        tables::{Place, StatsName},
    },
    ir::{BackendKey, Leg, Route, RouteKey, Scope, TlsMatch},
    stats::Snapshot,
};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::{SystemTime, UNIX_EPOCH},
};
use weir_common::{
    abi::{
        ids::{NamespaceId, StatsId},
        settings::OnAgentLoss,
        stats::{ConnectFailure, Histogram, HistogramKey, Measure},
        tables::{Endpoint, EndpointReadiness, FrontendKey},
    },
    addr::Address,
    endpoint::eject::is_ejected,
    reason::Reason,
};

impl View {
    /// Makes the view. Counters of what is no longer published are left out.
    #[must_use]
    pub fn new(published: &Published, snapshot: &Snapshot) -> Self {
        let reader = Reader::new(published, snapshot);
        Self {
            version: published.version.to_owned(),
            node: published.node.clone(),
            started_at: seconds(published.started_at),
            generation: published.generation,
            applied_at: published.applied_at.map(seconds),
            read_at_ns: snapshot.at_ns,
            missing: published.missing(),
            coverage: published.coverage.clone(),
            settings: settings(published),
            frontends: frontends(published),
            routes: published.desired.routes.iter().map(|(key, route)| reader.route(key, route)).collect(),
            backends: published.desired.backends.keys().map(|key| reader.backend(key)).collect(),
            clients: published.clients.clone(),
            acceptor: published.acceptor.clone(),
            counters: snapshot.counters.iter().map(|(counter, &n)| (counter.label().to_owned(), n)).collect(),
            problems: published.problems.clone(),
            objects: published.objects.clone(),
        }
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn settings(published: &Published) -> SettingsView {
    let ejection = &published.ejection;
    SettingsView {
        on_agent_loss: match published.on_agent_loss {
            OnAgentLoss::Freeze => "freeze",
            OnAgentLoss::Bypass => "bypass",
            OnAgentLoss::Reject => "reject",
        }
        .to_owned(),
        eject_after_failures: ejection.failures,
        eject_window_seconds: ejection.window_ns as f64 / 1e9,
        eject_base_seconds: ejection.base_ns as f64 / 1e9,
        eject_max_seconds: ejection.max_ns as f64 / 1e9,
    }
}

/// Returns address and port as people write them, with brackets around IPv6.
pub(super) fn socket(address: Address, port: u16) -> String {
    SocketAddr::new(IpAddr::from(address), port).to_string()
}

fn frontends(published: &Published) -> Vec<FrontendView> {
    let view = |(&(address, port), frontend): (&(Address, u16), &crate::ir::Frontend)| FrontendView {
        address: socket(address, port),
        service: frontend.service.to_string(),
        everyone: frontend.everyone.as_ref().map(Scope::to_string),
        namespaces: frontend.namespaces.iter().map(|(name, route)| (name.clone(), route.to_string())).collect(),
        paths: paths(published, FrontendKey::tcp(address, port)),
    };
    published.desired.frontends.iter().map(view).collect()
}

fn paths(published: &Published, key: FrontendKey) -> Vec<PathView> {
    let names = &published.names;
    let namespace = |id: NamespaceId| names.namespaces.get(&id).cloned().unwrap_or_default();
    let view = |(&(_, id), path): (&Place, &Path)| PathView {
        namespace: id.map(namespace),
        path: path.name().to_owned(),
        why: path.why().map(ToString::to_string),
    };
    names.paths.range((key, None)..=(key, Some(NamespaceId(u64::MAX)))).map(view).collect()
}

fn tls(tls: &TlsMatch) -> TlsView {
    TlsView {
        hostnames: tls.hostnames.clone(),
        alpn: tls.alpn.clone(),
        idle_timeout_seconds: tls.idle_timeout.map(|limit| limit.as_secs_f64()),
    }
}

/// Looks counters up by name.
struct Reader<'a> {
    published: &'a Published,
    snapshot: &'a Snapshot,
    stats: BTreeMap<&'a StatsName, StatsId>,
    rejects: BTreeMap<StatsId, BTreeMap<Reason, u64>>,
    endpoints: BTreeMap<&'a BackendKey, BTreeMap<(Address, u16), &'a Endpoint>>,
}

impl<'a> Reader<'a> {
    fn new(published: &'a Published, snapshot: &'a Snapshot) -> Self {
        let mut rejects: BTreeMap<StatsId, BTreeMap<Reason, u64>> = BTreeMap::new();
        for (key, &count) in &snapshot.rejects {
            *rejects.entry(key.stats).or_default().entry(key.reason()).or_default() += count;
        }
        // One backend can have several lists: one a family, one with a ring and one without.
        let mut endpoints: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (&id, backend) in &published.tables.backends {
            let Some(key) = published.names.backends.get(&backend.state) else { continue };
            let found = slots(&published.tables, id).map(|(_, endpoint)| ((endpoint.address, endpoint.port), endpoint));
            endpoints.entry(key).or_default().extend(found);
        }
        let stats = published.names.stats.iter().map(|(&id, name)| (name, id)).collect();
        Self { published, snapshot, stats, rejects, endpoints }
    }

    fn id(&self, route: &RouteKey, leg: Option<&str>) -> Option<StatsId> {
        self.stats.get(&StatsName { route: route.clone(), leg: leg.map(str::to_owned) }).copied()
    }

    fn rejected(&self, id: Option<StatsId>) -> BTreeMap<String, u64> {
        let found = id.and_then(|id| self.rejects.get(&id));
        found.into_iter().flatten().map(|(reason, &count)| (reason.label().to_owned(), count)).collect()
    }

    fn route(&self, key: &RouteKey, route: &Route) -> RouteView {
        let total = route.legs.iter().map(|leg| u64::from(leg.weight)).sum();
        let mut legs: Vec<LegView> = route.legs.iter().map(|leg| self.leg(key, leg, total)).collect();
        let decided: u64 = legs.iter().map(LegView::decided).sum();
        for leg in &mut legs {
            leg.share = (decided > 0).then(|| leg.decided() as f64 / decided as f64);
        }
        RouteView {
            name: key.to_string(),
            policy: route.policy.name().to_owned(),
            total_weight: total,
            rejected: self.rejected(self.id(key, None)),
            legs,
            tls: route.tls.as_ref().map(tls),
        }
    }

    fn leg(&self, route: &RouteKey, leg: &Leg, total: u64) -> LegView {
        let id = self.id(route, Some(&leg.label));
        let stats = id.and_then(|id| self.snapshot.legs.get(&id)).copied().unwrap_or_default();
        let timing = |measure, sum_ns| {
            let key = id.map(|id| HistogramKey::new(id, measure));
            let histogram = key.and_then(|key| self.snapshot.histograms.get(&key)).unwrap_or(&Histogram::EMPTY);
            Timing::new(histogram, sum_ns)
        };
        let kinds = ConnectFailure::ALL.into_iter().zip(stats.failed);
        LegView {
            label: leg.label.clone(),
            weight: leg.weight,
            wanted_share: if total == 0 { 0.0 } else { f64::from(leg.weight) / total as f64 },
            share: None,
            backend: leg.target.as_ref().ok().map(BackendKey::to_string),
            rejects: self.rejects_now(leg).map(|reason| reason.label().to_owned()),
            forwarded: stats.forwarded,
            rejected: self.rejected(id),
            attempted: stats.attempted,
            opened: stats.opened,
            closed: stats.closed,
            active: stats.opened.saturating_sub(stats.closed),
            failed: kinds.map(|(kind, count)| (kind.label().to_owned(), count)).collect(),
            sent_bytes: stats.transferred.sent,
            received_bytes: stats.transferred.received,
            retransmissions: stats.transferred.retransmissions,
            connect: timing(Measure::ConnectLatency, stats.connect_ns),
            round_trip: timing(Measure::RoundTrip, stats.rtt_ns),
            lifetime: timing(Measure::Lifetime, stats.lifetime_ns),
        }
    }

    /// Returns why every connection of the leg is rejected, if that is so in both families.
    fn rejects_now(&self, leg: &Leg) -> Option<Reason> {
        match &leg.target {
            Err(reason) => Some(*reason),
            Ok(key) => empty(self.published, key),
        }
    }

    fn backend(&self, key: &BackendKey) -> BackendView {
        let endpoints = self.endpoints.get(key).into_iter().flatten().map(|(_, endpoint)| self.endpoint(endpoint));
        BackendView {
            name: key.to_string(),
            empty: empty(self.published, key).map(|reason| reason.label().to_owned()),
            endpoints: endpoints.collect(),
        }
    }

    fn endpoint(&self, endpoint: &Endpoint) -> EndpointView {
        let state = self.snapshot.endpoints.get(&endpoint.id).copied().unwrap_or_default();
        let left_ns = state.ejected_until_ns.saturating_sub(self.snapshot.at_ns);
        EndpointView {
            address: socket(endpoint.address, endpoint.port),
            terminating: endpoint.readiness() == EndpointReadiness::ServingTerminating,
            open: state.open,
            failures: state.failures,
            ejected_for_seconds: is_ejected(&state, self.snapshot.at_ns).then_some(left_ns as f64 / 1e9),
            ejections: state.ejections,
        }
    }
}

fn empty(published: &Published, key: &BackendKey) -> Option<Reason> {
    let backend = published.desired.backends.get(key);
    match backend {
        None => Some(Reason::TableMiss),
        Some(backend) if backend.endpoints.is_empty() => Some(backend.empty.unwrap_or(Reason::NoEndpoints)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample;
    use std::sync::Arc;

    fn view() -> View {
        View::new(&sample::published(), &sample::snapshot())
    }

    fn web(view: &View) -> &RouteView {
        view.routes.iter().find(|route| route.name == "TCPRoute shop/web").expect("the route")
    }

    #[test]
    fn shares_count_rejected_connections_of_a_leg_too() {
        let view = view();
        let shares: Vec<_> = web(&view).legs.iter().map(|leg| (leg.wanted_share, leg.share)).collect();
        assert_eq!(shares, [(0.9, Some(0.9)), (0.08, Some(0.08)), (0.02, Some(0.02))]);
        let batch = view.routes.iter().find(|route| route.name == "TCPRoute batch/web").expect("the route");
        assert_eq!(batch.legs[0].share, None);
    }

    #[test]
    fn a_leg_that_cannot_be_followed_says_why() {
        let view = view();
        let rejects: Vec<_> = view.routes.iter().flat_map(|r| &r.legs).map(|leg| leg.rejects.as_deref()).collect();
        assert_eq!(rejects, [Some("not_resolved"), None, None, Some("backend_not_found")]);
    }

    #[test]
    fn an_ejected_endpoint_says_for_how_long() {
        let view = view();
        let backend = view.backends.iter().find(|backend| backend.name == "shop/web-v1:80").expect("the backend");
        let left: Vec<_> = backend.endpoints.iter().map(|endpoint| endpoint.ejected_for_seconds).collect();
        assert_eq!(left, [None, Some(4.5)]);
        let mut later = sample::snapshot();
        later.at_ns += 4_500_000_000;
        let view = View::new(&sample::published(), &later);
        assert!(view.backends.iter().flat_map(|b| &b.endpoints).all(|endpoint| endpoint.ejected_for_seconds.is_none()));
    }

    #[test]
    fn counters_of_a_route_that_is_gone_are_not_shown() {
        let mut published = sample::published();
        Arc::make_mut(&mut published.desired).routes.remove(&sample::web());
        let view = View::new(&published, &sample::snapshot());
        assert_eq!(view.routes.len(), 1);
        assert!(view.routes.iter().flat_map(|r| &r.legs).all(|leg| leg.decided() == 0));
    }

    #[test]
    fn the_view_survives_json() {
        let view = view();
        let json = serde_json::to_string(&view).expect("JSON");
        assert_eq!(serde_json::from_str::<View>(&json).expect("the same"), view);
    }

    #[test]
    fn the_view_is_as_agreed_with_scripts() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&view()).expect("JSON"));
    }
}
