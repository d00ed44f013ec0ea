//! `cn=changelog`: the change records that are kept, as entries (draft-good-ldap-changelog), read
//! by their numbers.
//!
//! The number of a change is that of its record, so it is the same in every member of a cluster, in
//! the audit log and in backups. What a record did to its first entry is
//! `changeNumber=N,cn=changelog`; what else it did (a transaction, references that follow a name)
//! is beside it, as `changeNumber=N+roster-change-part=2,cn=changelog` and so on, with the same
//! number.
//!
//! Invariant: only who has the privilege `changelog-read` sees them, and of each change no more
//! than the access rules of now allow of the entry that was changed; see `shown.rs`.

mod cookie;
mod entry;
mod place;
mod range;
mod shown;
pub(crate) mod told;

use environment::Timestamp;
use ldap::dn::Dn;
use schema::{Entry, Schema};

#[cfg(any(test, feature = "test-support"))]
pub use self::cookie::opens_as_change_cookie;
pub(crate) use self::cookie::{ChangeCookie, ChangeCookieKey};
pub(crate) use self::entry::{Naming, Shown, entry};
pub(crate) use self::place::Place;
pub(crate) use self::range::Range;
pub(crate) use self::shown::{Asked, Moment, Target, are_above_unchanged, is_judged};
pub(crate) use self::told::ToldChange;

/// The entry above those of the changes.
pub(crate) const CHANGELOG_DN: &str = "cn=changelog";

/// The entry above those of the changes; `numbers` are the first and the last, and `begun` is when
/// the first was made, where that is asked for.
pub(crate) fn root(schema: &Schema, numbers: (u64, u64), begun: Option<Timestamp>) -> Entry {
    let (first, last) = numbers;
    let begun = begun.map(Timestamp::generalized_time).unwrap_or_default();
    Maker::new(schema, CHANGELOG_DN)
        .text("objectClass", &["top", "extensibleObject"])
        .text("structuralObjectClass", &["extensibleObject"])
        .text("cn", &["changelog"])
        .text("createTimestamp", &[&begun])
        .text("firstChangeNumber", &[&first.to_string()])
        .text("lastChangeNumber", &[&last.to_string()])
        .text("hasSubordinates", &[if last >= first { "TRUE" } else { "FALSE" }])
        .entry
}

/// An entry in the making.
struct Maker<'s> {
    schema: &'s Schema,
    entry: Entry,
}

impl<'s> Maker<'s> {
    /// `name` is written by the code.
    fn new(schema: &'s Schema, name: &str) -> Self {
        let dn = Dn::parse(name).expect("the code writes valid names");
        let maker = Self { schema, entry: Entry::new(dn) };
        maker.text("entryDN", &[name]).text("subschemaSubentry", &["cn=schema"])
    }

    fn text(self, name: &str, values: &[&str]) -> Self {
        self.octets(name, values.iter().map(|value| value.as_bytes().to_vec()).collect())
    }

    fn octets(mut self, name: &str, values: Vec<Vec<u8>>) -> Self {
        if let Ok(description) = self.schema.describe(name)
            && values.iter().any(|value| !value.is_empty())
        {
            // Of distinct values by construction.
            let _ = self.entry.replace_values(self.schema, &description, values);
        }
        self
    }
}
