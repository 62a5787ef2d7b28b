//! Connections to the acceptor: as the SYN leaves, the agent is told what the connect hook knew.

use crate::{count, maps::ACCEPTS, sock::count_reject, sockops::remote_port};
use aya_ebpf::{
    bindings::{BPF_ANY, bpf_sock_ops},
    programs::SockOpsContext,
};
use core::ptr;
use weir_common::{
    abi::{
        ids::FrontendId,
        socket::{SocketRecord, Stage},
        stats::Counter,
        tls::{AcceptKey, AcceptRecord},
    },
    addr::Address,
    reason::Reason,
};

const AF_INET: u32 = 2;

/// Tells the agent of a connection before its first packet leaves.
#[inline(always)]
pub(crate) fn announce(ctx: &SockOpsContext, record: &SocketRecord) {
    let value = AcceptRecord {
        frontend_address: record.frontend_address,
        frontend: FrontendId(record.tls.frontend),
        namespace: record.tls.namespace,
        route_stats: record.tls.route_stats,
        started_ns: record.started_ns,
        device: record.tls.device,
        frontend_port: record.frontend_port,
        reserved: 0,
    };
    if ACCEPTS.insert(key(ctx, record), value, BPF_ANY.into()).is_err() {
        count::event(Counter::NoRoom);
    }
}

/// Takes it back when the client's socket closes; the agent has taken it long before, unless it is gone.
#[inline(always)]
pub(crate) fn withdraw(ctx: &SockOpsContext, record: &SocketRecord, stage: u8) {
    let _ = ACCEPTS.remove(key(ctx, record));
    if stage == Stage::Connecting as u8 {
        // Nobody listens any more.
        count_reject(record.tls.route_stats, Reason::NoAcceptor);
    }
}

#[inline(always)]
fn key(ctx: &SockOpsContext, record: &SocketRecord) -> AcceptKey {
    AcceptKey::new(record.tls.netns, local_address(ctx), ctx.local_port() as u16, remote_port(ctx))
}

#[inline(always)]
fn local_address(ctx: &SockOpsContext) -> Address {
    if ctx.family() == AF_INET {
        return Address::from_v4_octets(ctx.local_ip4().to_ne_bytes());
    }
    let ops: *const bpf_sock_ops = ctx.ops;
    // SAFETY: the context is valid while the program runs; word by word, as the verifier wants.
    let words = unsafe {
        [
            ptr::read_volatile(&raw const (*ops).local_ip6[0]),
            ptr::read_volatile(&raw const (*ops).local_ip6[1]),
            ptr::read_volatile(&raw const (*ops).local_ip6[2]),
            ptr::read_volatile(&raw const (*ops).local_ip6[3]),
        ]
    };
    Address::from_v6_words(words)
}
