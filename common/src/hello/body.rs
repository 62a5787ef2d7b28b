//! Walks over the body of a whole ClientHello. Both readers use it; it knows nothing of records.
//!
//! Numbers are read and judged one after another: where two reads are judged together, the compiler
//! keeps the number of a failed one in a register, which the verifier refuses as never written.

use super::{Bytes, Found, Read, Span};
use core::hint::black_box;

/// Version and random, before the session id.
const FIXED: u32 = 2 + 32;
/// Longest session id (RFC 8446, 4.1.2).
const MAX_SESSION_ID: u8 = 32;
/// Extension type of server_name (RFC 6066).
const SERVER_NAME: u16 = 0;
/// Extension type of application_layer_protocol_negotiation (RFC 7301).
const ALPN: u16 = 16;
/// Name type of a host name, the only one there is (RFC 6066, 3).
const HOST_NAME: u8 = 0;

/// Reads the body between two offsets, all of which is there. [`Read::BeyondMe`] after more than
/// `EXTENSIONS` extensions.
#[inline(always)]
pub(super) fn walk<const EXTENSIONS: u32, B: Bytes + ?Sized>(bytes: &B, at: u32, end: u32) -> Read {
    let Some(at) = skip_to_extensions(bytes, at) else { return Read::Malformed };
    if at == end {
        return Read::Found(Found { name: None, alpn: None, end });
    }
    match bytes.u16(at) {
        Some(len) if at + 2 + u32::from(len) == end => {}
        _ => return Read::Malformed,
    }
    match extensions::<EXTENSIONS, B>(bytes, at + 2, end) {
        Ok(found) => Read::Found(found),
        Err(read) => read,
    }
}

/// Returns the offset behind the compression methods; it may lie behind the end.
#[inline(always)]
fn skip_to_extensions<B: Bytes + ?Sized>(bytes: &B, at: u32) -> Option<u32> {
    let at = at + FIXED;
    let session_id = bytes.u8(at)?;
    if session_id > MAX_SESSION_ID {
        return None;
    }
    let at = at + 1 + u32::from(session_id);
    let suites = bytes.u16(at)?;
    if suites == 0 || suites & 1 == 1 {
        return None;
    }
    let at = at + 2 + u32::from(suites);
    let methods = bytes.u8(at)?;
    (methods != 0).then_some(at + 1 + u32::from(methods))
}

/// An extension that is looked for: where its data is, and how often it was met.
#[derive(Clone, Copy)]
struct Seen {
    at: u32,
    len: u32,
    times: u32,
}

impl Seen {
    const NEVER: Self = Self { at: 0, len: 0, times: 0 };

    /// Remembers an extension if `kind` is `wanted`.
    ///
    /// In arithmetic, so that the verifier has one path to follow and not one more for each extension
    /// that was seen or not. The black box hides that `is` is 0 or 1, or it would become a branch.
    #[inline(always)]
    fn note(&mut self, wanted: u16, kind: u16, at: u32, len: u32) {
        let is = black_box(u32::from(kind ^ wanted).wrapping_sub(1) >> 31);
        let chosen = |new: u32, old: u32| old.wrapping_add(new.wrapping_sub(old).wrapping_mul(is));
        *self = Self { at: chosen(at, self.at), len: chosen(len, self.len), times: self.times + is };
    }
}

/// Walks over the extensions, and remembers where two of them are. What is in these is read
/// afterwards: the verifier follows each turn of the loop, so there is little in it.
#[inline(always)]
fn extensions<const EXTENSIONS: u32, B: Bytes + ?Sized>(bytes: &B, mut at: u32, end: u32) -> Result<Found, Read> {
    let mut name = Seen::NEVER;
    let mut alpn = Seen::NEVER;
    for _ in 0..EXTENSIONS {
        if at >= end {
            break;
        }
        let kind = bytes.u16(at).ok_or(Read::Malformed)?;
        let len = u32::from(bytes.u16(at + 2).ok_or(Read::Malformed)?);
        name.note(SERVER_NAME, kind, at + 4, len);
        alpn.note(ALPN, kind, at + 4, len);
        at += 4 + len;
    }
    if at != end {
        return Err(if at < end { Read::BeyondMe } else { Read::Malformed });
    }
    Ok(Found { name: host_name(bytes, name)?, alpn: protocols(bytes, alpn)?, end })
}

/// Reads server_name: a list of exactly one host name. Other types were never defined, and a second
/// host name is forbidden.
#[inline(always)]
fn host_name<B: Bytes + ?Sized>(bytes: &B, data: Seen) -> Result<Option<Span>, Read> {
    match data.times {
        0 => return Ok(None),
        1 => {}
        _ => return Err(Read::Malformed),
    }
    let list = bytes.u16(data.at).ok_or(Read::Malformed)?;
    let kind = bytes.u8(data.at + 2).ok_or(Read::Malformed)?;
    let len = bytes.u16(data.at + 3).ok_or(Read::Malformed)?;
    let adds_up = u32::from(list) + 2 == data.len && u32::from(len) + 5 == data.len;
    if !adds_up || kind != HOST_NAME || len == 0 {
        return Err(Read::Malformed);
    }
    Ok(Some(Span { at: data.at + 5, len }))
}

/// Finds the list of protocols. Its inside is read by [`super::Protocols`], where it is asked for.
#[inline(always)]
fn protocols<B: Bytes + ?Sized>(bytes: &B, data: Seen) -> Result<Option<Span>, Read> {
    match data.times {
        0 => return Ok(None),
        1 => {}
        _ => return Err(Read::Malformed),
    }
    match bytes.u16(data.at) {
        Some(len) if len != 0 && u32::from(len) + 2 == data.len => Ok(Some(Span { at: data.at + 2, len })),
        _ => Err(Read::Malformed),
    }
}
