//! Running other programs: as the user, and as root only where that is needed.

use anyhow::{Context, Result, bail};
use std::{
    env,
    ffi::OsStr,
    io::IsTerminal,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns a command for the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells of this package. The build script of ring looks at such variables, and would be run
    // anew by every command, and by every cargo without them after it.
    for (name, _) in env::vars_os() {
        let about_this = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name.to_str().is_some_and(|name| about_this.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end.
///
/// # Errors
///
/// If it cannot be started or does not exit with 0; the error has the command in it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it wrote to stdout; `None` if it is not there or failed.
pub(crate) fn answer(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns a command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Finds a program on the search path, and where administrators' programs are.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(others).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Where Go is when its own installer put it there, and not on the search path.
pub(crate) const USUAL_GO: &str = "/usr/local/go/bin/go";

/// How this process may do what needs root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// It is root.
    Root,
    /// It asks sudo.
    Sudo,
    /// Not at all.
    None,
}

impl Privilege {
    /// Looks which way is open here.
    pub(crate) fn here() -> Self {
        if nix::unistd::geteuid().is_root() {
            Self::Root
        } else if find("sudo").is_some() {
            Self::Sudo
        } else {
            Self::None
        }
    }

    /// Returns a command that runs as root with the variables that are named and set.
    ///
    /// # Errors
    ///
    /// If there is no way to become root.
    pub(crate) fn command(self, program: impl AsRef<OsStr>, variables: &[(&str, String)]) -> Result<Command> {
        let mut command = match self {
            Self::Root => {
                let mut command = Command::new(program);
                command.envs(variables.iter().map(|(name, value)| (*name, value)));
                return Ok(command);
            }
            Self::Sudo => Command::new("sudo"),
            Self::None => bail!(
                "`{}` must run as root, and there is no sudo: run this command as root",
                Path::new(program.as_ref()).display()
            ),
        };
        // Nobody is there to type a password.
        if !std::io::stdin().is_terminal() {
            command.arg("-n");
        }
        command.arg("env").args(variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_named_in_full() {
        let error = run(Command::new("false").args(["--with", "words"])).unwrap_err().to_string();
        assert!(error.starts_with("false --with words ended with exit status: 1"), "{error}");
    }

    #[test]
    fn root_needs_no_sudo_and_gets_the_variables() {
        let command = Privilege::Root.command("apt-get", &[("A", "b".to_owned())]).unwrap();
        assert_eq!(shown(&command), "apt-get");
        assert_eq!(command.get_envs().collect::<Vec<_>>(), [(OsStr::new("A"), Some(OsStr::new("b")))]);
    }

    #[test]
    fn sudo_takes_the_variables_as_arguments() {
        let command = Privilege::Sudo.command("apt-get", &[("A", "b".to_owned())]).unwrap();
        assert!(shown(&command).starts_with("sudo "));
        assert!(shown(&command).ends_with("env A=b apt-get"));
    }

    #[test]
    fn without_a_way_to_become_root_the_program_is_named() {
        let error = Privilege::None.command("apt-get", &[]).unwrap_err().to_string();
        assert!(error.contains("`apt-get` must run as root"), "{error}");
    }
}
