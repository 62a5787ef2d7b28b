//! connect() and getpeername(): the destination is replaced before the SYN, and stays hidden.

use crate::{
    count,
    env::Kernel,
    health,
    maps::{DIALS, LISTENERS, SOCKETS},
    request,
};
use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_netns_cookie, bpf_get_socket_cookie, bpf_ktime_get_ns, bpf_set_retval, generated::bpf_setsockopt,
    },
    programs::SockAddrContext,
};
use core::ptr;
use weir_common::{
    abi::{
        ids::{BackendStateId, EndpointId, NamespaceId, StatsId},
        socket::{Hello, Path, SocketRecord, Stage, TlsRecord},
        stats::{Counter, EventKind, RejectKey},
        tables::{FrontendKey, TCP},
        tls::{DIAL_PORT, DIAL_V4, DIAL_V6},
    },
    addr::Address,
    decide::{self, Accept, Forward, Pass, Verdict},
    reason::Reason,
};

/// Return values of a cgroup sock_addr program.
const DENY: i32 = 0;
const ALLOW: i32 = 1;
const ECONNREFUSED: i32 = 111;

const SOL_SOCKET: i32 = 1;
const SO_BINDTOIFINDEX: i32 = 62;

const LOOPBACK_V4: Address = Address::from_v4_octets([127, 0, 0, 1]);
const LOOPBACK_V6: Address = Address::from_v6_octets([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The parts of the context that differ between IPv4 and IPv6.
pub(crate) trait Peer {
    fn ctx(&self) -> &SockAddrContext;
    fn address(&self) -> Address;
    fn set_address(&self, address: Address);
    /// What the acceptor dials.
    const DIAL: Address;

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
    const DIAL: Address = Address::from_v4_octets(DIAL_V4.octets());

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
    const DIAL: Address = Address::from_v6_octets(DIAL_V6.octets());

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
    match decide::decide(&env, &key) {
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
            redirect(peer, &key, &forward)
        }
        Verdict::Accept(accept) => to_acceptor(peer, &key, &accept),
        Verdict::Reject(reject) => refuse(reject.stats, reject.reason),
    }
}

/// Decides one connect() of the acceptor: to the dummy address that it dials to have a choice made.
#[inline(always)]
pub(crate) fn dial<P: Peer>(peer: &P) -> i32 {
    let key = FrontendKey::tcp(peer.address(), peer.port());
    if key.port != DIAL_PORT || key.address != P::DIAL {
        return ALLOW;
    }
    // SAFETY: the context is the one this program was called with.
    let cookie = unsafe { bpf_get_socket_cookie(peer.ctx().as_ptr()) };
    // SAFETY: entries are replaced, never changed in place.
    let Some(wanted) = (unsafe { DIALS.get(cookie) }) else { return ALLOW };
    let env = Kernel(peer.ctx());
    match decide::dial(&env, wanted) {
        Verdict::Forward(forward) => redirect(peer, &key, &forward),
        Verdict::Reject(reject) => refuse(reject.stats, reject.reason),
        // No dial has these outcomes.
        Verdict::Pass(_) | Verdict::Accept(_) => ALLOW,
    }
}

#[inline(always)]
fn refuse(stats: StatsId, reason: Reason) -> i32 {
    count_reject(stats, reason);
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_set_retval(-ECONNREFUSED) };
    DENY
}

