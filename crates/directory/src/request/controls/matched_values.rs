//! The matched values control (RFC 3876): of the entries found, only some values are returned.

use ldap::filter::Filter;
use ldap::message::{Control, DecodeLimits};
use ldap::search_control::values_return_filter;
use schema::{ResolvedFilter, Schema};

use super::request::RequestControls;
use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.2.826.0.1.3344810.2.3";

/// What the control is called.
pub(super) const NAME: &str = "the matched values control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<Vec<Filter<'a>>, Refusal> {
    values_return_filter(required(control, NAME)?, &DecodeLimits::default()).map_err(|_| {
        malformed("the value of the matched values control is not a list of simple filters")
    })
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
