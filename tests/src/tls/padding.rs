//! A ClientHello of an exact size, padded as clients do it.

use super::{hello, options::TlsOptions};
use anyhow::{Context as _, Result};

/// Bytes on the wire of the ClientHello that is measured: what browsers padded theirs to.
pub const HELLO: usize = 517;

/// Type of the padding extension (RFC 7685).
const PADDING: [u8; 2] = [0, 21];
/// Bytes of an extension before its content: type and length.
const HEAD: usize = 4;
/// Where lengths stand: of the record's body (2 bytes), of the handshake message's (3 bytes).
const RECORD_LENGTH: usize = 3;
const MESSAGE_LENGTH: usize = 6;
/// Where the session id begins, its length first: behind both heads, the version and the random.
const SESSION: usize = 5 + 4 + 2 + 32;

/// Makes a ClientHello of `size` bytes, record header included, with a server name.
///
/// # Errors
///
/// If it is longer without padding.
pub fn padded(sni: &str, size: usize) -> Result<Vec<u8>> {
    let mut bytes = hello::bytes(&TlsOptions::hello(sni))?;
    let padding = size.checked_sub(bytes.len() + HEAD).context("the ClientHello is longer than wanted")?;
    let number = |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let ciphers = SESSION + 1 + usize::from(bytes[SESSION]);
    let compression = ciphers + 2 + number(&bytes, ciphers);
    let extensions = compression + 1 + usize::from(bytes[compression]);
    // The message's length has three bytes; the first is zero with sizes of one record.
    for at in [RECORD_LENGTH, MESSAGE_LENGTH + 1, extensions] {
        let longer = u16::try_from(number(&bytes, at) + HEAD + padding)?;
        bytes[at..at + 2].copy_from_slice(&longer.to_be_bytes());
    }
    bytes.extend(PADDING);
    bytes.extend(u16::try_from(padding)?.to_be_bytes());
    bytes.resize(size, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::Acceptor;

    #[test]
    fn a_padded_hello_has_its_size_and_its_name() {
        let bytes = padded("shop.example", HELLO).expect("a hello");
        assert_eq!(bytes.len(), HELLO);
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut bytes.as_slice()).expect("bytes in memory");
        let accepted = acceptor.accept().expect("a valid hello").expect("a whole hello");
        assert_eq!(accepted.client_hello().server_name(), Some("shop.example"));
    }

    #[test]
    fn a_hello_is_not_cut_to_a_size() {
        assert!(padded("shop.example", 100).is_err());
    }
}
