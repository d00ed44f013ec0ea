//! SCRAM (RFC 5802, RFC 7677): a password is proved without being sent, and the server proves that
//! it knows it. With `-PLUS` the proof holds for this connection only (RFC 9266, RFC 5929).
//!
//! Invariant: nobody learns from the messages whether a name exists or has keys: for one that has
//! none a salt is made up, always the same for the same name, and the proof fails in the end.
//! Invariant: between the messages only the keys are remembered. Who has proved to have them is
//! read when the proof is there, and so is whether they are still the keys of the account.

mod known;

use std::sync::Arc;

use aci::Access;
use auth::password;
use auth::scram::{Binding, Challenge, ClientFinal, ClientFirst, SALT_BYTES, ScramHash, ScramKeys};
use ldap::result::ResultCode;
use schema::DnKey;

use super::exchange::{Exchange, ScramExchange};
use super::mechanism::{Message, Step, authorize, malformed};
use crate::bind::failure::BindFailure;
use crate::bind::identity_mapper;
use crate::bind::login::Login;
use crate::bind::refusals::invalid_credentials;
use crate::bind::user_name::{Found, UserName};
use crate::directory::Directory;
use crate::password_policy::attempts::Own;
use crate::request::protection::ChannelBindings;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;

pub(crate) use known::{KeySearch, KnownKeys};

/// One of the four mechanisms.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Its registered name.
    pub(super) name: &'static str,
    hash: ScramHash,
    with_binding: bool,
}

pub(super) const SHA_256: Kind =
    Kind { name: "SCRAM-SHA-256", hash: ScramHash::Sha256, with_binding: false };
pub(super) const SHA_256_PLUS: Kind =
    Kind { name: "SCRAM-SHA-256-PLUS", hash: ScramHash::Sha256, with_binding: true };
pub(super) const SHA_512: Kind =
    Kind { name: "SCRAM-SHA-512", hash: ScramHash::Sha512, with_binding: false };
pub(super) const SHA_512_PLUS: Kind =
    Kind { name: "SCRAM-SHA-512-PLUS", hash: ScramHash::Sha512, with_binding: true };

/// Whether this connection has a channel to be bound to.
pub(super) fn can_bind(session: &Session) -> bool {
    session.bindings().is_some_and(ChannelBindings::any)
}

/// Whether somebody can sign in by this mechanism: keys for its hash are stored, or will be when
/// passwords are set.
pub(super) fn can_succeed(kind: Kind, directory: &Directory) -> bool {
    let is_stored = |scheme| {
        directory.credentials.passwords().storage.scheme == scheme
            || directory.rules.password_policies.load().store(scheme)
    };
    directory.credentials.scram_keys.has(kind.hash) || kind.hash.scheme().is_some_and(is_stored)
}

/// Whether channel binding could have been used on this connection.
fn offers_binding(directory: &Directory, session: &Session) -> bool {
    can_bind(session)
        && [SHA_512_PLUS, SHA_256_PLUS].into_iter().any(|kind| {
            directory.credentials.authentication().allows(kind.name) && can_succeed(kind, directory)
        })
}

pub(super) fn step(
    kind: Kind,
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    match message.exchange {
        Some(Exchange::Scram(exchange)) => {
            worker.request.claimed = Some(exchange.username.as_str().into());
            let last = ClientFinal::read(message.octets)?;
            let (access, answer) = exchange.finish(worker, &last)?;
            let proven = access.from_origin(session.origin(message.mechanism));
            let access = authorize(worker, proven, &exchange.authzid)?;
            Ok(Step::Done { access, answer: Some(answer) })
        }
        Some(_) | None => {
            let first = ClientFirst::read(message.octets)?;
            worker.request.claimed = Some(first.username.as_str().into());
            begin(kind, worker, session, &first)
        }
    }
}

/// Answers the first message with salt, iterations and nonce.
fn begin(
    kind: Kind,
    worker: &mut Worker,
    session: &Session,
    first: &ClientFirst<'_>,
) -> Result<Step, Refusal> {
    let binding = binding(kind, &worker.directory, session, first)?;
    let name = UserName::of_sasl(&first.username);
    let (found, keys) = match look_up(worker, kind.hash, name)? {
        Ok((found, keys)) => (Ok(found), keys),
        Err(why) => (Err(why), made_up(&worker.directory, kind.hash, name)),
    };
    let (challenge, message) = Challenge::new(first, binding, keys, &mut *worker.chance);
    let exchange = ScramExchange {
        found,
        username: first.username.clone(),
        authzid: first.authzid.clone(),
        challenge,
    };
    Ok(Step::Continue {
        exchange: Exchange::Scram(Box::new(exchange)),
        challenge: message.into_bytes(),
    })
}

/// What the client has to repeat in `c=`: its header, and with it the value that only the ends of
/// this connection know.
fn binding(
    kind: Kind,
    directory: &Directory,
    session: &Session,
    first: &ClientFirst<'_>,
) -> Result<Vec<u8>, Refusal> {
    let mut octets = first.header.as_bytes().to_vec();
    match (first.binding, kind.with_binding) {
        (Binding::Used(name), true) => {
            let value =
                session.bindings().and_then(|bindings: &ChannelBindings| bindings.named(name));
            octets.extend_from_slice(value.ok_or_else(|| {
                Refusal::new(
                    ResultCode::InvalidCredentials,
                    "this connection has no channel binding of this type; \
                     tls-exporter (TLS 1.3) and tls-server-end-point are known",
                )
            })?);
        }
        // Somebody in between has taken the stronger mechanism off the list (RFC 5802 §6).
        (Binding::Unoffered, false) if offers_binding(directory, session) => {
            return Err(Refusal::new(
                ResultCode::InvalidCredentials,
                "the server offers channel binding, but the client was told otherwise",
            ));
        }
        (Binding::Unsupported | Binding::Unoffered, false) => {}
        (Binding::Used(_), false) => {
            return Err(malformed("channel binding needs a mechanism whose name ends in -PLUS"));
        }
        (Binding::Unsupported | Binding::Unoffered, true) => {
            return Err(malformed("a mechanism whose name ends in -PLUS needs channel binding"));
        }
    }
    Ok(octets)
}

