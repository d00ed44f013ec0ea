//! SCRAM (RFC 5802, RFC 7677): a password is proved without being sent, and the server proves that
//! it knows it. With `-PLUS` the proof holds for this connection only (RFC 9266, RFC 5929).
//!
//! Invariant: nobody learns from the messages whether a name exists or has keys: for one that has
//! none a salt is made up, always the same for the same name, and the proof fails in the end.
//! Invariant: between the messages only the keys are remembered. Who has proved to have them is
//! read when the proof is there, and so is whether they are still the keys of the account.

mod keys;
mod known;

use std::sync::Arc;

use aci::Access;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use environment::Chance;
use ldap::result::ResultCode;
use schema::DnKey;
use subtle::ConstantTimeEq as _;

use super::{Mechanism, Message, Step, authorize, malformed};
use crate::directory::Directory;
use crate::identity_mapper::{self, Found, UserName};
use crate::ops::bind::login::Login;
use crate::password;
use crate::password_policy::attempts::Own;
use crate::protection::ChannelBindings;
use crate::refusal::Refusal;
use crate::session::Session;
use crate::worker::Worker;

pub(crate) use keys::{ITERATIONS_DEFAULT, ScramHash, ScramKeys};
pub(crate) use known::{KeySearch, KnownKeys};

/// One of the four mechanisms.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    hash: ScramHash,
    with_binding: bool,
}

/// How the names of the mechanisms begin.
pub(crate) const PREFIX: &str = "SCRAM-";

pub(super) const SHA_256: Kind = Kind { hash: ScramHash::Sha256, with_binding: false };
pub(super) const SHA_256_PLUS: Kind = Kind { hash: ScramHash::Sha256, with_binding: true };
pub(super) const SHA_512: Kind = Kind { hash: ScramHash::Sha512, with_binding: false };
pub(super) const SHA_512_PLUS: Kind = Kind { hash: ScramHash::Sha512, with_binding: true };

/// What is remembered between the two messages of a client.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Whose keys these are; none when they are made up.
    found: Option<Found>,
    /// Who the client says it is.
    username: String,
    keys: ScramKeys,
    /// Whom the client wants to be.
    authzid: String,
    /// What must stand in `c=`, decoded: the header of the first message and the binding.
    binding: Vec<u8>,
    /// The client's and the server's, joined.
    nonce: String,
    /// `client-first-message-bare "," server-first-message ","`.
    auth_message: String,
}

/// `client-first-message`, its parts.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct ClientFirst<'m> {
    binding: Binding<'m>,
    authzid: String,
    /// The header, for `c=`.
    header: &'m str,
    /// What follows it.
    bare: &'m str,
    username: String,
    nonce: &'m str,
}

/// `gs2-cbind-flag`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Binding<'m> {
    /// The client cannot.
    Unsupported,
    /// The client could, and believes that the server cannot.
    Unoffered,
    /// Of the type of this name.
    Used(&'m str),
}

/// `client-final-message`, its parts.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct ClientFinal<'m> {
    binding: Vec<u8>,
    nonce: &'m str,
    /// The message up to the proof.
    without_proof: &'m str,
    proof: Vec<u8>,
}

impl<'m> ClientFirst<'m> {
    pub(crate) fn read(octets: &'m [u8]) -> Result<Self, Refusal> {
        let text = text(octets)?;
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(authzid), Some(bare)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong());
        };
        let binding = match flag {
            "n" => Binding::Unsupported,
            "y" => Binding::Unoffered,
            _ => Binding::Used(flag.strip_prefix("p=").filter(|it| is_name(it)).ok_or_else(wrong)?),
        };
        let authzid = match authzid {
            "" => String::new(),
            name => read_name(name.strip_prefix("a=").ok_or_else(wrong)?)?,
        };
        let header = text.strip_suffix(bare).ok_or_else(wrong)?;
        let mut parts = bare.split(',');
        let mut part =
            |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(wrong);
        // A message that begins with `m=` has an extension that must be understood.
        let (username, nonce) = (read_name(part("n=")?)?, part("r=")?);
        if username.is_empty() || nonce.is_empty() || !is_printable(nonce) {
            return Err(wrong());
        }
        Ok(Self { binding, authzid, header, bare, username, nonce })
    }
}

