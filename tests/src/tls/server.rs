//! TLS servers inside a namespace, each with a name that it tells its clients inside the connection.

use super::{
    identity::Identity,
    options::Speech,
    serving::{Counts, Service, serve},
};
use crate::{host, namespace::Namespace, server::runtime};
use anyhow::{Context as _, Result};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

/// What a server does once the ClientHello is there, or the handshake is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Speaks first: a line with its name. Then it echoes until the client ends.
    Greet,
    /// Greets, ends its side, and waits for the client to end.
    CloseFirst,
    /// Greets, and resets the connection when the client has spoken.
    Reset,
    /// Greets, reads a line with two numbers, then as many bytes of the pattern as the first says, while
    /// it sends as many as the second says. Then it ends with a line that says what arrived.
    Transfer,
    /// Answers one HTTP request with its name.
    Http,
}

/// How many connections can wait to be accepted.
const BACKLOG: i32 = 8_192;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct Listen<'a> {
    /// None: where this process is.
    namespace: Option<&'a Namespace>,
    address: SocketAddr,
    name: &'a str,
    speech: Speech,
    conduct: Conduct,
    mptcp: bool,
}

impl<'a> Listen<'a> {
    /// Describes a server that speaks TLS and greets.
    #[must_use]
    pub fn on(namespace: &'a Namespace, address: SocketAddr, name: &'a str) -> Self {
        Self { namespace: Some(namespace), ..Self::here(address, name) }
    }

    /// Describes the same server in the namespace of this process.
    #[must_use]
    pub fn here(address: SocketAddr, name: &'a str) -> Self {
        Self { namespace: None, address, name, speech: Speech::Full, conduct: Conduct::Greet, mptcp: false }
    }

    /// Speaks otherwise.
    #[must_use]
    pub fn speech(self, speech: Speech) -> Self {
        Self { speech, ..self }
    }

    /// Acts otherwise.
    #[must_use]
    pub fn conduct(self, conduct: Conduct) -> Self {
        Self { conduct, ..self }
    }

    /// Speaks MPTCP with clients that do.
    #[must_use]
    pub fn mptcp(self) -> Self {
        Self { mptcp: true, ..self }
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// If the address is not local in the namespace or is taken.
    pub fn start(&self) -> Result<TlsServer> {
        host::raise_file_limit();
        let (listener, place) = match self.namespace {
            Some(namespace) => (namespace.run(|| self.socket()), namespace.name()),
            None => (self.socket(), "this namespace"),
        };
        let listener = listener.with_context(|| format!("cannot listen on {} in {place}", self.address))?;
        let acceptor = TlsAcceptor::from(Arc::new(Identity::shared().server()?));
        let service = Service::new(self.name, self.speech, self.conduct, acceptor);
        let counts = Arc::clone(&service.counts);
        let task = runtime().spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener of this process");
            accept(listener, Arc::new(service)).await;
        });
        Ok(TlsServer { task, counts })
    }

    fn socket(&self) -> std::io::Result<std::net::TcpListener> {
        let protocol = if self.mptcp { Protocol::MPTCP } else { Protocol::TCP };
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, Some(protocol))?;
        socket.set_reuse_address(true)?;
        socket.bind(&self.address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }
}

async fn accept(listener: TcpListener, service: Arc<Service>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, client)) => {
                service.counts.accepted.fetch_add(1, Relaxed);
                connections.spawn(serve(stream, client, Arc::clone(&service)));
            }
            // Out of file handles for a moment, or a client that is gone already.
            Err(_) => tokio::task::yield_now().await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// A server. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub struct TlsServer {
    task: JoinHandle<()>,
    counts: Arc<Counts>,
}

impl TlsServer {
    /// Returns how many connections have come in.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Relaxed)
    }

    /// Returns how many of them were told the server's name: their ClientHello was whole.
    #[must_use]
    pub fn greeted(&self) -> u64 {
        self.counts.greeted.load(Relaxed)
    }

    /// Returns how many ended with a reset of the other side.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.counts.resets.load(Relaxed)
    }

    /// Returns how many have ended in whatever way.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.counts.ended.load(Relaxed)
    }

    /// Returns how many are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        let ended = self.ended();
        self.accepted() - ended
    }

    /// Returns how many bytes of [`Conduct::Transfer`] have been given to sockets.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Relaxed)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
        // The listener is closed when the task is gone, not before; a test goes on from there.
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !self.task.is_finished() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}
