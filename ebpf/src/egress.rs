//! Reads the ClientHello of a connection as it leaves the client's socket, and lets it go or not.
//!
//! The socket is known by its record, never by addresses: those may be translated already. Packets that
//! cannot complete the hello leave as they come, they say nothing yet; the one that completes it leaves
//! or is dropped. Once a connection is rejected only its reset leaves, which the agent makes the kernel
//! send by destroying the socket.

use crate::{
    count,
    maps::{EGRESS_PIECE, GATHERED, NAME_SCRATCH, NAMES, RULINGS, SOCKETS, SPLITS},
    packet::Packet,
    request::{self, Socket},
    sock::count_reject,
};
use aya_ebpf::{
    bindings::{BPF_SK_STORAGE_GET_F_CREATE, bpf_sock},
    helpers::generated::{bpf_map_lookup_elem, bpf_sk_fullsock, bpf_sk_storage_delete, bpf_sk_storage_get},
    programs::SkBuffContext,
};
use core::{hint::black_box, ptr};
use weir_common::{
    abi::{
        ids::{SplitId, StatsId},
        maps::GATHER_BYTES,
        socket::{Hello, SocketRecord, Stage},
        stats::Counter,
        tables::MAX_LEGS,
        tls::{Gathered, RulingKind},
    },
    hello::{self, Bytes, Found, NameValue, Read},
    reason::Reason,
};

const PASS: i32 = 1;
const DROP: i32 = 0;

const CAPACITY: u32 = GATHER_BYTES as u32;

/// Judges one packet: the first program. A whole hello, which is nearly every one, is decided here; the
/// rest is left to [`judge_piece`], which the verifier then follows by itself.
#[inline(always)]
pub(crate) fn judge(ctx: &SkBuffContext) -> i32 {
    let Some((socket, record)) = awaiting(ctx) else { return PASS };
    let Some(packet) = Packet::of(ctx) else { return DROP };
    if record.hello == Hello::Rejected as u8 {
        if packet.is_reset() {
            return PASS;
        }
        // Tried again by TCP, since it was dropped: the agent was not there, or is slow.
        request::abort(record, &Socket::of(ctx, socket));
        return DROP;
    }
    if packet.is_empty() {
        return PASS;
    }
    if record.tls.started == 0 {
        record.tls.started = 1;
        record.tls.hello_seq = packet.seq;
    }
    if record.hello == Hello::Pending as u8 && packet.seq == record.tls.hello_seq {
        match hello::read(&packet, CAPACITY) {
            Read::NeedMore { .. } => {}
            Read::BeyondMe | Read::TooBig => record.hello = Hello::Held as u8,
            Read::NotTls | Read::Malformed => return reject(record, &Socket::of(ctx, socket), Reason::NotTls),
            Read::Found(found) => return decide(record, &Socket::of(ctx, socket), &packet, found),
        }
    }
    // SAFETY: the map holds nothing but a program of this type. The call only returns if there is none.
    unsafe { EGRESS_PIECE.tail_call(ctx, 0) };
    DROP
}

/// Judges one packet of a hello that comes in pieces, or that the agent reads: the second program.
#[inline(always)]
pub(crate) fn judge_piece(ctx: &SkBuffContext) -> i32 {
    let Some((socket, record)) = awaiting(ctx) else { return PASS };
    let Some(mut packet) = Packet::of(ctx) else { return DROP };
    let Some(scratch) = NAME_SCRATCH.get_ptr_mut(0) else { return DROP };
    // SAFETY: a live per-CPU value, which only this program uses, and only until it ends.
    packet.forget(unsafe { &raw mut (*scratch).bits });
    let at = packet.seq.wrapping_sub(record.tls.hello_seq);
    let socket = Socket::of(ctx, socket);
    if record.hello == Hello::Pending as u8
        && let Some(verdict) = gather(record, &socket, &packet, at)
    {
        return verdict;
    }
    held(record, &socket, &packet, at)
}

