//! Every metric is in the README's table.

use super::{Finding, source::Source};

/// Where metrics are declared.
const PLACE: &str = "agent/src/metrics/mod.rs";
const PREFIX: &str = "weir_";

/// Finds metrics that the README does not name. A counter's name there may end in `_total`.
pub(super) fn check(sources: &[Source], readme: &str) -> Vec<Finding> {
    let declared = sources.iter().filter(|source| source.path() == PLACE).flat_map(Source::strings);
    let missing = declared.filter(|(_, name)| is_name(name) && !names(readme, name));
    let message = |name: &str| format!("metric `{name}` is not in the README's table of metrics");
    missing.map(|(line, name)| Finding::new(PLACE, *line, message(name))).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(PREFIX) && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn names(readme: &str, name: &str) -> bool {
    readme.contains(&format!("`{name}`")) || readme.contains(&format!("`{name}_total`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(readme: &str) -> Vec<usize> {
        let source = "//! M.\nfamilies! {\n    A: Counter \"weir_a\" X;\n    B: Gauge \"weir_b\" X;\n}\nconst C: &str = \"weir_c\";\n";
        let source = Source::read(PLACE, source).unwrap();
        check(&[source], readme).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn each_metric_is_documented() {
        assert_eq!(missing(""), [3, 4, 6]);
        assert_eq!(missing("| `weir_a_total` | a |\n| `weir_b` | b |\n| `weir_cc` | not c |\n"), [6]);
    }
}
