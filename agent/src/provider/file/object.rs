//! From a parsed document to typed objects: which kind it is, whether its values are allowed.

use super::{
    kind::{self, Kind, Known},
    problem::{ObjectName, Severity},
    tree,
};
use crate::{
    api::{Backend, ClientGroup, ReferenceGrant, TCPRoute, TLSRoute, check::Check},
    resources::{EndpointSlice, ObjectKey, Resources},
};
use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    sync::Arc,
};

/// Names an object among all that are read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    /// Empty namespace for a Namespace.
    pub(super) key: ObjectKey,
}

impl Identity {
    pub(super) fn name(&self) -> ObjectName {
        ObjectName {
            kind: self.kind.name().to_owned(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// An object whose values are allowed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    Service(Arc<Service>),
    EndpointSlice(Arc<EndpointSlice>),
    Namespace(Arc<Namespace>),
    TcpRoute(Arc<TCPRoute>),
    TlsRoute(Arc<TLSRoute>),
    ReferenceGrant(Arc<ReferenceGrant>),
    Backend(Arc<Backend>),
    ClientGroup(Arc<ClientGroup>),
}

impl Object {
    /// Puts the object where it belongs; says whether the place was free, else leaves what is there.
    pub(super) fn insert(&self, key: ObjectKey, resources: &mut Resources) -> bool {
        fn put<K: Ord, V>(map: &mut BTreeMap<K, Arc<V>>, key: K, object: &Arc<V>) -> bool {
            match map.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(Arc::clone(object));
                    true
                }
                Entry::Occupied(_) => false,
            }
        }
        match self {
            Self::Service(object) => put(&mut resources.services, key, object),
            Self::EndpointSlice(object) => put(&mut resources.endpoint_slices, key, object),
            Self::Namespace(object) => put(&mut resources.namespaces, key.name, object),
            Self::TcpRoute(object) => put(&mut resources.tcp_routes, key, object),
            Self::TlsRoute(object) => put(&mut resources.tls_routes, key, object),
            Self::ReferenceGrant(object) => put(&mut resources.reference_grants, key, object),
            Self::Backend(object) => put(&mut resources.backends, key, object),
            Self::ClientGroup(object) => put(&mut resources.client_groups, key, object),
        }
    }
}

/// A finding inside one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) object: Option<ObjectName>,
    pub(super) path: String,
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// What a document holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Contents {
    /// Objects whose values are allowed, in order.
    pub(super) objects: Vec<(Identity, Object)>,
    /// Objects that are named but whose values are not allowed.
    pub(super) invalid: Vec<Identity>,
    /// Whether something is there of which not even the name is known.
    pub(super) unnamed: bool,
    pub(super) findings: Vec<Finding>,
}

impl Contents {
    fn find(&mut self, object: Option<&Identity>, path: &str, severity: Severity, message: String) {
        let object = object.map(Identity::name);
        self.findings.push(Finding { object, path: path.to_owned(), severity, message });
    }
}

/// Reads what a parsed document holds: one object, or a List of them.
pub(super) fn read(value: &Value) -> Contents {
    let mut contents = Contents::default();
    read_value(value, "", None, &mut contents);
    contents
}

