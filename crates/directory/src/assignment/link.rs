//! Links: where an entry names another one, that one names it.

use std::sync::Arc;

use ldap::dn::Dn;
use schema::{AttributeDelta, Change, DnKey, EntryRead as _};
use store::Resolved;

use super::follow::Follows;
use super::text::{Assignment, Link};
use crate::request::refusal::Refusal;

/// What links an entry is in after a change, and no more.
pub(super) fn follow(
    follows: &mut Follows<'_>,
    all: &[Assignment],
    change: &Change,
) -> Result<(), Refusal> {
    if !all.iter().any(|one| one.link().is_some()) {
        return Ok(());
    }
    let none: &[AttributeDelta] = &[];
    let (id, deltas, old) = match change {
        Change::Add(add) => (add.id, none, None),
        Change::Modify(modify) => (modify.id, &*modify.deltas, None),
        Change::Rename(rename) => (rename.id, &*rename.deltas, Some(&rename.old_dn)),
        _ => return Ok(()),
    };
    let (view, schema) = (follows.view, follows.schema);
    let Some(entry) = view.entry(id)? else { return Ok(()) };
    let Ok(key) = DnKey::from_text(schema, entry.dn()) else { return Ok(()) };
    let names: Vec<String> =
        [entry.dn().to_owned()].into_iter().chain(old.map(Dn::to_string)).collect();
    for (assignment, Link { from, to }) in all.iter().filter_map(|one| Some((one, one.link()?))) {
        if !assignment.place.holds_at(&key) {
            continue;
        }
        let is_from = |delta: &&AttributeDelta| from.covers(&delta.description);
        let mut go: Vec<&[u8]> = Vec::new();
        let mut come: Vec<Vec<u8>> = Vec::new();
        for delta in deltas.iter().filter(is_from) {
            go.extend(delta.removed.iter().map(Vec::as_slice));
            come.extend(delta.added.iter().cloned());
        }
        if matches!(change, Change::Add(_)) {
            entry.visit_values(from, &mut |_, value| {
                come.push(value.to_vec());
                true
            });
        }
        if !assignment.place.holds_for(schema, &entry) {
            come.clear();
        }
        let ids = |value: &[u8]| {
            let name =
                std::str::from_utf8(value).ok().and_then(|it| DnKey::from_text(schema, it).ok());
            match name.map(|name| view.resolve(&name)).transpose() {
                Ok(Some(Resolved::Found(id))) => Ok(Some(id)),
                Ok(_) => Ok(None),
                Err(error) => Err(error),
            }
        };
        for value in go {
            if let Some(target) = ids(value)? {
                follows.put(target, to, &names, false)?;
            }
        }
        for value in come {
            if let Some(target) = ids(&value)? {
                follows.put(target, &Arc::clone(to), &names, true)?;
            }
        }
    }
    Ok(())
}
