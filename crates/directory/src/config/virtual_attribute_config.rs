//! `cn=Virtual Attributes,cn=config`: the virtual attributes that administrators define, a value
//! each.

use ldap::result::ResultCode;
use schema::Entry;
use store::{StoreError, View};

use crate::lines::name_of;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::VIRTUAL_ATTRIBUTE_CONFIG_DN;
use crate::request::refusal::Refusal;
use crate::virtual_attributes::text::{VIRTUAL_ATTRIBUTES, VirtualAttribute};
use crate::write::decision::Decide;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-virtual-attribute";
/// The most virtual attributes that are defined so.
const VIRTUAL_ATTRIBUTES_MAX: usize = 64;

/// The virtual attributes of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    view.setting(VIRTUAL_ATTRIBUTES)
}

/// Refuses what defines none.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let line = VirtualAttribute::parse(text, &decide.state.schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    if others.iter().any(|other| name_of(other).eq_ignore_ascii_case(&line.name)) {
        let why =
            format!("there is a virtual attribute '{}' already; delete that value", line.name);
        return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
    }
    if others.len() >= VIRTUAL_ATTRIBUTES_MAX {
        let why = format!("there are at most {VIRTUAL_ATTRIBUTES_MAX} virtual attributes");
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    Ok(())
}

/// The entry.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let values = values(source.directory.storage.store.reader().view()?)?;
    let entry = source.entry(VIRTUAL_ATTRIBUTE_CONFIG_DN, &["top", "extensibleObject"]);
    Ok(vec![entry.values(ATTRIBUTE, values).done()])
}
