//! Connects to the backend, in the client's network namespace and from the client's address.
//!
//! Leg and endpoint are chosen by the connect hook, which finds the wish under the socket's cookie.

use super::{Shared, files::are_out, maps::Chosen, peer::Peer};
use crate::netns;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    num::NonZeroU32,
    os::fd::AsFd as _,
    time::Duration,
};
use tokio::{io::Interest, net::TcpStream, time::timeout};
use weir_common::{
    abi::{ids::StatsId, socket::SocketRecord, tls::Dial},
    addr::Family,
    reason::Reason,
};

/// How much later than the kernel we give up, so that it is the kernel that sees the failure.
const GRACE: Duration = Duration::from_millis(500);

/// Where the backend's connection comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Cookie of the client's network namespace.
    pub(super) netns: u64,
    /// Of what the client dialled.
    pub(super) family: Family,
    /// The client's address: a loopback address if the client chose none.
    pub(super) client: IpAddr,
    /// The interface that the client's socket was bound to.
    pub(super) device: Option<NonZeroU32>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Failed {
    /// The hook refused it, and has counted that.
    Rejected,
    /// There may be no more sockets, or there are none.
    Full,
    /// Two endpoints did not answer, or one for want of a second; to be counted there.
    Unreachable(Option<StatsId>, io::Error),
}

/// Connects, with a second try on another endpoint of the same leg.
pub(super) async fn dial(shared: &Shared, source: Source, chosen: &Chosen) -> Result<Peer, Failed> {
    let slot = shared.slots.take().ok_or(Failed::Full)?;
    let record = match attempt(shared, source, Dial::split(chosen.split)).await {
        Ok(stream) => return Ok(Peer::new(stream, slot)),
        Err(failure) => failure.seen()?,
    };
    shared.metrics.retried();
    let again = Dial::leg(chosen.split, record.leg_index, record.endpoint);
    match attempt(shared, source, again).await {
        Ok(stream) => Ok(Peer::new(stream, slot)),
        Err(failure) => Err(match failure.seen() {
            Ok(record) => Failed::Unreachable(Some(record.leg_stats), failure.error),
            Err(failed) => failed,
        }),
    }
}

/// Has a rejection counted by the kernel. Reaches nobody.
pub(super) fn count_rejection(shared: &Shared, stats: StatsId, reason: Reason) {
    shared.metrics.rejected(reason);
    let dial = Dial::reject(stats, reason);
    let count = || -> io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
        // An error is what is asked for.
        let _ = wish(shared, &socket, Family::V4, dial);
        Ok(())
    };
    if let Err(error) = count() {
        tracing::debug!(%error, "a rejection was not counted");
    }
}

/// A connect that failed.
struct Failure {
    error: io::Error,
    record: Option<SocketRecord>,
}

impl Failure {
    const fn early(error: io::Error) -> Self {
        Self { error, record: None }
    }

    /// Returns the endpoint that did not answer.
    fn seen(&self) -> Result<SocketRecord, Failed> {
        match self.record {
            Some(record) => Ok(record),
            None if self.error.kind() == io::ErrorKind::ConnectionRefused => Err(Failed::Rejected),
            None if are_out(&self.error) => Err(Failed::Full),
            None => Err(Failed::Unreachable(None, io::Error::new(self.error.kind(), self.error.to_string()))),
        }
    }
}

async fn attempt(shared: &Shared, source: Source, dial: Dial) -> Result<TcpStream, Failure> {
    let limit = shared.options.connect_timeout;
    let opened = shared.registry.enter(source.netns, move || open(source, limit)).await;
    let socket = opened.unwrap_or_else(|error| Err(not_entered(&error))).map_err(Failure::early)?;
    let started = wish(shared, &socket, source.family, dial);
    let stream = TcpStream::from_std(socket.into()).map_err(Failure::early)?;
    let connected = async {
        match started {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            Ok(()) | Err(_) => wait(&stream).await,
        }
    };
    let result = timeout(limit + GRACE, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if let Err(error) = result {
        return Err(Failure { error, record: shared.maps.socket_record(stream.as_fd()).ok().flatten() });
    }
    // It was for the connect only: afterwards a slow reader is no failure.
    SockRef::from(&stream).set_tcp_user_timeout(None).map_err(Failure::early)?;
    Ok(stream)
}

fn not_entered(error: &netns::Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// Begins the connect. The hook reads the wish inside connect(), so it is taken back right behind it.
fn wish(shared: &Shared, socket: &Socket, family: Family, dial: Dial) -> io::Result<()> {
    let cookie = socket.cookie()?;
    shared.maps.set_dial(cookie, dial).map_err(io::Error::other)?;
    let started = socket.connect(&shared.connector.target(family, &dial).into());
    shared.maps.remove_dial(cookie);
    started
}

/// Makes the socket; runs inside the client's namespace.
fn open(source: Source, limit: Duration) -> io::Result<Socket> {
    let domain = match source.family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(limit))?;
    match source.family {
        Family::V4 => socket.bind_device_by_index_v4(source.device)?,
        Family::V6 => socket.bind_device_by_index_v6(source.device)?,
    }
    if !source.client.is_loopback() {
        // The port is chosen by connect(), for which only address and peer together must be unique.
        setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind(&source_address(source).into())?;
    }
    Ok(socket)
}

fn source_address(source: Source) -> SocketAddr {
    match source.client {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, 0, 0, source.device.map_or(0, NonZeroU32::get)).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(source.client, 0),
    }
}

/// Waits until a connect has come to an end.
async fn wait(stream: &TcpStream) -> io::Result<()> {
    loop {
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        let connected = stream.try_io(Interest::WRITABLE, || match SockRef::from(stream).peer_addr() {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
            result => result.map(drop),
        });
        match connected {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}
