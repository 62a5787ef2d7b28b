//! The TCP payload of a packet that leaves a socket, as a source of bytes.

use aya_ebpf::{bindings::__sk_buff, helpers::generated::bpf_skb_load_bytes, programs::SkBuffContext};
use weir_common::hello::Bytes;

const TCP: u8 = 6;
const TCP_RST: u8 = 1 << 2;
const TCP_SYN: u8 = 1 << 1;
/// Length of an IPv6 header.
const IPV6: u32 = 40;
/// Most IPv6 extension headers that are stepped over.
const MAX_EXTENSIONS: u32 = 4;
// Extension headers that may stand before TCP in what a host sends (RFC 8200, 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

/// A packet, from its payload on.
pub(crate) struct Packet {
    skb: *mut __sk_buff,
    /// Offset of the payload.
    from: u32,
    /// Length of the payload.
    len: u32,
    /// TCP sequence number of the payload's first byte.
    pub(crate) seq: u32,
    flags: u8,
}

impl Packet {
    /// Finds the payload; `None` if this is not TCP, or broken.
    #[inline(always)]
    pub(crate) fn of(ctx: &SkBuffContext) -> Option<Self> {
        let mut packet = Self { skb: ctx.skb.skb, from: 0, len: 0, seq: 0, flags: 0 };
        let first = packet.u8(0)?;
        let tcp = if first >> 4 == 6 { packet.behind_ipv6()? } else { u32::from(first & 15) * 4 };
        let [high, flags] = packet.load(tcp + 12)?;
        packet.flags = flags;
        packet.seq = u32::from_be_bytes(packet.load(tcp + 4)?);
        if packet.flags & TCP_SYN != 0 {
            // The SYN counts as one; data behind it are those of TCP fast open.
            packet.seq = packet.seq.wrapping_add(1);
        }
        packet.from = tcp + u32::from(high >> 4) * 4;
        packet.len = ctx.len().checked_sub(packet.from)?;
        Some(packet)
    }

    #[inline(always)]
    fn behind_ipv6(&self) -> Option<u32> {
        let mut next = self.u8(6)?;
        let mut at = IPV6;
        for _ in 0..MAX_EXTENSIONS {
            if !matches!(next, HOP_BY_HOP | ROUTING | DESTINATION) {
                break;
            }
            let [following, eights] = self.load(at)?;
            next = following;
            at += 8 + u32::from(eights) * 8;
        }
        (next == TCP).then_some(at)
    }

    /// Lets the verifier forget which values the packet's numbers can have: otherwise it follows all that
    /// comes after once for every length of the headers. `through` is memory that it does not follow.
    #[inline(always)]
    pub(crate) fn forget(&mut self, through: *mut u32) {
        for number in [&mut self.from, &mut self.len] {
            // SAFETY: the caller's memory, which nobody else uses while the program runs.
            *number = unsafe {
                through.write_volatile(*number);
                through.read_volatile()
            };
        }
    }

    /// Whether this resets the connection.
    #[inline(always)]
    pub(crate) fn is_reset(&self) -> bool {
        self.flags & TCP_RST != 0
    }

    /// Copies payload bytes; whether it could. `to` must have room for `len` bytes, 1 or more.
    #[inline(always)]
    pub(crate) fn copy(&self, at: u32, to: *mut u8, len: u32) -> bool {
        // SAFETY: the context is valid, and the verifier has seen that `to` has room.
        unsafe { bpf_skb_load_bytes(self.skb.cast(), self.from.wrapping_add(at), to.cast(), len) == 0 }
    }

    #[inline(always)]
    fn load<const N: usize>(&self, at: u32) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(at, bytes.as_mut_ptr(), N as u32).then_some(bytes)
    }
}

impl Bytes for Packet {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    fn u8(&self, at: u32) -> Option<u8> {
        self.load::<1>(at).map(|[byte]| byte)
    }

    #[inline(always)]
    fn u16(&self, at: u32) -> Option<u16> {
        self.load(at).map(u16::from_be_bytes)
    }
}
