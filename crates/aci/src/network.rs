//! Networks of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
//!
//! Invariant: an IPv4 client, and a network of them, is the same in either notation; a network of
//! IPv6 holds none of them.

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
    /// The addresses whose first `bits` are those of `address`. IPv4 that is written as IPv6 counts
    /// as IPv4, with the bits that are left.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(address: IpAddr, bits: u8) -> Result<Self, &'static str> {
        let network = IpNet::new(address, bits).map_err(|_| NO_NETWORK)?;
        if !is_mapped(address) {
            return Ok(Self(network));
        }
        let bits = bits.checked_sub(MAPPED_BITS).ok_or(MAPPED_TOO_WIDE)?;
        IpNet::new(address.to_canonical(), bits).map(Self).map_err(|_| NO_NETWORK)
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

    /// Whether an address is one of them. An IPv4 address is the same in either notation.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }
}

impl FromStr for Network {
    /// What is wrong, for whoever wrote it.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| NO_NETWORK)?;
        match bits {
            None => Ok(address.into()),
            Some(bits) => Self::new(address, number(bits).ok_or(NO_NETWORK)?),
        }
    }
}

/// A number of bits, or of an octet, as people write it: some readers take `010` for 8.
pub(crate) fn number(text: &str) -> Option<u8> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

/// Whether it is an IPv4 address that is written as IPv6.
pub(crate) fn is_mapped(address: IpAddr) -> bool {
    address.to_canonical() != address
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

/// The bits that stand before an IPv4 address in IPv6 (RFC 4291 §2.5.5.2).
const MAPPED_BITS: u8 = 96;

const NO_NETWORK: &str = "a network is an address, or one with the number of its first bits, such \
                          as \"10.0.0.0/8\" or \"2001:db8::/32\"";
pub(crate) const MAPPED_TOO_WIDE: &str = "an address after \"::ffff:\" is one of IPv4: its network \
                                          has at least 96 bits";

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
        check("::/64", &["::1"], &["10.0.0.1", "::ffff:10.0.0.1"]);
    }

    /// A network that was written so held nobody.
    #[test]
    fn a_network_of_ipv4_is_the_same_in_either_notation() {
        for (mapped, own) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::FFFF:a00:1/128", "10.0.0.1"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(mapped.parse::<Network>(), own.parse(), "{mapped}");
            check(mapped, &["10.0.0.1", "::ffff:10.0.0.1"], &["::1", "::a00:1"]);
        }
        for bits in [0, 8, 64, 95] {
            let text = format!("::ffff:10.0.0.0/{bits}");
            assert_eq!(text.parse::<Network>(), Err(MAPPED_TOO_WIDE), "{text}");
        }
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
            "10.0.0.0/08",
            "::ffff:010.0.0.0/104",
            "10.0.0.0/-8",
            "10.0.0.0/8/8",
            "10.0.0.0/255.0.0.0",
            "10.*",
            "[::1]",
            " 10.0.0.0/8",
            "fe80::1%eth0",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NO_NETWORK), "{text}");
        }
    }
}
