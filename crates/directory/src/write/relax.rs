//! What the relax rules control (draft-zeilenga-ldap-relax) lets the administrator do: set
//! attributes that only the server sets, and change the structural object class of an entry.
//!
//! Still true then: what is computed is not stored (`entryDN`, `hasSubordinates` and the like),
//! `structuralObjectClass` follows from the object classes, `entryCSN` is the server's own stamp,
//! and an `entryUUID` is there, and there once.

use ldap::filter::{AvaFilter, Filter};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, Entry, EntryId, ResolvedFilter, Schema, Truth, check_modifiable,
};
use store::Ask;

use crate::read::computed;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// Refuses what a request may not set: with the control, only what is computed, and `entryCSN`.
pub(crate) fn check_settable(
    description: &AttributeDescription,
    schema: &Schema,
    relax: bool,
) -> Result<(), Refusal> {
    if !relax {
        return Ok(check_modifiable(description)?);
    }
    if schema.well_known().entry_csn.covers(description) {
        return Err(Refusal::new(
            ResultCode::ConstraintViolation,
            format!("'{description}' is the server's own stamp of the change: leave it out"),
        ));
    }
    if computed::descriptions(schema.well_known()).contains(&description) {
        return Err(Refusal::new(
            ResultCode::ConstraintViolation,
            format!("attribute '{description}' is computed and cannot be set"),
        ));
    }
    Ok(())
}

/// Refuses an entry whose `entryUUID` is missing or that of another entry.
pub(crate) fn check_uuid(
    decide: &Decide<'_>,
    entry: &Entry,
    own: Option<EntryId>,
) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let refuse = |why| Err(Refusal::new(ResultCode::ConstraintViolation, why));
    let [uuid] = entry.values(&schema.well_known().entry_uuid) else {
        return refuse("an entry has one entryUUID");
    };
    let filter = AvaFilter { description: "entryUUID", value: uuid.as_slice().into() };
    let filter = ResolvedFilter::resolve(&Filter::Equality(filter), schema);
    let plan = decide.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
    if plan.estimate > CANDIDATES_MAX {
        return refuse("entryUUID has no equality index: it cannot be set, as it must be unique");
    }
    for found in plan.entries(decide.view, EntryId::ROOT) {
        let found = found?;
        if Some(found.id()) != own && filter.matches(schema, &found) == Truth::True {
            return refuse("another entry has this entryUUID");
        }
    }
    Ok(())
}

/// Candidates looked at to find out whether a UUID is in use; with an index there are few.
const CANDIDATES_MAX: u64 = 1_000;
