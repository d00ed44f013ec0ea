//! What the update operations share.

use std::sync::Arc;

use auth::password::{self, Scheme};
use ldap::dn::Dn;
use ldap::result::ResultCode;
use rustc_hash::FxHashSet;
use schema::{
    AttributeDelta, AttributeDescription, DnKey, Entry, EntryError, EntryId, ModifyChange, RdnKey,
    Schema,
};

use crate::bind::hashing::{Hashed, Questions};
use crate::bind::refusals::require_confidentiality;
use crate::directory::State;
use crate::request::asker_queues::Asker;
use crate::request::cancel::Cancel;
use crate::request::controls::RequestControls;
use crate::request::received::Envelope;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::sink::ResponseSink;
use crate::request::worker::{Next, Worker};
use crate::write::decide::{Answer, Decide, WriteOp, WriteRequest};
use crate::write::queue::PendingWrite;
use crate::write::stamp::Stamp;

/// The key of a name; `invalidDNSyntax` when an attribute of it is unknown or a value malformed.
pub(crate) fn key(schema: &Schema, dn: &Dn) -> Result<DnKey, Refusal> {
    DnKey::from_dn(schema, dn)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))
}

/// The entry that an update request names.
pub(crate) struct Named {
    pub(crate) state: Arc<State>,
    pub(crate) dn: Dn,
    pub(crate) key: DnKey,
}

/// What every update begins with: the name of the request, and what it means under the schema in
/// force. Whether the session may have the update is decided by the writer, see `permit.rs`.
pub(crate) fn named(worker: &Worker, name: &str) -> Result<Named, Refusal> {
    let dn = Dn::parse(name)?;
    let state = worker.directory.state.load_full();
    let key = key(&state.schema, &dn)?;
    Ok(Named { state, dn, key })
}

/// Likewise for the updates that an entry the server makes itself never takes.
pub(crate) fn named_stored(worker: &Worker, name: &str) -> Result<Named, Refusal> {
    stored(named(worker, name)?)
}

/// Refuses the names of entries the server makes itself.
pub(crate) fn stored(named: Named) -> Result<Named, Refusal> {
    let Named { state, key, .. } = &named;
    if key.depth() == 0 || *key == state.subschema_key || state.virtual_trees.hold(key) {
        return Err(refuse_special());
    }
    Ok(named)
}

/// What resolving an update leads to.
pub(crate) enum Resolution {
    Op(WriteOp),
    /// Passwords are to be hashed, which takes long: it is resolved again with the answers.
    NeedsHash(Questions),
}

impl From<WriteOp> for Resolution {
    fn from(op: WriteOp) -> Self {
        Self::Op(op)
    }
}

/// Hands a resolved operation to the writer, or keeps it for the end of its transaction.
pub(crate) fn submit(
    worker: &mut Worker,
    session: &mut Session,
    (controls, envelope): (&RequestControls<'_>, Envelope<'_>),
    resolved: Resolution,
    sink: &mut ResponseSink<'_>,
) -> Result<Next, Refusal> {
    check_controls(session, controls)?;
    let op = match resolved {
        Resolution::Op(op) => op,
        Resolution::NeedsHash(questions) => {
            let rules = worker.directory.hash_rules();
            return Ok(Next::Hash(questions.job(rules, session.begin(envelope.id), envelope)));
        }
    };
    let Envelope { id, operation, bytes, schema_generation } = envelope;
    let mut request = [0; 16];
    worker.chance.fill(&mut request);
    let mut request = WriteRequest {
        id,
        operation,
        access: Arc::clone(session.access()),
        cancel: Cancel::default(),
        is_lazy: controls.lazy,
        request,
        who: Arc::clone(session.who()),
        controls: controls.resolve(&worker.directory.state.load().schema),
        schema_generation,
        op,
    };
    if let Some(identifier) = controls.transaction {
        // It counts as done when it is accepted; whether it is, the end of the transaction tells.
        let accepted = Answer { value: request.op.value(), ..Answer::success() };
        let now = worker.directory.clock.elapsed();
        let asks_policy = request.asks_policy();
        session.transactions().add(identifier, request, bytes.len(), now)?;
        return Ok(Next::Answered(accepted.send(asks_policy, sink)));
    }
    request.cancel = session.begin(id);
    Ok(Next::Write(PendingWrite {
        directory: Arc::clone(&worker.directory),
        request: Box::new(request),
        asker: Asker::of(session),
        octets: bytes.len(),
        is_wrong_guess: worker.request.is_wrong_guess,
    }))
}

