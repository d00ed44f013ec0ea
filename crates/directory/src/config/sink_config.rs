//! `cn=Sinks,cn=config`: what the server sends where, a value each.

use ldap::result::ResultCode;
use schema::Entry;
use store::{StoreError, View};

use crate::lines::name_of;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::SINK_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::sinks::text::{SINKS, Sink};
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-sink";
/// The most sinks: each has a thread.
const SINKS_MAX: usize = 16;

/// The sinks of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(SINKS)
}

/// Refuses what is no sink.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let sink = Sink::parse(text, schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let refuse = |code, why: String| Err(Refusal::new(code, why));
    // They are names of entries, too, which are the same in capitals.
    if others.iter().any(|other| name_of(other).eq_ignore_ascii_case(&sink.name)) {
        let why = format!("there is a sink '{}' already; delete that value", sink.name);
        return refuse(ResultCode::AttributeOrValueExists, why);
    }
    if others.len() >= SINKS_MAX {
        return refuse(
            ResultCode::UnwillingToPerform,
            format!("there are at most {SINKS_MAX} sinks"),
        );
    }
    let Some(file) = sink.file() else { return Ok(()) };
    let others = others.iter().filter_map(|other| Sink::parse(other, schema).ok());
    let is_taken = |other: &Sink| other.file().is_some_and(|one| one.eq_ignore_ascii_case(file));
    match others.into_iter().find(is_taken) {
        Some(other) => refuse(
            ResultCode::UnwillingToPerform,
            format!("the sink '{}' writes to the file {file} already", other.name),
        ),
        None => Ok(()),
    }
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(SINK_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
