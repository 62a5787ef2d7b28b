//! Values of a TLSRoute (Gateway API v1.6: the CRD's schema and its CEL rules).

use super::{Check, Mistake, Mistakes, name, route};
use crate::api::TLSRoute;

/// Most host names of a route.
const MAX_HOSTNAMES: usize = 1024;

impl Check for TLSRoute {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        route::check_parents(&mut mistakes, &self.spec.parent_refs);
        mistakes.count("spec.hostnames", self.spec.hostnames.len(), 1..=MAX_HOSTNAMES, "hostnames");
        for (i, hostname) in self.spec.hostnames.iter().enumerate() {
            if let Some(message) = name::server_name_mistake(hostname) {
                mistakes.add(format!("spec.hostnames[{i}]"), message);
            }
        }
        route::check_rules(&mut mistakes, &self.spec.rules);
        mistakes.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(spec: serde_json::Value) -> Vec<String> {
        let route = TLSRoute::new("r", serde_json::from_value(spec).unwrap());
        route.mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn a_route_has_1_to_1024_hostnames() {
        let rules = json!([{"backendRefs": [{"name": "b", "port": 1}]}]);
        let with = |count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("n{i}.example")).collect();
            paths(json!({"hostnames": names, "rules": rules}))
        };
        assert_eq!(with(1), [""; 0]);
        assert_eq!(with(1024), [""; 0]);
        assert_eq!(with(0), ["spec.hostnames"]);
        assert_eq!(with(1025), ["spec.hostnames"]);
    }

    #[test]
    fn every_mistake_is_named_in_the_order_of_the_fields() {
        assert_eq!(
            paths(json!({
                "parentRefs": [{"group": "", "kind": "Service", "name": "a", "port": 0}],
                "hostnames": ["good.example", "10.0.0.1", "*"],
                "rules": [{"backendRefs": [{"name": "b"}]}, {"backendRefs": []}],
            })),
            [
                "spec.parentRefs[0].port",
                "spec.hostnames[1]",
                "spec.hostnames[2]",
                "spec.rules",
                "spec.rules[0].backendRefs[0].port",
                "spec.rules[1].backendRefs",
            ]
        );
    }
}
