//! A whole source translated in memory, for tests and for fuzzing.
//!
//! Invariant: each record meets what an import would do with it.

use std::borrow::Cow;
use std::io::{self, Read as _};

use ldap::ldif::{LDIF_FOLD_COLUMNS, LdifBody, LdifChange, LdifLimits, LdifReader, LdifWriter};
use schema::Schema;

use super::{RawRecord, Tally, Translator, Verdict, is_search_note, text};

/// The entries of a source as an import into a new directory translates them, as LDIF, and what was
/// translated. What the schema lacks is looked for in all of them. All is in memory.
///
/// # Errors
/// When the source cannot be decoded or holds something else than entries.
pub fn translated(source: &[u8]) -> io::Result<(Vec<u8>, Tally)> {
    let mut whole = Vec::new();
    text(Box::new(source))?.read_to_end(&mut whole)?;
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut reader = LdifReader::new(whole.as_slice(), LdifLimits::default());
    let mut writer = LdifWriter::new(Vec::new(), LDIF_FOLD_COLUMNS);
    let translator = Translator::new(Schema::builtin());
    let mut tally = Tally::default();
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok((writer.into_inner(), tally)),
            Err(error) if is_search_note(&error.reason) => continue,
            Err(error) => return Err(invalid(error.to_string())),
        };
        let attributes = match record.body {
            LdifBody::Content(attributes) | LdifBody::Change(LdifChange::Add(attributes)) => {
                attributes
            }
            LdifBody::Change(_) => return Err(invalid("a change is no entry".to_owned())),
        };
        let owned = |(name, value): (String, Vec<u8>)| (Cow::Owned(name), Cow::Owned(value));
        let attributes = attributes.into_iter().map(owned).collect();
        let mut raw = RawRecord { dn: Cow::Owned(record.dn), attributes };
        let verdict = translator.translate(&mut raw, &mut tally);
        if verdict == Verdict::Keep && !raw.attributes.is_empty() {
            translator.examine(&raw, &mut tally);
            writer.dn(&raw.dn)?;
            for (description, value) in &raw.attributes {
                writer.attribute(description, value)?;
            }
            writer.end_record()?;
        }
    }
}
