//! Reads a connection until its ClientHello is whole. Decides nothing.

use super::bounds::Admission;
use std::io;
use tokio::net::TcpStream;
use weir_common::{
    hello::{Found, MAX_STREAM, Read, Records},
    reason::Reason,
};

/// The first buffer, in bytes: most hellos fit.
const FIRST_BUFFER: usize = 2_048;

/// Why there is no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It can be none, or may not be read.
    Rejected(Reason),
    /// The client has gone.
    Abandoned,
}

/// Reads until the hello is whole. Returns all that was read, more than the hello perhaps.
///
/// There is no buffer before there are bytes, and it grows no further than they need.
pub(super) async fn read(stream: &TcpStream, admission: &mut Admission) -> Result<(Vec<u8>, Found), Ended> {
    let mut bytes = Vec::new();
    let mut at_least = 1;
    loop {
        stream.readable().await.map_err(|_| Ended::Abandoned)?;
        read_some(stream, &mut bytes, admission)?;
        // A hello that comes byte by byte is not parsed at each of them.
        if bytes.len() >= at_least {
            match Records::new(&bytes).read() {
                Read::NeedMore { at_least: more } => at_least = more as usize,
                Read::Found(found) => return Ok((bytes, found)),
                Read::TooBig => return Err(Ended::Rejected(Reason::HelloTooBig)),
                Read::NotTls | Read::Malformed | Read::BeyondMe => return Err(Ended::Rejected(Reason::NotTls)),
            }
        }
    }
}

/// Reads what is there, up to [`MAX_STREAM`] in all: with so many bytes no hello needs more.
fn read_some(stream: &TcpStream, bytes: &mut Vec<u8>, admission: &mut Admission) -> Result<(), Ended> {
    let mut some = [0; FIRST_BUFFER];
    let room = (MAX_STREAM as usize - bytes.len()).min(some.len());
    let read = match stream.try_read(&mut some[..room]) {
        Ok(0) => return Err(Ended::Abandoned),
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(_) => return Err(Ended::Abandoned),
    };
    if bytes.len() + read > bytes.capacity() {
        let size = (bytes.capacity() * 2).max(FIRST_BUFFER);
        if !admission.grow(size) {
            return Err(Ended::Rejected(Reason::AcceptorFull));
        }
        bytes.reserve_exact(size - bytes.len());
    }
    bytes.extend_from_slice(&some[..read]);
    Ok(())
}
