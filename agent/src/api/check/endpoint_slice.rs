//! Values of an EndpointSlice, as far as Weir reads them.

use super::{Check, Mistake, Mistakes};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

impl Check for EndpointSlice {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        let address_type = self.address_type.as_str();
        if !matches!(address_type, "IPv4" | "IPv6" | "FQDN") {
            mistakes.add("addressType", format!("\"{address_type}\" is unknown: write IPv4 or IPv6"));
        }
        mistakes.count("endpoints", self.endpoints.len(), 0..=1000, "endpoints");
        for (i, endpoint) in self.endpoints.iter().enumerate() {
            mistakes.count(&format!("endpoints[{i}].addresses"), endpoint.addresses.len(), 1..=100, "addresses");
            for (j, address) in endpoint.addresses.iter().enumerate() {
                if let Some(message) = address_mistake(address_type, address) {
                    mistakes.add(format!("endpoints[{i}].addresses[{j}]"), message);
                }
            }
        }
        let mut names = BTreeMap::new();
        for (i, port) in self.ports.as_deref().unwrap_or_default().iter().enumerate() {
            let path = format!("ports[{i}]");
            if let Some(number) = port.port {
                mistakes.port(format!("{path}.port"), i64::from(number));
            }
            let name = port.name.as_deref().unwrap_or_default();
            mistakes.port_name(format!("{path}.name"), name);
            if let Some(first) = names.insert(name, i) {
                mistakes.add(format!("{path}.name"), format!("\"{name}\" is the name of ports[{first}], too"));
            }
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
                mistakes.add(format!("{path}.protocol"), format!("\"{protocol}\" is unknown: write TCP, UDP or SCTP"));
            }
        }
        mistakes.0
    }
}

fn address_mistake(address_type: &str, address: &str) -> Option<String> {
    let ip = match address_type {
        "IPv4" => address.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        "IPv6" => address.parse::<Ipv6Addr>().ok().filter(|v6| v6.to_ipv4_mapped().is_none()).map(IpAddr::from),
        _ => return None,
    };
    match ip {
        None => Some(format!("\"{address}\" is not an {address_type} address: put each family in a slice of its own")),
        Some(ip) if ip.is_unspecified() || ip.is_multicast() => {
            Some(format!("{address} is not an address that one can connect to"))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(slice: serde_json::Value) -> Vec<String> {
        let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
        slice.mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn addresses_are_of_the_slices_family() {
        let endpoints = json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["fd00::1"]}]);
        assert_eq!(paths(json!({"addressType": "IPv4", "endpoints": endpoints})), ["endpoints[1].addresses[0]"]);
        assert_eq!(paths(json!({"addressType": "IPv6", "endpoints": endpoints})), ["endpoints[0].addresses[0]"]);
        assert_eq!(
            paths(json!({"addressType": "IPv6", "endpoints": [{"addresses": ["::ffff:10.0.0.1"]}]})),
            ["endpoints[0].addresses[0]"]
        );
    }

    #[test]
    fn type_and_ports_are_checked() {
        assert_eq!(
            paths(json!({"addressType": "ipv4", "endpoints": [{"addresses": []}], "ports": [
                {"name": "a", "port": 0}, {"name": "a", "port": 1, "protocol": "HTTP"},
            ]})),
            ["addressType", "endpoints[0].addresses", "ports[0].port", "ports[1].name", "ports[1].protocol"]
        );
    }
}
