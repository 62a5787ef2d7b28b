//! Weir's annotations on routes. A malformed one keeps the route out, an unknown one is told.

use super::condition::Finding;
use crate::{
    api::{ALPN, IDLE_TIMEOUT, LOAD_BALANCING, WEIR_PREFIX},
    ir::RouteKind,
    time::seconds,
};
use std::{collections::BTreeMap, time::Duration};
use weir_common::abi::tables::Policy;

/// Annotations, as metadata has them.
pub(super) type Annotations = BTreeMap<String, String>;

/// Most ALPN protocols that a route may ask for.
const MAX_PROTOCOLS: usize = 16;
/// Longest ALPN protocol, in bytes (RFC 7301, 3.1).
const MAX_PROTOCOL: usize = 255;

/// What the annotations of a route say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) policy: Policy,
    /// Of a TLSRoute: protocols, one of which the client must offer; empty if any client will do.
    pub(super) alpn: Vec<String>,
    /// Of a TLSRoute: how long a connection of the accept path may be idle.
    pub(super) idle_timeout: Option<Duration>,
}

/// Reads the annotations that have a meaning on a kind of routes.
pub(super) fn options(kind: RouteKind, annotations: Option<&Annotations>) -> Result<Options, Finding> {
    let policy = policy(annotations)?;
    match kind {
        RouteKind::Tcp => Ok(Options { policy, ..Options::default() }),
        RouteKind::Tls => Ok(Options { policy, alpn: alpn(annotations)?, idle_timeout: idle_timeout(annotations)? }),
    }
}

/// Returns a note for each annotation of a route in Weir's domain that has no effect, or not always.
pub(super) fn route_notes(kind: RouteKind, annotations: Option<&Annotations>) -> Vec<String> {
    match kind {
        RouteKind::Tcp => {
            let of_tls = |name: &&str| [ALPN, IDLE_TIMEOUT].contains(name);
            let names = annotations.into_iter().flat_map(BTreeMap::keys).map(String::as_str);
            let mut notes: Vec<String> = names
                .filter(of_tls)
                .map(|name| format!("annotation {name} has no effect on a TCPRoute, only on a TLSRoute"))
                .collect();
            notes.extend(unknown(annotations, &[LOAD_BALANCING], &[ALPN, IDLE_TIMEOUT]));
            notes
        }
        RouteKind::Tls => {
            let mut notes = unknown(annotations, &[LOAD_BALANCING, ALPN, IDLE_TIMEOUT], &[]);
            if annotations.is_some_and(|annotations| annotations.contains_key(IDLE_TIMEOUT)) {
                notes.push(format!(
                    "annotation {IDLE_TIMEOUT} has an effect on the accept path only, where the agent moves the bytes: \
                     `weir status` names the path of each frontend"
                ));
            }
            notes
        }
    }
}

/// Reads how legs and endpoints are chosen.
fn policy(annotations: Option<&Annotations>) -> Result<Policy, Finding> {
    let Some(value) = annotations.and_then(|annotations| annotations.get(LOAD_BALANCING)) else {
        return Ok(Policy::default());
    };
    Policy::ALL.into_iter().find(|policy| policy.name() == value).ok_or_else(|| {
        let names: Vec<&str> = Policy::ALL.into_iter().map(Policy::name).collect();
        let message = format!(
            "metadata.annotations[{LOAD_BALANCING}]: \"{value}\" is unknown: write one of {}",
            names.join(", ")
        );
        Finding::new("UnsupportedValue", message)
    })
}

/// Reads the ALPN protocols that a route asks for.
fn alpn(annotations: Option<&Annotations>) -> Result<Vec<String>, Finding> {
    let Some(value) = annotations.and_then(|annotations| annotations.get(ALPN)) else {
        return Ok(Vec::new());
    };
    let wrong = |what: String| {
        let message = format!(
            "metadata.annotations[{ALPN}]: {what}: write 1..={MAX_PROTOCOLS} different protocols of \
             1..={MAX_PROTOCOL} bytes with commas between them, like \"h2,http/1.1\""
        );
        Err(Finding::new("UnsupportedValue", message))
    };
    let mut protocols: Vec<String> = Vec::new();
    for protocol in value.split(',').map(str::trim) {
        if protocol.is_empty() {
            return wrong(format!("\"{value}\" has an empty protocol"));
        }
        if protocol.len() > MAX_PROTOCOL {
            return wrong(format!("\"{protocol}\" has {} bytes", protocol.len()));
        }
        if protocols.iter().any(|known| known == protocol) {
            return wrong(format!("\"{protocol}\" stands there twice"));
        }
        protocols.push(protocol.to_owned());
    }
    if protocols.len() > MAX_PROTOCOLS {
        return wrong(format!("has {} protocols", protocols.len()));
    }
    Ok(protocols)
}

