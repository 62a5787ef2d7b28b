//! A running test cluster (`cargo xtask cluster`), for tests: its kubectl, namespaces, servers and clients in pods.

use crate::{binaries::Binaries, http, manifest, report::Report, wait};
use anyhow::{Context as _, Result, anyhow, bail};
use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    env,
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// Names the file that describes the cluster.
pub const CLUSTER: &str = "WEIR_CLUSTER";

/// How long a cluster may take for what it does at last.
pub const LONG: Duration = Duration::from_secs(180);

/// The admin port, as the shipped manifests leave it.
const ADMIN: &str = "127.0.0.1:9754";

/// Image with the test programs.
const TEST_POD: &str = "weir.dev/test-pod:dev";

/// A running cluster, as `cargo xtask cluster up` describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cluster {
    /// Words before kubectl's arguments.
    pub kubectl: Vec<String>,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Folder of the control plane, with scripts that start its programs and with their pids.
    pub control: PathBuf,
    /// Where the cgroup2 hierarchy is mounted.
    pub cgroups: PathBuf,
}

/// A namespace of a test. Dropping it deletes it.
#[derive(Debug)]
pub struct Space<'a> {
    cluster: &'a Cluster,
    name: String,
}

/// Connections of a client pod that go on until they are told to end.
#[derive(Debug)]
pub struct Load {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Cluster {
    /// Finds the cluster that the tests were started for.
    ///
    /// # Errors
    ///
    /// If they were not started by `cargo xtask test --cluster`.
    pub fn get() -> Result<Self> {
        let path = env::var_os(CLUSTER).context("run `cargo xtask test --cluster`, which starts a cluster first")?;
        let text = fs::read(&path).with_context(|| format!("cannot read {}", Path::new(&path).display()))?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Returns a kubectl command.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl[0]);
        command.args(&self.kubectl[1..]).args(arguments);
        command
    }

    /// Runs kubectl and returns what it wrote.
    ///
    /// # Errors
    ///
    /// If it fails; the message is its own.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        self.feed(arguments, "")
    }

    /// Applies YAML.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn apply(&self, yaml: impl AsRef<str>) -> Result<()> {
        self.feed(&["apply", "--server-side", "--force-conflicts", "-f", "-"], yaml.as_ref()).map(drop)
    }

    fn feed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl {}: {}\n{input}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Makes a namespace that no other test has.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn space(&self, label: &str) -> Result<Space<'_>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{label}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        self.run(&["create", "namespace", &name])?;
        let space = Space { cluster: self, name };
        // Pods are refused until their namespace has it.
        wait::until("ServiceAccount of a namespace", LONG, || {
            self.run(&["-n", &space.name, "get", "serviceaccount", "default"]).ok()
        })?;
        Ok(space)
    }

    /// Ends a program of the control plane at once.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn kill(&self, program: &str) -> Result<()> {
        let pid = fs::read_to_string(self.control.join("pid").join(program))?;
        kill(Pid::from_raw(pid.trim().parse()?), Signal::SIGKILL).with_context(|| format!("cannot end {program}"))
    }

    /// Starts a program of the control plane again as it was.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start(&self, program: &str) -> Result<()> {
        let mut script = Command::new(self.control.join("start").join(program));
        script.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        script.spawn().with_context(|| format!("cannot start {program}")).map(drop)
    }

    /// Fetches a path of the admin port of a node's agent.
    ///
    /// # Errors
    ///
    /// If the agent does not answer, or not with what was asked for.
    ///
    /// # Panics
    ///
    /// If the node's network cannot be entered.
    pub fn admin(&self, node: &str, path: &str) -> Result<String> {
        let network = File::open(Path::new("/run/netns").join(node)).context("cannot open the node's network")?;
        // The thread ends with this call, and with it its stay in the node's network.
        let (status, body) = thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&network, CloneFlags::CLONE_NEWNET).expect("cannot enter the node's network: needs root");
                http::get(ADMIN.parse()?, path)
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if status != 200 {
            bail!("{node}: {path} answers {status}: {body}");
        }
        Ok(body)
    }

    /// Returns the processes of a program in the pods of a node, by its path there.
    ///
    /// # Errors
    ///
    /// If the node's cgroups cannot be read.
    pub fn processes(&self, node: &str, program: &str) -> Result<Vec<Pid>> {
        let mut found = Vec::new();
        for folder in self.pod_cgroups(node)? {
            for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
                let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                if arguments.split(|byte| *byte == 0).next() == Some(program.as_bytes()) {
                    found.push(Pid::from_raw(pid.parse()?));
                }
            }
        }
        Ok(found)
    }

    /// Returns every cgroup (version 2) of the pods of a node.
    fn pod_cgroups(&self, node: &str) -> Result<Vec<PathBuf>> {
        let mut found = vec![self.cgroups.join(node).join("kubepods")];
        let mut next = 0;
        while let Some(folder) = found.get(next).cloned() {
            next += 1;
            // One that is being removed has nothing in it.
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    found.push(entry.path());
                }
            }
        }
        Ok(found)
    }
}

