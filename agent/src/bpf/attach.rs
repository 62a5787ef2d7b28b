//! Attaches the programs by pinned links, or replaces the programs of links that are pinned already.
//!
//! Links never disturb foreign programs, and they outlive the agent. Replacing happens in place:
//! there is no moment without a program and none with two.

use super::{CgroupRoot, Error, Pins, load::refused, pin::open_link, sys};
use aya::{
    Ebpf,
    maps::{MapData, ProgramArray},
    programs::{
        CgroupAttachMode, CgroupSkb, CgroupSkbAttachType, CgroupSockAddr, Program, ProgramError, ProgramFd, SockOps,
        links::FdLink,
    },
};
use std::{fs, os::fd::AsFd, path::Path};

/// The programs in the order of their attachment: first those that observe, last those that decide,
/// so that no connection is redirected that the others would not see.
const PROGRAMS: [&str; 5] =
    ["weir_sockops", "weir_getpeername4", "weir_getpeername6", "weir_connect4", "weir_connect6"];

/// The program that reads ClientHellos: attached only while a frontend needs it, because every packet of
/// the machine's sockets pays for it.
pub(super) const EGRESS: &str = "weir_egress";

/// The one that it leaves hellos in pieces to.
pub(super) const EGRESS_PIECE: &str = "weir_egress_piece";

/// The programs that choose for the acceptor. They are attached to the agent's own cgroup, unpinned: they
/// end with the agent.
const DIAL: [&str; 2] = ["weir_dial4", "weir_dial6"];

/// An attached program.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Name of the program and of its link's pin.
    pub name: &'static str,
    /// The kernel's id of the program.
    pub program: u32,
    /// How many instructions the kernel's verifier followed, if it tells (Linux 5.16).
    pub verified: Option<u32>,
}

impl Attachment {
    /// Returns the attach type in the kernel's spelling.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.name {
            "weir_connect4" | "weir_dial4" => "cgroup/connect4",
            "weir_connect6" | "weir_dial6" => "cgroup/connect6",
            "weir_getpeername4" => "cgroup/getpeername4",
            "weir_getpeername6" => "cgroup/getpeername6",
            EGRESS => "cgroup_skb/egress",
            _ => "sockops",
        }
    }

    /// Checks that the link still leads to the program.
    pub(super) fn check(&self, pins: &Pins) -> Result<(), String> {
        let link = match open_link(&pins.link(self.name)) {
            Ok(Some(link)) => link,
            Ok(None) => return Err(format!("{}: its link is not pinned any more", self.name)),
            Err(error) => return Err(format!("{}: {error}", self.name)),
        };
        match sys::link_info(link) {
            Ok(info) if info.cgroup == 0 => Err(format!("{}: its cgroup is gone", self.name)),
            Ok(info) if info.program != self.program => {
                Err(format!("{}: the link leads to program {} now", self.name, info.program))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{}: {error}", self.name)),
        }
    }
}

/// Loads and attaches every program that must always be there.
pub(super) fn attach(object: &mut Ebpf, pins: &Pins, cgroup: &CgroupRoot) -> Result<Vec<Attachment>, Error> {
    // Every program must be accepted before the first one acts.
    for name in PROGRAMS.into_iter().chain(DIAL) {
        load_program(object, name)?;
    }
    PROGRAMS.into_iter().map(|name| attach_program(object, name, &pins.link(name), cgroup)).collect()
}

/// Loads the program that reads ClientHellos, and lets it follow on the one of an earlier agent. Returns
/// it if it is attached.
pub(super) fn load_egress(
    object: &mut Ebpf,
    calls: &mut ProgramArray<MapData>,
    pins: &Pins,
    cgroup: &CgroupRoot,
) -> Result<Option<Attachment>, Error> {
    load_program(object, EGRESS_PIECE)?;
    load_program(object, EGRESS)?;
    let failed = |error: anyhow::Error| Error::Load { what: EGRESS_PIECE.to_owned(), source: error };
    let piece = program(object, EGRESS_PIECE)?.fd().map_err(|error| failed(error.into()))?.try_clone();
    let piece = piece.map_err(|error| failed(error.into()))?;
    // Before the first program can call it; one that an earlier agent put there is replaced.
    calls.set(0, &piece, 0).map_err(|source| super::maps::failed("EGRESS_PIECE", source))?;
    let pin = pins.link(EGRESS);
    if pin.exists() { attach_program(object, EGRESS, &pin, cgroup).map(Some) } else { Ok(None) }
}

/// Attaches the program that reads ClientHellos.
pub(super) fn attach_egress(object: &mut Ebpf, pins: &Pins, cgroup: &CgroupRoot) -> Result<Attachment, Error> {
    attach_program(object, EGRESS, &pins.link(EGRESS), cgroup)
}

