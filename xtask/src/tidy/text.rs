//! Words that are left over from work, in every text file.

use super::Finding;

/// Not ours, or made by a program.
const NOT_LOOKED_AT: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

// Put together, so that this file does not contain them.
const LEFT_OVER: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("todo", "!(")];
const OF_A_MACHINE: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Looks at each line of a file.
pub(super) fn check(path: &str, content: &str) -> Vec<Finding> {
    if NOT_LOOKED_AT.contains(&path) || path.ends_with("go.sum") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(content.lines()) {
        if let Some(word) = LEFT_OVER.iter().find(|word| line.contains(**word)) {
            findings.push(Finding::new(path, number, format!("`{word}`: do it, or open an issue and leave no mark")));
        }
        if let Some(word) = OF_A_MACHINE.iter().find(|word| line.contains(**word)) {
            findings.push(Finding::new(path, number, format!("`{word}` is a path of one machine")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_unfinished_work_are_found() {
        for word in LEFT_OVER {
            let findings = check("agent/src/x.rs", &format!("fine\n// {word} later\n"));
            assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2], "{word}");
        }
        assert_eq!(check("agent/Cargo.toml", "todo = \"warn\"\n"), []);
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        for word in OF_A_MACHINE {
            assert_eq!(check("README.md", &format!("see {word}me/weir\n")).len(), 1, "{word}");
        }
        assert_eq!(check("README.md", "/sys/fs/bpf/weir and /etc/weir\n"), []);
    }

    #[test]
    fn texts_of_others_are_not_looked_at() {
        assert_eq!(check("Cargo.lock", LEFT_OVER[2]), []);
    }
}
