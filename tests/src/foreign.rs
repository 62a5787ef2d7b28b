//! A connect program that is not Weir's: it denies one port. Written out by hand, so that the
//! harness needs no BPF library.

use crate::cgroup::Cgroup;
use anyhow::{Context as _, Result};
use std::{
    fs::File,
    io,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

/// The port that the program denies: discard.
pub const DENIED_PORT: u16 = 9;

// Numbers of the kernel's bpf.h.
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const BPF_CGROUP_INET4_CONNECT: u32 = 10;
const BPF_CGROUP_INET6_CONNECT: u32 = 11;
/// Where `struct bpf_sock_addr` has the port, in network byte order.
const USER_PORT: i16 = 24;

/// An attached program for each family. Dropping it detaches them.
#[derive(Debug)]
pub struct ForeignProgram {
    _links: [OwnedFd; 2],
}

impl ForeignProgram {
    /// Attaches to a cgroup, beside what is there.
    ///
    /// # Errors
    ///
    /// Without root, or on a kernel without BPF.
    pub fn attach(cgroup: &Cgroup) -> Result<Self> {
        let folder = File::open(cgroup.path())?;
        let attach = |kind| -> Result<OwnedFd> {
            let program = load(kind).context("cannot load a foreign program")?;
            link(&program, &folder, kind).context("cannot attach a foreign program")
        };
        Ok(Self { _links: [attach(BPF_CGROUP_INET4_CONNECT)?, attach(BPF_CGROUP_INET6_CONNECT)?] })
    }
}

/// One instruction (`struct bpf_insn`).
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, immediate }
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

fn load(attach_kind: u32) -> io::Result<OwnedFd> {
    let denied = i32::from(DENIED_PORT.to_be());
    let program = [
        // r2 = context.user_port; r0 = 1 (allow); if r2 == denied { r0 = 0 }; return r0
        instruction(0x61, 2, 1, USER_PORT, 0),
        instruction(0xb7, 0, 0, 0, 1),
        instruction(0x55, 2, 0, 1, denied),
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ];
    let license = c"Dual MIT/GPL";
    let mut attributes = LoadAttributes {
        kind: BPF_PROG_TYPE_CGROUP_SOCK_ADDR,
        n_instructions: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        attach_kind,
        ..LoadAttributes::default()
    };
    attributes.name[..7].copy_from_slice(b"foreign");
    bpf(BPF_PROG_LOAD, &attributes)
}

fn link(program: &OwnedFd, folder: &File, attach_kind: u32) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        target: folder.as_raw_fd() as u32,
        attach_kind,
        flags: 0,
    };
    bpf(BPF_LINK_CREATE, &attributes)
}

/// Calls bpf(2) with a command that returns a file descriptor.
fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes live through the call and have the size that is given; what they point
    // to lives in the callers. The kernel takes a shorter union than its own as padded with zeros.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands return a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
