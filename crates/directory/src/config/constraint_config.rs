//! `cn=Constraints,cn=config`: the constraints, a value each; `cn=Constraints,cn=monitor`: which
//! entries break them.

use ldap::result::ResultCode;
use schema::{AttributeType, DnKey, Entry};
use store::{Dictionary, IndexDefinition, IndexKind, IndexState, StoreError, View};

use crate::constraint::in_force::CONSTRAINTS;
use crate::constraint::text::{Constraint, name_of};
use crate::constraint::violations::{self, Violations};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::{CONSTRAINT_CONFIG_DN, CONSTRAINT_MONITOR_DN};
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-constraint";
/// The most constraints.
const CONSTRAINTS_MAX: usize = 256;

/// The constraints of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(CONSTRAINTS)
}

/// Refuses what is no constraint, or cannot be checked quickly.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let constraint = Constraint::parse(text, &decide.state.schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let refuse = |why: String| Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    // They are names of entries, too, which are the same in capitals.
    if others.iter().any(|other| name_of(other).eq_ignore_ascii_case(&constraint.name)) {
        let why = format!("there is a constraint '{}' already; delete that value", constraint.name);
        return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
    }
    if others.len() >= CONSTRAINTS_MAX {
        return refuse(format!("there are at most {CONSTRAINTS_MAX} constraints"));
    }
    let dictionary = decide.view.dictionary();
    let (attributes, needs_all) = constraint.looks_up();
    let mut without = attributes.iter().filter(|one| !has_index(dictionary, &one.kind));
    let missing = match needs_all {
        true => without.next(),
        false if without.clone().count() == attributes.len() => without.next(),
        false => None,
    };
    match missing {
        Some(attribute) => refuse(format!(
            "'{name}' has no equality index that is complete, and each change would have to look \
             at all entries: add one first (roster index add 'equality {name}' --wait)",
            name = attribute.kind.name()
        )),
        None => Ok(()),
    }
}

fn has_index(dictionary: &Dictionary, kind: &AttributeType) -> bool {
    let mut all = dictionary.definitions();
    all.any(|(_, one, state)| {
        let is_plain = one.with.is_none() && one.filter.is_none();
        let is_it = one.kind == IndexKind::Equality && one.attribute == kind.name();
        is_plain && is_it && state == IndexState::Valid
    })
}

/// Refuses to drop indexes that constraints look values up in.
pub(super) fn check_dropped(
    decide: &Decide<'_>,
    kept: impl Fn(&IndexDefinition) -> bool,
) -> Result<(), Refusal> {
    let all = decide.directory.rules.constraints.of(decide.view, &decide.state.schema)?;
    let dictionary = decide.view.dictionary();
    for constraint in all.iter() {
        let (attributes, needs_all) = constraint.looks_up();
        let stays = |one: &AttributeType| {
            let own = IndexDefinition::new(IndexKind::Equality, one.name());
            has_index(dictionary, one) && kept(&own)
        };
        let mut stay = attributes.iter().map(|one| stays(&one.kind));
        let is_fine = match needs_all {
            true => stay.all(|stays| stays),
            false => stay.any(|stays| stays),
        };
        if !is_fine {
            let why = format!(
                "constraint '{}' looks values up in this index: delete that first",
                constraint.name
            );
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
    }
    Ok(())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(CONSTRAINT_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
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
        source.directory.rules.constraints.of(reader.view()?, source.schema)?
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
