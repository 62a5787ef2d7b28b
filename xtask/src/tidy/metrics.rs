//! Every metric is in the README's table, and dashboards and alerts know no others.

use super::{Finding, source::Source};

/// Where metrics are declared.
const PLACE: &str = "agent/src/metrics/mod.rs";
const PREFIX: &str = "weir_";
/// What is shipped that asks for metrics.
const SHIPPED: [&str; 2] = ["deploy/grafana/", "deploy/prometheus/"];
/// What the series of histograms and counters have behind the name.
const SERIES: [&str; 4] = ["_bucket", "_sum", "_count", "_total"];

/// Finds metrics that the README does not name. A counter's name there may end in `_total`.
pub(super) fn check(sources: &[Source], readme: &str) -> Vec<Finding> {
    let declared = sources.iter().filter(|source| source.path() == PLACE).flat_map(Source::strings);
    let missing = declared.filter(|(_, name)| is_name(name) && !names(readme, name));
    let message = |name: &str| format!("metric `{name}` is not in the README's table of metrics");
    missing.map(|(line, name)| Finding::new(PLACE, *line, message(name))).collect()
}

/// Finds metrics in what is shipped for Prometheus and Grafana that the README does not name.
pub(super) fn check_shipped(path: &str, content: &str, readme: &str) -> Vec<Finding> {
    if !SHIPPED.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(content.lines()) {
        for word in text.split(|c| !is_part(c)).filter(|word| word.starts_with(PREFIX)) {
            let series = SERIES.iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            if !names(readme, series) && !names(readme, word) {
                findings.push(Finding::new(path, line, format!("the README's table of metrics has no `{word}`")));
            }
        }
    }
    findings
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

    #[test]
    fn dashboards_and_alerts_ask_for_metrics_that_there_are() {
        let readme = "| `weir_a_total` | a |\n| `weir_b_seconds` | b |\n";
        let asked = "rate(weir_a_total[5m]) > 0\nsum(weir_b_seconds_bucket{le=\"1\"})\nweir_c == 1\n";
        let found = check_shipped("deploy/prometheus/alerts.yaml", asked, readme);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        assert!(check_shipped("deploy/kubernetes/x.yaml", asked, readme).is_empty());
    }
}
