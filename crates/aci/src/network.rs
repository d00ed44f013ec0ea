//! Networks of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
//!
//! Invariant: an IPv4 client is the same in either notation; a network is what it is written as.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Addresses that begin with the same bits.
// Not `IpNet` itself: that reads no single address, takes `010.0.0.1` for an address, and does not
// know IPv4 clients that are written as IPv6.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network(IpNet);

impl Network {
    /// The addresses whose first `bits` are those of `address`.
    pub(crate) fn new(address: IpAddr, bits: u8) -> Option<Self> {
        IpNet::new(address, bits).ok().map(Self)
    }

    /// The addresses that have the bits of `address` where `mask` has ones; nothing if the two are
    /// not of one kind, or the mask has gaps.
    pub(crate) fn with_netmask(address: IpAddr, mask: IpAddr) -> Option<Self> {
        if address.is_ipv4() != mask.is_ipv4() {
            return None;
        }
        IpNet::with_netmask(address, mask).ok().map(Self)
    }

    /// The network, written with its first address.
    pub(crate) fn trunc(self) -> Self {
        Self(self.0.trunc())
    }

    /// IPv4 that is written as IPv6 counts as IPv4, and so do its bits; with more bits than IPv4
    /// has it is no client's.
    #[must_use]
    pub fn to_canonical(self) -> Self {
        let address = self.0.addr();
        let canonical = IpNet::new(address.to_canonical(), self.0.prefix_len());
        Self(canonical.unwrap_or_else(|_| address.into()))
    }

    /// Whether an address is one of them. An IPv4 address is the same in either notation.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(address.into())
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| ())?;
        match bits {
            None => Ok(address.into()),
            Some(bits) if bits.starts_with('+') => Err(()),
            Some(bits) => Self::new(address, bits.parse().map_err(|_| ())?).ok_or(()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.addr())?;
        if self.0.prefix_len() == self.0.max_prefix_len() {
            return Ok(());
        }
        write!(f, "/{}", self.0.prefix_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, inside: &[&str], outside: &[&str]) {
        let network = network.parse::<Network>().unwrap();
        for address in inside {
            assert!(network.contains(address.parse().unwrap()), "{network} {address}");
        }
        for address in outside {
            assert!(!network.contains(address.parse().unwrap()), "{network} {address}");
        }
    }

    #[test]
    fn addresses_are_compared_by_their_first_bits() {
        check("10.0.0.0/8", &["10.1.2.3", "::ffff:10.9.9.9"], &["11.0.0.0", "::1", "a00::"]);
        check("192.0.2.1", &["192.0.2.1"], &["192.0.2.2"]);
        check("192.0.2.128/25", &["192.0.2.255", "192.0.2.128"], &["192.0.2.127"]);
        check("0.0.0.0/0", &["255.255.255.255", "0.0.0.0"], &["::2"]);
        check("::/0", &["::1", "ffff::"], &["1.2.3.4"]);
        check("2001:db8::/33", &["2001:db8:7fff::1"], &["2001:db8:8000::1"]);
        check("10.1.9.9/16", &["10.1.0.0", "::ffff:10.1.2.3"], &["10.2.0.0"]);
        check("10.0.0.0/008", &["10.2.0.0"], &["11.0.0.0"]);
        let four = ["10.0.0.1", "::ffff:10.0.0.1"];
        for network in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "::ffff:0:0/96", "::/64"] {
            check(network, &[], &four);
        }
        check("::ffff:10.0.0.1/64", &["::1"], &four);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/256",
            "::/129",
            "10.0.0/8",
            "010.0.0.0/8",
            "a/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-8",
            "10.0.0.0/8/8",
            "10.0.0.0/255.0.0.0",
            "10.*",
            "[::1]",
            " 10.0.0.0/8",
            "fe80::1%eth0",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
