//! How strictly the schema is enforced on what is imported: as the directory says, and the options.
//!
//! Invariant: what the options say holds for the directory afterwards, so that what was loaded can
//! be changed.

use directory::enforcement::modes::{MODES, ModeLine};
use store::{BulkLoader, Store, StoreError};

/// The modes of the import: those of the directory, where the options say nothing else.
pub(super) fn of_import(store: &Store, asked: &[ModeLine]) -> Result<Vec<ModeLine>, StoreError> {
    let kept = store.begin()?.view().setting(MODES)?;
    let kept = kept.iter().filter_map(|text| ModeLine::parse(text).ok());
    let is_other = |line: &ModeLine| asked.iter().all(|one| one.rule() != line.rule());
    Ok(kept.filter(is_other).chain(asked.iter().copied()).collect())
}

/// Has them hold from now on.
pub(super) fn keep(loader: &mut BulkLoader<'_>, modes: &[ModeLine]) -> Result<(), StoreError> {
    let lines: Vec<String> = modes.iter().map(ModeLine::to_string).collect();
    loader.set(MODES, &lines)
}
