//! What an init system does elsewhere: mounts, the loopback interface, the end.

use anyhow::{Context as _, Result};
use nix::{
    errno::Errno,
    kmod::{ModuleInitFlags, finit_module},
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};
use std::{
    fs::{self, File},
    io, mem,
    os::fd::AsRawFd as _,
};

/// Where the kernel's modules are.
const MODULES: &str = "/modules";

/// Folder and type of each file system.
const MOUNTS: [(&str, &str); 6] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/sys/fs/cgroup", "cgroup2"),
    ("/run", "tmpfs"),
    ("/tmp", "tmpfs"),
];

/// Makes a bare kernel usable. bpffs is left to the agent, which mounts it where it is missing.
pub(crate) fn set_up() -> Result<()> {
    for (folder, kind) in MOUNTS {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {folder}"))?;
        let mounted = mount(Some(kind), folder, Some(kind), MsFlags::empty(), None::<&str>);
        match mounted {
            // Some kernels mount /dev by themselves.
            Ok(()) | Err(Errno::EBUSY) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot mount {kind} at {folder}")),
        }
    }
    load_modules()?;
    loopback_up().context("cannot bring up the loopback interface")
}

/// Loads all modules, in the order of their names.
fn load_modules() -> Result<()> {
    let files = fs::read_dir(MODULES).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut files = files.with_context(|| format!("cannot read {MODULES}"))?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let path = file.path();
        let module = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        finit_module(module, c"", ModuleInitFlags::empty())
            .with_context(|| format!("cannot load {}", path.display()))?;
    }
    Ok(())
}

fn loopback_up() -> Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the structure is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the socket is open, and the kernel reads the request only during the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    Errno::result(result)?;
    Ok(())
}

/// Ends the virtual machine.
pub(crate) fn power_off() -> ! {
    let Err(error) = reboot(RebootMode::RB_POWER_OFF);
    // The kernel panics when its first process ends, and that ends the machine as well.
    panic!("cannot power off: {error}")
}
