//! The life of a connection that the connect hook chose: SYN, handshake, end.
//!
//! Foreign sockets leave after one comparison of the callback's number, or one look-up when they
//! send a SYN.

use crate::{
    accept, count, health,
    maps::{HEARTBEAT, SETTINGS, SOCKETS},
};
use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_RTT_CB, BPF_SOCK_OPS_RTT_CB_FLAG, BPF_SOCK_OPS_STATE_CB,
        BPF_SOCK_OPS_STATE_CB_FLAG, BPF_SOCK_OPS_TCP_CONNECT_CB, bpf_sock_ops,
    },
    helpers::{
        bpf_ktime_get_ns, bpf_probe_read_kernel,
        generated::{
            bpf_getsockopt, bpf_setsockopt, bpf_sk_storage_delete, bpf_sk_storage_get, bpf_skc_to_tcp_sock,
            bpf_sock_ops_cb_flags_set,
        },
    },
    programs::SockOpsContext,
};
use core::ptr;
use weir_common::{
    abi::{
        socket::{Hello, Path, SocketRecord, Stage, Transferred},
        stats::{ConnectFailure, Counter, Measure},
    },
    addr::Address,
};

const AF_INET: u32 = 2;
const IPPROTO_TCP: i32 = 6;
const TCP_USER_TIMEOUT: i32 = 18;

/// How long the agent must have been silent for connections to be hurried. It beats once a second.
const SILENT_NS: u64 = 2_500_000_000;
/// How long a rejected connection then waits; an odd number, to know it again.
const USER_TIMEOUT_MS: u32 = 4_999;

// States of a TCP socket (include/net/tcp_states.h), as the state callback's arguments give them.
const TCP_FIN_WAIT2: u32 = 5;
const TCP_TIME_WAIT: u32 = 6;
const TCP_CLOSE: u32 = 7;
const TCP_LAST_ACK: u32 = 9;

/// Bit of `sk_flags` that a received FIN sets (`enum sock_flags`, include/net/sock.h).
const SOCK_DONE: u64 = 1 << 1;

/// Follows one callback.
#[inline(always)]
pub(crate) fn observe(ctx: &SockOpsContext) {
    match ctx.op() {
        BPF_SOCK_OPS_TCP_CONNECT_CB => on_syn(ctx),
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB => on_established(ctx),
        BPF_SOCK_OPS_STATE_CB => on_state(ctx),
        BPF_SOCK_OPS_RTT_CB => on_round_trip(ctx),
        _ => {}
    }
}

#[inline(always)]
fn on_syn(ctx: &SockOpsContext) {
    let Some(record) = record(ctx) else { return };
    // The socket may have been sent to an endpoint once and now connects elsewhere.
    if record.endpoint_port != remote_port(ctx) || record.endpoint_address != remote_address(ctx) {
        forget(ctx);
        return;
    }
    record.stage = Stage::Connecting as u8;
    // SAFETY: the context is valid while the program runs.
    unsafe { bpf_sock_ops_cb_flags_set(ctx.ops, BPF_SOCK_OPS_STATE_CB_FLAG as i32) };
    if record.path == Path::Accept as u8 {
        accept::announce(ctx, record);
        return;
    }
    if record.awaits_hello() {
        count::event(Counter::VerifyBegan);
        if agent_is_silent() {
            hurry(ctx, record);
        }
    }
    health::syn_sent(record);
}

/// Whether the agent, which ends rejected connections, has given no sign of life for a while.
#[inline(always)]
fn agent_is_silent() -> bool {
    HEARTBEAT.get(0).is_some_and(|heartbeat| now_ns().saturating_sub(heartbeat.last_ns) > SILENT_NS)
}

/// Bounds the time that a rejected connection waits for an agent that is not there: its hello is dropped,
/// so for TCP it is data that nobody acknowledges.
#[inline(always)]
fn hurry(ctx: &SockOpsContext, record: &mut SocketRecord) {
    let (mut own, mut short) = (0_u32, USER_TIMEOUT_MS);
    // SAFETY: the context is valid while the program runs, and both words are on the stack.
    unsafe {
        let (own, short) = ((&raw mut own).cast(), (&raw mut short).cast());
        if bpf_getsockopt(ctx.ops.cast(), IPPROTO_TCP, TCP_USER_TIMEOUT, own, 4) != 0
            || bpf_setsockopt(ctx.ops.cast(), IPPROTO_TCP, TCP_USER_TIMEOUT, short, 4) != 0
        {
            return;
        }
        let flags = BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTT_CB_FLAG;
        bpf_sock_ops_cb_flags_set(ctx.ops, flags as i32);
    }
    record.tls.user_timeout = own;
    record.tls.hurried = 1;
}

