//! `cn=Schema,cn=config`: how strictly the schema is enforced, a rule and its mode each.

use ldap::result::ResultCode;

use crate::enforcement::modes::ModeLine;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-schema-mode";

/// Refuses what says no mode; another one of the same rule goes.
pub(super) fn put(_: &Decide<'_>, others: &mut Vec<String>, text: &str) -> Result<(), Refusal> {
    let line = ModeLine::parse(text)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    others.retain(|other| ModeLine::parse(other).is_ok_and(|other| other.rule != line.rule));
    Ok(())
}
