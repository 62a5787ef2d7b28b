//! Values of a TCPRoute (Gateway API v1.6: the CRD's schema and its CEL rules).

use super::{Check, Mistake, Mistakes};
use crate::api::{BackendRef, GATEWAY_GROUP, ParentReference, TCPRoute};
use std::collections::BTreeMap;
use weir_common::abi::tables::{MAX_LEGS, MAX_WEIGHT};

impl Check for TCPRoute {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        mistakes.count("spec.parentRefs", self.spec.parent_refs.len(), 0..=32, "parentRefs");
        let mut seen = BTreeMap::new();
        for (i, parent) in self.spec.parent_refs.iter().enumerate() {
            let path = format!("spec.parentRefs[{i}]");
            check_parent(&mut mistakes, &path, parent);
            if let Some(first) = seen.insert(identity(parent), i) {
                mistakes
                    .add(&path, format!("names the same parent as spec.parentRefs[{first}]: remove one of the two"));
            }
        }
        mistakes.count("spec.rules", self.spec.rules.len(), 1..=1, "rules");
        for (i, rule) in self.spec.rules.iter().enumerate() {
            let path = format!("spec.rules[{i}]");
            if let Some(name) = &rule.name {
                mistakes.subdomain(format!("{path}.name"), name);
            }
            let refs = format!("{path}.backendRefs");
            mistakes.count(&refs, rule.backend_refs.len(), 1..=MAX_LEGS, "backendRefs");
            for (j, backend) in rule.backend_refs.iter().enumerate() {
                check_backend(&mut mistakes, &format!("{refs}[{j}]"), backend);
            }
        }
        mistakes.0
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(spec: serde_json::Value) -> Vec<String> {
        let route = TCPRoute::new("r", serde_json::from_value(spec).unwrap());
        route.mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn a_valid_route_has_no_mistakes() {
        let backends: Vec<_> =
            (0..16).map(|i| json!({"name": format!("b{i}"), "port": 1, "weight": 1_000_000})).collect();
        assert_eq!(
            paths(json!({
                "parentRefs": [
                    {"group": "", "kind": "Service", "name": "a", "port": 1},
                    {"group": "", "kind": "Service", "name": "a", "port": 65535},
                ],
                "rules": [{"backendRefs": backends}],
            })),
            Vec::<String>::new()
        );
    }

    #[test]
    fn every_mistake_is_named() {
        assert_eq!(
            paths(json!({
                "parentRefs": [{"name": "a", "port": 0}, {"name": "a", "port": 0, "group": GATEWAY_GROUP, "kind": "Gateway"}],
                "rules": [{"backendRefs": [
                    {"name": "B", "port": 65536},
                    {"name": "b", "weight": -1},
                    {"name": "b", "kind": "Backend", "group": "weir.dev", "weight": 1_000_001},
                ]}],
            })),
            [
                "spec.parentRefs[0].port",
                "spec.parentRefs[1].port",
                "spec.parentRefs[1]",
                "spec.rules[0].backendRefs[0].name",
                "spec.rules[0].backendRefs[0].port",
                "spec.rules[0].backendRefs[1].port",
                "spec.rules[0].backendRefs[1].weight",
                "spec.rules[0].backendRefs[2].weight",
            ]
        );
    }

    #[test]
    fn a_route_has_exactly_one_rule_and_1_to_16_backends() {
        assert_eq!(paths(json!({"rules": []})), ["spec.rules"]);
        let empty = json!({"backendRefs": []});
        assert_eq!(
            paths(json!({"rules": [empty, empty]})),
            ["spec.rules", "spec.rules[0].backendRefs", "spec.rules[1].backendRefs"]
        );
        let many: Vec<_> = (0..17).map(|_| json!({"name": "b", "port": 1})).collect();
        assert_eq!(paths(json!({"rules": [{"backendRefs": many}]})), ["spec.rules[0].backendRefs"]);
    }
}
