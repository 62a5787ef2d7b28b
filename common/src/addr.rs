//! Addresses at the kernel border: always 16 bytes, IPv4 as `::ffff:a.b.c.d`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An IPv4 or IPv6 address in network byte order; IPv4 is stored v4-mapped (RFC 4291, 2.5.5.2).
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Address([u8; 16]);

const MAPPED_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Address {
    /// Makes an address from the four bytes of an IPv4 address in network order.
    #[inline(always)]
    #[must_use]
    pub const fn from_v4_octets(v4: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, v4[0], v4[1], v4[2], v4[3]])
    }

    /// Makes an address from the sixteen bytes of an IPv6 address (v4-mapped stays v4-mapped).
    #[inline(always)]
    #[must_use]
    pub const fn from_v6_octets(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Makes an address from the four words of a kernel structure (bytes in network order).
    #[inline(always)]
    #[must_use]
    pub fn from_v6_words(words: [u32; 4]) -> Self {
        zerocopy::transmute!(words)
    }

    /// Returns the four words of a kernel structure (bytes in network order).
    #[inline(always)]
    #[must_use]
    pub fn v6_words(&self) -> [u32; 4] {
        zerocopy::transmute!(self.0)
    }

    /// Returns the sixteen bytes in network order.
    #[inline(always)]
    #[must_use]
    pub const fn octets(&self) -> [u8; 16] {
        self.0
    }

    /// Returns the last four bytes: the IPv4 address, if [`Address::is_v4`].
    #[inline(always)]
    #[must_use]
    pub const fn v4_octets(&self) -> [u8; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }

    /// Whether this is an IPv4 address.
    #[inline(always)]
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.0[..12] == MAPPED_PREFIX
    }

    /// Returns the address family.
    #[must_use]
    pub fn family(&self) -> Family {
        if self.is_v4() { Family::V4 } else { Family::V6 }
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => v6.into(),
        }
    }
}

impl From<Ipv4Addr> for Address {
    fn from(v4: Ipv4Addr) -> Self {
        Self::from_v4_octets(v4.octets())
    }
}

impl From<Ipv6Addr> for Address {
    fn from(v6: Ipv6Addr) -> Self {
        Self(v6.octets())
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        Ipv6Addr::from(address.0).to_canonical()
    }
}

impl core::fmt::Debug for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for Address {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

/// An IP address family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// IPv4, also through v4-mapped IPv6 sockets.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns `IPv4` or `IPv6`, the spelling of Kubernetes' `ipFamilies` and `addressType`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v4_is_stored_v4_mapped() {
        let address = Address::from(Ipv4Addr::new(10, 1, 2, 3));
        assert_eq!(address.octets(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 1, 2, 3]);
        assert!(address.is_v4());
        assert_eq!(IpAddr::from(address), IpAddr::from([10, 1, 2, 3]));
    }

    #[test]
    fn a_v4_mapped_v6_address_is_the_v4_address() {
        let mapped: Ipv6Addr = "::ffff:10.1.2.3".parse().unwrap();
        assert_eq!(Address::from(mapped), Address::from(Ipv4Addr::new(10, 1, 2, 3)));
    }

    #[test]
    fn v6_is_not_v4() {
        let address = Address::from(Ipv6Addr::LOCALHOST);
        assert_eq!(address.family(), Family::V6);
        assert_eq!(IpAddr::from(address), IpAddr::from(Ipv6Addr::LOCALHOST));
    }
}
