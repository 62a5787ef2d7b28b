//! connect() and getpeername(): the destination is replaced before the SYN, and stays hidden.

use crate::{count, env::Kernel, health, maps::SOCKETS};
use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, bpf_set_retval},
    programs::SockAddrContext,
};
use core::ptr;
use weir_common::{
    abi::{
        ids::StatsId,
        socket::{Hello, Path, SocketRecord, Stage, TlsRecord},
        stats::{Counter, EventKind, RejectKey},
        tables::{FrontendKey, TCP},
    },
    addr::Address,
    decide::{Forward, Pass, Verdict, decide},
    reason::Reason,
};

/// Return values of a cgroup sock_addr program.
const DENY: i32 = 0;
const ALLOW: i32 = 1;
const ECONNREFUSED: i32 = 111;

/// The parts of the context that differ between IPv4 and IPv6.
pub(crate) trait Peer {
    fn ctx(&self) -> &SockAddrContext;
    fn address(&self) -> Address;
    fn set_address(&self, address: Address);

    #[inline(always)]
    fn port(&self) -> u16 {
        // SAFETY: the context is valid while the program runs. The port is big-endian in a word.
        u16::from_be(unsafe { (*self.ctx().sock_addr).user_port } as u16)
    }

    #[inline(always)]
    fn set_port(&self, port: u16) {
        // SAFETY: as above.
        unsafe { (*self.ctx().sock_addr).user_port = u32::from(port.to_be()) }
    }
}

/// An IPv4 socket's call.
pub(crate) struct V4<'a>(pub(crate) &'a SockAddrContext);

impl Peer for V4<'_> {
    #[inline(always)]
    fn ctx(&self) -> &SockAddrContext {
        self.0
    }

    #[inline(always)]
    fn address(&self) -> Address {
        // SAFETY: the context is valid while the program runs.
        Address::from_v4_octets(unsafe { (*self.0.sock_addr).user_ip4 }.to_ne_bytes())
    }

    #[inline(always)]
    fn set_address(&self, address: Address) {
        // SAFETY: as above.
        unsafe { (*self.0.sock_addr).user_ip4 = u32::from_ne_bytes(address.v4_octets()) }
    }
}

/// An IPv6 socket's call.
pub(crate) struct V6<'a>(pub(crate) &'a SockAddrContext);

impl Peer for V6<'_> {
    #[inline(always)]
    fn ctx(&self) -> &SockAddrContext {
        self.0
    }

    #[inline(always)]
    fn address(&self) -> Address {
        let ctx = self.0.sock_addr;
        // SAFETY: the context is valid while the program runs. Volatile, so that the compiler keeps to
        // the loads of single words, at constant offsets, that the verifier allows.
        let words = unsafe {
            [
                ptr::read_volatile(&raw const (*ctx).user_ip6[0]),
                ptr::read_volatile(&raw const (*ctx).user_ip6[1]),
                ptr::read_volatile(&raw const (*ctx).user_ip6[2]),
                ptr::read_volatile(&raw const (*ctx).user_ip6[3]),
            ]
        };
        Address::from_v6_words(words)
    }

    #[inline(always)]
    fn set_address(&self, address: Address) {
        let ctx = self.0.sock_addr;
        let words = address.v6_words();
        // SAFETY: as above.
        unsafe {
            ptr::write_volatile(&raw mut (*ctx).user_ip6[0], words[0]);
            ptr::write_volatile(&raw mut (*ctx).user_ip6[1], words[1]);
            ptr::write_volatile(&raw mut (*ctx).user_ip6[2], words[2]);
            ptr::write_volatile(&raw mut (*ctx).user_ip6[3], words[3]);
        }
    }
}

/// Decides one connect().
#[inline(always)]
pub(crate) fn connect<P: Peer>(peer: &P) -> i32 {
    // SAFETY: the context is valid while the program runs.
    if unsafe { (*peer.ctx().sock_addr).protocol } != u32::from(TCP) {
        return ALLOW;
    }
    let key = FrontendKey::tcp(peer.address(), peer.port());
    let env = Kernel(peer.ctx());
    match decide(&env, &key) {
        Verdict::Pass(Pass::NotFrontend | Pass::NotForThisClient) => ALLOW,
        Verdict::Pass(Pass::AgentLost) => {
            count::event(Counter::Bypassed);
            ALLOW
        }
        Verdict::Forward(forward) => {
            #[cfg(feature = "log")]
            aya_log_ebpf::debug!(
                peer.ctx(),
                "port {} goes to port {} of endpoint {:x}",
                key.port,
                forward.endpoint.port,
                forward.endpoint.id.0
            );
            redirect(peer, &key, &forward);
            ALLOW
        }
        Verdict::Accept(accept) => {
            count_reject(accept.route_stats, Reason::NoAcceptor);
            DENY
        }
        Verdict::Reject(reject) => {
            count_reject(reject.stats, reject.reason);
            // SAFETY: the helper has no preconditions.
            unsafe { bpf_set_retval(-ECONNREFUSED) };
            DENY
        }
    }
}

#[inline(always)]
fn count_reject(stats: StatsId, reason: Reason) {
    count::reject(RejectKey::new(stats, reason));
    if reason == Reason::TableMiss {
        count::event(Counter::TableMiss);
    }
    count::tell(EventKind::Rejected, stats, reason as u64);
}

#[inline(always)]
fn redirect<P: Peer>(peer: &P, key: &FrontendKey, forward: &Forward<'_>) {
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    let endpoint = forward.endpoint;
    let mut record = SocketRecord {
        frontend_address: key.address,
        endpoint_address: endpoint.address,
        leg_stats: forward.leg,
        backend: forward.backend,
        endpoint: endpoint.id,
        started_ns: now,
        opened_ns: 0,
        frontend_port: key.port,
        endpoint_port: endpoint.port,
        n_endpoints: forward.n_endpoints,
        stage: Stage::Chosen as u8,
        suspect: u8::from(health::is_suspect(forward)),
        path: Path::Direct as u8,
        hello: Hello::None as u8,
        leg_index: forward.leg_index,
        reason: 0,
        reserved: [0; 2],
        tls: TlsRecord::default(),
    };
    // SAFETY: the socket of this context. A socket that connects again keeps its old record, so the
    // record is written in any case.
    let stored = unsafe { SOCKETS.get_or_insert_ptr_mut(peer.ctx(), Some(&mut record)) };
    if stored.is_null() {
        count::event(Counter::NoSocketRecord);
    } else {
        // SAFETY: not null, and owned by this socket, which connect() holds locked.
        unsafe { *stored = record };
    }
    if let Some(stats) = count::leg(forward.leg) {
        // SAFETY: a live per-CPU value; only this CPU writes it.
        unsafe { (*stats).stats.forwarded += 1 };
    }
    health::chosen(forward, now);
    peer.set_address(endpoint.address);
    peer.set_port(endpoint.port);
}

/// Shows the frontend as the peer of a connection that was sent to an endpoint.
#[inline(always)]
pub(crate) fn getpeername<P: Peer>(peer: &P) -> i32 {
    // SAFETY: the socket of this context.
    let record = unsafe { SOCKETS.get_ptr_mut(peer.ctx()) };
    if record.is_null() {
        return ALLOW;
    }
    // SAFETY: not null, and owned by this socket.
    let record = unsafe { &*record };
    // A socket may have connected elsewhere since: then its peer is not the endpoint of the record.
    if record.endpoint_port == peer.port() && record.endpoint_address == peer.address() {
        peer.set_address(record.frontend_address);
        peer.set_port(record.frontend_port);
    }
    ALLOW
}