#[expect(clippy::mut_from_ref, reason = "the record is the socket's, the context only leads to it")]
/// Returns socket and record, if the socket's hello is not verified yet.
#[inline(always)]
fn awaiting(ctx: &SkBuffContext) -> Option<(*mut bpf_sock, &mut SocketRecord)> {
    // SAFETY: the context is valid while the program runs.
    let socket = unsafe { (*ctx.skb.skb).__bindgen_anon_2.sk };
    if socket.is_null() {
        return None;
    }
    // SAFETY: not null. Packets of half-open and closing connections have no full socket.
    let socket = unsafe { bpf_sk_fullsock(socket) };
    if socket.is_null() {
        return None;
    }
    // SAFETY: not null.
    let record =
        unsafe { bpf_sk_storage_get((&raw const SOCKETS).cast_mut().cast(), socket.cast(), ptr::null_mut(), 0) };
    // SAFETY: a packet leaves while its socket is locked, so nobody else has a reference to the record.
    let record = unsafe { record.cast::<SocketRecord>().as_mut() }?;
    let done = record.hello == Hello::None as u8 || record.hello == Hello::Verified as u8;
    (!done).then_some((socket, record))
}

/// Puts the pieces of a hello together, and reads what is there. `None` leaves it to the agent.
#[inline(always)]
fn gather(record: &mut SocketRecord, socket: &Socket, packet: &Packet, at: u32) -> Option<i32> {
    let Some(gathered) = storage(socket) else {
        // Without memory the agent can still read it.
        count::event(Counter::NoRoom);
        record.hello = Hello::Held as u8;
        return None;
    };
    if at > gathered.len || at >= CAPACITY {
        // A gap: an earlier piece did not leave. TCP sends it again, and this one after it.
        return Some(DROP);
    }
    let len = packet.len();
    let room = CAPACITY - at;
    let take = if len < room { len } else { room };
    // Neither is 0. Shows the verifier that the length is 1..=CAPACITY.
    let take = (black_box(take - 1) & (CAPACITY - 1)) + 1;
    let end = at + take;
    // A masked index and a bounded length, which the verifier sees; the buffer is twice the capacity.
    let place = gathered.bytes.as_mut_ptr().wrapping_add((black_box(at) & (CAPACITY - 1)) as usize);
    if !packet.copy(0, place, take) {
        return Some(DROP);
    }
    if end > gathered.len {
        gathered.len = end;
    }
    let bytes = Buffer::new(gathered);
    match hello::read(&bytes, CAPACITY) {
        Read::NeedMore { .. } => Some(PASS),
        Read::BeyondMe | Read::TooBig => {
            record.hello = Hello::Held as u8;
            request::gathered(record, socket, gathered);
            None
        }
        Read::NotTls | Read::Malformed => Some(reject(record, socket, Reason::NotTls)),
        Read::Found(found) => {
            let verdict = decide(record, socket, &bytes, found);
            // SAFETY: the socket of this packet.
            unsafe { bpf_sk_storage_delete((&raw const GATHERED).cast_mut().cast(), socket.as_ptr().cast()) };
            Some(verdict)
        }
    }
}

/// The pieces as a source of bytes.
///
/// Each offset goes through memory that the verifier does not follow. It would keep every value that an
/// offset into the buffer can have apart, and so follow every way through the hello for each of them:
/// kernel 6.1 gives up. For an offset out of memory it only sees the mask.
struct Buffer<'a> {
    len: u32,
    bytes: &'a [u8],
    cursor: *mut u32,
}

impl<'a> Buffer<'a> {
    #[inline(always)]
    fn new(gathered: &'a mut Gathered) -> Self {
        Self { len: gathered.len, bytes: &gathered.bytes, cursor: &raw mut gathered.cursor }
    }
}

impl Bytes for Buffer<'_> {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    fn u8(&self, at: u32) -> Option<u8> {
        // SAFETY: the field is the program's alone while the socket is locked.
        let at = unsafe {
            self.cursor.write_volatile(at);
            self.cursor.read_volatile()
        };
        if at >= self.len {
            return None;
        }
        self.bytes.get((at & (CAPACITY - 1)) as usize).copied()
    }
}

