//! Paths of fields as people write them: `spec.rules[0].backendRefs[1].weight`.

/// Appends a key; one with characters that a path gives a meaning to stands in brackets.
pub(super) fn key(parent: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match (parent.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{parent}.{key}"),
        (_, false) => format!("{parent}[{key}]"),
    }
}

/// Appends a position in a list.
pub(super) fn item(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// Returns the path one step up; `None` for the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    let cut = if path.ends_with(']') { path.rfind('[') } else { path.rfind('.') };
    Some(&path[..cut.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_be_walked_up_to_its_root() {
        let deep = key(&item(&key(&key("", "spec"), "rules"), 0), "weir.dev/x");
        assert_eq!(deep, "spec.rules[0][weir.dev/x]");
        let steps: Vec<&str> = std::iter::successors(Some(deep.as_str()), |path| parent(path)).collect();
        assert_eq!(steps, ["spec.rules[0][weir.dev/x]", "spec.rules[0]", "spec.rules", "spec", ""]);
    }
}