/// Refuses controls that this session may not use, or not together.
fn check_controls(session: &Session, controls: &RequestControls<'_>) -> Result<(), Refusal> {
    if controls.relax && !session.access().is_root() {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "only the administrator may relax the rules",
        ));
    }
    if controls.no_op && controls.transaction.is_some() {
        return Err(Refusal::new(
            ResultCode::UnwillingToPerform,
            "an update of a transaction has an effect or is left out of it",
        ));
    }
    Ok(())
}

/// Whether `key` names the entry at the top of a naming context.
pub(crate) fn is_context(decide: &Decide<'_>, key: &DnKey) -> bool {
    decide
        .directory
        .storage
        .store
        .naming_contexts()
        .iter()
        .any(|dn| DnKey::from_dn(&decide.state.schema, dn).is_ok_and(|context| context == *key))
}

/// What the entry `key` is called below `parent`: its RDN, or its whole name at the top of a
/// naming context.
pub(crate) fn name_key(key: &DnKey, parent: EntryId) -> RdnKey {
    let whole = || RdnKey::of_naming_context(key);
    if parent == EntryId::ROOT { whole() } else { key.leaf().unwrap_or_else(whole) }
}

/// Replaces clear-text passwords by their hashes; slow ones are asked for.
pub(crate) fn hash_passwords(
    worker: &mut Worker,
    session: &Session,
    entry: &mut Entry,
    (schema, storing): (&Schema, &Storing),
) -> Result<(), Refusal> {
    if entry.attributes().iter().any(|attribute| is_hashable(&attribute.description)) {
        require_confidentiality(&worker.directory.credentials.authentication, session)?;
    }
    hash_passwords_with(entry, schema, &mut |value| stored_password(worker, storing, value))
}

/// Gives the form in which a password is stored; none while that is asked for.
pub type StoredForm<'f, E> = dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>, E> + 'f;

/// Puts the stored form of each password of `entry` in its place.
///
/// # Errors
/// Those of `stored_form`, and what is wrong with the values it gives.
pub fn hash_passwords_with<E: From<EntryError>>(
    entry: &mut Entry,
    schema: &Schema,
    stored_form: &mut StoredForm<'_, E>,
) -> Result<(), E> {
    let replaced = entry
        .attributes()
        .iter()
        .filter(|attribute| is_hashable(&attribute.description))
        .map(|attribute| {
            let values = attribute.values.iter();
            let values = values.filter_map(|value| stored_form(value).transpose());
            Ok((Arc::clone(&attribute.description), values.collect::<Result<Vec<_>, E>>()?))
        })
        .collect::<Result<Vec<_>, E>>()?;
    for (description, values) in replaced {
        entry.replace_values(schema, &description, values)?;
    }
    Ok(())
}

/// Whether values of this attribute are hashed when they come in clear: userPassword and its
/// subtypes; authPassword carries its hash by its own syntax (RFC 3112).
pub(crate) fn is_hashable(description: &AttributeDescription) -> bool {
    description.is_password() && description.kind.name() != "authPassword"
}

/// Refuses more passwords in one request than one account has use for.
pub(crate) fn check_password_count(count: usize) -> Result<(), Refusal> {
    match count > PASSWORDS_MAX {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a request may set {PASSWORDS_MAX} passwords at the most"),
        )),
    }
}

/// Passwords that one request may set: each may be hashed slowly.
pub(crate) const PASSWORDS_MAX: usize = 10;

/// How the new passwords of a request are stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Storing {
    /// The policy has refused them: nothing is hashed, and the writer tells why.
    pub(crate) is_refused: bool,
    /// Hashed values stay.
    pub(crate) keeps_hashed: bool,
    /// In which scheme, if not in that of the settings.
    pub(crate) scheme: Option<Scheme>,
}

