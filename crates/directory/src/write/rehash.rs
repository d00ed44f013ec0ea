//! A password takes another stored form, after a bind has proved it.
//!
//! Invariant: it is the server's own change: it says nothing about who modified the entry and when,
//! and is made only while the old value is still there.

pub(crate) mod queue;

use std::sync::Arc;

use schema::Change;

use crate::access::guard;
use crate::read::target;
use crate::request::refusal::Refusal;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::request::Rehash;
use crate::write::{delta, stamp};

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Rehash) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let entry = guard::stored(decide.view, id)?;
    let before = entry.to_entry()?;
    let schema = &decide.state.schema;
    let known = schema.well_known();
    let stored = before.values(&known.user_password);
    if !stored.contains(&op.old) {
        return Ok(Decision::default());
    }
    let values = stored.iter().map(|one| if *one == op.old { &op.new } else { one });
    let values = values.cloned().collect();
    let mut after = before.clone();
    after.replace_values(schema, &known.user_password, values)?;
    let kept = [&known.modifiers_name, &known.modify_timestamp].map(Arc::clone);
    stamp::stamp_modified(&mut after, schema, &decide.stamp, &kept)?;
    if let Some(rehasher) = &decide.directory.credentials.rehasher {
        rehasher.note(&op.old, &op.new);
    }
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&entry),
        onto: None,
        after: &after,
        passwords: Passwords::OfServer,
    };
    Ok(Decision::change(checks::permit(decide, &checked, change)?))
}
