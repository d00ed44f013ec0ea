//! The header that a proxy sends first, to say who connected to it: the PROXY protocol, versions 1
//! and 2.
//!
//! Invariant: nothing behind the header is read, because it belongs to the client.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What the first octets of a connection are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProxyHeader {
    /// The beginning of a header; the whole one has at least this many octets.
    Incomplete {
        /// Octets from the beginning.
        need_at_least: usize,
    },
    /// A whole header.
    Complete {
        /// Octets of it.
        length: usize,
        /// The client; none when the proxy speaks for itself, or the client has no IP address.
        client: Option<SocketAddr>,
    },
}

/// Octets that are no header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoProxyHeader;

impl fmt::Display for NoProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection does not begin with a header of the PROXY protocol")
    }
}

impl std::error::Error for NoProxyHeader {}

impl ProxyHeader {
    /// Reads the first octets of a connection.
    ///
    /// # Errors
    /// When they are not the beginning of a header.
    pub fn read(octets: &[u8]) -> Result<Self, NoProxyHeader> {
        let begins = |with: &[u8]| octets.iter().zip(with).all(|(octet, other)| octet == other);
        if begins(SIGNATURE_2) {
            version_2(octets)
        } else if begins(SIGNATURE_1) {
            version_1(octets)
        } else {
            Err(NoProxyHeader)
        }
    }
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 51000 389\r\n`.
fn version_1(octets: &[u8]) -> Result<ProxyHeader, NoProxyHeader> {
    let searched = octets.get(..LINE_MAX_BYTES).unwrap_or(octets);
    let Some(end) = searched.windows(2).position(|pair| pair == b"\r\n") else {
        if octets.len() >= LINE_MAX_BYTES {
            return Err(NoProxyHeader);
        }
        return Ok(ProxyHeader::Incomplete { need_at_least: LINE_MIN_BYTES.max(octets.len() + 1) });
    };
    let line = octets.get(..end).and_then(|line| std::str::from_utf8(line).ok());
    let mut parts = line.ok_or(NoProxyHeader)?.split(' ');
    let length = end + 2;
    let (_, family) = (parts.next(), parts.next().ok_or(NoProxyHeader)?);
    if family == "UNKNOWN" {
        return Ok(ProxyHeader::Complete { length, client: None });
    }
    let mut part = || parts.next().ok_or(NoProxyHeader);
    let (source, destination, port, port_here) = (part()?, part()?, part()?, part()?);
    if parts.next().is_some() {
        return Err(NoProxyHeader);
    }
    let address = |text: &str| match family {
        "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| NoProxyHeader),
        "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| NoProxyHeader),
        _ => Err(NoProxyHeader),
    };
    let number = |text: &str| match text.as_bytes() {
        [b'0', _, ..] | [b'+', ..] => Err(NoProxyHeader),
        _ => text.parse::<u16>().map_err(|_| NoProxyHeader),
    };
    address(destination)?;
    number(port_here)?;
    let client = SocketAddr::new(address(source)?, number(port)?);
    Ok(ProxyHeader::Complete { length, client: Some(client) })
}

/// Signature, version and command, family, length, addresses, and more that is skipped.
fn version_2(octets: &[u8]) -> Result<ProxyHeader, NoProxyHeader> {
    if octets.len() < SIGNATURE_2.len() {
        // It may be version 1 yet, whose shortest line is shorter than what version 2 has.
        return Ok(ProxyHeader::Incomplete { need_at_least: SIGNATURE_2.len() });
    }
    let Some(fixed) = octets.get(SIGNATURE_2.len()..FIXED_BYTES) else {
        return Ok(ProxyHeader::Incomplete { need_at_least: FIXED_BYTES });
    };
    let &[command, family, high, low] = fixed else {
        return Err(NoProxyHeader);
    };
    let rest = usize::from(u16::from_be_bytes([high, low]));
    if rest > REST_MAX_BYTES {
        return Err(NoProxyHeader);
    }
    let length = FIXED_BYTES + rest;
    let Some(body) = octets.get(FIXED_BYTES..length) else {
        return Ok(ProxyHeader::Incomplete { need_at_least: length });
    };
    let client = match (command, family) {
        // The proxy itself: a health check.
        (0x20, _) => None,
        // TCP over IPv4 and IPv6.
        (0x21, 0x11) => Some(pair_4(body).ok_or(NoProxyHeader)?),
        (0x21, 0x21) => Some(pair_6(body).ok_or(NoProxyHeader)?),
        // Unspecified, datagrams, Unix sockets: no address that means anything here.
        (0x21, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => None,
        _ => return Err(NoProxyHeader),
    };
    Ok(ProxyHeader::Complete { length, client })
}

/// Source and destination address, source and destination port.
fn pair_4(body: &[u8]) -> Option<SocketAddr> {
    let address = <[u8; 4]>::try_from(body.get(..4)?).ok()?;
    let port = <[u8; 2]>::try_from(body.get(8..10)?).ok()?;
    body.get(10..12)?;
    Some(SocketAddr::new(Ipv4Addr::from(address).into(), u16::from_be_bytes(port)))
}

fn pair_6(body: &[u8]) -> Option<SocketAddr> {
    let address = <[u8; 16]>::try_from(body.get(..16)?).ok()?;
    let port = <[u8; 2]>::try_from(body.get(32..34)?).ok()?;
    body.get(34..36)?;
    Some(SocketAddr::new(Ipv6Addr::from(address).into(), u16::from_be_bytes(port)))
}

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// `PROXY UNKNOWN\r\n`.
const LINE_MIN_BYTES: usize = 15;
/// The longest line of version 1, with its end.
const LINE_MAX_BYTES: usize = 107;
/// What every header of version 2 has.
const FIXED_BYTES: usize = 16;
/// Addresses and extensions of a header of version 2; those that are in use have some hundred.
const REST_MAX_BYTES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[track_caller]
    fn check(octets: &[u8], want: Option<SocketAddr>) {
        let whole = ProxyHeader::Complete { length: octets.len(), client: want };
        assert_eq!(ProxyHeader::read(octets), Ok(whole));
        // What follows is the client's.
        assert_eq!(ProxyHeader::read(&[octets, b"more"].concat()), Ok(whole));
        // No part of it is taken for a whole, and a reader never asks for too much.
        for length in 0..octets.len() {
            match ProxyHeader::read(&octets[..length]) {
                Ok(ProxyHeader::Incomplete { need_at_least }) => {
                    assert!(need_at_least > length && need_at_least <= octets.len());
                }
                other => panic!("{length} octets: {other:?}"),
            }
        }
    }

    fn version_2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [SIGNATURE_2, &[command, family], &length, body].concat()
    }

    #[test]
    fn lines_of_version_1_name_the_client() {
        check(b"PROXY TCP4 192.0.2.1 192.0.2.2 51000 389\r\n", client("192.0.2.1:51000"));
        check(b"PROXY TCP6 2001:db8::1 ::1 1 389\r\n", client("[2001:db8::1]:1"));
        check(b"PROXY UNKNOWN\r\n", None);
        check(b"PROXY UNKNOWN ffff:f...f:ffff 1 2 whatever\r\n", None);
    }

    #[test]
    fn headers_of_version_2_name_the_client() {
        let body =
            [&[192, 0, 2, 1, 192, 0, 2, 2, 0xc7, 0x38, 1, 0x85][..], b"\x04\x00\x01x"].concat();
        check(&version_2(0x21, 0x11, &body), client("192.0.2.1:51000"));
        check(&version_2(0x21, 0x11, &body[..12]), client("192.0.2.1:51000"));
        let mut body = [0; 36];
        (body[15], body[33]) = (1, 9);
        check(&version_2(0x21, 0x21, &body), client("[::1]:9"));
        check(&version_2(0x20, 0x00, b""), None);
        check(&version_2(0x20, 0x11, &body), None);
        check(&version_2(0x21, 0x00, b"x"), None);
    }

    #[test]
    fn anything_else_is_no_header() {
        let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 100]].concat();
        for wrong in [
            &b"0\x0c\x02\x01\x01"[..],
            b"PROXX ",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 51000\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 51000 389 x\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 051000 389\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 389\r\n",
            b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 389\r\n",
            b"PROXY TCP4 ::1 ::1 1 389\r\n",
            b"PROXY TCP6 192.0.2.1 192.0.2.2 1 389\r\n",
            b"PROXY UDP4 192.0.2.1 192.0.2.2 1 389\r\n",
            b"PROXY \r\n",
            &long,
            &version_2(0x11, 0x11, &[0; 12]),
            &version_2(0x22, 0x11, &[0; 12]),
            &version_2(0x21, 0x99, &[0; 12]),
            &version_2(0x21, 0x11, &[0; 11]),
            &version_2(0x21, 0x21, &[0; 35]),
            &version_2(0x20, 0x00, &[0; REST_MAX_BYTES + 1]),
        ] {
            assert_eq!(ProxyHeader::read(wrong), Err(NoProxyHeader), "{wrong:02x?}");
        }
    }
}
