//! Judges one route by itself: its values, its annotations, its backendRefs and its parents.

use super::{
    annotation::{self, Options},
    attach::{Attachment, attach},
    backend_ref,
    condition::Finding,
    grant::{GrantRule, Referrer},
};
use crate::{
    api::{self, BackendRef, GATEWAY_GROUP, ParentReference},
    ir::{Leg, Route, RouteKey, RouteKind, TlsMatch},
    resources::{ObjectKey, Resources},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;
use weir_common::abi::tables::MAX_WEIGHT;

/// A route with everything that can be said of it without looking at other routes.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    pub(super) key: RouteKey,
    pub(super) metadata: &'a ObjectMeta,
    /// The route, unless one of its values keeps it out.
    pub(super) route: Result<Route, Finding>,
    /// What ResolvedRefs says, unless all is well.
    pub(super) unresolved: Option<Finding>,
    /// The parents that are Services.
    pub(super) parents: Vec<Parent<'a>>,
    pub(super) notes: Vec<String>,
}

/// A parentRef to a Service.
#[derive(Debug)]
pub(super) struct Parent<'a> {
    pub(super) reference: &'a ParentReference,
    pub(super) attachment: Result<Attachment, Finding>,
}

impl Judged<'_> {
    /// Whether the route takes part at a parent: it can be accepted there.
    pub(super) fn takes_part(&self, parent: &Parent<'_>) -> bool {
        self.route.is_ok() && parent.attachment.is_ok()
    }
}

/// Judges every route.
pub(super) fn judge_all(resources: &Resources) -> Vec<Judged<'_>> {
    let tcp = resources.tcp_routes.iter();
    let tcp = tcp.map(|(key, object)| judge(resources, RouteKind::Tcp, key, object.as_ref()));
    let tls = resources.tls_routes.iter();
    let tls = tls.map(|(key, object)| judge(resources, RouteKind::Tls, key, object.as_ref()));
    tcp.chain(tls).collect()
}

/// Judges a route.
pub(super) fn judge<'a>(
    resources: &Resources,
    kind: RouteKind,
    key: &ObjectKey,
    object: &'a dyn api::Route,
) -> Judged<'a> {
    let key = RouteKey { kind, object: key.clone() };
    let annotations = object.metadata().annotations.as_ref();
    let mut notes = annotation::route_notes(kind, annotations);
    let options = annotation::options(kind, annotations);
    let (legs, unresolved) = legs(resources, &key, object, &mut notes);
    let route = route(kind, object, options, legs, &mut notes);
    let parents = parents(resources, &key, object, &mut notes);
    Judged { key, metadata: object.metadata(), route, unresolved, parents, notes }
}

fn route(
    kind: RouteKind,
    object: &dyn api::Route,
    options: Result<Options, Finding>,
    legs: Vec<Leg>,
    notes: &mut Vec<String>,
) -> Result<Route, Finding> {
    let mistakes = object.mistakes();
    if !mistakes.is_empty() {
        let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        return Err(Finding::new("UnsupportedValue", all.join("; ")));
    }
    let Options { policy, alpn, idle_timeout } = options?;
    let tls = match kind {
        RouteKind::Tcp => None,
        RouteKind::Tls => Some(TlsMatch { hostnames: hostnames(object.hostnames(), notes), alpn, idle_timeout }),
    };
    Ok(Route { policy, legs, tls })
}

/// Returns the server names, each once.
fn hostnames(written: &[String], notes: &mut Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::with_capacity(written.len());
    for (i, name) in written.iter().enumerate() {
        let name = name.to_ascii_lowercase();
        if seen.insert(name.clone()) {
            names.push(name);
        } else {
            notes.push(format!("spec.hostnames[{i}]: \"{name}\" stands there twice: remove one of the two"));
        }
    }
    names
}

