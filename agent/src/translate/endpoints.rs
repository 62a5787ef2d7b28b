//! The endpoints behind a backend: from EndpointSlices, or from a Backend's addresses and names.

use super::{
    attach::{is_tcp, spec},
    condition::Notes,
};
use crate::{
    api::{self, SERVICE_NAME},
    ir::{Backend, BackendKey, BackendKind, Endpoint},
    resources::{EndpointSlice, ObjectKey, Resources, SliceEndpoint},
};
use std::{collections::BTreeMap, net::IpAddr};
use weir_common::{
    abi::tables::EndpointReadiness,
    addr::{Address, Family},
    reason::Reason,
};

/// The slices of each Service.
pub(super) struct Slices<'a>(BTreeMap<(&'a str, &'a str), Vec<(&'a ObjectKey, &'a EndpointSlice)>>);

impl<'a> Slices<'a> {
    /// Groups the slices by the Service that their label names.
    pub(super) fn new(resources: &'a Resources, notes: &mut Notes) -> Self {
        let mut by_service: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, slice) in &resources.endpoint_slices {
            let Some(service) = &slice.service else {
                notes.add("EndpointSlice", key, format!("belongs to no Service: add the label {SERVICE_NAME}"));
                continue;
            };
            if slice.family.is_none() {
                notes.add("EndpointSlice", key, "addressType FQDN is ignored: use a Backend (weir.dev) for host names");
                continue;
            }
            by_service.entry((key.namespace.as_str(), &**service)).or_default().push((key, slice.as_ref()));
        }
        Self(by_service)
    }

    fn of<'b>(&'b self, service: &'b ObjectKey) -> &'b [(&'b ObjectKey, &'b EndpointSlice)] {
        self.0.get(&(service.namespace.as_str(), service.name.as_str())).map_or(&[], Vec::as_slice)
    }
}

/// Finds the endpoints of a backend whose reference was resolved.
pub(super) fn endpoints(resources: &Resources, slices: &Slices<'_>, key: &BackendKey, notes: &mut Notes) -> Backend {
    match key.kind {
        BackendKind::Service => of_service(resources, slices, key, notes),
        BackendKind::Backend => of_backend(resources, &key.object, notes),
    }
}

fn of_service(resources: &Resources, slices: &Slices<'_>, key: &BackendKey, notes: &mut Notes) -> Backend {
    let mut found = Found::default();
    let Some(service) = resources.services.get(&key.object) else {
        return found.into_backend(Reason::NoEndpoints);
    };
    let spec = spec(service);
    let ports = spec.ports.as_deref().unwrap_or_default();
    let port = ports.iter().find(|port| is_tcp(port) && port.port == i32::from(key.port));
    let port_name = port.and_then(|port| port.name.as_deref()).unwrap_or_default();
    let publish_all = spec.publish_not_ready_addresses == Some(true);
    let mut has_port = false;
    for (slice_key, slice) in slices.of(&key.object) {
        let Some(target) = target_port(slice, port_name) else {
            continue;
        };
        has_port = true;
        for endpoint in &slice.endpoints {
            let Some(readiness) = readiness(endpoint, publish_all) else {
                continue;
            };
            match &endpoint.address {
                Ok(address) => found.add(*address, target, readiness),
                Err(note) => notes.add("EndpointSlice", slice_key, note.to_string()),
            }
            if endpoint.has_more {
                // Kubernetes gives no meaning to the others, and kube-proxy does not look at them.
                notes.add("EndpointSlice", slice_key, "only the first address of each endpoint is used");
            }
        }
    }
    if found.0.is_empty() {
        notes.add("Service", &key.object, why_empty(slices.of(&key.object), key.port, port_name, has_port));
    }
    found.into_backend(Reason::NoEndpoints)
}

fn why_empty(slices: &[(&ObjectKey, &EndpointSlice)], port: u16, port_name: &str, has_port: bool) -> String {
    if slices.is_empty() {
        return format!(
            "port {port} has no endpoints: no EndpointSlice has the label {SERVICE_NAME} with this name; its share is \
             refused"
        );
    }
    if has_port {
        return format!("port {port} has no endpoint that is ready or serving: its share is refused");
    }
    let names: Vec<String> =
        slices.iter().flat_map(|(_, slice)| &slice.ports).map(|port| format!("\"{}\"", port.name)).collect();
    format!(
        "port {port} has no endpoints: its name is \"{port_name}\", its EndpointSlices have TCP ports for {}; the names \
         must be equal",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )
}

