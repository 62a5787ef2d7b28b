//! `weir crds`: writes the CustomResourceDefinitions of Weir's own kinds.
//!
//! `deploy/kubernetes/crds` and the Helm chart hold what it writes; `cargo xtask crds` puts it there.

use crate::api::{Backend, ClientGroup};
use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use std::{io::Write, process::ExitCode};

/// Writes all of them as one YAML file.
///
/// # Errors
///
/// If they cannot be written.
pub fn run(out: &mut impl Write) -> Result<ExitCode> {
    for definition in all() {
        writeln!(out, "---\n{}", serde_saphyr::to_string(&definition)?.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn all() -> [CustomResourceDefinition; 2] {
    [Backend::crd(), ClientGroup::crd()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shipped says what the types say.
    #[test]
    fn the_shipped_definitions_are_those_of_the_types() {
        let mut made = Vec::new();
        run(&mut made).unwrap();
        let made = String::from_utf8(made).unwrap();
        let shipped = [
            include_str!("../../../deploy/kubernetes/crds/weir.yaml"),
            include_str!("../../../deploy/helm/weir/crds/weir.yaml"),
        ];
        for shipped in shipped {
            assert!(shipped == made, "deploy has other definitions than the types: run `cargo xtask crds`");
        }
    }
}
