//! The file system that a virtual machine starts with: programs and their libraries in one archive.
//!
//! The format is the kernel's `newc` (Documentation/driver-api/early-userspace/buffer-format.rst).

use crate::process::{self, answer};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;
/// Major and minor number of /dev/console.
const CONSOLE_DEVICE: (u32, u32) = (5, 1);

/// One entry of the archive.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    bytes: Vec<u8>,
}

/// Files by their path in the archive, without the first slash.
#[derive(Debug, Default)]
pub(super) struct Initrd {
    // Ordered, and a folder sorts before what is in it.
    entries: BTreeMap<String, Entry>,
}

impl Initrd {
    /// Begins with what the kernel needs to give the first process its output.
    pub(super) fn new() -> Self {
        let mut initrd = Self::default();
        initrd.insert("dev/console", Entry { mode: CONSOLE, device: CONSOLE_DEVICE, bytes: Vec::new() });
        initrd
    }

    /// Adds a program of this machine, without its debug information, and the libraries that it loads.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(super) fn add_program(&mut self, path: &str, program: &Path, scratch: &Path) -> Result<()> {
        let stripped = scratch.join("stripped");
        let mut strip = Command::new("strip");
        strip.args(["--strip-debug", "-o"]).arg(&stripped).arg(program);
        process::run(&mut strip).context("binutils are needed, they come with every C compiler")?;
        self.insert_file(path, &stripped)?;
        let listed = answer(Command::new("ldd").arg(program)).unwrap_or_default();
        for library in libraries(&listed) {
            let path = library.to_string_lossy();
            self.insert_file(path.trim_start_matches('/'), &library)?;
        }
        Ok(())
    }

    /// Adds a file as it is.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn insert_file(&mut self, path: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.insert(path, Entry { mode: PROGRAM, device: (0, 0), bytes });
        Ok(())
    }

    fn insert(&mut self, path: &str, entry: Entry) {
        for (slash, _) in path.match_indices('/') {
            let folder = Entry { mode: FOLDER, device: (0, 0), bytes: Vec::new() };
            self.entries.entry(path[..slash].to_owned()).or_insert(folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Returns the archive.
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (number, (path, entry)) in (1..).zip(&self.entries) {
            append(&mut archive, number, path, entry);
        }
        let end = Entry { mode: 0, device: (0, 0), bytes: Vec::new() };
        append(&mut archive, 0, "TRAILER!!!", &end);
        archive
    }
}

/// A header of 13 numbers in hexadecimal, the name with a zero, the bytes; each part ends at a multiple of 4.
fn append(archive: &mut Vec<u8>, inode: u32, path: &str, entry: &Entry) {
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let (major, minor) = entry.device;
    let fields: [u32; 13] = [
        inode,
        entry.mode,
        0, // owner
        0, // group
        1, // links
        0, // time
        length(entry.bytes.len()),
        0, // device of the file system
        0,
        major,
        minor,
        length(path.len() + 1),
        0, // checksum, which this format does not have
    ];
    archive.extend(b"070701");
    for field in fields {
        archive.extend(format!("{field:08x}").bytes());
    }
    archive.extend(path.bytes());
    archive.push(0);
    pad(archive);
    archive.extend(&entry.bytes);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// Reads paths from what `ldd` prints.
fn libraries(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    listed.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_path() {
        let listed =
            "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(libraries(listed), [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld.so.2")]);
        assert_eq!(libraries("\tstatically linked\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut initrd = Initrd::new();
        initrd.insert("bin/weir", Entry { mode: PROGRAM, device: (0, 0), bytes: b"x".to_vec() });
        let paths: Vec<&str> = initrd.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["bin", "bin/weir", "dev", "dev/console"]);
        assert_eq!(initrd.entries["bin"].mode, FOLDER);
    }

    #[test]
    fn an_archive_has_aligned_parts_and_a_trailer() {
        let mut initrd = Initrd::default();
        initrd.insert("init", Entry { mode: PROGRAM, device: (0, 0), bytes: b"hello".to_vec() });
        let archive = initrd.archive();
        assert_eq!(archive.len() % 4, 0);
        assert!(archive.starts_with(b"07070100000001000081ed"), "inode and mode");
        // 110 bytes of header and 5 of name are 116 with padding.
        assert_eq!(&archive[54..62], b"00000005", "size");
        assert_eq!(&archive[110..115], b"init\0");
        assert_eq!(&archive[116..124], b"hello\0\0\0");
        assert_eq!(&archive[124..130], b"070701");
        assert!(archive.windows(10).any(|part| part == b"TRAILER!!!"));
    }
}
