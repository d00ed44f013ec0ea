//! `cn=Schema,cn=config`: how strictly the schema is enforced, a rule and its mode each.

use ldap::result::ResultCode;
use schema::Entry;
use store::{StoreError, View};

use crate::enforcement::modes::{MODES, ModeLine};
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::SCHEMA_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-schema-mode";

/// The modes of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(MODES)
}

/// Refuses what says no mode; another one of the same rule goes.
pub(super) fn put(_: &Decide<'_>, others: &mut Vec<String>, text: &str) -> Result<(), Refusal> {
    let line = ModeLine::parse(text)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    others.retain(|other| ModeLine::parse(other).is_ok_and(|other| other.rule != line.rule));
    Ok(())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(SCHEMA_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
