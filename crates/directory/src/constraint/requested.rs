//! Uniqueness that a request asks for by the uniqueness control: no other entry may have what its
//! entry is to have.
//!
//! Invariant: it is found out on the state that earlier changes left, by the only thread that
//! decides: nothing comes between the answer and the change, on whichever server.
//! Invariant: it tells what a search of the asker would: entries and values that they may not
//! search for are no conflict, neither others nor those of the entry itself that they did not send.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aci::Permitted;
use ldap::control_value::uniqueness::{RESPONSE_OID, SeveralAttributes, UniquenessResponse};
use ldap::result::ResultCode;
use schema::{
    Assertion, AttributeDelta, AttributeDescription, AttributeType, Change, EntryId, EntryRead,
    ResolvedFilter,
};
use store::Resolved;

use super::asker::Asker;
use super::changed::Changed;
use super::check::{Look, Which, each_described};
use super::text::Unique;
use super::unique::{self, Called, Criterion, takes_too_long};
use crate::access::guard;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::uniqueness::Uniqueness;
use crate::request::refusal::Refusal;
use crate::write::decision::{Decide, Decision};
use crate::write::request::WriteOp;

/// What came of the controls of an update.
#[derive(Default)]
pub(crate) struct Told {
    /// A response control for each of them.
    pub(crate) controls: Vec<ResponseControl>,
    /// Why the update is not carried out.
    pub(crate) refusal: Option<Refusal>,
}

/// Checks what an update is to do, which is permitted.
pub(crate) fn check(
    decide: &Decide<'_>,
    op: &WriteOp,
    decision: &Decision,
) -> Result<Told, Refusal> {
    if decide.controls.unique.is_empty() {
        return Ok(Told::default());
    }
    let (id, deltas) = match decision.changes.last().map(Permitted::get) {
        Some(Change::Add(add)) => {
            return told(decide, &Written { own: None, after: &add.entry, deltas: None });
        }
        Some(Change::Modify(change)) => (change.id, &change.deltas[..]),
        Some(Change::Rename(change)) => (change.id, &change.deltas[..]),
        // It is as it was.
        None => (target(decide, op)?, &[][..]),
        Some(
            Change::Delete(_)
            | Change::Schema(_)
            | Change::Index(_)
            | Change::Setting(_)
            | Change::Gather(_)
            | Change::Level(_),
        ) => return Err(no_entry()),
    };
    let stored = guard::stored(decide.view, id)?;
    let rights = decide.guard.on(&stored);
    let before = rights.searchable(&stored);
    let after = Changed { before: &before, deltas };
    told(decide, &Written { own: Some(id), after: &after, deltas: Some(deltas) })
}

/// The entry of an update that changes nothing.
fn target(decide: &Decide<'_>, op: &WriteOp) -> Result<EntryId, Refusal> {
    let Some((_, key)) = op.target() else { return Err(no_entry()) };
    match decide.view.resolve(key)? {
        Resolved::Found(id) => Ok(id),
        Resolved::Missing { .. } | Resolved::NoContext => Err(no_entry()),
    }
}

fn no_entry() -> Refusal {
    Refusal::new(
        ResultCode::UnavailableCriticalExtension,
        "the uniqueness control is about entries of the naming contexts, not of the configuration",
    )
}

/// What an update leaves.
struct Written<'a> {
    /// The number of the entry; none if it is to be added.
    own: Option<EntryId>,
    /// The entry, as far as the asker sent it or may search it.
    after: &'a dyn EntryRead,
    /// What changes; none: all of it comes.
    deltas: Option<&'a [AttributeDelta]>,
}

