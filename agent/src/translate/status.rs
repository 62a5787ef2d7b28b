//! Findings to conditions and notes, object by object.

use super::{
    annotation,
    attach::{Attachment, cluster_ips},
    condition::{Condition, ConditionStatus, ConditionType, Finding, Notes, ObjectStatus, ParentStatus},
    conflict::Settled,
    endpoints::missing_family,
    route::{Judged, Parent},
};
use crate::{
    ir::{Desired, RouteKey},
    resources::{ObjectKey, Resources},
};
use std::collections::{BTreeMap, BTreeSet};
use weir_common::{
    addr::{Address, Family},
    reason::Reason,
};

type Owners<'a> = BTreeMap<(Address, u16), &'a ObjectKey>;
type Families<'a> = BTreeMap<&'a RouteKey, BTreeSet<Family>>;

/// Writes down what is to be said about all objects.
pub(super) fn statuses(
    resources: &Resources,
    routes: &[Judged<'_>],
    settled: &Settled,
    owners: &Owners<'_>,
    desired: &Desired,
    client_groups: Vec<ObjectStatus>,
    mut notes: Notes,
) -> Vec<ObjectStatus> {
    let families = families(desired);
    let mut statuses: Vec<ObjectStatus> = Vec::with_capacity(routes.len());
    for (i, route) in routes.iter().enumerate() {
        let parents = route.parents.iter().enumerate();
        let conditions = parents.map(|(j, parent)| {
            let mut lost = settled.superseded.get(&(i, j)).cloned().unwrap_or_default();
            let conflicting_route = !lost.is_empty();
            if route.takes_part(parent)
                && let Ok(attachment) = &parent.attachment
            {
                lost.extend(taken_addresses(resources, owners, attachment));
            }
            let reason = if conflicting_route { "ConflictingRoute" } else { "ConflictingAddress" };
            let superseded = (!lost.is_empty()).then(|| Finding::new(reason, lost.join("; ")));
            parent_status(route, parent, superseded)
        });
        let parents = conditions.collect();
        let mut route_notes = route.notes.clone();
        route_notes.extend(settled.partial.get(&i).cloned().unwrap_or_default());
        route_notes.extend(leg_notes(route, desired, &families));
        statuses.push(ObjectStatus {
            kind: route.key.kind.name(),
            key: route.key.object.clone(),
            parents,
            notes: route_notes,
        });
    }
    for (key, backend) in &resources.backends {
        let mut own = notes.take("Backend", key);
        own.extend(annotation::unknown(backend.metadata.annotations.as_ref(), &[], &[]));
        statuses.push(ObjectStatus { kind: "Backend", key: key.clone(), parents: Vec::new(), notes: own });
    }
    statuses.extend(client_groups);
    for key in resources.reference_grants.keys() {
        notes.add(
            "ReferenceGrant",
            key,
            "has no effect: routes on Services need no grant, and Gateways are not handled",
        );
    }
    for (key, service) in &resources.services {
        for note in annotation::unknown(service.metadata.annotations.as_ref(), &[], &[]) {
            notes.add("Service", key, note);
        }
    }
    statuses.extend(notes.into_statuses());
    statuses
}

fn parent_status(route: &Judged<'_>, parent: &Parent<'_>, superseded: Option<Finding>) -> ParentStatus {
    let generation = route.metadata.generation.unwrap_or_default();
    let (status, accepted) = match (&route.route, &parent.attachment) {
        (Err(finding), _) | (Ok(_), Err(finding)) => (ConditionStatus::False, finding.clone()),
        (Ok(_), Ok(attachment)) => {
            (ConditionStatus::True, Finding::new("Accepted", accepted_message(route, attachment)))
        }
    };
    let mut conditions = vec![accepted.condition(ConditionType::Accepted, status, generation)];
    conditions.push(resolved_refs(route, generation));
    if let Some(finding) = superseded {
        conditions.push(finding.condition(ConditionType::Superseded, ConditionStatus::True, generation));
    }
    ParentStatus { parent_ref: parent.reference.clone(), conditions }
}

fn resolved_refs(route: &Judged<'_>, generation: i64) -> Condition {
    match &route.unresolved {
        Some(finding) => finding.condition(ConditionType::ResolvedRefs, ConditionStatus::False, generation),
        None => Finding::new("ResolvedRefs", "every backendRef leads to a backend").condition(
            ConditionType::ResolvedRefs,
            ConditionStatus::True,
            generation,
        ),
    }
}

fn accepted_message(route: &Judged<'_>, attachment: &Attachment) -> String {
    let ports: Vec<String> = attachment.ports.iter().map(u16::to_string).collect();
    let namespace = &route.key.object.namespace;
    let clients = if *namespace == attachment.service.namespace {
        "every client".to_owned()
    } else {
        format!("the clients of namespace {namespace}")
    };
    let noun = if ports.len() == 1 { "port" } else { "ports" };
    let mut message = format!("{noun} {} of Service {}, for {clients}", ports.join(", "), attachment.service);
    if let Ok(own) = &route.route
        && own.legs.iter().all(|leg| leg.weight == 0)
    {
        message.push_str("; all weights are zero, so every connection is refused");
    }
    message
}

/// Says which addresses of a Service another Service has.
fn taken_addresses(resources: &Resources, owners: &Owners<'_>, attachment: &Attachment) -> Vec<String> {
    let addresses = resources.services.get(&attachment.service).map(|service| cluster_ips(service)).unwrap_or_default();
    let mut taken = Vec::new();
    for address in addresses {
        for port in &attachment.ports {
            if let Some(owner) = owners.get(&(address, *port))
                && **owner != attachment.service
            {
                taken.push(format!(
                    "address {address} port {port} belongs to Service {owner}, too, which comes first: give each Service \
                     an address of its own"
                ));
            }
        }
    }
    taken
}

/// Says which legs of a route in force refuse their share though their backendRef is valid.
fn leg_notes(route: &Judged<'_>, desired: &Desired, families: &Families<'_>) -> Vec<String> {
    let Some(own) = desired.routes.get(&route.key) else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    for (i, leg) in own.legs.iter().enumerate() {
        let Some(backend) = leg.target.as_ref().ok().and_then(|key| desired.backends.get(key)) else {
            continue;
        };
        let path = format!("spec.rules[0].backendRefs[{i}]");
        if let Some(reason) = backend.empty {
            let why = if reason == Reason::NotResolved { reason.text() } else { "has no usable endpoint" };
            notes.push(format!("{path} ({}): {why}: its share is refused", leg.label));
            continue;
        }
        for family in families.get(&route.key).into_iter().flatten().filter(|family| missing_family(backend, **family))
        {
            let name = family.name();
            notes.push(format!(
                "{path} ({}): has no {name} endpoint: its share of {name} connections is refused",
                leg.label
            ));
        }
    }
    notes
}

/// Returns the address families in which clients can reach each route.
fn families(desired: &Desired) -> Families<'_> {
    let mut families = Families::new();
    for ((address, _), frontend) in &desired.frontends {
        for route in frontend.routes() {
            families.entry(route).or_default().insert(address.family());
        }
    }
    families
}
