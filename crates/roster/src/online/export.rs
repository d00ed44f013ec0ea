//! Entries of a serving directory as LDIF: a search, page after page, written as it comes, and one
//! more for subentries (RFC 3672). Referral objects (RFC 3296) are entries as others.
//!
//! The server sends entries in the order in which they were added, superiors mostly first. Those
//! whose superior was not written yet are held back until the others are.
//!
//! Invariant: of all that is written, a superior comes before its subordinates.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write};

use client::{ClientError, Connection, SearchAnswer, SearchFor};
use ldap::filter::Filter;
use ldap::ldif::{LDIF_FOLD_COLUMNS, LdifWriter};
use ldap::message::{Attributes, Controls, Scope};

use super::addition::is_computed;
use super::server::Server;
use super::waiting::Waiting;
use crate::connect::Login;
use crate::failure::Failure;

/// What is exported.
#[derive(Clone, Debug)]
pub(crate) struct ExportQuery<'a> {
    /// The entry to begin at; without, each naming context.
    pub(crate) base: Option<&'a str>,
    /// How far from there.
    pub(crate) scope: Scope,
    /// Which entries.
    pub(crate) filter: Option<&'a str>,
    /// Which attributes; none for all, with operational ones.
    pub(crate) attributes: &'a [String],
}

/// Why an export ended.
pub(crate) enum Ended {
    Client(ClientError),
    /// The output cannot be written.
    Output(io::Error),
    Other(Failure),
}

/// Writes what is asked for; returns how many entries.
pub(crate) fn export(
    login: &Login,
    asked: &ExportQuery<'_>,
    out: &mut dyn Write,
) -> Result<u64, Ended> {
    let filter = match asked.filter {
        None => Filter::Present("objectClass"),
        Some(text) => Filter::parse(text).map_err(|error| {
            Ended::Other(Failure::local(format!("'{text}' is not a search filter: {error}")))
        })?,
    };
    let mut connection = login.connect().map_err(Ended::Other)?;
    let server = Server::look(&mut connection)?;
    let bases = match asked.base {
        Some(base) => vec![base.to_owned()],
        None => server.contexts.clone(),
    };
    let mut entries = 0;
    for base in &bases {
        let mut export = Export {
            out: &mut *out,
            asked: asked.attributes,
            // With a filter, a superior that was not written may be one that does not match.
            superiors: (asked.filter.is_none() && asked.scope != Scope::Base).then(HashSet::new),
            held: Waiting::default(),
            entries: 0,
        };
        for controls in server.controls_for_all(asked.scope) {
            export.run(&mut connection, base, asked.scope, &filter, controls.as_ref())?;
        }
        export.write_held()?;
        entries += export.entries;
    }
    Ok(entries)
}

struct Export<'o> {
    out: &'o mut dyn Write,
    asked: &'o [String],
    /// What was written and has subordinates, by the hash of its name; none when nobody is waited
    /// for.
    superiors: Option<HashSet<u64>>,
    /// Hash of the superior, own hash, and the record.
    held: Waiting,
    entries: u64,
}