/// Goes through all controls, also when one is enough to refuse: each has its response.
fn told(decide: &Decide<'_>, written: &Written<'_>) -> Result<Told, Refusal> {
    let clock = &decide.directory.clock;
    let begun = clock.elapsed();
    let is_over = || clock.elapsed().saturating_sub(begun) > TIME_MAX;
    let asker = Asker::new(decide.guard, &is_over);
    let look = Look::of(&asker, decide.view, &decide.state.schema);
    let mut told = Told::default();
    for asked in &decide.controls.unique {
        let is_checked = asked.before || asked.after;
        let conflict = match is_checked {
            true => conflict(&look, asked, written)?,
            false => None,
        };
        let passed = conflict.is_none();
        let response = UniquenessResponse {
            id: &asked.id,
            before_passed: asked.before.then_some(passed),
            // Nothing comes between. What is refused is not looked at afterwards.
            after_passed: (asked.after && (passed || !asked.before)).then_some(passed),
            message: conflict.as_deref(),
        };
        let value = Some(response.encode());
        told.controls.push(ResponseControl { oid: RESPONSE_OID, value });
        if let Some(why) = conflict.filter(|_| asked.before && told.refusal.is_none()) {
            let why = format!("{}: {why}", Called::Control(&asked.id));
            told.refusal = Some(Refusal::new(ResultCode::AssertionFailed, why));
        }
    }
    Ok(told)
}

/// What is in the way of an entry, if something is.
fn conflict(
    look: &Look<'_>,
    asked: &Uniqueness,
    written: &Written<'_>,
) -> Result<Option<String>, Refusal> {
    let how = match asked.several {
        SeveralAttributes::Each => Unique::Each,
        SeveralAttributes::Across | SeveralAttributes::AcrossOthers => Unique::Across,
        SeveralAttributes::Combination => Unique::Combination,
    };
    let (attributes, called) = (&asked.attributes[..], Called::Control(&asked.id));
    let criterion = Criterion { attributes, how, place: &asked.place, called };
    let name = |id: EntryId| guard::stored(look.view, id).map(|stored| stored.dn().to_owned());
    if attributes.is_empty() {
        let everything = ResolvedFilter::And(Vec::new());
        let by =
            unique::other(look, &criterion, &everything, written.own)?.map(name).transpose()?;
        return Ok(by.map(|by| format!("{by} matches its filter")));
    }
    let which = match written.deltas {
        None => Which::All,
        Some(deltas) => {
            let is_touched = |one: &AttributeDelta| {
                attributes.iter().any(|asked| asked.covers(&one.description))
            };
            if !deltas.iter().any(is_touched) {
                return Ok(None);
            }
            Which::New(deltas)
        }
    };
    if asked.several == SeveralAttributes::Across
        && let Some(why) = twice(look, &criterion, written.after, which)?
    {
        return Ok(Some(why));
    }
    let Some(taken) = unique::taken(look, &criterion, written.after, written.own, which)? else {
        return Ok(None);
    };
    let by = taken.by.map(name).transpose()?.unwrap_or_default();
    Ok(Some(format!("{by} has this value of {} already", taken.attribute)))
}

/// Whether the entry itself has one of the values in two attributes.
fn twice(
    look: &Look<'_>,
    criterion: &Criterion<'_>,
    entry: &dyn EntryRead,
    which: Which<'_>,
) -> Result<Option<String>, Refusal> {
    let prepared = |attribute: &Arc<AttributeDescription>, value: &[u8]| {
        Assertion::equality(look.schema, Arc::clone(attribute), value).ok().map(|one| one.key)
    };
    let mut found = None;
    for held in criterion.attributes {
        let mut types: HashMap<Vec<u8>, Vec<Arc<AttributeType>>> = HashMap::new();
        each_described(entry, held, Which::All, &mut |description, value| {
            if let Some(key) = prepared(held, value) {
                types.entry(key).or_default().push(Arc::clone(&description.kind));
            }
            !look.is_over()
        });
        for attribute in criterion.attributes.iter().filter(|one| *one != held) {
            each_described(entry, attribute, which, &mut |description, value| {
                let types = prepared(held, value).and_then(|key| types.get(&key));
                let is_other = |one: &&Arc<AttributeType>| one.name() != description.kind.name();
                if let Some(other) = types.and_then(|types| types.iter().find(is_other)) {
                    let (one, other) = (description.text(), other.name());
                    found = Some(format!("the entry has one value in '{one}' and in '{other}'"));
                }
                found.is_none() && !look.is_over()
            });
        }
        if look.is_over() {
            return Err(takes_too_long(criterion.called));
        }
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

/// How long the controls of one update may take: nobody else's change is decided meanwhile.
const TIME_MAX: Duration = Duration::from_millis(100);
