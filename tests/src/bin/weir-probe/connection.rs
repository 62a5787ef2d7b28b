//! One connection: opened, the server's name read, bytes exchanged and compared.

use clap::Args;
use nix::{
    errno::Errno,
    time::{ClockId, clock_gettime},
};
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

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
}

/// A connection whose server has said its name.
pub(crate) struct Connection {
    stream: Option<TcpStream>,
    pub(crate) server: String,
    pub(crate) peer: String,
    pub(crate) connect_ns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Why there is none.
pub(crate) struct Failure {
    pub(crate) error: String,
    /// Set if connect() itself failed: how long that took.
    pub(crate) connect_ns: Option<u64>,
}

impl Failure {
    fn in_connect(error: &io::Error, connect_ns: u64) -> Self {
        Self { error: name(error), connect_ns: Some(connect_ns) }
    }

    fn after(error: &io::Error) -> Self {
        Self { error: format!("after {}", name(error)), connect_ns: None }
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
    let connected = match dial.patience_ms {
        0 => TcpStream::connect(dial.to),
        patience => TcpStream::connect_timeout(&dial.to, Duration::from_millis(patience)),
    };
    let connect_ns = now_ns() - start;
    let stream = connected.map_err(|error| Failure::in_connect(&error, connect_ns))?;
    let mut connection = Connection {
        stream: Some(stream),
        server: String::new(),
        peer: String::new(),
        connect_ns,
        sent: 0,
        received: 0,
    };
    connection.greet(dial).map_err(|error| Failure::after(&error))?;
    Ok(connection)
}

impl Connection {
    fn greet(&mut self, dial: &Dial) -> io::Result<()> {
        let Some(stream) = self.stream.as_mut() else { return Ok(()) };
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
        self.peer = stream.peer_addr()?.to_string();
        if dial.speaks_first {
            stream.write_all(b"who\n")?;
            self.sent += 4;
        }
        let mut byte = [0];
        loop {
            stream.read_exact(&mut byte)?;
            self.received += 1;
            match byte[0] {
                b'\n' => break,
                other => self.server.push(char::from(other)),
            }
        }
        self.exchange(dial.bytes)
    }

    /// Sends bytes and compares what comes back. At most 32 KiB are on their way, so neither end
    /// waits for the other to read.
    pub(crate) fn exchange(&mut self, bytes: u64) -> io::Result<()> {
        let Some(stream) = self.stream.as_mut() else { return Ok(()) };
        let mut left = bytes;
        let mut back = [0; 32 * 1_024];
        while left > 0 {
            let size = left.min(back.len() as u64) as usize;
            // A pattern that differs from place to place, so that a lost or doubled byte shows.
            let out: Vec<u8> = (0..size as u64).map(|at| ((left - at) % 251) as u8).collect();
            stream.write_all(&out)?;
            self.sent += size as u64;
            stream.read_exact(&mut back[..size])?;
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
        .map_err(|error| Failure::after(&error))?;
    Ok(Connection {
        stream: None,
        server: String::from_utf8_lossy(&answer[..size]).trim_end().to_owned(),
        peer: socket.peer_addr().map(|peer| peer.to_string()).unwrap_or_default(),
        connect_ns,
        sent: 4,
        received: size as u64,
    })
}

/// Names an error: by its errno, or in a word.
pub(crate) fn name(error: &io::Error) -> String {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => format!("{:?}", Errno::from_raw(number)),
        (None, ErrorKind::TimedOut) => "timeout".to_owned(),
        (None, ErrorKind::UnexpectedEof) => "eof".to_owned(),
        (None, ErrorKind::InvalidData) => "corrupt".to_owned(),
        (None, kind) => format!("{kind:?}"),
    }
}
