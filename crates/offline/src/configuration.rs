//! The configuration of another directory server, read from its LDIF: what it does by itself
//! becomes settings of this one, or stands in a list of what was not translated.
//!
//! A product plugs in by a row of [`PRODUCTS`] and a table of [`Row`]s; each row says what becomes
//! of one overlay, plugin or the like.
//!
//! Invariants: what is switched on and changes what clients see is in one of the lists; nothing is
//! applied here, and no line that the schema does not allow is among the settings; what is read is
//! bounded.

mod automember;
mod ds389;
mod ds389_plugins;
mod entries;
mod found;
mod made;
mod names;
mod opendj;
mod openldap;
mod openldap_overlays;
mod pattern;
mod policy;
mod report;
mod row;
mod setting;

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use history::{HistoryError, schema_of};
use ldap::ldif::{LdifBody, LdifLimits, LdifReader};
use schema::Schema;
use store::Store;

use self::entries::{ConfigEntry, Entries};
use self::found::Found;
pub use self::made::Configuration;
pub use self::setting::{Setting, SettingKind, SettingRemark};
use crate::import::{ImportOptions, Source};

/// Why a configuration cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigurationError {
    /// The name of the source.
    pub name: String,
    /// The line, from 1; 0 where it is about the whole source.
    pub line: u64,
    /// Why, in one sentence.
    pub reason: String,
}

/// Whose configuration can be read.
struct Product {
    name: &'static str,
    /// Whether an entry is of such a configuration.
    owns: fn(&ConfigEntry) -> bool,
    read: fn(&mut Found<'_>),
}

static PRODUCTS: [Product; 3] = [
    Product { name: "OpenLDAP", owns: openldap::owns, read: openldap::read },
    Product { name: "389 Directory Server", owns: ds389::owns, read: ds389::read },
    Product { name: "OpenDJ", owns: opendj::owns, read: opendj::read },
];

impl Configuration {
    /// Reads a configuration for the data directory `data`, which no server uses: by its schema.
    ///
    /// # Errors
    /// As [`Self::read`], and when the directory cannot be opened.
    pub fn read_for(data: &Path, source: Source<'_>) -> Result<Self, ConfigurationError> {
        let schema = || -> Result<_, HistoryError> {
            let store = Store::open(data, &ImportOptions::default().store, schema_of(data)?)?;
            Ok(store.schema())
        };
        let schema = schema().map_err(|error| ConfigurationError {
            name: data.display().to_string(),
            line: 0,
            reason: error.to_string(),
        })?;
        Self::read(source, Some(&schema))
    }

    /// Reads a configuration. With a schema, lines that it does not allow are told as not
    /// translated; without one, the server that is asked to take them decides.
    ///
    /// # Errors
    /// When the source cannot be read, holds something else than entries or more than is allowed,
    /// or is the configuration of no server that is known.
    pub fn read(source: Source<'_>, schema: Option<&Schema>) -> Result<Self, ConfigurationError> {
        let name = source.name().to_owned();
        let failed = |line, reason: String| ConfigurationError { name: name.clone(), line, reason };
        let (_, octets) = source.plain().map_err(|error| failed(0, error.to_string()))?;
        let mut text = Vec::new();
        octets
            .take(CONFIGURATION_MAX_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| failed(0, error.to_string()))?;
        if text.len() as u64 > CONFIGURATION_MAX_BYTES {
            let most = CONFIGURATION_MAX_BYTES >> 20;
            return Err(failed(0, format!("a configuration has at most {most} MiB")));
        }
        let limits = LdifLimits {
            line_length_max_bytes: VALUE_MAX_BYTES,
            record_length_max_bytes: ENTRY_MAX_BYTES,
            record_lines_max: VALUES_MAX,
        };
        let mut reader = LdifReader::new(text.as_slice(), limits);
        let mut entries = Entries::default();
        loop {
            let record = match reader.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => return Err(failed(error.line, error.reason.to_string())),
            };
            let LdifBody::Content(attributes) = record.body else {
                let why = "a change is no entry of a configuration; export the configuration";
                return Err(failed(record.line, why.to_owned()));
            };
            if entries.len() >= ENTRIES_MAX {
                let why = format!("a configuration has at most {ENTRIES_MAX} entries");
                return Err(failed(record.line, why));
            }
            entries.push(ConfigEntry::new(record.dn, record.line, attributes));
        }
        let product = PRODUCTS.iter().find(|one| entries.iter().any(one.owns));
        let product = product.ok_or_else(|| failed(0, UNKNOWN.to_owned()))?;
        let mut found = Found::new(&entries, schema);
        (product.read)(&mut found);
        Ok(found.done(product.name))
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.name, self.reason),
            line => write!(f, "{}:{line}: {}", self.name, self.reason),
        }
    }
}

impl std::error::Error for ConfigurationError {}

const UNKNOWN: &str = "this is no configuration that is known: give the output of 'slapcat -n 0' \
                       of OpenLDAP, dse.ldif of 389 Directory Server, or config.ldif of OpenDJ";
/// The longest configuration, in bytes.
const CONFIGURATION_MAX_BYTES: u64 = 64 << 20;
/// The most entries of one.
const ENTRIES_MAX: usize = 10_000;
/// The longest entry, in bytes, and the longest value with its name.
const ENTRY_MAX_BYTES: usize = 8 << 20;
const VALUE_MAX_BYTES: usize = 1 << 20;
/// The most values of an entry.
const VALUES_MAX: usize = 20_000;

#[cfg(test)]
mod tests;