impl Export<'_> {
    fn run(
        &mut self,
        connection: &mut Connection,
        base: &str,
        scope: Scope,
        filter: &Filter<'_>,
        controls: Controls<'_>,
    ) -> Result<(), Ended> {
        let mut attributes: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        // What is computed of an entry is not part of it.
        let stored_only = attributes.is_empty();
        if stored_only {
            attributes.extend(["*", "+", REFERRAL]);
        }
        attributes.push(HAS_SUBORDINATES);
        let asked = SearchFor {
            scope,
            attributes: &attributes,
            stored_only,
            ..SearchFor::below(base, filter.clone())
        };
        if let Some(superiors) = &mut self.superiors {
            // What is at the beginning waits for nobody.
            superiors.extend(superior(base).map(hash));
            superiors.extend((scope != Scope::Subtree).then(|| hash(base)));
        }
        let mut cookie = Vec::new();
        loop {
            let mut each = |found: SearchAnswer<'_>| match found {
                SearchAnswer::Entry { dn, attributes } => self.take(dn, attributes),
                SearchAnswer::Reference(_) => Ok(()),
            };
            let page =
                connection.search_page_with(&asked, PAGE_ENTRIES, &cookie, controls, &mut each)?;
            page.outcome.into_result("search")?;
            cookie = page.cookie;
            if cookie.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes an entry, or holds it back.
    fn take(&mut self, dn: &str, attributes: Attributes<'_>) -> Result<(), Ended> {
        let Some(superiors) = &mut self.superiors else {
            return self.write(dn, attributes);
        };
        let (own, above) = (hash(dn), superior(dn).map_or(0, hash));
        if superiors.contains(&above) {
            if has_subordinates(attributes) {
                superiors.insert(own);
            }
            return self.write(dn, attributes);
        }
        let mut octets = Vec::new();
        octets.extend_from_slice(&above.to_le_bytes());
        octets.extend_from_slice(&own.to_le_bytes());
        write(&mut octets, self.asked, dn, attributes)?;
        Ok(self.held.push(&octets)?)
    }

    fn write(&mut self, dn: &str, attributes: Attributes<'_>) -> Result<(), Ended> {
        self.entries += 1;
        Ok(write(self.out, self.asked, dn, attributes)?)
    }

    /// Writes what was held back, as long as superiors are found, and then what is left: its
    /// superiors have gone meanwhile, or are not for this user to see.
    fn write_held(&mut self) -> Result<(), Ended> {
        let mut are_all = false;
        while self.held.count() > 0 {
            let before = self.held.count();
            for octets in self.held.take()? {
                let octets = octets?;
                let damaged = || io::Error::from(io::ErrorKind::InvalidData);
                let (above, rest) = octets.split_first_chunk().ok_or_else(damaged)?;
                let (own, record) = rest.split_first_chunk().ok_or_else(damaged)?;
                let superiors = self.superiors.get_or_insert_default();
                if !are_all && !superiors.contains(&u64::from_le_bytes(*above)) {
                    self.held.push(&octets)?;
                    continue;
                }
                superiors.insert(u64::from_le_bytes(*own));
                self.out.write_all(record)?;
                self.entries += 1;
            }
            are_all = self.held.count() == before;
        }
        Ok(())
    }
}

fn write(
    out: &mut dyn Write,
    asked: &[String],
    dn: &str,
    attributes: Attributes<'_>,
) -> io::Result<()> {
    let mut writer = LdifWriter::new(out, LDIF_FOLD_COLUMNS);
    writer.dn(dn)?;
    for attribute in attributes {
        let description = attribute.description;
        let is_named = || asked.iter().any(|one| one.eq_ignore_ascii_case(description));
        if is_computed(description) && !is_named() {
            continue;
        }
        for value in attribute.values {
            writer.attribute(description, value)?;
        }
    }
    writer.end_record()
}

/// A server that does not say may have some.
fn has_subordinates(attributes: Attributes<'_>) -> bool {
    let said = attributes.iter().find(|one| one.description.eq_ignore_ascii_case(HAS_SUBORDINATES));
    said.is_none_or(|said| said.values.iter().any(|value| value != b"FALSE"))
}

/// The name of the superior, as a server writes names (RFC 4514): what follows the first comma
/// that is not escaped.
fn superior(dn: &str) -> Option<&str> {
    let mut is_escaped = false;
    let comma = dn.bytes().position(|octet| {
        let is_comma = octet == b',' && !is_escaped;
        is_escaped = octet == b'\\' && !is_escaped;
        is_comma
    });
    comma.and_then(|at| dn.get(at + 1..)).map(str::trim_start)
}

/// What names are told apart by.
fn hash(dn: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    dn.chars().flat_map(char::to_lowercase).for_each(|letter| letter.hash(&mut hasher));
    hasher.finish()
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Ended {
    /// The failure; `failed` names what was written to.
    pub(crate) fn into_failure(self, failed: impl Fn(io::Error) -> Failure) -> Failure {
        match self {
            Self::Client(error) => error.into(),
            Self::Output(error) => failed(error),
            Self::Other(failure) => failure,
        }
    }
}

/// RFC 4512's X.501 attribute.
const HAS_SUBORDINATES: &str = "hasSubordinates";
/// Some servers give it only by its name.
const REFERRAL: &str = "ref";
/// Entries of one page.
const PAGE_ENTRIES: u32 = 1_000;
/// The largest entry: a group of millions.
pub(crate) const ENTRY_MAX_BYTES: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superior_follows_the_first_comma_that_separates() {
        for (dn, want) in [
            ("cn=a,o=x", Some("o=x")),
            ("cn=a, o=x", Some("o=x")),
            ("cn=a\\,b,o=x", Some("o=x")),
            ("cn=a\\\\,o=x", Some("o=x")),
            ("cn=a\\2c,o=x", Some("o=x")),
            ("o=x", None),
            ("", None),
        ] {
            assert_eq!(superior(dn), want, "{dn}");
        }
        assert_eq!(hash("OU=Ä"), hash("ou=ä"));
    }
}
