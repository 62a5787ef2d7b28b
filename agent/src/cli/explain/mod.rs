//! `weir explain`: where connections from X to Y would go, and why, by the files in a folder.
//!
//! Runs the kernel's own decision on plain tables. It asks no agent and touches no kernel, so it
//! knows nothing of failures and ejections, and supposes a kernel that can verify server names.

mod account;
mod text;
mod tls;

use super::asking::{Output, OutputArgs, colours, columns};
use crate::{
    compile::{FoundClients, compile, path::Capabilities},
    provider::file::{Severity, read_dir},
    translate::translate,
};
use account::Account;
use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use std::{io::Write, net::SocketAddr, path::PathBuf, process::ExitCode};

/// Arguments of `weir explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// Folder of YAML or JSON files, as for `weir run`
    #[arg(long, value_name = "DIR", env = "WEIR_CONFIG")]
    config: PathBuf,
    /// Namespace that the client belongs to [default: none that consumer routes are for]
    #[arg(long, value_name = "NAMESPACE")]
    from: Option<String>,
    /// What the client dials: an address and port, or a Service and port
    #[arg(long, value_name = "ADDRESS:PORT|NAMESPACE/SERVICE:PORT", value_parser = destination)]
    to: Destination,
    /// Server name in the client's ClientHello, for TLSRoutes [default: none]
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// ALPN protocols that the client offers, as `h2,http/1.1`
    #[arg(long, value_name = "PROTOCOLS", value_delimiter = ',', requires = "sni", value_parser = protocol)]
    alpn: Vec<String>,
    /// How many connections to try
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a client says of itself when it speaks TLS.
#[derive(Clone, Debug, Default)]
struct Hello {
    /// The server name.
    sni: Option<String>,
    /// The ALPN protocols, none of them empty or longer than 255 bytes.
    alpn: Vec<String>,
}

fn protocol(text: &str) -> Result<String, String> {
    if (1..=255).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no ALPN protocol: those have 1 to 255 bytes"))
    }
}

/// What a client dials.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    Address(SocketAddr),
    Service { namespace: String, name: String, port: u16 },
}

fn destination(text: &str) -> Result<Destination, String> {
    if let Ok(address) = text.parse() {
        return Ok(Destination::Address(address));
    }
    let wrong = || {
        format!(
            "{text:?} is neither an address and port (10.0.0.1:80, [fd00::1]:80) \
             nor a Service and port (namespace/name:80)"
        )
    };
    let (service, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (namespace, name) = service.split_once('/').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|&port| port != 0).ok_or_else(wrong)?;
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(wrong());
    }
    Ok(Destination::Service { namespace: namespace.to_owned(), name: name.to_owned(), port })
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer {
    /// One account for each address that the destination has.
    destinations: Vec<Account>,
    /// Errors of the folder: what they keep out is not in the accounts.
    errors: usize,
}

/// Explains.
///
/// # Errors
///
/// If the destination is a Service that is not in the folder or has no address.
pub fn run(args: &ExplainArgs, out: &mut impl Write) -> Result<ExitCode> {
    let reading = read_dir(&args.config);
    let translation = translate(&reading.resources);
    let compiled = compile(&translation.desired, &FoundClients::new(), "explain", &Capabilities::default());
    let errors = reading.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    let world = account::World { resources: &reading.resources, translation: &translation, compiled: &compiled };
    let dialled = world.addresses(&args.to);
    if let (true, Destination::Service { namespace, name, .. }) = (dialled.is_empty(), &args.to) {
        let hint =
            if errors > 0 { format!("; the folder has {errors} errors, see `weir check`") } else { String::new() };
        bail!("Service {namespace}/{name} is not in {} or has no clusterIP{hint}", args.config.display());
    }
    let hello = Hello { sni: args.sni.clone(), alpn: args.alpn.clone() };
    let from = args.from.as_deref();
    let accounts = dialled.into_iter().map(|(address, port)| world.account(address, port, from, &hello, args.count));
    let answer = Answer { destinations: accounts.collect(), errors };
    match args.output.output {
        Output::Json => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?,
        Output::Text => write!(out, "{}", text::render(&answer, colours(), columns()))?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
