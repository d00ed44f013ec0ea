//! `cn=Sinks,cn=config`: what the server sends where, a value each.

use ldap::result::ResultCode;

use crate::request::refusal::Refusal;
use crate::sinks::text::Sink;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-sink";
/// The most sinks: each has a thread.
pub(super) const SINKS_MAX: usize = 16;

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
    let Some(file) = sink.file() else { return Ok(()) };
    let others = others.iter().filter_map(|other| Sink::parse(other, schema).ok());
    let is_taken = |other: &Sink| other.file().is_some_and(|one| one.eq_ignore_ascii_case(file));
    match others.into_iter().find(is_taken) {
        Some(other) => {
            let why = format!("the sink '{}' writes to the file {file} already", other.name);
            Err(Refusal::new(ResultCode::UnwillingToPerform, why))
        }
        None => Ok(()),
    }
}
