//! The agent's reader: a hello in any number of records, in a stream that grows.
//!
//! The stream is left as it is, since it is to be sent on. [`Records`] shows it as if the hello lay
//! in one record, and so the walk over the body is the kernel's.

use super::{Bytes, CLIENT_HELLO, HANDSHAKE, HANDSHAKE_HEADER, MAJOR, MAX_RECORD, RECORD_HEADER, Read, body};
use core::cell::Cell;

/// The longest stream in which a hello is looked for, record headers included, in bytes.
pub const MAX_STREAM: u32 = 1 << 16;

/// More extensions than fit into [`MAX_STREAM`].
const MAX_EXTENSIONS: u32 = MAX_STREAM / 4;

/// A TLS stream, shown as if all its handshake bytes lay in one record.
///
/// Offset 5 is the first handshake byte, and those before it are the first record's header, so that
/// a hello in one record is shown as it is. The offsets in [`super::Found`] are of this kind.
#[derive(Debug)]
pub struct Records<'a> {
    stream: &'a [u8],
    /// The record that was read last: reading goes forward, mostly.
    last: Cell<Record>,
}

/// The content of a record; not all of it need be there.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Its offset as [`Records`] shows it.
    shown_at: u32,
    /// Its offset in the stream.
    at: u32,
    /// Its length by its header.
    len: u32,
}

/// Stands in front of the first record, which is then the one after it.
const BEFORE_FIRST: Record = Record { shown_at: RECORD_HEADER, at: 0, len: 0 };

impl<'a> Records<'a> {
    /// Looks at a stream from its first byte on.
    #[must_use]
    pub fn new(stream: &'a [u8]) -> Self {
        Self { stream, last: Cell::new(BEFORE_FIRST) }
    }

    /// Reads the hello. Records behind it are ignored.
    #[must_use]
    pub fn read(&self) -> Read {
        match self.end() {
            Ok(end) => body::walk::<MAX_EXTENSIONS, Self>(self, RECORD_HEADER + HANDSHAKE_HEADER, end),
            Err(read) => read,
        }
    }

    /// Returns the length of the stream up to the hello's end, record headers included, in bytes.
    /// `end` is that of [`super::Found`].
    #[must_use]
    pub fn stream_len(&self, end: u32) -> Option<u32> {
        self.place(end.checked_sub(1)?).map(|at| at + 1)
    }

    /// Returns the offset behind the hello, if it is whole.
    fn end(&self) -> Result<u32, Read> {
        let mut record = BEFORE_FIRST;
        let mut end = None;
        loop {
            let Some(next) = self.after(record)? else { return Err(more(record, end)) };
            record = next;
            // No record is empty, so the stream's sixth byte is the handshake's type.
            if self.get(RECORD_HEADER).is_some_and(|kind| kind != CLIENT_HELLO) {
                return Err(Read::NotTls);
            }
            end = end.or_else(|| self.announced());
            // Asked before the next record is looked at: what comes later cannot change the answer.
            let at_least = shortest(record, end);
            if at_least > MAX_STREAM {
                return Err(Read::TooBig);
            }
            let there = Bytes::len(self.stream);
            match end {
                Some(end) if end <= record.shown_at + record.len && at_least <= there => return Ok(end),
                _ if record.at + record.len > there => return Err(Read::NeedMore { at_least }),
                _ => {}
            }
        }
    }

    /// Returns the offset behind the hello by the handshake's header, if that is there.
    fn announced(&self) -> Option<u32> {
        let (high, low) = (self.u8(6)?, self.u16(7)?);
        Some(RECORD_HEADER + HANDSHAKE_HEADER + ((u32::from(high) << 16) | u32::from(low)))
    }

    /// Reads the header behind a record; `None` if it is not whole.
    fn after(&self, record: Record) -> Result<Option<Record>, Read> {
        let at = record.at + record.len;
        if self.get(at).is_some_and(|kind| kind != HANDSHAKE) || self.get(at + 1).is_some_and(|major| major != MAJOR) {
            return Err(Read::NotTls);
        }
        match self.stream.u16(at + 3) {
            None => Ok(None),
            Some(0) => Err(Read::NotTls),
            Some(len) if len > MAX_RECORD => Err(Read::NotTls),
            Some(len) => {
                Ok(Some(Record { shown_at: record.shown_at + record.len, at: at + RECORD_HEADER, len: u32::from(len) }))
            }
        }
    }

    /// Returns the offset in the stream of a byte that is shown at another.
    fn place(&self, shown: u32) -> Option<u32> {
        if shown < RECORD_HEADER {
            return Some(shown);
        }
        let mut record = self.last.get();
        if shown < record.shown_at {
            record = BEFORE_FIRST;
        }
        while shown - record.shown_at >= record.len {
            record = self.after(record).ok()??;
        }
        self.last.set(record);
        Some(record.at + (shown - record.shown_at))
    }

    fn get(&self, at: u32) -> Option<u8> {
        self.stream.u8(at)
    }
}

/// Returns the length of the shortest stream in which all up to `end` (the end of the handshake's
/// header, while there is no other) can be, if `record` is the last one whose length is known.
fn shortest(record: Record, end: Option<u32>) -> u32 {
    let end = end.unwrap_or(RECORD_HEADER + HANDSHAKE_HEADER);
    let ahead = end.saturating_sub(record.shown_at);
    let records = ahead.saturating_sub(record.len).div_ceil(u32::from(MAX_RECORD));
    record.at + ahead + records * RECORD_HEADER
}

fn more(record: Record, end: Option<u32>) -> Read {
    Read::NeedMore { at_least: shortest(record, end) }
}

impl Bytes for Records<'_> {
    fn len(&self) -> u32 {
        let mut record = BEFORE_FIRST;
        while let Ok(Some(next)) = self.after(record) {
            record = next;
        }
        let there = Bytes::len(self.stream);
        if record.len == 0 { there.min(RECORD_HEADER) } else { record.shown_at + record.len.min(there - record.at) }
    }

    fn u8(&self, at: u32) -> Option<u8> {
        self.get(self.place(at)?)
    }
}
