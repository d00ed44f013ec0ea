//! `cn=Assignments,cn=config`: the assignments, a value each; `cn=Assignments,cn=monitor`: which
//! numbers come next.

use std::sync::Arc;

use ldap::result::ResultCode;
use schema::{AttributeDescription, Entry};

use crate::assignment::number;
use crate::assignment::text::Assignment;
use crate::config::index_needs::{self, IndexNeed};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::ASSIGNMENT_MONITOR_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::references;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-assignment";
/// The number that comes next, of an assignment that has given one.
const NEXT: &str = "roster-assignment-next";
/// The most assignments.
pub(super) const ASSIGNMENTS_MAX: usize = 64;

/// Refuses what is no assignment, or looks up what has no index.
pub(super) fn put(
    decide: &Decide<'_>,
    _others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let assignment = Assignment::parse(text, &decide.state.schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let followed = references::names(decide.view)?;
    let is_followed =
        |one: &&Arc<AttributeDescription>| followed.iter().any(|name| one.kind.is_named(name));
    if let Some(other) = assignment.followed().into_iter().find(|one| !is_followed(one)) {
        let why = format!(
            "values of '{}' do not follow the entries that they name: add it to \
             cn=References,cn=config first",
            other.kind.name()
        );
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    let attributes = assignment.looks_up();
    index_needs::check(decide, &IndexNeed { by: String::new(), attributes, needs_all: true })
}

/// An entry for each assignment.
pub(crate) fn states(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut reader = source.directory.storage.store.reader();
    let view = reader.view()?;
    let mut made = vec![source.entry(ASSIGNMENT_MONITOR_DN, &["top", "extensibleObject"]).done()];
    for assignment in source.directory.rules.assignments.of(view, source.schema).iter() {
        // What its name is of needs no escapes.
        let name = format!("cn={},{ASSIGNMENT_MONITOR_DN}", assignment.name);
        let mut entry = source.entry(&name, &["top", "extensibleObject"]);
        if let Some(next) = number::next(view, &assignment.name)? {
            entry = entry.value(NEXT, &next.to_string());
        }
        made.push(entry.done());
    }
    Ok(made)
}
