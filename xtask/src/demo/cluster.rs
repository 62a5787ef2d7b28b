//! `cargo xtask demo --cluster`: the same on a real cluster, with routes of a producer and of a consumer.
//!
//! The clients are pods on both nodes, the routes are written with kubectl, and the agents run as the manifests install
//! them. The cluster is gone afterwards, unless the variable `WEIR_CLUSTER` named one that was there.

use super::{
    Outcome, Show, finish,
    phase::{self, Leg},
};
use crate::{
    cluster::{self, UpArgs},
    interrupt,
    workspace::Workspace,
};
use anyhow::{Context as _, Result};
use std::{
    env, fs,
    net::IpAddr,
    time::{Duration, Instant},
};
use weir_tests::{
    cluster::{CLUSTER, Cluster, Space},
    manifest::Route,
    report::Report,
    wait,
};

/// Name of the demo's cluster.
const NAME: &str = "demo";
/// Connections of a phase.
const CONNECTIONS: u64 = 1_000;
/// How long a change may take to be in force everywhere.
const SOON: Duration = Duration::from_secs(60);
/// How a client speaks TLS.
const TLS: [&str; 4] = ["--speech", "full", "--sni", "shop.example"];

const FIRST: [u64; 2] = [90, 10];
const SECOND: [u64; 2] = [20, 80];

/// Runs the demo.
///
/// # Errors
///
/// If it cannot run here, or if anything is off.
pub(super) fn run(workspace: &Workspace, args: &super::Args) -> Result<()> {
    let given = env::var_os(CLUSTER);
    if given.is_some() {
        interrupt::watch()?;
    } else {
        cluster::up(workspace, NAME, UpArgs { weir: true, ..UpArgs::default() })?;
    }
    let mut outcome = Outcome::default();
    let picture = super::Picture::new(args.json);
    let played = describe(workspace).and_then(|cluster| {
        let mut show = Show { picture: &picture, outcome: &mut outcome, args };
        play(&cluster, &mut show)
    });
    let ended = if given.is_none() { cluster::down(workspace, NAME) } else { Ok(()) };
    finish(&outcome, args, played.and(ended))
}

fn describe(workspace: &Workspace) -> Result<Cluster> {
    if env::var_os(CLUSTER).is_some() {
        return Cluster::get();
    }
    let path = cluster::description(workspace, NAME)?;
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// The two namespaces of the demo.
struct Stage<'a> {
    cluster: &'a Cluster,
    /// Has the Services, their pods, and clients.
    shop: Space<'a>,
    /// Has clients, and later a route of its own.
    team: Space<'a>,
}

fn play(cluster: &Cluster, show: &mut Show<'_>) -> Result<()> {
    show.picture.cluster_title(&cluster.nodes);
    let stage = Stage::set(cluster)?;
    let (near, far) = (client(0), client(1));

    stage.canary("tcp", 80, FIRST)?;
    let [v4, v6] = stage.shop.addresses("checkout")?;
    followed(&stage.shop, &near, v4, &[], FIRST)?;
    followed(&stage.shop, &far, v6, &[], FIRST)?;
    let canary = legs(FIRST);
    for (name, title, client, address) in [
        ("producer_ipv4", "TCP, IPv4, a pod on the first node", &near, v4),
        ("producer_ipv6", "TCP, IPv6, a pod on the second node", &far, v6),
    ] {
        heading(show, title, FIRST);
        let report = stage.shop.dial(client, address, 80, &[], CONNECTIONS)?;
        show.judge(name, &canary, &report, &[])?;
    }

    heading(show, "The weights changed by kubectl patch", SECOND);
    let [one, other] = SECOND;
    let patch = format!(
        r#"[{{"op":"replace","path":"/spec/rules/0/backendRefs/0/weight","value":{one}}},
            {{"op":"replace","path":"/spec/rules/0/backendRefs/1/weight","value":{other}}}]"#
    );
    stage.shop.run(&["patch", "tcproute", "checkout-tcp", "--type=json", "-p", &patch])?;
    let took = followed(&stage.shop, &near, v4, &[], SECOND)?;
    let report = stage.shop.dial(&near, v4, 80, &[], CONNECTIONS)?;
    let note = format!("seen by a pod {} ms after kubectl had returned", took.as_millis());
    show.judge("patched", &legs(SECOND), &report, &[note])?;

    stage.consume()?;
    followed(&stage.team, &near, v4, &[], [0, 100])?;
    heading(show, "A route of the team's own namespace, the team's pods", [0, 100]);
    let report = stage.team.dial(&near, v4, 80, &[], CONNECTIONS)?;
    show.judge("consumer", &legs([0, 100]), &report, &[])?;
    heading(show, "The same moment, everyone else's pods", SECOND);
    let report = stage.shop.dial(&near, v4, 80, &[], CONNECTIONS)?;
    show.judge("beside_the_consumer", &legs(SECOND), &report, &[])?;

    stage.canary("tls", 443, FIRST)?;
    followed(&stage.shop, &far, v4, &TLS, FIRST)?;
    heading(show, "TLS, by the name shop.example, never opened", FIRST);
    let report = stage.shop.dial(&far, v4, 443, &TLS, CONNECTIONS / 4)?;
    show.judge("tls", &legs(FIRST), &report, &[])?;

    heading(show, "The DaemonSet restarted on the way", SECOND);
    let load = stage.shop.load(&near, v4, 80, &["--pause-us", "1000"])?;
    let restart = ["-n", "weir-system", "rollout", "restart", "daemonset/weir"];
    let status = ["-n", "weir-system", "rollout", "status", "daemonset/weir", "--timeout=180s"];
    cluster.run(&restart)?;
    cluster.run(&status)?;
    let report = load.end()?;
    show.outcome.agent_killed_failed_connections += phase::failed(&report, &legs(SECOND));
    show.judge("restarted", &legs(SECOND), &report, &["each node got a new agent".to_owned()])
}

