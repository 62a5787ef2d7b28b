//! The few HTTP requests that the harness makes to the admin port.

use anyhow::{Context as _, Result};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(5);

/// Fetches a path and returns status and body.
///
/// # Errors
///
/// If nobody answers, or not in HTTP.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // HTTP/1.0, so that the answer ends with the connection and is never chunked.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("http://{address}{path}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a header")?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("an answer without a status")?;
    Ok((status, body.to_owned()))
}
