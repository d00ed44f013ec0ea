//! What was before a change that does not say so itself.
//!
//! A change of a setting has all values from then on. The change before it in the record, of the
//! same setting, has those that it has already: to apply it changes nothing, and releases that know
//! nothing of it read and apply it. In the same way, an empty change of indexes before another says
//! that those that the other adds are there already, and are built anew.

use schema::{Change, IndexChange, SettingChange};

use super::Record;

/// What a change of a record is to the one beside it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChangeRole {
    /// It stands for itself. Of a setting, nobody says what it was.
    Alone,
    /// It says what was before the next one, and changes nothing.
    Before,
    /// The one before it says what was.
    After,
}

impl Record {
    /// What the change at this place, counted from 0, is to the one beside it.
    #[must_use]
    pub fn role(&self, at: usize) -> ChangeRole {
        let (earlier, later) = self.changes.split_at(at.min(self.changes.len()));
        let Some((change, later)) = later.split_first() else { return ChangeRole::Alone };
        let is_before = match change {
            Change::Setting(own) => {
                let same = |change: &&Change| is_of(change, own);
                let run = earlier.iter().rev().take_while(same).count();
                if run % 2 == 1 {
                    return ChangeRole::After;
                }
                later.first().is_some_and(|next| is_of(next, own))
            }
            Change::Index(own) if is_empty(own) => matches!(later.first(), Some(Change::Index(_))),
            Change::Index(_) => {
                let last = earlier.last();
                return match matches!(last, Some(Change::Index(last)) if is_empty(last)) {
                    true => ChangeRole::After,
                    false => ChangeRole::Alone,
                };
            }
            Change::Add(_)
            | Change::Modify(_)
            | Change::Rename(_)
            | Change::Delete(_)
            | Change::Schema(_)
            | Change::Gather(_)
            | Change::Level(_) => false,
        };
        if is_before { ChangeRole::Before } else { ChangeRole::Alone }
    }
}

fn is_of(change: &Change, own: &SettingChange) -> bool {
    matches!(change, Change::Setting(other) if other.name == own.name)
}

fn is_empty(change: &IndexChange) -> bool {
    change.added.is_empty() && change.removed.is_empty()
}