fn read_value(value: &Value, at: &str, of_list: Option<(&str, &str)>, contents: &mut Contents) {
    let Value::Object(fields) = value else {
        contents.unnamed = true;
        let message = "is not an object: write one with apiVersion, kind and metadata".to_owned();
        return contents.find(None, at, Severity::Error, message);
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let (Some(api_version), Some(kind)) =
        (text("apiVersion").or(of_list.map(|list| list.0)), text("kind").or(of_list.map(|list| list.1)))
    else {
        contents.unnamed = true;
        let message = "has no apiVersion or no kind: each document needs both".to_owned();
        return contents.find(None, at, Severity::Error, message);
    };
    if let (Some(item_kind), Some(items)) = (kind.strip_suffix("List"), fields.get("items").and_then(Value::as_array)) {
        // `v1 List` holds objects that name their own kinds, `ServiceList` ones that need not.
        let implied = (!item_kind.is_empty()).then_some((api_version, item_kind));
        for (i, item) in items.iter().enumerate() {
            read_value(item, &super::path::item(&super::path::key(at, "items"), i), implied, contents);
        }
        return;
    }
    match kind::find(api_version, kind) {
        Known::Kind(kind, warning) => read_kind(kind, warning, value, at, contents),
        Known::NotHandled(message) => {
            let name = value.pointer("/metadata/name").and_then(Value::as_str);
            let object = name.map(|name| ObjectName {
                kind: kind.to_owned(),
                namespace: namespace_of(value).to_owned(),
                name: name.to_owned(),
            });
            let finding = Finding { object, path: at.to_owned(), severity: Severity::Note, message };
            contents.findings.push(finding);
        }
        Known::Mistaken(message) => {
            contents.unnamed = true;
            contents.find(None, &super::path::key(at, "kind"), Severity::Error, message);
        }
    }
}

fn namespace_of(value: &Value) -> &str {
    value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default")
}

fn read_kind(kind: Kind, warning: Option<String>, value: &Value, at: &str, contents: &mut Contents) {
    let Some(name) = value.pointer("/metadata/name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        contents.unnamed = true;
        let path = join(at, "metadata.name");
        return contents.find(None, &path, Severity::Error, format!("is missing: a {} needs a name", kind.name()));
    };
    let namespace = if kind.is_namespaced() { namespace_of(value) } else { "" };
    let identity = Identity { kind, key: ObjectKey::new(namespace, name) };
    if let Some(message) = warning {
        contents.find(Some(&identity), &join(at, "apiVersion"), Severity::Warning, message);
    }
    let object = match kind {
        Kind::Service => typed(&identity, value, at, contents, |object| Object::Service(Arc::new(object))),
        Kind::EndpointSlice => typed(&identity, value, at, contents, |slice: v1::EndpointSlice| {
            Object::EndpointSlice(Arc::new(slice.into()))
        }),
        Kind::Namespace => typed(&identity, value, at, contents, |object| Object::Namespace(Arc::new(object))),
        Kind::TcpRoute => typed(&identity, value, at, contents, |object| Object::TcpRoute(Arc::new(object))),
        Kind::TlsRoute => typed(&identity, value, at, contents, |object| Object::TlsRoute(Arc::new(object))),
        Kind::ReferenceGrant => {
            typed(&identity, value, at, contents, |object| Object::ReferenceGrant(Arc::new(object)))
        }
        Kind::Backend => typed(&identity, value, at, contents, |object| Object::Backend(Arc::new(object))),
        Kind::ClientGroup => typed(&identity, value, at, contents, |object| Object::ClientGroup(Arc::new(object))),
    };
    match object {
        Some(object) => contents.objects.push((identity, object)),
        None => contents.invalid.push(identity),
    }
}

fn typed<T: DeserializeOwned + Check>(
    identity: &Identity,
    value: &Value,
    at: &str,
    contents: &mut Contents,
    wrap: impl FnOnce(T) -> Object,
) -> Option<Object> {
    let (result, unknown) = tree::read::<T>(value);
    for field in unknown {
        // Every object may carry these; what a controller wrote down is no input.
        if matches!(field.path.as_str(), "apiVersion" | "kind" | "status") {
            continue;
        }
        let message = kind::unknown_field(&field);
        contents.find(Some(identity), &join(at, &field.path), Severity::Warning, message);
    }
    let names = crate::api::check::name_mistakes(identity.kind == Kind::Service, &identity.key);
    let values = match &result {
        Ok(object) => object.mistakes(),
        Err(bad) => {
            let message = kind::plain_words(&bad.message);
            contents.find(Some(identity), &join(at, &bad.path), Severity::Error, message);
            Vec::new()
        }
    };
    let valid = names.is_empty() && values.is_empty();
    for mistake in names.into_iter().chain(values) {
        contents.find(Some(identity), &join(at, &mistake.path), Severity::Error, mistake.message);
    }
    result.ok().filter(|_| valid).map(wrap)
}

fn join(at: &str, path: &str) -> String {
    match (at.is_empty(), path.is_empty()) {
        (true, _) => path.to_owned(),
        (false, true) => at.to_owned(),
        (false, false) => format!("{at}.{path}"),
    }
}
