//! `weir check` on a folder with ten mistakes: each is named, and the good route stays accepted.

use clap::Parser;
use std::path::{Path, PathBuf};
use weir::cli::check::{CheckArgs, check};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CheckArgs,
}

fn run(folder: &Path, more: &[&str]) -> (bool, String) {
    let mut line = vec!["check".as_ref(), folder.as_os_str()];
    line.extend(more.iter().map(|word| std::ffi::OsStr::new(*word)));
    let mut args = Line::parse_from(line).args;
    args.colour = false;
    let mut out = Vec::new();
    let code = check(&args, &mut out).unwrap();
    (code == std::process::ExitCode::SUCCESS, String::from_utf8(out).unwrap())
}

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn mistakes() -> PathBuf {
    testdata("mistakes")
}

#[test]
fn each_of_ten_mistakes_is_named_with_its_remedy() {
    let (clean, text) = run(&mistakes(), &[]);
    assert!(!clean);
    for (place, finding) in [
        ("1-syntax.yaml:", "correct the document"),
        (
            "routes/2-weight.yaml:13 (document 1)",
            "TCPRoute shop/heavy: spec.rules[0].backendRefs[0].weight: 2000000 is out of range: write 0..=1000000",
        ),
        (
            "routes/3-type.yaml:12 (document 1)",
            "TCPRoute shop/quoted: spec.rules[0].backendRefs[0].port: string \"80\", expected a whole number, without quotes",
        ),
        (
            "routes/4-field.yaml:13 (document 1)",
            "TCPRoute shop/misspelled: spec.rules[0].backendRefs[0].wieght: is unknown and has no effect: did you mean weight?",
        ),
        ("routes/5-kind.yaml:3 (document 1)", "kind: \"TCPRoutes\" is unknown: did you mean TCPRoute?"),
        ("TCPRoute shop/orphan", "spec.parentRefs[0]: Service shop/wbe does not exist: create it, or correct name"),
        ("TCPRoute shop/no-port", "spec.rules[0].backendRefs[0]: Service shop/web-v1 has no port 81: it has 80/TCP"),
        ("routes/8-twice.yaml", "TCPRoute shop/good: is defined twice: good.yaml (document 4) comes first"),
        (
            "9-backend.yaml:7 (document 1)",
            "Backend shop/db: spec.endpoints[0]: has both address and hostname: keep one",
        ),
        (
            "9-backend.yaml:10 (document 1)",
            "Backend shop/db: spec.endpoints[1].address: \"192.0.2.256\" is not an IPv4",
        ),
        (
            "10-clients.json:7",
            "ClientGroup shop/billing: spec.clients[0]: names processes in 2 ways: write exactly one of",
        ),
    ] {
        let at = text.find(place).unwrap_or_else(|| panic!("{place} is not named in:\n{text}"));
        assert!(text[at..].contains(finding), "{finding} is not said of {place} in:\n{text}");
    }
    let good = text.find("✓ TCPRoute shop/good").unwrap_or_else(|| panic!("the good route is not good in:\n{text}"));
    assert!(text[good..].contains("✓ Accepted=True Accepted: port 80 of Service shop/web, for every client"));
    // The document behind the broken one was read.
    assert!(text.contains("✓ Namespace shop"), "{text}");
}

