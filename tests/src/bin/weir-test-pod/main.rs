//! What pods of the test cluster run: the first process of a pod, or a server that tells its name.
//!
//! Clients are `weir-probe`, which is in the same image. It knows nothing of Weir or of Kubernetes.

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use nix::{
    errno::Errno,
    sys::wait::{WaitPidFlag, WaitStatus, waitpid},
    unistd::Pid,
};
use std::net::{Ipv6Addr, SocketAddr};
use tokio::{
    runtime::Builder,
    select,
    signal::unix::{Signal, SignalKind, signal},
};
use weir_tests::tls::{options::Speech, server::Listen};

#[derive(Parser)]
#[command(about = "Runs in pods of the test cluster")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Does nothing until it is told to end, but for processes whose parent is gone.
    Pause,
    /// Serves connections: tells its name, then echoes.
    Serve {
        /// The name, for instance the pod's.
        #[arg(long, env = "NAME")]
        name: String,
        /// Ports to serve in the clear, of both address families.
        #[arg(long)]
        port: Vec<u16>,
        /// Ports to serve with TLS.
        #[arg(long)]
        tls_port: Vec<u16>,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        match cli.command {
            Command::Pause => until_told().await,
            Command::Serve { name, port, tls_port } => {
                let speak = |speech, ports: Vec<u16>| -> Result<Vec<_>> {
                    let listen = |port| {
                        let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
                        Listen::here(address, &name).speech(speech).start()
                    };
                    ports.into_iter().map(listen).collect()
                };
                let _servers = (speak(Speech::Plain, port)?, speak(Speech::Full, tls_port)?);
                until_told().await
            }
        }
    })
}

/// Waits for a signal to end. A first process inherits orphans, and must bury them.
async fn until_told() -> Result<()> {
    let on = |kind| -> Result<Signal> { signal(kind).context("cannot watch signals") };
    let (mut terminate, mut interrupt, mut child) =
        (on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::child())?);
    loop {
        select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = child.recv() => while bury()? {},
        }
    }
}

/// Takes one ended child from the process table; returns whether there was one.
fn bury() -> Result<bool> {
    match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
        Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error).context("cannot wait for children"),
    }
}
