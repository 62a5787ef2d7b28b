//! `cargo xtask cluster`: a real Kubernetes with two nodes on this machine, for tests and to try Weir.
//!
//! No Docker and no virtual machine: the control plane and each node have a network namespace and a cgroup, each node
//! its own containerd and kubelet. The nodes share the kernel, so an agent attaches to its node's cgroup. `down` finds
//! everything by its name, whatever became of `up`.

mod control;
mod daemon;
pub(crate) mod golang;
mod install;
mod kubectl;
mod machine;
mod network;
mod node;
mod pki;
mod place;
mod remains;
mod wait;

use crate::{
    built,
    image::{self, Image},
    interrupt,
    setup::{self, Purpose},
    workspace::Workspace,
};
use anyhow::{Context as _, Result, bail};
use kubectl::Kubectl;
use node::Node;
use pki::Pki;
use place::{NODES, Place};
use std::{fs, os::unix::process::CommandExt as _, path::PathBuf, thread, time::Instant};
use weir_tests::cluster::Cluster;

/// Programs of the tests that pods run.
const TEST_PROGRAMS: [&str; 2] = ["weir-test-pod", "weir-probe"];
/// Image with them.
const TEST_POD: &str = "weir.dev/test-pod:dev";

/// Options of `cargo xtask cluster`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the cluster; clusters with different names do not see each other.
    #[arg(long, default_value = "weir", global = true)]
    name: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Starts a cluster with the Gateway API's kinds and cluster DNS.
    Up(UpArgs),
    /// Ends a cluster and removes everything of it, also after a crash.
    Down,
    /// Runs kubectl as the cluster's administrator.
    #[command(disable_help_flag = true)]
    Kubectl {
        /// Arguments of kubectl.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Options of `cargo xtask cluster up`.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct UpArgs {
    /// Builds Weir's image too, and installs it by deploy/kubernetes.
    #[arg(long)]
    pub(crate) weir: bool,
    /// Leaves what there is of a cluster that does not come up, with its logs.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Does what was asked for.
///
/// # Errors
///
/// If that fails. A cluster that did not come up whole is taken down again.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    match &args.command {
        Command::Up(options) => up(workspace, &args.name, *options),
        Command::Down => down(workspace, &args.name),
        Command::Kubectl { arguments } => kubectl(workspace, &args.name, arguments),
    }
}

/// What must be built before a cluster is started.
struct Parts {
    kubebox: PathBuf,
    /// Program of a node's first process.
    first: PathBuf,
    images: Vec<PathBuf>,
}

/// Starts a cluster.
///
/// # Errors
///
/// If something cannot be built or started; nothing is left then.
pub(crate) fn up(workspace: &Workspace, name: &str, options: UpArgs) -> Result<()> {
    interrupt::watch()?;
    let place = Place::new(workspace, name)?;
    if !built::is_second_start() {
        setup::prepare(Purpose::Cluster)?;
    }
    let parts = build(workspace, options)?;
    built::need_root(workspace)?;
    if remains::are_there(&place) {
        bail!("there is a cluster `{name}`, or what is left of one: `cargo xtask cluster --name {name} down` ends it");
    }
    let result = start(workspace, &place, &parts, options);
    if result.is_err() && options.keep {
        eprintln!("cluster: kept as it is; logs are in {}", place.state().display());
    } else if result.is_err() {
        eprintln!("cluster: taken down again");
        remains::remove(&place).context("the cluster did not come up, and not all of it could be removed")?;
    }
    result
}

/// Ends a cluster.
///
/// # Errors
///
/// If something of it cannot be removed.
pub(crate) fn down(workspace: &Workspace, name: &str) -> Result<()> {
    built::need_root(workspace)?;
    let place = Place::new(workspace, name)?;
    let was_there = remains::are_there(&place);
    remains::remove(&place)?;
    eprintln!("cluster: {name} {}", if was_there { "is ended" } else { "is not there" });
    Ok(())
}

