//! The endpoints behind a backend: from EndpointSlices, or from a Backend's addresses and names.

use super::{
    attach::{is_tcp, spec},
    condition::Notes,
};
use crate::{
    api::{self, SERVICE_NAME},
    ir::{Backend, BackendKey, BackendKind, Endpoint},
    resources::{ObjectKey, Resources},
};
use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointConditions, EndpointSlice};
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
            let label = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
            let Some(service) = label else {
                notes.add("EndpointSlice", key, format!("belongs to no Service: add the label {SERVICE_NAME}"));
                continue;
            };
            if slice.address_type == "FQDN" {
                notes.add("EndpointSlice", key, "addressType FQDN is ignored: use a Backend (weir.dev) for host names");
                continue;
            }
            by_service.entry((key.namespace.as_str(), service.as_str())).or_default().push((key, slice.as_ref()));
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
            let Some(readiness) = readiness(endpoint.conditions.as_ref(), publish_all) else {
                continue;
            };
            match address(slice, endpoint) {
                Ok(address) => found.add(address, target, readiness),
                Err(note) => notes.add("EndpointSlice", slice_key, note),
            }
            if endpoint.addresses.len() > 1 {
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
    let names: Vec<String> = slices
        .iter()
        .flat_map(|(_, slice)| slice.ports.iter().flatten())
        .map(|port| format!("\"{}\"", port.name.as_deref().unwrap_or_default()))
        .collect();
    format!(
        "port {port} has no endpoints: its name is \"{port_name}\", its EndpointSlices have TCP ports for {}; the names \
         must be equal",
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )
}

/// Finds where a Service's port leads in one slice: by name, because target ports may differ by slice.
fn target_port(slice: &EndpointSlice, port_name: &str) -> Option<u16> {
    let port = slice.ports.iter().flatten().find(|port| {
        port.name.as_deref().unwrap_or_default() == port_name
            && matches!(port.protocol.as_deref(), None | Some("" | "TCP"))
    })?;
    u16::try_from(port.port?).ok().filter(|number| *number != 0)
}

/// Says in which part of its life an endpoint is; `None` if it must not be used.
fn readiness(conditions: Option<&EndpointConditions>, publish_all: bool) -> Option<EndpointReadiness> {
    let (ready, serving, terminating) = conditions
        .map_or((None, None, None), |conditions| (conditions.ready, conditions.serving, conditions.terminating));
    // Kubernetes: unknown means ready; serving defaults to ready; terminating defaults to false.
    let ready = ready.unwrap_or(true);
    let serving = serving.unwrap_or(ready);
    if ready || publish_all {
        Some(EndpointReadiness::Ready)
    } else if serving && terminating == Some(true) {
        Some(EndpointReadiness::ServingTerminating)
    } else {
        None
    }
}

fn address(slice: &EndpointSlice, endpoint: &SliceEndpoint) -> Result<Address, String> {
    let Some(text) = endpoint.addresses.first() else {
        return Err("an endpoint without addresses is ignored".to_owned());
    };
    match text.parse::<IpAddr>() {
        Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => {
            let address = Address::from(ip);
            if address.family().name() == slice.address_type {
                return Ok(address);
            }
            Err(format!("{text} is ignored: it is not an {} address", slice.address_type))
        }
        Ok(_) => Err(format!("{text} is ignored: it is not an address that one can connect to")),
        Err(_) => Err(format!("\"{text}\" is ignored: it is not an address")),
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

    fn conditions(ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>) -> Option<EndpointReadiness> {
        readiness(Some(&EndpointConditions { ready, serving, terminating }), false)
    }

    #[test]
    fn unknown_readiness_is_ready() {
        assert_eq!(readiness(None, false), Some(EndpointReadiness::Ready));
        assert_eq!(conditions(None, None, None), Some(EndpointReadiness::Ready));
    }

    #[test]
    fn serving_counts_only_while_terminating() {
        assert_eq!(conditions(Some(false), Some(true), Some(true)), Some(EndpointReadiness::ServingTerminating));
        assert_eq!(conditions(Some(false), Some(true), Some(false)), None);
        assert_eq!(conditions(Some(false), Some(true), None), None);
        assert_eq!(conditions(Some(false), Some(false), Some(true)), None);
        assert_eq!(conditions(Some(false), None, Some(true)), None);
    }

    #[test]
    fn publish_not_ready_addresses_makes_all_ready() {
        let not_ready = EndpointConditions { ready: Some(false), serving: Some(false), terminating: None };
        assert_eq!(readiness(Some(&not_ready), true), Some(EndpointReadiness::Ready));
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
