//! Cookies of network namespaces: the kernel's numbers for them, never used twice until a reboot.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Asks for the cookie of the network namespace that the calling thread is in.
pub(crate) fn here() -> io::Result<u64> {
    of(socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?)
}

/// Asks for the cookie of the network namespace that a socket belongs to (Linux 5.14).
fn of(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, and `cookie` has room for them.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
}
