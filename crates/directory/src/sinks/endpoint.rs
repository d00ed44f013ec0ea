//! Where a target is: a scheme, a host, a port and a path.

use std::net::IpAddr;

use crate::lines::scanner::{LineError, Parsed, wrong};

/// Where to send something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SinkEndpoint {
    /// Whether it is asked by TLS.
    pub is_tls: bool,
    /// A name or an address, an IPv6 one without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What follows, with the first `/`; empty if nothing does.
    pub path: String,
}

impl SinkEndpoint {
    /// Reads a URL with one of these schemes: without TLS, and with it.
    pub(super) fn of_url(text: &str, schemes: [&str; 2], default_port: u16) -> Parsed<Self> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong(format!("'{text}' is no URL that begins with '{}://'", schemes[1]));
        };
        let Some(which) = schemes.iter().position(|one| scheme.eq_ignore_ascii_case(one)) else {
            return wrong(format!("'{scheme}' is not '{}' or '{}'", schemes[1], schemes[0]));
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(end);
        if path.contains('#') {
            return wrong("a URL of a target has no '#'");
        }
        if place.contains('@') {
            return wrong("a URL has no password in it: name files by 'key=' or 'password='");
        }
        let is_plain = |octet: u8| octet.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&octet);
        if !path.bytes().all(is_plain) {
            return wrong("write other letters of the URL as '%' and two digits");
        }
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        let (host, port) = host_and_port(place, Some(default_port))?;
        Ok(Self { is_tls: which == 1, host, port, path })
    }

    /// Reads the URL of what is told by HTTP: with TLS, if it is on another machine.
    ///
    /// # Errors
    /// When it is none.
    pub fn webhook(text: &str) -> Result<Self, LineError> {
        let is_cleartext = text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        let usual = if is_cleartext { 80 } else { 443 };
        let endpoint = Self::of_url(text, ["http", "https"], usual)?;
        match endpoint.is_tls || endpoint.is_local() {
            true => Ok(endpoint),
            false => wrong(format!("'{text}' is on another machine: it has to be an https URL")),
        }
    }

    /// Reads `HOST:PORT`.
    pub(super) fn of_pair(text: &str, is_tls: bool) -> Parsed<Self> {
        let (host, port) = host_and_port(text, None)?;
        Ok(Self { is_tls, host, port, path: String::new() })
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.is_loopback())
    }

    /// Host and port as URLs have them.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn host_and_port(text: &str, default: Option<u16>) -> Parsed<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) if host.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6()) => {
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return wrong(format!("'{text}' is no host")),
            }
        }
        Some(_) => return wrong(format!("'{text}' is no IPv6 address in brackets")),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_host = |octet: u8| octet.is_ascii_alphanumeric() || b"-._:".contains(&octet);
    if host.is_empty() || host.len() > HOST_MAX_BYTES || !host.bytes().all(is_host) {
        return wrong(format!("'{host}' is no name of a host"));
    }
    let port = match port {
        Some(text) => text.parse().ok().filter(|port| *port > 0),
        None => default,
    };
    match port {
        Some(port) => Ok((host.to_owned(), port)),
        None => wrong(format!("a port, 1 to 65535, is expected behind '{host}:'")),
    }
}

/// The longest name of a host, in bytes.
const HOST_MAX_BYTES: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Parsed<SinkEndpoint> {
        SinkEndpoint::of_url(text, ["http", "https"], 443)
    }

    #[test]
    fn urls_are_read() {
        let one = url("https://hooks.example.com/a?b=c").unwrap();
        assert_eq!((one.is_tls, &*one.host, one.port), (true, "hooks.example.com", 443));
        assert_eq!((&*one.path, &*one.authority()), ("/a?b=c", "hooks.example.com:443"));
        let two = url("HTTP://[::1]:80").unwrap();
        assert_eq!((two.is_tls, two.is_local(), &*two.authority()), (false, true, "[::1]:80"));
        assert_eq!(url("https://a?b").unwrap().path, "/?b");
        assert!(!one.is_local() && url("http://127.9.9.9:1/").unwrap().is_local());
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for text in [
            "hooks.example.com",
            "ftp://a",
            "https://",
            "https://a:0/",
            "https://a:b/",
            "https://a:70000/",
            "https://u:p@a/",
            "https://a/#b",
            "https://a/\u{e4}",
            "https://[a]/",
            "https://[::1]x/",
            "https://a b/",
            "https://::1/",
        ] {
            assert!(url(text).is_err(), "{text}");
        }
        assert!(
            SinkEndpoint::of_pair("a", true).is_err() && SinkEndpoint::of_pair("a:9", true).is_ok()
        );
    }
}