/// Something was acknowledged: if that was a hello that may pass, the socket gets its own timeout back.
#[inline(always)]
fn on_round_trip(ctx: &SockOpsContext) {
    let Some(record) = record(ctx) else { return };
    if record.tls.hurried == 0 || record.hello != Hello::Verified as u8 {
        return;
    }
    record.tls.hurried = 0;
    let (mut own, mut now) = (record.tls.user_timeout, 0_u32);
    // SAFETY: as in `hurry`.
    unsafe {
        bpf_sock_ops_cb_flags_set(ctx.ops, BPF_SOCK_OPS_STATE_CB_FLAG as i32);
        bpf_getsockopt(ctx.ops.cast(), IPPROTO_TCP, TCP_USER_TIMEOUT, (&raw mut now).cast(), 4);
        // The program may have set another one meanwhile.
        if now == USER_TIMEOUT_MS {
            bpf_setsockopt(ctx.ops.cast(), IPPROTO_TCP, TCP_USER_TIMEOUT, (&raw mut own).cast(), 4);
        }
    }
}

#[inline(always)]
fn on_established(ctx: &SockOpsContext) {
    let Some(record) = record(ctx) else { return };
    if record.stage != Stage::Connecting as u8 {
        return;
    }
    let now = now_ns();
    record.stage = Stage::Open as u8;
    record.opened_ns = now;
    if record.path == Path::Accept as u8 {
        return;
    }
    if record.path == Path::Verify as u8 {
        // Counted under the leg of the route that the name selects; with TCP fast open it is known by now.
        if record.hello == Hello::Verified as u8 {
            count::settled(record);
        }
        health::opened(record);
        return;
    }
    let latency = now.saturating_sub(record.started_ns);
    if let Some(leg) = count::leg(record.leg_stats) {
        // SAFETY: a live per-CPU value; only this CPU writes it.
        unsafe {
            (*leg).stats.attempted += 1;
            (*leg).stats.opened += 1;
            (*leg).stats.connect_ns += latency;
            (*leg).times[Measure::ConnectLatency as usize].count(latency);
        }
    }
    health::opened(record);
}

#[inline(always)]
fn on_state(ctx: &SockOpsContext) {
    let (old, new) = (ctx.arg(0), ctx.arg(1));
    if new == TCP_CLOSE
        && let Some(record) = record(ctx)
    {
        on_close(ctx, record, old);
    }
}

#[inline(always)]
fn on_close(ctx: &SockOpsContext, record: &mut SocketRecord, old: u32) {
    let stage = record.stage;
    record.stage = Stage::Done as u8;
    if record.path == Path::Accept as u8 {
        accept::withdraw(ctx, record, stage);
        return;
    }
    if record.awaits_hello() {
        count::event(Counter::VerifyEnded);
        if stage == Stage::Open as u8 {
            // It never said what it wanted, so it counts as the first route's.
            count::settled(record);
        }
    }
    if record.hello == Hello::Rejected as u8 {
        // Counted as rejected; the endpoint only has to know that it is gone.
        if stage != Stage::Chosen as u8 {
            health::closed(record);
        }
        return;
    }
    if stage == Stage::Connecting as u8 {
        let failure = ConnectFailure::from_errno(socket_error(ctx));
        if let Some(leg) = count::leg(record.leg_stats) {
            // SAFETY: a live per-CPU value; only this CPU writes it.
            let stats = unsafe { &mut (*leg).stats };
            stats.attempted += 1;
            if record.path == Path::Verify as u8 {
                stats.forwarded += 1;
            }
            if let Some(count) = stats.failed.get_mut(failure as usize) {
                *count += 1;
            }
        }
        health::closed(record);
        if failure.blames_endpoint() {
            health::failed(record, now_ns());
        }
    } else if stage == Stage::Open as u8 {
        let lifetime = now_ns().saturating_sub(record.opened_ns);
        // SAFETY: the context is valid while the program runs. srtt_us is in eighths (tcp.h).
        let rtt = u64::from(unsafe { (*ctx.ops).srtt_us } >> 3) * 1_000;
        let moved = transferred(ctx, old);
        if let Some(leg) = count::leg(record.leg_stats) {
            // SAFETY: a live per-CPU value; only this CPU writes it.
            let leg = unsafe { &mut *leg };
            leg.stats.closed += 1;
            leg.stats.lifetime_ns += lifetime;
            leg.stats.rtt_ns += rtt;
            leg.stats.transferred.sent += moved.sent;
            leg.stats.transferred.received += moved.received;
            leg.stats.transferred.retransmissions += moved.retransmissions;
            leg.times[Measure::Lifetime as usize].count(lifetime);
            leg.times[Measure::RoundTrip as usize].count(rtt);
        }
        health::closed(record);
    }
}

