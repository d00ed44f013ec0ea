//! `cn=Virtual Attributes,cn=config`: the virtual attributes that administrators define, a value
//! each.

use ldap::result::ResultCode;

use crate::request::refusal::Refusal;
use crate::virtual_attributes::text::VirtualAttribute;
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-virtual-attribute";
/// The most virtual attributes that are defined so.
pub(super) const VIRTUAL_ATTRIBUTES_MAX: usize = 64;

/// Refuses what defines none.
pub(super) fn put(
    decide: &Decide<'_>,
    _others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    VirtualAttribute::parse(text, &decide.state.schema)
        .map(drop)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))
}
