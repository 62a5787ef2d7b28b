//! The kinds that are read from files, their versions, and words for what is close to them.

use super::tree::UnknownField;
use crate::api::{GATEWAY_GROUP, WEIR_GROUP};

/// A kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Namespace,
    Service,
    EndpointSlice,
    TcpRoute,
    TlsRoute,
    ReferenceGrant,
    Backend,
    ClientGroup,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Service,
        Self::EndpointSlice,
        Self::TcpRoute,
        Self::TlsRoute,
        Self::ReferenceGrant,
        Self::Backend,
        Self::ClientGroup,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::TcpRoute => "TCPRoute",
            Self::TlsRoute => "TLSRoute",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::Backend => "Backend",
            Self::ClientGroup => "ClientGroup",
        }
    }

    pub(super) const fn is_namespaced(self) -> bool {
        match self {
            Self::Namespace => false,
            Self::Service
            | Self::EndpointSlice
            | Self::TcpRoute
            | Self::TlsRoute
            | Self::ReferenceGrant
            | Self::Backend
            | Self::ClientGroup => true,
        }
    }

    const fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::TcpRoute | Self::TlsRoute | Self::ReferenceGrant => GATEWAY_GROUP,
            Self::Backend | Self::ClientGroup => WEIR_GROUP,
        }
    }

    /// The versions that can be read, the best first.
    const fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Namespace | Self::Service | Self::EndpointSlice => &["v1"],
            Self::TcpRoute => &["v1", "v1alpha2"],
            Self::TlsRoute => &["v1", "v1alpha3", "v1alpha2"],
            Self::ReferenceGrant => &["v1", "v1beta1"],
            Self::Backend | Self::ClientGroup => &["v1alpha1"],
        }
    }

    fn api_version(self) -> String {
        let version = self.versions()[0];
        if self.group().is_empty() { version.to_owned() } else { format!("{}/{version}", self.group()) }
    }
}

/// Routes that are right and close in spelling, but not ours.
const OTHER_ROUTES: [&str; 3] = ["GRPCRoute", "HTTPRoute", "UDPRoute"];

/// What an apiVersion and kind stand for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// A kind that is read, and a word of warning about its version.
    Kind(Kind, Option<String>),
    /// Something else, which may well be right for somebody else.
    NotHandled(String),
    /// Something that looks like a slip of the pen.
    Mistaken(String),
}

/// Finds the kind that a document names.
pub(super) fn find(api_version: &str, kind: &str) -> Known {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = Kind::ALL.into_iter().find(|known| known.name() == kind);
    let Some(found) = found else {
        let ours = Kind::ALL.into_iter().filter(|known| known.group() == group);
        return match closest(kind, ours.map(Kind::name)) {
            Some(meant) if !OTHER_ROUTES.contains(&kind) => {
                Known::Mistaken(format!("\"{kind}\" is unknown: did you mean {meant}?"))
            }
            Some(_) | None => Known::NotHandled(format!("kind {kind} ({api_version}) is not handled by this version")),
        };
    };
    if found.group() != group {
        // The same word in another group is another kind, for instance Knative's Service.
        let message =
            format!("kind {kind} of {api_version} is not handled; Weir's {kind} is of {}", found.api_version());
        let slip = closest(group, std::iter::once(found.group())).is_some() || group.is_empty();
        return if slip { Known::Mistaken(message) } else { Known::NotHandled(message) };
    }
    match found.versions().iter().position(|known| *known == version) {
        Some(0) => Known::Kind(found, None),
        Some(_) if matches!(found, Kind::TcpRoute | Kind::TlsRoute) => {
            let message = format!("{api_version} is old and read as {}: write that", found.api_version());
            Known::Kind(found, Some(message))
        }
        Some(_) => Known::Kind(found, None),
        None => {
            Known::Mistaken(format!("{kind} has no version \"{version}\": write apiVersion: {}", found.api_version()))
        }
    }
}

