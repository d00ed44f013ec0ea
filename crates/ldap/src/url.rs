//! LDAP URLs (RFC 4516), with the schemes `ldaps` and `ldapi` that are in common use.
//!
//! Invariants of a parsed URL: DN, attributes, filter and extension names have the right form, and
//! the displayed text parses back to an equal URL.
//!
//! Accepted beyond the RFC: characters that should have been percent-encoded, except controls.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::description::{is_attribute_description, is_oid};
use crate::dn::{Dn, DnError, hex_octet};
use crate::filter::{Filter, FilterError};
use crate::message::Scope;

/// The longest URL accepted.
pub const URL_LENGTH_MAX_BYTES: usize = 256 * 1024;
/// The port of `ldap` URLs that name none.
pub const LDAP_PORT: u16 = 389;
/// The port of `ldaps` URLs that name none.
pub const LDAPS_PORT: u16 = 636;

/// An LDAP URL: a server, and a search there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LdapUrl {
    /// How to reach the server.
    pub scheme: UrlScheme,
    /// The host, an IPv6 address without its brackets, or for `ldapi` the path of the socket.
    pub host: Option<String>,
    /// The port, if it is named.
    pub port: Option<u16>,
    /// The base of the search; the root if the URL has none.
    pub dn: Dn,
    /// The attributes to return; none means all user attributes.
    pub attributes: Vec<String>,
    /// The scope; `base` is meant where there is none.
    pub scope: Option<Scope>,
    /// The filter in the form of RFC 4515; `(objectClass=*)` is meant where there is none.
    pub filter: Option<String>,
    /// The extensions, of which a critical one must be obeyed or the URL left alone.
    pub extensions: Vec<UrlExtension>,
}

/// How to reach the server of a URL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UrlScheme {
    /// LDAP over TCP.
    Ldap,
    /// LDAP over TLS.
    Ldaps,
    /// LDAP over a local socket.
    Ldapi,
}

impl UrlScheme {
    const ALL: [Self; 3] = [Self::Ldap, Self::Ldaps, Self::Ldapi];

    /// The scheme as it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ldap => "ldap",
            Self::Ldaps => "ldaps",
            Self::Ldapi => "ldapi",
        }
    }
}

/// An extension of a URL (RFC 4516 §2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlExtension {
    /// Whether the URL must not be used where the extension is unknown.
    pub critical: bool,
    /// Its name or OID.
    pub name: String,
    /// Its value.
    pub value: Option<String>,
}

impl LdapUrl {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let all = Part { text, offset: 0 };
        if text.len() > URL_LENGTH_MAX_BYTES {
            return Err(UrlError { offset: URL_LENGTH_MAX_BYTES, reason: UrlReason::TooLong });
        }
        if let Some(offset) = text.find(|character: char| character.is_control()) {
            return Err(UrlError { offset, reason: UrlReason::ControlCharacter });
        }
        let (scheme, rest) = all.split_once("://").ok_or(all.error(UrlReason::MissingScheme))?;
        let scheme = UrlScheme::ALL
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(scheme.text))
            .ok_or(scheme.error(UrlReason::UnknownScheme))?;
        let (authority, query) = rest.split_once("/").unwrap_or((rest, rest.end()));
        let (host, port) = match scheme {
            UrlScheme::Ldap | UrlScheme::Ldaps => host_and_port(authority)?,
            UrlScheme::Ldapi => (authority.decode()?, None),
        };
        let mut parts = query.split('?');
        let mut next = || parts.next().unwrap_or(query.end());
        let (dn, attributes, scope, filter, extensions) = (next(), next(), next(), next(), next());
        if let Some(part) = parts.next() {
            return Err(part.error(UrlReason::TooManyParts));
        }
        let dn_text = dn.decode()?;
        Ok(Self {
            scheme,
            host: Some(host).filter(|host| !host.is_empty()),
            port,
            dn: Dn::parse(&dn_text).map_err(|error| dn.error(UrlReason::Dn(error)))?,
            attributes: attributes.list().map(selector).collect::<Result<_, _>>()?,
            scope: parse_scope(scope)?,
            filter: parse_filter(filter)?,
            extensions: extensions.list().map(extension).collect::<Result<_, _>>()?,
        })
    }

    /// The port to connect to. A local socket has none; 0 stands for it.
    pub const fn port_or_default(&self) -> u16 {
        match (self.port, self.scheme) {
            (Some(port), _) => port,
            (None, UrlScheme::Ldap) => LDAP_PORT,
            (None, UrlScheme::Ldaps) => LDAPS_PORT,
            (None, UrlScheme::Ldapi) => 0,
        }
    }
}

impl FromStr for LdapUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        Self::parse(text)
    }
}

