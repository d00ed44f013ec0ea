//! `cn=Following,cn=config`: the branches that follow another server, a value each.

use ldap::result::ResultCode;
use schema::Entry;
use store::{StoreError, View};

use crate::lines::name_of;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::FOLLOWING_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::followed::{FOLLOWED, Followed};

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-follow";
/// The most branches.
const BRANCHES_MAX: usize = 16;

/// The branches of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(FOLLOWED)
}

/// Refuses what says no branch, or one of which a part follows already.
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let branch = Followed::parse(text, schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    for other in &*others {
        let is_same = name_of(other).eq_ignore_ascii_case(name_of(text));
        let is_apart = Followed::parse(other, schema).is_ok_and(|other| {
            !other.below.is_within(&branch.below) && !branch.below.is_within(&other.below)
        });
        if is_same || !is_apart {
            let why = format!("the branch follows already, as '{}'", name_of(other));
            return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
        }
    }
    if others.len() >= BRANCHES_MAX {
        let why = format!("at most {BRANCHES_MAX} branches follow other servers");
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    Ok(())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(FOLLOWING_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
