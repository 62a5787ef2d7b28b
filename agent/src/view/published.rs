//! What the agent's loop publishes after each step: the applied state and how it came about.

use super::AcceptorView;
use crate::{
    compile::tables::{Names, Tables},
    ir::Desired,
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use weir_common::abi::settings::{Ejection, OnAgentLoss};

/// Everything that status, top and metrics know beside the kernel's counters.
#[derive(Clone, Debug)]
pub struct Published {
    /// Weir's version.
    pub version: &'static str,
    /// Name of the node.
    pub node: String,
    /// When the agent started.
    pub started_at: SystemTime,
    /// How many states were applied since then; 0 before the first.
    pub generation: u64,
    /// When the last state was applied.
    pub applied_at: Option<SystemTime>,
    /// How long applying it took.
    pub applied_in: Duration,
    /// How often the configuration was read.
    pub readings: u64,
    /// The applied state, by names.
    pub desired: Arc<Desired>,
    /// The applied tables.
    pub tables: Arc<Tables>,
    /// What the ids in the tables mean.
    pub names: Arc<Names>,
    /// What is wrong with the configuration as it was read.
    pub problems: Vec<Notice>,
    /// Conditions of objects, as translated.
    pub objects: Vec<ObjectView>,
    /// Where Weir is attached and what it does not see.
    pub coverage: Coverage,
    /// Which processes were found for the clients of a namespace.
    pub clients: Vec<ClientView>,
    /// The acceptor of TLS connections.
    pub acceptor: AcceptorView,
    /// What happens when the agent is gone.
    pub on_agent_loss: OnAgentLoss,
    /// When endpoints are ejected.
    pub ejection: Ejection,
}

impl Published {
    /// Returns the state of an agent that has not applied anything yet.
    #[must_use]
    pub fn starting(version: &'static str, node: String, started_at: SystemTime) -> Self {
        Self {
            version,
            node,
            started_at,
            generation: 0,
            applied_at: None,
            applied_in: Duration::ZERO,
            readings: 0,
            desired: Arc::default(),
            tables: Arc::default(),
            names: Arc::default(),
            problems: Vec::new(),
            objects: Vec::new(),
            coverage: Coverage::default(),
            clients: Vec::new(),
            acceptor: AcceptorView::default(),
            on_agent_loss: OnAgentLoss::default(),
            ejection: Ejection::default(),
        }
    }

    /// Returns what keeps the agent from being ready, one sentence each; empty when it is.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.generation == 0 {
            missing.push("no state has been applied yet".to_owned());
        }
        for name in &self.coverage.lost {
            missing.push(format!("the program {name} is no longer attached: restart the agent"));
        }
        missing
    }
}

/// How bad a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something was left out.
    Error,
    /// Something was used, but not as the author may think.
    Warning,
}

impl Severity {
    /// Every severity.
    pub const ALL: [Self; 2] = [Self::Error, Self::Warning];

    /// Returns the metric label and the word on the terminal.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// The object, as `Kind namespace/name`; empty if the text is no object.
    pub object: String,
    /// File, document and path inside it.
    pub place: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// The conditions of one object towards one parent, or what there is to say about the object itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectView {
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// The parent that the conditions are about, if the kind has parents.
    pub parent: Option<String>,
    /// The conditions.
    pub conditions: Vec<ConditionView>,
    /// What an operator may want to know and no condition says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionView {
    /// Type, as `Accepted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: bool,
    /// Reason, as `NoMatchingParent`.
    pub reason: String,
    /// One sentence.
    pub message: String,
}

impl ConditionView {
    /// The type of the condition of a route that another one keeps from its frontend.
    pub const SUPERSEDED: &str = "weir.dev/Superseded";

    /// Whether the condition needs somebody's attention. Weir's own condition is bad news when it
    /// holds, the Gateway API's are when they do not.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        if self.kind == Self::SUPERSEDED { self.status } else { !self.status }
    }
}

/// Where the programs are attached, and what they do not see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The cgroup that they are attached to.
    pub cgroup_root: PathBuf,
    /// What is covered, one phrase each.
    pub covers: Vec<String>,
    /// What is not covered, one phrase each.
    pub not_covered: Vec<String>,
    /// What the self-test connect at the start showed.
    pub self_test: String,
    /// The programs.
    pub programs: Vec<ProgramView>,
    /// Names of programs that were attached and no longer are.
    pub lost: Vec<String>,
}

/// One attached program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramView {
    /// Name.
    pub name: String,
    /// The kernel's program id.
    pub id: u32,
    /// Attach type, as `cgroup/connect4`.
    pub attach: String,
}

/// Processes that are clients of a namespace, and whether any were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientView {
    /// The namespace.
    pub namespace: String,
    /// How the processes are named, as `systemd unit batch.service`.
    pub selector: String,
    /// How many cgroups or network namespaces it found.
    pub found: usize,
}
