//! Where a backendRef leads, or why it rejects its share.
//!
//! The checks run in one order, and the first that fails is the answer: kind, grant, existence, port,
//! protocol. The grant comes before existence, see [`super::grant`].

use super::{
    attach::{is_tcp, list_ports, spec},
    condition::Finding,
    grant::{GrantRule, Referent, Referrer, permits},
};
use crate::{
    api::{BackendRef, WEIR_GROUP},
    ir::{BackendKey, BackendKind},
    resources::{ObjectKey, Resources},
};
use weir_common::reason::Reason;

/// Why a backendRef cannot be followed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// What its share of connections is rejected for.
    pub(super) reason: Reason,
    /// What ResolvedRefs says.
    pub(super) finding: Finding,
}

/// Follows one backendRef of a route.
pub(super) fn resolve(
    resources: &Resources,
    from: Referrer<'_>,
    rule: GrantRule,
    backend: &BackendRef,
) -> Result<BackendKey, Refusal> {
    let (group, kind) = (backend.group(), backend.kind());
    let backend_kind = match (group, kind) {
        ("", "Service") => BackendKind::Service,
        (WEIR_GROUP, "Backend") => BackendKind::Backend,
        _ => {
            let message = format!(
                "kind {kind} of group \"{group}\" is not supported: refer to a Service (group \"\") or a Backend (group \
                 \"{WEIR_GROUP}\")"
            );
            return refuse(Reason::InvalidKind, "InvalidKind", message);
        }
    };
    let key = ObjectKey::new(backend.namespace.as_deref().unwrap_or(from.namespace), &backend.name);
    let to = Referent { group, kind, namespace: &key.namespace, name: &key.name };
    if !permits(resources, rule, from, to) {
        let message = format!(
            "no ReferenceGrant in namespace {} lets a {} of namespace {} refer to {kind} {}",
            key.namespace, from.kind, from.namespace, key.name
        );
        return refuse(Reason::RefNotPermitted, "RefNotPermitted", message);
    }
    match backend_kind {
        BackendKind::Service => resolve_service(resources, from, key, backend.port),
        BackendKind::Backend if resources.backends.contains_key(&key) => {
            Ok(BackendKey { kind: BackendKind::Backend, object: key, port: 0 })
        }
        BackendKind::Backend => not_found("Backend", &key),
    }
}

fn resolve_service(
    resources: &Resources,
    from: Referrer<'_>,
    key: ObjectKey,
    port: Option<i64>,
) -> Result<BackendKey, Refusal> {
    let Some(service) = resources.services.get(&key) else {
        return not_found("Service", &key);
    };
    let spec = spec(service);
    if spec.type_.as_deref() == Some("ExternalName") {
        let message = format!(
            "Service {key} is of type ExternalName and has no endpoints of its own: refer to a Backend (group \
             \"{WEIR_GROUP}\") with that host name"
        );
        return refuse(Reason::UnsupportedBackend, "InvalidKind", message);
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let found =
        port.and_then(|number| ports.iter().filter(|port| i64::from(port.port) == number).max_by_key(|p| is_tcp(p)));
    let (Some(number), Some(found)) = (port, found) else {
        let wanted = port.map_or_else(|| "no port is named".to_owned(), |number| format!("has no port {number}"));
        // The Gateway API has no reason of its own for a missing port.
        let message = format!("Service {key} {wanted}: {}", list_ports(ports));
        return refuse(Reason::PortNotFound, "BackendNotFound", message);
    };
    if !is_tcp(found) {
        let protocol = found.protocol.as_deref().unwrap_or_default();
        let message = format!("port {number} of Service {key} is for {protocol}, a {} needs a TCP port", from.kind);
        return refuse(Reason::UnsupportedBackend, "UnsupportedProtocol", message);
    }
    match u16::try_from(number) {
        Ok(port) if port != 0 => Ok(BackendKey { kind: BackendKind::Service, object: key, port }),
        _ => refuse(Reason::PortNotFound, "BackendNotFound", format!("{number} is not a port: write 1..=65535")),
    }
}

fn not_found(kind: &str, key: &ObjectKey) -> Result<BackendKey, Refusal> {
    let message = format!("{kind} {key} does not exist: create it, or correct name and namespace");
    refuse(Reason::BackendNotFound, "BackendNotFound", message)
}

fn refuse(reason: Reason, condition: &'static str, message: String) -> Result<BackendKey, Refusal> {
    Err(Refusal { reason, finding: Finding::new(condition, message) })
}
