//! References from routes to parents and backends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a route attaches to (Gateway API `ParentReference`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// API group; default `gateway.networking.k8s.io`, `""` for a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; default `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace; default the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// For a Service: the name of one of its ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// For a Service: the number of one of its ports, 1..=65535.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
}

/// Where a rule sends connections (Gateway API `BackendRef`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackendRef {
    /// API group; default `""`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; default `Service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace; default the route's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Port of the Service (not the target port), 1..=65535; required for a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Weight, 0..=1,000,000; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

impl ParentReference {
    /// Whether the parent is a Service.
    #[must_use]
    pub fn is_service(&self) -> bool {
        // The default group and kind are a Gateway's.
        self.group.as_deref() == Some("") && self.kind.as_deref() == Some("Service")
    }
}

impl BackendRef {
    /// Returns the API group, with its default.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or_default()
    }

    /// Returns the kind, with its default.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("Service")
    }

    /// Whether the backend is a Service.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.group().is_empty() && self.kind() == "Service"
    }
}