impl Space<'_> {
    /// The namespace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs kubectl in the namespace.
    ///
    /// # Errors
    ///
    /// If it fails; the message is its own.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut all = vec!["-n", &self.name];
        all.extend(arguments);
        self.cluster.run(&all)
    }

    /// Starts a server that tells its name: TCP on port 8080, TLS on 8443. It carries the label `app: NAME`.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn server(&self, name: &str, node: &str) -> Result<()> {
        self.named_server(name, name, node)
    }

    /// Starts a server that tells another name than its pod's.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn named_server(&self, name: &str, said: &str, node: &str) -> Result<()> {
        self.pod(name, node, &format!("[serve, --name, {said}, --port, \"8080\", --tls-port, \"8443\"]"), "8080")
    }

    /// Starts a client that does nothing by itself.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn client(&self, name: &str, node: &str) -> Result<()> {
        self.pod(name, node, "[pause]", "")
    }

    fn pod(&self, name: &str, node: &str, arguments: &str, ready: &str) -> Result<()> {
        let probe = if ready.is_empty() {
            String::new()
        } else {
            format!("\n    readinessProbe: {{tcpSocket: {{port: {ready}}}, periodSeconds: 1}}")
        };
        self.cluster.apply(format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {}, labels: {{app: {name}}}}}\n\
             spec:\n  nodeName: {node}\n  terminationGracePeriodSeconds: 1\n  containers:\n  - name: main\n    \
             image: {TEST_POD}\n    args: {arguments}{probe}\n",
            self.name
        ))
    }

    /// Makes a Service of both address families, with the ports 80 (to 8080) and 443 (to 8443), for the pods of one app.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn service(&self, name: &str, app: &str) -> Result<()> {
        self.cluster.apply(format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {}}}\nspec:\n  \
             ipFamilyPolicy: RequireDualStack\n  selector: {{app: {app}}}\n  ports:\n  \
             - {{name: tcp, port: 80, targetPort: 8080}}\n  - {{name: tls, port: 443, targetPort: 8443}}\n",
            self.name
        ))
    }

    /// Returns the IPv4 and the IPv6 address of a Service.
    ///
    /// # Errors
    ///
    /// If it has not both.
    pub fn addresses(&self, service: &str) -> Result<[IpAddr; 2]> {
        let ips = self.run(&["get", "service", service, "-o", "jsonpath={.spec.clusterIPs[*]}"])?;
        let ips: Vec<IpAddr> = ips.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        <[IpAddr; 2]>::try_from(ips).map_err(|ips| anyhow!("Service {service} has the addresses {ips:?}"))
    }

    /// Writes a route.
    ///
    /// # Errors
    ///
    /// If the server refuses it.
    pub fn route(&self, route: &manifest::Route<'_>) -> Result<()> {
        self.cluster.apply(manifest::Manifest::new().route(route))
    }

    /// Waits until all pods of the namespace are ready.
    ///
    /// # Errors
    ///
    /// If they are not in time; the error has what they say.
    pub fn ready(&self) -> Result<()> {
        let waited = self.run(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=120s"]);
        waited.map(drop).with_context(|| {
            let pods = self.run(&["get", "pods", "-o", "wide"]).unwrap_or_default();
            let events = self.run(&["events", "--types=Warning"]).unwrap_or_default();
            format!("{pods}\n{events}")
        })
    }

    /// Lets a client pod open connections, and returns what came of them.
    ///
    /// # Errors
    ///
    /// If the client cannot be run.
    pub fn dial(&self, client: &str, address: IpAddr, port: u16, options: &[&str], count: u64) -> Result<Report> {
        let to = SocketAddr::new(address, port).to_string();
        let count = count.to_string();
        let mut arguments = vec!["exec", client, "--", "/weir-probe", "connect", "--to", &to, "--count", &count];
        arguments.extend(options);
        let said = self.run(&arguments)?;
        serde_json::from_str(&said).with_context(|| format!("not a report: {said}"))
    }

    /// Opens connections as a client pod until told to end, with or without an API server.
    ///
    /// # Errors
    ///
    /// If the client cannot be run.
    pub fn load(&self, client: &str, address: IpAddr, port: u16, options: &[&str]) -> Result<Load> {
        let to = SocketAddr::new(address, port).to_string();
        let mut command = self.inside(client)?;
        command.args(["load", "--to", &to]).args(options);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start a client")?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("a client without output")?);
        Ok(Load { child, stdin, stdout })
    }

    /// Returns a command for a probe in the network and the cgroup of a client pod. It needs no API server.
    fn inside(&self, client: &str) -> Result<Command> {
        let where_it_is = "jsonpath={.spec.nodeName} {.metadata.uid}";
        let answer = self.run(&["get", "pod", client, "-o", where_it_is])?;
        let (node, uid) = answer.split_once(' ').context("a pod without a node")?;
        let pod = format!("pod{uid}");
        let groups = self.cluster.pod_cgroups(node)?;
        let mut groups = groups.iter().filter(|group| group.parent().is_some_and(|parent| parent.ends_with(&pod)));
        let (group, pid) = groups
            .find_map(|group| {
                let processes = fs::read_to_string(group.join("cgroup.procs")).ok()?;
                Some((group, processes.lines().next()?.to_owned()))
            })
            .with_context(|| format!("pod {client} has no process"))?;
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--"]).arg(Binaries::beside_this()?.probe()?);
        command.arg("--cgroup").arg(group);
        Ok(command)
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        // Its pods end while the next test goes on.
        if let Err(error) = self.cluster.run(&["delete", "namespace", &self.name, "--wait=false"]) {
            eprintln!("{error:#}");
        }
    }
}

impl Load {
    /// Returns what came of the connections so far.
    ///
    /// # Errors
    ///
    /// If the client did not say it.
    pub fn report(&mut self) -> Result<Report> {
        self.stdin.as_mut().context("it has ended")?.write_all(b"report\n")?;
        self.read()
    }

    fn read(&mut self) -> Result<Report> {
        let mut said = String::new();
        self.stdout.read_line(&mut said)?;
        serde_json::from_str(said.trim()).with_context(|| format!("not a report: {said}"))
    }

    /// Ends the connections and returns what came of them.
    ///
    /// # Errors
    ///
    /// If the client did not say it.
    pub fn end(mut self) -> Result<Report> {
        drop(self.stdin.take());
        self.read()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It ends with its input, also where a test failed.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
