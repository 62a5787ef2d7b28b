//! Programs of a cluster, which go on when the command that started them ends.
//!
//! Each is started by a script in the state folder, so that a test or a person can start it again as it was.

use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Where the processes of one member of a cluster are, and where their scripts, logs and pids are written.
#[derive(Clone, Debug)]
pub(super) struct Home {
    /// Cgroup (version 2) that the processes are put into.
    pub(super) cgroup: PathBuf,
    /// Folder with one subfolder a purpose.
    pub(super) folder: PathBuf,
    /// Words before each program: how it gets to where it belongs.
    pub(super) entrance: Vec<String>,
}

/// A program that was started.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Home {
    /// Starts a program.
    ///
    /// # Errors
    ///
    /// If its script cannot be written or run.
    pub(super) fn start(&self, name: &str, words: &[String]) -> Result<Running> {
        let of = |folder: &str| -> Result<PathBuf> {
            let folder = self.folder.join(folder);
            fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
            Ok(folder.join(name))
        };
        let (script, log, pid) = (of("start")?, of("log")?, of("pid")?);
        let words: Vec<String> = self.entrance.iter().chain(words).map(|word| quoted(word)).collect();
        let text = format!(
            "#!/bin/sh\necho $$ > {} || exit\necho $$ > {}\nexec {} >> {} 2>&1 < /dev/null\n",
            quoted(&self.cgroup.join("cgroup.procs").display().to_string()),
            quoted(&pid.display().to_string()),
            words.join(" "),
            quoted(&log.display().to_string()),
        );
        fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        let mut command = Command::new(&script);
        // Not of the terminal's group: Ctrl-C is for the command that starts it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", script.display()))?;
        Ok(Running { child, name: name.to_owned(), log })
    }

    /// Returns a command that runs to its end where the programs of this home are.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut words = self.entrance.iter();
        match words.next() {
            None => Command::new(program.as_ref()),
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(program.as_ref());
                command
            }
        }
    }
}

impl Running {
    /// Fails if the program has ended.
    ///
    /// # Errors
    ///
    /// As said; the error has its last lines.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(5)..].join("\n  ");
        bail!("{} ended with {status}, its last lines (of {}) are:\n  {last}", self.name, self.log.display());
    }
}

/// Writes a word so that a shell reads it as one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::wait;

    fn home(folder: &Path) -> Home {
        // A plain folder takes the pid as a cgroup would.
        let cgroup = folder.join("cgroup");
        fs::create_dir(&cgroup).unwrap();
        Home { cgroup, folder: folder.to_owned(), entrance: vec!["env".to_owned(), "A=it's".to_owned()] }
    }

    #[test]
    fn a_program_is_entered_noted_and_logged() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let words = ["sh", "-c", "echo \"$A\"; exit 3"].map(str::to_owned);
        let mut running = home.start("it", &words).unwrap();
        let error = wait::until("its end", wait::LONG, || Ok(running.check().err())).unwrap().to_string();
        assert!(error.starts_with("it ended with exit status: 3"), "{error}");
        assert!(error.ends_with("\n  it's"), "{error}");
        let noted = fs::read_to_string(folder.path().join("pid/it")).unwrap();
        assert_eq!(noted.trim(), running.child.id().to_string());
        assert_eq!(fs::read_to_string(folder.path().join("cgroup/cgroup.procs")).unwrap(), noted);
    }

    #[test]
    fn words_are_quoted_where_they_must_be() {
        assert_eq!(quoted("--a=b/c,d"), "--a=b/c,d");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
    }
}
