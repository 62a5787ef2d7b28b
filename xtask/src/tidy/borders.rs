//! Which module may use which.

use super::{Finding, source::Source};

/// What a part of the tree must not name.
struct Border {
    /// Files and folders.
    places: &'static [&'static str],
    /// Parts of the places to which it does not apply.
    except: &'static [&'static str],
    /// Paths, each with everything below it.
    forbidden: &'static [&'static str],
    why: &'static str,
}

const PURE: &[&str] = &["agent/src/ir", "agent/src/translate", "agent/src/compile", "agent/src/plan"];

const KUBE_CLIENT: &[&str] = &["kube::Client", "kube::Api", "kube::Config", "kube::client", "kube::runtime"];

const BORDERS: &[Border] = &[
    Border {
        places: &["common/src"],
        except: &[],
        forbidden: &["std", "alloc", "aya", "aya_ebpf", "f32", "f64"],
        why: "common runs in the kernel: only core and zerocopy, no floating point",
    },
    Border {
        places: &["ebpf/src"],
        except: &[],
        forbidden: &["std", "alloc", "weir", "f32", "f64"],
        why: "kernel programs are made of core, aya-ebpf and common",
    },
    Border {
        places: PURE,
        except: &[],
        forbidden: &[
            "aya",
            "tokio",
            "notify",
            "nix",
            "libc",
            "std::fs",
            "std::env",
            "std::io",
            "std::process",
            "std::thread",
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::time::Instant",
            "std::time::SystemTime",
            "crate::bpf",
            "crate::provider",
        ],
        why: "from the intermediate form to the plan everything is pure: no files, no clocks, no kernel, no waiting",
    },
    Border {
        places: &["agent/src/ir"],
        except: &[],
        forbidden: &["crate::translate", "crate::compile", "crate::plan"],
        why: "the intermediate form knows nobody that makes or uses it",
    },
    Border {
        places: &["agent/src/translate"],
        except: &[],
        forbidden: &["crate::compile", "crate::plan"],
        why: "translate ends with the intermediate form",
    },
    Border {
        places: &["agent/src/compile"],
        except: &[],
        forbidden: &["crate::translate", "crate::plan"],
        why: "compile goes from the intermediate form to tables",
    },
    Border { places: &["agent/src/plan"], except: &[], forbidden: &["crate::translate"], why: "plan compares tables" },
    Border {
        places: &["agent/src"],
        except: &["agent/src/bpf"],
        forbidden: &["aya", "aya_log", "aya_obj"],
        why: "only agent::bpf touches the kernel's BPF side",
    },
    Border {
        places: &["agent/src/bpf"],
        except: &[],
        forbidden: &["kube", "k8s_openapi", "crate::ir"],
        why: "agent::bpf knows tables and operations, not what they were made of",
    },
    Border {
        places: &["agent/src"],
        except: &["agent/src/provider/kube", "agent/src/status"],
        forbidden: KUBE_CLIENT,
        why: "only agent::provider::kube and agent::status talk to an API server",
    },
    Border {
        places: &["agent/src/provider/kube", "agent/src/status"],
        except: &[],
        forbidden: &["crate::ir", "crate::bpf"],
        why: "what talks to an API server knows resources and conditions only",
    },
];

/// Finds what a file must not name.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for border in BORDERS.iter().filter(|border| border.holds(source.path())) {
        let crossing =
            source.named().iter().filter(|named| border.forbidden.iter().any(|root| is_in(&named.path, root)));
        findings.extend(crossing.map(|named| {
            Finding::new(source.path(), named.line, format!("`{}` is out of bounds: {}", named.path, border.why))
        }));
    }
    if is_below(source.path(), "common/src") {
        let message = "a trait object is out of bounds: the verifier refuses calls through a pointer";
        findings.extend(source.dyn_lines().iter().map(|line| Finding::new(source.path(), *line, message)));
    }
    findings
}

impl Border {
    fn holds(&self, path: &str) -> bool {
        self.places.iter().any(|place| is_below(path, place)) && !self.except.iter().any(|place| is_below(path, place))
    }
}

/// Whether a file is the place (`agent/src/ir.rs`) or in it (`agent/src/ir/mod.rs`).
fn is_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

fn is_in(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossings(path: &str, content: &str) -> usize {
        check(&Source::read(path, content).unwrap()).len()
    }

    #[test]
    fn common_is_core_only() {
        for source in ["use std::fmt;", "fn f(_: f64) {}", "type T = alloc::vec::Vec<u8>;", "fn f(_: &dyn Send) {}"] {
            assert_eq!(crossings("common/src/split/pick.rs", source), 1, "{source}");
        }
        assert_eq!(crossings("common/src/split/pick.rs", "use core::fmt; use zerocopy::FromBytes;"), 0);
    }

    #[test]
    fn pure_modules_have_no_files_clocks_or_runtime() {
        for source in ["use std::time::Instant;", "use tokio::sync::watch;", "fn f() { std::fs::read(\"x\"); }"] {
            for place in PURE {
                assert_eq!(crossings(&format!("{place}/x.rs"), source), 1, "{place}: {source}");
                assert_eq!(crossings(&format!("{place}.rs"), source), 1, "{place}: {source}");
            }
            assert_eq!(crossings("agent/src/provider/file.rs", source), 0, "{source}");
        }
        assert_eq!(crossings("agent/src/plan/mod.rs", "use std::time::Duration;"), 0);
    }

    #[test]
    fn data_flows_one_way() {
        assert_eq!(crossings("agent/src/ir/mod.rs", "use crate::compile::Tables;"), 1);
        assert_eq!(crossings("agent/src/translate/attach.rs", "use super::super::plan;"), 1);
        assert_eq!(crossings("agent/src/plan/mod.rs", "use crate::{compile::Tables, ir::Split};"), 0);
    }

    #[test]
    fn only_bpf_uses_aya() {
        assert_eq!(crossings("agent/src/admin/server.rs", "use aya::Ebpf;"), 1);
        assert_eq!(crossings("agent/src/bpf/load.rs", "use aya::Ebpf;"), 0);
        // A name that begins alike is another crate.
        assert_eq!(crossings("agent/src/admin/server.rs", "use ayatollah::X;"), 0);
    }

    #[test]
    fn derives_of_kube_are_free_and_its_client_is_not() {
        assert_eq!(crossings("agent/src/api/backend.rs", "use kube::CustomResource;"), 0);
        assert_eq!(crossings("agent/src/api/backend.rs", "use kube::{Api, Client};"), 2);
        assert_eq!(crossings("agent/src/provider/kube/watch.rs", "use kube::{Api, Client};"), 0);
        assert_eq!(crossings("agent/src/bpf/load.rs", "use kube::CustomResource;"), 1);
    }
}
