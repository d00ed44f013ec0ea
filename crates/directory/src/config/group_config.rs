//! `cn=Groups,cn=config`: what `memberOf` means, and whose user names make members.

use ldap::result::ResultCode;
use schema::{DnKey, Schema};
use store::{StoreError, View};

use crate::config::index_needs::{self, IndexNeed};
use crate::groups::lookup::{DIRECT, MEMBER_OF};
use crate::groups::user_names::BASES_MAX;
use crate::read::virtual_tree::names::GROUP_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-member-of";
/// All groups, as `isMemberOf` has them: the default.
const ALL: &str = "all";

/// What it means in a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    let set = view.setting(MEMBER_OF)?;
    Ok(if set.is_empty() { vec![ALL.to_owned()] } else { set })
}

/// Refuses what it cannot mean.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(_: &Decide<'_>, others: &mut Vec<String>, text: &str) -> Result<(), Refusal> {
    if ![ALL, DIRECT].contains(&text) {
        let why = format!("memberOf means '{ALL}' groups, or the '{DIRECT}' ones");
        return Err(Refusal::new(ResultCode::InvalidAttributeSyntax, why));
    }
    if !others.is_empty() {
        let why = "memberOf has one meaning: replace the value";
        return Err(Refusal::new(ResultCode::ConstraintViolation, why));
    }
    Ok(())
}

/// The attribute that says below which entries accounts are members by their user names.
pub(super) const BASE_ATTRIBUTE: &str = "roster-member-uid-base";

/// Refuses what is no name, and user names that no index has.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put_base(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let key = DnKey::from_text(&decide.state.schema, text)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let same =
        |other: &String| DnKey::from_text(&decide.state.schema, other).is_ok_and(|one| one == key);
    if others.iter().any(same) {
        let why = format!("'{text}' is there already");
        return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
    }
    if others.len() >= BASES_MAX {
        let why = format!("there are {BASES_MAX} bases already: name an entry above some of them");
        return Err(Refusal::new(ResultCode::AdminLimitExceeded, why));
    }
    if let Some(need) = index_need(&decide.state.schema) {
        index_needs::check(decide, &need)?;
    }
    Ok(())
}

/// The indexes that members by user name need; none where the schema has no such members.
pub(super) fn index_need(schema: &Schema) -> Option<IndexNeed> {
    let member_uid = schema.describe("memberUid").ok()?;
    let by = format!("'{BASE_ATTRIBUTE}' in {GROUP_CONFIG_DN}");
    let attributes = vec![member_uid, schema.well_known().uid.clone()];
    Some(IndexNeed { by, attributes, needs_all: true })
}