/// Takes the program that reads ClientHellos off.
pub(super) fn detach_egress(pins: &Pins) -> Result<(), Error> {
    let pin = pins.link(EGRESS);
    match fs::remove_file(&pin) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Load { what: format!("the removal of {}", pin.display()), source: error.into() })
        }
        _ => Ok(()),
    }
}

/// Attaches the programs that choose for the acceptor to the cgroup that the agent itself is in. If that
/// is not below `cgroup`, the program that counts is needed there, too. They last as long as the links.
pub(super) fn attach_dial(object: &mut Ebpf, own: &CgroupRoot, covered: bool) -> Result<Vec<FdLink>, Error> {
    let names = (!covered).then_some("weir_sockops").into_iter().chain(DIAL);
    let attached = names.map(|name| {
        let program = program(object, name)?;
        make_link(program, &own.folder)
            .map_err(|source| Error::Load { what: format!("{name} at {}", own.path.display()), source })
    });
    attached.collect()
}

fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Program, Error> {
    object
        .program_mut(name)
        .ok_or_else(|| Error::Load { what: name.to_owned(), source: anyhow::anyhow!("it is not in the object") })
}

fn load_program(object: &mut Ebpf, name: &'static str) -> Result<(), Error> {
    let loaded = match expected(program(object, name)?) {
        Ok(Expected::SockAddr(program)) => program.load(),
        Ok(Expected::SockOps(program)) => program.load(),
        Ok(Expected::Skb(program)) => program.load(),
        Err(error) => Err(error),
    };
    loaded.map_err(|error| refused(name, error.into()))
}

fn attach_program(object: &mut Ebpf, name: &'static str, pin: &Path, cgroup: &CgroupRoot) -> Result<Attachment, Error> {
    let failed = |source: anyhow::Error| Error::Load { what: format!("{name} at {}", cgroup.path.display()), source };
    let program = program(object, name)?;
    let info = program.info().map_err(|error| failed(error.into()))?;
    let (id, verified) = (info.id(), info.verified_instruction_count());
    if let Some(link) = open_link(pin).map_err(|error| failed(error.into()))? {
        let info = sys::link_info(&link).map_err(|error| failed(error.into()))?;
        if info.cgroup == cgroup.id {
            let fd: &ProgramFd = program.fd().map_err(|error| failed(error.into()))?;
            sys::update_link(&link, fd).map_err(|error| failed(error.into()))?;
            return Ok(Attachment { name, program: id, verified });
        }
        // The link is at another cgroup than the wanted one. Attach here first, then let go there.
        let aside = pin.with_extension("old");
        fs::rename(pin, &aside).map_err(|error| failed(error.into()))?;
        let attached = attach_new(program, pin, cgroup).map_err(failed);
        match &attached {
            Ok(()) => fs::remove_file(&aside).map_err(|error| failed(error.into()))?,
            Err(_) => fs::rename(&aside, pin).map_err(|error| failed(error.into()))?,
        }
        attached?;
    } else {
        attach_new(program, pin, cgroup).map_err(failed)?;
    }
    Ok(Attachment { name, program: id, verified })
}

fn attach_new(program: &mut Program, pin: &Path, cgroup: &CgroupRoot) -> anyhow::Result<()> {
    make_link(program, &cgroup.folder)?.pin(pin)?;
    Ok(())
}

fn make_link(program: &mut Program, cgroup: impl AsFd) -> anyhow::Result<FdLink> {
    // Links always stand beside other programs; flags are for attachments without a link.
    let mode = CgroupAttachMode::Single;
    Ok(match expected(program)? {
        Expected::SockAddr(program) => {
            let id = program.attach(cgroup, mode)?;
            program.take_link(id)?.try_into()?
        }
        Expected::SockOps(program) => {
            let id = program.attach(cgroup, mode)?;
            program.take_link(id)?.try_into()?
        }
        Expected::Skb(program) => {
            let id = program.attach(cgroup, CgroupSkbAttachType::Egress, mode)?;
            program.take_link(id)?.try_into()?
        }
    })
}

/// The types of programs in the object.
enum Expected<'a> {
    SockAddr(&'a mut CgroupSockAddr),
    SockOps(&'a mut SockOps),
    Skb(&'a mut CgroupSkb),
}

fn expected(program: &mut Program) -> Result<Expected<'_>, ProgramError> {
    if let Program::SockOps(program) = program {
        return Ok(Expected::SockOps(program));
    }
    if let Program::CgroupSkb(program) = program {
        return Ok(Expected::Skb(program));
    }
    program.try_into().map(Expected::SockAddr)
}