impl ScramExchange {
    /// Whom the last message proves the client to be, and the server's own proof.
    fn finish(&self, worker: &mut Worker, last: &ClientFinal<'_>) -> Result<Ended, Refusal> {
        let answer = self.challenge.verify(last)?.filter(|_| self.found.is_ok());
        let nobody = |why| invalid_credentials().failed_for(why);
        let found = self.found.map_err(nobody)?;
        let Holder { access, login, keys } = Holder::read(worker, found, self.challenge.keys.hash)?
            .ok_or_else(|| nobody(BindFailure::NoSuchEntry))?;
        // Keys that were replaced meanwhile are a wrong password.
        let answer = answer.filter(|_| keys.contains(&self.challenge.keys));
        if let Some(login) = login {
            login.may_try(&worker.directory, Own::None)?;
            login.settle(worker, Own::None, answer.is_some())?;
        }
        Ok((access, answer.ok_or_else(|| nobody(BindFailure::WrongPassword))?))
    }
}

/// Who has proved to be whom, and what the server answers.
type Ended = (Access, Vec<u8>);

/// Who has keys, as they are now.
struct Holder {
    access: Access,
    /// The administrator has no account.
    login: Option<Login>,
    /// For one hash; the first are those that the server names the salt of.
    keys: Vec<ScramKeys>,
}

impl Holder {
    /// Reads who was found; `None` when the entry has gone.
    fn read(worker: &mut Worker, found: Found, hash: ScramHash) -> Result<Option<Self>, Refusal> {
        let directory = &worker.directory;
        let read = |stored: Vec<u8>| ScramKeys::parse(&stored).filter(|keys| keys.hash == hash);
        let id = match found {
            Found::Root => {
                let keys = read(directory.credentials.root.password()).into_iter().collect();
                return Ok(Some(Self {
                    access: directory.credentials.root.access(),
                    login: None,
                    keys,
                }));
            }
            Found::Entry(id) => id,
        };
        let state = directory.state.load_full();
        let view = worker.snapshot.view()?;
        let Some(entry) = view.entry(id)? else { return Ok(None) };
        let access = identity_mapper::access(&state, &entry)?;
        let login = access.key().map(|key| Login::read(directory, &state, view, &entry, key));
        let login = login.transpose()?;
        let known = state.schema.well_known();
        let both = [&known.user_password, &known.auth_password].into_iter();
        let stored = both.flat_map(|one| password::stored_in(&entry, one));
        let stored = stored.inspect(|stored| directory.credentials.scram_keys.note(stored));
        Ok(Some(Self { access, login, keys: stored.filter_map(read).collect() }))
    }
}

/// Who has a name and keys, or why nobody has them.
type LookedUp = Result<(Found, ScramKeys), BindFailure>;

/// The identity of this name and its keys for `hash`.
fn look_up(worker: &mut Worker, hash: ScramHash, name: UserName<'_>) -> Result<LookedUp, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    let found = match identity_mapper::find(&directory, &state, view, name) {
        // A name that is no DN is nobody's.
        Err(refusal) if refusal.code == ResultCode::InvalidDnSyntax => None,
        found => found?,
    };
    let Some(found) = found else { return Ok(Err(BindFailure::NoSuchEntry)) };
    let holder = Holder::read(worker, found, hash)?;
    let keys = holder.and_then(|holder| holder.keys.into_iter().next());
    Ok(keys.map(|keys| (found, keys)).ok_or(BindFailure::NoPassword))
}

/// Keys for a name that has none: the salt depends on the name and on this directory, iterations
/// are those of new keys, the rest is right for no password.
fn made_up(directory: &Directory, hash: ScramHash, name: UserName<'_>) -> ScramKeys {
    let name = prepared(directory, name);
    let made = |what: &str| {
        let octets = [what.as_bytes(), b"\0", hash.name().as_bytes(), b"\0", &name].concat();
        hash.hmac(&directory.credentials.scram_secret, &octets)
    };
    let mut salt = made("salt");
    salt.truncate(SALT_BYTES);
    ScramKeys {
        hash,
        iterations: directory.credentials.passwords().storage.costs.scram_iterations,
        salt,
        stored_key: made("stored key"),
        server_key: made("server key"),
    }
}

/// What the spellings of one name have in common: those of a name that exists have one salt, too.
pub(crate) fn prepared(directory: &Directory, name: UserName<'_>) -> Vec<u8> {
    let schema = &directory.state.load().schema;
    let (text, key) = match name {
        UserName::Dn(text) => {
            (text, DnKey::from_text(schema, text).ok().map(|key| key.as_bytes().to_vec()))
        }
        UserName::User(text) => {
            let authentication = directory.credentials.authentication();
            let names = authentication.names.attributes.first();
            let kind = names.and_then(|name| schema.describe(name).ok());
            let rule = kind.and_then(|description| description.kind.equality);
            let mut key = Vec::new();
            let is_prepared = rule.is_some_and(|rule| {
                rule.prepare_assertion(schema, text.as_bytes(), &mut key).is_ok()
            });
            (text, is_prepared.then_some(key))
        }
    };
    // What is no such name is nobody's, however it is spelled.
    key.unwrap_or_else(|| text.trim().to_lowercase().into_bytes())
}
