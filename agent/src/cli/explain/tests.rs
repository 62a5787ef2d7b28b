//! Explanations of a folder with a producer route, a consumer route, a loser and a broken leg.

use super::*;

const FOLDER: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1, "fd00::1"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: http, port: 80, protocol: TCP}, {name: other, port: 81, protocol: TCP}]
---
apiVersion: v1
kind: Service
metadata: {name: web-v1, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-v1, namespace: shop, labels: {kubernetes.io/service-name: web-v1}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.0.11]}, {addresses: [10.0.0.12]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: web, namespace: shop, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  parentRefs: [{group: "", kind: Service, name: web, port: 80}]
  rules: [{backendRefs: [{name: web-v1, port: 80, weight: 9}, {name: gone, port: 80, weight: 1}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: late, namespace: shop, creationTimestamp: "2025-01-01T00:00:00Z"}
spec:
  parentRefs: [{group: "", kind: Service, name: web, port: 80}]
  rules: [{backendRefs: [{name: web-v1, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: web, namespace: batch, creationTimestamp: "2025-01-01T00:00:00Z"}
spec:
  parentRefs: [{group: "", kind: Service, name: web, namespace: shop, port: 80}]
  rules: [{backendRefs: [{name: web-v1, namespace: shop, port: 80}]}]
"#;

fn explain(arguments: &[&str]) -> Result<String> {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: ExplainArgs,
    }
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("all.yaml"), FOLDER)?;
    let config = dir.path().to_str().expect("a path of plain text");
    let arguments = ["explain", "--config", config].into_iter().chain(arguments.iter().copied());
    let cli = <Cli as clap::Parser>::try_parse_from(arguments)?;
    let mut out = Vec::new();
    run(&cli.args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn a_service_is_explained_at_each_of_its_addresses() {
    insta::assert_snapshot!(explain(&["--to", "shop/web:80"]).expect("an account"));
}

#[test]
fn clients_of_a_namespace_go_by_its_consumer_route() {
    insta::assert_snapshot!(explain(&["--to", "10.0.0.1:80", "--from", "batch"]).expect("an account"));
}

#[test]
fn the_sample_keeps_the_shares_to_within_four_connections() {
    let json = explain(&["--to", "10.0.0.1:80", "--output", "json", "--count", "500"]).expect("an account");
    let answer: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let legs = answer["destinations"][0]["legs"].as_array().expect("legs");
    let chosen: Vec<u64> = legs.iter().map(|leg| leg["chosen"].as_u64().expect("a count")).collect();
    assert_eq!(chosen.iter().sum::<u64>(), 500);
    assert!(chosen[0].abs_diff(450) <= 4, "{chosen:?}");
    assert_eq!(legs[1]["rejects"], "backend_not_found");
}

#[test]
fn what_is_no_frontend_is_left_alone_and_says_why() {
    let cases = [
        ("10.9.9.9:80", "it is no Service of this folder"),
        ("10.0.0.1:99", "the Service has no such port"),
        ("10.0.0.1:81", "no route is attached"),
    ];
    for (to, why) in cases {
        let text = explain(&["--to", to]).expect("an account");
        assert!(text.contains("left alone") && text.contains(why), "{to}: {text}");
    }
}

#[test]
fn a_service_that_is_not_there_is_an_error() {
    let error = explain(&["--to", "shop/nothing:80"]).expect_err("no such Service").to_string();
    assert!(error.contains("Service shop/nothing"), "{error}");
}

#[test]
fn a_destination_is_an_address_or_a_service() {
    assert!(matches!(destination("[fd00::1]:80"), Ok(Destination::Address(_))));
    let service = Destination::Service { namespace: "shop".to_owned(), name: "web".to_owned(), port: 80 };
    assert_eq!(destination("shop/web:80"), Ok(service));
    for wrong in ["shop/web", "web:80", "10.0.0.1", "shop/web:0", "shop/web:70000", "a/b/c:80", "/web:80"] {
        assert!(destination(wrong).is_err_and(|text| text.contains("namespace/name:80")), "{wrong}");
    }
}