/// A part of the text, and where in the text it begins.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Part<'a> {
    fn split_once(self, separator: &str) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let offset = self.offset + before.len() + separator.len();
        Some((Part { text: before, ..self }, Part { text: after, offset }))
    }

    fn split(self, separator: char) -> impl Iterator<Item = Self> {
        self.text.split(separator).scan(self.offset, move |next, text| {
            let offset = *next;
            *next += text.len() + separator.len_utf8();
            Some(Part { text, offset })
        })
    }

    /// The members of a list with commas; none if the part is empty.
    fn list(self) -> impl Iterator<Item = Self> {
        self.split(',').filter(move |_| !self.text.is_empty())
    }

    /// The empty part at the end of this one.
    const fn end(self) -> Self {
        Self { text: "", offset: self.offset + self.text.len() }
    }

    /// The part with its percent-encoded octets decoded.
    fn decode(self) -> Result<String, UrlError> {
        let mut octets = Vec::with_capacity(self.text.len());
        let mut rest = self.text.as_bytes();
        while let Some((&octet, after)) = rest.split_first() {
            rest = after;
            if octet != b'%' {
                octets.push(octet);
                continue;
            }
            let offset = self.offset + self.text.len() - after.len() - 1;
            let (decoded, after) = match after {
                [high, low, after @ ..] => (hex_octet(*high, *low), after),
                _ => (None, after),
            };
            octets.push(decoded.ok_or(UrlError { offset, reason: UrlReason::BadPercent })?);
            rest = after;
        }
        String::from_utf8(octets).map_err(|_| self.error(UrlReason::NotUtf8))
    }

    const fn error(self, reason: UrlReason) -> UrlError {
        UrlError { offset: self.offset, reason }
    }
}

fn host_and_port(authority: Part<'_>) -> Result<(String, Option<u16>), UrlError> {
    let bad_host = || authority.error(UrlReason::BadHost);
    let (host, port) = if let Some(bracketed) = authority.text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']').ok_or_else(bad_host)?;
        let host = Part { text: address, offset: authority.offset + 1 }.decode()?;
        let (address, zone) = host.split_once('%').unwrap_or((&host, "0"));
        if address.parse::<Ipv6Addr>().is_err() || !is_host_name(zone) {
            return Err(bad_host());
        }
        let port = match port {
            "" => "",
            port => port.strip_prefix(':').ok_or_else(bad_host)?,
        };
        (host, port)
    } else {
        let (host, port) = authority.text.split_once(':').unwrap_or((authority.text, ""));
        let host = Part { text: host, ..authority }.decode()?;
        if !host.is_empty() && !is_host_name(&host) {
            return Err(bad_host());
        }
        (host, port)
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let offset = authority.offset + authority.text.len() - port.len();
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if is_number => Ok((host, Some(port))),
        _ => Err(UrlError { offset, reason: UrlReason::BadPort }),
    }
}

fn is_host_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-._~".contains(c))
}

/// An attribute selector (RFC 4511 §4.5.1.8): a description, `*`, `+`, `1.1` or `@class`.
fn selector(part: Part<'_>) -> Result<String, UrlError> {
    let text = part.decode()?;
    let is_special =
        matches!(text.as_str(), "*" | "+") || text.strip_prefix('@').is_some_and(is_oid);
    if is_special || is_attribute_description(&text) {
        Ok(text)
    } else {
        Err(part.error(UrlReason::BadAttribute))
    }
}

fn parse_scope(part: Part<'_>) -> Result<Option<Scope>, UrlError> {
    match part.decode()?.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "base" => Ok(Some(Scope::Base)),
        "one" => Ok(Some(Scope::One)),
        "sub" => Ok(Some(Scope::Subtree)),
        "subordinate" | "subordinates" | "children" => Ok(Some(Scope::Subordinate)),
        _ => Err(part.error(UrlReason::BadScope)),
    }
}

fn parse_filter(part: Part<'_>) -> Result<Option<String>, UrlError> {
    let text = part.decode()?;
    if text.is_empty() {
        return Ok(None);
    }
    match Filter::parse(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(part.error(UrlReason::Filter(error))),
    }
}

fn extension(part: Part<'_>) -> Result<UrlExtension, UrlError> {
    let critical = part.text.starts_with('!');
    let skipped = usize::from(critical);
    let text = part.text.get(skipped..).unwrap_or_default();
    let part = Part { text, offset: part.offset + skipped };
    let (name, value) = match part.split_once("=") {
        Some((name, value)) => (name, Some(value.decode()?)),
        None => (part, None),
    };
    let decoded = name.decode()?;
    if !is_oid(&decoded) {
        return Err(name.error(UrlReason::BadExtension));
    }
    Ok(UrlExtension { critical, name: decoded, value })
}

