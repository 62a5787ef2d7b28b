//! A node: containerd, kubelet and kube-proxy with a network, mounts, process numbers and a cgroup of their own.
//!
//! All its processes are below its version 2 cgroup, and all its mounts in its mount namespace, so the end of the
//! processes is the end of the node.

use super::{
    Parts,
    control::PODS,
    daemon::{Home, Running},
    kubectl::Kubectl,
    machine::NODE_FOLDERS,
    network,
    place::{self, Place},
    wait::{self, LONG},
};
use crate::interrupt;
use anyhow::{Context as _, Result};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where Debian's containernetworking-plugins has its programs.
const CNI: &str = "/usr/lib/cni";

/// Image of a pod's first process.
pub(super) const PAUSE: &str = "weir.dev/pause:dev";

/// Address of cluster DNS.
pub(super) const DNS_ADDRESS: &str = "10.96.0.10";

/// Mounts what is the node's own, says which process it is, and becomes the node's first process.
///
/// `$1` is the folder with the node's own folders, each at the path that it is mounted at; `$2` the program to become. The
/// bpffs is the node's own, too: what is pinned there ends with the node.
const HOLD: &str = r#"
set -e
mount --make-rprivate /
own=$1 first=$2; shift 2
for folder; do mount --bind "$own$folder" "$folder"; done
mkdir -p /run/netns
mount -t tmpfs -o size=1m netns /run/netns
if [ -d /sys/fs/bpf ]; then mount -t bpf bpf /sys/fs/bpf; fi
# What /proc still shows is the number outside.
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
mount --make-rshared /
echo "$pid" > "$own/unfinished"
mv "$own/unfinished" "$own/holder"
exec "$first" pause
"#;

/// A node that is being started.
pub(super) struct Node<'a> {
    place: &'a Place,
    number: usize,
    name: String,
    kubebox: &'a Path,
    kubectl: &'a Kubectl,
    /// What its first process is: it buries the processes whose parent is gone.
    first: &'a Path,
    /// Its disk.
    folder: PathBuf,
    running: Vec<Running>,
}

impl<'a> Node<'a> {
    /// Describes a node, 1 being the first.
    pub(super) fn new(place: &'a Place, number: usize, parts: &'a Parts, kubectl: &'a Kubectl) -> Self {
        let Parts { kubebox, first, .. } = parts;
        let name = place.node(number);
        let folder = place.state().join(&name);
        Self { place, number, name, kubebox, kubectl, first, folder, running: Vec::new() }
    }

    /// Starts it and waits until it runs Pods and leads Services.
    ///
    /// # Errors
    ///
    /// If a part does not start.
    pub(super) fn start(&mut self, images: &[PathBuf]) -> Result<()> {
        let cgroup = self.make_cgroups()?;
        let home = Home { cgroup, folder: self.folder.clone(), entrance: network::entrance(&self.name) };
        let home = self.enter_mounts(home)?;
        self.start_containerd(&home)?;
        for image in images {
            interrupt::check()?;
            let mut import = home.command("ctr");
            import.args(["--namespace", "k8s.io", "image", "import"]).arg(image);
            crate::process::run(import.stdout(std::process::Stdio::null()))?;
        }
        self.start_kubelet(&home)?;
        let ranges = self.pod_ranges()?;
        let [v4, v6] = [&ranges.0, &ranges.1];
        network::route_pods(self.place, self.number, [v4, v6])?;
        self.write_cni([v4, v6])?;
        self.start_proxy(&home)?;
        let node = self.name.clone();
        self.until("its readiness", |node_| {
            let condition = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            Ok((node_.kubectl.run(&["get", "node", &node, "-o", condition])? == "True").then_some(()))
        })?;
        self.until("tables of kube-proxy", |_| {
            let mut list = home.command("nft");
            Ok(crate::process::answer(list.args(["list", "table", "ip", "kube-proxy"])).map(drop))
        })
    }

