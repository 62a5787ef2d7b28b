//! Ids that tables use to name each other: 64-bit hashes of what they name, made by the agent.
//!
//! Because an id is derived from what it names, an agent that restarts finds the same ids in the
//! pinned tables, and an id can never come to mean something else while a pointer holds it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, FromBytes, IntoBytes, Immutable,
            KnownLayout,
        )]
        pub struct $name(pub u64);
    };
}

id!(
    /// Names a frontend: hash of address, port and protocol.
    FrontendId
);
id!(
    /// Names a namespace that clients can belong to: hash of its name. 0 is "no namespace known".
    NamespaceId
);
id!(
    /// Names a split: hash of route, address family, policy, legs and weights.
    SplitId
);
id!(
    /// Names a row of counters: hash of the route, or of the route and one of its backendRefs. It
    /// stays the same when weights or endpoints change.
    StatsId
);
id!(
    /// Names a backend: hash of its kind, namespace, name, port and address family.
    BackendId
);
id!(
    /// Names one list of endpoints of a backend: hash of the backend and of the list.
    EndpointSetId
);
id!(
    /// Names an endpoint of a backend: hash of the backend, address and port.
    EndpointId
);
