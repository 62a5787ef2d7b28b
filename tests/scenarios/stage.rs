//! What the scenarios share: address families, and the usual stage of one client and some servers.

use std::net::{IpAddr, SocketAddr};
use weir_tests::{client::Dial, manifest};

/// How a client dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// IPv4 sockets.
    V4,
    /// IPv6 sockets.
    V6,
    /// IPv6 sockets to the v4-mapped form of an IPv4 address.
    Mapped,
}

impl Family {
    /// Returns the n-th address of a network that the scenarios share.
    pub(crate) fn address(self, net: u8, host: u8) -> IpAddr {
        manifest::address(self == Self::V6, net, host)
    }

    /// Dials an address in this way.
    pub(crate) fn dial(self, address: SocketAddr) -> Dial {
        Dial { mapped: self == Self::Mapped, ..Dial::to(address) }
    }
}

/// Makes a test of a scenario for each family.
macro_rules! families {
    ($name:ident) => {
        mod $name {
            use crate::stage::{Family, play};

            #[test]
            fn ipv4() {
                play(|| super::$name(Family::V4));
            }

            #[test]
            fn ipv6() {
                play(|| super::$name(Family::V6));
            }

            #[test]
            fn v4_mapped() {
                play(|| super::$name(Family::Mapped));
            }
        }
    };
}
pub(crate) use families;

/// Makes a test of a scenario that has no family.
macro_rules! scenario {
    ($name:ident) => {
        mod $name {
            #[test]
            fn plays() {
                crate::stage::play(super::$name);
            }
        }
    };
}
pub(crate) use scenario;

/// Runs a scenario if this machine can.
pub(crate) fn play(scenario: impl FnOnce() -> anyhow::Result<()>) {
    if !weir_tests::host::is_ready() {
        return;
    }
    if let Err(error) = scenario() {
        panic!("{error:?}");
    }
}