impl<'m> ClientFinal<'m> {
    pub(crate) fn read(octets: &'m [u8]) -> Result<Self, Refusal> {
        let text = text(octets)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(wrong)?;
        let mut parts = without_proof.split(',');
        let mut part =
            |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or_else(wrong);
        let (binding, nonce) = (part("c=")?, part("r=")?);
        let decode = |part: &str| STANDARD.decode(part).map_err(|_| wrong());
        Ok(Self { binding: decode(binding)?, nonce, without_proof, proof: decode(proof)? })
    }
}

/// Whether a message carries a proof, which may be wrong; the first one of an exchange does not.
pub(crate) fn carries_proof(octets: Option<&[u8]>) -> bool {
    octets.is_some_and(|octets| octets.starts_with(b"c="))
}

/// Whether this connection has a channel to be bound to.
pub(super) fn can_bind(session: &Session) -> bool {
    session.bindings().is_some_and(ChannelBindings::any)
}

/// Whether somebody can sign in by this mechanism: keys for its hash are stored, or will be when
/// passwords are set.
pub(super) fn can_succeed(kind: Kind, directory: &Directory) -> bool {
    let is_stored = |scheme| {
        directory.passwords.storage.scheme == scheme
            || directory.password_policies.load().store(scheme)
    };
    directory.scram_keys.has(kind.hash) || kind.hash.scheme().is_some_and(is_stored)
}

