//! What the acceptor says of itself: where it listens, and what it holds.

use serde::{Deserialize, Serialize};

/// The acceptor's state. Counters begin when the agent starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptorView {
    /// The network namespaces whose clients it serves, or should.
    pub namespaces: Vec<NamespaceView>,
    /// Connections that it carries now.
    pub open_connections: u64,
    /// Connections whose ClientHello is not whole yet.
    pub unfinished_hellos: u64,
    /// Bytes of those ClientHellos.
    pub hello_bytes: u64,
    /// Connections that it took.
    pub accepted: u64,
    /// Connections that got a second endpoint, because the first could not be reached.
    pub retried: u64,
    /// Connections to its listeners that were dialled directly, and closed.
    pub refused_strangers: u64,
    /// Connections that the agent ended because their ClientHello was rejected as it left.
    pub aborted: u64,
    /// Those that it could not end.
    pub not_aborted: u64,
    /// Pieces of long ClientHellos that it read for the kernel programs.
    pub hello_pieces: u64,
}

/// A network namespace with clients of the acceptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceView {
    /// How people know it: its name in the folder of named ones, or a process that is in it.
    pub name: String,
    /// The kernel's cookie of it.
    pub cookie: u64,
    /// Whether the acceptor listens there.
    pub listening: bool,
    /// What went wrong, if something did.
    pub problem: Option<String>,
}
