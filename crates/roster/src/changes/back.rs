//! Bringing back entries that were deleted, and what named them, from what changes tell.

use client::{Connection, SearchFor};
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{
    AddRequest, AttributesBuf, Control, ControlsBuf, Modification, ModificationsBuf,
    ModifyOperation, ModifyRequest, PartialAttribute, Request, Scope, ValuesBuf,
};
use ldap::result::ResultCode;

use super::ToldChange;
use crate::failure::Failure;
use crate::output;

/// Lets the administrator set what only the server sets (draft-zeilenga-ldap-relax).
pub(crate) const RELAX: &str = "1.3.6.1.4.1.4203.666.5.12";

/// Attributes that the server makes, also under the relax rules.
const MADE: [&str; 2] = ["entryCSN", "structuralObjectClass"];

/// A value of another entry that named it.
#[derive(Debug)]
pub(crate) struct Reference {
    /// The other entry: its name then, and what it is found by now.
    pub(crate) holder: String,
    pub(crate) uuid: Option<String>,
    pub(crate) attribute: String,
    pub(crate) value: Vec<u8>,
}

/// An entry to bring back.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// What it is to be called: what is above it may have been renamed since.
    pub(crate) dn: String,
    pub(crate) change: ToldChange,
    pub(crate) references: Vec<Reference>,
}

/// Has entries be named where they were; whether all are. Not before all are there: they may name
/// each other.
pub(crate) fn refer_all(connection: &mut Connection, back: &[&Deleted]) -> Result<bool, Failure> {
    let mut are_all = true;
    for one in back.iter().flat_map(|one| &one.references) {
        let why = match name_of(connection, one.uuid.as_deref())? {
            Some(holder) => refer(connection, &holder, &one.attribute, &one.value)?,
            None => Some("is not there any more".to_owned()),
        };
        if let Some(why) = why {
            are_all = false;
            output::note(format_args!("roster: {} of {}: {why}", one.attribute, one.holder));
        }
    }
    Ok(are_all)
}

/// How an entry is called now: another one may have the name it had.
pub(crate) fn name_of(
    connection: &mut Connection,
    uuid: Option<&str>,
) -> Result<Option<String>, Failure> {
    let Some(uuid) = uuid else { return Ok(None) };
    let value = uuid.as_bytes().into();
    let asked = SearchFor {
        attributes: &["1.1"],
        ..SearchFor::below("", Filter::Equality(AvaFilter { description: "entryUUID", value }))
    };
    Ok(connection.search(&asked)?.entries.into_iter().next().map(|entry| entry.dn))
}

/// Whether an entry has a name.
pub(crate) fn is_there(connection: &mut Connection, dn: &str) -> Result<bool, Failure> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["1.1"],
        ..SearchFor::below(dn, Filter::Present("objectClass"))
    };
    Ok(!connection.search(&asked)?.entries.is_empty())
}

/// What an entry held that was deleted, without what the server makes in any case.
pub(crate) fn attributes(change: &ToldChange) -> Vec<(String, Vec<Vec<u8>>)> {
    let mut values: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for (name, value) in change.values() {
        if MADE.iter().any(|made| name.eq_ignore_ascii_case(made)) {
            continue;
        }
        match values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => values.push((name, vec![value])),
        }
    }
    values
}

/// Adds an entry as it was.
pub(crate) fn add(connection: &mut Connection, deleted: &Deleted) -> Result<(), Failure> {
    let values = attributes(&deleted.change);
    let bufs: Vec<(String, ValuesBuf)> = values
        .into_iter()
        .map(|(name, values)| {
            let mut buf = ValuesBuf::new();
            values.iter().for_each(|value| buf.push(value));
            (name, buf)
        })
        .collect();
    let mut attributes = AttributesBuf::new();
    for (description, values) in &bufs {
        attributes.push(PartialAttribute { description, values: values.as_ref() });
    }
    let request = Request::Add(AddRequest { name: &deleted.dn, attributes: attributes.as_ref() });
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: RELAX, critical: true, value: None });
    let outcome = connection.request_with(request, controls.as_ref())?;
    let is_without_superior = outcome.code == ResultCode::NoSuchObject;
    outcome.into_result("add").map_err(|error| {
        let failure = Failure::refused(format!("{}: {error}", deleted.dn));
        match is_without_superior {
            true => failure.hint("what is above it must be there first: undelete that, or add it"),
            false => failure,
        }
    })
}

/// Has an entry name what is back; why not, if it does not.
pub(crate) fn refer(
    connection: &mut Connection,
    holder: &str,
    attribute: &str,
    value: &[u8],
) -> Result<Option<String>, Failure> {
    let mut buf = ValuesBuf::new();
    buf.push(value);
    let mut list = ModificationsBuf::new();
    let attribute = PartialAttribute { description: attribute, values: buf.as_ref() };
    list.push(Modification { operation: ModifyOperation::Add, attribute });
    let request = Request::Modify(ModifyRequest { name: holder, changes: list.as_ref() });
    let outcome = connection.request_with(request, ldap::message::Controls::EMPTY)?;
    Ok(match outcome.code {
        ResultCode::Success | ResultCode::AttributeOrValueExists => None,
        _ => outcome.into_result("modify").err().map(|error| error.to_string()),
    })
}
