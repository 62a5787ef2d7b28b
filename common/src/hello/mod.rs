//! Reads the TLS ClientHello, and matches the server name in it.
//!
//! The same code runs in a kernel program, which sees a packet or a buffer, and in the agent, which
//! sees a stream of any number of TLS records. It holds no state and keeps no bytes: what it finds
//! it names by its place. It never judges a hello by more than it needs: versions, cipher suites and
//! unknown extensions are the backend's business.
//!
//! Sources: RFC 8446, 4.1.2 (ClientHello), 5.1 (records); RFC 6066, 3 (server_name); RFC 7301, 3.1
//! (ALPN). With Encrypted Client Hello the outer hello's name counts, because it is the one that is
//! readable.

mod alpn;
mod body;
mod key;
mod matching;
mod name;
mod names;
mod record;
mod records;

pub use alpn::Protocols;
pub use key::{MAX_MATCHED_NAME, NameKey, NameValue, QueryRefused};
pub use matching::{Alpns, Candidate, Matched, Names, choose};
pub use name::{InvalidName, MAX_NAME, check_name};
pub use names::SortedNames;
pub use record::read;
pub use records::{MAX_STREAM, Records};

/// A source of bytes: a packet, a buffer, a slice. Offsets count from the first byte of the TLS stream.
pub trait Bytes {
    /// Returns how many bytes are there now.
    fn len(&self) -> u32;

    /// Returns the byte at an offset, `None` beyond the end.
    fn u8(&self, at: u32) -> Option<u8>;

    /// Returns the two bytes at an offset as a big-endian number, `None` beyond the end.
    #[inline(always)]
    fn u16(&self, at: u32) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8(at)?, self.u8(at.wrapping_add(1))?]))
    }

    /// Whether there are no bytes yet.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Bytes for [u8] {
    #[inline(always)]
    fn len(&self) -> u32 {
        u32::try_from(<[u8]>::len(self)).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn u8(&self, at: u32) -> Option<u8> {
        self.get(at as usize).copied()
    }
}

/// A run of bytes in a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Offset of the first byte.
    pub at: u32,
    /// Number of bytes, never 0.
    pub len: u16,
}

/// Copies a span's bytes into the front of `buffer`. `None` if they are not there, or not all fit.
///
/// For names in [`Records`], which are slow to read from the last byte to the first.
pub fn copy<'b, B: Bytes + ?Sized>(bytes: &B, span: Span, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let copied = buffer.get_mut(..usize::from(span.len))?;
    for (place, at) in copied.iter_mut().zip(span.at..) {
        *place = bytes.u8(at)?;
    }
    Some(copied)
}

/// What a whole ClientHello says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The host name of the extension server_name, as it was sent: unchecked, in any case. `None`
    /// without the extension.
    pub name: Option<Span>,
    /// The list of the extension ALPN, for [`Protocols`]. `None` without the extension.
    pub alpn: Option<Span>,
    /// Offset behind the last byte of the hello.
    pub end: u32,
}

/// What a reader says of the bytes that are there. More bytes can only turn [`Read::NeedMore`] into
/// something else; every other answer stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Read {
    /// So far it may be a hello.
    NeedMore {
        /// The shortest stream that can say more, in bytes; longer than what is there.
        at_least: u32,
    },
    /// The record layer or the handshake's type is not that of a ClientHello.
    NotTls,
    /// A whole hello whose inside breaks the rules: lengths that do not add up, empty lists that must
    /// not be empty, server_name or ALPN twice, server_name with anything but one host name.
    Malformed,
    /// A whole hello.
    Found(Found),
    /// The hello lies in several records, is longer than the source can hold or has too many
    /// extensions: only [`read`] says so, and [`Records`] is asked instead.
    BeyondMe,
    /// The hello's last byte lies beyond [`MAX_STREAM`]; only [`Records`] says so.
    TooBig,
}

/// Content type of handshake records (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// The major version in every record header, of TLS 1.0 to 1.3.
const MAJOR: u8 = 3;
/// Most bytes in a record (RFC 8446, 5.1); none is forbidden for handshakes.
const MAX_RECORD: u16 = 1 << 14;
/// Bytes before a record's content.
const RECORD_HEADER: u32 = 5;
/// Handshake type of a ClientHello (RFC 8446, 4).
const CLIENT_HELLO: u8 = 1;
/// Bytes before a handshake message's body.
const HANDSHAKE_HEADER: u32 = 4;
