//! A connect program that is not Weir's: it denies one port. Written out by hand, so that the
//! harness needs no BPF library.

use crate::{
    cgroup::Cgroup,
    kernel::Hook,
    syscall::{self, Instruction},
};
use anyhow::{Context as _, Result};
use std::{
    fs::File,
    os::fd::{AsFd as _, OwnedFd},
};

/// The port that the program denies: discard.
pub const DENIED_PORT: u16 = 9;

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
        let denied = i32::from(DENIED_PORT.to_be());
        let program = [
            // r2 = context.user_port; r0 = 1 (allow); if r2 == denied { r0 = 0 }; return r0
            Instruction::new(0x61, 2, 1, USER_PORT, 0),
            Instruction::new(0xb7, 0, 0, 0, 1),
            Instruction::new(0x55, 2, 0, 1, denied),
            Instruction::new(0xb7, 0, 0, 0, 0),
            Instruction::new(0x95, 0, 0, 0, 0),
        ];
        let attach = |hook: Hook| -> Result<OwnedFd> {
            let program = syscall::load("foreign", hook as u32, &program).context("cannot load a foreign program")?;
            syscall::link(&program, folder.as_fd(), hook as u32).context("cannot attach a foreign program")
        };
        Ok(Self { _links: [attach(Hook::Connect4)?, attach(Hook::Connect6)?] })
    }
}
