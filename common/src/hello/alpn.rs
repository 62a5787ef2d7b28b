//! Steps over the protocols that a hello offers.

use super::{Bytes, Span};

/// The protocols of an ALPN list, as spans of their names, in the client's order (RFC 7301, 3.1).
///
/// A name that is empty or reaches beyond the list ends it.
#[derive(Clone, Debug)]
pub struct Protocols<'a, B: ?Sized> {
    bytes: &'a B,
    at: u32,
    end: u32,
}

impl<'a, B: Bytes + ?Sized> Protocols<'a, B> {
    /// Steps over the list of [`super::Found::alpn`].
    #[must_use]
    pub fn new(bytes: &'a B, list: Option<Span>) -> Self {
        let (at, len) = list.map_or((0, 0), |list| (list.at, list.len));
        Self { bytes, at, end: at + u32::from(len) }
    }
}

impl<B: Bytes + ?Sized> Iterator for Protocols<'_, B> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        if self.at >= self.end {
            return None;
        }
        let name = Span { at: self.at + 1, len: u16::from(self.bytes.u8(self.at)?) };
        self.at = name.at + u32::from(name.len);
        if name.len == 0 || self.at > self.end {
            self.at = self.end;
            return None;
        }
        Some(name)
    }
}
