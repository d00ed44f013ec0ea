//! The join control of UnboundID: with an entry come others that have to do with it.

use ldap::ber::DecodeReason;
use ldap::control_value::join::{DEPTH_MAX, EntryJoin, RULE_PARTS_MAX};
use ldap::message::{Control, DecodeLimits};
use ldap::result::ResultCode;

use super::value::{malformed, required};
use crate::request::refusal::Refusal;

pub(crate) use ldap::control_value::join::OID;

/// What the control is called.
pub(crate) const NAME: &str = "the join control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<Box<EntryJoin<'a>>, Refusal> {
    let limits = DecodeLimits { filter_terms_max: TERMS_MAX, ..DecodeLimits::default() };
    let read = EntryJoin::decode(required(control, NAME)?, &limits);
    let read = read.map_err(|error| match error.reason {
        DecodeReason::TooDeep | DecodeReason::TooManyTerms => Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!(
                "{NAME} has at most {DEPTH_MAX} joins in each other, with {RULE_PARTS_MAX} parts \
                 of a rule and a filter of {TERMS_MAX} terms each"
            ),
        ),
        _ => malformed("the value of the join control is malformed"),
    })?;
    let mut next = Some(&read);
    while let Some(join) = next {
        if join.attributes.is_some_and(|names| names.iter().count() > NAMES_MAX) {
            return Err(Refusal::new(
                ResultCode::AdminLimitExceeded,
                format!("{NAME} names at most {NAMES_MAX} attributes of entries"),
            ));
        }
        next = join.nested.as_deref();
    }
    Ok(Box::new(read))
}

/// How many terms the filter of a join may have: it is evaluated for each entry.
const TERMS_MAX: u32 = 100;
/// Attributes of entries that one join names at the most: they are kept while the search waits.
const NAMES_MAX: usize = 256;