impl<'a> Stage<'a> {
    fn set(cluster: &'a Cluster) -> Result<Self> {
        let stage = Self { cluster, shop: cluster.space("shop")?, team: cluster.space("team")? };
        for (version, node) in ["checkout-v1", "checkout-v2"].iter().zip(&cluster.nodes) {
            stage.shop.named_server(version, &format!("{version}/pod"), node)?;
            stage.shop.service(version, version)?;
        }
        stage.shop.service("checkout", "checkout-v1")?;
        for (number, node) in cluster.nodes.iter().enumerate() {
            stage.shop.client(&client(number), node)?;
            stage.team.client(&client(number), node)?;
        }
        stage.shop.ready()?;
        stage.team.ready()?;
        interrupt::check()?;
        Ok(stage)
    }

    /// Writes a route of the Service's own namespace.
    fn canary(&self, label: &str, port: u16, weights: [u64; 2]) -> Result<()> {
        let name = |object: &str| format!("{}/{object}", self.shop.name());
        let (route, parent) = (name(&format!("checkout-{label}")), name("checkout"));
        let (v1, v2) = (name("checkout-v1"), name("checkout-v2"));
        let weight = |number: usize| u32::try_from(weights[number]).unwrap_or(u32::MAX);
        let backends = [(v1.as_str(), port, weight(0)), (v2.as_str(), port, weight(1))];
        let route = match port {
            443 => Route::tls(&route, &parent, &["shop.example"], &backends),
            _ => Route::new(&route, &parent, &backends),
        };
        self.shop.route(&Route { port: Some(port), ..route })
    }

    /// Writes a route of the team's namespace, and what allows it to name the shop's backends.
    fn consume(&self) -> Result<()> {
        let (shop, team) = (self.shop.name(), self.team.name());
        self.cluster.apply(format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\n\
             metadata: {{name: team, namespace: {shop}}}\nspec:\n  \
             from: [{{group: gateway.networking.k8s.io, kind: TCPRoute, namespace: {team}}}]\n  \
             to: [{{group: \"\", kind: Service}}]\n"
        ))?;
        let (own, parent, v2) = (format!("{team}/own"), format!("{shop}/checkout"), format!("{shop}/checkout-v2"));
        self.team.route(&Route { port: Some(80), ..Route::new(&own, &parent, &[(&v2, 80, 1)]) })
    }
}

/// Name of the client on a node.
fn client(number: usize) -> String {
    format!("client-{number}")
}

const fn legs([v1, v2]: [u64; 2]) -> [Leg; 2] {
    [Leg::backend("checkout-v1", v1), Leg::backend("checkout-v2", v2)]
}

fn heading(show: &Show<'_>, title: &str, [one, other]: [u64; 2]) {
    show.picture.heading(title, &format!("weights {one} : {other}"));
}

/// Waits until a client's connections are shared as the weights say, and returns how long that took.
fn followed(space: &Space<'_>, client: &str, to: IpAddr, options: &[&str], weights: [u64; 2]) -> Result<Duration> {
    let port = if options.is_empty() { 80 } else { 443 };
    let start = Instant::now();
    let mut last = Report::default();
    let followed = wait::until("the route in force", SOON, || {
        if interrupt::came() {
            return Some(());
        }
        last = space.dial(client, to, port, options, 50).ok()?;
        let phase = phase::Phase::new("", &legs(weights), &last);
        phase.is_right().then_some(())
    });
    interrupt::check()?;
    followed.with_context(|| format!("{last:?}"))?;
    Ok(start.elapsed())
}
