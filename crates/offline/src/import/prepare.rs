//! From records of a file to entries as they are stored.

use std::sync::Arc;

use environment::{BufferedChance, Timestamp, random_uuid};
use history::Csn;
use ldap::dn::Dn;
use ldap::result::ResultCode;
use schema::{AttributeDescription, Entry, EntryMaker, Schema, SchemaRule, Validator, Violation};

use super::record::RawRecord;
use auth::password::{self, PASSWORD_MAX_BYTES, PasswordStorage};
use directory::loading::{self, ROOT_DN, Stamp};

/// How entries are completed and checked; the same for each thread.
pub(super) struct Completer {
    schema: Arc<Schema>,
    storage: PasswordStorage,
    started: Timestamp,
    /// What entries may break.
    tolerated: Vec<SchemaRule>,
}

/// Why a record is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Fault {
    /// What is wrong, with the name of the entry.
    pub(super) message: String,
    /// What is wrong, in the same words for each entry.
    pub(super) kind: String,
}

/// Completes and checks entries on one thread.
pub(super) struct Worker<'c> {
    completer: &'c Completer,
    maker: EntryMaker,
    validator: Validator,
    chance: BufferedChance,
    /// Names of what is computed when an entry is read, and not stored.
    computed: Vec<String>,
    /// The second of the last stamp, and how it is written.
    second: Option<(u64, String)>,
}

impl Completer {
    pub(super) fn new(
        schema: Arc<Schema>,
        storage: PasswordStorage,
        started: Timestamp,
        tolerated: Vec<SchemaRule>,
    ) -> Self {
        Self { schema, storage, started, tolerated }
    }

    /// For one thread.
    pub(super) fn worker(&self) -> Worker<'_> {
        let computed = loading::computed_descriptions(self.schema.well_known());
        let computed = computed.into_iter().map(AttributeDescription::text);
        Worker {
            completer: self,
            maker: EntryMaker::new(Arc::clone(&self.schema)),
            validator: Validator::new(Arc::clone(&self.schema)).tolerating(self.tolerated.clone()),
            chance: BufferedChance::default(),
            computed: computed.map(str::to_owned).collect(),
            second: None,
        }
    }
}

impl Worker<'_> {
    pub(super) fn schema(&self) -> &Schema {
        &self.completer.schema
    }

    /// Makes the entry of a record, and tells which rules it breaks that it may; `number` counts
    /// the records of the import.
    pub(super) fn entry(
        &mut self,
        record: &RawRecord<'_>,
        number: u64,
    ) -> Result<(Entry, Vec<SchemaRule>), Fault> {
        let dn = &*record.dn;
        let name = self.maker.name(dn).map_err(|error| Fault {
            message: format!("'{dn}' is not a distinguished name: {error}"),
            kind: "is not a distinguished name".to_owned(),
        })?;
        if name.is_root() {
            let message = "the zero-length name is that of the root DSE".to_owned();
            return Err(Fault { kind: message.clone(), message });
        }
        self.complete(name, record, number).map_err(|violation| Fault {
            message: format!("entry '{dn}': {}", violation.diagnostic),
            kind: violation.diagnostic,
        })
    }

    /// Takes an entry that is done with.
    pub(super) fn recycle(&mut self, entry: Entry) {
        self.maker.recycle(entry);
    }

    fn complete(
        &mut self,
        name: Dn,
        record: &RawRecord<'_>,
        number: u64,
    ) -> Result<(Entry, Vec<SchemaRule>), Violation> {
        let schema = &*self.completer.schema;
        let known = schema.well_known();
        let is_stored = |description: &str| {
            !self.computed.iter().any(|computed| computed.eq_ignore_ascii_case(description))
        };
        let attributes = record.attributes.iter();
        let attributes = attributes.map(|(description, value)| (&**description, &**value));
        let attributes = attributes.filter(|(description, _)| is_stored(description));
        let mut entry = self.maker.make(name, attributes)?;
        entry.add_naming_values(schema)?;
        let (storage, chance) = (&self.completer.storage, &mut self.chance);
        loading::hash_passwords_with(&mut entry, schema, &mut |value| {
            stored_form(storage, value, chance).map(Some)
        })?;
        loading::check_entry(schema, &entry)?;
        let (classes, broken) = self.validator.complete(&mut entry)?;
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
            let uuid = random_uuid(&mut self.chance);
            let schema = &*self.completer.schema;
            loading::stamp_new(
                &mut entry,
                schema,
                &stamp,
                &uuid,
                classes.structure.structural.name(),
            )?;
        }
        Ok((entry, broken.into_iter().map(|(rule, _)| rule).collect()))
    }

    /// Stamps of one import differ by a microsecond a record.
    fn stamp(&mut self, number: u64) -> Stamp {
        let time = Timestamp(self.completer.started.0.saturating_add(number));
        let moment = Csn::at(time);
        let text = match &self.second {
            Some((second, text)) if *second == time.seconds() => text,
            Some(_) | None => &self.second.insert((time.seconds(), time.compact())).1,
        };
        Stamp {
            moment,
            time: format!("{text}Z"),
            csn: moment.written(text),
            name: ROOT_DN.to_owned(),
        }
    }
}

/// The form in which a password is stored; one that is hashed already is kept.
fn stored_form(
    storage: &PasswordStorage,
    value: &[u8],
    chance: &mut BufferedChance,
) -> Result<Vec<u8>, Violation> {
    if password::is_stored_form(value) {
        return Ok(value.to_vec());
    }
    let refuse =
        |diagnostic: String| Violation { code: ResultCode::ConstraintViolation, diagnostic };
    if value.len() > PASSWORD_MAX_BYTES {
        return Err(refuse(format!("a password has at most {PASSWORD_MAX_BYTES} bytes")));
    }
    storage
        .hash(value, chance)
        .ok_or_else(|| refuse("the password cannot be hashed at this cost".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_those_of_their_moments() {
        let storage = password::Scheme::Ssha.into();
        let completer = Completer::new(
            Schema::builtin(),
            storage,
            Timestamp(1_700_000_000_999_990),
            Vec::new(),
        );
        let mut worker = completer.worker();
        for number in [0, 5, 9, 10, 11, 1_000_011, 3] {
            let stamp = worker.stamp(number);
            let time = Timestamp(1_700_000_000_999_990 + number);
            assert_eq!(stamp.csn, Csn::at(time).to_string());
            assert_eq!(stamp.time, time.generalized_time());
        }
    }
}
