//! One connection: opened, the server's name read, bytes exchanged and compared.

use crate::{
    socket,
    speech::{self, Speaker, Wire},
};
use anyhow::Result as AnyResult;
use clap::Args;
use nix::{
    errno::Errno,
    time::{ClockId, clock_gettime},
};
use socket2::SockRef;
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    sync::OnceLock,
    time::Duration,
};
use weir_tests::tls::options::{SocketOptions, TlsOptions};

/// How long a server may keep silent.
const SILENCE: Duration = Duration::from_secs(30);

#[derive(Args, Clone)]
pub(crate) struct Dial {
    /// Address and port to dial. An IPv6 address is dialled from an IPv6 socket, a v4-mapped one too.
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// How many workers dial at once.
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: usize,
    /// Bytes that are sent and expected back after the server's name.
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes: u64,
    /// Sends a line before the server says its name.
    #[arg(long)]
    speaks_first: bool,
    /// Sends one datagram from a connected UDP socket instead.
    #[arg(long)]
    udp: bool,
    /// Pause of each worker between two connections, microseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) pause_us: u64,
    /// Gives up a connect after so many milliseconds; 0 leaves that to the kernel.
    #[arg(long, default_value_t = 0)]
    patience_ms: u64,
    /// Reads until the server ends instead of ending first.
    #[arg(long)]
    until_end: bool,
    /// Ends with a reset.
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    pub(crate) tls: TlsOptions,
    #[command(flatten)]
    pub(crate) socket: SocketOptions,
    #[arg(skip)]
    speaker: OnceLock<Speaker>,
}

impl Dial {
    /// Makes what all connections share; called before the first of them.
    pub(crate) fn prepare(&self) -> AnyResult<()> {
        let speaker = Speaker::new(&self.tls)?;
        self.speaker.get_or_init(|| speaker);
        Ok(())
    }

    pub(crate) fn speaker(&self) -> &Speaker {
        self.speaker.get().expect("`prepare` comes first")
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        (self.patience_ms > 0).then(|| Duration::from_millis(self.patience_ms))
    }
}

/// A connection whose server has said its name.
pub(crate) struct Connection {
    wire: Option<Wire>,
    /// Whether the server has not been told who is asked for.
    is_half: bool,
    pub(crate) server: String,
    pub(crate) peer: String,
    /// The client's address as the server saw it, if it told.
    pub(crate) source: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) took_early: bool,
    pub(crate) connect_ns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Why there is none.
pub(crate) struct Failure {
    pub(crate) error: String,
    /// Set if connect() itself failed: how long that took.
    pub(crate) connect_ns: Option<u64>,
    /// Set if what came after it failed: how long after the client's first byte.
    pub(crate) late_ns: Option<u64>,
}

impl Failure {
    pub(crate) fn in_connect(error: &io::Error, connect_ns: u64) -> Self {
        Self { error: name(error), connect_ns: Some(connect_ns), late_ns: None }
    }

    /// `since` is when the client began to speak.
    pub(crate) fn after(error: &io::Error, since: u64) -> Self {
        Self { error: format!("after {}", name(error)), connect_ns: None, late_ns: Some(now_ns() - since) }
    }
}

/// CLOCK_MONOTONIC, nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

pub(crate) fn open(dial: &Dial) -> Result<Connection, Failure> {
    let start = now_ns();
    if dial.udp {
        return datagram(dial, start);
    }
    let connected = socket::connect(dial);
    let connect_ns = now_ns() - start;
    let stream = connected.map_err(|error| Failure::in_connect(&error, connect_ns))?;
    let began = now_ns();
    greet(stream, dial, connect_ns).map_err(|error| Failure::after(&error, began))
}

/// Says what the client says first, and hears who the server is.
fn greet(stream: TcpStream, dial: &Dial, connect_ns: u64) -> io::Result<Connection> {
    stream.set_read_timeout(Some(SILENCE))?;
    // Before the first byte, as a rejected connection has no peer any more.
    let known = stream.peer_addr();
    let (wire, early) = dial.speaker().begin(stream)?;
    // With fast open there is a connection only now.
    let peer = known.or_else(|_| wire.socket().peer_addr())?.to_string();
    let mut connection = Connection {
        wire: Some(wire),
        is_half: dial.tls.half > 0,
        server: String::new(),
        peer,
        source: None,
        protocol: None,
        took_early: false,
        connect_ns,
        sent: 0,
        received: 0,
    };
    if connection.is_half {
        connection.server = "half".to_owned();
        return Ok(connection);
    }
    connection.hear(dial, early)?;
    connection.exchange(dial.bytes)?;
    connection.finish(dial)?;
    Ok(connection)
}

