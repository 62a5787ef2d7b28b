//! The account of one destination: frontend, scope, route, losers, legs, endpoints, and a sample.

use super::{
    Destination, Hello,
    tls::{ByName, TlsAccount},
};
use crate::{
    compile::{Compiled, host_env::HostEnv},
    ir::{Frontend, RouteKey, Scope},
    resources::{ObjectKey, Resources},
    translate::{ConditionStatus, ConditionType, Translation},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};
use weir_common::{
    abi::{ids::StatsId, tables::FrontendKey},
    addr::Address,
    decide::{Pass, Reject, Verdict, decide},
    reason::Reason,
};

/// What there is to explain from.
pub(super) struct World<'a> {
    pub(super) resources: &'a Resources,
    pub(super) translation: &'a Translation,
    pub(super) compiled: &'a Compiled,
}

/// What happens to connections from a client to an address.
#[derive(Debug, Serialize)]
pub(super) struct Account {
    /// Address and port that the client dials.
    pub to: String,
    /// The client's namespace, if one was given.
    pub from: Option<String>,
    /// The Service of that address.
    pub service: Option<String>,
    /// What happens, in one sentence.
    pub outcome: String,
    /// Whose route it is: `everyone`, or `clients of NAMESPACE`.
    pub scope: Option<String>,
    /// What the ClientHello decides, if TLSRoutes are in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsAccount>,
    /// The route that decides.
    pub route: Option<String>,
    /// How legs and endpoints are chosen.
    pub policy: Option<&'static str>,
    /// Its legs.
    pub legs: Vec<LegAccount>,
    /// How many connections were tried.
    pub tried: u64,
    /// Connections that were left alone.
    pub passed: u64,
    /// Connections refused before a leg was chosen, by reason.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Other routes that name the Service, and why they do not decide.
    pub others: Vec<Other>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

/// One leg.
#[derive(Debug, Serialize)]
pub(super) struct LegAccount {
    /// The backendRef.
    pub label: String,
    /// Weight.
    pub weight: u32,
    /// Weight by the sum of weights.
    pub wanted_share: f64,
    /// Connections of the sample that fell on it.
    pub chosen: u64,
    /// The same by all that were tried.
    pub share: f64,
    /// The reason, if connections on it are rejected.
    pub rejects: Option<&'static str>,
    /// Where it leads: endpoints of the address family, and how many connections each got.
    pub endpoints: BTreeMap<String, u64>,
}

/// A route that does not decide.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Other {
    /// The route.
    pub route: String,
    /// Why not.
    pub why: String,
}

#[derive(Default)]
struct Sample {
    passed: BTreeMap<&'static str, u64>,
    rejected: BTreeMap<(StatsId, Reason), u64>,
    forwarded: BTreeMap<StatsId, BTreeMap<SocketAddr, u64>>,
}

impl<'a> World<'a> {
    /// Returns the addresses of a destination.
    pub(super) fn addresses(&self, to: &Destination) -> Vec<(Address, u16)> {
        match to {
            Destination::Address(address) => vec![(address.ip().into(), address.port())],
            Destination::Service { namespace, name, port } => {
                let service = self.resources.services.get(&ObjectKey::new(namespace, name));
                let spec = service.and_then(|service| service.spec.as_ref());
                let one = spec.and_then(|spec| spec.cluster_ip.as_ref());
                let all = spec.and_then(|spec| spec.cluster_ips.as_ref()).into_iter().flatten().chain(one);
                // Neither "None" nor a broken address is one.
                let ips: BTreeSet<Address> =
                    all.filter_map(|text| text.parse::<IpAddr>().ok()).map(Address::from).collect();
                ips.into_iter().map(|ip| (ip, *port)).collect()
            }
        }
    }

    /// Gives the account of `count` connections.
    pub(super) fn account(
        &self,
        address: Address,
        port: u16,
        from: Option<&str>,
        hello: &Hello,
        count: u64,
    ) -> Account {
        let key = FrontendKey::tcp(address, port);
        let frontend = self.translation.desired.frontends.get(&(address, port));
        let scoped = from.zip(frontend).and_then(|(name, frontend)| frontend.namespaces.get(name));
        let everyone = frontend.and_then(|frontend| frontend.everyone.as_ref());
        let in_force = scoped.or(everyone);
        let by_name = self.by_name(&key, from, in_force, hello);
        let sample = self.sample(&key, from, by_name.as_ref(), count);
        let route = match &by_name {
            Some(by_name) => self.selected(by_name),
            None => in_force.and_then(|scope| scope.routes().first()),
        };
        let scope = match (scoped, from) {
            (Some(_), Some(name)) => format!("clients of {name}"),
            (_, _) => "everyone".to_owned(),
        };
        let service = frontend.map(|frontend| frontend.service.clone()).or_else(|| self.service_at(address));
        let rejected = in_force.map(|_| self.rejected(route, &sample)).unwrap_or_default();
        let mut notes = self.notes(frontend, from);
        match &by_name {
            Some(by_name) => notes.extend(self.tls_notes(by_name, route, !sample.rejected.is_empty())),
            None if hello.sni.is_some() && in_force.is_some() => {
                notes.push("the server name plays no part: no TLSRoute is in force here".to_owned());
            }
            None => {}
        }
        Account {
            to: SocketAddr::new(address.into(), port).to_string(),
            from: from.map(str::to_owned),
            outcome: self.outcome(&sample, service.as_ref(), port, by_name.as_ref()),
            scope: in_force.map(|_| scope),
            tls: by_name.as_ref().map(|by_name| self.tls(by_name, hello)),
            route: route.map(RouteKey::to_string),
            policy: route.and_then(|route| Some(self.translation.desired.routes.get(route)?.policy.name())),
            legs: route.map(|route| self.legs(route, &sample, count)).unwrap_or_default(),
            tried: count,
            passed: sample.passed.values().sum(),
            rejected,
            others: service.as_ref().map(|service| self.others(service, route, frontend, in_force)).unwrap_or_default(),
            notes,
            service: service.map(|service| service.to_string()),
        }
    }

