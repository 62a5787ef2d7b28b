//! What goes over a connected socket: bytes in the clear, a ClientHello before them, or TLS.

use anyhow::{Context as _, Result};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
};
use weir_tests::tls::{
    hello,
    options::{Speech, TlsOptions},
    pattern::Pattern,
    pieces::Pieces,
};

/// What all connections of a probe have in common.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    options: TlsOptions,
    pub(crate) config: Arc<ClientConfig>,
    /// What is said first where there is no TLS.
    opening: Vec<u8>,
}

impl Speaker {
    pub(crate) fn new(options: &TlsOptions) -> Result<Self> {
        let mut opening = match (&options.raw, options.speech) {
            (Some(bytes), _) => bytes.clone().into_bytes(),
            (None, Speech::Plain) => Vec::new(),
            (None, Speech::Hello | Speech::Full) => hello::bytes(options).context("cannot make a ClientHello")?,
        };
        if options.half > 0 {
            opening.truncate(options.half);
        } else if options.speech == Speech::Hello {
            opening.extend(early(options));
        }
        Ok(Self { options: options.clone(), config: hello::config(options)?, opening })
    }

    /// Begins to speak. Returns how many bytes of early data went along.
    pub(crate) fn begin(&self, stream: TcpStream) -> io::Result<(Wire, usize)> {
        let mut pieces = Pieces::new(stream, self.options.segment)?;
        let in_tls = self.options.speech == Speech::Full && self.options.raw.is_none() && self.options.half == 0;
        if !in_tls {
            pieces.write_all(&self.opening)?;
            let early = if self.options.speech == Speech::Hello { self.options.early } else { 0 };
            return Ok((Wire::Clear(pieces), early));
        }
        let mut connection = self.tls()?;
        let mut sent = 0;
        if let Some(mut writer) = connection.early_data() {
            writer.write_all(&early(&self.options))?;
            sent = self.options.early;
        }
        while connection.wants_write() {
            connection.write_tls(&mut pieces)?;
        }
        Ok((Wire::Tls(Box::new(StreamOwned::new(connection, pieces))), sent))
    }

    /// Begins a TLS connection without a socket.
    pub(crate) fn tls(&self) -> io::Result<ClientConnection> {
        hello::connection(&self.config, &self.options).map_err(|error| io::Error::other(format!("{error:#}")))
    }

    /// Returns what is said first where there is no TLS.
    pub(crate) fn opening(&self) -> &[u8] {
        &self.opening
    }
}

/// Returns the early data.
pub(crate) fn early(options: &TlsOptions) -> Vec<u8> {
    let (mut bytes, mut pattern) = (Vec::new(), Pattern::default());
    while bytes.len() < options.early {
        bytes.extend_from_slice(pattern.take(options.early - bytes.len()));
    }
    bytes
}

/// A connection that can be read and written.
pub(crate) enum Wire {
    Clear(Pieces),
    Tls(Box<StreamOwned<ClientConnection, Pieces>>),
}

impl Wire {
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Clear(pieces) => pieces.socket(),
            Self::Tls(stream) => stream.sock.socket(),
        }
    }

    /// Returns the application protocol that was agreed upon.
    pub(crate) fn protocol(&self) -> Option<String> {
        match self {
            Self::Clear(_) => None,
            Self::Tls(stream) => stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }

    /// Whether the server took the early data; in the clear it has no choice.
    pub(crate) fn took_early(&self) -> bool {
        match self {
            Self::Clear(_) => true,
            Self::Tls(stream) => stream.conn.is_early_data_accepted(),
        }
    }

    /// Fails if the other side has ended, or has said something.
    pub(crate) fn expect_silence(&self) -> io::Result<()> {
        let socket = self.socket();
        socket.set_nonblocking(true)?;
        let seen = socket.peek(&mut [0]);
        socket.set_nonblocking(false)?;
        match seen {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Err(io::Error::new(ErrorKind::InvalidData, "unexpected bytes")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(pieces) => pieces.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(pieces) => pieces.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(pieces) => pieces.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
