//! ReferenceGrants: may an object of one namespace refer to an object of another?
//!
//! Routes of a mesh need no grant (GEP-1294: the client could reach the backend anyway), routes of a
//! Gateway do. A check comes before the look-up of the target, so that nothing tells whether a
//! target exists that one may not refer to.

use crate::{api::ReferenceGrantTo, resources::Resources};

/// Whether a reference to another namespace needs a ReferenceGrant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRule {
    /// Mesh: never.
    NotNeeded,
    /// Gateway: for another namespace.
    Needed,
}

/// Who refers.
#[derive(Clone, Copy, Debug)]
pub struct Referrer<'a> {
    /// API group.
    pub group: &'a str,
    /// Kind; a grant for another kind does not count.
    pub kind: &'a str,
    /// Namespace.
    pub namespace: &'a str,
}

/// To what.
#[derive(Clone, Copy, Debug)]
pub struct Referent<'a> {
    /// API group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

/// Says whether a reference is allowed: inside a namespace always, else if any grant in the
/// namespace of the target allows it.
#[must_use]
pub fn permits(resources: &Resources, rule: GrantRule, from: Referrer<'_>, to: Referent<'_>) -> bool {
    if rule == GrantRule::NotNeeded || from.namespace == to.namespace {
        return true;
    }
    resources.reference_grants.iter().any(|(key, grant)| {
        let from_fits = grant
            .spec
            .from
            .iter()
            .any(|entry| entry.group == from.group && entry.kind == from.kind && entry.namespace == from.namespace);
        key.namespace == to.namespace && from_fits && grant.spec.to.iter().any(|entry| covers(entry, to))
    })
}

fn covers(entry: &ReferenceGrantTo, to: Referent<'_>) -> bool {
    entry.group == to.group && entry.kind == to.kind && entry.name.as_deref().is_none_or(|name| name == to.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{GATEWAY_GROUP, ReferenceGrant, ReferenceGrantFrom, ReferenceGrantSpec},
        resources::ObjectKey,
    };
    use std::sync::Arc;

    const FROM: Referrer<'static> = Referrer { group: GATEWAY_GROUP, kind: "TCPRoute", namespace: "apps" };
    const TO: Referent<'static> = Referent { group: "", kind: "Service", namespace: "data", name: "db" };

    fn granted(namespace: &str, from: Referrer<'_>, to_kind: &str, to_name: Option<&str>) -> bool {
        let spec = ReferenceGrantSpec {
            from: vec![ReferenceGrantFrom {
                group: from.group.to_owned(),
                kind: from.kind.to_owned(),
                namespace: from.namespace.to_owned(),
            }],
            to: vec![ReferenceGrantTo {
                group: String::new(),
                kind: to_kind.to_owned(),
                name: to_name.map(str::to_owned),
            }],
        };
        let mut resources = Resources::default();
        resources.reference_grants.insert(ObjectKey::new(namespace, "g"), Arc::new(ReferenceGrant::new("g", spec)));
        permits(&resources, GrantRule::Needed, FROM, TO)
    }

    #[test]
    fn without_a_grant_another_namespace_is_refused() {
        assert!(!permits(&Resources::default(), GrantRule::Needed, FROM, TO));
        assert!(permits(&Resources::default(), GrantRule::Needed, FROM, Referent { namespace: "apps", ..TO }));
    }

    #[test]
    fn a_mesh_route_needs_no_grant() {
        assert!(permits(&Resources::default(), GrantRule::NotNeeded, FROM, TO));
    }

    #[test]
    fn a_grant_must_fit_in_every_field() {
        assert!(granted("data", FROM, "Service", None));
        assert!(granted("data", FROM, "Service", Some("db")));
        assert!(!granted("data", FROM, "Service", Some("other")));
        assert!(!granted("data", FROM, "Secret", None));
        assert!(!granted("apps", FROM, "Service", None));
        assert!(!granted("data", Referrer { kind: "HTTPRoute", ..FROM }, "Service", None));
        assert!(!granted("data", Referrer { namespace: "x", ..FROM }, "Service", None));
        assert!(!granted("data", Referrer { group: "", ..FROM }, "Service", None));
    }
}
