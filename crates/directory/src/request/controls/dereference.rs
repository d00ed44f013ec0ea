//! The dereference control (draft-masarati-ldap-deref-00): with an entry come attributes of the
//! entries that its values name.

use ldap::control_value::dereference::{DereferenceSpecification, decode};
use ldap::message::Control;
use ldap::result::ResultCode;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

pub(crate) use ldap::control_value::dereference::OID;

/// What the control is called.
pub(super) const NAME: &str = "the dereference control";

/// What is asked for.
#[derive(Debug)]
pub(crate) struct DereferenceRequest<'a> {
    /// For each attribute to follow, what is wanted.
    pub(crate) all: Vec<DereferenceSpecification<'a>>,
    /// The search is refused where it cannot be followed.
    pub(crate) critical: bool,
}

pub(super) fn read<'a>(control: &Control<'a>) -> Result<DereferenceRequest<'a>, Refusal> {
    let all = decode(required(control, NAME)?).map_err(|_| {
        malformed("the value of the dereference control is not a list of up to 16 attributes")
    })?;
    if all.iter().map(|one| one.attributes.iter().count()).sum::<usize>() > NAMES_MAX {
        return Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("the dereference control names at most {NAMES_MAX} attributes of entries"),
        ));
    }
    for (number, one) in all.iter().enumerate() {
        let is_same = |other: &DereferenceSpecification<'_>| {
            other.attribute.eq_ignore_ascii_case(one.attribute)
        };
        if all.iter().take(number).any(is_same) {
            return Err(malformed("the dereference control names an attribute twice"));
        }
    }
    Ok(DereferenceRequest { all, critical: control.critical })
}

/// Attributes of entries that one control names at the most: they are kept while the search waits.
const NAMES_MAX: usize = 256;
