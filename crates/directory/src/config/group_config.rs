//! `cn=Groups,cn=config`: what `memberOf` means.

use ldap::result::ResultCode;
use schema::Entry;
use store::{StoreError, View};

use crate::groups::lookup::{DIRECT, MEMBER_OF};
use crate::read::virtual_tree::branch::BranchSource;
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

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(GROUP_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
