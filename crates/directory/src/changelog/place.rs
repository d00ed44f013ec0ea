//! Where in `cn=changelog` a name is.

use environment::Timestamp;
use ldap::dn::{Dn, Rdn};
use schema::{DnKey, Schema};
use store::Lsn;

use super::CHANGELOG_DN;
use crate::password_policy::attributes::time;

/// What a name stands for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The entry above the changes.
    Root,
    /// A part of a change, counted from 1.
    Change { lsn: Lsn, part: usize },
    /// The same by its CSN: at what time it was made, and the name of the entry.
    ByCsn { time: Timestamp, csn: String, part: usize, key: DnKey },
    /// Something that never was.
    Nothing,
}

impl Place {
    /// What `name`, which is in the tree, stands for.
    pub(crate) fn of(name: &str, schema: &Schema) -> Self {
        let Ok(dn) = Dn::parse(name) else { return Self::Nothing };
        match dn.rdns() {
            [_] => Self::Root,
            // Without the name of a naming context that is gone.
            [leaf, _] if value(leaf, "replicationCSN", schema).is_none() => {
                Self::by_number(leaf, schema)
            }
            [leaf, ..] => Self::by_csn(leaf, &dn, schema),
            [] => Self::Nothing,
        }
    }

    fn by_number(leaf: &Rdn, schema: &Schema) -> Self {
        let part = numbered(leaf, "roster-change-part", schema);
        let count = leaf.avas().len();
        match (numbered(leaf, "changeNumber", schema), part) {
            (Some(Some(lsn)), None) if count == 1 => Self::Change { lsn: Lsn(lsn), part: 1 },
            (Some(Some(lsn)), Some(Some(part))) if count == 2 && part > 1 => {
                let part = usize::try_from(part).unwrap_or(usize::MAX);
                Self::Change { lsn: Lsn(lsn), part }
            }
            _ => Self::Nothing,
        }
    }

    fn by_csn(leaf: &Rdn, dn: &Dn, schema: &Schema) -> Self {
        let csn = value(leaf, "replicationCSN", schema).map(String::from_utf8_lossy);
        let time = csn.as_ref().and_then(|csn| time(csn.split('#').next()?));
        let part = numbered(leaf, "roster-change-part", schema);
        let count = leaf.avas().len();
        let part = match part {
            None if count == 1 => 1,
            Some(Some(part)) if count == 2 && part > 1 => part,
            Some(_) | None => return Self::Nothing,
        };
        match (csn, time, DnKey::from_dn(schema, dn)) {
            (Some(csn), Some(time), Ok(key)) => {
                let part = usize::try_from(part).unwrap_or(usize::MAX);
                Self::ByCsn { time, csn: csn.into_owned(), part, key }
            }
            _ => Self::Nothing,
        }
    }
}

/// The value that a name has of an attribute.
fn value<'l>(leaf: &'l Rdn, name: &str, schema: &Schema) -> Option<&'l [u8]> {
    let is = |text: &str| {
        let both = (schema.describe(text), schema.describe(name));
        matches!(both, (Ok(text), Ok(name)) if text == name)
    };
    leaf.avas().iter().find(|ava| is(&ava.attribute)).map(|ava| &*ava.value)
}

/// The same as a number, if it is one.
#[expect(clippy::option_option, reason = "whether there is one, and whether it is a number")]
fn numbered(leaf: &Rdn, name: &str, schema: &Schema) -> Option<Option<u64>> {
    value(leaf, name, schema).map(number)
}

/// A number in digits.
pub(super) fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// The name of a part of a change.
pub(super) fn name(lsn: Lsn, part: usize) -> String {
    match part {
        1 => format!("changeNumber={},{CHANGELOG_DN}", lsn.0),
        part => format!("changeNumber={}+roster-change-part={part},{CHANGELOG_DN}", lsn.0),
    }
}

/// The name of a part of a change by its CSN, below a naming context, if there is one.
pub(super) fn name_by_csn(csn: &str, part: usize, context: &str) -> String {
    let part = match part {
        1 => String::new(),
        part => format!("+roster-change-part={part}"),
    };
    let comma = if context.is_empty() { "" } else { "," };
    format!("replicationCSN={csn}{part},{context}{comma}{CHANGELOG_DN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_changes() {
        let schema = Schema::builtin();
        let change = |lsn, part| Place::Change { lsn: Lsn(lsn), part };
        for (name, place) in [
            ("cn=changelog", Place::Root),
            ("CN=ChangeLog", Place::Root),
            ("changeNumber=7,cn=changelog", change(7, 1)),
            ("2.16.840.1.113730.3.1.5=7,cn=changelog", change(7, 1)),
            ("roster-change-part=3+changeNumber=7,cn=changelog", change(7, 3)),
            ("changeNumber=7+roster-change-part=1,cn=changelog", Place::Nothing),
            ("roster-change-part=3,cn=changelog", Place::Nothing),
            ("changeNumber=x,cn=changelog", Place::Nothing),
            ("changeNumber=-1,cn=changelog", Place::Nothing),
            ("changeNumber=99999999999999999999,cn=changelog", Place::Nothing),
            ("cn=7,cn=changelog", Place::Nothing),
            ("cn=x,changeNumber=7,cn=changelog", Place::Nothing),
            ("replicationCSN=x,dc=x,cn=changelog", Place::Nothing),
            ("replicationCSN=20260101000000Z#0+cn=x,dc=x,cn=changelog", Place::Nothing),
        ] {
            assert_eq!(Place::of(name, &schema), place, "{name}");
        }
        assert!(Dn::parse(&name_by_csn("x", 2, "")).is_ok(), "a naming context that is gone");
        for part in [1, 2, 17] {
            let csn = "20260101000000.000001Z#000000#001#000000";
            let found = Place::of(&name_by_csn(csn, part, "dc=x,dc=y"), &schema);
            let Place::ByCsn { time, csn: text, part: found, .. } = found else { panic!("{part}") };
            assert_eq!((time, &*text, found), (Timestamp(1_767_225_600_000_001), csn, part));
            let gone = Place::of(&name_by_csn(csn, part, ""), &schema);
            assert!(matches!(gone, Place::ByCsn { part: found, .. } if found == part), "{gone:?}");
            assert_eq!(Place::of(&name(Lsn(5), part), &schema), change(5, part));
        }
    }
}
