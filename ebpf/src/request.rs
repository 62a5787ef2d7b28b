//! Requests to the agent, by ring buffer: what only a process can do.

use crate::{count, maps::REQUESTS, packet::Packet};
use aya_ebpf::{
    EbpfContext,
    bindings::bpf_sock,
    helpers::{bpf_get_current_pid_tgid, bpf_get_socket_cookie, generated::bpf_probe_read_kernel},
    programs::SkBuffContext,
};
use core::{hint::black_box, ptr};
use weir_common::{
    abi::{
        maps::GATHER_BYTES,
        socket::SocketRecord,
        stats::Counter,
        tls::{Gathered, PIECE_BYTES, PieceRequest, RequestKind, SocketRequest},
    },
    addr::Address,
    hello::Bytes,
};

const AF_INET6: u32 = 10;

/// Most pieces of one packet: 64 KiB.
const MAX_PIECES: u32 = 16;

/// Returns the process that runs now.
#[inline(always)]
pub(crate) fn pid() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

/// Asks for a listener in the network namespace of a client.
#[inline(always)]
pub(crate) fn listen(netns: u64) {
    send(SocketRequest { kind: RequestKind::Listen as u32, pid: pid(), netns, ..SocketRequest::default() });
}

/// Asks to end a connection at both ends.
#[inline(always)]
pub(crate) fn abort(record: &SocketRecord, socket: &Socket) {
    send(describe(RequestKind::Abort, record, socket));
}

#[inline(always)]
fn send(request: SocketRequest) {
    match REQUESTS.reserve::<SocketRequest>(0) {
        Some(mut entry) => {
            entry.write(request);
            entry.submit(0);
        }
        None => count::event(Counter::RequestLost),
    }
}

/// A socket by what the agent finds it with.
#[derive(Clone, Copy)]
pub(crate) struct Socket {
    socket: *mut bpf_sock,
    cookie: u64,
    address: Address,
    port: u16,
}

impl Socket {
    /// Describes the full socket of a packet.
    #[inline(always)]
    pub(crate) fn of(ctx: &SkBuffContext, socket: *mut bpf_sock) -> Self {
        // SAFETY: a full socket, as the caller has checked; words are read one by one as the verifier wants.
        unsafe {
            let v4 = ptr::read_volatile(&raw const (*socket).src_ip4);
            let words = [
                ptr::read_volatile(&raw const (*socket).src_ip6[0]),
                ptr::read_volatile(&raw const (*socket).src_ip6[1]),
                ptr::read_volatile(&raw const (*socket).src_ip6[2]),
                ptr::read_volatile(&raw const (*socket).src_ip6[3]),
            ];
            let address = if ptr::read_volatile(&raw const (*socket).family) == AF_INET6 {
                Address::from_v6_words(words)
            } else {
                Address::from_v4_octets(v4.to_ne_bytes())
            };
            let port = ptr::read_volatile(&raw const (*socket).src_port) as u16;
            Self { socket, cookie: bpf_get_socket_cookie(ctx.as_ptr()), address, port }
        }
    }

    /// Returns the socket.
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut bpf_sock {
        self.socket
    }

    /// Returns the socket's cookie.
    #[inline(always)]
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }
}

#[inline(always)]
fn describe(kind: RequestKind, record: &SocketRecord, socket: &Socket) -> SocketRequest {
    SocketRequest {
        kind: kind as u32,
        pid: record.tls.pid,
        netns: record.tls.netns,
        cookie: socket.cookie,
        client: socket.address,
        peer: record.endpoint_address,
        client_port: socket.port,
        peer_port: record.endpoint_port,
        reason: u32::from(record.reason),
    }
}

/// Passes on the part of a hello that a packet holds, as far as the agent does not have it; `at` is the
/// packet's place in the stream.
#[inline(always)]
pub(crate) fn pieces(record: &mut SocketRecord, socket: &Socket, packet: &Packet, at: u32) {
    for _ in 0..MAX_PIECES {
        let from = told(record).wrapping_sub(at);
        // What comes before this packet was not told, if the ring buffer was full: TCP sends it again.
        if from >= packet.len() || !piece(record, socket, packet.len() - from, |to, len| packet.copy(from, to, len)) {
            return;
        }
    }
}

/// Passes on the pieces gathered so far.
#[inline(always)]
pub(crate) fn gathered(record: &mut SocketRecord, socket: &Socket, gathered: &Gathered) {
    for _ in 0..GATHER_BYTES.div_ceil(PIECE_BYTES) {
        let from = told(record);
        if from >= gathered.len {
            return;
        }
        let at = from as usize & (GATHER_BYTES - 1);
        let copy = |to: *mut u8, len| {
            // SAFETY: the second half of the buffer has room for what a masked index and a length reach.
            unsafe { bpf_probe_read_kernel(to.cast(), len, gathered.bytes.as_ptr().add(at).cast()) == 0 }
        };
        if !piece(record, socket, gathered.len - from, copy) {
            return;
        }
    }
}

/// Returns how much was passed on, anew from memory: see [`piece`].
#[inline(always)]
fn told(record: &SocketRecord) -> u32 {
    // SAFETY: a live reference.
    unsafe { (&raw const record.tls.told).read_volatile() }
}

/// Passes on one piece of at most `left` bytes, 1 or more; whether it could.
#[inline(always)]
fn piece(record: &mut SocketRecord, socket: &Socket, left: u32, copy: impl FnOnce(*mut u8, u32) -> bool) -> bool {
    let Some(mut entry) = REQUESTS.reserve::<PieceRequest>(0) else {
        count::event(Counter::RequestLost);
        return false;
    };
    let piece = entry.as_mut_ptr();
    // Through memory that the verifier does not follow: kernel 6.1 would else follow each piece once for
    // every length that the pieces before it can have.
    // SAFETY: the entry has room for a request.
    let left = unsafe {
        (&raw mut (*piece).len).write_volatile(left);
        (&raw const (*piece).len).read_volatile()
    };
    let len = if left > PIECE_BYTES as u32 { PIECE_BYTES as u32 } else { left };
    // Changes nothing, since it is not 0, but shows the verifier that the length is 1..=PIECE_BYTES.
    let len = (black_box(len.wrapping_sub(1)) & (PIECE_BYTES as u32 - 1)) + 1;
    // SAFETY: the entry has room for a request. What is not written of it is not read: `len` says how much
    // of the bytes count.
    let copied = unsafe {
        (*piece).socket = describe(RequestKind::Piece, record, socket);
        (*piece).names = record.tls.names;
        (*piece).route_stats = record.tls.route_stats;
        (*piece).offset = record.tls.told;
        (*piece).len = len;
        copy((&raw mut (*piece).bytes).cast(), len)
    };
    if copied {
        entry.submit(0);
        record.tls.told += len;
    } else {
        entry.discard(0);
    }
    copied
}
