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
    let others = others.iter().filter_map(|other| Sink::parse(other, schema).ok());
    match others.into_iter().find_map(|other| clash(&sink, &other)) {
        Some(why) => refuse(ResultCode::UnwillingToPerform, why),
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

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(SINK_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