fn kubectl(workspace: &Workspace, name: &str, arguments: &[String]) -> Result<()> {
    built::need_root(workspace)?;
    let place = Place::new(workspace, name)?;
    if !remains::are_there(&place) {
        bail!("there is no cluster `{name}`: `cargo xtask cluster --name {name} up` starts it");
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // It takes this process's place, with its terminal and its exit status.
    Err(Kubectl::new(&place, &golang::kubebox(workspace)?).command(&arguments).exec()).context("cannot start kubectl")
}

/// Builds everything, as the user.
fn build(workspace: &Workspace, options: UpArgs) -> Result<Parts> {
    let kubebox = golang::kubebox(workspace)?;
    let dns = golang::dns(workspace)?;
    golang::gateway_api(workspace)?;
    interrupt::check()?;
    let folder = image::folder(workspace);
    let first = folder.join(TEST_PROGRAMS[0]);
    if built::is_second_start() {
        let mut images = vec!["pause.tar", "test-pod.tar", "dns.tar"];
        images.extend(options.weir.then_some("weir.tar"));
        return Ok(Parts { kubebox, first, images: images.iter().map(|name| folder.join(name)).collect() });
    }
    let programs = image::build(workspace, "weir-tests", &TEST_PROGRAMS)?;
    let write = |file: &str, name: &str, entrypoint: &[&str], programs: Vec<image::Program>| -> Result<PathBuf> {
        let entrypoint = entrypoint.iter().map(|word| (*word).to_owned()).collect();
        let path = folder.join(file);
        image::write(&Image { names: vec![name.to_owned()], entrypoint, programs }, &path)?;
        Ok(path)
    };
    let dns = image::Program { name: "dns".to_owned(), path: dns };
    let mut images = vec![
        write("pause.tar", node::PAUSE, &["/weir-test-pod", "pause"], vec![programs[0].clone()])?,
        write("test-pod.tar", TEST_POD, &["/weir-test-pod"], programs)?,
        write("dns.tar", install::DNS, &["/dns"], vec![dns])?,
    ];
    if options.weir {
        images.push(image::weir(workspace, image::NAME, None)?);
    }
    Ok(Parts { kubebox, first, images })
}

fn start(workspace: &Workspace, place: &Place, parts: &Parts, options: UpArgs) -> Result<()> {
    let began = Instant::now();
    let say = |what: &str| eprintln!("cluster: {what} after {:.1} s", began.elapsed().as_secs_f64());
    machine::enter(place.name())?;
    fs::create_dir_all(place.state()).with_context(|| format!("cannot make {}", place.state().display()))?;
    network::make(place)?;
    let pki = Pki::make(place)?;
    let kubectl = Kubectl::new(place, &parts.kubebox);
    describe(place, &kubectl)?;
    control::start(place, &parts.kubebox, &pki, &kubectl)?;
    say("the control plane is ready");
    start_nodes(place, parts, &kubectl)?;
    say("both nodes are ready");
    install::gateway_api(workspace, &kubectl)?;
    install::dns(workspace, &kubectl)?;
    kubectl.rolled_out("kube-system", "deployment/dns")?;
    say("the Gateway API and cluster DNS are ready");
    interrupt::check()?;
    if options.weir {
        install::weir(workspace, place, &kubectl)?;
        say("Weir is ready on both nodes");
    }
    let name = place.name();
    let name = if name == "weir" { String::new() } else { format!("--name {name} ") };
    eprintln!(
        "cluster: `cargo xtask cluster {name}kubectl get pods -A` shows it, `cargo xtask cluster {name}down` ends it"
    );
    Ok(())
}

/// Where a cluster is described for tests.
pub(crate) fn description(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    Ok(Place::new(workspace, name)?.state().join("cluster.json"))
}

fn describe(place: &Place, kubectl: &Kubectl) -> Result<()> {
    let words = kubectl.command(&[]);
    let words = std::iter::once(words.get_program()).chain(words.get_args());
    let cluster = Cluster {
        kubectl: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        nodes: place.nodes(),
        control: place.state().join("control"),
        cgroups: place.cgroup_mount().to_owned(),
    };
    let path = place.state().join("cluster.json");
    fs::write(&path, serde_json::to_vec_pretty(&cluster)?).with_context(|| format!("cannot write {}", path.display()))
}

fn start_nodes(place: &Place, parts: &Parts, kubectl: &Kubectl) -> Result<()> {
    thread::scope(|scope| {
        let start = |number| scope.spawn(move || Node::new(place, number, parts, kubectl).start(&parts.images));
        let starts: Vec<_> = (1..=NODES).map(start).collect();
        // All are waited for: none may be half started when the rest is taken down.
        let results: Vec<Result<()>> = starts
            .into_iter()
            .map(|start| start.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        results.into_iter().collect()
    })
}
