//! The two listeners of a network namespace: opening them, and emptying their queues.

use super::{
    Phase, Shared,
    files::are_out,
    serve::{self, Arrived, Door},
};
use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as Opened},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use weir_common::abi::tls::Listener;

/// Most connections in a listener's queue; `net.core.somaxconn` of the namespace may be less.
const BACKLOG: i32 = 65_535;
/// The loopback device. Bound to it, a listener on 127.0.0.1 is out of reach for packets from
/// elsewhere, even where the namespace lets 127.0.0.0/8 in from other devices (`route_localnet`). For
/// ::1 the kernel itself drops what comes from elsewhere; a listener bound to the device would there
/// find no way back to clients with a source address of another device.
const LOOPBACK: &[u8] = b"lo";
/// How long nothing is accepted after accepting has failed.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a withdrawn listener still waits for connections whose connect() had found it.
const LATE: Duration = Duration::from_millis(100);

/// The listeners of a namespace.
#[derive(Debug)]
pub(super) struct Pair {
    v4: Opened,
    v6: Option<Opened>,
}

impl Pair {
    /// Opens them in the namespace that the calling thread is in.
    pub(super) fn open() -> io::Result<Self> {
        if !loopback_is_up()? {
            return Err(io::Error::other("its loopback device is down: `ip link set lo up`"));
        }
        let v4 = listen(Domain::IPV4, Ipv4Addr::LOCALHOST.into())?;
        let v6 = match listen(Domain::IPV6, Ipv6Addr::LOCALHOST.into()) {
            Ok(listener) => Some(listener),
            // Without IPv6 there are no clients that would need it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT)) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { v4, v6 })
    }

    /// Returns the ports as they are announced.
    pub(super) fn ports(&self) -> io::Result<Listener> {
        let v6 = self.v6.as_ref().map(Opened::local_addr).transpose()?;
        Ok(Listener::new(self.v4.local_addr()?.port(), v6.map_or(0, |address| address.port())))
    }
}

/// Without it nothing reaches a listener, though it can be opened.
fn loopback_is_up() -> io::Result<bool> {
    let mut interfaces = getifaddrs()?;
    Ok(interfaces.any(|interface| interface.flags.contains(InterfaceFlags::IFF_LOOPBACK | InterfaceFlags::IFF_UP)))
}

fn listen(domain: Domain, address: IpAddr) -> io::Result<Opened> {
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    if address.is_ipv4() {
        socket.bind_device(Some(LOOPBACK))?;
    }
    socket.bind(&SocketAddr::new(address, 0).into())?;
    // Accepted sockets inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until the phase ends, and stays until those it accepted are over.
pub(super) async fn run(
    shared: Arc<Shared>,
    door: Door,
    pair: Pair,
    ports: Listener,
    mut phase: watch::Receiver<Phase>,
) -> io::Result<()> {
    let v4 = TcpListener::from_std(pair.v4)?;
    let v6 = pair.v6.map(TcpListener::from_std).transpose()?;
    let mut abort = shared.abort.subscribe();
    let mut connections = JoinSet::new();
    let accept = async || {
        let (port, accepted) = tokio::select! {
            accepted = v4.accept() => (ports.port_v4, accepted),
            accepted = accept_v6(v6.as_ref()) => (ports.port_v6, accepted),
        };
        match accepted {
            Ok((stream, client)) => serve::take(&shared, &door, port, client, stream),
            Err(error) => {
                pause_after(&shared, &error, &v4, v6.as_ref()).await;
                None
            }
        }
    };
    let serve = |arrived: Arrived| arrived.serve(Arc::clone(&shared), door.clone());
    loop {
        tokio::select! {
            arrived = accept() => drop(arrived.map(|arrived| connections.spawn(serve(arrived)))),
            // A task's memory is freed when its end is seen.
            Some(_) = connections.join_next() => {}
            _ = phase.wait_for(|phase| *phase == Phase::Withdrawn) => break,
        }
    }
    // Strangers must not keep it open: the time is over however many come.
    let late = Instant::now() + LATE;
    while let Ok(arrived) = timeout_at(late, accept()).await {
        drop(arrived.map(|arrived| connections.spawn(serve(arrived))));
        if Instant::now() >= late {
            break;
        }
    }
    drop((v4, v6));
    let aborted = tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => false,
        _ = abort.wait_for(|abort| *abort) => true,
    };
    if aborted {
        connections.shutdown().await;
    }
    Ok(())
}

async fn accept_v6(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Without file descriptors, resets one connection of each queue so that its client need not wait.
async fn pause_after(shared: &Shared, error: &io::Error, v4: &TcpListener, v6: Option<&TcpListener>) {
    if !are_out(error) {
        // The client has gone before it was accepted.
        tracing::debug!(%error, "a connection was not accepted");
        return;
    }
    tracing::warn!(%error, "connections are refused: raise the limit on open files");
    shared.spare.lend(|| {
        for listener in std::iter::once(v4).chain(v6) {
            if let Ok((socket, _)) = SockRef::from(listener).accept() {
                shared.metrics.refused();
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
        }
    });
    sleep(PAUSE).await;
}
