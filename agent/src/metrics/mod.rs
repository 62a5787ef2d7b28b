//! Metrics: every family that `/metrics` shows, declared once; its doc comment is its HELP text.
//!
//! Nothing is kept between scrapes. Each one is made of what the agent published and one reading of
//! the kernel's counters, so a route's series end with the route. Labels are bounded: routes,
//! backendRefs, backends, reasons and tables, never addresses.

mod scrape;

use crate::{stats::Snapshot, view::Published};
use prometheus_client::{
    encoding::{prometheus_text, text},
    metrics::MetricType,
    registry::Registry,
};
use scrape::Scrape;
use std::{fmt, sync::Arc};

const ROUTE: &[&str] = &["route_kind", "route_namespace", "route_name", "backend_ref"];
const ROUTE_REASON: &[&str] = &["route_kind", "route_namespace", "route_name", "backend_ref", "reason"];
const BACKEND: &[&str] = &["backend_kind", "backend_namespace", "backend_name", "backend_port"];
const NODE: &[&str] = &[];

/// A metric family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Name, for a counter without `_total`.
    name: &'static str,
    kind: MetricType,
    help: &'static str,
    labels: &'static [&'static str],
}

macro_rules! families {
    ($($(#[doc = $help:literal])+ $id:ident: $kind:ident $name:literal $labels:expr;)+) => {
        $(const $id: Family =
            Family { name: $name, kind: MetricType::$kind, help: concat!($($help),+), labels: $labels };)+
        /// Every family, in the order of the exposition.
        pub const FAMILIES: &[Family] = &[$($id),+];
    };
}

families! {
    /// Connections that connect() sent to an endpoint of this backendRef.
    FORWARDED: Counter "weir_connections_forwarded" ROUTE;
    /// Connections whose first packet left.
    ATTEMPTED: Counter "weir_connections_attempted" ROUTE;
    /// Connections established.
    OPENED: Counter "weir_connections_opened" ROUTE;
    /// Established connections that are over.
    CLOSED: Counter "weir_connections_closed" ROUTE;
    /// Connects that failed after their first packet left, by kind of failure.
    FAILED: Counter "weir_connections_failed" ROUTE_REASON;
    /// Connections refused by Weir, by reason; backend_ref is empty if no backendRef was chosen.
    REJECTED: Counter "weir_connections_rejected" ROUTE_REASON;
    /// Established connections now.
    ACTIVE: Gauge "weir_connections_active" ROUTE;
    /// Weight of this backendRef by the sum of the route's weights, 0 to 1.
    WANTED: Gauge "weir_wanted_share_ratio" ROUTE;
    /// Payload bytes that backends acknowledged.
    SENT: Counter "weir_sent_bytes" ROUTE;
    /// Payload bytes received from backends.
    RECEIVED: Counter "weir_received_bytes" ROUTE;
    /// TCP segments sent again.
    RETRANSMISSIONS: Counter "weir_retransmissions" ROUTE;
    /// Time from connect() to the end of the handshake.
    CONNECT: Histogram "weir_connect_latency_seconds" ROUTE;
    /// Smoothed round-trip time at the end of connections.
    ROUND_TRIP: Histogram "weir_round_trip_seconds" ROUTE;
    /// Time from the end of the handshake to the end of the connection.
    LIFETIME: Histogram "weir_connection_lifetime_seconds" ROUTE;
    /// Endpoints of the backend that may be used.
    ENDPOINTS: Gauge "weir_backend_endpoints" BACKEND;
    /// Endpoints of the backend that are skipped now because connects to them failed.
    EJECTED: Gauge "weir_backend_endpoints_ejected" BACKEND;
    /// Connections of this node to the backend, connecting or established.
    BACKEND_OPEN: Gauge "weir_backend_connections_open" BACKEND;
    /// Connections to a frontend with consumer routes from a client whose namespace is not known.
    UNKNOWN_CLIENTS: Counter "weir_unknown_clients" NODE;
    /// Table look-ups that led nowhere; anything but 0 is a bug.
    TABLE_MISSES: Counter "weir_table_misses" NODE;
    /// Connections left alone because the agent was gone (--on-agent-loss bypass).
    BYPASSED: Counter "weir_connections_bypassed" NODE;
    /// Connections forwarded but not counted further, for want of memory for the socket's record.
    UNTRACKED: Counter "weir_connections_untracked" NODE;
    /// Sampled events that found no room.
    EVENTS_LOST: Counter "weir_events_lost" NODE;
    /// Times that an endpoint was ejected.
    EJECTIONS: Counter "weir_ejections" NODE;
    /// Connections whose ClientHello was to be verified as it left.
    VERIFY_BEGAN: Counter "weir_hello_verifications_started" NODE;
    /// Those whose ClientHello was verified or rejected, or that ended before.
    VERIFY_ENDED: Counter "weir_hello_verifications_finished" NODE;
    /// Requests of the programs to the agent that found no room; they are made again with the next packet.
    REQUESTS_LOST: Counter "weir_requests_lost" NODE;
    /// Connections to the acceptor, or ClientHellos in pieces, that found no memory.
    NO_ROOM: Counter "weir_hello_no_room" NODE;
    /// Frontends with TLSRoutes, by the path of their connections: verify, or accept (through the agent).
    TLS_PATHS: Gauge "weir_tls_frontends" &["path"];
    /// Network namespaces whose clients the acceptor serves: listening, or failed.
    ACCEPTOR_NAMESPACES: Gauge "weir_acceptor_network_namespaces" &["state"];
    /// Connections that go through the agent now.
    ACCEPTOR_OPEN: Gauge "weir_acceptor_connections_open" NODE;
    /// Connections to the acceptor whose ClientHello is not whole yet.
    UNFINISHED_HELLOS: Gauge "weir_acceptor_unfinished_hellos" NODE;
    /// Bytes of unfinished ClientHellos that the agent holds.
    HELLO_BYTES: Gauge "weir_acceptor_hello_bytes" NODE;
    /// Connections that the acceptor took.
    ACCEPTED: Counter "weir_acceptor_accepted" NODE;
    /// Connections through the agent that got a second endpoint, because the first could not be reached.
    RETRIED: Counter "weir_acceptor_retried" NODE;
    /// Connections to the acceptor that did not come through connect() to a frontend, and were closed.
    STRANGERS: Counter "weir_acceptor_strangers_refused" NODE;
    /// Connections that the agent ended because their ClientHello was rejected as it left.
    ABORTED: Counter "weir_rejected_connections_ended" NODE;
    /// Those that it could not end: their clients wait.
    NOT_ABORTED: Counter "weir_rejected_connections_left" NODE;
    /// Pieces of long ClientHellos that the agent read for the kernel programs.
    PIECES: Counter "weir_hello_pieces_read" NODE;
    /// Always 1; the version is in the label.
    BUILD: Gauge "weir_build_info" &["version"];
    /// 1 when a state is applied and every program is attached, else 0.
    READY: Gauge "weir_ready" NODE;
    /// When the agent started, seconds since 1970.
    STARTED: Gauge "weir_start_time_seconds" NODE;
    /// States applied since the agent started.
    GENERATION: Gauge "weir_generation" NODE;
    /// When the last state was applied, seconds since 1970.
    APPLIED: Gauge "weir_last_apply_timestamp_seconds" NODE;
    /// How long applying the last state took.
    APPLY_TIME: Gauge "weir_last_apply_duration_seconds" NODE;
    /// Times that the configuration was read.
    READINGS: Counter "weir_config_readings" NODE;
    /// Problems of the configuration as it was last read.
    PROBLEMS: Gauge "weir_config_problems" &["severity"];
    /// Entries that the agent wants in a table.
    TABLE_ENTRIES: Gauge "weir_table_entries" &["table"];
    /// Most entries that a table can hold.
    TABLE_CAPACITY: Gauge "weir_table_capacity" &["table"];
}

/// Text formats of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Prometheus,
}

impl Format {
    /// Returns the format for a scraper's `Accept` header.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// Returns the `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes all metrics.
///
/// # Errors
///
/// If a value cannot be written as text.
pub fn exposition(published: Arc<Published>, snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { published, snapshot }));
    let mut out = String::new();
    match format {
        Format::OpenMetrics => text::encode(&mut out, &registry)?,
        Format::Prometheus => prometheus_text::encode(&mut out, &registry)?,
    }
    Ok(out)
}

