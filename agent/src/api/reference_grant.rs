//! ReferenceGrant v1 (Gateway API v1.6; v1beta1 has the same shape).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a ReferenceGrant: which references into its namespace are allowed.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "ReferenceGrant",
    plural = "referencegrants",
    namespaced,
    derive = "PartialEq"
)]
pub struct ReferenceGrantSpec {
    /// Who may refer, 1..=16.
    pub from: Vec<ReferenceGrantFrom>,
    /// To what, 1..=16.
    pub to: Vec<ReferenceGrantTo>,
}

/// A kind of objects in a namespace that may refer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceGrantFrom {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
}

/// A kind of objects, or one object, that may be referred to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceGrantTo {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name; absent means every object of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
