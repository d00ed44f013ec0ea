//! The password modify extended operation (RFC 3062).

use ldap::ber::{DecodeError, Reader, Tag, Writer};
use ldap::dn::Dn;
use ldap::message::ExtendedRequest;
use ldap::result::ResultCode;
use schema::{Change, DnKey, Mode, Schema, validate};
use store::Resolved;

use crate::bind::hashing::Behind;
use crate::bind::hashing::Hashed;
use crate::bind::login::Login;
use crate::directory::State;
use crate::password_policy::attempts::Own;
use crate::password_policy::change::{self, Looked, Sent};
use crate::password_policy::generator;
use crate::read::target;
use crate::request::extended::Call;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::checks::{self, Checked, Passwords};
use crate::write::decide::{Decide, Decision, WriteOp};
use crate::write::update::{self, Resolution};
use crate::write::{modify, rehash};

/// passwdModifyOID.
pub(crate) const OID: &str = "1.3.6.1.4.1.4203.1.11.1";

/// A password change, resolved.
pub(crate) struct PasswordModify {
    pub(crate) key: DnKey,
    pub(crate) dn: Dn,
    /// The stored value that the old password was found behind, if one was given; empty if none.
    old: Option<Vec<u8>>,
    /// The new password as it will be stored.
    stored: Vec<u8>,
    /// The password the server made up, to be told to the client.
    generated: Option<Vec<u8>>,
    /// What the policy says of it.
    looked: Result<Looked, Refusal>,
}

/// PasswdModifyRequestValue.
#[derive(Default)]
struct RequestValue<'a> {
    user: Option<&'a [u8]>,
    old: Option<&'a [u8]>,
    new: Option<&'a [u8]>,
}

/// Resolves the request and hands it to the writer.
pub(crate) fn start(
    worker: &mut Worker,
    session: &mut Session,
    request: &ExtendedRequest<'_>,
    call: &Call<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    crate::bind::refusals::require_confidentiality(
        &worker.directory.credentials.authentication,
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
    let key = update::key(&state.schema, &dn)?;
    worker.directory.rules.policies.check_target(session, &key, &state.schema)?;
    check_allowed(worker, session, &key)?;
    let old = match value.old {
        Some(old) => Some(behind(worker, &key, &state, old)?),
        None => None,
    };
    if value.new.is_some_and(<[u8]>::is_empty) {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "an empty password is refused; leave it out and one is generated",
        ));
    }
    let (clear, is_trial) = (value.new.into_iter().collect(), call.controls.is_trial());
    let sent = Sent { clear, old: value.old, is_trial, ..Sent::default() };
    let looked = change::look(worker, session.access(), &key, &sent);
    let (stored, generated) = match &looked {
        Ok(looked) => new_password(worker, looked, value.new)?,
        // Nothing is hashed for it; the writer tells why.
        Err(_) => (Hashed::Now(Vec::new()), None),
    };
    let resolved = match (worker.request.hashing.questions(), stored) {
        (None, Hashed::Now(stored)) => {
            // Noted when nothing is computed any more, so that it is noted once.
            if old.as_ref().is_some_and(Vec::is_empty) {
                note_wrong(worker, &key, &state)?;
            }
            let op = PasswordModify { key, dn, old, stored, generated, looked };
            WriteOp::PasswordModify(op).into()
        }
        (Some(questions), _) => Resolution::NeedsHash(questions),
        (None, Hashed::Asked) => unreachable!("what is asked is among the questions"),
    };
    update::submit(worker, session, (call.controls, call.envelope), resolved, sink)
}

/// The stored form of the new password, and it itself when the server has made it up.
fn new_password(
    worker: &mut Worker,
    looked: &Looked,
    new: Option<&[u8]>,
) -> Result<(Hashed, Option<Vec<u8>>), Refusal> {
    let made = match new {
        Some(_) => None,
        // Another one would have to be hashed again.
        None => Some(match worker.request.hashing.known().generated() {
            Some(made) => made,
            None => generator::generate(looked.policy(), &mut *worker.chance)?,
        }),
    };
    let clear = new.or(made.as_ref().map(|made| made.as_slice())).unwrap_or_default();
    let as_what = (looked.scheme(), made.is_some());
    let stored = worker.stored_form(clear, as_what)?;
    Ok((stored, made.map(|made| made.to_vec())))
}

/// The stored value that the old password is behind. An empty one stands for none: whether there
/// is such an entry at all, the decision tells. It is looked at, but does not count, when no bind
/// with it would: nobody guesses here what they may not guess there.
fn behind(worker: &mut Worker, key: &DnKey, state: &State, old: &[u8]) -> Result<Vec<u8>, Refusal> {
    let known = state.schema.well_known();
    let stored = modify::stored_now(worker, key, &known.user_password)?;
    let Behind::At(place) = worker.which(old, &stored) else { return Ok(Vec::new()) };
    let may_try = login(worker, key, state)?
        .is_some_and(|login| login.may_try(&worker.directory, Own::None).is_ok());
    Ok(stored.get(place).filter(|_| may_try).cloned().unwrap_or_default())
}

/// Whether nobody may try a password of the account now.
pub(crate) fn is_shut(worker: &mut Worker, key: &DnKey, state: &State) -> Result<bool, Refusal> {
    let login = login(worker, key, state)?;
    Ok(login.is_some_and(|login| login.may_try(&worker.directory, Own::None).is_err()))
}

