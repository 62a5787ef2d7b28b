//! `cargo xtask manifests`: whether the kustomize base and the Helm chart install the same objects, and whether
//! Prometheus takes the alert rules.

use crate::{
    cluster::golang,
    process::shown,
    setup::{self, Purpose},
    workspace::Workspace,
};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

/// Helm and promtool, as they are built from their Go modules.
const HELM: (&str, &str) = ("helm.sh/helm/v4/cmd/helm", "v4.3.2");
const PROMTOOL: (&str, &str) = ("github.com/prometheus/prometheus/cmd/promtool", "v0.316.0");

/// The namespace that the kustomize base has, and the chart is installed to.
const NAMESPACE: &str = "weir-system";

/// Objects by kind and name.
type Objects = BTreeMap<String, Value>;

/// Renders both ways and compares, also with the PodMonitor; lets promtool read the rules.
///
/// # Errors
///
/// If they differ or something cannot be rendered.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    setup::prepare(Purpose::Cluster)?;
    let helm = helm(workspace)?;
    let kubebox = golang::kubebox(workspace)?;
    let cases: [(&str, &[&str]); 2] = [
        ("deploy/kubernetes", &[]),
        ("tests/cluster/pod-monitor", &["--set", "podMonitor.enabled=true", "--set", "agent.admin.address=[::]"]),
    ];
    for (base, settings) in cases {
        let mut kustomize = Command::new(&kubebox);
        kustomize.args(["kubectl", "kustomize", base]).current_dir(workspace.root());
        let mut chart = Command::new(&helm);
        chart.args(["template", "weir", "deploy/helm/weir", "--namespace", NAMESPACE, "--include-crds"]);
        chart.args(["--set", "namespace.create=true"]).args(settings).current_dir(workspace.root());
        let kustomize = objects(&rendered(&mut kustomize)?)?;
        let chart = objects(&rendered(&mut chart)?)?;
        let differences = differences(&kustomize, &chart);
        if !differences.is_empty() {
            bail!("{base} and deploy/helm/weir differ:\n  {}", differences.join("\n  "));
        }
        println!("{base} and deploy/helm/weir: the same {} objects", kustomize.len());
    }
    let promtool = golang::tool(workspace, PROMTOOL.0, PROMTOOL.1)?;
    let mut check = Command::new(promtool);
    check.args(["check", "rules", "--lint-fatal", "deploy/prometheus/alerts.yaml"]).current_dir(workspace.root());
    print!("{}", rendered(&mut check)?);
    Ok(())
}

/// Builds Helm, or finds it built.
///
/// # Errors
///
/// If it cannot be built.
pub(crate) fn helm(workspace: &Workspace) -> Result<PathBuf> {
    golang::tool(workspace, HELM.0, HELM.1)
}

fn rendered(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let said = [&output.stdout[..], &output.stderr].concat();
        bail!("{}: {}", shown(command), String::from_utf8_lossy(&said).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn objects(yaml: &str) -> Result<Objects> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).context("not YAML")?;
    let named = documents.into_iter().filter(|document| !document.is_null()).map(|document| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (format!("{} {}", text(&document["kind"]), text(&document["metadata"]["name"])), document)
    });
    Ok(named.collect())
}

/// Says where two sets of objects differ.
fn differences(one: &Objects, other: &Objects) -> Vec<String> {
    let mut found = Vec::new();
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    for name in names {
        match (one.get(name), other.get(name)) {
            (Some(one), Some(other)) => compare(name, one, other, &mut found),
            (Some(_), None) => found.push(format!("{name}: only the first has it")),
            (None, _) => found.push(format!("{name}: only the second has it")),
        }
    }
    found
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                compare(&format!("{path}.{key}"), &one[key], &other[key], found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{i}]"), a, b, found);
            }
        }
        // 1 and 1.0 are one number in JSON.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ if one == other => {}
        _ => found.push(format!("{path}: {one} and {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_named_by_its_path() {
        let one =
            objects("kind: A\nmetadata: {name: x}\nspec: {list: [1, {a: 2}]}\n---\nkind: B\nmetadata: {name: z}\n");
        let other = objects("---\n# only words\n---\nkind: A\nmetadata: {name: x}\nspec: {list: [1, {a: 3, b: 4}]}\n");
        assert_eq!(
            differences(&one.unwrap(), &other.unwrap()),
            ["A x.spec.list[1].a: 2 and 3", "A x.spec.list[1].b: null and 4", "B z: only the first has it"]
        );
    }
}
