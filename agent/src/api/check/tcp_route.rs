//! Values of a TCPRoute (Gateway API v1.6: the CRD's schema and its CEL rules).

use super::{Check, Mistake, Mistakes, route};
use crate::api::TCPRoute;

impl Check for TCPRoute {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        route::check_parents(&mut mistakes, &self.spec.parent_refs);
        route::check_rules(&mut mistakes, &self.spec.rules);
        mistakes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::GATEWAY_GROUP;
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
