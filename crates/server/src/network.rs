//! Networks of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl Network {
    /// Whether an address is one of them. An IPv4 address is the same in either notation.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                (u32::from(ours) ^ u32::from(other)) & mask_32(self.prefix_bits) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                (u128::from(ours) ^ u128::from(other)) & mask_128(self.prefix_bits) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

fn mask_32(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn mask_128(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_| ())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| ())?
            }
            Some(_) => return Err(()),
        };
        if prefix_bits > bits {
            return Err(());
        }
        Ok(Self { address, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_bits)
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
