//! The three bpf(2) calls that aya has no safe function for: opening a pin as a plain file
//! descriptor, replacing the program of a link in place, and asking what a link is.

use std::{
    ffi::CString,
    io,
    mem::size_of,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

const BPF_OBJ_GET: libc::c_int = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const BPF_LINK_UPDATE: libc::c_int = 29;

/// Opens a pinned object.
pub(super) fn open_pin(path: &Path) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attr {
        pathname: *const libc::c_char,
        bpf_fd: u32,
        file_flags: u32,
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attr = Attr { pathname: path.as_ptr(), bpf_fd: 0, file_flags: 0 };
    let fd = call(BPF_OBJ_GET, &mut attr)?;
    // SAFETY: the kernel has just given this file descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Replaces the program of a link: from one packet or call to the next, without a gap.
pub(super) fn update_link(link: impl AsFd, program: impl AsFd) -> io::Result<()> {
    #[repr(C)]
    struct Attr {
        link_fd: u32,
        new_prog_fd: u32,
        flags: u32,
        old_prog_fd: u32,
    }
    let mut attr = Attr {
        link_fd: link.as_fd().as_raw_fd().cast_unsigned(),
        new_prog_fd: program.as_fd().as_raw_fd().cast_unsigned(),
        flags: 0,
        old_prog_fd: 0,
    };
    call(BPF_LINK_UPDATE, &mut attr).map(|_| ())
}

/// The beginning of what the kernel tells of a cgroup link (`struct bpf_link_info`). It fills no more
/// than the length that it is given.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkInfo {
    kind: u32,
    id: u32,
    pub(super) program: u32,
    padding: u32,
    /// Id of the cgroup; 0 once the cgroup is gone.
    pub(super) cgroup: u64,
}

/// Asks what a link is.
pub(super) fn link_info(link: impl AsFd) -> io::Result<LinkInfo> {
    #[repr(C)]
    struct Attr {
        bpf_fd: u32,
        info_len: u32,
        info: *mut LinkInfo,
    }
    let mut info = LinkInfo::default();
    let mut attr = Attr {
        bpf_fd: link.as_fd().as_raw_fd().cast_unsigned(),
        info_len: size_of::<LinkInfo>() as u32,
        info: &raw mut info,
    };
    call(BPF_OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok(info)
}

fn call<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_int> {
    const { assert!(size_of::<*const u8>() == 8, "bpf(2) takes pointers as 64-bit words") };
    // SAFETY: `attr` has the layout of the command's part of `union bpf_attr`, its pointers outlive
    // the call, and the kernel reads and writes no more than the size that it is given.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}