/// Decides by what a hello says.
#[inline(always)]
fn decide<B: Bytes>(record: &mut SocketRecord, socket: &Socket, bytes: &B, found: Found) -> i32 {
    let Some(name) = found.name else { return reject(record, socket, Reason::NoServerName) };
    let Some(key) = NAME_SCRATCH.get_ptr_mut(0) else { return DROP };
    // SAFETY: a live per-CPU value, which only this program uses, and only until it ends.
    let key = unsafe { &mut *key };
    if key.query(record.tls.names, bytes, name).is_err() {
        return reject(record, socket, Reason::NameNotMatched);
    }
    // SAFETY: a name's key has the size and the layout of the trie's keys.
    let value = unsafe { bpf_map_lookup_elem((&raw const NAMES).cast_mut().cast(), ptr::from_mut(key).cast()) };
    // SAFETY: a value of the trie, which stays good until the program ends.
    let Some(value) = (unsafe { value.cast::<NameValue>().as_ref() }) else {
        return reject(record, socket, Reason::NameNotMatched);
    };
    if value.plain == 0 {
        return reject(record, socket, Reason::NameNotMatched);
    }
    pass(record, value.split, value.route_stats);
    PASS
}

/// Judges a packet while the agent reads. What leaves then says nothing yet.
#[inline(always)]
fn held(record: &mut SocketRecord, socket: &Socket, packet: &Packet, at: u32) -> i32 {
    // SAFETY: rulings are replaced, never changed in place.
    if let Some(ruling) = unsafe { RULINGS.get(socket.cookie()) } {
        match ruling.kind() {
            RulingKind::More(may_leave) => record.tls.may_leave = may_leave,
            RulingKind::Pass(split, route_stats) => {
                pass(record, split, route_stats);
                return PASS;
            }
            RulingKind::Reject(reason) => return reject(record, socket, reason),
        }
    }
    request::pieces(record, socket, packet, at);
    if at.wrapping_add(packet.len()) <= record.tls.may_leave { PASS } else { DROP }
}

/// Lets the connection go. From here on it is counted under the route that its name selected.
#[inline(always)]
fn pass(record: &mut SocketRecord, split: SplitId, route_stats: StatsId) {
    if split != record.tls.split
        // SAFETY: splits are replaced, never changed in place.
        && let Some(own) = unsafe { SPLITS.get(split) }
        && let Some(leg) = own.legs.get(usize::from(record.leg_index) & (MAX_LEGS - 1))
    {
        record.leg_stats = leg.stats;
    }
    record.tls.route_stats = route_stats;
    record.hello = Hello::Verified as u8;
    count::event(Counter::VerifyEnded);
    if record.stage == Stage::Open as u8 {
        count::settled(record);
    }
}

/// Ends the connection: the packet is dropped, and the agent destroys the socket.
#[inline(always)]
fn reject(record: &mut SocketRecord, socket: &Socket, reason: Reason) -> i32 {
    record.hello = Hello::Rejected as u8;
    record.reason = reason as u8;
    count::event(Counter::VerifyEnded);
    count_reject(record.tls.route_stats, reason);
    request::abort(record, socket);
    DROP
}

#[inline(always)]
#[expect(clippy::mut_from_ref, reason = "the storage is the socket's, its description only leads to it")]
fn storage(socket: &Socket) -> Option<&mut Gathered> {
    // SAFETY: the socket is locked while its packet leaves, so nobody else has a reference.
    unsafe {
        let found = bpf_sk_storage_get(
            (&raw const GATHERED).cast_mut().cast(),
            socket.as_ptr().cast(),
            ptr::null_mut(),
            BPF_SK_STORAGE_GET_F_CREATE.into(),
        );
        found.cast::<Gathered>().as_mut()
    }
}
