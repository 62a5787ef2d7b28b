//! Ends connections of other processes: SOCK_DESTROY of sock_diag(7), in the network namespace of the
//! socket. Its process learns it by ECONNABORTED, the peer by a reset.

use crate::netns::Registry;
use anyhow::Context as _;
use nix::sys::{
    socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket},
    time::TimeVal,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};
use weir_common::{abi::tls::SocketRequest, addr::Address};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was ended.
    Destroyed,
    /// There is none any more.
    Gone,
}

/// Ends connections, with one netlink socket in each namespace where there were any.
pub(super) struct Destroyer {
    registry: Arc<Registry>,
    /// By the cookies of the namespaces. An open socket keeps its namespace alive.
    sockets: BTreeMap<u64, OwnedFd>,
}

impl Destroyer {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, sockets: BTreeMap::new() }
    }

    /// Lets go of the namespaces that are not among `cookies`.
    pub(super) fn keep(&mut self, cookies: &BTreeSet<u64>) {
        self.sockets.retain(|cookie, _| cookies.contains(cookie));
    }

    /// Ends the connection that a request names.
    pub(super) async fn destroy(&mut self, request: &SocketRequest) -> anyhow::Result<Outcome> {
        if !self.sockets.contains_key(&request.netns) {
            let opened = match self.registry.enter(request.netns, open).await {
                Ok(opened) => opened,
                // It is new: its process leads to it.
                Err(_) => {
                    self.registry.look_at(request.pid).await;
                    self.registry.enter(request.netns, open).await?
                }
            };
            self.sockets.insert(request.netns, opened.context("cannot open a socket for sock_diag")?);
        }
        let Some(socket) = self.sockets.get(&request.netns) else { anyhow::bail!("no socket for sock_diag") };
        let outcome = ask(socket, &Question::about(request));
        if outcome.is_err() {
            // A fresh socket next time: an answer that comes late must not be taken for another's.
            self.sockets.remove(&request.netns);
        }
        outcome.context("sock_diag refused")
    }
}

/// Whether the kernel can end connections at all: a listener of our own is ended. Without the handler for
/// TCP the kernel answers as if there were no such socket, so only a socket that is there proves anything.
///
/// # Errors
///
/// What is missing, as a phrase after "this kernel".
pub fn probe() -> Result<(), String> {
    let outcome = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        let request = SocketRequest {
            cookie: NO_COOKIE,
            client: Ipv4Addr::LOCALHOST.into(),
            peer: Ipv4Addr::UNSPECIFIED.into(),
            client_port: listener.local_addr()?.port(),
            ..SocketRequest::default()
        };
        ask(&open()?, &Question::about(&request))
    });
    match outcome {
        Ok(Outcome::Destroyed) => Ok(()),
        Ok(Outcome::Gone) => Err("does not find sockets (CONFIG_INET_TCP_DIAG: load the module tcp_diag)".to_owned()),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Err("cannot end connections of other processes (CONFIG_INET_DIAG_DESTROY is not set)".to_owned())
        }
        Err(error) => Err(format!("cannot be asked to end connections (sock_diag: {error})")),
    }
}

/// INET_DIAG_NOCOOKIE: the socket with these addresses, whatever its cookie.
const NO_COOKIE: u64 = u64::MAX;

fn open() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    // The kernel answers within the call; this is against waiting for ever if it does not.
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::ReceiveTimeout, &TimeVal::new(1, 0))?;
    Ok(socket)
}

const SOCK_DESTROY: u16 = 21;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;

/// `struct nlmsghdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Header {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port: u32,
}

/// A `struct nlmsghdr` and a `struct inet_diag_req_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Question {
    header: Header,
    family: u8,
    protocol: u8,
    extensions: u8,
    padding: u8,
    states: u32,
    source_port: [u8; 2],
    peer_port: [u8; 2],
    source: [u8; 16],
    peer: [u8; 16],
    interface: u32,
    cookie: [u32; 2],
}

/// The beginning of a `struct nlmsgerr` with its header.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Answer {
    header: Header,
    error: i32,
}

impl Question {
    fn about(request: &SocketRequest) -> Self {
        let v4 = request.client.is_v4();
        Self {
            header: Header {
                len: size_of::<Self>() as u32,
                kind: SOCK_DESTROY,
                flags: NLM_F_REQUEST | NLM_F_ACK,
                sequence: 1,
                port: 0,
            },
            family: if v4 { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 },
            protocol: libc::IPPROTO_TCP as u8,
            extensions: 0,
            padding: 0,
            states: u32::MAX,
            source_port: request.client_port.to_be_bytes(),
            peer_port: request.peer_port.to_be_bytes(),
            source: words(request.client),
            peer: words(request.peer),
            interface: 0,
            cookie: [request.cookie as u32, (request.cookie >> 32) as u32],
        }
    }
}

/// Returns an address as sock_diag wants it: IPv4 in the first word.
fn words(address: Address) -> [u8; 16] {
    if !address.is_v4() {
        return address.octets();
    }
    let mut words = [0; 16];
    words[..4].copy_from_slice(&address.v4_octets());
    words
}

fn ask(socket: &OwnedFd, question: &Question) -> io::Result<Outcome> {
    send(socket.as_raw_fd(), question.as_bytes(), MsgFlags::empty())?;
    let mut buffer = [0; 1_024];
    let len = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
    match Answer::read_from_prefix(buffer.get(..len).unwrap_or_default()) {
        Ok((answer, _)) if answer.header.kind == NLMSG_ERROR => match -answer.error {
            0 => Ok(Outcome::Destroyed),
            libc::ENOENT => Ok(Outcome::Gone),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn questions_have_the_kernel_s_layout() {
        assert_eq!(size_of::<Question>(), 16 + 56);
    }

    #[test]
    fn a_connection_is_ended_at_both_ends() {
        if !weir_tests::privilege::is_root("ending connections") {
            return;
        }
        assert_eq!(probe(), Ok(()));
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).expect("a listener");
            let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
            let (server, _) = listener.accept().expect("a connection");
            let (own, peer) = (client.local_addr().expect("own"), client.peer_addr().expect("peer"));
            let request = SocketRequest {
                cookie: NO_COOKIE,
                client: own.ip().into(),
                peer: peer.ip().into(),
                client_port: own.port(),
                peer_port: peer.port(),
                ..SocketRequest::default()
            };
            let netlink = open().expect("a netlink socket");
            let other = SocketRequest { cookie: 1, ..request };
            assert_eq!(ask(&netlink, &Question::about(&other)).expect("an answer"), Outcome::Gone);
            assert_eq!(ask(&netlink, &Question::about(&request)).expect("an answer"), Outcome::Destroyed);
            let error = |stream: &TcpStream| io::Read::read(&mut &*stream, &mut [0]).expect_err("no data").kind();
            assert_eq!(error(&client), io::ErrorKind::ConnectionAborted);
            assert_eq!(error(&server), io::ErrorKind::ConnectionReset);
        }
    }
}
