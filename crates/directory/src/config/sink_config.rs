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
    let others = others.iter().filter_map(|other| Sink::parse(other, schema).ok());
    match others.into_iter().find_map(|other| clash(&sink, &other)) {
        Some(why) => Err(Refusal::new(ResultCode::UnwillingToPerform, why)),
        None => Ok(()),
    }
}

/// Why two sinks cannot be together in one directory of files: what one writes, or renames a file
/// to, is to be nothing that the other writes, or reads its secrets from.
fn clash(sink: &Sink, other: &Sink) -> Option<String> {
    let name = &other.name;
    if let Some(file) = sink.file().filter(|file| other.writes(file)) {
        return Some(format!("the sink '{name}' writes to the file {file} already"));
    }
    if let Some(read) = other.target.files_read().find(|read| sink.writes(read)) {
        return Some(format!("it writes to the file {read} that the sink '{name}' reads"));
    }
    let read = sink.target.files_read().find(|read| other.writes(read))?;
    Some(format!("the sink '{name}' writes to the file {read}"))
}
