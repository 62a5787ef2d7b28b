//! Judges one TCPRoute by itself: its values, its annotations, its backendRefs and its parents.

use super::{
    annotation,
    attach::{Attachment, attach},
    backend_ref,
    condition::Finding,
    grant::{GrantRule, Referrer},
};
use crate::{
    api::{BackendRef, GATEWAY_GROUP, LOAD_BALANCING, ParentReference, TCPRoute, check::Check},
    ir::{Leg, Route, RouteKey, RouteKind},
    resources::{ObjectKey, Resources},
};
use std::collections::BTreeSet;
use weir_common::abi::tables::{MAX_WEIGHT, Policy};

/// A route with everything that can be said of it without looking at other routes.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    pub(super) key: RouteKey,
    pub(super) object: &'a TCPRoute,
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

/// Judges a route.
pub(super) fn judge<'a>(resources: &Resources, key: &ObjectKey, object: &'a TCPRoute) -> Judged<'a> {
    let annotations = object.metadata.annotations.as_ref();
    let mut notes = annotation::unknown(annotations, &[LOAD_BALANCING]);
    let policy = annotation::policy(annotations);
    let (legs, unresolved) = legs(resources, key, object, &mut notes);
    Judged {
        key: RouteKey { kind: RouteKind::Tcp, object: key.clone() },
        object,
        route: route(object, policy, legs),
        unresolved,
        parents: parents(resources, key, object, &mut notes),
        notes,
    }
}

fn route(object: &TCPRoute, policy: Result<Policy, Finding>, legs: Vec<Leg>) -> Result<Route, Finding> {
    let mistakes = object.mistakes();
    if !mistakes.is_empty() {
        let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        return Err(Finding::new("UnsupportedValue", all.join("; ")));
    }
    Ok(Route { policy: policy?, legs, tls: None })
}

fn parents<'a>(
    resources: &Resources,
    key: &ObjectKey,
    object: &'a TCPRoute,
    notes: &mut Vec<String>,
) -> Vec<Parent<'a>> {
    if object.spec.parent_refs.is_empty() {
        notes.push("has no parentRefs, so it has no effect: attach it to a Service".to_owned());
    }
    let mut parents = Vec::new();
    for (i, reference) in object.spec.parent_refs.iter().enumerate() {
        let path = format!("spec.parentRefs[{i}]");
        if reference.is_service() {
            parents.push(Parent { reference, attachment: attach(resources, &key.namespace, &path, reference) });
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
    key: &ObjectKey,
    object: &TCPRoute,
    notes: &mut Vec<String>,
) -> (Vec<Leg>, Option<Finding>) {
    let from = Referrer { group: GATEWAY_GROUP, kind: "TCPRoute", namespace: &key.namespace };
    let mut legs = Vec::new();
    let mut labels = BTreeSet::new();
    let mut first_reason = None;
    let mut messages = Vec::new();
    for (i, backend) in
        object.spec.rules.first().map(|rule| rule.backend_refs.as_slice()).unwrap_or_default().iter().enumerate()
    {
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
        legs.push(Leg { label: unique(&mut labels, label(&key.namespace, backend)), weight, target });
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
}
