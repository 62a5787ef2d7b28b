//! Connected sockets, with whatever is special about them.

use crate::connection::Dial;
use nix::sys::socket::{setsockopt, sockopt::TcpFastOpenConnect};
use socket2::{Domain, Protocol, Socket, Type};
use std::{io, net::SocketAddr, net::TcpStream, time::Duration};

/// Opens a socket and connects it.
pub(crate) fn connect(dial: &Dial) -> io::Result<TcpStream> {
    match (dial.socket.is_plain(), dial.patience()) {
        (true, None) => TcpStream::connect(dial.to),
        (true, Some(patience)) => TcpStream::connect_timeout(&dial.to, patience),
        (false, patience) => special(dial, patience),
    }
}

fn special(dial: &Dial, patience: Option<Duration>) -> io::Result<TcpStream> {
    let options = &dial.socket;
    let protocol = if options.mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(dial.to), Type::STREAM, Some(protocol))?;
    if let Some(device) = &options.device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    if let Some(source) = options.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    if options.fast_open {
        // connect() then returns at once, and the first write goes out with the SYN (tcp(7)).
        setsockopt(&socket, TcpFastOpenConnect, &true)?;
    }
    match patience {
        None => socket.connect(&dial.to.into())?,
        Some(patience) => socket.connect_timeout(&dial.to.into(), patience)?,
    }
    Ok(socket.into())
}
