//! Writes the YAML of scenarios. Names are `namespace/name`; whatever is special is written out.

use std::{fmt::Write as _, net::IpAddr};

/// YAML documents.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    text: String,
}

/// A TCPRoute to write, or a TLSRoute.
#[derive(Clone, Debug)]
pub struct Route<'a> {
    /// `namespace/name`.
    pub name: &'a str,
    /// `namespace/name` of the Service that it attaches to.
    pub parent: &'a str,
    /// Port number in the parentRef.
    pub port: Option<u16>,
    /// Port name in the parentRef.
    pub section: Option<&'a str>,
    /// creationTimestamp.
    pub created: Option<&'a str>,
    /// Annotation `weir.dev/load-balancing`.
    pub policy: Option<&'a str>,
    /// Server names; with any, this is a TLSRoute.
    pub hostnames: &'a [&'a str],
    /// Annotation `weir.dev/alpn`.
    pub alpn: Option<&'a str>,
    /// Annotation `weir.dev/idle-timeout`.
    pub idle_timeout: Option<&'a str>,
    /// `namespace/name` of each backend Service, its port, and its weight.
    pub backends: &'a [(&'a str, u16, u32)],
}

impl<'a> Route<'a> {
    /// Describes a route for all ports of a Service.
    #[must_use]
    pub fn new(name: &'a str, parent: &'a str, backends: &'a [(&'a str, u16, u32)]) -> Self {
        Self {
            name,
            parent,
            port: None,
            section: None,
            created: None,
            policy: None,
            hostnames: &[],
            alpn: None,
            idle_timeout: None,
            backends,
        }
    }

    /// Describes a TLSRoute for all ports of a Service.
    #[must_use]
    pub fn tls(name: &'a str, parent: &'a str, hostnames: &'a [&'a str], backends: &'a [(&'a str, u16, u32)]) -> Self {
        Self { hostnames, ..Self::new(name, parent, backends) }
    }

    /// Returns the annotations that are set.
    fn annotations(&self) -> Vec<String> {
        let all = [
            ("weir.dev/load-balancing", self.policy),
            ("weir.dev/alpn", self.alpn),
            ("weir.dev/idle-timeout", self.idle_timeout),
        ];
        all.iter().filter_map(|(key, value)| Some(format!("{key}: \"{}\"", (*value)?))).collect()
    }
}

impl Manifest {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a document as it stands.
    #[must_use]
    pub fn yaml(mut self, document: &str) -> Self {
        self.text.push_str("---\n");
        self.text.push_str(document.trim_start_matches('\n'));
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self
    }

    /// Adds a Service with these cluster IPs (none: headless) and ports (name and number).
    #[must_use]
    pub fn service(self, name: &str, ips: &[&str], ports: &[(&str, u16)]) -> Self {
        let (namespace, name) = split(name);
        let mut text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  clusterIP: \"{}\"\n",
            ips.first().unwrap_or(&"None"),
        );
        if !ips.is_empty() {
            let quoted: Vec<String> = ips.iter().map(|ip| format!("\"{ip}\"")).collect();
            let _ = writeln!(text, "  clusterIPs: [{}]", quoted.join(", "));
        }
        text.push_str("  ports:\n");
        for (port, number) in ports {
            let _ = writeln!(text, "  - {{name: {port}, port: {number}, protocol: TCP}}");
        }
        self.yaml(&text)
    }

    /// Adds ready endpoints of a Service, in one EndpointSlice a family.
    #[must_use]
    pub fn endpoints(self, service: &str, port_name: &str, port: u16, addresses: &[&str]) -> Self {
        self.endpoints_in_state(service, port_name, port, addresses, "ready: true")
    }

    /// Adds endpoints with given conditions, in one EndpointSlice a family.
    #[must_use]
    pub fn endpoints_in_state(
        mut self,
        service: &str,
        port_name: &str,
        port: u16,
        addresses: &[&str],
        conditions: &str,
    ) -> Self {
        let (namespace, name) = split(service);
        for (family, v6) in [("IPv4", false), ("IPv6", true)] {
            let addresses: Vec<&&str> = addresses.iter().filter(|address| address.contains(':') == v6).collect();
            let Some(first) = addresses.first() else { continue };
            let suffix: String = first.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            let mut text = format!(
                "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-{}x\n  \
                 namespace: {namespace}\n  labels: {{kubernetes.io/service-name: {name}}}\naddressType: {family}\n\
                 ports:\n- {{name: {port_name}, port: {port}, protocol: TCP}}\nendpoints:\n",
                suffix.trim_end_matches('-'),
            );
            for address in addresses {
                let _ = writeln!(text, "- addresses: [\"{address}\"]\n  conditions: {{{conditions}}}");
            }
            self = self.yaml(&text);
        }
        self
    }

    /// Adds a route.
    #[must_use]
    pub fn route(self, route: &Route<'_>) -> Self {
        let (namespace, name) = split(route.name);
        let (parent_namespace, parent) = split(route.parent);
        let kind = if route.hostnames.is_empty() { "TCPRoute" } else { "TLSRoute" };
        let mut text = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  \
             namespace: {namespace}\n"
        );
        if let Some(created) = route.created {
            let _ = writeln!(text, "  creationTimestamp: \"{created}\"");
        }
        let annotations = route.annotations();
        if !annotations.is_empty() {
            let _ = writeln!(text, "  annotations: {{{}}}", annotations.join(", "));
        }
        let _ = write!(
            text,
            "spec:\n  parentRefs:\n  - group: \"\"\n    kind: Service\n    name: {parent}\n    \
             namespace: {parent_namespace}\n"
        );
        if let Some(port) = route.port {
            let _ = writeln!(text, "    port: {port}");
        }
        if let Some(section) = route.section {
            let _ = writeln!(text, "    sectionName: {section}");
        }
        if !route.hostnames.is_empty() {
            let quoted: Vec<String> = route.hostnames.iter().map(|name| format!("\"{name}\"")).collect();
            let _ = writeln!(text, "  hostnames: [{}]", quoted.join(", "));
        }
        text.push_str("  rules:\n  - backendRefs:\n");
        for (backend, port, weight) in route.backends {
            let (backend_namespace, backend) = split(backend);
            let _ = writeln!(
                text,
                "    - {{name: {backend}, namespace: {backend_namespace}, port: {port}, weight: {weight}}}"
            );
        }
        self.yaml(&text)
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Manifest {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Separates `namespace/name`.
///
/// # Panics
///
/// If there is no slash.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').expect("a name as namespace/name")
}

/// Returns an address for a frontend or endpoint in a family: the n-th of a network that the
/// scenarios share (10.96.0.0/16 and fd00:96::/64 and so on).
#[must_use]
pub fn address(v6: bool, net: u8, host: u8) -> IpAddr {
    let text = if v6 { format!("fd00:{net}::{host}") } else { format!("10.{net}.0.{host}") };
    text.parse().expect("a well-formed address")
}
