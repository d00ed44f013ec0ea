//! From records of a file to entries as they are stored.

use std::sync::Arc;

use aci::Identity;
use ldap::dn::Dn;
use schema::{Entry, Mode, Schema, Violation, validate};

use super::record::RawRecord;
use crate::chance::{OsChance, random_uuid};
use crate::clock::Timestamp;
use crate::directory::ROOT_DN;
use crate::live_entry::LiveEntry;
use crate::ops::add::stamp_new;
use crate::ops::update;
use crate::password::{self, Scheme};
use crate::stamp::{Stamp, Stamper};

/// Completes and checks entries; the same for each thread.
pub(super) struct Completer {
    schema: Arc<Schema>,
    scheme: Scheme,
    started: Timestamp,
}

impl Completer {
    pub(super) fn new(schema: Arc<Schema>, scheme: Scheme, started: Timestamp) -> Self {
        Self { schema, scheme, started }
    }

    /// Makes the entry of a record; `number` counts the records of the file.
    pub(super) fn entry(&self, record: &RawRecord<'_>, number: u64) -> Result<Entry, String> {
        let dn = &*record.dn;
        let name = Dn::parse(dn)
            .map_err(|error| format!("'{dn}' is not a distinguished name: {error}"))?;
        if name.is_root() {
            return Err("the zero-length name is that of the root DSE".to_owned());
        }
        let attributes = record.attributes.iter();
        let attributes = attributes.map(|(description, value)| (&**description, &**value));
        let entry = self.complete(name, attributes, number);
        entry.map_err(|violation| format!("entry '{dn}': {}", violation.diagnostic))
    }

    fn complete<'r>(
        &self,
        name: Dn,
        attributes: impl Iterator<Item = (&'r str, &'r [u8])>,
        number: u64,
    ) -> Result<Entry, Violation> {
        let schema = &self.schema;
        let known = schema.well_known();
        let computed = LiveEntry::computed_descriptions(known);
        let is_stored = |description: &str| {
            !computed.iter().any(|made| made.text().eq_ignore_ascii_case(description))
        };
        let attributes = attributes.filter(|(description, _)| is_stored(description));
        let mut entry = Entry::from_pairs(name, attributes, schema)?;
        entry.add_naming_values(schema)?;
        let is_kept = password::is_stored_form;
        update::hash_passwords_with(self.scheme, &mut entry, schema, is_kept, &mut OsChance)?;
        let structure = validate(&entry, schema, Mode::Import)?;
        entry.add_superior_classes(schema)?;
        let stamps = [
            &known.structural_object_class,
            &known.entry_uuid,
            &known.creators_name,
            &known.create_timestamp,
            &known.entry_csn,
            &known.modifiers_name,
            &known.modify_timestamp,
        ];
        if stamps.into_iter().any(|description| entry.get(description).is_none()) {
            let stamp = self.stamp(number);
            let uuid = random_uuid(&mut OsChance);
            stamp_new(&mut entry, schema, &stamp, &uuid, structure.structural.name())?;
        }
        Ok(entry)
    }

    /// Stamps of one import differ by a microsecond a record.
    fn stamp(&self, number: u64) -> Stamp {
        let moment = Timestamp(self.started.0.saturating_add(number));
        let mut stamp = Stamper::default().stamp(moment, &Identity::Anonymous);
        ROOT_DN.clone_into(&mut stamp.name);
        stamp
    }
}
