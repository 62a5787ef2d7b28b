//! EndpointSlices, reduced to what translation needs. A large installation has many more endpoints
//! than anything else, and the full objects are twenty times as large.

use crate::api::SERVICE_NAME;
use k8s_openapi::api::discovery::v1::{self, EndpointConditions};
use std::net::IpAddr;
use weir_common::addr::{Address, Family};

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service that its label names.
    pub service: Option<Box<str>>,
    /// Family of its addresses; `None` for host names (`FQDN`).
    pub family: Option<Family>,
    /// Its ports that are TCP.
    pub ports: Box<[SlicePort]>,
    /// Its endpoints.
    pub endpoints: Box<[SliceEndpoint]>,
}

/// A TCP port of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Name, empty if it has none.
    pub name: Box<str>,
    /// Number, if it has one.
    pub port: Option<u16>,
}

/// An endpoint of an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its first address, or why it cannot be used.
    pub address: Result<Address, Box<str>>,
    /// Whether it has more addresses; Kubernetes gives no meaning to them.
    pub has_more: bool,
    /// Ready, or not known to be unready.
    pub ready: bool,
    /// Serving while it terminates.
    pub serving_terminating: bool,
}

impl From<v1::EndpointSlice> for EndpointSlice {
    fn from(slice: v1::EndpointSlice) -> Self {
        let family = [Family::V4, Family::V6].into_iter().find(|family| family.name() == slice.address_type);
        let is_tcp = |protocol: Option<&str>| matches!(protocol, None | Some("" | "TCP"));
        let ports = slice.ports.into_iter().flatten().filter(|port| is_tcp(port.protocol.as_deref()));
        let ports = ports.map(|port| SlicePort {
            name: port.name.unwrap_or_default().into_boxed_str(),
            port: port.port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0),
        });
        let endpoints = slice.endpoints.iter().map(|endpoint| SliceEndpoint {
            address: address(endpoint.addresses.first().map(String::as_str), &slice.address_type),
            has_more: endpoint.addresses.len() > 1,
            ready: is_ready(endpoint.conditions.as_ref()),
            serving_terminating: is_serving_terminating(endpoint.conditions.as_ref()),
        });
        Self {
            service: slice
                .metadata
                .labels
                .and_then(|mut labels| labels.remove(SERVICE_NAME))
                .map(String::into_boxed_str),
            family,
            ports: ports.collect(),
            endpoints: endpoints.collect(),
        }
    }
}

fn address(text: Option<&str>, address_type: &str) -> Result<Address, Box<str>> {
    let Some(text) = text else {
        return Err("an endpoint without addresses is ignored".into());
    };
    match text.parse::<IpAddr>() {
        Ok(ip) if !ip.is_unspecified() && !ip.is_multicast() => {
            let address = Address::from(ip);
            if address.family().name() == address_type {
                return Ok(address);
            }
            Err(format!("{text} is ignored: it is not an {address_type} address").into())
        }
        Ok(_) => Err(format!("{text} is ignored: it is not an address that one can connect to").into()),
        Err(_) => Err(format!("\"{text}\" is ignored: it is not an address").into()),
    }
}

/// Kubernetes: unknown means ready.
fn is_ready(conditions: Option<&EndpointConditions>) -> bool {
    conditions.and_then(|conditions| conditions.ready).unwrap_or(true)
}

/// Kubernetes: serving defaults to ready, terminating to false.
fn is_serving_terminating(conditions: Option<&EndpointConditions>) -> bool {
    let serving = conditions.and_then(|conditions| conditions.serving).unwrap_or_else(|| is_ready(conditions));
    serving && conditions.and_then(|conditions| conditions.terminating) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>) -> (bool, bool) {
        let conditions = EndpointConditions { ready, serving, terminating };
        (is_ready(Some(&conditions)), is_serving_terminating(Some(&conditions)))
    }

    #[test]
    fn unknown_readiness_is_ready() {
        assert!(is_ready(None));
        assert_eq!(conditions(None, None, None), (true, false));
    }

    #[test]
    fn serving_counts_only_while_terminating() {
        assert_eq!(conditions(Some(false), Some(true), Some(true)), (false, true));
        assert_eq!(conditions(Some(false), Some(true), Some(false)), (false, false));
        assert_eq!(conditions(Some(false), Some(true), None), (false, false));
        assert_eq!(conditions(Some(false), Some(false), Some(true)), (false, false));
        assert_eq!(conditions(Some(false), None, Some(true)), (false, false));
    }

    #[test]
    fn an_endpoint_is_small() {
        assert!(size_of::<SliceEndpoint>() <= 32, "{} bytes", size_of::<SliceEndpoint>());
    }

    #[test]
    fn unusable_addresses_say_why() {
        assert_eq!(address(Some("10.0.0.1"), "IPv4"), Ok(Address::from(IpAddr::from([10, 0, 0, 1]))));
        for (text, kind) in [("10.0.0.1", "IPv6"), ("0.0.0.0", "IPv4"), ("224.0.0.1", "IPv4"), ("host", "IPv4")] {
            assert!(address(Some(text), kind).unwrap_err().contains(text), "{text}");
        }
        assert!(address(None, "IPv4").is_err());
    }
}
