//! `weir check`: reads a folder, translates it and says what came of each object. Touches no kernel.

use crate::{
    provider::file::{ObjectName, Problem, Reading, Severity, read_dir},
    resources::{ObjectKey, Resources},
    translate::{Condition, ConditionStatus, ConditionType, ObjectStatus, ParentStatus, translate},
};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Check a folder of configuration without touching the kernel.
///
/// Exits with 0 if all is well, with 1 if anything that was written has no effect.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// Folder of YAML and JSON files, with sub-folders.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// How to print.
    #[arg(long, short, value_enum, default_value_t)]
    pub output: Output,
    /// Whether to use colours; by default only on a terminal and without NO_COLOR.
    #[arg(skip = default_colour())]
    pub colour: bool,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For scripts.
    Json,
}

fn default_colour() -> bool {
    // https://no-color.org: any value but the empty one switches colours off.
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Checks a folder and prints what was found. The exit code is 1 if anything has no effect.
///
/// # Errors
///
/// If nothing can be written to `out`.
pub fn check(args: &CheckArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let report = Report::new(read_dir(&args.dir));
    match args.output {
        Output::Text => report.write_text(Style { colour: args.colour }, out)?,
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What there is to say about a folder.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether everything that was written has an effect.
    ok: bool,
    objects: Vec<ObjectStatus>,
    problems: Vec<Problem>,
}

impl Report {
    fn new(reading: Reading) -> Self {
        let translation = translate(&reading.resources);
        let mut objects = translation.objects;
        add_silent(&reading.resources, &mut objects);
        let ok =
            reading.problems.iter().all(|problem| problem.severity != Severity::Error) && objects.iter().all(is_good);
        Self { ok, objects, problems: reading.problems }
    }

    fn write_text(&self, style: Style, out: &mut impl Write) -> std::io::Result<()> {
        for object in &self.objects {
            write_object(object, style, out)?;
        }
        if !self.problems.is_empty() && !self.objects.is_empty() {
            writeln!(out)?;
        }
        for problem in &self.problems {
            write_problem(problem, style, out)?;
        }
        let count = |severity| self.problems.iter().filter(|problem| problem.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let bad = self.objects.iter().filter(|object| !is_good(object)).count();
        if !self.objects.is_empty() || !self.problems.is_empty() {
            writeln!(out)?;
        }
        writeln!(
            out,
            "{} objects, {bad} of them not in full effect; {errors} errors and {warnings} warnings in files",
            self.objects.len()
        )
    }
}

/// Adds the objects that translation has nothing to say of: they are good.
fn add_silent(resources: &Resources, objects: &mut Vec<ObjectStatus>) {
    let keys = |kind: &'static str, keys: Vec<&ObjectKey>| {
        keys.into_iter().map(move |key| (kind, key.clone())).collect::<Vec<_>>()
    };
    let mut all = keys("Service", resources.services.keys().collect());
    all.extend(keys("EndpointSlice", resources.endpoint_slices.keys().collect()));
    all.extend(resources.namespaces.keys().map(|name| ("Namespace", ObjectKey::new("", name))));
    let mut statuses: BTreeMap<(usize, ObjectKey), ObjectStatus> = BTreeMap::new();
    for status in std::mem::take(objects) {
        statuses.insert((rank(status.kind), status.key.clone()), status);
    }
    for (kind, key) in all {
        let silent = ObjectStatus { kind, key: key.clone(), parents: Vec::new(), notes: Vec::new() };
        statuses.entry((rank(kind), key)).or_insert(silent);
    }
    objects.extend(statuses.into_values());
}

/// The order in which kinds are printed: what people look for comes first.
fn rank(kind: &str) -> usize {
    const ORDER: [&str; 8] =
        ["TCPRoute", "TLSRoute", "Service", "Backend", "ClientGroup", "ReferenceGrant", "EndpointSlice", "Namespace"];
    ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len())
}

fn is_good(object: &ObjectStatus) -> bool {
    !object.parents.iter().flat_map(|parent| &parent.conditions).any(Condition::is_fault)
}

#[derive(Clone, Copy)]
struct Style {
    colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn mark(self, good: bool) -> String {
        if good { self.paint("32", "✓") } else { self.paint("31", "✗") }
    }
}

impl Style {
    fn condition_mark(self, condition: &Condition) -> String {
        match condition.kind {
            ConditionType::Accepted | ConditionType::ResolvedRefs => self.mark(!condition.is_fault()),
            ConditionType::Superseded => self.paint("33", "!"),
        }
    }
}

fn write_object(object: &ObjectStatus, style: Style, out: &mut impl Write) -> std::io::Result<()> {
    let name = ObjectName {
        kind: object.kind.to_owned(),
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
    };
    writeln!(out, "{} {}", style.mark(is_good(object)), style.paint("1", &name.to_string()))?;
    for parent in &object.parents {
        write_parent(parent, style, out)?;
    }
    for note in &object.notes {
        writeln!(out, "    {} {note}", style.paint("33", "note"))?;
    }
    Ok(())
}

fn write_parent(parent: &ParentStatus, style: Style, out: &mut impl Write) -> std::io::Result<()> {
    let reference = &parent.parent_ref;
    let mut name = reference.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
    name.push_str(&reference.name);
    if let Some(port) = reference.port {
        name.push_str(&format!(":{port}"));
    }
    if let Some(section) = &reference.section_name {
        name.push_str(&format!(" {section}"));
    }
    writeln!(out, "    at Service {name}")?;
    for condition in &parent.conditions {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
        };
        writeln!(
            out,
            "      {} {}={status} {}: {}",
            style.condition_mark(condition),
            condition.kind.name(),
            condition.reason,
            condition.message
        )?;
    }
    Ok(())
}

fn write_problem(problem: &Problem, style: Style, out: &mut impl Write) -> std::io::Result<()> {
    let code = match problem.severity {
        Severity::Error => "31",
        Severity::Warning => "33",
        Severity::Note => "36",
    };
    writeln!(out, "{} {}", style.paint(code, problem.severity.name()), style.paint("1", &problem.place()))?;
    let object = problem.object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", problem.path) };
    writeln!(out, "    {object}{path}{}", problem.message)
}