impl fmt::Display for LdapUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name())?;
        let host = Encoded { text: self.host.as_deref().unwrap_or_default(), plain: "-._~" };
        if host.text.contains(':') && self.scheme != UrlScheme::Ldapi {
            write!(f, "[{}]", Encoded { plain: "-._~:", ..host })?;
        } else {
            host.fmt(f)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        let dn = self.dn.to_string();
        let parts = [
            Encoded { text: &dn, plain: PLAIN }.to_string(),
            Encoded { text: &self.attributes.join(","), plain: PLAIN }.to_string(),
            self.scope.map(Scope::name).unwrap_or_default().to_owned(),
            Encoded { text: self.filter.as_deref().unwrap_or_default(), plain: PLAIN }.to_string(),
            self.extensions.iter().map(UrlExtension::to_string).collect::<Vec<_>>().join(","),
        ];
        let used = parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
        if used > 0 || self.host.is_none() && self.port.is_none() {
            f.write_str("/")?;
        }
        f.write_str(&parts.get(..used).unwrap_or_default().join("?"))
    }
}

impl fmt::Display for UrlExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.critical { "!" } else { "" }, self.name)?;
        match &self.value {
            Some(value) => write!(f, "={}", Encoded { text: value, plain: PLAIN_IN_LIST }),
            None => Ok(()),
        }
    }
}

/// Displays text with all characters percent-encoded but ASCII letters, digits and `plain`.
#[derive(Clone, Copy)]
struct Encoded<'a> {
    text: &'a str,
    plain: &'static str,
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for octet in self.text.bytes() {
            let character = char::from(octet);
            if character.is_ascii_alphanumeric() || self.plain.contains(character) {
                write!(f, "{character}")?;
            } else {
                write!(f, "%{octet:02X}")?;
            }
        }
        Ok(())
    }
}

/// Why a text is not an LDAP URL, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UrlError {
    /// The byte of the text at which the part in trouble begins.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: UrlReason,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.reason, self.offset)
    }
}

impl std::error::Error for UrlError {}

/// What is wrong with the text of an LDAP URL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UrlReason {
    /// The text is longer than [`URL_LENGTH_MAX_BYTES`].
    TooLong,
    /// A control character stands in the text.
    ControlCharacter,
    /// The text has no `://`.
    MissingScheme,
    /// The scheme is none of `ldap`, `ldaps`, `ldapi`.
    UnknownScheme,
    /// The host is neither a name nor an address.
    BadHost,
    /// The port is not a number up to 65535.
    BadPort,
    /// A `%` is not followed by two hex digits.
    BadPercent,
    /// A part is not UTF-8 once it is decoded.
    NotUtf8,
    /// The DN is wrong, at an offset into its decoded text.
    Dn(DnError),
    /// An attribute has the wrong form.
    BadAttribute,
    /// The scope is unknown.
    BadScope,
    /// The filter is wrong, at an offset into its decoded text.
    Filter(FilterError),
    /// An extension's name is neither a short name nor a dotted OID.
    BadExtension,
    /// There is a fifth `?`.
    TooManyParts,
}

impl fmt::Display for UrlReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dn(DnError { offset, reason }) => {
                return write!(f, "the DN is wrong at its byte {offset}: {reason}");
            }
            Self::Filter(FilterError { offset, reason }) => {
                return write!(f, "the filter is wrong at its byte {offset}: {reason}");
            }
            Self::TooLong => "the URL is longer than 262144 bytes",
            Self::ControlCharacter => "control characters must be percent-encoded",
            Self::MissingScheme => "an LDAP URL begins with ldap://, ldaps:// or ldapi://",
            Self::UnknownScheme => "the scheme must be ldap, ldaps or ldapi",
            Self::BadHost => {
                "the host must be a name, an IPv4 address or an IPv6 address in brackets"
            }
            Self::BadPort => "the port must be a number from 0 to 65535",
            Self::BadPercent => {
                "'%' must be followed by two hex digits: write '%25' for the character itself"
            }
            Self::NotUtf8 => "this part is not valid UTF-8 once it is decoded",
            Self::BadAttribute => "an attribute must be a name, a dotted OID, '*' or '+'",
            Self::BadScope => "the scope must be base, one, sub or subordinate",
            Self::BadExtension => "an extension must be a name or a dotted OID",
            Self::TooManyParts => "there are too many '?': write '%3F' for the character itself",
        })
    }
}

/// What stands for itself in most parts (RFC 3986 §3.4), but `?`.
const PLAIN: &str = "-._~!$&'()*+,;=:@/";
/// What stands for itself in the value of an extension.
const PLAIN_IN_LIST: &str = "-._~!$&'()*+;=:@/";

#[cfg(test)]
mod tests;