/// What the connection moved. TCP's own byte counts include one for SYN and FIN each.
#[inline(always)]
fn transferred(ctx: &SockOpsContext, old: u32) -> Transferred {
    // SAFETY: the context is valid while the program runs.
    let (acked, received, again) =
        unsafe { ((*ctx.ops).bytes_acked, (*ctx.ops).bytes_received, (*ctx.ops).total_retrans) };
    let fin_acked = matches!(old, TCP_FIN_WAIT2 | TCP_TIME_WAIT | TCP_LAST_ACK);
    Transferred {
        sent: acked.saturating_sub(1 + u64::from(fin_acked)),
        received: received.saturating_sub(u64::from(peer_closed(ctx))),
        retransmissions: u64::from(again),
    }
}

/// Reads the socket's error, 0 where its place in the kernel's structure is not known.
#[inline(always)]
fn socket_error(ctx: &SockOpsContext) -> u32 {
    SETTINGS.get(0).map_or(0, |settings| read_socket(ctx, settings.sock.err) as u32)
}

/// Whether the peer's FIN was received. The states do not tell in every order of packets.
#[inline(always)]
fn peer_closed(ctx: &SockOpsContext) -> bool {
    SETTINGS.get(0).is_some_and(|settings| read_socket(ctx, settings.sock.flags) & SOCK_DONE != 0)
}

/// Reads a word of the socket at an offset that the agent found; 0 where it is not known.
#[inline(always)]
fn read_socket(ctx: &SockOpsContext, offset: u32) -> u64 {
    if offset == 0 {
        return 0;
    }
    // SAFETY: the helper reads kernel memory into a local and fails on a bad address.
    unsafe {
        let socket = (*ctx.ops).__bindgen_anon_2.sk;
        if socket.is_null() {
            return 0;
        }
        // A socket of the context cannot be read at an offset; as a `struct tcp_sock` it can.
        let socket: *const u8 = bpf_skc_to_tcp_sock(socket.cast()).cast();
        if socket.is_null() {
            return 0;
        }
        bpf_probe_read_kernel(socket.wrapping_add(offset as usize).cast::<u64>()).unwrap_or(0)
    }
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: the helper has no preconditions.
    unsafe { bpf_ktime_get_ns() }
}

#[expect(clippy::mut_from_ref, reason = "the record is the socket's, the context only leads to it")]
#[inline(always)]
fn record(ctx: &SockOpsContext) -> Option<&mut SocketRecord> {
    // SAFETY: the socket is the one of this callback, which the kernel holds locked, so nobody else
    // has a reference to its record.
    unsafe {
        let socket = (*ctx.ops).__bindgen_anon_2.sk;
        if socket.is_null() {
            return None;
        }
        let record = bpf_sk_storage_get((&raw const SOCKETS).cast_mut().cast(), socket.cast(), ptr::null_mut(), 0);
        record.cast::<SocketRecord>().as_mut()
    }
}

#[inline(always)]
fn forget(ctx: &SockOpsContext) {
    // SAFETY: as in `record`.
    unsafe {
        let socket = (*ctx.ops).__bindgen_anon_2.sk;
        if !socket.is_null() {
            bpf_sk_storage_delete((&raw const SOCKETS).cast_mut().cast(), socket.cast());
        }
    }
}

#[inline(always)]
pub(crate) fn remote_port(ctx: &SockOpsContext) -> u16 {
    // The port is big-endian in the upper half of the word, unlike in other contexts (bpf.h).
    u16::from_be((ctx.remote_port() >> 16) as u16)
}

#[inline(always)]
pub(crate) fn remote_address(ctx: &SockOpsContext) -> Address {
    if ctx.family() == AF_INET {
        return Address::from_v4_octets(ctx.remote_ip4().to_ne_bytes());
    }
    // Word by word: the verifier allows no wider load here.
    let ops: *const bpf_sock_ops = ctx.ops;
    // SAFETY: the context is valid while the program runs.
    let words = unsafe {
        [
            ptr::read_volatile(&raw const (*ops).remote_ip6[0]),
            ptr::read_volatile(&raw const (*ops).remote_ip6[1]),
            ptr::read_volatile(&raw const (*ops).remote_ip6[2]),
            ptr::read_volatile(&raw const (*ops).remote_ip6[3]),
        ]
    };
    Address::from_v6_words(words)
}
