//! One enum of every outcome of a decision. It gives the verdict, the counter key, the metric
//! label, the CLI text and the event.

/// Why a connection was passed, forwarded or rejected.
///
/// The numbers are part of the ABI: they are keys of pinned counters. Add at the end, never reuse.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Reason {
    /// Sent to an endpoint.
    Forwarded = 0,
    /// The destination is not a frontend, or nothing applies to this client: left as it was.
    NotFrontend = 1,
    /// The backendRef names a group or kind that Weir does not know.
    InvalidKind = 2,
    /// The backendRef points into another namespace and no ReferenceGrant allows it.
    RefNotPermitted = 3,
    /// The object that the backendRef names does not exist.
    BackendNotFound = 4,
    /// The Service of the backendRef has no such port.
    PortNotFound = 5,
    /// The backend is of a type that has no endpoints of its own (ExternalName), or not for TCP.
    UnsupportedBackend = 6,
    /// The backend has no endpoint that is ready, nor one that serves while it terminates, in the
    /// client's address family.
    NoEndpoints = 7,
    /// All weights of the rule are zero.
    NoWeight = 8,
    /// The agent's heartbeat is stale and `--on-agent-loss reject` is set.
    AgentLost = 9,
    /// A table named an entry that is not there. Never in correct operation.
    TableMiss = 10,
    /// No DNS answer has been seen yet for the host name of a Backend.
    NotResolved = 11,
    /// The ClientHello names no server, so no TLSRoute can match it.
    NoServerName = 12,
    /// No TLSRoute has the server name (or none of the offered ALPN protocols).
    NameNotMatched = 13,
    /// The first bytes are not a TLS ClientHello.
    NotTls = 14,
    /// The ClientHello is longer than 64 KiB.
    HelloTooBig = 15,
    /// The ClientHello was not whole within the deadline of the accept path.
    HelloTooSlow = 16,
    /// The acceptor has no listener in the client's network namespace.
    NoAcceptor = 17,
    /// The acceptor holds as many unfinished ClientHellos as it may.
    AcceptorFull = 18,
    /// The acceptor could not connect to an endpoint, nor to a second one.
    BackendUnreachable = 19,
}

impl Reason {
    /// Every reason, in ABI order.
    pub const ALL: [Self; 20] = [
        Self::Forwarded,
        Self::NotFrontend,
        Self::InvalidKind,
        Self::RefNotPermitted,
        Self::BackendNotFound,
        Self::PortNotFound,
        Self::UnsupportedBackend,
        Self::NoEndpoints,
        Self::NoWeight,
        Self::AgentLost,
        Self::TableMiss,
        Self::NotResolved,
        Self::NoServerName,
        Self::NameNotMatched,
        Self::NotTls,
        Self::HelloTooBig,
        Self::HelloTooSlow,
        Self::NoAcceptor,
        Self::AcceptorFull,
        Self::BackendUnreachable,
    ];

    /// Reads the ABI number; an unknown one is a broken table.
    #[inline(always)]
    #[must_use]
    pub const fn from_abi(number: u8) -> Self {
        match number {
            0 => Self::Forwarded,
            1 => Self::NotFrontend,
            2 => Self::InvalidKind,
            3 => Self::RefNotPermitted,
            4 => Self::BackendNotFound,
            5 => Self::PortNotFound,
            6 => Self::UnsupportedBackend,
            7 => Self::NoEndpoints,
            8 => Self::NoWeight,
            9 => Self::AgentLost,
            11 => Self::NotResolved,
            12 => Self::NoServerName,
            13 => Self::NameNotMatched,
            14 => Self::NotTls,
            15 => Self::HelloTooBig,
            16 => Self::HelloTooSlow,
            17 => Self::NoAcceptor,
            18 => Self::AcceptorFull,
            19 => Self::BackendUnreachable,
            _ => Self::TableMiss,
        }
    }

    /// Returns the metric label and the JSON value, in snake case.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::NotFrontend => "not_frontend",
            Self::InvalidKind => "invalid_kind",
            Self::RefNotPermitted => "ref_not_permitted",
            Self::BackendNotFound => "backend_not_found",
            Self::PortNotFound => "port_not_found",
            Self::UnsupportedBackend => "unsupported_backend",
            Self::NoEndpoints => "no_endpoints",
            Self::NoWeight => "no_weight",
            Self::AgentLost => "agent_lost",
            Self::TableMiss => "table_miss",
            Self::NotResolved => "not_resolved",
            Self::NoServerName => "no_server_name",
            Self::NameNotMatched => "name_not_matched",
            Self::NotTls => "not_tls",
            Self::HelloTooBig => "hello_too_big",
            Self::HelloTooSlow => "hello_too_slow",
            Self::NoAcceptor => "no_acceptor",
            Self::AcceptorFull => "acceptor_full",
            Self::BackendUnreachable => "backend_unreachable",
        }
    }

    /// Returns one sentence for an operator.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Forwarded => "sent to an endpoint",
            Self::NotFrontend => "not a frontend for this client: left as it was",
            Self::InvalidKind => "the backendRef's kind is not supported",
            Self::RefNotPermitted => "no ReferenceGrant allows the backendRef",
            Self::BackendNotFound => "the backendRef's object does not exist",
            Self::PortNotFound => "the Service has no such port",
            Self::UnsupportedBackend => "the backend's type or protocol is not supported",
            Self::NoEndpoints => "the backend has no usable endpoint in this address family",
            Self::NoWeight => "all weights of the route are zero",
            Self::AgentLost => "the agent is gone and --on-agent-loss is reject",
            Self::TableMiss => "a table entry is missing: report this as a bug",
            Self::NotResolved => "the Backend's host name has not been resolved yet",
            Self::NoServerName => "the ClientHello names no server",
            Self::NameNotMatched => "no TLSRoute has this server name and ALPN",
            Self::NotTls => "the client does not speak TLS",
            Self::HelloTooBig => "the ClientHello is longer than 64 KiB",
            Self::HelloTooSlow => "the ClientHello took too long",
            Self::NoAcceptor => "the agent has no listener in the client's network namespace",
            Self::AcceptorFull => "too many unfinished ClientHellos",
            Self::BackendUnreachable => "no connection to the backend",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_survives_the_abi() {
        for (number, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert_eq!(Reason::from_abi(reason as u8), reason);
        }
        assert_eq!(Reason::from_abi(255), Reason::TableMiss);
    }
}
