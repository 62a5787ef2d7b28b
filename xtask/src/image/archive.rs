//! Tar files in the format of POSIX (pax(1), "ustar Interchange Format"), as much of it as images need.
//!
//! No owner but root and no time: equal content gives equal bytes.

/// Size of a header, and what files are filled up to.
const BLOCK: usize = 512;

/// A tar file in the making.
#[derive(Debug, Default)]
pub(super) struct Archive(Vec<u8>);

impl Archive {
    /// Adds a file.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: &[u8]) {
        self.header(path, mode, bytes.len());
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
    }

    /// Ends the file and returns its bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // Two empty blocks.
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }

    fn header(&mut self, path: &str, mode: u32, size: usize) {
        let mut header = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        assert!(path.len() <= 100, "a path in an image has at most 100 bytes: {path}");
        put(0, path.as_bytes());
        put(100, format!("{mode:07o}\0").as_bytes());
        put(108, b"0000000\0"); // user
        put(116, b"0000000\0"); // group
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000000\0"); // time
        put(148, b"        "); // checksum, as if it were spaces
        put(156, b"0"); // a file
        put(257, b"ustar\x0000");
        let checksum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{checksum:06o}\0 ").as_bytes());
        self.0.extend(header);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write as _, process::Command};

    #[test]
    fn tar_reads_what_is_written() {
        let mut archive = Archive::default();
        archive.file("etc/motd", 0o644, b"hello");
        archive.file("weir", 0o755, &[7; BLOCK]);
        let bytes = archive.finish();
        assert_eq!(bytes.len(), BLOCK * (2 + 2 + 2));
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let listed = Command::new("tar").args(["--numeric-owner", "-tvf"]).arg(file.path()).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let found: Vec<[&str; 4]> =
            words.iter().map(|words| [words[0], words[1], words[2], words.last().unwrap()]).collect();
        assert_eq!(found, [["-rw-r--r--", "0/0", "5", "etc/motd"], ["-rwxr-xr-x", "0/0", "512", "weir"],], "{listed}");
    }
}
