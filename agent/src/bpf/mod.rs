//! The kernel's BPF side: the only module that touches it.
//!
//! [`Kernel::open`] finds cgroup2 and bpffs, checks pins, loads the programs and attaches them; after
//! that a [`Kernel`] applies operations and reads counters.

mod apply;
mod attach;
mod border;
mod btf;
mod found;
mod load;
mod maps;
mod pin;
mod places;
mod recount;
mod self_test;
mod stats;
mod sys;
mod wire;

pub use attach::Attachment;
pub use border::{Border, RequestRing};
pub use pin::{Pins, clean};
pub use places::{Bpffs, CgroupRoot};
pub use self_test::{Probe, run_probe};
pub use stats::StatsReader;

use crate::{compile::tables::Tables, plan::Op};
use aya::{
    maps::{MapData, RingBuf},
    programs::links::FdLink,
};
use maps::Maps;
use std::{collections::BTreeSet, path::PathBuf};
use weir_common::abi::{
    settings::{Settings, SockOffsets},
    stats::Counter,
};

/// The ring buffer of sampled events; one reader empties it.
pub type EventRing = RingBuf<MapData>;

/// Where the programs live and what they attach to.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of the pins, on bpffs.
    pub pin_dir: PathBuf,
    /// Cgroup to attach to; `None` takes the root of the cgroup2 hierarchy.
    pub cgroup_root: Option<PathBuf>,
}

/// What can go wrong with the kernel. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not use BPF.
    #[error(
        "this process may not load BPF programs: run as root, or give it CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON ({0})"
    )]
    NotPermitted(#[source] std::io::Error),
    /// There is no cgroup2 hierarchy.
    #[error(
        "no cgroup2 hierarchy is mounted: mount one (`mount -t cgroup2 none /sys/fs/cgroup/unified`) or boot with \
         systemd.unified_cgroup_hierarchy=1"
    )]
    NoCgroup2,
    /// The given cgroup root is not one.
    #[error("--cgroup-root {0}: not a folder of a cgroup2 hierarchy: give a folder below {1}")]
    NotCgroup2(PathBuf, String),
    /// bpffs cannot be used or mounted.
    #[error("--pin-dir {path}: {what}")]
    Bpffs {
        /// The folder.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// Another agent holds the pins.
    #[error(
        "another weir agent is already running with --pin-dir {0}: stop it first, or give this one a --pin-dir of its own"
    )]
    AlreadyRunning(PathBuf),
    /// A pinned map is not what this version would make.
    #[error(
        "pinned map {path} is not usable ({what}): it was made by a different build; remove it with `weir clean \
         --pin-dir …` (this detaches the programs) and start again"
    )]
    ForeignPin {
        /// The pin.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// This binary was built without the kernel programs.
    #[error("this weir was built without its kernel programs: run `cargo xtask setup` and build it again")]
    NoPrograms,
    /// The kernel refused a program or a map.
    #[error("the kernel refused {what}: {source:#}; weir needs Linux 6.1 or later with CONFIG_CGROUP_BPF")]
    Load {
        /// The program or map.
        what: String,
        /// The kernel's answer.
        source: anyhow::Error,
    },
    /// A map operation failed.
    #[error("map {map}: {source}{}", if *.full { ": the table is full" } else { "" })]
    Map {
        /// Name of the map.
        map: &'static str,
        /// Whether there is no room.
        full: bool,
        /// The kernel's answer.
        source: aya::maps::MapError,
    },
    /// The hook does not act on a connection of this machine.
    #[error(
        "self-test failed: {0}; connections of this machine would not be split. Check that {1} is the cgroup root \
         that the clients are in"
    )]
    SelfTest(String, PathBuf),
}

/// Programs that are loaded and attached, and their maps.
pub struct Kernel {
    maps: Maps,
    attachments: Vec<Attachment>,
    /// Whether the program that reads ClientHellos can be used here.
    egress: Result<(), String>,
    cgroup: CgroupRoot,
    pins: Pins,
    // Keeps the programs' file descriptors, which links need while they are replaced.
    object: aya::Ebpf,
}

impl Kernel {
    /// Loads and attaches, or takes over what an earlier agent left.
    ///
    /// # Errors
    ///
    /// If anything stands in the way; see [`Error`]. Programs of an earlier agent then go on as before.
    pub fn open(options: &Options, settings: impl FnOnce(SockOffsets) -> Settings) -> Result<Self, Error> {
        places::raise_memlock();
        let cgroup = CgroupRoot::find(options.cgroup_root.as_deref())?;
        let pins = Pins::open(&options.pin_dir)?;
        pins.check_maps()?;
        let mut object = load::load(&pins)?;
        let mut maps = Maps::take(&mut object)?;
        maps.set_settings(&settings(found::sock_offsets()))?;
        maps.beat()?;
        let mut attachments = attach::attach(&mut object, &pins, &cgroup)?;
        let egress = match attach::load_egress(&mut object, &mut maps.egress_piece, &pins, &cgroup) {
            Ok(attached) => {
                attachments.extend(attached);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        };
        Ok(Self { maps, attachments, egress, cgroup, pins, object })
    }

    /// Whether ClientHellos can be read as they leave; says what is missing if not.
    ///
    /// # Errors
    ///
    /// What the kernel refused, in words.
    pub fn can_verify(&self) -> Result<(), String> {
        self.egress.clone()
    }

    /// Whether ClientHellos are read as they leave.
    #[must_use]
    pub fn is_verifying(&self) -> bool {
        self.attachments.iter().any(|attachment| attachment.name == attach::EGRESS)
    }

    /// Attaches the program that reads ClientHellos as they leave, or takes it off. It must be attached
    /// before a frontend asks for it, and stay as long as a connection waits for its judgement.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn set_verifying(&mut self, wanted: bool) -> Result<(), Error> {
        if wanted && !self.is_verifying() {
            self.attachments.push(attach::attach_egress(&mut self.object, &self.pins, &self.cgroup)?);
        } else if !wanted && self.is_verifying() {
            attach::detach_egress(&self.pins)?;
            self.attachments.retain(|attachment| attachment.name != attach::EGRESS);
        }
        Ok(())
    }

