//! Rows: what is made of something that another server has a name for.
//!
//! A table of them is all that a recogniser is made of, and the page of the how-to.

use super::entries::ConfigEntry;
use super::found::Found;

/// What is made of something that another server has a name for.
pub(super) struct Row {
    /// Its name there: of an overlay, a plugin, an object class.
    pub(super) name: &'static str,
    pub(super) fate: Fate,
    /// What it becomes, or why it becomes nothing.
    pub(super) says: &'static str,
}

/// What becomes of it.
pub(super) enum Fate {
    /// It becomes settings.
    Becomes(fn(&ConfigEntry, &mut Found<'_>)),
    /// This server does it without a setting.
    BuiltIn,
    /// It is not translated.
    LeftOut,
    /// It changes nothing that clients see.
    Nothing,
}

impl Row {
    /// Does what the row of `name` says; false without one.
    pub(super) fn apply(
        rows: &[Self],
        name: &str,
        entry: &ConfigEntry,
        found: &mut Found<'_>,
    ) -> bool {
        let Some(row) = rows.iter().find(|row| row.name.eq_ignore_ascii_case(name)) else {
            return false;
        };
        match row.fate {
            Fate::Becomes(make) => make(entry, found),
            Fate::BuiltIn => found.built_in(entry, row.name, row.says),
            Fate::LeftOut => found.left_out(entry, row.name, row.says),
            Fate::Nothing => {}
        }
        true
    }
}
