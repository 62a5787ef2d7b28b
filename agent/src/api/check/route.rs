//! Values that all routes have (Gateway API v1.6: the CRDs' schemas and their CEL rules).

use super::Mistakes;
use crate::api::{BackendRef, GATEWAY_GROUP, ParentReference, RouteRule};
use std::collections::BTreeMap;
use weir_common::abi::tables::{MAX_LEGS, MAX_WEIGHT};

pub(super) fn check_parents(mistakes: &mut Mistakes, parents: &[ParentReference]) {
    mistakes.count("spec.parentRefs", parents.len(), 0..=32, "parentRefs");
    let mut seen = BTreeMap::new();
    for (i, parent) in parents.iter().enumerate() {
        let path = format!("spec.parentRefs[{i}]");
        check_parent(mistakes, &path, parent);
        if let Some(first) = seen.insert(identity(parent), i) {
            mistakes.add(&path, format!("names the same parent as spec.parentRefs[{first}]: remove one of the two"));
        }
    }
}

pub(super) fn check_rules(mistakes: &mut Mistakes, rules: &[RouteRule]) {
    mistakes.count("spec.rules", rules.len(), 1..=1, "rules");
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{i}]");
        if let Some(name) = &rule.name {
            mistakes.subdomain(format!("{path}.name"), name);
        }
        let refs = format!("{path}.backendRefs");
        mistakes.count(&refs, rule.backend_refs.len(), 1..=MAX_LEGS, "backendRefs");
        for (j, backend) in rule.backend_refs.iter().enumerate() {
            check_backend(mistakes, &format!("{refs}[{j}]"), backend);
        }
    }
}

/// What makes two references to a parent the same.
fn identity(parent: &ParentReference) -> impl Ord + use<> {
    (
        parent.group.clone().unwrap_or_else(|| GATEWAY_GROUP.to_owned()),
        parent.kind.clone().unwrap_or_else(|| "Gateway".to_owned()),
        parent.namespace.clone(),
        parent.name.clone(),
        parent.section_name.clone(),
        parent.port,
    )
}

fn check_parent(mistakes: &mut Mistakes, path: &str, parent: &ParentReference) {
    mistakes.subdomain(format!("{path}.name"), &parent.name);
    if let Some(namespace) = &parent.namespace {
        mistakes.label(format!("{path}.namespace"), namespace);
    }
    if let Some(section) = &parent.section_name {
        mistakes.subdomain(format!("{path}.sectionName"), section);
    }
    if let Some(port) = parent.port {
        mistakes.port(format!("{path}.port"), port);
    }
}

fn check_backend(mistakes: &mut Mistakes, path: &str, backend: &BackendRef) {
    mistakes.subdomain(format!("{path}.name"), &backend.name);
    if let Some(namespace) = &backend.namespace {
        mistakes.label(format!("{path}.namespace"), namespace);
    }
    match backend.port {
        Some(port) => mistakes.port(format!("{path}.port"), port),
        None if backend.is_service() => {
            mistakes.add(format!("{path}.port"), "is missing: write the number of one of the Service's ports");
        }
        None => {}
    }
    if let Some(weight) = backend.weight
        && !(0..=i64::from(MAX_WEIGHT)).contains(&weight)
    {
        mistakes.add(
            format!("{path}.weight"),
            format!("{weight} is out of range: write 0..={MAX_WEIGHT} (only the proportion of the weights counts)"),
        );
    }
}
