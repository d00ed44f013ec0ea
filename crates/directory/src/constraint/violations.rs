//! Which entries break a constraint already: those that were there before it, or came by an import.
//!
//! Invariant: no snapshot is held for longer than it takes to look at [`LOOKS`] entries, and what
//! is found is counted, and listed up to a limit.

use std::sync::Arc;

use ldap::message::Scope;
use schema::{EntryId, EntryRead, ResolvedFilter, Schema};
use store::{Ask, Resolved, Store};

use super::check::{Broken, Look, Which, broken};
use super::text::Constraint;
use crate::request::refusal::Refusal;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    /// Entries for which the constraint holds.
    pub(crate) looked_at: u64,
    /// Those that break it.
    pub(crate) count: u64,
    /// Their names and what is wrong, of the first of them.
    pub(crate) listed: Vec<String>,
}

/// Looks at every entry for which a constraint holds, in the order of their numbers.
pub(crate) fn find(
    store: &Arc<Store>,
    schema: &Schema,
    constraint: &Constraint,
) -> Result<Violations, Refusal> {
    let mut found = Violations::default();
    let mut after = Some(EntryId::ROOT);
    while let Some(from) = after {
        after = some(store, schema, constraint, from, &mut found)?;
    }
    Ok(found)
}

/// Looks at the next entries; the last of them, if there are more.
fn some(
    store: &Arc<Store>,
    schema: &Schema,
    constraint: &Constraint,
    after: EntryId,
    found: &mut Violations,
) -> Result<Option<EntryId>, Refusal> {
    let mut reader = store.reader();
    let view = reader.view()?;
    let base = match &constraint.place.below {
        None => EntryId::ROOT,
        Some(key) => match view.resolve(key)? {
            Resolved::Found(id) => id,
            Resolved::Missing { .. } | Resolved::NoContext => return Ok(None),
        },
    };
    let everything = ResolvedFilter::And(Vec::new());
    let filter = constraint.place.filter.as_ref().unwrap_or(&everything);
    let plan = view.plan(&Ask::new(filter, base, Scope::Subtree))?;
    let look = Look::new(view, schema);
    for (number, stored) in plan.entries(view, after).enumerate() {
        let stored = stored?;
        let is_meant = (plan.scope_exact || view.is_within(&stored, base)?)
            && constraint.place.holds_for(schema, &stored);
        if is_meant {
            found.looked_at += 1;
            look.begin_again();
            if let Some(broken) = broken(&look, constraint, &stored, Some(stored.id()), Which::All)?
            {
                found.count += 1;
                if found.listed.len() < LISTED_MAX {
                    let why = match broken {
                        Broken::Says(why) => why,
                        Broken::Taken(taken) => {
                            let by = taken.by.map(|id| view.dn(id)).transpose()?;
                            let by = by.unwrap_or_default();
                            format!("its value of {} is also that of {by}", taken.attribute)
                        }
                    };
                    found.listed.push(format!("{}: {why}", stored.dn()));
                }
            }
        }
        if number + 1 >= LOOKS {
            return Ok(Some(stored.id()));
        }
    }
    Ok(None)
}

/// Entries that are looked at in one snapshot.
const LOOKS: usize = 10_000;
/// Entries that are listed.
const LISTED_MAX: usize = 100;
