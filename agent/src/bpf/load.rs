//! Loads the embedded object. Maps that are pinned already are taken over.

use super::{Error, Pins};
use aya::{Ebpf, EbpfError, EbpfLoader, VerifierLogLevel, maps::MapError, programs::ProgramError};
use weir_common::abi::maps::MAPS;

#[cfg(not(weir_no_ebpf))]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/weir-ebpf"));
#[cfg(weir_no_ebpf)]
static OBJECT: &[u8] = &[];

/// Loads the maps and programs; nothing is attached yet.
pub(super) fn load(pins: &Pins) -> Result<Ebpf, Error> {
    if OBJECT.is_empty() {
        return Err(Error::NoPrograms);
    }
    let mut loader = EbpfLoader::new();
    // The verifier's log makes loading slow; a program that is refused is loaded again with it.
    loader.verifier_log_level(VerifierLogLevel::STATS);
    for spec in &MAPS {
        loader.map_pin_path(spec.name, pins.map(spec.name));
    }
    #[cfg_attr(not(feature = "kernel-log"), expect(unused_mut, reason = "only a debug build follows the log"))]
    let mut object = loader.load(OBJECT).map_err(|error| refused("the object", error))?;
    #[cfg(feature = "kernel-log")]
    follow_log(&mut object);
    Ok(object)
}

/// Passes on what the programs of a debug build log.
#[cfg(feature = "kernel-log")]
fn follow_log(object: &mut Ebpf) {
    match aya_log::EbpfLogger::init(object) {
        Ok(mut logger) => {
            std::thread::spawn(move || {
                loop {
                    logger.flush();
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            });
        }
        Err(error) => tracing::warn!(%error, "the programs' log cannot be followed"),
    }
}

/// Names what the kernel refused.
pub(super) fn refused(what: &str, error: EbpfError) -> Error {
    let permission = if let EbpfError::MapError(MapError::CreateError { io_error, .. }) = &error {
        Some(io_error)
    } else if let EbpfError::MapError(MapError::SyscallError(call)) = &error {
        Some(&call.io_error)
    } else if let EbpfError::ProgramError(ProgramError::LoadError { io_error, .. }) = &error {
        Some(io_error)
    } else {
        None
    };
    match permission.and_then(std::io::Error::raw_os_error) {
        Some(errno @ (libc::EPERM | libc::EACCES)) if !nix::unistd::Uid::effective().is_root() => {
            Error::NotPermitted(std::io::Error::from_raw_os_error(errno))
        }
        _ => Error::Load { what: what.to_owned(), source: error.into() },
    }
}
