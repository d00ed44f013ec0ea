//! Entries of the directory whose names and values go into requests.
//!
//! Invariant: an entry is as the login of the load may read it; its values are text.

use std::collections::{BTreeSet, HashMap};

use client::{ClientError, Connection, SearchAnswer, SearchFor};
use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::{Attributes, Scope};

use super::shape::types;
use crate::failure::Failure;

/// Entries that were drawn.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(super) entries: Vec<SampleEntry>,
    /// Entries that have values of an attribute, by its name in lower case.
    pub(super) by_attribute: HashMap<String, Vec<usize>>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct SampleEntry {
    name: Dn,
    types: Vec<String>,
    /// By attribute description in lower case.
    values: HashMap<String, Vec<String>>,
}

impl SampleEntry {
    fn of(dn: &str, attributes: Attributes<'_>) -> Option<Self> {
        let name = Dn::parse(dn).ok()?;
        let mut values = HashMap::new();
        for attribute in attributes {
            let texts = attribute.values.iter().filter_map(|value| {
                let text = std::str::from_utf8(value).ok()?;
                (1..=VALUE_BYTES_MAX).contains(&text.len()).then(|| text.to_owned())
            });
            let texts: Vec<String> = texts.take(VALUES_MAX).collect();
            if !texts.is_empty() {
                values.insert(attribute.description.to_ascii_lowercase(), texts);
            }
        }
        Some(Self { types: types(&name), name, values })
    }

    /// How many RDNs its name has.
    pub(super) fn depth(&self) -> usize {
        self.types.len()
    }

    /// Whether it is or has a superior with RDNs of these types.
    pub(super) fn has_superior(&self, wanted: &[String]) -> bool {
        self.types.ends_with(wanted)
    }

    /// The name of the entry itself or of a superior, if it has RDNs of these types.
    pub(super) fn superior(&self, wanted: &[String]) -> Option<String> {
        let from = self.types.len().checked_sub(wanted.len())?;
        let rdns = self.name.rdns().get(from..)?;
        self.has_superior(wanted).then(|| Dn::new(rdns.to_vec()).to_string())
    }

    pub(super) fn values(&self, attribute: &str) -> &[String] {
        self.values.get(&attribute.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }
}

impl Sample {
    /// Reads so many entries, with values of these attributes.
    pub(crate) fn draw(
        connection: &mut Connection,
        attributes: &BTreeSet<String>,
        entries_max: usize,
    ) -> Result<Self, Failure> {
        let mut sample = Self::default();
        let mut names: Vec<&str> = attributes.iter().map(String::as_str).collect();
        if names.is_empty() {
            names.push("1.1");
        }
        for context in naming_contexts(connection)? {
            sample.read(connection, &context, &names, entries_max)?;
        }
        for (number, entry) in sample.entries.iter().enumerate() {
            for attribute in entry.values.keys() {
                sample.by_attribute.entry(attribute.clone()).or_default().push(number);
            }
        }
        Ok(sample)
    }

    fn read(
        &mut self,
        connection: &mut Connection,
        context: &str,
        attributes: &[&str],
        entries_max: usize,
    ) -> Result<(), Failure> {
        let filter = Filter::Present("objectClass");
        let asked = SearchFor { attributes, ..SearchFor::below(context, filter) };
        let mut cookie = Vec::new();
        while self.entries.len() < entries_max {
            let page = PAGE_ENTRIES.min(entries_max - self.entries.len());
            let page = u32::try_from(page).unwrap_or(u32::MAX);
            let done = connection.search_page(&asked, page, &cookie, &mut |found| {
                if let SearchAnswer::Entry { dn, attributes } = found
                    && self.entries.len() < entries_max
                {
                    self.entries.extend(SampleEntry::of(dn, attributes));
                }
                Ok::<_, ClientError>(())
            })?;
            cookie = done.cookie;
            // A limit of the server is a limit of the sample.
            if cookie.is_empty() || !done.outcome.is_success() {
                break;
            }
        }
        Ok(())
    }
}

fn naming_contexts(connection: &mut Connection) -> Result<Vec<String>, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["namingContexts"],
        ..SearchFor::below("", Filter::Present("objectClass"))
    };
    let found = connection.search(&asked)?;
    let contexts = found.entries.iter().flat_map(|entry| entry.texts("namingContexts"));
    Ok(contexts.map(str::to_owned).collect())
}

/// The longest value that goes into requests.
const VALUE_BYTES_MAX: usize = 256;
/// Values of one attribute of an entry.
const VALUES_MAX: usize = 8;
/// Entries that are asked for at a time.
const PAGE_ENTRIES: usize = 500;