    /// Counts the connections whose ClientHello is still to be judged.
    ///
    /// # Errors
    ///
    /// If the counters cannot be read.
    pub fn pending_hellos(&self) -> Result<u64, Error> {
        let counters = maps::open_counters(&self.pins)?;
        let read = |counter: Counter| {
            let values = counters.get(&(counter as u32), 0).map_err(|error| maps::failed("COUNTERS", error))?;
            Ok::<u64, Error>(values.iter().sum())
        };
        // In this order: one that begins meanwhile makes the number too large, never too small.
        let ended = read(Counter::VerifyEnded)?;
        Ok(read(Counter::VerifyBegan)?.saturating_sub(ended))
    }

    /// Lets the kernel choose for the acceptor's connections from now on, as long as what is returned lives.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or the agent's own cgroup cannot be found.
    pub fn choose_for_acceptor(&mut self) -> Result<Choosing, Error> {
        let own = CgroupRoot::find(Some(&places::own_cgroup(&self.cgroup.mount)))?;
        let covered = self.cgroup.covers(&own);
        attach::attach_dial(&mut self.object, &own, covered).map(Choosing)
    }

    /// Opens the acceptor's part of the maps.
    ///
    /// # Errors
    ///
    /// If a map cannot be opened a second time.
    pub fn border(&self) -> Result<Border, Error> {
        Border::open(&self.pins)
    }

    /// Opens the ring buffer of requests to the agent. Call it once: it has one reader.
    ///
    /// # Errors
    ///
    /// If it cannot be opened a second time.
    pub fn requests(&self) -> Result<RequestRing, Error> {
        Border::requests(&self.pins)
    }

    /// Returns what hangs where.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    /// Returns how many instructions the verifier followed for each program that is loaded, attached or
    /// not; `None` where the kernel does not tell (before Linux 5.16).
    pub fn verified(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let loaded = |(name, program): (_, &aya::programs::Program)| Some((name, program.info().ok()?));
        self.object.programs().filter_map(loaded).map(|(name, info)| (name, info.verified_instruction_count()))
    }

    /// Returns the cgroup that the programs are attached to.
    #[must_use]
    pub fn cgroup(&self) -> &CgroupRoot {
        &self.cgroup
    }

    /// Whether every attachment is still in place.
    ///
    /// # Errors
    ///
    /// Names the first one that is gone or leads to another program.
    pub fn check_attachments(&self) -> Result<(), String> {
        self.attachments.iter().try_for_each(|attachment| attachment.check(&self.pins))
    }

    /// Proves that the hooks act on connections of this machine.
    ///
    /// # Errors
    ///
    /// If a connect from below the cgroup root was not redirected.
    pub fn self_test(&mut self) -> Result<String, Error> {
        self_test::run(&mut self.maps, &self.cgroup)
    }

    /// Reads the tables that the maps hold, of whatever agent.
    ///
    /// # Errors
    ///
    /// If a map cannot be read.
    pub fn tables(&self) -> Result<Tables, Error> {
        found::tables(&self.maps)
    }

    /// Lists the entries that can retire: shared states, tickets and counters found in the maps.
    ///
    /// # Errors
    ///
    /// If a map cannot be read.
    pub fn found(&self) -> Result<BTreeSet<crate::plan::Retired>, Error> {
        found::leftovers(&self.maps)
    }

    /// Carries out an operation.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; the maps are then as before the operation.
    pub fn apply(&mut self, op: &Op) -> Result<(), Error> {
        apply::apply(&mut self.maps, op)
    }

    /// Counts the ejected endpoints of backends anew. Call it after endpoints were removed.
    ///
    /// # Errors
    ///
    /// If a map cannot be read or written.
    pub fn recount_ejected(&mut self, tables: &Tables) -> Result<(), Error> {
        recount::recount(&mut self.maps, tables)
    }

    /// Opens the counters for readers on other threads.
    ///
    /// # Errors
    ///
    /// If a map cannot be opened a second time.
    pub fn stats_reader(&self) -> Result<StatsReader, Error> {
        StatsReader::open(&self.pins)
    }

    /// Opens the heartbeat for a thread of its own.
    ///
    /// # Errors
    ///
    /// If the map cannot be opened a second time.
    pub fn heart(&self) -> Result<Heart, Error> {
        Ok(Heart(maps::open_heartbeat(&self.pins)?))
    }

    /// Takes the event ring buffer; `None` the second time.
    pub fn take_events(&mut self) -> Option<EventRing> {
        self.maps.events.take()
    }
}

/// Attachments of the programs that choose for the acceptor's connections.
pub struct Choosing(#[expect(dead_code, reason = "they last as long as they are held")] Vec<FdLink>);

/// Tells the programs that the agent lives.
pub struct Heart(maps::HeartbeatMap);

impl Heart {
    /// Gives a sign of life.
    ///
    /// # Errors
    ///
    /// If the map cannot be written.
    pub fn beat(&mut self) -> Result<(), Error> {
        maps::beat(&mut self.0)
    }
}
