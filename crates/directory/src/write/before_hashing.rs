//! Whether passwords may be set at all, asked before they are hashed: a hash takes long, and who
//! has no right to set the password gets none.
//!
//! Invariant: nothing is told here. What is not hashed is refused by the writer, which looks at the
//! rights by the state of its own moment; only where these came meanwhile, it is to be tried again.

use std::sync::Arc;

use aci::{Access, Right, Rights};
use schema::{DnKey, Entry, EntryRead};
use store::Resolved;

use crate::access::guard::{Viewer, guarded};
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;

/// Whether the asker may add this entry.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn may_add(
    worker: &mut Worker,
    access: &Access,
    entry: &Entry,
) -> Result<bool, Refusal> {
    if is_settled(worker, access) {
        return Ok(true);
    }
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load();
    let view = worker.snapshot.view()?;
    let viewer = Viewer { directory: &directory, access, view, schema: &state.schema };
    Ok(guarded(&viewer, &DnKey::root(), |guard| guard.on(entry).may_entry(Right::Add)))
}

/// Whether the asker has the rights on an entry that `may` asks for; also where there is no such
/// entry, which the writer tells.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn may_change(
    worker: &mut Worker,
    access: &Access,
    key: &DnKey,
    may: impl FnOnce(&dyn EntryRead, &Rights<'_>) -> bool,
) -> Result<bool, Refusal> {
    if is_settled(worker, access) {
        return Ok(true);
    }
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load();
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(true) };
    let Some(entry) = view.entry(id)? else { return Ok(true) };
    let viewer = Viewer { directory: &directory, access, view, schema: &state.schema };
    Ok(guarded(&viewer, &DnKey::root(), |guard| may(&entry, &guard.on(&entry))))
}

/// Access control does not apply, or the hashes are there already.
fn is_settled(worker: &Worker, access: &Access) -> bool {
    access.bypass().is_some() || worker.request.hashing.has_waited()
}
