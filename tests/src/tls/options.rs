//! How a client speaks TLS: options of `weir-probe`, and how the harness sets them.

use clap::{Args, ValueEnum};
use std::net::IpAddr;

/// What goes over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Speech {
    /// No TLS.
    #[default]
    Plain,
    /// A real ClientHello, and then bytes in the clear: as much TLS as a frontend looks at, at a
    /// fraction of the cost. For a server that speaks so, too.
    Hello,
    /// TLS.
    Full,
}

/// How a client speaks.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// What goes over a connection.
    #[arg(long, value_enum, default_value_t)]
    pub speech: Speech,
    /// Server name of the ClientHello; without, it has none.
    #[arg(long)]
    pub sni: Option<String>,
    /// Application protocols to offer.
    #[arg(long, value_delimiter = ',')]
    pub alpn: Vec<String>,
    /// TLS 1.2 instead of 1.3.
    #[arg(long)]
    pub tls12: bool,
    /// Makes the ClientHello at least so long, by protocols that nobody speaks.
    #[arg(long, default_value_t = 0)]
    pub hello_bytes: usize,
    /// Cuts what goes out before the first answer into TCP segments of so many bytes.
    #[arg(long, default_value_t = 0)]
    pub segment: usize,
    /// Cuts the ClientHello into TLS records with so many bytes of it in each.
    #[arg(long, default_value_t = 0)]
    pub record: usize,
    /// Sends so many bytes right behind the ClientHello, as early data if the speech is full. They come
    /// back like all others.
    #[arg(long, default_value_t = 0)]
    pub early: usize,
    /// Resumes the session of the connection before.
    #[arg(long)]
    pub resume: bool,
    /// Sends only so many bytes of the ClientHello, and waits.
    #[arg(long, default_value_t = 0)]
    pub half: usize,
    /// Sends this instead of a ClientHello.
    #[arg(long)]
    pub raw: Option<String>,
}

impl TlsOptions {
    /// Speaks TLS with a server name.
    #[must_use]
    pub fn full(sni: &str) -> Self {
        Self { speech: Speech::Full, sni: Some(sni.to_owned()), ..Self::default() }
    }

    /// Says a ClientHello with a server name.
    #[must_use]
    pub fn hello(sni: &str) -> Self {
        Self { speech: Speech::Hello, sni: Some(sni.to_owned()), ..Self::default() }
    }

    /// Returns the options as arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let speech = self.speech.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let mut arguments = vec![
            format!("--speech={speech}"),
            format!("--hello-bytes={}", self.hello_bytes),
            format!("--segment={}", self.segment),
            format!("--record={}", self.record),
            format!("--early={}", self.early),
            format!("--half={}", self.half),
        ];
        arguments.extend(self.sni.as_ref().map(|name| format!("--sni={name}")));
        arguments.extend(self.alpn.iter().map(|name| format!("--alpn={name}")));
        arguments.extend(self.raw.as_ref().map(|bytes| format!("--raw={bytes}")));
        let flags = [(self.tls12, "--tls12"), (self.resume, "--resume")];
        arguments.extend(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| (*flag).to_owned()));
        arguments
    }
}

/// What is special about a client's socket.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Makes an MPTCP socket.
    #[arg(long)]
    pub mptcp: bool,
    /// Sends the first bytes in the SYN.
    #[arg(long)]
    pub fast_open: bool,
    /// Binds the socket to a device.
    #[arg(long)]
    pub device: Option<String>,
    /// Binds the socket to a source address.
    #[arg(long)]
    pub source: Option<IpAddr>,
}

impl SocketOptions {
    /// Whether nothing is special.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the options as arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let flags = [(self.mptcp, "--mptcp"), (self.fast_open, "--fast-open")];
        let mut arguments: Vec<String> =
            flags.iter().filter(|(set, _)| *set).map(|(_, flag)| (*flag).to_owned()).collect();
        arguments.extend(self.device.as_ref().map(|name| format!("--device={name}")));
        arguments.extend(self.source.map(|address| format!("--source={address}")));
        arguments
    }
}
