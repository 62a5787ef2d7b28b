//! Values of a Service, as far as Weir reads them.

use super::{Check, Mistake, Mistakes};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use std::{collections::BTreeMap, net::IpAddr};

impl Check for Service {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        let Some(spec) = &self.spec else {
            mistakes.add("spec", "is missing: a Service has at least spec.ports");
            return mistakes.0;
        };
        check_type(&mut mistakes, spec);
        check_cluster_ips(&mut mistakes, spec);
        check_ports(&mut mistakes, spec.ports.as_deref().unwrap_or_default());
        mistakes.0
    }
}

fn check_type(mistakes: &mut Mistakes, spec: &ServiceSpec) {
    let headless = spec.cluster_ip.as_deref() == Some("None");
    match spec.type_.as_deref() {
        Some("ExternalName") => {
            if spec.external_name.as_deref().is_none_or(str::is_empty) {
                mistakes.add("spec.externalName", "is missing: a Service of type ExternalName names a host");
            }
        }
        None | Some("ClusterIP" | "NodePort" | "LoadBalancer") => {
            if spec.ports.as_deref().unwrap_or_default().is_empty() && !headless {
                mistakes.add("spec.ports", "is empty: write at least one port");
            }
        }
        Some(other) => mistakes.add(
            "spec.type",
            format!("\"{other}\" is unknown: write ClusterIP, NodePort, LoadBalancer or ExternalName"),
        ),
    }
}

fn check_cluster_ips(mistakes: &mut Mistakes, spec: &ServiceSpec) {
    let first = spec.cluster_ip.as_deref().unwrap_or_default();
    check_cluster_ip(mistakes, "spec.clusterIP", first);
    let all = spec.cluster_ips.as_deref().unwrap_or_default();
    mistakes.count("spec.clusterIPs", all.len(), 0..=2, "addresses");
    for (i, address) in all.iter().enumerate() {
        check_cluster_ip(mistakes, &format!("spec.clusterIPs[{i}]"), address);
    }
    if let Some(listed) = all.first()
        && !first.is_empty()
        && listed != first
    {
        mistakes.add("spec.clusterIPs[0]", format!("is {listed}, but spec.clusterIP is {first}: make them equal"));
    }
    if let [a, b] = all
        && let (Ok(a), Ok(b)) = (a.parse::<IpAddr>(), b.parse::<IpAddr>())
        && a.is_ipv4() == b.is_ipv4()
    {
        mistakes.add("spec.clusterIPs[1]", "is of the same family as the first: list one IPv4 and one IPv6 address");
    }
}

fn check_cluster_ip(mistakes: &mut Mistakes, path: &str, address: &str) {
    if matches!(address, "" | "None") {
        return;
    }
    match address.parse::<IpAddr>() {
        Err(_) => mistakes.add(path, format!("\"{address}\" is not an IPv4 or IPv6 address, nor None")),
        Ok(ip) if ip.is_unspecified() || ip.is_multicast() || is_mapped(ip) => {
            mistakes.add(path, format!("{address} is not an address that a Service can have"));
        }
        Ok(_) => {}
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn check_ports(mistakes: &mut Mistakes, ports: &[ServicePort]) {
    let mut names = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for (i, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        mistakes.port(format!("{path}.port"), i64::from(port.port));
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            mistakes.add(format!("{path}.protocol"), format!("\"{protocol}\" is unknown: write TCP, UDP or SCTP"));
        }
        let name = port.name.as_deref().unwrap_or_default();
        mistakes.port_name(format!("{path}.name"), name);
        if name.is_empty() && ports.len() > 1 {
            mistakes.add(format!("{path}.name"), "is missing: where a Service has several ports, each needs a name");
        } else if let Some(first) = names.insert(name, i) {
            mistakes.add(format!("{path}.name"), format!("\"{name}\" is the name of spec.ports[{first}], too"));
        }
        if let Some(first) = numbers.insert((protocol, port.port), i) {
            mistakes.add(format!("{path}.port"), format!("{} is the port of spec.ports[{first}], too", port.port));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(spec: serde_json::Value) -> Vec<String> {
        let service = Service { spec: Some(serde_json::from_value(spec).unwrap()), ..Service::default() };
        service.mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn cluster_headless_and_external_services_are_valid() {
        let ports = json!([{"port": 80}]);
        assert_eq!(
            paths(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ports": ports})),
            [""; 0]
        );
        assert_eq!(paths(json!({"clusterIP": "None"})), [""; 0]);
        assert_eq!(paths(json!({"type": "ExternalName", "externalName": "db.example.com"})), [""; 0]);
    }

    #[test]
    fn addresses_are_checked() {
        let ports = json!([{"port": 80}]);
        assert_eq!(paths(json!({"clusterIP": "10.0.0.300", "ports": ports})), ["spec.clusterIP"]);
        assert_eq!(
            paths(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2", "10.0.0.3"], "ports": ports})),
            ["spec.clusterIPs[0]", "spec.clusterIPs[1]"]
        );
    }

    #[test]
    fn ports_are_checked() {
        assert_eq!(paths(json!({"ports": []})), ["spec.ports"]);
        assert_eq!(
            paths(json!({"ports": [
                {"name": "a", "port": 0},
                {"name": "a", "port": 80, "protocol": "tcp"},
                {"port": 81},
                {"name": "b", "port": 81},
            ]})),
            [
                "spec.ports[0].port",
                "spec.ports[1].protocol",
                "spec.ports[1].name",
                "spec.ports[2].name",
                "spec.ports[3].port"
            ]
        );
    }
}
