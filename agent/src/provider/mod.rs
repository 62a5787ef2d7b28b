//! Where resources come from: files, and DNS for the host names in them.

pub mod dns;
pub mod file;
