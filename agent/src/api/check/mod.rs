//! Rules for the values inside one object: what the API server would refuse, for objects from files.
//!
//! Each rule names the field, what is wrong, what is allowed and what to do. Nothing here looks at a
//! second object; that is `translate`'s job.

mod backend;
mod client_group;
mod endpoint_slice;
mod name;
mod reference_grant;
mod route;
mod service;
mod tcp_route;
mod tls_route;

use crate::resources::ObjectKey;
use k8s_openapi::api::core::v1::Namespace;
use serde::Serialize;
use std::{fmt, ops::RangeInclusive};

/// Checks the values of an object.
pub trait Check {
    /// Returns everything that is wrong with the values, in the order of the fields; empty if valid.
    fn mistakes(&self) -> Vec<Mistake>;
}

impl Check for Namespace {
    fn mistakes(&self) -> Vec<Mistake> {
        // Nothing of it is read but its name and labels.
        Vec::new()
    }
}

/// One value that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistake {
    /// The field, for instance `spec.rules[0].backendRefs[1].weight`.
    pub path: String,
    /// What is wrong, what is allowed, what to do.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Checks the name and namespace of an object.
#[must_use]
pub fn name_mistakes(is_service: bool, key: &ObjectKey) -> Vec<Mistake> {
    let mut mistakes = Mistakes::default();
    if is_service {
        // Service names are parts of host names.
        mistakes.label("metadata.name", &key.name);
    } else {
        mistakes.subdomain("metadata.name", &key.name);
    }
    // Kinds without a namespace have an empty one.
    if !key.namespace.is_empty() {
        mistakes.label("metadata.namespace", &key.namespace);
    }
    mistakes.0
}

/// Collects mistakes.
#[derive(Debug, Default)]
struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Mistake { path: path.into(), message: message.into() });
    }

    fn port(&mut self, path: impl Into<String>, port: i64) {
        if !(1..=65535).contains(&port) {
            self.add(path, format!("{port} is not a port: write a number in 1..=65535"));
        }
    }

    fn count(&mut self, path: &str, count: usize, allowed: RangeInclusive<usize>, what: &str) {
        if !allowed.contains(&count) {
            let (least, most) = (allowed.start(), allowed.end());
            let allowed = if least == most { format!("exactly {least}") } else { format!("{least}..={most}") };
            self.add(path, format!("has {count} {what}, allowed is {allowed}"));
        }
    }

    fn subdomain(&mut self, path: impl Into<String>, value: &str) {
        if let Some(message) = name::subdomain_mistake(value) {
            self.add(path, message);
        }
    }

    fn label(&mut self, path: impl Into<String>, value: &str) {
        if let Some(message) = name::label_mistake(value) {
            self.add(path, message);
        }
    }

    fn port_name(&mut self, path: impl Into<String>, value: &str) {
        // Service port names are labels; an empty one stands for "the only port".
        if !value.is_empty() {
            self.label(path, value);
        }
    }
}
