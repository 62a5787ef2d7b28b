//! Values of a Backend.

use super::{Check, Mistake, Mistakes, name};
use crate::api::Backend;
use std::net::IpAddr;

impl Check for Backend {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        mistakes.count("spec.endpoints", self.spec.endpoints.len(), 1..=1000, "endpoints");
        for (i, endpoint) in self.spec.endpoints.iter().enumerate() {
            let path = format!("spec.endpoints[{i}]");
            match (&endpoint.address, &endpoint.hostname) {
                (Some(address), None) => check_address(&mut mistakes, &path, address),
                (None, Some(hostname)) => {
                    if let Some(message) = name::host_name_mistake(hostname) {
                        mistakes.add(format!("{path}.hostname"), message);
                    }
                }
                (None, None) => mistakes.add(&path, "has neither address nor hostname: write one of them"),
                (Some(_), Some(_)) => {
                    mistakes.add(&path, "has both address and hostname: keep one, or make it two endpoints");
                }
            }
            mistakes.port(format!("{path}.port"), endpoint.port);
        }
        mistakes.0
    }
}

fn check_address(mistakes: &mut Mistakes, path: &str, address: &str) {
    let path = format!("{path}.address");
    match address.parse::<IpAddr>() {
        Err(_) => mistakes.add(
            path,
            format!("\"{address}\" is not an IPv4 or IPv6 address: for a host name, use the field hostname"),
        ),
        Ok(ip) if ip.is_unspecified() || ip.is_multicast() => {
            mistakes.add(path, format!("{address} is not an address that one can connect to"));
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{BackendSpec, StaticEndpoint};

    fn paths(endpoints: &[(Option<&str>, Option<&str>, i64)]) -> Vec<String> {
        let endpoints = endpoints
            .iter()
            .map(|(address, hostname, port)| StaticEndpoint {
                address: address.map(str::to_owned),
                hostname: hostname.map(str::to_owned),
                port: *port,
            })
            .collect();
        Backend::new("b", BackendSpec { endpoints }).mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn an_endpoint_has_an_address_or_a_hostname() {
        assert_eq!(paths(&[(Some("10.0.0.1"), None, 1), (Some("::1"), None, 2), (None, Some("db"), 3)]), [""; 0]);
        assert_eq!(
            paths(&[(None, None, 1), (Some("10.0.0.1"), Some("db"), 1)]),
            ["spec.endpoints[0]", "spec.endpoints[1]"]
        );
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(
            paths(&[(Some("10.0.0"), None, 1), (Some("0.0.0.0"), None, 0), (None, Some("a b"), 65536)]),
            [
                "spec.endpoints[0].address",
                "spec.endpoints[1].address",
                "spec.endpoints[1].port",
                "spec.endpoints[2].hostname",
                "spec.endpoints[2].port",
            ]
        );
        assert_eq!(paths(&[]), ["spec.endpoints"]);
    }
}