    /// Makes a group in every hierarchy and returns the version 2 one for the node's own programs.
    fn make_cgroups(&self) -> Result<PathBuf> {
        for hierarchy in place::hierarchies() {
            let group = hierarchy.join(&self.name);
            fs::create_dir(&group).with_context(|| format!("cannot make the cgroup {}", group.display()))?;
            // A group of the version 1 cpuset takes no process before it has these.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if hierarchy != self.place.cgroup_mount()
                    && let Ok(value) = fs::read_to_string(hierarchy.join(file))
                {
                    fs::write(group.join(file), value)?;
                }
            }
        }
        let group = self.place.cgroup(&self.name);
        // Without version 1 the kubelet's controllers are here, and must be let through. Those that are not there it
        // can do without, or it names them.
        for controller in ["cpu", "cpuset", "hugetlb", "io", "memory", "pids"] {
            for folder in [self.place.cgroup_mount(), &group] {
                let _ = fs::write(folder.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
        let own = group.join("system");
        fs::create_dir(&own).with_context(|| format!("cannot make the cgroup {}", own.display()))?;
        Ok(own)
    }

    /// Starts the process that holds the node's mounts and process numbers; returns the way into them.
    fn enter_mounts(&mut self, home: Home) -> Result<Home> {
        let own = self.folder.join("own");
        for folder in NODE_FOLDERS {
            let folder = own.join(&folder[1..]);
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let (folder, first) = (own.display().to_string(), self.first.display().to_string());
        let words = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-c", HOLD, "hold"];
        let words = words.into_iter().chain([folder.as_str(), &first]).chain(NODE_FOLDERS);
        self.running.push(home.start("mounts", &words.map(str::to_owned).collect::<Vec<_>>())?);
        let holder = self.until("its mounts", |_| Ok(fs::read_to_string(own.join("holder")).ok()))?;
        let target = format!("--target={}", holder.trim());
        let entrance = ["nsenter", &target, "--mount", "--net", "--pid", "--"].map(str::to_owned).to_vec();
        Ok(Home { entrance, ..home })
    }

    fn start_containerd(&mut self, home: &Home) -> Result<()> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        fs::create_dir_all(self.folder.join("cni"))?;
        let settings = format!(
            "version = 2\nroot = \"{root}\"\nstate = \"/run/containerd\"\n\
             [grpc]\n  address = \"/run/containerd/containerd.sock\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"{PAUSE}\"\n  disable_apparmor = true\n  \
             restrict_oom_score_adj = true\n\
             [plugins.\"io.containerd.grpc.v1.cri\".cni]\n  bin_dir = \"{CNI}\"\n  conf_dir = \"{cni}\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n  \
             runtime_type = \"io.containerd.runc.v2\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = false\n",
            root = path("containerd"),
            cni = path("cni"),
        );
        fs::write(self.folder.join("containerd.toml"), settings)?;
        let words = ["containerd".to_owned(), format!("--config={}", path("containerd.toml"))];
        self.running.push(home.start("containerd", &words)?);
        self.until("answer of containerd", |_| Ok(crate::process::answer(home.command("ctr").arg("version")).map(drop)))
    }

    fn start_kubelet(&mut self, home: &Home) -> Result<()> {
        let address = network::node_address(self.number);
        let settings = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": self.place.state().join("pki/ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.name),
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "100Mi"},
            "failCgroupV1": false,
            "failSwapOn": false,
            // Images are imported, and could not be had again.
            "imageGCHighThresholdPercent": 100,
            "imageMinimumGCAge": "24h",
            "localStorageCapacityIsolation": false,
            "makeIPTablesUtilChains": false,
            "maxPods": 250,
            "nodeStatusUpdateFrequency": "5s",
            "resolvConf": "",
            "serializeImagePulls": false,
            "syncFrequency": "10s",
        });
        let path = self.folder.join("kubelet.json");
        fs::write(&path, format!("{settings:#}\n"))?;
        let words = [
            self.kubebox.display().to_string(),
            "kubelet".to_owned(),
            format!("--config={}", path.display()),
            format!("--kubeconfig={}", self.place.kubeconfig(&self.name).display()),
            format!("--hostname-override={}", self.name),
            format!("--node-ip={address},{}", network::node_address6(self.number)),
        ];
        self.running.push(home.start("kubelet", &words)?);
        Ok(())
    }

    /// Waits for the addresses that the controllers give the node for its Pods.
    fn pod_ranges(&mut self) -> Result<(String, String)> {
        let name = self.name.clone();
        self.until("addresses for its Pods", |node| {
            let ranges = node.kubectl.run(&["get", "node", &name, "-o", "jsonpath={.spec.podCIDRs[*]}"]);
            Ok(ranges.ok().and_then(|ranges| ranges.split_once(' ').map(|(v4, v6)| (v4.to_owned(), v6.to_owned()))))
        })
    }

    fn write_cni(&self, ranges: [&str; 2]) -> Result<()> {
        let ranges: Vec<_> = ranges.iter().map(|range| json!([{"subnet": range}])).collect();
        let settings = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": self.folder.join("addresses"),
                "ranges": ranges,
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            },
        }]});
        // containerd looks when a file of the folder is renamed, not when one comes in from elsewhere.
        let folder = self.folder.join("cni");
        let unfinished = folder.join("unfinished");
        fs::write(&unfinished, settings.to_string())?;
        fs::rename(unfinished, folder.join("pods.conflist"))?;
        Ok(())
    }

    fn start_proxy(&mut self, home: &Home) -> Result<()> {
        let settings = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": self.place.kubeconfig(super::pki::ADMIN)},
            "clusterCIDR": PODS,
            // Settings of the machine stay as they are.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
            "healthzBindAddress": "127.0.0.1:10256",
            "hostnameOverride": self.name,
            "metricsBindAddress": "127.0.0.1:10249",
        });
        let path = self.folder.join("kube-proxy.json");
        fs::write(&path, format!("{settings:#}\n"))?;
        let words =
            [self.kubebox.display().to_string(), "kube-proxy".to_owned(), format!("--config={}", path.display())];
        self.running.push(home.start("kube-proxy", &words)?);
        Ok(())
    }

    /// Waits for something while every part of the node runs.
    fn until<T>(&mut self, what: &str, mut ask: impl FnMut(&Self) -> Result<Option<T>>) -> Result<T> {
        wait::until(&format!("{}: {what}", self.name), LONG, || {
            self.running.iter_mut().try_for_each(Running::check)?;
            ask(self)
        })
    }
}
