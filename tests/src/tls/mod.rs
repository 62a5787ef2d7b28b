//! TLS for tests: a certificate, ClientHellos, servers, and how clients speak.
//!
//! Nothing here opens what others sent: the frontends under test pass TLS on unopened.

pub mod hello;
pub mod identity;
pub mod options;
pub mod padding;
pub mod pattern;
pub mod pieces;
pub mod server;
mod serving;
