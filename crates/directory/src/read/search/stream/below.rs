//! Whether changes took something away from below an entry: what is there no more had another name
//! when the entry had one.

use std::sync::Arc;

use schema::{Change, DnKey, EntryId, Schema};

use crate::read::streams::Told;

/// A change that takes away a name: a deletion, or a rename.
pub(super) struct Removal {
    /// The record in its batch, and the change in it.
    at: (usize, usize),
    id: EntryId,
    /// The name that was; none where the schema does not know it.
    old: Option<DnKey>,
    /// The name by now; none where that is gone.
    new: Option<DnKey>,
}

/// All such changes of some records, in order.
pub(super) fn removals(all: &[Arc<Told>], schema: &Schema) -> Vec<Removal> {
    let changes = all.iter().enumerate().flat_map(|(record, told)| {
        let changes = told.record.changes.iter().enumerate();
        changes.map(move |(change, one)| ((record, change), one))
    });
    let removals = changes.filter_map(|(at, change)| match change {
        Change::Delete(delete) => {
            let old = DnKey::from_dn(schema, &delete.dn).ok();
            Some(Removal { at, id: delete.id, old, new: None })
        }
        Change::Rename(rename) => {
            let old = DnKey::from_dn(schema, &rename.old_dn).ok();
            let new = DnKey::from_dn(schema, &rename.new_dn).ok();
            Some(Removal { at, id: rename.id, old, new })
        }
        Change::Add(_)
        | Change::Modify(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => None,
    });
    removals.collect()
}

/// Whether one of them, behind a change after which an entry has this name, took something away
/// from below the entry. It may say so where that is not so.
pub(super) fn touch_below(
    removals: &[Removal],
    after: (usize, usize),
    id: EntryId,
    name: &DnKey,
) -> bool {
    let mut name = name.clone();
    let first = removals.partition_point(|one| one.at <= after);
    for one in removals.get(first..).unwrap_or_default() {
        let Some(old) = &one.old else { return true };
        if one.id == id {
            if let Some(new) = &one.new {
                name.clone_from(new);
            }
        } else if old.is_within(&name) || (one.new.is_some() && name.is_within(old)) {
            // From below it; or it went itself, with what is above it.
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> DnKey {
        DnKey::from_text(&Schema::builtin(), name).unwrap()
    }

    fn removal(number: usize, id: u64, old: &str, new: Option<&str>) -> Removal {
        Removal { at: (number, 0), id: EntryId(id), old: Some(key(old)), new: new.map(key) }
    }

    #[test]
    fn what_was_below_is_followed_through_other_names() {
        let again = removal(1, 1, "cn=a,cn=out", Some("cn=b,cn=out"));
        let child = removal(2, 2, "cn=c,cn=b,cn=out", None);
        let above = removal(2, 3, "cn=out", Some("cn=far"));
        let beside = removal(2, 4, "cn=c,cn=a,cn=out", None);
        let ask =
            |removals: &[Removal]| touch_below(removals, (0, 0), EntryId(1), &key("cn=a,cn=out"));
        assert!(!ask(&[]));
        assert!(ask(&[again, child]));
        assert!(ask(&[above]));
        assert!(ask(&[beside]));
        let again = removal(1, 1, "cn=a,cn=out", Some("cn=b,cn=out"));
        let beside = removal(2, 4, "cn=c,cn=a,cn=out", None);
        assert!(!ask(&[again, beside]), "another entry has the name by then");
    }
}
