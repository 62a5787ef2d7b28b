//! What Weir says about objects: conditions and notes, for status, `weir check` and golden files.
//!
//! Types and reasons are the Gateway API's where it has one, else in the `weir.dev` domain.

use crate::{api::ParentReference, resources::ObjectKey};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found out about one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectStatus {
    /// Kind, as it is written in objects.
    pub kind: &'static str,
    /// Namespace and name.
    #[serde(flatten)]
    pub key: ObjectKey,
    /// One entry for each parentRef that is ours; for routes only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<ParentStatus>,
    /// What an operator may want to know and no condition says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The state of a route at one of its parents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentStatus {
    /// The parentRef, as it stands in the route.
    pub parent_ref: ParentReference,
    /// Accepted, ResolvedRefs, and `weir.dev/Superseded` where it is true.
    pub conditions: Vec<Condition>,
}

/// A condition without its time, which belongs to whoever writes it down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one CamelCase word.
    pub reason: &'static str,
    /// Why, for people.
    pub message: String,
    /// `metadata.generation` of the object that was judged; 0 for objects without one.
    pub observed_generation: i64,
}

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ConditionType {
    /// The route takes effect at this parent, or would if no other route came before it.
    Accepted,
    /// All backendRefs lead somewhere.
    ResolvedRefs,
    /// Another route comes before this one. Only present while true.
    #[serde(rename = "weir.dev/Superseded")]
    Superseded,
}

impl ConditionType {
    /// Returns the type as it is written in a status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::Superseded => "weir.dev/Superseded",
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
}

impl Condition {
    /// Whether this says that something is wrong: a parent or a backend that is not as it was written.
    #[must_use]
    pub const fn is_fault(&self) -> bool {
        match self.kind {
            ConditionType::Accepted | ConditionType::ResolvedRefs => matches!(self.status, ConditionStatus::False),
            // Another route comes first: that may well be wanted.
            ConditionType::Superseded => false,
        }
    }
}

/// A finding: reason and message of a condition that is yet to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    pub(super) fn condition(&self, kind: ConditionType, status: ConditionStatus, generation: i64) -> Condition {
        Condition { kind, status, reason: self.reason, message: self.message.clone(), observed_generation: generation }
    }
}

/// Notes about objects, gathered while translating.
#[derive(Debug, Default)]
pub(super) struct Notes(BTreeMap<(&'static str, ObjectKey), Vec<String>>);

impl Notes {
    pub(super) fn add(&mut self, kind: &'static str, key: &ObjectKey, note: impl Into<String>) {
        let notes = self.0.entry((kind, key.clone())).or_default();
        let note = note.into();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    pub(super) fn take(&mut self, kind: &'static str, key: &ObjectKey) -> Vec<String> {
        self.0.remove(&(kind, key.clone())).unwrap_or_default()
    }

    /// Returns a status for each object that has notes left.
    pub(super) fn into_statuses(self) -> impl Iterator<Item = ObjectStatus> {
        self.0.into_iter().map(|((kind, key), notes)| ObjectStatus { kind, key, parents: Vec::new(), notes })
    }
}
