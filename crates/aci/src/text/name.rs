//! Names and URLs in an ACI.

use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::url::LdapUrl;
use schema::{DnKey, ResolvedFilter, Schema};

use super::Parser;
use super::error::AciReason;
use super::scan::{Fault, Part};
use crate::rule::Url;
use crate::rule::pattern::{Allowed, DnPattern, hex};

impl Parser<'_> {
    /// Reads `ldap:///` and a name.
    pub(super) fn pattern(&mut self, part: Part<'_>, allowed: Allowed) -> Result<DnPattern, Fault> {
        self.count(part)?;
        let name = after_scheme(part)?;
        let text = decoded(name)?;
        DnPattern::parse(&text, allowed, self.schema)
            .map_err(|fault| name.fault(AciReason::Name(fault)))
    }

    /// Reads an LDAP URL with a search.
    pub(super) fn url(&mut self, part: Part<'_>) -> Result<Url, Fault> {
        self.count(part)?;
        let url = LdapUrl::parse(part.text).map_err(|error| Fault {
            offset: part.offset + error.offset,
            reason: AciReason::Url(error.reason),
        })?;
        if let Some(text) = &url.filter
            && let Ok(filter) = Filter::parse(text)
        {
            self.note_unanswered(&filter);
        }
        resolve(&url, self.schema).ok_or_else(|| part.fault(AciReason::Value(BAD_BASE)))
    }
}

/// Resolves a URL; none if its base has no key.
pub(crate) fn resolve(url: &LdapUrl, schema: &Schema) -> Option<Url> {
    let filter = match &url.filter {
        Some(text) => Some(ResolvedFilter::resolve(&Filter::parse(text).ok()?, schema)),
        None => None,
    };
    Some(Url {
        text: url.to_string(),
        base: DnKey::from_dn(schema, &url.dn).ok()?,
        scope: url.scope.unwrap_or(Scope::Base),
        filter,
    })
}

/// What follows `ldap:///`.
pub(super) fn after_scheme(part: Part<'_>) -> Result<Part<'_>, Fault> {
    part.strip_prefix("ldap:///")
        .or_else(|| part.strip_prefix("ldaps:///"))
        .ok_or_else(|| part.expected("a name after 'ldap:///'"))
}

/// The text with its percent-encoded octets decoded.
fn decoded(part: Part<'_>) -> Result<String, Fault> {
    if !part.text.contains('%') {
        return Ok(part.text.to_owned());
    }
    let bad = || part.fault(AciReason::Url(ldap::url::UrlReason::BadPercent));
    let mut octets = Vec::with_capacity(part.text.len());
    let mut rest = part.text.as_bytes();
    while let Some((&octet, after)) = rest.split_first() {
        rest = after;
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let [high, low, after @ ..] = after else { return Err(bad()) };
        if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() {
            return Err(bad());
        }
        octets.push(hex(*high) << 4 | hex(*low));
        rest = after;
    }
    String::from_utf8(octets).map_err(|_| part.fault(AciReason::Url(ldap::url::UrlReason::NotUtf8)))
}

/// The text as [`decoded`] reads it, and as it may stand in a list in quotes.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.len().saturating_sub(1);
    for (position, character) in text.char_indices() {
        let is_end = position == 0 || position == last;
        let is_special = matches!(character, '%' | '"' | '?' | '|') || character.is_control();
        if is_special
            || (is_end && character.is_whitespace())
            || character.len_utf8() > 1 && character.is_whitespace()
        {
            let mut buffer = [0; 4];
            for octet in character.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{octet:02X}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

const BAD_BASE: &str = "the base of the URL is not a name that the schema allows";