/// The form in which a password is stored. A value that is hashed already is kept when it comes
/// from those who may send one; from anyone else it was refused, unless it only begins like one.
/// None while it is asked for.
pub(crate) fn stored_password(
    worker: &mut Worker,
    storing: &Storing,
    value: &[u8],
) -> Result<Option<Vec<u8>>, Refusal> {
    if storing.is_refused {
        return Ok(Some(REFUSED.to_vec()));
    }
    if storing.keeps_hashed && password::is_hashed(value) {
        return Ok(Some(value.to_vec()));
    }
    Ok(match worker.stored_form(value, (storing.scheme, false))? {
        Hashed::Now(form) => Some(form),
        Hashed::Asked => None,
    })
}

/// Notes who changed the entry last, and when. Of the attributes in `kept` all but the CSN stay.
pub(crate) fn stamp_modified(
    entry: &mut Entry,
    schema: &Schema,
    stamp: &Stamp,
    kept: &[Arc<AttributeDescription>],
) -> Result<(), EntryError> {
    let known = schema.well_known();
    let csn = [stamp.csn.as_bytes().to_vec()].into();
    entry.replace_values(schema, &known.entry_csn, csn)?;
    let stamps = [(&known.modifiers_name, &stamp.name), (&known.modify_timestamp, &stamp.time)];
    for (description, value) in stamps {
        if kept.contains(description) {
            continue;
        }
        entry.replace_values(schema, description, vec![value.as_bytes().to_vec()])?;
    }
    Ok(())
}

/// What changes `before` into `after`: values removed and added, attribute by attribute.
pub(crate) fn deltas(before: &Entry, after: &Entry) -> Vec<AttributeDelta> {
    // One is a changed copy of the other: most attributes are where they were.
    let at = |entry: &Entry, place: usize, description: &Arc<AttributeDescription>| {
        let here = entry.attributes().get(place);
        here.is_some_and(|here| Arc::ptr_eq(&here.description, description))
    };
    let mut deltas = Vec::new();
    for (place, old) in before.attributes().iter().enumerate() {
        let new: &[Vec<u8>] = match after.attributes().get(place) {
            Some(new) if Arc::ptr_eq(&new.description, &old.description) => &new.values,
            Some(_) | None => after.values(&old.description),
        };
        push_delta(&mut deltas, &old.description, &old.values, new);
    }
    for (place, new) in after.attributes().iter().enumerate() {
        if !at(before, place, &new.description) && before.get(&new.description).is_none() {
            push_delta(&mut deltas, &new.description, &[], &new.values);
        }
    }
    deltas
}

fn push_delta(
    deltas: &mut Vec<AttributeDelta>,
    description: &Arc<AttributeDescription>,
    old: &[Vec<u8>],
    new: &[Vec<u8>],
) {
    // Values are mostly added behind those that stay.
    let common = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (Some(old), Some(new)) = (old.get(common..), new.get(common..)) else { return };
    let without = |all: &[Vec<u8>], others: &[Vec<u8>]| {
        let others = others.iter().collect::<FxHashSet<_>>();
        all.iter().filter(|value| !others.contains(value)).cloned().collect::<Vec<_>>()
    };
    let removed = without(old, new);
    let added = without(new, old);
    if !removed.is_empty() || !added.is_empty() {
        deltas.push(AttributeDelta { description: Arc::clone(description), removed, added });
    }
}

/// The change of one entry from `before` to `after`.
pub(crate) fn modify_change(id: EntryId, before: &Entry, after: &Entry) -> ModifyChange {
    ModifyChange { id, dn: before.name().clone(), deltas: deltas(before, after) }
}

/// The refusal for changes of entries the server makes itself.
pub(crate) fn refuse_special() -> Refusal {
    Refusal::new(
        ResultCode::UnwillingToPerform,
        "the root DSE, cn=schema, cn=config and cn=monitor are made by the server",
    )
}

/// Stands for a password that was refused: it is stored nowhere.
const REFUSED: &[u8] = b"{REFUSED}";