pub(super) fn step(
    kind: Kind,
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    match message.exchange {
        Some(super::Exchange::Scram(exchange)) => {
            let last = ClientFinal::read(message.octets)?;
            let (access, answer) = exchange.finish(worker, &last)?;
            let proven = access.from_origin(session.origin(message.mechanism));
            let access = authorize(worker, proven, &exchange.authzid)?;
            Ok(Step::Done { access, answer: Some(answer) })
        }
        Some(_) | None => {
            let first = ClientFirst::read(message.octets)?;
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
    let nonce = format!("{}{}", first.nonce, made_nonce(&mut *worker.chance));
    let name = UserName::of_sasl(&first.username);
    let (found, keys) = match look_up(worker, kind.hash, name)? {
        Some((found, keys)) => (Some(found), keys),
        None => (None, made_up(&worker.directory, kind.hash, name)),
    };
    let challenge = format!("r={nonce},s={},i={}", STANDARD.encode(&keys.salt), keys.iterations);
    let exchange = Exchange {
        found,
        username: first.username.clone(),
        keys,
        authzid: first.authzid.clone(),
        binding,
        auth_message: format!("{},{challenge},", first.bare),
        nonce,
    };
    Ok(Step::Continue {
        exchange: super::Exchange::Scram(Box::new(exchange)),
        challenge: challenge.into_bytes(),
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
        (Binding::Unoffered, false) if Mechanism::is_offered_with_binding(directory, session) => {
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

impl Exchange {
    /// Who the client says it is.
    pub(super) fn username(&self) -> &str {
        &self.username
    }

    /// Whom the last message proves the client to be, and the server's own proof.
    fn finish(&self, worker: &mut Worker, last: &ClientFinal<'_>) -> Result<Ended, Refusal> {
        let answer = self.verify(last)?;
        let nobody = || Refusal::new(ResultCode::InvalidCredentials, "");
        let found = self.found.ok_or_else(nobody)?;
        let Holder { access, login, keys } =
            Holder::read(worker, found, self.keys.hash)?.ok_or_else(nobody)?;
        // Keys that were replaced meanwhile are a wrong password.
        let answer = answer.filter(|_| keys.contains(&self.keys));
        if let Some(login) = login {
            login.may_try(&worker.directory, Own::None)?;
            login.settle(worker, Own::None, answer.is_some())?;
        }
        Ok((access, answer.ok_or_else(nobody)?))
    }

    /// Verifies the proof: the server's, or none when the client's is wrong.
    fn verify(&self, last: &ClientFinal<'_>) -> Result<Option<Vec<u8>>, Refusal> {
        let ScramKeys { hash, stored_key, server_key, .. } = &self.keys;
        if last.nonce != self.nonce {
            return Err(malformed("the nonce is not the one of the exchange"));
        }
        let auth_message = format!("{}{}", self.auth_message, last.without_proof);
        let signature = hash.hmac(stored_key, auth_message.as_bytes());
        let client_key: Vec<u8> =
            last.proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        let is_right = last.proof.len() == signature.len()
            && bool::from(hash.digest(&client_key).ct_eq(stored_key))
            && bool::from(last.binding.ct_eq(&self.binding));
        let verifier = STANDARD.encode(hash.hmac(server_key, auth_message.as_bytes()));
        let is_right = is_right && self.found.is_some();
        Ok(is_right.then(|| format!("v={verifier}").into_bytes()))
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
                let keys = read(directory.root.password.clone()).into_iter().collect();
                return Ok(Some(Self { access: directory.root.access(), login: None, keys }));
            }
            Found::Entry(id) => id,
        };
        let state = directory.state.load_full();
        let view = worker.snapshot.view()?;
        let Some(entry) = view.entry(id)? else { return Ok(None) };
        let access = identity_mapper::access(&state, &entry)?;
        let login = access.key().map(|key| Login::read(directory, &state, view, &entry, key));
        let known = state.schema.well_known();
        let both = [&known.user_password, &known.auth_password].into_iter();
        let stored = both.flat_map(|one| password::stored_in(&entry, one));
        let stored = stored.inspect(|stored| directory.scram_keys.note(stored));
        Ok(Some(Self { access, login, keys: stored.filter_map(read).collect() }))
    }
}

/// The identity of this name and its keys for `hash`.
fn look_up(
    worker: &mut Worker,
    hash: ScramHash,
    name: UserName<'_>,
) -> Result<Option<(Found, ScramKeys)>, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    let found = match identity_mapper::find(&directory, &state, view, name) {
        // A name that is no DN is nobody's.
        Err(refusal) if refusal.code == ResultCode::InvalidDnSyntax => None,
        found => found?,
    };
    let Some(found) = found else { return Ok(None) };
    let holder = Holder::read(worker, found, hash)?;
    let keys = holder.and_then(|holder| holder.keys.into_iter().next());
    Ok(keys.map(|keys| (found, keys)))
}

/// Keys for a name that has none: the salt depends on the name and on this directory, iterations
/// are those of new keys, the rest is right for no password.
fn made_up(directory: &Directory, hash: ScramHash, name: UserName<'_>) -> ScramKeys {
    let name = prepared(directory, name);
    let made = |what: &str| {
        let octets = [what.as_bytes(), b"\0", hash.name().as_bytes(), b"\0", &name].concat();
        hash.hmac(&directory.scram_secret, &octets)
    };
    let mut salt = made("salt");
    salt.truncate(SALT_BYTES);
    ScramKeys {
        hash,
        iterations: directory.passwords.storage.costs.scram_iterations,
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
            let names = directory.authentication.names.attributes.first();
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

fn made_nonce(chance: &mut dyn Chance) -> String {
    let mut octets = [0; NONCE_BYTES];
    chance.fill(&mut octets);
    STANDARD.encode(octets)
}

fn wrong() -> Refusal {
    malformed("the SCRAM message is not as RFC 5802 says")
}

fn text(octets: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(octets)
        .ok()
        .filter(|text| text.len() <= MESSAGE_MAX_BYTES && !text.contains('\0'))
        .ok_or_else(wrong)
}

/// Undoes `=2C` and `=3D` and prepares the name (RFC 5802 §5.1).
fn read_name(text: &str) -> Result<String, Refusal> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        name.push_str(before);
        let (character, after) = match after.split_at_checked(2) {
            Some(("2C", after)) => (',', after),
            Some(("3D", after)) => ('=', after),
            _ => return Err(wrong()),
        };
        name.push(character);
        rest = after;
    }
    name.push_str(rest);
    stringprep::saslprep(&name).map(|prepared| prepared.into_owned()).map_err(|_| wrong())
}

/// `cb-name`.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '-'))
}

/// `printable`: no comma can be left in it.
fn is_printable(text: &str) -> bool {
    text.chars().all(|one| matches!(one, '!'..='~'))
}

/// Octets of salt: as many as RFC 7677's example has.
const SALT_BYTES: usize = 16;
/// Octets of chance in a nonce; a multiple of three, so that Base64 has no padding.
const NONCE_BYTES: usize = 18;
/// Octets of one message; a server keeps about twice as many for each client in an exchange.
const MESSAGE_MAX_BYTES: usize = 4_096;

#[cfg(test)]
mod tests;
