//! Servers inside a namespace, each with a name that it tells its clients.

use crate::namespace::Namespace;
use anyhow::{Context as _, Result};
use std::{
    net::{SocketAddr, TcpListener as StdListener, UdpSocket as StdUdp},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::{Builder, Runtime},
    task::{JoinHandle, JoinSet},
};

/// What a server does with a connection. Where nothing else is said it echoes until the client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Speaks first: a line with its name.
    Greet,
    /// Waits for a line of the client and answers with its name.
    Answer,
    /// Tells its name and resets the connection when the client has spoken.
    Reset,
}

/// A server. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub struct Server {
    task: JoinHandle<()>,
    accepted: Arc<AtomicU64>,
}

impl Server {
    /// Starts a TCP server on an address of the namespace.
    ///
    /// # Errors
    ///
    /// If the address is not local there or is taken.
    pub fn tcp(namespace: &Namespace, address: SocketAddr, name: &str, behaviour: Behaviour) -> Result<Self> {
        let listener = namespace
            .run(|| StdListener::bind(address))
            .with_context(|| format!("cannot listen on {address} in {}", namespace.name()))?;
        listener.set_nonblocking(true)?;
        let accepted = Arc::new(AtomicU64::new(0));
        let greeting = Arc::<str>::from(format!("{name}\n"));
        let task = runtime().spawn({
            let accepted = Arc::clone(&accepted);
            async move {
                let listener = TcpListener::from_std(listener).expect("a listener of this process");
                let mut connections = JoinSet::new();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            accepted.fetch_add(1, Ordering::Relaxed);
                            connections.spawn(serve(stream, Arc::clone(&greeting), behaviour));
                        }
                        // Out of file handles for a moment, or a client that is gone already.
                        Err(_) => tokio::task::yield_now().await,
                    }
                    while connections.try_join_next().is_some() {}
                }
            }
        });
        Ok(Self { task, accepted })
    }

    /// Starts a UDP server that answers each datagram with its name.
    ///
    /// # Errors
    ///
    /// If the address is not local in the namespace or is taken.
    pub fn udp(namespace: &Namespace, address: SocketAddr, name: &str) -> Result<Self> {
        let socket = namespace
            .run(|| StdUdp::bind(address))
            .with_context(|| format!("cannot bind {address} in {}", namespace.name()))?;
        socket.set_nonblocking(true)?;
        let accepted = Arc::new(AtomicU64::new(0));
        let answer = format!("{name}\n");
        let task = runtime().spawn({
            let accepted = Arc::clone(&accepted);
            async move {
                let socket = UdpSocket::from_std(socket).expect("a socket of this process");
                let mut datagram = [0; 2_048];
                while let Ok((_, client)) = socket.recv_from(&mut datagram).await {
                    accepted.fetch_add(1, Ordering::Relaxed);
                    // A lost answer shows at the client.
                    let _ = socket.send_to(answer.as_bytes(), client).await;
                }
            }
        });
        Ok(Self { task, accepted })
    }

    /// Returns how many connections (datagrams) have come in.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        // The listener is closed when the task is gone, not before; a test goes on from there.
        let deadline = std::time::Instant::now() + Duration::from_secs(5);
        while !self.task.is_finished() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
    }
}

/// One thread drives every server of the process: a socket stays in the namespace it was made in.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a thread for the test servers")
    })
}

/// Serves one connection. Its errors are the client's to report.
async fn serve(mut stream: TcpStream, greeting: Arc<str>, behaviour: Behaviour) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = vec![0; 64 * 1_024];
    match behaviour {
        Behaviour::Greet => stream.write_all(greeting.as_bytes()).await.ok()?,
        Behaviour::Answer => {
            while stream.read_u8().await.ok()? != b'\n' {}
            stream.write_all(greeting.as_bytes()).await.ok()?;
        }
        Behaviour::Reset => {
            stream.write_all(greeting.as_bytes()).await.ok()?;
            let _ = stream.read(&mut buffer).await.ok()?;
            stream.set_zero_linger().ok()?;
            return None;
        }
    }
    loop {
        let read = stream.read(&mut buffer).await.ok()?;
        if read == 0 {
            return Some(());
        }
        stream.write_all(&buffer[..read]).await.ok()?;
    }
}