    fn sample(&self, key: &FrontendKey, from: Option<&str>, by_name: Option<&ByName<'_>>, count: u64) -> Sample {
        let mut sample = Sample::default();
        for n in 0..count {
            // Each connection is of another client, and none is still open when the next comes.
            let env = HostEnv::new(&self.compiled.tables);
            let env = env.in_namespace(from).at_ticket(n).with_random(n).as_client(n);
            let own_leg = |leg| by_name.map_or(leg, |by_name| by_name.own_leg(leg));
            let verdict = match decide(&env, key) {
                Verdict::Accept(accept) => match by_name {
                    Some(by_name) => by_name.dialled(&env, &accept),
                    // A target of this kind is of TLSRoutes.
                    None => Verdict::Reject(Reject { stats: accept.route_stats, reason: Reason::TableMiss }),
                },
                decided @ (Verdict::Pass(_) | Verdict::Forward(_) | Verdict::Reject(_)) => decided,
            };
            match verdict {
                Verdict::Pass(pass) => {
                    let why = match pass {
                        Pass::NotFrontend => "no route is attached to this address and port",
                        Pass::NotForThisClient => "its routes are for clients of other namespaces",
                        Pass::AgentLost => "the agent is gone",
                    };
                    *sample.passed.entry(why).or_default() += 1;
                }
                Verdict::Reject(reject) => {
                    *sample.rejected.entry((own_leg(reject.stats), reject.reason)).or_default() += 1;
                }
                // The acceptor dials, and gets no such verdict.
                Verdict::Accept(_) => {}
                Verdict::Forward(forward) => {
                    if let Some(ended) = by_name.and_then(ByName::ended) {
                        *sample.rejected.entry(ended).or_default() += 1;
                        continue;
                    }
                    let endpoint = SocketAddr::new(forward.endpoint.address.into(), forward.endpoint.port);
                    *sample.forwarded.entry(own_leg(forward.leg)).or_default().entry(endpoint).or_default() += 1;
                }
            }
        }
        sample
    }

    fn service_at(&self, address: Address) -> Option<ObjectKey> {
        let at = |key: &&ObjectKey| {
            let destination =
                Destination::Service { namespace: key.namespace.clone(), name: key.name.clone(), port: 0 };
            self.addresses(&destination).iter().any(|(other, _)| *other == address)
        };
        self.resources.services.keys().find(at).cloned()
    }

    fn outcome(&self, sample: &Sample, service: Option<&ObjectKey>, port: u16, by_name: Option<&ByName<'_>>) -> String {
        let forwarded = sample.forwarded.values().flat_map(BTreeMap::values).any(|&n| n > 0);
        let refused = !sample.rejected.is_empty();
        if let Some(why) = sample.passed.keys().next() {
            let detail = match service {
                None => ": it is no Service of this folder",
                Some(service) if !self.has_port(service, port) => ": the Service has no such port",
                Some(_) => "",
            };
            return format!("left alone, {why}{detail}");
        }
        match (forwarded, refused) {
            (true, true) => "split among the legs; some legs refuse their share".to_owned(),
            (true, false) => "split among the legs".to_owned(),
            (false, _) => {
                let reasons: BTreeSet<&str> = sample.rejected.keys().map(|(_, reason)| reason.text()).collect();
                let how = match by_name {
                    Some(by_name) if by_name.is_accepted() => "closed by the agent after the ClientHello",
                    Some(by_name) if by_name.outcome.is_err() => "ended by the kernel as the ClientHello leaves",
                    Some(_) | None => "refused at once",
                };
                format!("{how}: {}", reasons.into_iter().collect::<Vec<_>>().join("; "))
            }
        }
    }

    fn has_port(&self, service: &ObjectKey, port: u16) -> bool {
        let spec = self.resources.services.get(service).and_then(|service| service.spec.as_ref());
        let ports = spec.and_then(|spec| spec.ports.as_ref());
        ports.is_some_and(|ports| ports.iter().any(|one| one.port == i32::from(port)))
    }

