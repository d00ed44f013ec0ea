//! Where in `cn=changelog` a name is.

use ldap::dn::Dn;
use schema::Schema;
use store::Lsn;

use super::CHANGELOG_DN;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// The entry above the changes.
    Root,
    /// A part of a change, counted from 1.
    Change { lsn: Lsn, part: usize },
    /// Something that never was.
    Nothing,
}

impl Place {
    /// What `name`, which is in the tree, stands for.
    pub(crate) fn of(name: &str, schema: &Schema) -> Self {
        let Ok(dn) = Dn::parse(name) else { return Self::Nothing };
        match dn.rdns() {
            [_] => Self::Root,
            [leaf, _] => {
                let is = |text: &str, name: &str| {
                    let both = (schema.describe(text), schema.describe(name));
                    matches!(both, (Ok(text), Ok(name)) if text == name)
                };
                let number = |name: &str| {
                    let of_name = leaf.avas().iter().find(|ava| is(&ava.attribute, name));
                    of_name.map(|ava| number(&ava.value))
                };
                let part = number("roster-change-part");
                let count = leaf.avas().len();
                match (number("changeNumber"), part) {
                    (Some(Some(lsn)), None) if count == 1 => {
                        Self::Change { lsn: Lsn(lsn), part: 1 }
                    }
                    (Some(Some(lsn)), Some(Some(part))) if count == 2 && part > 1 => {
                        let part = usize::try_from(part).unwrap_or(usize::MAX);
                        Self::Change { lsn: Lsn(lsn), part }
                    }
                    _ => Self::Nothing,
                }
            }
            _ => Self::Nothing,
        }
    }
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
        ] {
            assert_eq!(Place::of(name, &schema), place, "{name}");
        }
        for part in [1, 2, 17] {
            assert_eq!(Place::of(&name(Lsn(5), part), &schema), change(5, part));
        }
    }
}
