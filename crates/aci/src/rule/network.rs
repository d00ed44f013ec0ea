//! Where a client is: ranges of addresses, and names of hosts with a star.

use std::fmt;
use std::net::IpAddr;

use crate::network::{MAPPED_TOO_WIDE, Network, is_mapped, number};

/// A range of addresses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum AddressRange {
    /// All there are: of IPv4 and of IPv6.
    Any,
    /// Those with the same first bits, by the first of them.
    Network(Network),
    /// Those with the same bits where the mask has ones; it has gaps, or else it were a network.
    Masked { address: IpAddr, mask: IpAddr },
}

impl AddressRange {
    /// Reads `*`, `a.b.c.d`, `a.b.*`, an IPv6 address, or an address with `/bits`, `/mask` or
    /// `+mask`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if text.contains('*') {
            return Self::with_stars(text).ok_or(ADDRESSES);
        }
        let address = |text| unbracketed(text).parse::<IpAddr>().map_err(|_| ADDRESSES);
        let Some((own, mask)) = text.split_once(['/', '+']) else {
            return Ok(Self::Network(Network::from(address(text)?)));
        };
        let own = address(own)?;
        match number(mask) {
            Some(bits) => match Network::new(own, bits) {
                Ok(network) => Ok(Self::Network(network.trunc())),
                Err(MAPPED_TOO_WIDE) => Err(MAPPED_TOO_WIDE),
                Err(_) => Err(ADDRESSES),
            },
            None => {
                let (own, mask) = canonical(own, address(mask)?)?;
                Self::masked(own, mask).ok_or(ADDRESSES)
            }
        }
    }

    /// Reads an IPv4 address with stars for octets; octets that are left out are stars too.
    fn with_stars(text: &str) -> Option<Self> {
        let (mut address, mut mask, mut count) = ([0; 4], [0; 4], 0);
        for octet in text.split('.') {
            let (to, mask) = (address.get_mut(count)?, mask.get_mut(count)?);
            if octet != "*" {
                (*to, *mask) = (number(octet)?, 0xFF);
            }
            count += 1;
        }
        let is_whole = count == address.len() || text.ends_with('*');
        is_whole.then(|| Self::masked(address.into(), mask.into()))?
    }

    /// None if they are not of one kind.
    fn masked(address: IpAddr, mask: IpAddr) -> Option<Self> {
        match Network::with_netmask(address, mask) {
            Some(network) => Some(Self::Network(network.trunc())),
            None => Some(Self::Masked { address: and(address, mask)?, mask }),
        }
    }

    pub(crate) fn holds(&self, client: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Network(network) => network.contains(client),
            Self::Masked { address, mask } => and(client.to_canonical(), *mask) == Some(*address),
        }
    }
}

/// IPv4 that is written as IPv6 counts as IPv4, and so does its mask.
fn canonical(address: IpAddr, mask: IpAddr) -> Result<(IpAddr, IpAddr), &'static str> {
    let IpAddr::V6(of_six) = mask else { return Ok((address, mask)) };
    if !is_mapped(address) {
        return Ok((address, mask));
    }
    let [ones @ .., a, b, c, d] = of_six.octets();
    let is_whole = ones.iter().all(|octet| *octet == 0xFF);
    is_whole.then(|| (address.to_canonical(), [a, b, c, d].into())).ok_or(MAPPED_TOO_WIDE)
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Network(network) => network.fmt(f),
            Self::Masked { address, mask } => write!(f, "{address}+{mask}"),
        }
    }
}

/// The bits of both; none if they are not of one kind.
fn and(one: IpAddr, other: IpAddr) -> Option<IpAddr> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => Some((one & other).into()),
        (IpAddr::V6(one), IpAddr::V6(other)) => Some((one & other).into()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

/// An address in brackets, as it stands in URLs.
fn unbracketed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

/// The name of a host, or the end of the names of many after a star.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HostPattern {
    /// In lower case, without the star.
    name: String,
    is_end: bool,
}