    fn stats(&self, route: &RouteKey, leg: Option<&str>) -> Option<StatsId> {
        let names = &self.compiled.names.stats;
        names.iter().find(|(_, name)| name.route == *route && name.leg.as_deref() == leg).map(|(&id, _)| id)
    }

    /// Connections rejected before a leg was chosen: those of the route, or all if no name selects one.
    fn rejected(&self, route: Option<&RouteKey>, sample: &Sample) -> BTreeMap<&'static str, u64> {
        let id = route.map(|route| self.stats(route, None));
        let own = sample.rejected.iter().filter(|((stats, _), _)| id.is_none_or(|id| Some(*stats) == id));
        let mut rejected = BTreeMap::new();
        for ((_, reason), n) in own {
            *rejected.entry(reason.label()).or_default() += n;
        }
        rejected
    }

    fn legs(&self, route: &RouteKey, sample: &Sample, count: u64) -> Vec<LegAccount> {
        let Some(found) = self.translation.desired.routes.get(route) else { return Vec::new() };
        let total: u64 = found.legs.iter().map(|leg| u64::from(leg.weight)).sum();
        let account = |leg: &crate::ir::Leg| {
            let id = self.stats(route, Some(&leg.label));
            let own = sample.rejected.iter().filter(|((stats, _), _)| Some(*stats) == id);
            let refused: BTreeMap<Reason, u64> = own.map(|((_, reason), &n)| (*reason, n)).collect();
            let endpoints = id.and_then(|id| sample.forwarded.get(&id)).cloned().unwrap_or_default();
            let chosen = endpoints.values().chain(refused.values()).sum::<u64>();
            let rejects = leg.target.as_ref().err().copied().or_else(|| refused.keys().next().copied());
            LegAccount {
                label: leg.label.clone(),
                weight: leg.weight,
                wanted_share: if total == 0 { 0.0 } else { f64::from(leg.weight) / total as f64 },
                chosen,
                share: chosen as f64 / count as f64,
                rejects: rejects.map(Reason::label),
                endpoints: endpoints.into_iter().map(|(endpoint, n)| (endpoint.to_string(), n)).collect(),
            }
        };
        found.legs.iter().map(account).collect()
    }

    /// Other routes of the Service: those of other scopes, those that lost, those that are not accepted.
    fn others(
        &self,
        service: &ObjectKey,
        route: Option<&RouteKey>,
        frontend: Option<&Frontend>,
        in_force: Option<&Scope>,
    ) -> Vec<Other> {
        let decides = route.map(RouteKey::to_string);
        let mut others = BTreeSet::new();
        for object in &self.translation.objects {
            let name = format!("{} {}", object.kind, object.key);
            for parent in &object.parents {
                let reference = &parent.parent_ref;
                let namespace = reference.namespace.as_deref().unwrap_or(&object.key.namespace);
                if reference.name != service.name || namespace != service.namespace || decides.as_ref() == Some(&name) {
                    continue;
                }
                for condition in &parent.conditions {
                    let why = match (condition.kind, condition.status) {
                        (ConditionType::Superseded, ConditionStatus::True) => &condition.message,
                        (ConditionType::Accepted, ConditionStatus::False) => &condition.message,
                        (ConditionType::Accepted | ConditionType::ResolvedRefs, ConditionStatus::True)
                        | (ConditionType::Superseded | ConditionType::ResolvedRefs, ConditionStatus::False) => continue,
                    };
                    others.insert(Other { route: name.clone(), why: why.clone() });
                }
            }
        }
        if let Some(frontend) = frontend {
            let everyone = frontend.everyone.iter().map(|route| (route, "everyone else".to_owned()));
            let scoped = frontend.namespaces.iter().map(|(name, route)| (route, format!("clients of {name}")));
            for (scope, whose) in everyone.chain(scoped) {
                let here = in_force.is_some_and(|in_force| std::ptr::eq(in_force, scope));
                for other in scope.routes().iter().filter(|other| Some(*other) != route) {
                    let why = if here { self.other_names(other) } else { format!("it is for {whose}") };
                    others.insert(Other { route: other.to_string(), why });
                }
            }
        }
        others.into_iter().collect()
    }

    fn notes(&self, frontend: Option<&Frontend>, from: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(namespace) = from
            && frontend.is_some_and(|frontend| frontend.namespaces.contains_key(namespace))
            && !self.translation.desired.clients.iter().any(|client| client.namespace == namespace)
        {
            notes.push(format!(
                "no ClientGroup says which processes are clients of {namespace}: on this machine none is"
            ));
        }
        let unresolved = self.compiled.names.stats.values().any(|name| {
            let route = self.translation.desired.routes.get(&name.route);
            let leg = route.and_then(|route| route.legs.iter().find(|leg| Some(&leg.label) == name.leg.as_ref()));
            let backend = leg.and_then(|leg| leg.target.as_ref().ok());
            let backend = backend.and_then(|key| self.translation.desired.backends.get(key));
            backend.is_some_and(|backend| backend.empty == Some(Reason::NotResolved))
        });
        if unresolved {
            notes.push("host names of Backends are not resolved here: their legs read as not_resolved".to_owned());
        }
        notes
    }
}
