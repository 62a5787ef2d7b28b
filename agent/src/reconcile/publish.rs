//! The loop's state in the words of the view.

use crate::{
    bpf::{Attachment, Kernel},
    clients::Found,
    ir::Processes,
    provider::file::{self, Reading},
    translate::{ConditionStatus, ObjectStatus, Translation},
    view::{ClientView, ConditionView, Coverage, Notice, ObjectView, ProgramView, Severity},
};

pub(super) fn notices(reading: &Reading) -> Vec<Notice> {
    let severity = |severity| match severity {
        file::Severity::Error => Severity::Error,
        file::Severity::Warning | file::Severity::Note => Severity::Warning,
    };
    reading
        .problems
        .iter()
        // What Weir does not handle on purpose is for `weir check`, not for the status of every day.
        .filter(|problem| problem.severity != file::Severity::Note)
        .map(|problem| Notice {
            severity: severity(problem.severity),
            object: problem.object.as_ref().map(ToString::to_string).unwrap_or_default(),
            place: match problem.path.as_str() {
                "" => problem.place(),
                path => format!("{}, {path}", problem.place()),
            },
            message: problem.message.clone(),
        })
        .collect()
}

/// Logs a problem that was not there before.
pub(super) fn log(problem: &file::Problem) {
    match problem.severity {
        file::Severity::Error => tracing::error!("{problem}; what was good before stays in force"),
        file::Severity::Warning => tracing::warn!("{problem}"),
        file::Severity::Note => tracing::debug!("{problem}"),
    }
}

pub(super) fn objects(translation: &Translation) -> Vec<ObjectView> {
    translation.objects.iter().flat_map(object).collect()
}

fn object(status: &ObjectStatus) -> Vec<ObjectView> {
    let object = format!("{} {}", status.kind, status.key);
    let mut views: Vec<ObjectView> = status
        .parents
        .iter()
        .map(|parent| {
            let reference = &parent.parent_ref;
            let namespace = reference.namespace.as_deref().unwrap_or(&status.key.namespace);
            ObjectView {
                object: object.clone(),
                parent: Some(format!("Service {namespace}/{}", reference.name)),
                conditions: parent
                    .conditions
                    .iter()
                    .map(|condition| ConditionView {
                        kind: condition.kind.name().to_owned(),
                        status: condition.status == ConditionStatus::True,
                        reason: condition.reason.to_owned(),
                        message: condition.message.clone(),
                    })
                    .collect(),
                notes: Vec::new(),
            }
        })
        .collect();
    if !status.notes.is_empty() {
        views.push(ObjectView { object, parent: None, conditions: Vec::new(), notes: status.notes.clone() });
    }
    views
}

pub(super) fn clients(found: &[Found]) -> Vec<ClientView> {
    found
        .iter()
        .map(|found| ClientView {
            namespace: found.client.namespace.clone(),
            selector: match &found.client.processes {
                Processes::SystemdUnit(unit) => format!("systemd unit {unit}"),
                Processes::CgroupPath(path) => format!("cgroup {path}"),
                Processes::NetworkNamespace(name) => format!("network namespace {name}"),
            },
            found: found.keys.len(),
        })
        .collect()
}

/// Describes where the programs hang.
#[must_use]
pub fn coverage(kernel: &Kernel, self_test: String) -> Coverage {
    let cgroup = kernel.cgroup();
    let mut not_covered = Vec::new();
    let covers = if cgroup.is_root() {
        "every process whose cgroup is below this machine's cgroup2 root, in any network namespace".to_owned()
    } else {
        not_covered.push(format!("processes outside of the cgroup {}", cgroup.path.display()));
        format!("processes in the cgroup {} and below", cgroup.path.display())
    };
    not_covered
        .push("connections that no socket of this machine opens (forwarded traffic, virtual machines)".to_owned());
    Coverage {
        cgroup_root: cgroup.path.clone(),
        covers: vec![covers],
        not_covered,
        self_test,
        programs: programs(kernel),
        lost: Vec::new(),
    }
}

/// Lists the attached programs.
pub(super) fn programs(kernel: &Kernel) -> Vec<ProgramView> {
    let view = |attachment: &Attachment| ProgramView {
        name: attachment.name.to_owned(),
        id: attachment.program,
        attach: attachment.kind().to_owned(),
    };
    kernel.attachments().iter().map(view).collect()
}
