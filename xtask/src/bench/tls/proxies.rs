//! The proxies that are measured beside Weir, with the configurations in `tests/bench`.

use super::arena::{Arena, SERVED};
use crate::process;
use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};
use weir_tests::{leftovers, wait};

/// A proxy that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    HaProxy,
    Nginx,
    Envoy,
}

impl Kind {
    /// Returns the command's name.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::HaProxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
        }
    }

    const fn template(self) -> &'static str {
        match self {
            Self::HaProxy => include_str!("../../../../tests/bench/haproxy.cfg"),
            Self::Nginx => include_str!("../../../../tests/bench/nginx.conf"),
            Self::Envoy => include_str!("../../../../tests/bench/envoy.yaml"),
        }
    }

    /// Returns the arguments that come before the configuration's path.
    fn arguments(self, threads: usize) -> Vec<String> {
        match self {
            Self::HaProxy => vec!["-db".to_owned(), "-q".to_owned(), "-f".to_owned()],
            Self::Nginx => vec!["-q".to_owned(), "-c".to_owned()],
            Self::Envoy => {
                let text = format!("--concurrency {threads} --disable-hot-restart --log-level off -c");
                text.split(' ').map(str::to_owned).collect()
            }
        }
    }
}

/// A running proxy in the router's namespace. Dropping it ends it.
pub(super) struct Proxy {
    process: Child,
    config: PathBuf,
}

impl Proxy {
    /// Starts a proxy, on one CPU if one is given; `None` if its command is not there.
    pub(super) fn start(kind: Kind, arena: &Arena, cpu: Option<usize>, cpus: usize) -> Result<Option<Self>> {
        let Some(program) = process::find(kind.program()) else { return Ok(None) };
        let threads = if cpu.is_some() { 1 } else { cpus };
        // Envoy knows by the name what is in the file.
        let config = leftovers::folder(&format!("{}.yaml", kind.program()));
        fs::write(&config, fill(kind.template(), threads, &config.display().to_string()))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", arena.net.router().name()]);
        if let Some(cpu) = cpu {
            command.args(["taskset", "--cpu-list", &cpu.to_string()]);
        }
        let process = command
            .arg(program)
            .args(kind.arguments(threads))
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", kind.program()))?;
        let mut proxy = Self { process, config };
        let ended = proxy.process.try_wait()?;
        ensure!(ended.is_none(), "{} ended with {ended:?}", kind.program());
        Ok(Some(proxy))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // `ip netns exec` and taskset replace themselves, so this is the proxy; it ends its workers.
        if let Ok(pid) = i32::try_from(self.process.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let ended = wait::until("the proxy's end", Duration::from_secs(5), || self.process.try_wait().ok().flatten());
        if ended.is_err() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        let _ = fs::remove_file(&self.config);
    }
}

/// Writes a configuration: numbers for words in `@`, and what is between `#each` and `#end` for each port.
fn fill(template: &str, threads: usize, file: &str) -> String {
    let (mut text, mut each) = (String::new(), None::<String>);
    for line in template.lines() {
        match (line, each.as_mut()) {
            ("#each", _) => each = Some(String::new()),
            ("#end", _) => {
                let part = each.take().unwrap_or_default();
                text.extend(SERVED.iter().map(|(_, port)| part.replace("@PORT@", &port.to_string())));
            }
            (line, Some(part)) => drop(writeln!(part, "{line}")),
            (line, None) => drop(writeln!(text, "{line}")),
        }
    }
    text.replace("@THREADS@", &threads.to_string()).replace("@FILE@", file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_configuration_is_written_once_a_port() {
        let text = fill("threads @THREADS@\n#each\nport @PORT@\n#end\nlog @FILE@.log\n", 2, "/x");
        assert_eq!(text, "threads 2\nport 443\nport 444\nport 445\nport 446\nport 447\nlog /x.log\n");
    }

    #[test]
    fn no_word_of_a_configuration_is_left_open() {
        for kind in [Kind::HaProxy, Kind::Nginx, Kind::Envoy] {
            let text = fill(kind.template(), 1, "/x");
            let open = ["@PORT@", "@THREADS@", "@FILE@", "#each\n", "#end\n"].iter().find(|word| text.contains(**word));
            assert_eq!(open, None, "{kind:?}");
        }
    }
}
