//! Pods whose first act is to dial get the answer for their own namespace.

use anyhow::Result;
use weir_tests::{
    cluster::{Cluster, LONG},
    manifest::Route,
    report::Report,
    wait,
};

/// Pods in each of two namespaces.
const PODS: usize = 100;

#[test]
fn pods_that_dial_at_once_get_their_namespaces_answer() -> Result<()> {
    let cluster = Cluster::get()?;
    let (shop, team) = (cluster.space("race")?, cluster.space("racers")?);
    for (version, node) in [("v1", &cluster.nodes[0]), ("v2", &cluster.nodes[1])] {
        shop.server(version, node)?;
        shop.service(version, version)?;
    }
    shop.service("shop", "v1")?;
    team.client("first", &cluster.nodes[0])?;
    shop.ready()?;
    team.ready()?;
    let name = |object: &str| format!("{}/{object}", shop.name());
    let (service, v1, v2) = (name("shop"), name("v1"), name("v2"));
    cluster.apply(format!(
        "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{name: team, namespace: {}}}\n\
         spec:\n  from: [{{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: {}}}]\n  \
         to: [{{group: \"\", kind: Service}}]\n",
        shop.name(),
        team.name(),
    ))?;
    shop.route(&Route { port: Some(80), ..Route::new(&name("all"), &service, &[(&v1, 80, 1)]) })?;
    let own = format!("{}/own", team.name());
    team.route(&Route { port: Some(80), ..Route::new(&own, &service, &[(&v2, 80, 1)]) })?;
    let [address, _] = shop.addresses("shop")?;
    wait::until("the team's route", LONG, || {
        team.dial("first", address, 80, &[], 10).ok().filter(|report| report.answered("v2") == 10)
    })?;

    for space in [&shop, &team] {
        let pods: Vec<String> = (0..PODS)
            .map(|number| {
                format!(
                    "apiVersion: v1\nkind: Pod\nmetadata: {{name: racer-{number}, namespace: {}, labels: {{race: it}}}}\n\
                     spec:\n  restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n  nodeName: {}\n  containers:\n  \
                     - name: main\n    image: weir.dev/test-pod:dev\n    command: [/weir-probe]\n    \
                     args: [connect, --to, \"{address}:80\", --count, \"1\"]\n",
                    space.name(),
                    cluster.nodes[number % cluster.nodes.len()],
                )
            })
            .collect();
        cluster.apply(pods.join("---\n"))?;
    }
    for (space, server) in [(&shop, "v1"), (&team, "v2")] {
        let mut ended = String::new();
        wait::until("end of the racing pods", LONG, || {
            let phase = "jsonpath={range .items[*]}{.status.phase}{\"\\n\"}{end}";
            ended = space.run(&["get", "pods", "-l", "race=it", "-o", phase]).ok()?;
            ended.lines().all(|phase| phase == "Succeeded" || phase == "Failed").then_some(())
        })?;
        let logs = space.run(&["logs", "-l", "race=it", "--tail=-1", "--max-log-requests=200"])?;
        let reports: Vec<Report> = logs.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let all = reports.into_iter().fold(Report::default(), Report::merge);
        assert_eq!((all.attempts, all.answered(server), all.failed_in_all()), (PODS as u64, PODS as u64, 0), "{all:?}");
    }
    Ok(())
}
