//! The kernel's reader: a hello in one record, in a source that holds it whole.

use super::{Bytes, CLIENT_HELLO, HANDSHAKE, HANDSHAKE_HEADER, MAJOR, MAX_RECORD, RECORD_HEADER, Read, body};

/// Most extensions that are stepped over. Clients send about twenty.
const MAX_EXTENSIONS: u32 = 64;

/// Offset of the hello's body.
const BODY: u32 = RECORD_HEADER + HANDSHAKE_HEADER;

/// Reads a hello that lies in one record.
///
/// `capacity` is the longest stream that can still come to be read, in bytes: that of the buffer in
/// which the pieces are put together. A hello that is there is read whatever its length.
#[inline(always)]
pub fn read<B: Bytes + ?Sized>(bytes: &B, capacity: u32) -> Read {
    let end = match header(bytes) {
        Ok(end) => end,
        Err(read) => return read,
    };
    if bytes.len() >= end {
        body::walk::<MAX_EXTENSIONS, B>(bytes, BODY, end)
    } else if end > capacity {
        Read::BeyondMe
    } else {
        Read::NeedMore { at_least: end }
    }
}

/// Reads the headers, and returns the offset behind the hello.
#[inline(always)]
fn header<B: Bytes + ?Sized>(bytes: &B) -> Result<u32, Read> {
    let more = Read::NeedMore { at_least: BODY };
    if bytes.u8(0).ok_or(more)? != HANDSHAKE || bytes.u8(1).ok_or(more)? != MAJOR {
        return Err(Read::NotTls);
    }
    let record = bytes.u16(3).ok_or(more)?;
    if record == 0 || record > MAX_RECORD || bytes.u8(5).ok_or(more)? != CLIENT_HELLO {
        return Err(Read::NotTls);
    }
    if u32::from(record) < HANDSHAKE_HEADER {
        return Err(Read::BeyondMe);
    }
    let high = u32::from(bytes.u8(6).ok_or(more)?) << 16;
    let body = high | u32::from(bytes.u16(7).ok_or(more)?);
    if HANDSHAKE_HEADER + body > u32::from(record) {
        return Err(Read::BeyondMe);
    }
    Ok(BODY + body)
}
