//! The password modify extended operation (RFC 3062).

pub(crate) mod value;

use ldap::dn::Dn;
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use schema::{Change, DnKey, Mode, validate_tolerant};

use self::value::{RequestValue, decode};
use crate::access::guard;
use crate::bind::hashing::Hashed;
use crate::enforcement::broken::Broken;
use crate::forward::asking;
use crate::password_policy::change::{self, SentPasswords};
use crate::password_policy::generator;
use crate::password_policy::verdict::Verdict;
use crate::read::{excerpt, target};
use crate::request::extended::call::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decision::{Decide, Decision};
use crate::write::rehash::queue::current_form;
use crate::write::request::{AcceptedPassword, OldPassword, PasswordModify, WriteOp};
use crate::write::submit::{self, Resolution};
use crate::write::{before_hashing, delta, named, old_password, passwords, permit, stamp};

/// Resolves the request and hands it to the writer.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    crate::bind::refusals::require_confidentiality(
        &worker.directory.credentials.authentication(),
        session,
    )?;
    let value = match request.value {
        None => RequestValue::default(),
        Some(octets) => decode(octets).map_err(|_| {
            Refusal::new(ResultCode::ProtocolError, "the password modify value is malformed")
        })?,
    };
    let dn = whose(session, value.user)?;
    let state = worker.directory.state.load_full();
    let key = named::key(&state.schema, &dn)?;
    worker.directory.rules.policies.check_target(session, &key, &state.schema)?;
    check_allowed(worker, session, &key)?;
    if worker.directory.queue.forwarding().is_some() {
        let (controls, envelope, name) = (call.controls, call.envelope, dn.to_string());
        if let Some(next) = asking::extended(worker, session, controls, envelope, Some(&name))? {
            return Ok(next);
        }
    }
    let known = state.schema.well_known();
    let may_set = before_hashing::may_change(worker, session.access(), &key, |entry, rights| {
        permit::may_put(rights, entry, &known.user_password, passwords::UNKNOWN)
    })?;
    let old = match value.old {
        Some(old) if may_set => old_password::behind(worker, &key, &state, old)?,
        Some(_) | None => OldPassword::NotSent,
    };
    if value.new.is_some_and(<[u8]>::is_empty) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "an empty password is refused; leave it out and one is generated",
        ));
    }
    let (clear, is_trial) = (value.new.into_iter().collect(), call.controls.is_trial());
    let sent = SentPasswords { clear, old: value.old, is_trial, ..SentPasswords::default() };
    // Nothing is hashed for a password that the policy refuses; the writer tells why.
    let verdict = match may_set {
        true => change::judge(worker, session.access(), &key, &sent),
        false => Err(change::allowed_meanwhile()),
    };
    let new = match verdict {
        Ok(verdict) => new_password(worker, verdict, value.new)?.map(Ok),
        Err(refusal) => Some(Err(refusal)),
    };
    let resolved = match (worker.request.hashing.questions(), new) {
        (None, Some(new)) => {
            // Noted when nothing is computed any more, so that it is noted once.
            if matches!(old, OldPassword::Wrong) {
                old_password::note_wrong(worker, &key, &state)?;
            }
            WriteOp::PasswordModify(PasswordModify { key, dn, old, new }).into()
        }
        (Some(questions), _) => Resolution::NeedsHash(questions),
        (None, None) => unreachable!("what is asked is among the questions"),
    };
    submit::submit(worker, session, call.controls, call.envelope, resolved, sink)
}

/// The new password with its stored form; none while that is asked for.
fn new_password(
    worker: &mut Worker,
    verdict: Verdict,
    new: Option<&[u8]>,
) -> Result<Option<AcceptedPassword>, Refusal> {
    let made = match new {
        Some(_) => None,
        // Another one would have to be hashed again.
        None => Some(match worker.request.hashing.known().generated() {
            Some(made) => made,
            None => generator::generate(verdict.policy(), &mut *worker.chance)?,
        }),
    };
    let clear = new.or(made.as_ref().map(|made| made.as_slice())).unwrap_or_default();
    Ok(match worker.stored_form(clear, verdict.scheme(), made.is_some())? {
        Hashed::Now(stored) => {
            Some(AcceptedPassword { stored, generated: made.map(|made| made.to_vec()), verdict })
        }
        Hashed::Pending => None,
    })
}

/// Whose password: the named user's, else that of whoever asks.
fn whose(session: &Session, user: Option<&[u8]>) -> Result<Dn, Refusal> {
    let Some(user) = user else {
        let own = session.identity().dn().ok_or_else(|| {
            Refusal::new(
                ResultCode::UnwillingToPerform,
                "name a user, or bind first: an anonymous session has no password",
            )
        });
        return Ok(Dn::parse(own?.as_str())?);
    };
    let text = std::str::from_utf8(user)
        .map_err(|_| Refusal::new(ResultCode::ProtocolError, "the user identity is not UTF-8"))?;
    Ok(Dn::parse(text.strip_prefix("dn:").unwrap_or(text))?)
}

/// With the privilege `password-reset` one may change the password of any entry, everyone else
/// their own, and nobody that of whomever they act as.
fn check_allowed(worker: &Worker, session: &Session, key: &DnKey) -> Result<(), Refusal> {
    let directory = &worker.directory;
    if *key == directory.credentials.root.key {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "the administrator has no entry; that password is kept in the data directory",
        ));
    }
    let access = session.access();
    if checks::may_change_password(access, key) {
        return Ok(());
    }
    let why = match access.key() == Some(key) {
        true => "a session that acts as another identity cannot change its password",
        false => "changing the password of another entry needs the privilege password-reset",
    };
    Err(Refusal::new(ResultCode::InsufficientAccessRights, why))
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &PasswordModify) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let stored = guard::stored(decide.view, id)?;
    let schema = &decide.state.schema;
    let before = excerpt::load_for_server(decide.view, id, schema)?;
    let known = schema.well_known();
    let stored_now = before.values(&known.user_password);
    let proves_old = match &op.old {
        OldPassword::NotSent => false,
        OldPassword::Right(old)
            if current_form(decide.directory.credentials.rehasher(), stored_now, old).is_some() =>
        {
            true
        }
        OldPassword::Wrong | OldPassword::Right(_) => {
            let why = "the old password is wrong";
            return Err(Refusal::new(ResultCode::InvalidCredentials, why));
        }
    };
    let AcceptedPassword { stored: new, verdict, .. } = op.new.as_ref().map_err(Refusal::clone)?;
    let mut after = before.clone();
    after.replace_values(schema, &known.user_password, vec![new.clone()])?;
    let target = change::Target { key: &op.key, stored: Some(&stored), proves_old, touched: &[] };
    let own = change::decide(decide, verdict, &target, &mut after)?;
    let modes = decide.schema_modes();
    let mut tolerance = modes.tolerance();
    validate_tolerant(&after, schema, Mode::Import, &mut tolerance)?;
    stamp::stamp_modified(&mut after, schema, &decide.stamp, &[])?;
    let change = Change::Modify(delta::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&stored),
        onto: None,
        after: &after,
        passwords: Passwords::Decided(&own),
        given: &[],
    };
    let mut decision = Decision::change(checks::permit(decide, &checked, change)?);
    decision.value = op.response_value();
    decision.late = verdict.late();
    decision.broken = Broken::of(after.name(), tolerance, &modes);
    Ok(decision)
}
