//! The shapes of names (RFC 1123, as Kubernetes reads it).

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
}
