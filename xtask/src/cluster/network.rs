//! The networks of a cluster: one namespace a node and one for the control plane, with a bridge between them.
//!
//! The namespaces have no way out, and nothing is added to the machine's own.

use super::place::{CONTROL_ADDRESS, NODES, Place};
use crate::process;
use anyhow::{Context as _, Result, bail};
use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Address of a node, 1 being the first.
pub(super) fn node_address(number: usize) -> String {
    format!("10.99.0.{}", 10 + number)
}

/// IPv6 address of a node.
pub(super) fn node_address6(number: usize) -> String {
    format!("fd99::{}", 10 + number)
}

/// File of a member's network namespace.
pub(super) fn file(member: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(member)
}

/// Words before a command that bring it into a member's network. Unlike `ip netns exec` they leave `/sys`
/// alone, where the cgroups are.
pub(super) fn entrance(member: &str) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net={}", file(member).display()), "--".to_owned()]
}

/// Makes the networks.
///
/// # Errors
///
/// If `ip` fails; the message is its own.
pub(super) fn make(place: &Place) -> Result<()> {
    let control = place.control();
    ip(&["netns", "add", &control], "")?;
    ip(
        &["-n", &control, "-batch", "-"],
        &format!(
            "link set lo up\nlink add nodes type bridge\naddr add {CONTROL_ADDRESS}/24 dev nodes\n\
             addr add fd99::1/64 dev nodes nodad\nlink set nodes up\n"
        ),
    )?;
    forward(&control)?;
    for number in 1..=NODES {
        let node = place.node(number);
        ip(&["netns", "add", &node], "")?;
        ip(
            &["-n", &control, "-batch", "-"],
            &format!(
                "link add node{number} type veth peer name eth0 netns {node}\nlink set node{number} master nodes\n\
                 link set node{number} up\n"
            ),
        )?;
        ip(
            &["-n", &node, "-batch", "-"],
            &format!(
                "link set lo up\naddr add {}/24 dev eth0\naddr add {}/64 dev eth0 nodad\nlink set eth0 up\n\
                 route add default via {CONTROL_ADDRESS}\nroute add default via fd99::1\n",
                node_address(number),
                node_address6(number),
            ),
        )?;
        forward(&node)?;
    }
    Ok(())
}

/// Leads the addresses of a node's pods to the node.
///
/// # Errors
///
/// If `ip` fails.
pub(super) fn route_pods(place: &Place, number: usize, ranges: [&str; 2]) -> Result<()> {
    let [v4, v6] = ranges;
    let routes =
        format!("route replace {v4} via {}\nroute replace {v6} via {}\n", node_address(number), node_address6(number));
    ip(&["-n", &place.control(), "-batch", "-"], &routes)
}

/// Removes what is there of the networks.
///
/// # Errors
///
/// If `ip` fails.
pub(super) fn remove(place: &Place) -> Result<()> {
    for member in place.members() {
        if file(&member).exists() {
            ip(&["netns", "del", &member], "")?;
        }
    }
    Ok(())
}

fn forward(member: &str) -> Result<()> {
    let script = "echo 1 > /proc/sys/net/ipv4/ip_forward && echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
    let words = entrance(member);
    process::run(Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", script]))
}

fn ip(arguments: &[&str], input: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ip")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip {}: {}\n{input}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
