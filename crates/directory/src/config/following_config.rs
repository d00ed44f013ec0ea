//! `cn=Following,cn=config`: the branches that follow another server, a value each.

use ldap::result::ResultCode;

use crate::lines::name_of;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::followed::Followed;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-follow";
/// The most branches.
pub(super) const BRANCHES_MAX: usize = 16;

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
        let is_apart = Followed::parse(other, schema).is_ok_and(|other| {
            !other.below.is_within(&branch.below) && !branch.below.is_within(&other.below)
        });
        if !is_apart {
            let why = format!("the branch follows already, as '{}'", name_of(other));
            return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
        }
    }
    Ok(())
}
