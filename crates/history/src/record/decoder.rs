//! Reading records long after they were written: the schema may have changed since.

use std::collections::BTreeSet;
use std::sync::Arc;

use schema::{Schema, SchemaFile};

use super::{Record, RecordError};

/// Reads records with the schema in force, and takes what they name that is in it no more for
/// attributes of which nothing is known.
#[derive(Clone, Debug)]
pub struct Decoder {
    schema: Arc<Schema>,
    /// With what is guessed.
    known: Arc<Schema>,
    guessed: BTreeSet<String>,
}

impl Decoder {
    /// One that reads with this schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        Self { known: Arc::clone(&schema), schema, guessed: BTreeSet::new() }
    }

    /// Reads with this schema from now on.
    pub fn follow(&mut self, schema: Arc<Schema>) {
        if !Arc::ptr_eq(&self.schema, &schema) {
            *self = Self::new(schema);
        }
    }

    /// Attributes that the schema does not have.
    pub const fn guessed(&self) -> &BTreeSet<String> {
        &self.guessed
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When the octets are no record, or say what this release does not know.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Record, RecordError> {
        loop {
            let text = match Record::decode(bytes, &self.known) {
                Err(RecordError::Attribute { text, .. }) if !self.guessed.contains(&text) => text,
                decoded => return decoded,
            };
            let number = self.guessed.len();
            let name = text.split(';').next().unwrap_or_default();
            let definition = if name.starts_with(|first: char| first.is_ascii_digit()) {
                format!("( {name} SYNTAX {OCTET_STRING} )")
            } else {
                format!("( {GUESSED}.{number} NAME '{name}' SYNTAX {OCTET_STRING} )")
            };
            let file = SchemaFile {
                name: "guessed".to_owned(),
                text: format!("dn: cn=schema\nattributeTypes: {definition}\n"),
            };
            if let Ok(known) = self.known.with_files(&[file]) {
                self.known = Arc::new(known);
            }
            self.guessed.insert(text);
        }
    }
}

/// Any octets (RFC 4517 §3.3.25).
const OCTET_STRING: &str = "1.3.6.1.4.1.1466.115.121.1.40";

/// Of this process alone.
const GUESSED: &str = "2.25.240622864993748405525653984067480598434.9";
