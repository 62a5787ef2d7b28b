//! Values of a ClientGroup.

use super::{Check, Mistake, Mistakes};
use crate::api::{ClientGroup, ClientSelector};

impl Check for ClientGroup {
    fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Mistakes::default();
        mistakes.count("spec.clients", self.spec.clients.len(), 1..=64, "selectors");
        for (i, selector) in self.spec.clients.iter().enumerate() {
            check_selector(&mut mistakes, &format!("spec.clients[{i}]"), selector);
        }
        mistakes.0
    }
}

fn check_selector(mistakes: &mut Mistakes, path: &str, selector: &ClientSelector) {
    let ClientSelector { systemd_unit, cgroup_path, network_namespace } = selector;
    let given = [systemd_unit, cgroup_path, network_namespace].into_iter().flatten().count();
    if given != 1 {
        mistakes.add(
            path,
            format!("names processes in {given} ways: write exactly one of systemdUnit, cgroupPath, networkNamespace"),
        );
    }
    if let Some(unit) = systemd_unit
        && (unit.contains('/') || !unit.contains('.'))
    {
        mistakes.add(
            format!("{path}.systemdUnit"),
            format!("\"{unit}\" is not the name of a unit: write it with its type, like \"billing.service\""),
        );
    }
    if let Some(cgroup) = cgroup_path
        && (!cgroup.starts_with('/') || cgroup.len() == 1 || cgroup.split('/').any(|part| part == ".."))
    {
        mistakes.add(
            format!("{path}.cgroupPath"),
            format!("\"{cgroup}\" is not a path below the cgroup2 root: write it like \"/batch.slice\""),
        );
    }
    if let Some(namespace) = network_namespace
        && (namespace.is_empty() || namespace.contains('/') || namespace == "." || namespace == "..")
    {
        mistakes.add(
            format!("{path}.networkNamespace"),
            format!("\"{namespace}\" is not the name of a network namespace: write one that `ip netns` lists"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ClientGroupSpec;

    fn paths(unit: Option<&str>, cgroup: Option<&str>, netns: Option<&str>) -> Vec<String> {
        let own = |value: Option<&str>| value.map(str::to_owned);
        let selector =
            ClientSelector { systemd_unit: own(unit), cgroup_path: own(cgroup), network_namespace: own(netns) };
        let group = ClientGroup::new("g", ClientGroupSpec { clients: vec![selector] });
        group.mistakes().into_iter().map(|mistake| mistake.path).collect()
    }

    #[test]
    fn a_selector_names_processes_in_exactly_one_way() {
        assert_eq!(paths(Some("a.service"), None, None), [""; 0]);
        assert_eq!(paths(None, Some("/a.slice/b"), None), [""; 0]);
        assert_eq!(paths(None, None, Some("blue")), [""; 0]);
        assert_eq!(paths(None, None, None), ["spec.clients[0]"]);
        assert_eq!(paths(Some("a.service"), Some("/a"), None), ["spec.clients[0]"]);
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(paths(Some("billing"), None, None), ["spec.clients[0].systemdUnit"]);
        for bad in ["a.slice", "/", "/a/../b"] {
            assert_eq!(paths(None, Some(bad), None), ["spec.clients[0].cgroupPath"], "{bad}");
        }
        assert_eq!(paths(None, None, Some("/run/netns/x")), ["spec.clients[0].networkNamespace"]);
    }
}
