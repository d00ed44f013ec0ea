//! What binds have left in accounts is put into their entries: the server's own change.

use std::sync::Arc;

use aci::Permitted;
use ldap::result::ResultCode;
use schema::{Change, DnKey, EntryId, EntryRead as _, Schema};
use store::Lsn;

use crate::groups::member_entry::MemberEntry;
use crate::password_policy::account_event::{AccountEvents, Event, What};
use crate::password_policy::merge::merge;
use crate::password_policy::{AccountState, PasswordPolicy};
use crate::read::excerpt;
use crate::request::refusal::Refusal;
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::{delta, stamp};

/// Decides on what the entries before it left: an account at a time, and one that cannot be changed
/// stays as it is.
pub(crate) fn decide(
    decide: &mut Decide<'_>,
    accounts: &[AccountEvents],
) -> Result<Decision, Refusal> {
    let before = decide.view.lsn();
    let mut decision = Decision::default();
    for account in accounts {
        let events = decide.directory.accounts.decided(account, Lsn(before.0 + 1));
        match change(decide, account.id, &events) {
            Ok(change) => decision.changes.extend(change),
            Err(refusal) => {
                tracing::warn!(
                    id = account.id.0,
                    ?refusal,
                    "the account state that binds recorded is dropped"
                );
            }
        }
    }
    if decision.changes.is_empty() {
        // There is no such change: what there is to know is in the view of now.
        for account in accounts {
            decide.directory.accounts.decided(account, before);
        }
    }
    Ok(decision)
}

fn change(
    decide: &Decide<'_>,
    id: EntryId,
    events: &[Event],
) -> Result<Option<Permitted<Change>>, Refusal> {
    let Some(stored) = decide.view.entry(id)? else { return Ok(None) };
    let schema: &Schema = &decide.state.schema;
    let policies = decide.directory.rules.password_policies.load();
    let key = DnKey::from_text(schema, stored.dn());
    let account = MemberEntry::new(decide.view, schema, &stored);
    let governing = match &key {
        Ok(key) => policies.of(&account.keyed(key))?,
        Err(_) => None,
    };
    let none = PasswordPolicy::default();
    let policy = governing.as_ref().map_or(&none, |one| &one.policy);
    let state = AccountState::read(&stored, schema);
    let events = events.iter().copied();
    // Where no rule asks for it any more, only the last bind is of interest.
    let events = events.filter(|one| governing.is_some() || one.what == What::Success);
    let now = merge(state.clone(), events, policy, decide.stamp.moment.time);
    let before = excerpt::load_for_server(decide.view, id, schema)?;
    let mut after = before.clone();
    for ((name, old), (_, new)) in state.attributes().into_iter().zip(now.attributes()) {
        if old != new {
            let description = schema.describe(name).map_err(|error| {
                Refusal::new(ResultCode::UndefinedAttributeType, error.to_string())
            })?;
            let values = new.into_iter().map(String::into_bytes).collect();
            after.replace_values(schema, &description, values)?;
        }
    }
    if after == before {
        return Ok(None);
    }
    let known = schema.well_known();
    let kept = [&known.modifiers_name, &known.modify_timestamp].map(Arc::clone);
    stamp::stamp_modified(&mut after, schema, &decide.stamp, &kept)?;
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &key.unwrap_or_default(),
        rights: &decide.guard.on(&stored),
        onto: None,
        after: &after,
        passwords: Passwords::OfServer,
        given: &[],
    };
    Ok(Some(checks::permit(decide, &checked, change)?))
}