/// The old password was wrong: to the policy a bind that failed.
pub(crate) fn note_wrong(worker: &mut Worker, key: &DnKey, state: &State) -> Result<(), Refusal> {
    worker.request.is_wrong_guess = true;
    if let Some(login) = login(worker, key, state)? {
        // Why it is refused is told by the decision, to those who may know of the entry.
        let _ = login.settle(worker, Own::None, false);
    }
    Ok(())
}

/// Whether a password that was looked at counts as right. A wrong one is noted, and so is one that
/// no bind may try now.
pub(crate) fn counts(
    worker: &mut Worker,
    key: &DnKey,
    state: &State,
    is_right: bool,
) -> Result<bool, Refusal> {
    if is_right && !is_shut(worker, key, state)? {
        return Ok(true);
    }
    note_wrong(worker, key, state)?;
    Ok(false)
}

/// The account of an entry, if there is one.
fn login(worker: &mut Worker, key: &DnKey, state: &State) -> Result<Option<Login>, Refusal> {
    let directory = &worker.directory;
    let view = worker.snapshot.view()?;
    let Resolved::Found(id) = view.resolve(key)? else { return Ok(None) };
    let entry = view.entry(id)?;
    Ok(entry.map(|entry| Login::read(directory, state, view, &entry, key)))
}

/// Whether a request is about the password of `key`, the account of whoever asks.
pub(crate) fn is_own(schema: &Schema, value: Option<&[u8]>, key: &DnKey) -> bool {
    let Some(octets) = value else { return true };
    let Ok(RequestValue { user, .. }) = decode(octets) else { return false };
    let Some(user) = user else { return true };
    let name = std::str::from_utf8(user).ok();
    let name = name.map(|text| text.strip_prefix("dn:").unwrap_or(text));
    name.and_then(|name| DnKey::from_text(schema, name).ok()).is_some_and(|user| user == *key)
}

/// Whether a request sends the old password.
pub(crate) fn sends_old(value: Option<&[u8]>) -> bool {
    value.and_then(|octets| decode(octets).ok()).is_some_and(|value| value.old.is_some())
}

/// The name of whose password a request is about; none: of whoever asks.
pub(crate) fn named(value: Option<&[u8]>) -> Option<&str> {
    let user = value.and_then(|octets| decode(octets).ok())?.user?;
    let text = std::str::from_utf8(user).ok()?;
    Some(text.strip_prefix("dn:").unwrap_or(text))
}

fn decode(octets: &[u8]) -> Result<RequestValue<'_>, DecodeError> {
    let mut outer = Reader::new(octets);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    outer.end()?;
    let value = RequestValue {
        // PHP names nobody by an empty name, which is that of no account.
        user: sequence.read_optional(Tag::context(0, false))?.filter(|user| !user.is_empty()),
        old: sequence.read_optional(Tag::context(1, false))?,
        new: sequence.read_optional(Tag::context(2, false))?,
    };
    sequence.end()?;
    Ok(value)
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
        true => "who acts as somebody else does not change the password of that one",
        false => {
            "only who has the privilege password-reset may change the password of another entry"
        }
    };
    Err(Refusal::new(ResultCode::InsufficientAccessRights, why))
}

/// Decides on what the entries before it left.
pub(crate) fn decide(decide: &mut Decide<'_>, op: &PasswordModify) -> Result<Decision, Refusal> {
    let name = op.dn.to_string();
    let lookup = decide.lookup(&name, &op.key);
    let id = target::find(decide.view, decide.state, decide.guard, &lookup)?;
    let stored = target::stored(decide.view, id)?;
    let before = stored.to_entry()?;
    let schema = &decide.state.schema;
    let known = schema.well_known();
    let passwords = before.values(&known.user_password);
    if let Some(old) = &op.old
        && rehash::stored_now(decide.directory, passwords, old).is_none()
    {
        return Err(Refusal::new(ResultCode::InvalidCredentials, "the old password is not right"));
    }
    let looked = op.looked.as_ref().map_err(Refusal::clone)?;
    let mut after = before.clone();
    after.replace_values(schema, &known.user_password, vec![op.stored.clone()])?;
    let target = change::Target {
        key: &op.key,
        stored: Some(&stored),
        proves_old: op.old.is_some(),
        touched: &[],
    };
    let own = change::decide(decide, looked, &target, &mut after)?;
    validate(&after, schema, Mode::Import)?;
    update::stamp_modified(&mut after, schema, &decide.stamp, &[])?;
    let change = Change::Modify(update::modify_change(id, &before, &after));
    let checked = Checked {
        key: &op.key,
        rights: &decide.guard.on(&stored),
        onto: None,
        after: &after,
        passwords: Passwords::Decided(&own),
    };
    let mut decision = Decision::change(checks::permit(decide, &checked, change)?);
    decision.value = op.response_value();
    decision.late = looked.late();
    Ok(decision)
}

impl PasswordModify {
    /// The new password as it will be stored.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// PasswdModifyResponseValue, when there is a password to tell.
    pub(crate) fn response_value(&self) -> Option<Vec<u8>> {
        self.generated.as_deref().map(response_value)
    }
}

/// PasswdModifyResponseValue: the generated password.
fn response_value(generated: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::context(0, false), generated);
    writer.end(sequence);
    value
}
