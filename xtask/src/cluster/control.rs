//! The control plane: etcd, API server, controllers, scheduler.

use super::{
    daemon::{Home, Running},
    kubectl::Kubectl,
    network,
    pki::{self, Pki},
    place::{CONTROL_ADDRESS, Place},
    wait::{self, LONG},
};
use anyhow::{Context as _, Result};
use std::{fs, path::Path};

/// Addresses of Services.
const SERVICES: &str = "10.96.0.0/16,fd96::/112";
/// Addresses of Pods, of which each node gets a part.
pub(super) const PODS: &str = "10.244.0.0/16,fd44::/56";

/// The controllers that clusters for tests need. With all of them the first ServiceAccount comes seconds later.
const CONTROLLERS: [&str; 15] = [
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "deployment-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "taint-eviction-controller",
];

/// Starts the control plane and waits until Pods could be made.
///
/// # Errors
///
/// If a part does not start.
pub(super) fn start(place: &Place, kubebox: &Path, pki: &Pki, kubectl: &Kubectl) -> Result<()> {
    let cgroup = place.cgroup(&place.control());
    fs::create_dir(&cgroup).with_context(|| format!("cannot make the cgroup {}", cgroup.display()))?;
    let home = Home { cgroup, folder: place.state().join("control"), entrance: network::entrance(&place.control()) };
    let start = |name: &str, options: Vec<String>| {
        let mut words = vec![kubebox.display().to_string(), name.to_owned()];
        words.extend(options);
        home.start(name, &words)
    };

    let etcd = start("etcd", etcd(&home.folder.join("etcd")))?;
    let server = start("kube-apiserver", server(pki))?;
    let mut running = vec![etcd, server];
    wait::until("answer of the API server", LONG, || {
        check(&mut running)?;
        Ok(kubectl.run(&["get", "--raw", "/readyz"]).ok())
    })?;
    running.push(start("kube-controller-manager", controllers(place, pki))?);
    running.push(start("kube-scheduler", scheduler(place))?);
    wait::until("default ServiceAccount", LONG, || {
        check(&mut running)?;
        Ok(kubectl.run(&["get", "serviceaccount", "default"]).ok())
    })?;
    Ok(())
}

fn check(running: &mut [Running]) -> Result<()> {
    running.iter_mut().try_for_each(Running::check)
}

fn etcd(data: &Path) -> Vec<String> {
    let (client, peer) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    vec![
        format!("--data-dir={}", data.display()),
        // Its life is that of the cluster: nobody reads it after a power cut.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ]
}

fn server(pki: &Pki) -> Vec<String> {
    let (client, client_key) = (pki.path(&format!("{}.crt", pki::SERVER)), pki.path(&format!("{}.key", pki::SERVER)));
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        "--bind-address=0.0.0.0".to_owned(),
        "--secure-port=6443".to_owned(),
        format!("--advertise-address={CONTROL_ADDRESS}"),
        format!("--tls-cert-file={}", pki.path("server.crt")),
        format!("--tls-private-key-file={}", pki.path("server.key")),
        format!("--client-ca-file={}", pki.path("ca.crt")),
        format!("--kubelet-client-certificate={client}"),
        format!("--kubelet-client-key={client_key}"),
        // Else it would ask DNS for the names of nodes.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki.path("accounts.pub")),
        format!("--service-account-signing-key-file={}", pki.path("accounts.key")),
        format!("--service-cluster-ip-range={SERVICES}"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
        "--max-requests-inflight=1000".to_owned(),
    ]
}

fn controllers(place: &Place, pki: &Pki) -> Vec<String> {
    let kubeconfig = place.kubeconfig(pki::CONTROLLERS);
    let mut options = client(&kubeconfig);
    options.extend([
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--secure-port=10257".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", pki.path("ca.crt")),
        format!("--service-account-private-key-file={}", pki.path("accounts.key")),
        format!("--cluster-signing-cert-file={}", pki.path("ca.crt")),
        format!("--cluster-signing-key-file={}", pki.path("ca.key")),
        "--allocate-node-cidrs=true".to_owned(),
        format!("--cluster-cidr={PODS}"),
        "--node-cidr-mask-size-ipv4=24".to_owned(),
        "--node-cidr-mask-size-ipv6=64".to_owned(),
        format!("--service-cluster-ip-range={SERVICES}"),
        format!("--cert-dir={}", place.state().join("control/certificates").display()),
    ]);
    options
}

fn scheduler(place: &Place) -> Vec<String> {
    client(&place.kubeconfig(pki::SCHEDULER))
}

fn client(kubeconfig: &Path) -> Vec<String> {
    let path = kubeconfig.display();
    vec![
        format!("--kubeconfig={path}"),
        format!("--authentication-kubeconfig={path}"),
        format!("--authorization-kubeconfig={path}"),
        "--authentication-skip-lookup=true".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ]
}
