//! Golden files: `testdata/translate/RULE.in.yaml` → `RULE.out.yaml`, conditions and desired state.
//!
//! The name of a file is the rule that it shows. `WEIR_UPDATE=1 cargo test -p weir --test translate`
//! writes the outcomes anew.

use std::{
    fmt::Write as _,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};
use weir::{
    ir::{Desired, Processes},
    provider::file::read_dir,
    translate::{ConditionStatus, ObjectStatus, translate},
};
use weir_common::abi::tables::EndpointReadiness;

#[test]
fn every_rule_has_its_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/translate");
    let mut inputs: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".in.yaml"))
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty());
    let wrong: Vec<String> = inputs.iter().filter_map(|input| check(input)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Compares one outcome; returns what is wrong.
fn check(input: &Path) -> Option<String> {
    let text = fs::read_to_string(input).unwrap();
    let got = outcome(&text);
    let output = PathBuf::from(input.to_string_lossy().replace(".in.yaml", ".out.yaml"));
    if std::env::var_os("WEIR_UPDATE").is_some() {
        fs::write(&output, &got).unwrap();
        return None;
    }
    let wanted = fs::read_to_string(&output).unwrap_or_default();
    (got != wanted).then(|| format!("{}:\n--- wanted\n{wanted}--- got\n{got}", output.display()))
}

fn outcome(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.yaml"), text).unwrap();
    let mut reading = read_dir(dir.path());
    // DNS answers are no objects; `# resolved: NAME ADDRESS…` stands for them.
    for line in text.lines().filter_map(|line| line.strip_prefix("# resolved: ")) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap().to_owned();
        let addresses: Vec<IpAddr> = words.map(|word| word.parse().unwrap()).collect();
        reading.resources.resolved.insert(name, addresses);
    }
    let translation = translate(&reading.resources);
    let mut out = String::new();
    for problem in &reading.problems {
        writeln!(out, "# {problem}").unwrap();
    }
    out.push_str("conditions:\n");
    translation.objects.iter().for_each(|status| conditions(status, &mut out));
    desired(&translation.desired, &mut out);
    out
}

fn conditions(status: &ObjectStatus, out: &mut String) {
    writeln!(out, "  {} {}:", status.kind, status.key).unwrap();
    for parent in &status.parents {
        let reference = &parent.parent_ref;
        let namespace = reference.namespace.as_ref().map(|text| format!("{text}/")).unwrap_or_default();
        let port = reference.port.map(|port| format!(" port {port}")).unwrap_or_default();
        let section = reference.section_name.as_ref().map(|name| format!(" section {name}")).unwrap_or_default();
        writeln!(out, "    - parent: {namespace}{}{port}{section}", reference.name).unwrap();
        for condition in &parent.conditions {
            let holds = condition.status == ConditionStatus::True;
            let (kind, reason, message) = (condition.kind.name(), condition.reason, &condition.message);
            let generation = match condition.observed_generation {
                0 => String::new(),
                number => format!(" (generation {number})"),
            };
            writeln!(out, "      {kind}: {holds} {reason}{generation} | {message}").unwrap();
        }
    }
    status.notes.iter().for_each(|note| writeln!(out, "    - note: {note}").unwrap());
}

fn desired(desired: &Desired, out: &mut String) {
    out.push_str("frontends:\n");
    for ((address, port), frontend) in &desired.frontends {
        writeln!(out, "  \"[{address}]:{port}\": # Service {}", frontend.service).unwrap();
        if let Some(route) = &frontend.everyone {
            writeln!(out, "    everyone: {route}").unwrap();
        }
        for (namespace, route) in &frontend.namespaces {
            writeln!(out, "    clients of {namespace}: {route}").unwrap();
        }
    }
    out.push_str("routes:\n");
    for (key, route) in &desired.routes {
        writeln!(out, "  {key}: # {}", route.policy.name()).unwrap();
        if let Some(tls) = &route.tls {
            let alpn = if tls.alpn.is_empty() { String::new() } else { format!(" alpn {}", tls.alpn.join(",")) };
            let idle = tls.idle_timeout.map(|time| format!(" idle {time:?}")).unwrap_or_default();
            writeln!(out, "    names {}{alpn}{idle}", tls.hostnames.join(" ")).unwrap();
        }
        for leg in &route.legs {
            let target = match &leg.target {
                Ok(backend) => format!("to {backend}"),
                Err(reason) => format!("rejects: {}", reason.label()),
            };
            writeln!(out, "    - {} weight {} {target}", leg.label, leg.weight).unwrap();
        }
    }
    out.push_str("backends:\n");
    for (key, backend) in &desired.backends {
        let empty = backend.empty.map(|reason| format!(" # empty: {}", reason.label())).unwrap_or_default();
        writeln!(out, "  {key}:{empty}").unwrap();
        for endpoint in &backend.endpoints {
            let readiness = match endpoint.readiness {
                EndpointReadiness::Ready => "ready",
                EndpointReadiness::ServingTerminating => "serving while terminating",
            };
            writeln!(out, "    - \"[{}]:{}\" {readiness}", endpoint.address, endpoint.port).unwrap();
        }
    }
    out.push_str("clients:\n");
    for client in &desired.clients {
        let processes = match &client.processes {
            Processes::SystemdUnit(name) => format!("systemd unit {name}"),
            Processes::CgroupPath(path) => format!("cgroup {path}"),
            Processes::NetworkNamespace(name) => format!("network namespace {name}"),
        };
        writeln!(out, "  - {processes}: {}", client.namespace).unwrap();
    }
}
