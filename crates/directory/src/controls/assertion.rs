//! The assertion control (RFC 4528): a request is carried out only if a filter holds for its
//! target.

use aci::Rights;
use ldap::control_value;
use ldap::message::{Control, DecodeLimits};
use ldap::result::ResultCode;
use schema::{EntryRead, ResolvedFilter, Schema, Truth};

use super::{RequestControls, malformed};
use crate::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.3.6.1.1.12";

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    if taken.assertion.is_some() {
        return Err(malformed("the assertion control was sent twice"));
    }
    let value = control.value.ok_or_else(|| malformed("the assertion control lacks its value"))?;
    let filter = control_value::assertion(value, &DecodeLimits::default())
        .map_err(|_| malformed("the value of the assertion control is not a filter"))?;
    taken.assertion = Some(filter);
    Ok(())
}

/// Refuses with `assertionFailed` unless the filter is true of the entry. What the asker may not
/// search is Undefined, and of an entry that they may not know of nothing is true, so that an
/// assertion tells no more than a search would.
pub(crate) fn check(
    filter: &ResolvedFilter,
    entry: &dyn EntryRead,
    rights: &Rights<'_>,
    schema: &Schema,
) -> Result<(), Refusal> {
    if rights.is_disclosed() && filter.matches(schema, &rights.searchable(entry)) == Truth::True {
        return Ok(());
    }
    Err(Refusal::new(ResultCode::AssertionFailed, "the assertion does not hold for the entry"))
}
