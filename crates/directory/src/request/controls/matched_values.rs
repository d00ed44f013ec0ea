//! The matched values control (RFC 3876): of the entries found, only some values are returned.

use ldap::message::{Control, DecodeLimits};
use ldap::search_control::values_return_filter;
use schema::{ResolvedFilter, Schema};

use super::{RequestControls, malformed};
use crate::request::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.2.826.0.1.3344810.2.3";

pub(super) fn take<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    let value =
        control.value.ok_or_else(|| malformed("the matched values control lacks its value"))?;
    let items = values_return_filter(value, &DecodeLimits::default()).map_err(|_| {
        malformed("the value of the matched values control is not a list of simple filters")
    })?;
    if taken.matched_values.replace(items).is_some() {
        return Err(malformed("the matched values control was sent twice"));
    }
    Ok(())
}

/// The items, resolved; none without the control, or where no values are returned anyway.
pub(crate) fn resolve(
    controls: &RequestControls<'_>,
    types_only: bool,
    schema: &Schema,
) -> Option<Vec<ResolvedFilter>> {
    let items = controls.matched_values.as_ref().filter(|_| !types_only)?;
    Some(items.iter().map(|item| ResolvedFilter::resolve(item, schema)).collect())
}
