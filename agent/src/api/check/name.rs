//! The shapes of names (RFC 1123, as Kubernetes reads it).

use std::net::IpAddr;
use weir_common::hello::{MAX_MATCHED_NAME, check_name};

/// Says what is wrong with a DNS label (1..=63 of `a-z`, `0-9`, `-`).
pub(super) fn label_mistake(value: &str) -> Option<String> {
    let fits = (1..=63).contains(&value.len()) && is_label(value);
    (!fits).then(|| {
        format!(
            "\"{value}\" is not a DNS label: use 1..=63 lower-case letters, digits and \"-\", with a letter or digit \
             at both ends"
        )
    })
}

/// Says what is wrong with a DNS subdomain (labels with dots between them, 1..=253).
pub(super) fn subdomain_mistake(value: &str) -> Option<String> {
    let fits = (1..=253).contains(&value.len()) && value.split('.').all(is_label);
    (!fits).then(|| {
        format!(
            "\"{value}\" is not a DNS name: use 1..=253 lower-case letters, digits, \"-\" and \".\", with a letter \
             or digit at both ends of each part"
        )
    })
}

/// Says what is wrong with a host name to resolve; upper case, `_` and a final dot are allowed.
pub(super) fn host_name_mistake(value: &str) -> Option<String> {
    let name = value.strip_suffix('.').unwrap_or(value);
    let fits = (1..=253).contains(&name.len())
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        });
    (!fits).then(|| format!("\"{value}\" is not a host name: write it like \"db.example.com\""))
}

/// Says what is wrong with a server name to match, which may have `*.` in front.
pub(super) fn server_name_mistake(value: &str) -> Option<String> {
    let name = value.strip_prefix("*.").unwrap_or(value);
    if value.parse::<IpAddr>().is_ok() {
        return Some(format!(
            "\"{value}\" is an IP address, and clients send none as a server name: write a host name like \
             \"api.example.com\""
        ));
    }
    if name.contains('*') {
        return Some(format!(
            "\"{value}\" has its \"*\" in a wrong place: it is the whole first label, like \"*.example.com\", or not \
             there"
        ));
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Some(format!(
            "\"{value}\" has upper-case letters: write \"{}\" (clients may spell it either way)",
            value.to_ascii_lowercase()
        ));
    }
    if !name.is_empty() && name.split('.').all(is_label) && name.len() > MAX_MATCHED_NAME {
        return Some(format!(
            "\"{value}\" is too long to be matched: what is not \"*.\" has {} characters, allowed is \
             1..={MAX_MATCHED_NAME}",
            name.len()
        ));
    }
    // What follows the wildcard is a server name itself, and no server name ends in a number.
    let fits = name.split('.').all(is_label) && check_name(name.as_bytes()).is_ok();
    (!fits).then(|| {
        format!(
            "\"{value}\" is not a server name: write it like \"api.example.com\" or \"*.example.com\", in labels of \
             1..=63 lower-case letters, digits and \"-\", with a letter or digit at both ends, and the last not of \
             digits only"
        )
    })
}

fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_letters_digits_and_inner_dashes() {
        for good in ["a", "checkout-v1", "0", &"x".repeat(63)] {
            assert_eq!(label_mistake(good), None, "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", &"x".repeat(64)] {
            assert!(label_mistake(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_subdomain_is_labels_with_dots() {
        assert_eq!(subdomain_mistake("a.b-c.d"), None);
        for bad in ["", ".", "a..b", "a.", &"x".repeat(254)] {
            assert!(subdomain_mistake(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_host_name_may_be_absolute_and_have_underscores() {
        for good in ["db.example.com", "DB.example.com.", "_pg._tcp.example", "localhost"] {
            assert_eq!(host_name_mistake(good), None, "{good}");
        }
        for bad in ["", ".", "a b", "http://x", "a:80", &"x".repeat(64)] {
            assert!(host_name_mistake(bad).is_some(), "{bad}");
        }
    }

    fn said(value: &str) -> String {
        server_name_mistake(value).unwrap_or_else(|| panic!("{value} is allowed"))
    }

    #[test]
    fn a_server_name_is_a_lower_case_host_name_or_a_wildcard() {
        for good in ["a", "api.example.com", "*.example.com", "*.com", "xn--bcher-kva.example", "1.a", "10.0.0.1.a"] {
            assert_eq!(server_name_mistake(good), None, "{good}");
        }
        let long_label = format!("{}.example", "x".repeat(64));
        for bad in ["", ".", "a..b", "a.", "*.", "-a.b", "a_b.c", "a b", "a:443", "host.1", "*.0.0.1", &long_label] {
            assert!(said(bad).contains("is not a server name: write it like"), "{bad}");
        }
    }

    #[test]
    fn a_server_name_is_no_ip_address() {
        for bad in ["10.0.0.1", "::1", "2001:db8::1"] {
            assert!(said(bad).contains("is an IP address"), "{bad}");
        }
    }

    #[test]
    fn a_wildcard_is_the_whole_first_label() {
        for bad in ["*", "**.a", "*a.b", "a.*.b", "a.*", "*.*.b"] {
            assert!(said(bad).contains("\"*\" in a wrong place"), "{bad}");
        }
    }

    #[test]
    fn a_server_name_with_upper_case_is_told_its_spelling() {
        assert!(said("*.Example.com").contains("write \"*.example.com\""));
    }

    #[test]
    fn a_server_name_longer_than_the_table_can_hold_is_told_its_length() {
        let labels = format!("{0}.{0}.{0}.", "a".repeat(61));
        let longest = format!("{labels}{}", "b".repeat(MAX_MATCHED_NAME - labels.len()));
        assert_eq!(server_name_mistake(&longest), None);
        assert_eq!(server_name_mistake(&format!("*.{longest}")), None);
        for bad in [format!("{longest}c"), format!("*.{longest}c")] {
            assert!(said(&bad).contains("has 248 characters, allowed is 1..=247"), "{bad}");
        }
    }
}
