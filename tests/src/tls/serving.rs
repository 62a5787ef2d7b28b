//! One connection of a server.

use super::{options::Speech, pattern::Pattern, server::Conduct};
use std::{
    io::{self, ErrorKind, Read as _},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// First byte of a TLS record with a part of a handshake.
const HANDSHAKE: u8 = 22;

/// What a server has seen.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) accepted: AtomicU64,
    pub(super) greeted: AtomicU64,
    pub(super) resets: AtomicU64,
    pub(super) ended: AtomicU64,
    pub(super) sent: AtomicU64,
}

/// What a server does with each connection.
pub(super) struct Service {
    name: String,
    speech: Speech,
    conduct: Conduct,
    acceptor: TlsAcceptor,
    pub(super) counts: Arc<Counts>,
}

impl Service {
    pub(super) fn new(name: &str, speech: Speech, conduct: Conduct, acceptor: TlsAcceptor) -> Self {
        Self { name: name.to_owned(), speech, conduct, acceptor, counts: Arc::default() }
    }
}

/// A connection below which there is a socket.
trait Wire: AsyncRead + AsyncWrite + Unpin {
    fn socket(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Serves one connection and counts its end. Errors are the client's to report.
pub(super) async fn serve(stream: TcpStream, client: SocketAddr, service: Arc<Service>) {
    let outcome = match service.speech {
        Speech::Plain | Speech::Hello => in_the_clear(stream, client, &service).await,
        Speech::Full => in_tls(stream, client, &service).await,
    };
    if outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset) {
        service.counts.resets.fetch_add(1, Relaxed);
    }
    service.counts.ended.fetch_add(1, Relaxed);
}

async fn in_the_clear(mut stream: TcpStream, client: SocketAddr, service: &Service) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if service.speech == Speech::Hello {
        read_hello(&mut stream).await?;
    }
    act(stream, service, &format!("from={client}"), Vec::new()).await
}

async fn in_tls(stream: TcpStream, client: SocketAddr, service: &Service) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = service.acceptor.accept(stream).await?;
    let connection = stream.get_mut().1;
    let mut early = Vec::new();
    if let Some(mut data) = connection.early_data() {
        data.read_to_end(&mut early)?;
    }
    let alpn = connection.alpn_protocol().map(String::from_utf8_lossy).unwrap_or_default();
    let sni = connection.server_name().unwrap_or_default();
    let seen = format!("from={client} sni={sni} alpn={alpn} early={}", early.len());
    act(stream, service, &seen, early).await
}

/// Reads the records that a ClientHello is in. Of anything else it reads what is there.
async fn read_hello(stream: &mut TcpStream) -> io::Result<()> {
    let (mut hello, mut wanted) = (Vec::new(), 4);
    while hello.len() < wanted {
        let first = stream.read_u8().await?;
        if first != HANDSHAKE {
            let _ = stream.read(&mut [0; 4_096]).await?;
            return Ok(());
        }
        let _version = stream.read_u16().await?;
        let mut body = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut body).await?;
        hello.extend_from_slice(&body);
        if let [_, high, middle, low, ..] = hello[..] {
            wanted = 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
        }
    }
    Ok(())
}

/// Does what the server is for. `seen` is what it tells the client of the connection, `early` what came
/// with the ClientHello.
async fn act(mut wire: impl Wire, service: &Service, seen: &str, early: Vec<u8>) -> io::Result<()> {
    let greeting = format!("{} {seen}\n", service.name);
    service.counts.greeted.fetch_add(1, Relaxed);
    if service.conduct == Conduct::Http {
        return http(wire, &service.name).await;
    }
    wire.write_all(greeting.as_bytes()).await?;
    wire.flush().await?;
    match service.conduct {
        Conduct::Greet => {
            wire.write_all(&early).await?;
            wire.flush().await?;
            echo(&mut wire).await
        }
        Conduct::CloseFirst => {
            wire.shutdown().await?;
            while wire.read(&mut [0; 4_096]).await? > 0 {}
            Ok(())
        }
        Conduct::Reset => {
            let _ = wire.read(&mut [0; 4_096]).await?;
            wire.socket().set_zero_linger()
        }
        Conduct::Transfer => transfer(wire, &service.counts).await,
        Conduct::Http => Ok(()),
    }
}

async fn echo(wire: &mut impl Wire) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1_024];
    loop {
        let read = wire.read(&mut buffer).await?;
        if read == 0 {
            return wire.shutdown().await;
        }
        wire.write_all(&buffer[..read]).await?;
        wire.flush().await?;
    }
}

async fn http(mut wire: impl Wire, name: &str) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(wire.read_u8().await?);
    }
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}", name.len());
    wire.write_all(answer.as_bytes()).await?;
    wire.shutdown().await
}

/// Reads and writes the pattern at once; at the client's end it says what arrived.
async fn transfer(mut wire: impl Wire, counts: &Counts) -> io::Result<()> {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push(char::from(wire.read_u8().await?));
    }
    let mut numbers = line.split_whitespace().map_while(|word| word.parse::<u64>().ok());
    let (Some(up), Some(down)) = (numbers.next(), numbers.next()) else {
        return Err(ErrorKind::InvalidData.into());
    };
    let (mut reader, mut writer) = tokio::io::split(wire);
    let receive = async {
        let (mut arrived, mut pattern, mut right) = (0, Pattern::default(), true);
        let mut buffer = vec![0; 64 * 1_024];
        loop {
            let read = reader.read(&mut buffer).await?;
            if read == 0 {
                return io::Result::Ok((arrived, right));
            }
            arrived += read as u64;
            right &= pattern.matches(&buffer[..read]);
        }
    };
    let send = async {
        let (mut left, mut pattern) = (down, Pattern::default());
        while left > 0 {
            let part = pattern.take(left.min(16 * 1_024) as usize);
            writer.write_all(part).await?;
            counts.sent.fetch_add(part.len() as u64, Relaxed);
            left -= part.len() as u64;
        }
        writer.flush().await
    };
    let ((arrived, right), ()) = tokio::try_join!(receive, send)?;
    let verdict = if arrived == up && right { "whole" } else { "corrupt" };
    writer.write_all(format!("{verdict} {arrived}\n").as_bytes()).await?;
    writer.shutdown().await
}
