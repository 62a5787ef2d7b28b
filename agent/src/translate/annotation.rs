//! Weir's annotations on routes. A malformed one keeps the route out, an unknown one is told.

use super::condition::Finding;
use crate::api::{LOAD_BALANCING, WEIR_PREFIX};
use std::collections::BTreeMap;
use weir_common::abi::tables::Policy;

/// Reads how legs and endpoints are chosen.
pub(super) fn policy(annotations: Option<&BTreeMap<String, String>>) -> Result<Policy, Finding> {
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

/// Returns a note for each annotation in Weir's domain that means nothing.
pub(super) fn unknown(annotations: Option<&BTreeMap<String, String>>, known: &[&str]) -> Vec<String> {
    let names = annotations.into_iter().flat_map(BTreeMap::keys);
    let unknown = names.filter(|name| name.starts_with(WEIR_PREFIX) && !known.contains(&name.as_str()));
    let allowed =
        if known.is_empty() { "none has a meaning here".to_owned() } else { format!("known: {}", known.join(", ")) };
    unknown.map(|name| format!("annotation {name} is unknown and has no effect ({allowed})")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotated(name: &str, value: &str) -> BTreeMap<String, String> {
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
        assert_eq!(unknown(Some(&annotated(LOAD_BALANCING, "x")), &[LOAD_BALANCING]), [""; 0]);
        assert_eq!(unknown(Some(&annotated("example.com/x", "x")), &[LOAD_BALANCING]), [""; 0]);
        assert_eq!(unknown(Some(&annotated("weir.dev/loadbalancing", "x")), &[LOAD_BALANCING]).len(), 1);
    }
}
