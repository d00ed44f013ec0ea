//! `cn=Constraints,cn=config`: the constraints, a value each; `cn=Constraints,cn=monitor`: which
//! entries break them.

use ldap::result::ResultCode;
use schema::{DnKey, Entry};

use crate::config::index_needs::{self, IndexNeed};
use crate::constraint::text::Constraint;
use crate::constraint::violations::{self, Violations};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::CONSTRAINT_MONITOR_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-constraint";
/// The most constraints.
pub(super) const CONSTRAINTS_MAX: usize = 256;

/// Refuses what is no constraint, or cannot be checked quickly.
pub(super) fn put(
    decide: &Decide<'_>,
    _others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let constraint = Constraint::parse(text, &decide.state.schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let (attributes, needs_all) = constraint.looks_up();
    let by = String::new();
    index_needs::check(decide, &IndexNeed { by, attributes: attributes.to_vec(), needs_all })
}

/// Whether it is asked which entries break constraints: each of those that are meant is then looked
/// at.
pub(crate) fn is_slow(source: &BranchSource<'_>) -> bool {
    FOUND.iter().any(|name| source.asks(name))
}

/// An entry for each constraint; with the entries that break it, where that is asked by name.
pub(crate) fn broken(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let store = &source.directory.storage.store;
    let top = source.entry(CONSTRAINT_MONITOR_DN, &["top", "extensibleObject"]).done();
    let mut made = vec![top];
    let all = {
        let mut reader = store.reader();
        source.directory.rules.constraints.of(reader.view()?, source.schema)
    };
    for constraint in all.iter() {
        // What its name is of needs no escapes.
        let name = format!("cn={},{CONSTRAINT_MONITOR_DN}", constraint.name);
        let entry = source.entry(&name, &["top", "extensibleObject"]);
        let key = DnKey::from_text(source.schema, &name).unwrap_or_default();
        if !is_slow(source) || !key.is_within(source.base) {
            made.push(entry.done());
            continue;
        }
        let Violations { looked_at, count, listed } =
            violations::find(store, source.schema, constraint)?;
        let [of_looks, of_count, of_listed] = FOUND;
        let entry = entry
            .value(of_looks, &looked_at.to_string())
            .value(of_count, &count.to_string())
            .values(of_listed, listed);
        made.push(entry.done());
    }
    Ok(made)
}

/// What is told of entries that break a constraint.
const FOUND: [&str; 3] =
    ["roster-constraint-looked-at", "roster-constraint-violations", "roster-constraint-violation"];