impl HostPattern {
    /// Reads `host.example.com`, `*.example.com` or `*`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, is_end) = match text.strip_prefix('*') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let is_well_formed = is_name(name)
            && (if is_end { name.is_empty() || name.starts_with('.') } else { !name.is_empty() });
        is_well_formed.then(|| Self { name: name.to_ascii_lowercase(), is_end })
    }

    pub(crate) fn holds(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if self.is_end { host.ends_with(&self.name) } else { host == self.name }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_end { "*" } else { "" }, self.name)
    }
}

const ADDRESSES: &str = "addresses are IPv4 or IPv6, with '/BITS', '+NETMASK' or, in IPv4, stars \
                         for octets";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, address: &str, want: bool) {
        let parsed = AddressRange::parse(range).unwrap();
        assert_eq!(parsed.holds(address.parse().unwrap()), want, "{range} {address}");
        assert_eq!(AddressRange::parse(&parsed.to_string()), Ok(parsed), "{range}");
    }

    #[test]
    fn ranges_are_written_in_many_ways() {
        check("192.168.1.7", "192.168.1.7", true);
        check("192.168.1.7", "192.168.1.8", false);
        check("192.168.1.7", "::ffff:192.168.1.7", true);
        for range in ["10.1.0.0/16", "10.1.9.9/16", "10.1.*", "10.1.*.*", "10.1.0.0+255.255.0.0"] {
            check(range, "10.1.200.3", true);
            check(range, "10.2.0.0", false);
            check(range, "::a01:0", false);
        }
        check("10.0.0.0/255.0.0.0", "10.200.3.4", true);
        check("10.*.3.*", "10.200.3.4", true);
        check("10.*.3.*", "10.200.4.4", false);
        check("*", "1.2.3.4", true);
        check("*", "2001:db8::1", true);
        check("*.*.*.*", "1.2.3.4", true);
        check("*.*", "2001:db8::1", false);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("2001:db8::/32", "2001:db8:1::7", true);
        check("2001:db8::/32", "2001:db9::7", false);
        check("[2001:db8::1]", "2001:db8::1", true);
        check("::/0", "2001:db8::1", true);
        check("::/0", "1.2.3.4", false);
    }

    #[test]
    fn masks_may_have_gaps() {
        check("10.1.2.3+255.0.255.0", "10.9.2.9", true);
        check("10.1.2.3/255.0.255.0", "10.1.3.3", false);
        check("10.1.2.3+255.0.255.0", "::ffff:10.9.2.9", true);
        check("0.0.0.1+0.0.0.1", "10.0.0.7", true);
        check("0.0.0.1+0.0.0.1", "10.0.0.8", false);
        check("0.0.0.1+0.0.0.1", "::1", false);
        check("2001:db8::5+ffff:ffff::f", "2001:db8:7::15", true);
        check("2001:db8::5+ffff:ffff::f", "2001:db8:7::16", false);
        check("2001:db8::5+ffff:ffff::f", "1.2.3.5", false);
        check("[2001:db8::]/[ffff:ffff::]", "2001:db8::1", true);
        check("[10.0.0.0]+8", "10.2.3.4", true);
        check("*.*.*.7", "10.1.3.7", true);
        check("*.*.*.7", "10.1.3.8", false);
        check("10.1.2.3/0.0.0.0", "8.8.8.8", true);
    }

    /// A range that was written so held nobody: a deny by it denied nothing.
    #[test]
    fn a_range_of_ipv4_is_the_same_in_either_notation() {
        for (mapped, own) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.9.0.1/104", "10.0.0.0/8"),
            ("[::ffff:10.0.0.1]", "10.0.0.1"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:10.0.0.0+ffff:ffff:ffff:ffff:ffff:ffff:ff00:0", "10.*"),
            ("::ffff:10.0.0.1/ffff:ffff:ffff:ffff:ffff:ffff:ff00:ff", "10.*.*.1"),
        ] {
            assert_eq!(AddressRange::parse(mapped), AddressRange::parse(own), "{mapped}");
            check(mapped, "10.0.0.1", true);
            check(mapped, "::ffff:10.0.0.1", true);
            check(mapped, "::1", false);
        }
        for text in [
            "::ffff:10.0.0.0/64",
            "::ffff:10.0.0.0/95",
            "::ffff:10.0.0.0+ffff:ffff::",
            "::ffff:10.0.0.1/ffff:ffff:ffff:ffff:ffff:fffe:ffff:ffff",
        ] {
            assert_eq!(AddressRange::parse(text), Err(MAPPED_TOO_WIDE), "{text}");
        }
        for range in ["::/0", "::/64"] {
            check(range, "10.0.0.1", false);
            check(range, "::ffff:10.0.0.1", false);
            check(range, "::1", true);
        }
    }

    #[test]
    fn a_range_is_shown_in_its_shortest_form() {
        for (text, shown) in [
            ("10.1.9.9/16", "10.1.0.0/16"),
            ("10.1.*", "10.1.0.0/16"),
            ("10.1.0.0+255.255.0.0", "10.1.0.0/16"),
            ("10.1.2.3+255.255.255.255", "10.1.2.3"),
            ("10.1.2.3/32", "10.1.2.3"),
            ("*", "*"),
            ("*.*", "0.0.0.0/0"),
            ("10.*.3.*", "10.0.3.0+255.0.255.0"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("2001:db8::1/ffff:ffff::", "2001:db8::/32"),
            ("2001:db8::5+ffff:ffff::f", "2001:db8::5+ffff:ffff::f"),
        ] {
            assert_eq!(AddressRange::parse(text).unwrap().to_string(), shown, "{text}");
        }
        assert_eq!(AddressRange::parse("10.1.*"), AddressRange::parse("10.1.7.7+255.255.0.0"));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "010.1.2.3",
            "10.1.2.3/256",
            "10.1.2.3/-8",
            "10.1.2.3/+8",
            "10.1.2.3/08",
            "10.0.0.0++8",
            "0127.*",
            "10.01.*",
            "10.+1.*",
            "**",
            "::ffff:10.0.0.0/255.0.0.0",
            "10.1.2.3/8/8",
            "10.1.2.3 ",
            "10.1.*/16",
            "10..*",
            "[10.1.2.3",
            "[2001:db8::/32]",
            "2001:db8::/255.0.0.0",
            "fe80::1%eth0",
            "",
            "10",
            "10.1",
            "10.1.2",
            "10.1.2.3/33",
            "::/129",
            "10.1.2.3.4",
            "256.1.1.1",
            "a.*",
            "10.1.2.3/::1",
            "10.1.2.3.*",
            "2001:db8:*",
            "10.1.2.3/",
            "10.1.2.3+",
        ] {
            assert_eq!(AddressRange::parse(text), Err(ADDRESSES), "{text}");
        }
    }

    #[test]
    fn a_star_stands_for_the_beginning_of_a_host_name() {
        let check = |pattern: &str, host: &str, want: bool| {
            let parsed = HostPattern::parse(pattern).unwrap();
            assert_eq!(parsed.holds(host), want, "{pattern} {host}");
            assert_eq!(HostPattern::parse(&parsed.to_string()), Some(parsed));
        };
        check("www.Example.com", "WWW.example.COM.", true);
        check("www.example.com", "ww.example.com", false);
        check("*.example.com", "www.example.com", true);
        check("*.example.com", "a.b.example.com", true);
        check("*.example.com", "example.com", false);
        check("*.example.com", "www.badexample.com", false);
        check("*", "anything", true);
        for text in ["", "a*.example.com", "*example.com", "a b"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
    }
}