/// Reads how long a connection may be idle.
fn idle_timeout(annotations: Option<&Annotations>) -> Result<Option<Duration>, Finding> {
    let Some(value) = annotations.and_then(|annotations| annotations.get(IDLE_TIMEOUT)) else {
        return Ok(None);
    };
    match seconds(value) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => {
            let message = format!(
                "metadata.annotations[{IDLE_TIMEOUT}]: \"{value}\" is not a time: write seconds, more than 0 and at \
                 most 86400 (one day), like 30, 30s or 500ms; without the annotation there is no limit"
            );
            Err(Finding::new("UnsupportedValue", message))
        }
    }
}

/// Returns a note for each annotation in Weir's domain that means nothing, but for those that are
/// told elsewhere.
pub(super) fn unknown(annotations: Option<&Annotations>, known: &[&str], told: &[&str]) -> Vec<String> {
    let names = annotations.into_iter().flat_map(BTreeMap::keys).map(String::as_str);
    let unknown = names.filter(|name| name.starts_with(WEIR_PREFIX) && !known.contains(name) && !told.contains(name));
    let allowed =
        if known.is_empty() { "none has a meaning here".to_owned() } else { format!("known: {}", known.join(", ")) };
    unknown.map(|name| format!("annotation {name} is unknown and has no effect ({allowed})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> Annotations {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn every_policy_is_read_by_its_name() {
        assert_eq!(policy(None), Ok(Policy::PowerOfTwoChoices));
        for wanted in Policy::ALL {
            assert_eq!(policy(Some(&annotated(LOAD_BALANCING, wanted.name()))), Ok(wanted));
        }
    }

    #[test]
    fn an_unknown_policy_is_refused_with_the_allowed_ones() {
        let finding = policy(Some(&annotated(LOAD_BALANCING, "roundrobin"))).unwrap_err();
        assert_eq!(finding.reason, "UnsupportedValue");
        for policy in Policy::ALL {
            assert!(finding.message.contains(policy.name()), "{}", finding.message);
        }
    }

    #[test]
    fn only_unknown_annotations_of_our_domain_are_told() {
        assert_eq!(unknown(Some(&annotated(LOAD_BALANCING, "x")), &[LOAD_BALANCING], &[]), [""; 0]);
        assert_eq!(unknown(Some(&annotated("example.com/x", "x")), &[LOAD_BALANCING], &[]), [""; 0]);
        assert_eq!(unknown(Some(&annotated("weir.dev/loadbalancing", "x")), &[LOAD_BALANCING], &[]).len(), 1);
    }

    fn read(name: &str, value: &str) -> Result<Options, Finding> {
        options(RouteKind::Tls, Some(&annotated(name, value)))
    }

    #[test]
    fn alpn_is_a_list_of_protocols() {
        assert_eq!(read(ALPN, "h2").unwrap().alpn, ["h2"]);
        assert_eq!(read(ALPN, "h2, http/1.1").unwrap().alpn, ["h2", "http/1.1"]);
        assert!(options(RouteKind::Tls, None).unwrap().alpn.is_empty());
        let most: Vec<String> = (0..16).map(|i| format!("p{i}")).collect();
        assert_eq!(read(ALPN, &most.join(",")).unwrap().alpn, most);
        assert!(read(ALPN, &"x".repeat(255)).is_ok());
    }

    #[test]
    fn alpn_without_protocols_or_with_too_long_too_many_or_equal_ones_is_refused() {
        let many: Vec<String> = (0..17).map(|i| format!("p{i}")).collect();
        for wrong in ["", " ", "h2,", ",h2", "h2,,http/1.1", "h2,h2", &"x".repeat(256), &many.join(",")] {
            let finding = read(ALPN, wrong).unwrap_err();
            assert_eq!(finding.reason, "UnsupportedValue");
            assert!(finding.message.contains("[weir.dev/alpn]") && finding.message.contains("write 1..=16"), "{wrong}");
        }
    }

    #[test]
    fn an_idle_timeout_is_a_time_above_0_and_at_most_a_day() {
        assert_eq!(options(RouteKind::Tls, None).unwrap().idle_timeout, None);
        for (text, time) in [("30", 30_000), ("30s", 30_000), ("500ms", 500), ("86400", 86_400_000)] {
            assert_eq!(read(IDLE_TIMEOUT, text).unwrap().idle_timeout, Some(Duration::from_millis(time)), "{text}");
        }
        for wrong in ["", "0", "0ms", "1e-12", "-1", "30m", "86401", "nan", "inf"] {
            let finding = read(IDLE_TIMEOUT, wrong).unwrap_err();
            assert!(finding.message.contains("[weir.dev/idle-timeout]"), "{wrong}: {}", finding.message);
        }
    }

    #[test]
    fn annotations_of_a_tls_route_have_no_effect_on_a_tcp_route_and_are_told_once() {
        for (name, value) in [(ALPN, ""), (IDLE_TIMEOUT, "never")] {
            let annotations = annotated(name, value);
            assert_eq!(options(RouteKind::Tcp, Some(&annotations)), Ok(Options::default()));
            let told = format!("annotation {name} has no effect on a TCPRoute, only on a TLSRoute");
            assert_eq!(route_notes(RouteKind::Tcp, Some(&annotations)), [told]);
        }
        assert_eq!(route_notes(RouteKind::Tls, Some(&annotated(ALPN, "h2"))), [""; 0]);
    }
}
