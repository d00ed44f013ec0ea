//! The password policy state extended operation, as OpenDJ, Oracle Unified Directory and
//! PingDirectory have it: reads and changes the state of an account. `roster account` and
//! `manage-account` speak it.
//!
//! Invariant: only who has the privilege `password-reset` is told anything. What such a one may not
//! write by a modification is not written here either, but for what only the server sets; and who
//! may not unlock an account does not keep it from being locked.
//! Invariant: no password leaves, in whatever form: of those that were used, the times are told.

pub(crate) mod change_operation;
mod changes;
mod report;

use std::sync::Arc;

use aci::{Denied, Privilege, Right, Rights};
use environment::Timestamp;
use ldap::control_value::policy_state::{PING_OID, PolicyState, StateOperation};
use ldap::dn::Dn;
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry, Schema};

use self::change_operation::{AccountChange, ChangeOperation};
use self::report::AccountReport;
use crate::access::guard::{self, Guard, Viewer, guarded};
use crate::directory::State;
use crate::forward::asking;
use crate::password_policy::governed::GovernedAccount;
use crate::password_policy::{Account, AccountState};
use crate::read::lookup::Lookup;
use crate::read::{excerpt, target};
use crate::request::extended::call::Call;
use crate::request::referral;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::request::{StateChange, StateQuery, WriteOp};
use crate::write::{delta, named, stamp, submit};

/// Carries it out, or resolves what it changes and hands that to the writer.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    if !session.access().has(Privilege::PasswordReset) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "reading the state of accounts needs the privilege password-reset",
        ));
    }
    let value = PolicyState::decode(request.value.unwrap_or_default()).map_err(|_| {
        Refusal::new(ResultCode::ProtocolError, "the policy state value is malformed")
    })?;
    let dn = Dn::parse(&value.target)?;
    let state = worker.directory.state.load_full();
    let key = named::key(&state.schema, &dn)?;
    worker.directory.rules.policies.check_target(session, &key, &state.schema)?;
    if key == worker.directory.credentials.root.key {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the administrator has no entry, and no policy",
        ));
    }
    let knows_ping = request.oid == PING_OID;
    let (changes, numbers) = resolve(&value.operations)?;
    let query = StateQuery { target: value.target.into_owned(), numbers, knows_ping };
    if changes.is_empty() {
        let value = read(worker, session, &state, &dn, &key, &query)?;
        return Ok(Next::Answered(sink.extended(Some(request.oid), Some(&value))));
    }
    let (controls, envelope) = (call.controls, call.envelope);
    let name = Some(query.target.as_str());
    if let Some(next) = asking::extended(worker, session, controls, envelope, name)? {
        return Ok(next);
    }
    let op = WriteOp::StateChange(StateChange { key, dn, changes, query });
    submit::submit(worker, session, call.controls, call.envelope, op.into(), sink)
}

/// What is to be changed, and the numbers of what is to be reported: also of what is changed.
type Resolved = (Vec<(&'static ChangeOperation, Vec<String>)>, Vec<u32>);

fn resolve(operations: &[StateOperation<'_>]) -> Result<Resolved, Refusal> {
    let (mut changes, mut numbers) = (Vec::new(), Vec::new());
    for StateOperation { number, values } in operations {
        if report::is_known(*number) {
            numbers.push(*number);
            continue;
        }
        let operation = changes::change_operation(*number).ok_or_else(|| {
            let why = format!("operation {number} on the state of an account is not known");
            Refusal::new(ResultCode::ConstraintViolation, why)
        })?;
        numbers.push(operation.reports);
        changes.push((operation, values.iter().map(ToString::to_string).collect()));
    }
    Ok((changes, numbers))
}

/// The answer to a request that changes nothing.
fn read(
    worker: &mut Worker,
    session: &Session,
    state: &State,
    dn: &Dn,
    key: &DnKey,
    query: &StateQuery,
) -> Result<Vec<u8>, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let now = directory.clock.now();
    let view = worker.snapshot.view()?;
    let referrals = referral::any(view, state.schema.well_known())?;
    let access = session.access();
    let viewer = Viewer { directory: &directory, access, view, schema: &state.schema };
    guarded(&viewer, key, |guard: &Guard<'_>| {
        let name = dn.to_string();
        let lookup = Lookup { name: &name, key, referrals, scope: None };
        let id = target::find(view, state, guard, &lookup)?;
        let stored = guard::stored(view, id)?;
        if !guard.on(&stored).is_disclosed() {
            return Err(guard.denied(view, &stored)?);
        }
        let mut known = GovernedAccount::of(&directory, state, view, &stored, key)?;
        known.account.switches = known.switches(&directory, state, view, &stored)?;
        Ok(known.report(now).value(query))
    })
}

impl GovernedAccount {
    fn report(&self, now: Timestamp) -> AccountReport<'_> {
        let Self { name, policy, account } = self;
        AccountReport { name: name.as_deref(), policy, account, now }
    }
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &StateChange) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let stored = guard::stored(decide.view, id)?;
    let schema = &decide.state.schema;
    let now = decide.stamp.moment.time;
    let mut known =
        GovernedAccount::of(decide.directory, decide.state, decide.view, &stored, &op.key)?;
    let found = known.account.state.clone();
    let mut changed = AccountChange { account: &mut known.account, policy: &known.policy, now };
    for (operation, values) in &op.changes {
        (operation.change)(&mut changed, values)?;
    }
    let rights = &decide.guard.on(&stored);
    check_failures(rights, schema, &found, &known.account.state)?;
    let before = excerpt::load_for_server(decide.view, id, schema)?;
    let mut after = before.clone();
    write(&known.account, &mut after, schema)?;
    let value = known.report(now).value(&op.query);
    // What binds left that is not written yet is written now, or was undone.
    let settled = (AccountState::read(&stored, schema) != found).then_some(id);
    if delta::deltas(&before, &after).is_empty() {
        return Ok(Decision { value: Some(value), settled, ..Decision::default() });
    }
    stamp::stamp_modified(&mut after, schema, &decide.stamp, &[])?;
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights,
        onto: None,
        after: &after,
        passwords: Passwords::Untouched,
        given: &[],
    };
    let mut decision = Decision::change(checks::permit(decide, &checked, change)?);
    (decision.value, decision.settled) = (Some(value), settled);
    Ok(decision)
}

/// Refuses to change the failures of an account to those who may not unlock it: whoever clears them
/// in time may guess for ever. They may be in memory only, where no right is asked for otherwise.
fn check_failures(
    rights: &Rights<'_>,
    schema: &Schema,
    before: &AccountState,
    after: &AccountState,
) -> Result<(), Refusal> {
    let of = |state: &AccountState| (state.failures.clone(), state.locked);
    let is_allowed = of(before) == of(after)
        || schema
            .describe("pwdAccountLockedTime")
            .is_ok_and(|locked| rights.may(Right::Write, &locked));
    if is_allowed { Ok(()) } else { Err(Denied.into()) }
}

/// Puts an account into its entry: the attributes that say something else now, and no others, so
/// that a value nobody understands stays where nothing was changed.
fn write(account: &Account, entry: &mut Entry, schema: &Schema) -> Result<(), Refusal> {
    let there = AccountState::read(entry, schema).attributes();
    for ((name, new), (_, old)) in account.state.attributes().into_iter().zip(there) {
        if new != old {
            changes::replace(entry, schema, name, new)?;
        }
    }
    changes::write_switches(account.switches, entry, schema)
}