/// Sends a connection to the acceptor's listener in the client's own network namespace.
#[inline(always)]
fn to_acceptor<P: Peer>(peer: &P, key: &FrontendKey, accept: &Accept) -> i32 {
    let netns = netns(peer.ctx());
    let v4 = key.address.is_v4();
    // SAFETY: entries are replaced, never changed in place.
    let listener = unsafe { LISTENERS.get(netns) };
    let port = listener.map_or(0, |listener| if v4 { listener.port_v4 } else { listener.port_v6 });
    if port == 0 {
        request::listen(netns);
        return refuse(accept.route_stats, Reason::NoAcceptor);
    }
    let address = if v4 { LOOPBACK_V4 } else { LOOPBACK_V6 };
    let mut record = SocketRecord {
        frontend_address: key.address,
        endpoint_address: address,
        leg_stats: StatsId(0),
        backend: BackendStateId(0),
        endpoint: EndpointId(0),
        // SAFETY: the helper has no preconditions.
        started_ns: unsafe { bpf_ktime_get_ns() },
        opened_ns: 0,
        frontend_port: key.port,
        endpoint_port: port,
        n_endpoints: 0,
        stage: Stage::Chosen as u8,
        suspect: 0,
        path: Path::Accept as u8,
        hello: Hello::None as u8,
        leg_index: 0,
        reason: 0,
        reserved: [0; 2],
        tls: TlsRecord {
            frontend: accept.frontend.0,
            namespace: accept.namespace.unwrap_or(NamespaceId(0)),
            route_stats: accept.route_stats,
            netns,
            pid: request::pid(),
            device: unbind(peer.ctx()),
            ..TlsRecord::default()
        },
    };
    if !remember(peer.ctx(), &mut record) {
        return refuse(accept.route_stats, Reason::NoAcceptor);
    }
    peer.set_address(address);
    peer.set_port(port);
    ALLOW
}

/// Takes the socket off the device that it is bound to, since the listener is on another: lo. Returns the
/// device, to which the acceptor binds the connection to the backend; 0 if there is none.
#[inline(always)]
fn unbind(ctx: &SockAddrContext) -> u32 {
    // SAFETY: the context and its socket are valid while the program runs.
    unsafe {
        let socket = (*ctx.sock_addr).__bindgen_anon_1.sk;
        let device = if socket.is_null() { 0 } else { (*socket).bound_dev_if };
        if device != 0 {
            let mut none = 0_i32;
            bpf_setsockopt(ctx.as_ptr(), SOL_SOCKET, SO_BINDTOIFINDEX, (&raw mut none).cast(), 4);
        }
        device
    }
}

#[inline(always)]
fn netns(ctx: &SockAddrContext) -> u64 {
    // SAFETY: the context is the one this program was called with.
    unsafe { bpf_get_netns_cookie(ctx.as_ptr()) }
}

/// Writes the record of a socket; whether there was memory for it.
#[inline(always)]
fn remember(ctx: &SockAddrContext, record: &mut SocketRecord) -> bool {
    // SAFETY: the socket of this context. A socket that connects again keeps its old record, so the
    // record is written in any case.
    let stored = unsafe { SOCKETS.get_or_insert_ptr_mut(ctx, Some(record)) };
    if stored.is_null() {
        count::event(Counter::NoSocketRecord);
        return false;
    }
    // SAFETY: not null, and owned by this socket, which connect() holds locked.
    unsafe { *stored = *record };
    true
}

#[inline(always)]
pub(crate) fn count_reject(stats: StatsId, reason: Reason) {
    count::reject(RejectKey::new(stats, reason));
    if reason == Reason::TableMiss {
        count::event(Counter::TableMiss);
    }
    count::tell(EventKind::Rejected, stats, reason as u64);
}

#[inline(always)]
fn redirect<P: Peer>(peer: &P, key: &FrontendKey, forward: &Forward<'_>) -> i32 {
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
    match forward.verify {
        None => {
            remember(peer.ctx(), &mut record);
            if let Some(stats) = count::leg(forward.leg) {
                // SAFETY: a live per-CPU value; only this CPU writes it.
                unsafe { (*stats).stats.forwarded += 1 };
            }
        }
        Some(verify) => {
            // Counted once the name is known: it may select another route.
            record.path = Path::Verify as u8;
            record.hello = Hello::Pending as u8;
            record.tls = TlsRecord {
                names: verify.names,
                split: verify.split,
                route_stats: verify.route_stats,
                netns: netns(peer.ctx()),
                pid: request::pid(),
                ..TlsRecord::default()
            };
            // Without a record the hello could not be verified.
            if !remember(peer.ctx(), &mut record) {
                return refuse(verify.route_stats, Reason::NoAcceptor);
            }
        }
    }
    health::chosen(forward, now);
    peer.set_address(endpoint.address);
    peer.set_port(endpoint.port);
    ALLOW
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