/// Says what an unknown field may have been meant to be.
pub(super) fn unknown_field(field: &UnknownField) -> String {
    let name = field.path.rsplit(['.', '[']).next().unwrap_or_default().trim_end_matches(']');
    match closest(name, field.known.iter().copied()) {
        Some(meant) => format!("is unknown and has no effect: did you mean {meant}?"),
        None if field.known.len() <= 8 => {
            format!("is unknown and has no effect (known here: {})", field.known.join(", "))
        }
        None => "is unknown and has no effect: remove or correct it".to_owned(),
    }
}

/// Words serde's messages for people who do not know Rust.
pub(super) fn plain_words(message: &str) -> String {
    let message = message.strip_prefix("invalid type: ").unwrap_or(message);
    for number in ["i64", "i32", "u16", "u32", "u64"] {
        if let Some(start) = message.strip_suffix(&format!("expected {number}")) {
            return format!("{start}expected a whole number, without quotes");
        }
    }
    message.replace("a sequence", "a list").replace("unit value", "nothing").replace("invalid value: ", "")
}

/// Returns the candidate that is so close to a word that it must have been meant.
fn closest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len() / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_in_every_version() {
        for kind in Kind::ALL {
            for version in kind.versions() {
                let group = kind.group();
                let api_version = if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") };
                assert!(
                    matches!(find(&api_version, kind.name()), Known::Kind(found, _) if found == kind),
                    "{api_version}"
                );
            }
        }
    }

    #[test]
    fn an_old_route_is_read_with_a_warning() {
        let old = |version, kind| match find(&format!("gateway.networking.k8s.io/{version}"), kind) {
            Known::Kind(found, warning) => (found, warning.is_some()),
            other @ (Known::NotHandled(_) | Known::Mistaken(_)) => panic!("{version} {kind}: {other:?}"),
        };
        assert_eq!(old("v1alpha2", "TCPRoute"), (Kind::TcpRoute, true));
        assert_eq!(old("v1", "TCPRoute"), (Kind::TcpRoute, false));
        assert_eq!(old("v1alpha2", "TLSRoute"), (Kind::TlsRoute, true));
        assert_eq!(old("v1alpha3", "TLSRoute"), (Kind::TlsRoute, true));
        assert_eq!(old("v1", "TLSRoute"), (Kind::TlsRoute, false));
    }

    #[test]
    fn slips_are_errors_and_foreign_kinds_are_notes() {
        for (api_version, kind) in [
            ("gateway.networking.k8s.io/v1", "TcpRoute"),
            ("gateway.networking.k8s.io/v2", "TCPRoute"),
            ("gateway.networking.k8s.io/v1", "TPCRoute"),
            ("gateway.networking.k8s.io/v1", "TLSRoutes"),
            ("gateway.networking.k8s.io/v1", "TSLRoute"),
            ("gateway.network.k8s.io/v1", "TCPRoute"),
            ("v1", "EndpointSlice"),
        ] {
            assert!(matches!(find(api_version, kind), Known::Mistaken(_)), "{api_version} {kind}");
        }
        for (api_version, kind) in [
            ("gateway.networking.k8s.io/v1", "Gateway"),
            ("gateway.networking.k8s.io/v1", "HTTPRoute"),
            ("gateway.networking.k8s.io/v1", "UDPRoute"),
            ("serving.knative.dev/v1", "Service"),
            ("apps/v1", "Deployment"),
        ] {
            assert!(matches!(find(api_version, kind), Known::NotHandled(_)), "{api_version} {kind}");
        }
    }

    #[test]
    fn the_field_that_was_meant_is_named() {
        let field = UnknownField { path: "spec.rules[0].wieght".to_owned(), known: &["name", "port", "weight"] };
        assert_eq!(unknown_field(&field), "is unknown and has no effect: did you mean weight?");
        let field = UnknownField { path: "spec.timeout".to_owned(), known: &["parentRefs", "rules"] };
        assert_eq!(unknown_field(&field), "is unknown and has no effect (known here: parentRefs, rules)");
    }

    #[test]
    fn messages_avoid_type_names_of_rust() {
        assert_eq!(
            plain_words("invalid type: string \"5432\", expected i64"),
            "string \"5432\", expected a whole number, without quotes"
        );
    }
}
