//! Sessions whose password was set by somebody else: they change it, or do nothing
//! (draft-behera-ldap-password-policy-10 §8.1.2.2).
//!
//! Invariant: nothing of it is remembered but the account: whether it still has to, its entry says,
//! at each request.

use ldap::message::{Message, Request};
use ldap::result::ResultCode;
use schema::{DnKey, EntryId};
use store::View;

use crate::directory::{Directory, State};
use crate::groups::member_entry::MemberEntry;
use crate::password_policy::PolicyError;
use crate::request::controls::write::NO_OP;
use crate::request::controls::{assertion, proxied, read_entry};
use crate::request::extended;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::password_modify::value as password_modify;

/// Refuses everything but a change of the own password to a session that has to make one.
pub(crate) fn check(
    worker: &mut Worker,
    session: &mut Session,
    message: &Message<'_, Request<'_>>,
) -> Result<(), Refusal> {
    let Some(account) = session.must_change() else { return Ok(()) };
    let directory = &worker.directory;
    let state = directory.state.load();
    let view = worker.snapshot.view()?;
    if !must_change(directory, &state, view, account)? {
        session.set_must_change(None);
        return Ok(());
    }
    let does_more = message.controls.iter().any(|control| DOES_MORE.contains(&control.oid));
    if !does_more && is_allowed(&state, session, account, &message.op) {
        return Ok(());
    }
    Err(Refusal::new(
        ResultCode::InsufficientAccessRights,
        "the password was set by somebody else: change it before anything else",
    )
    .because(PolicyError::ChangeAfterReset))
}

/// Controls by which a change of the password would be by another, tell of the entry, or be none.
const DOES_MORE: [&str; 7] = [
    proxied::V1,
    proxied::V2,
    read_entry::PRE_READ,
    read_entry::POST_READ,
    assertion::OID,
    NO_OP[0],
    NO_OP[1],
];

/// Whether a request may come from whoever has to change the password of `account`.
fn is_allowed(state: &State, session: &Session, account: EntryId, request: &Request<'_>) -> bool {
    let schema = &state.schema;
    let access = session.access();
    // Who signed in to act as somebody else would change the password of that one.
    let is_itself = access.entry() == Some(account) && access.prover().is_none();
    let own = access.key().filter(|_| is_itself);
    match request {
        Request::Bind(_) | Request::Unbind | Request::Abandon(_) => true,
        Request::Extended(request) => match request.oid {
            extended::START_TLS | extended::WHO_AM_I => true,
            password_modify::OID => {
                own.is_some_and(|own| password_modify::is_own(schema, request.value, own))
            }
            _ => false,
        },
        Request::Modify(modify) => {
            let password = &schema.well_known().user_password;
            let is_password = |description: &str| {
                schema.describe(description).is_ok_and(|description| description == *password)
            };
            DnKey::from_text(schema, modify.name).is_ok_and(|name| Some(&name) == own)
                && modify.changes.iter().all(|one| is_password(one.attribute.description))
        }
        Request::Search(_)
        | Request::Compare(_)
        | Request::Add(_)
        | Request::Delete(_)
        | Request::ModifyDn(_) => false,
    }
}

/// Whether an account still has to change its password before anything else.
fn must_change(
    directory: &Directory,
    state: &State,
    view: &View<'_>,
    account: EntryId,
) -> Result<bool, Refusal> {
    let Some(entry) = view.entry(account)? else { return Ok(false) };
    let member = MemberEntry::new(view, &state.schema, &entry);
    let Some(governing) = directory.rules.password_policies.load().of(&member)? else {
        return Ok(false);
    };
    let state = directory.accounts.state(view, &entry, &governing.policy, &*directory.clock);
    Ok(governing.policy.forces_change() && state.is_reset)
}