fn parents<'a>(
    resources: &Resources,
    key: &RouteKey,
    object: &'a dyn api::Route,
    notes: &mut Vec<String>,
) -> Vec<Parent<'a>> {
    if object.parent_refs().is_empty() {
        notes.push("has no parentRefs, so it has no effect: attach it to a Service".to_owned());
    }
    let mut parents = Vec::new();
    for (i, reference) in object.parent_refs().iter().enumerate() {
        let path = format!("spec.parentRefs[{i}]");
        if reference.is_service() {
            parents.push(Parent { reference, attachment: attach(resources, &key.object.namespace, &path, reference) });
        } else {
            let kind = reference.kind.as_deref().unwrap_or("Gateway");
            let group = reference.group.as_deref().unwrap_or(GATEWAY_GROUP);
            notes.push(format!(
                "{path}: kind {kind} of group \"{group}\" is not handled by this version, only Service (group: \"\") is"
            ));
        }
    }
    parents
}

fn legs(
    resources: &Resources,
    key: &RouteKey,
    object: &dyn api::Route,
    notes: &mut Vec<String>,
) -> (Vec<Leg>, Option<Finding>) {
    let namespace = &key.object.namespace;
    let from = Referrer { group: GATEWAY_GROUP, kind: key.kind.name(), namespace };
    let mut legs = Vec::new();
    let mut labels = BTreeSet::new();
    let mut first_reason = None;
    let mut messages = Vec::new();
    let backends = object.rules().first().map(|rule| rule.backend_refs.as_slice()).unwrap_or_default();
    for (i, backend) in backends.iter().enumerate() {
        let path = format!("spec.rules[0].backendRefs[{i}]");
        let target = backend_ref::resolve(resources, from, GrantRule::NotNeeded, backend).map_err(|refusal| {
            first_reason.get_or_insert(refusal.finding.reason);
            messages.push(format!("{path}: {}", refusal.finding.message));
            refusal.reason
        });
        if backend.kind() == "Backend" && backend.port.is_some() {
            notes.push(format!("{path}.port has no effect: the endpoints of a Backend have ports of their own"));
        }
        let weight = u32::try_from(backend.weight.unwrap_or(1).clamp(0, i64::from(MAX_WEIGHT))).unwrap_or(MAX_WEIGHT);
        legs.push(Leg { label: unique(&mut labels, label(namespace, backend)), weight, target });
    }
    let unresolved = first_reason.map(|reason| Finding::new(reason, messages.join("; ")));
    (legs, unresolved)
}

/// Names a backendRef for people and metrics; the same whether it can be followed or not.
fn label(namespace: &str, backend: &BackendRef) -> String {
    let object = ObjectKey::new(backend.namespace.as_deref().unwrap_or(namespace), &backend.name);
    match (backend.kind(), backend.port) {
        ("Service", Some(port)) => format!("{object}:{port}"),
        ("Service", None) => object.to_string(),
        // Ports of a Backend belong to its endpoints.
        (kind @ "Backend", _) | (kind, None) => format!("{kind} {object}"),
        (kind, Some(port)) => format!("{kind} {object}:{port}"),
    }
}

fn unique(taken: &mut BTreeSet<String>, label: String) -> String {
    let numbered = (2u32..).map(|n| format!("{label}#{n}"));
    let free = std::iter::once(label.clone()).chain(numbered).find(|candidate| !taken.contains(candidate));
    let free = free.unwrap_or(label);
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_leg_to_the_same_backend_is_numbered() {
        let mut taken = BTreeSet::new();
        let labels: Vec<String> = (0..3).map(|_| unique(&mut taken, "a/b:1".to_owned())).collect();
        assert_eq!(labels, ["a/b:1", "a/b:1#2", "a/b:1#3"]);
    }

    #[test]
    fn a_host_name_that_stands_twice_is_taken_once_and_told() {
        let mut notes = Vec::new();
        let names: Vec<String> = ["a.b", "*.b", "a.b"].map(str::to_owned).into();
        assert_eq!(hostnames(&names, &mut notes), ["a.b", "*.b"]);
        assert_eq!(notes, ["spec.hostnames[2]: \"a.b\" stands there twice: remove one of the two"]);
    }
}