/// Returns the families as a Markdown table, as the README has it.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from("| name | type | labels | meaning |\n|---|---|---|---|\n");
    for family in FAMILIES {
        let total = if matches!(family.kind, MetricType::Counter) { "_total" } else { "" };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind.as_str(), family.help.trim());
        out += &format!("| `{name}{total}` | {kind} | {} | {help} |\n", labels.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{sample, sample_tls};
    use std::time::UNIX_EPOCH;

    fn scrape(published: Published, format: Format) -> String {
        exposition(Arc::new(published), sample::snapshot(), format).expect("text")
    }

    #[test]
    fn the_exposition_is_as_agreed_with_dashboards() {
        insta::assert_snapshot!(scrape(sample::published(), Format::OpenMetrics));
    }

    #[test]
    fn tls_routes_have_the_series_of_tcp_routes_and_the_acceptor_its_own() {
        let text = scrape(sample_tls::published(), Format::OpenMetrics);
        let series =
            "route_kind=\"TLSRoute\",route_namespace=\"team\",route_name=\"api\",backend_ref=\"shop/web-v2:443\"";
        for wanted in [
            format!("weir_wanted_share_ratio{{{series}}} 1.0"),
            format!("weir_connections_forwarded_total{{{series}}} 0"),
            "weir_tls_frontends{path=\"verify\"} 1.0".to_owned(),
            "weir_tls_frontends{path=\"accept\"} 1.0".to_owned(),
            "weir_acceptor_network_namespaces{state=\"failed\"} 1.0".to_owned(),
            "weir_acceptor_connections_open 1200.0".to_owned(),
            "weir_acceptor_unfinished_hellos 3.0".to_owned(),
            "weir_acceptor_hello_bytes 1536.0".to_owned(),
            "weir_acceptor_accepted_total 34567".to_owned(),
            "weir_acceptor_retried_total 2".to_owned(),
            "weir_acceptor_strangers_refused_total 1".to_owned(),
            "weir_table_entries{table=\"NAMES\"} 7.0".to_owned(),
        ] {
            assert!(text.lines().any(|line| line == wanted), "no {wanted} in {text}");
        }
    }

    #[test]
    fn every_declared_family_is_shown_and_no_other() {
        for format in [Format::OpenMetrics, Format::Prometheus] {
            let text = scrape(sample::published(), format);
            let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            let shown: Vec<&str> = types.filter_map(|line| line.split(' ').next()).collect();
            let declared: Vec<String> = FAMILIES
                .iter()
                .map(|family| match (format, family.kind) {
                    (Format::Prometheus, MetricType::Counter) => format!("{}_total", family.name),
                    _ => family.name.to_owned(),
                })
                .collect();
            assert_eq!(shown, declared, "{format:?}");
        }
    }

    #[test]
    fn the_series_of_a_route_end_with_it() {
        let mut published = sample::published();
        let series = "route_name=\"web\",backend_ref=\"shop/web-v2:80\"";
        assert!(scrape(published.clone(), Format::OpenMetrics).contains(series));
        Arc::make_mut(&mut published.desired).routes.remove(&sample::web());
        let text = scrape(published, Format::OpenMetrics);
        assert!(!text.contains(series), "{text}");
        assert!(!text.contains("agent_lost"), "{text}");
        assert!(text.contains("backend_ref=\"Backend batch/legacy\""), "{text}");
    }

    #[test]
    fn no_label_holds_an_address() {
        let text = scrape(sample::published(), Format::OpenMetrics);
        assert!(!text.contains("10.0.0.") && !text.contains("fd00::"), "{text}");
    }

    #[test]
    fn before_the_first_apply_the_agent_is_not_ready_and_has_no_apply_time() {
        let text = scrape(Published::starting("0.1.0", "node-1".to_owned(), UNIX_EPOCH), Format::OpenMetrics);
        assert!(text.contains("\nweir_ready 0.0\n"), "{text}");
        assert!(!text.contains("\nweir_last_apply_timestamp_seconds "), "{text}");
    }

    #[test]
    fn the_markdown_table_has_a_row_for_each_family() {
        assert_eq!(markdown().lines().count(), FAMILIES.len() + 2);
    }
}
