//! Which ports of which Service a parentRef selects (GEP-1294: frontend role of a Service).

use super::condition::Finding;
use crate::{
    api::ParentReference,
    resources::{ObjectKey, Resources},
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use std::net::IpAddr;
use weir_common::addr::Address;

/// What a parentRef selects: ports of a Service that has addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    pub(super) service: ObjectKey,
    /// Service ports, ascending.
    pub(super) ports: Vec<u16>,
}

/// Finds the Service ports that a parentRef to a Service selects, or why there are none.
pub(super) fn attach(
    resources: &Resources,
    namespace: &str,
    path: &str,
    parent: &ParentReference,
) -> Result<Attachment, Finding> {
    let namespace = parent.namespace.as_deref().unwrap_or(namespace);
    let key = ObjectKey::new(namespace, &parent.name);
    let Some(service) = resources.services.get(&key) else {
        return Err(no_parent(format!(
            "{path}: Service {key} does not exist: create it, or correct name and namespace"
        )));
    };
    let spec = spec(service);
    if spec.type_.as_deref() == Some("ExternalName") {
        return Err(unsupported(format!(
            "{path}: Service {key} is of type ExternalName, so no connection can be told by its address: attach to a \
             Service with a cluster IP"
        )));
    }
    if spec.cluster_ip.as_deref() == Some("None") {
        return Err(unsupported(format!(
            "{path}: Service {key} is headless (clusterIP: None), so no connection can be told by its address: attach \
             to a Service with a cluster IP"
        )));
    }
    if cluster_ips(service).is_empty() {
        return Err(no_parent(format!(
            "{path}: Service {key} has no cluster IP: write spec.clusterIPs (in files nobody allocates one)"
        )));
    }
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut selected: Vec<u16> = ports.iter().filter(|port| selects(parent, port)).filter_map(tcp_port).collect();
    selected.sort_unstable();
    selected.dedup();
    if selected.is_empty() {
        Err(no_port(path, &key, parent, ports))
    } else {
        Ok(Attachment { service: key, ports: selected })
    }
}

/// Returns the addresses that clients of a Service dial: its cluster IPs, of both families.
pub(super) fn cluster_ips(service: &Service) -> Vec<Address> {
    let spec = spec(service);
    let listed = spec.cluster_ips.as_deref().unwrap_or_default();
    let addresses = if listed.is_empty() { spec.cluster_ip.as_slice() } else { listed };
    addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()).map(Address::from).collect()
}

/// Returns the spec; a Service without one has nothing in it.
pub(super) fn spec(service: &Service) -> &ServiceSpec {
    static EMPTY: std::sync::LazyLock<ServiceSpec> = std::sync::LazyLock::new(ServiceSpec::default);
    service.spec.as_ref().unwrap_or(&EMPTY)
}

/// Whether a port is for TCP.
pub(super) fn is_tcp(port: &ServicePort) -> bool {
    matches!(port.protocol.as_deref(), None | Some("" | "TCP"))
}

fn tcp_port(port: &ServicePort) -> Option<u16> {
    is_tcp(port).then(|| u16::try_from(port.port).ok().filter(|number| *number != 0)).flatten()
}

fn selects(parent: &ParentReference, port: &ServicePort) -> bool {
    parent.port.is_none_or(|number| number == i64::from(port.port))
        && parent.section_name.as_deref().is_none_or(|name| Some(name) == port.name.as_deref())
}

fn no_port(path: &str, key: &ObjectKey, parent: &ParentReference, ports: &[ServicePort]) -> Finding {
    let wanted = match (parent.port, parent.section_name.as_deref()) {
        (None, None) => "no TCP port".to_owned(),
        (Some(port), None) => format!("no TCP port {port}"),
        (None, Some(name)) => format!("no TCP port named \"{name}\""),
        (Some(port), Some(name)) => format!("no TCP port {port} named \"{name}\""),
    };
    no_parent(format!("{path}: Service {key} has {wanted}: {}", list_ports(ports)))
}

/// Says which ports there are, for a message about one that is not there.
pub(super) fn list_ports(ports: &[ServicePort]) -> String {
    if ports.is_empty() {
        return "it has no ports at all".to_owned();
    }
    let list: Vec<String> = ports
        .iter()
        .map(|port| {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            match port.name.as_deref() {
                Some(name) if !name.is_empty() => format!("{}/{protocol} \"{name}\"", port.port),
                _ => format!("{}/{protocol}", port.port),
            }
        })
        .collect();
    format!("it has {}", list.join(", "))
}

fn no_parent(message: String) -> Finding {
    Finding::new("NoMatchingParent", message)
}

fn unsupported(message: String) -> Finding {
    Finding::new("UnsupportedValue", message)
}
