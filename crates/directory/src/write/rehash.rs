//! A password takes another stored form, after a bind has proved it.
//!
//! Invariant: it is the server's own change: it says nothing about who modified the entry and when,
//! and is made only while the old value is still there.

pub(crate) mod queue;

use std::sync::Arc;

use schema::Change;
use zeroize::Zeroizing;

use crate::access::guard;
use crate::forward::request::{ForwardedRequest, ForwardedWork, RequestId};
use crate::read::{excerpt, target};
use crate::request::refusal::Refusal;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::named::Named;
use crate::write::request::Rehash;
use crate::write::{delta, stamp};

impl Rehash {
    /// The change as another node is sent it.
    pub(crate) fn to_another(&self, id: RequestId) -> Zeroizing<Vec<u8>> {
        let Self { dn, old, new, .. } = self;
        let (old, new) = (Zeroizing::new(old.clone()), Zeroizing::new(new.clone()));
        let work = ForwardedWork::Rehash { name: dn.to_string(), old, new };
        ForwardedRequest { id, work }.encode()
    }

    /// The change as another node has sent it.
    pub(crate) fn of_another(named: Named, old: Vec<u8>, new: Vec<u8>) -> Self {
        let Named { dn, key, .. } = named;
        Self { key, dn, old, new }
    }
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &Rehash) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let entry = guard::stored(decide.view, id)?;
    let schema = &decide.state.schema;
    let before = excerpt::load_for_server(decide.view, id, schema)?;
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
    if let Some(rehasher) = decide.directory.credentials.rehasher() {
        rehasher.note(&op.old, &op.new);
    }
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&entry),
        onto: None,
        after: &after,
        passwords: Passwords::OfServer,
        given: &[],
    };
    Ok(Decision::change(checks::permit(decide, &checked, change)?))
}
