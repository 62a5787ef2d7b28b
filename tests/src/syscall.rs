//! System calls without a safe wrapper: bpf(2), as far as the harness asks the kernel without a BPF
//! library, and one ioctl. The only unsafe code here.

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

// Numbers of the kernel's bpf.h.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_PROG_GET_FD_BY_ID: libc::c_long = 13;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;

/// One instruction (`struct bpf_insn`).
#[repr(C)]
pub(crate) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    pub(crate) const fn new(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Self {
        Self { code, registers: from << 4 | to, offset, immediate }
    }
}

/// The head of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct LoadAttributes {
    kind: u32,
    n_instructions: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
}

/// The head of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    target: u32,
    attach_kind: u32,
    flags: u32,
}

/// The head of `union bpf_attr` for BPF_OBJ_GET.
#[repr(C)]
struct PinAttributes {
    path: u64,
    fd: u32,
    flags: u32,
}

/// The head of `union bpf_attr` for BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
struct IdAttributes {
    id: u32,
    next: u32,
    flags: u32,
}

/// The head of `union bpf_attr` for BPF_PROG_QUERY.
#[repr(C)]
struct QueryAttributes {
    target: u32,
    attach_kind: u32,
    flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    reserved: u32,
}

/// Loads a program for connect() hooks.
pub(crate) fn load(name: &str, attach_kind: u32, program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let mut attributes = LoadAttributes {
        kind: BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
        n_instructions: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        attach_kind,
        ..LoadAttributes::default()
    };
    for (to, from) in attributes.name[..15].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    descriptor(call(BPF_PROG_LOAD, &mut attributes)?)
}

/// Attaches a program to a cgroup.
pub(crate) fn link(program: &OwnedFd, cgroup: BorrowedFd<'_>, attach_kind: u32) -> io::Result<OwnedFd> {
    let mut attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        target: cgroup.as_raw_fd() as u32,
        attach_kind,
        flags: 0,
    };
    descriptor(call(BPF_LINK_CREATE, &mut attributes)?)
}

/// Opens a pinned object.
pub(crate) fn open_pin(path: &CStr) -> io::Result<OwnedFd> {
    let mut attributes = PinAttributes { path: path.as_ptr() as u64, fd: 0, flags: 0 };
    descriptor(call(BPF_OBJ_GET, &mut attributes)?)
}

/// Opens a program.
pub(crate) fn program_by_id(id: u32) -> io::Result<OwnedFd> {
    let mut attributes = IdAttributes { id, next: 0, flags: 0 };
    descriptor(call(BPF_PROG_GET_FD_BY_ID, &mut attributes)?)
}

/// Lists the ids of the programs on a hook of a cgroup.
pub(crate) fn programs_on(cgroup: BorrowedFd<'_>, attach_kind: u32) -> io::Result<Vec<u32>> {
    // The kernel allows 64 on one hook.
    let mut ids = vec![0_u32; 64];
    let mut attributes = QueryAttributes {
        target: cgroup.as_raw_fd() as u32,
        attach_kind,
        flags: 0,
        attach_flags: 0,
        ids: ids.as_mut_ptr() as u64,
        count: ids.len() as u32,
        reserved: 0,
    };
    call(BPF_PROG_QUERY, &mut attributes)?;
    ids.truncate(attributes.count as usize);
    Ok(ids)
}

fn call<T>(command: libc::c_long, attributes: &mut T) -> io::Result<RawFd> {
    // SAFETY: the attributes live through the call and have the size that is given, and so does what
    // they point to in the functions above. The kernel takes a shorter union than its own as padded
    // with zeros.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

fn descriptor(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: called with the result of commands that return a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns how many bytes of a TCP socket have been written and not yet acknowledged (tcp(7), SIOCOUTQ).
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes one int.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes as usize) }
}
