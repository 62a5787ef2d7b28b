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
    /// Names a split: hash of all it says, down to the endpoints of its legs. Never changed in place.
    SplitId
);
id!(
    /// Names a sequence of tickets: hash of route, address family and weights. Splits that differ only
    /// in their endpoints share it, so that endpoints can come and go without a step in the shares.
    SequenceId
);
id!(
    /// Names a row of counters: hash of the route, or of the route and one of its backendRefs. It
    /// stays the same when weights or endpoints change.
    StatsId
);
id!(
    /// Names a backend with one list of endpoints: hash of both. Never changed in place.
    BackendId
);
id!(
    /// Names a backend whatever its endpoints: hash of kind, namespace, name, port and address family.
    BackendStateId
);
id!(
    /// Names an endpoint of a backend: hash of the backend (whatever its other endpoints), address and port.
    EndpointId
);
id!(
    /// Names a table of server names: hash of all names in it and of what they lead to.
    NameTableId
);