/// Finds where a Service's port leads in one slice: by name, because target ports may differ by slice.
fn target_port(slice: &EndpointSlice, port_name: &str) -> Option<u16> {
    slice.ports.iter().find(|port| *port.name == *port_name)?.port
}

/// Says in which part of its life an endpoint is; `None` if it must not be used.
fn readiness(endpoint: &SliceEndpoint, publish_all: bool) -> Option<EndpointReadiness> {
    if endpoint.ready || publish_all {
        Some(EndpointReadiness::Ready)
    } else if endpoint.serving_terminating {
        Some(EndpointReadiness::ServingTerminating)
    } else {
        None
    }
}

fn of_backend(resources: &Resources, key: &ObjectKey, notes: &mut Notes) -> Backend {
    let mut found = Found::default();
    let mut reason = Reason::NoEndpoints;
    let endpoints = resources.backends.get(key).map(|backend| backend.spec.endpoints.as_slice()).unwrap_or_default();
    for endpoint in endpoints {
        let Some(port) = u16::try_from(endpoint.port).ok().filter(|port| *port != 0) else {
            notes.add(
                "Backend",
                key,
                format!("the endpoint with port {} is ignored: ports are 1..=65535", endpoint.port),
            );
            continue;
        };
        if let Some(text) = &endpoint.address {
            match text.parse::<IpAddr>() {
                Ok(ip) => found.add(Address::from(ip), port, EndpointReadiness::Ready),
                Err(_) => notes.add("Backend", key, format!("\"{text}\" is ignored: it is not an address")),
            }
        }
        let Some(name) = endpoint.hostname.as_deref().map(api::normal_host_name) else {
            continue;
        };
        match resources.resolved.get(&name) {
            Some(addresses) => {
                if addresses.is_empty() {
                    notes.add("Backend", key, format!("host name {name} has no addresses"));
                }
                for ip in addresses {
                    found.add(Address::from(*ip), port, EndpointReadiness::Ready);
                }
            }
            None => {
                reason = Reason::NotResolved;
                notes.add("Backend", key, format!("host name {name} has not been resolved yet"));
            }
        }
    }
    found.into_backend(reason)
}

/// Endpoints by address and port: one that is found twice counts once, with its better readiness.
#[derive(Default)]
struct Found(BTreeMap<(Address, u16), EndpointReadiness>);

impl Found {
    fn add(&mut self, address: Address, port: u16, readiness: EndpointReadiness) {
        let best = self.0.entry((address, port)).or_insert(readiness);
        *best = readiness.min(*best);
    }

    fn into_backend(self, empty: Reason) -> Backend {
        let empty = self.0.is_empty().then_some(empty);
        let endpoints =
            self.0.into_iter().map(|((address, port), readiness)| Endpoint { address, port, readiness }).collect();
        Backend { endpoints, empty }
    }
}

/// Says which families a backend's endpoints leave out, of those that its frontends have.
pub(super) fn missing_family(backend: &Backend, family: Family) -> bool {
    !backend.endpoints.is_empty() && !backend.endpoints.iter().any(|endpoint| endpoint.address.family() == family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publish_not_ready_addresses_makes_all_ready() {
        let endpoint = |ready, serving_terminating| SliceEndpoint {
            address: Ok(Address::from_v4_octets([10, 0, 0, 1])),
            has_more: false,
            ready,
            serving_terminating,
        };
        assert_eq!(readiness(&endpoint(false, false), true), Some(EndpointReadiness::Ready));
        assert_eq!(readiness(&endpoint(false, false), false), None);
        assert_eq!(readiness(&endpoint(false, true), false), Some(EndpointReadiness::ServingTerminating));
        assert_eq!(readiness(&endpoint(true, true), false), Some(EndpointReadiness::Ready));
    }

    #[test]
    fn an_address_found_twice_counts_once_with_the_better_readiness() {
        let address = Address::from(IpAddr::from([10, 0, 0, 1]));
        for order in [
            [EndpointReadiness::Ready, EndpointReadiness::ServingTerminating],
            [EndpointReadiness::ServingTerminating, EndpointReadiness::Ready],
        ] {
            let mut found = Found::default();
            for readiness in order {
                found.add(address, 80, readiness);
            }
            let backend = found.into_backend(Reason::NoEndpoints);
            assert_eq!(backend.endpoints, [Endpoint { address, port: 80, readiness: EndpointReadiness::Ready }].into());
            assert_eq!(backend.empty, None);
        }
    }
}
