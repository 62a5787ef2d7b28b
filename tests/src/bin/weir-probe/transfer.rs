//! The pattern, both ways at once on some connections, each compared to the last byte.

use crate::{
    connection::{self, Dial, Failure},
    load::print,
    socket,
    speech::Speaker,
};
use anyhow::Result;
use rustls::pki_types::ServerName;
use std::{
    io::{self, ErrorKind, Write as _},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;
use weir_tests::{
    report::Report,
    tls::{options::Speech, pattern::Pattern},
};

/// A connection whose server waits for the pattern, or sends it.
struct Open {
    wire: Box<dyn Wire>,
    server: String,
    started: u64,
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

pub(crate) fn run(dial: &Dial, count: u64, up: u64, down: u64, waits: bool) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut report = Report { attempts: count, ..Report::default() };
        let mut opened = Vec::new();
        for _ in 0..count {
            match open(dial, up, down).await {
                Ok(connection) => opened.push(connection),
                Err(error) => fail(&mut report, &error.error),
            }
        }
        if waits {
            print(&report);
            io::stdin().read_line(&mut String::new())?;
        }
        let mut running: JoinSet<_> = opened.into_iter().map(|connection| exchange(connection, up, down)).collect();
        while let Some(outcome) = running.join_next().await {
            match outcome? {
                Ok((server, started)) => {
                    *report.answers.entry(server.clone()).or_default() += 1;
                    report.first_ns.entry(server).or_insert(started);
                    report.sent += up;
                    report.received += down;
                }
                Err(error) => fail(&mut report, &format!("after {}", connection::name(&error))),
            }
        }
        print(&report);
        io::stdout().flush()?;
        Ok(())
    })
}

fn fail(report: &mut Report, error: &str) {
    *report.errors.entry(error.to_owned()).or_default() += 1;
}

/// Connects, reads the server's name and says what shall be moved.
async fn open(dial: &Dial, up: u64, down: u64) -> Result<Open, Failure> {
    let started = connection::now_ns();
    let stream = socket::connect(dial).map_err(|error| Failure::in_connect(&error, connection::now_ns() - started))?;
    let speaker = dial.speaker();
    let begin = async {
        stream.set_nonblocking(true)?;
        let stream = TcpStream::from_std(stream)?;
        let mut wire = begin(stream, dial, speaker).await?;
        let mut greeting = String::new();
        while !greeting.ends_with('\n') {
            greeting.push(char::from(wire.read_u8().await?));
        }
        wire.write_all(format!("{up} {down}\n").as_bytes()).await?;
        wire.flush().await?;
        let server = greeting.split_whitespace().next().unwrap_or_default().to_owned();
        io::Result::Ok(Open { wire, server, started })
    };
    begin.await.map_err(|error| Failure::after(&error, started))
}

async fn begin(mut stream: TcpStream, dial: &Dial, speaker: &Speaker) -> io::Result<Box<dyn Wire>> {
    stream.set_nodelay(true)?;
    if dial.tls.speech != Speech::Full {
        stream.write_all(speaker.opening()).await?;
        return Ok(Box::new(stream));
    }
    let name = dial.tls.sni.clone().unwrap_or_else(|| "nobody.example".to_owned());
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(Arc::clone(&speaker.config)).connect(name, stream).await?))
}

async fn exchange(open: Open, up: u64, down: u64) -> io::Result<(String, u64)> {
    let (mut reader, mut writer) = tokio::io::split(open.wire);
    let send = async {
        let (mut left, mut pattern) = (up, Pattern::default());
        while left > 0 {
            let part = pattern.take(left.min(16 * 1_024) as usize);
            writer.write_all(part).await?;
            left -= part.len() as u64;
        }
        // The other direction goes on.
        writer.shutdown().await
    };
    let receive = async {
        let (mut left, mut pattern) = (down, Pattern::default());
        let mut buffer = vec![0; 64 * 1_024];
        while left > 0 {
            let limit = left.min(buffer.len() as u64) as usize;
            let read = reader.read(&mut buffer[..limit]).await?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if !pattern.matches(&buffer[..read]) {
                return Err(io::Error::new(ErrorKind::InvalidData, "other bytes came"));
            }
            left -= read as u64;
        }
        let mut verdict = String::new();
        reader.read_to_string(&mut verdict).await?;
        io::Result::Ok(verdict)
    };
    let ((), verdict) = tokio::try_join!(send, receive)?;
    if verdict != format!("whole {up}\n") {
        return Err(io::Error::new(ErrorKind::InvalidData, verdict));
    }
    Ok((open.server, open.started))
}