#[test]
fn each_mistake_of_a_tls_route_is_named_with_its_remedy() {
    let (clean, text) = run(&testdata("tls-mistakes"), &[]);
    assert!(!clean);
    let snapshot = testdata("tls-mistakes.check.txt");
    if std::env::var_os("WEIR_UPDATE").is_some() {
        std::fs::write(&snapshot, &text).unwrap();
    }
    let wanted = std::fs::read_to_string(&snapshot).unwrap();
    assert!(text == wanted, "--- wanted\n{wanted}--- got\n{text}");
    for (place, finding) in [
        ("1-nameless.yaml", "missing field `hostnames`"),
        ("2-empty.yaml", "spec.hostnames: has 0 hostnames, allowed is 1..=1024"),
        ("3-address.yaml:11", "spec.hostnames[1]: \"10.0.0.1\" is an IP address"),
        (
            "4-upper.yaml:10",
            "spec.hostnames[0]: \"API.shop.example\" has upper-case letters: write \"api.shop.example\"",
        ),
        ("5-wildcard.yaml:10", "spec.hostnames[0]: \"api.*.example\" has its \"*\" in a wrong place"),
        ("6-long.yaml:10", "249 characters, allowed is 1..=247"),
        ("7-ported.yaml:10", "spec.hostnames[0]: \"api.shop.example:443\" is not a server name"),
        ("8-misspelled.yaml:9", "spec.hostname: is unknown and has no effect: did you mean hostnames?"),
        ("TLSRoute shop/alpn", "metadata.annotations[weir.dev/alpn]: \"h2,\" has an empty protocol: write 1..=16"),
        ("TLSRoute shop/idle", "metadata.annotations[weir.dev/idle-timeout]: \"30m\" is not a time: write seconds"),
        ("11-rules.yaml", "spec.rules: has 2 rules, allowed is exactly 1"),
        ("TLSRoute shop/lost", "all its host names lead elsewhere: to TLSRoute shop/good"),
        (
            "13-old.yaml:2",
            "gateway.networking.k8s.io/v1alpha2 is old and read as gateway.networking.k8s.io/v1: write that",
        ),
        ("14-kind.yaml:3", "kind: \"TLSRoutes\" is unknown: did you mean TLSRoute?"),
    ] {
        let at = text.find(place).unwrap_or_else(|| panic!("{place} is not named in:\n{text}"));
        assert!(text[at..].contains(finding), "{finding} is not said of {place} in:\n{text}");
    }
    let good = text.find("✓ TLSRoute shop/good").unwrap_or_else(|| panic!("the good route is not good in:\n{text}"));
    assert!(text[good..].contains("✓ Accepted=True Accepted: port 80 of Service shop/web, for every client"));
}

#[test]
fn json_says_the_same_to_scripts() {
    let (clean, text) = run(&mistakes(), &["--output", "json"]);
    assert!(!clean);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    let weight = problems.iter().find(|problem| problem["file"] == "routes/2-weight.yaml").unwrap();
    assert_eq!(weight["path"], "spec.rules[0].backendRefs[0].weight");
    assert_eq!(weight["line"], 13);
    assert_eq!(weight["severity"], "error");
    assert_eq!(weight["object"]["name"], "heavy");
    let objects = report["objects"].as_array().unwrap();
    let good = objects.iter().find(|object| object["name"] == "good").unwrap();
    assert_eq!(good["parents"][0]["conditions"][0]["status"], "True");
}

#[test]
fn a_clean_folder_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(mistakes().join("good.yaml"), dir.path().join("good.yaml")).unwrap();
    let (clean, text) = run(dir.path(), &[]);
    assert!(clean, "{text}");
    assert!(text.ends_with("0 of them not in full effect; 0 errors and 0 warnings in files\n"), "{text}");
}

#[test]
fn the_example_fails_only_for_its_broken_backend() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/canary");
    let (clean, text) = run(&folder, &[]);
    assert!(!clean);
    assert!(text.contains("✗ ResolvedRefs=False BackendNotFound"), "{text}");
    assert!(text.contains("Service shop/checkout-v3 does not exist"), "{text}");
    assert!(text.contains("1 of them not in full effect; 0 errors and 0 warnings"), "{text}");
}

#[test]
fn the_tls_example_is_clean() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/tls");
    let (clean, text) = run(&folder, &[]);
    assert!(clean, "{text}");
    assert!(text.ends_with("0 of them not in full effect; 0 errors and 0 warnings in files\n"), "{text}");
    assert!(!text.contains("weir.dev/Superseded"), "{text}");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let (clean, text) = run(Path::new("/nowhere/at/all"), &[]);
    assert!(!clean);
    assert!(text.contains("cannot be read"), "{text}");
}