impl Connection {
    fn hear(&mut self, dial: &Dial, early: usize) -> io::Result<()> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        if dial.speaks_first {
            wire.write_all(b"who\n")?;
            self.sent += 4;
        }
        let mut greeting = String::new();
        let mut byte = [0];
        while !greeting.ends_with('\n') {
            wire.read_exact(&mut byte)?;
            self.received += 1;
            greeting.push(char::from(byte[0]));
        }
        let mut words = greeting.split_whitespace();
        self.server = words.next().unwrap_or_default().to_owned();
        self.source = words.find_map(|word| source(word.strip_prefix("from=")?));
        self.protocol = wire.protocol();
        if early > 0 && wire.took_early() {
            let mut back = vec![0; early];
            wire.read_exact(&mut back)?;
            if back != speech::early(&dial.tls) {
                return Err(io::Error::new(ErrorKind::InvalidData, "other early data came back"));
            }
            self.took_early = true;
            self.sent += early as u64;
            self.received += early as u64;
        }
        Ok(())
    }

    /// Ends the connection in a special way, if it shall have one.
    fn finish(&mut self, dial: &Dial) -> io::Result<()> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        if dial.until_end {
            self.received += io::copy(wire, &mut io::sink())?;
        }
        if dial.reset {
            SockRef::from(wire.socket()).set_linger(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    /// Sends bytes and compares what comes back. At most 32 KiB are on their way, so neither end
    /// waits for the other to read.
    pub(crate) fn exchange(&mut self, bytes: u64) -> io::Result<()> {
        let Some(wire) = self.wire.as_mut() else { return Ok(()) };
        if self.is_half {
            return wire.expect_silence();
        }
        let mut left = bytes;
        let mut back = [0; 32 * 1_024];
        while left > 0 {
            let size = left.min(back.len() as u64) as usize;
            // A pattern that differs from place to place, so that a lost or doubled byte shows.
            let out: Vec<u8> = (0..size as u64).map(|at| ((left - at) % 251) as u8).collect();
            wire.write_all(&out)?;
            wire.flush()?;
            self.sent += size as u64;
            wire.read_exact(&mut back[..size])?;
            self.received += size as u64;
            if back[..size] != out[..] {
                return Err(io::Error::new(ErrorKind::InvalidData, "other bytes came back"));
            }
            left -= size as u64;
        }
        Ok(())
    }
}

/// A datagram to a server that answers with its name.
fn datagram(dial: &Dial, start: u64) -> Result<Connection, Failure> {
    let any: IpAddr = match dial.to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(dial.to).map(|()| socket));
    let connect_ns = now_ns() - start;
    let socket = connected.map_err(|error| Failure::in_connect(&error, connect_ns))?;
    let mut answer = [0; 256];
    let size = socket
        .set_read_timeout(Some(SILENCE))
        .and_then(|()| socket.send(b"who\n"))
        .and_then(|_| socket.recv(&mut answer))
        .map_err(|error| Failure::after(&error, start))?;
    Ok(Connection {
        wire: None,
        is_half: false,
        source: None,
        protocol: None,
        took_early: false,
        server: String::from_utf8_lossy(&answer[..size]).trim_end().to_owned(),
        peer: socket.peer_addr().map(|peer| peer.to_string()).unwrap_or_default(),
        connect_ns,
        sent: 4,
        received: size as u64,
    })
}

/// Returns the address without the port, which differs from connection to connection.
fn source(address: &str) -> Option<String> {
    Some(address.parse::<SocketAddr>().ok()?.ip().to_canonical().to_string())
}

/// Names an error: by its errno, or in a word.
pub(crate) fn name(error: &io::Error) -> String {
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return "tls".to_owned();
    }
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => format!("{:?}", Errno::from_raw(number)),
        (None, ErrorKind::TimedOut) => "timeout".to_owned(),
        (None, ErrorKind::UnexpectedEof) => "eof".to_owned(),
        (None, ErrorKind::InvalidData) => "corrupt".to_owned(),
        (None, kind) => format!("{kind:?}"),
    }
}
