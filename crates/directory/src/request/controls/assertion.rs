//! The assertion control (RFC 4528): a request is carried out only if a filter holds for its
//! target.

use aci::Rights;
use ldap::ber::DecodeReason;
use ldap::control_value;
use ldap::filter::Filter;
use ldap::message::{Control, DecodeLimits};
use ldap::result::ResultCode;
use schema::{EntryRead, Meter, ResolvedFilter, Schema, Truth};

use super::request::RequestControls;
use super::value::{malformed, required};
use crate::request::refusal::Refusal;

/// The control's OID.
pub(crate) const OID: &str = "1.3.6.1.1.12";

/// What the control is called.
pub(super) const NAME: &str = "the assertion control";

pub(super) fn read<'a>(control: &Control<'a>) -> Result<Filter<'a>, Refusal> {
    let limits = DecodeLimits { filter_terms_max: TERMS_MAX, ..DecodeLimits::default() };
    let value = required(control, NAME)?;
    control_value::assertion(value, &limits).map_err(|error| match error.reason {
        DecodeReason::TooDeep | DecodeReason::TooManyTerms => too_much(),
        _ => malformed("the value of the assertion control is not a filter"),
    })
}

impl RequestControls<'_> {
    /// Refuses with `assertionFailed` when there is an assertion that does not hold; see [`check`].
    pub(crate) fn check_assertion(
        &self,
        entry: &dyn EntryRead,
        rights: &Rights<'_>,
        schema: &Schema,
        work_max: u64,
    ) -> Result<(), Refusal> {
        let Some(filter) = &self.assertion else { return Ok(()) };
        check(&ResolvedFilter::resolve(filter, schema), entry, rights, schema, work_max)
    }
}

/// Refuses with `assertionFailed` unless the filter is true of the entry; with `adminLimitExceeded`
/// when finding out takes more steps than `work_max`. What the asker may not search is Undefined,
/// and of an entry that they may not know of nothing is true, so that an assertion tells no more
/// than a search would.
pub(crate) fn check(
    filter: &ResolvedFilter,
    entry: &dyn EntryRead,
    rights: &Rights<'_>,
    schema: &Schema,
    work_max: u64,
) -> Result<(), Refusal> {
    let mut no_more = || 0;
    let mut meter = Meter::new(work_max, &mut no_more);
    let truth = match rights.is_disclosed() {
        true => filter.matches_within(schema, &rights.searchable(entry), &mut meter),
        false => Truth::Undefined,
    };
    if meter.is_over() {
        return Err(too_much());
    }
    holds(truth)
}

/// Refuses with `assertionFailed` what is not true.
pub(crate) fn holds(truth: Truth) -> Result<(), Refusal> {
    if truth == Truth::True {
        return Ok(());
    }
    Err(Refusal::new(ResultCode::AssertionFailed, "the entry does not match the assertion"))
}

fn too_much() -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        "evaluating the assertion is more work than allowed: make it smaller",
    )
}

/// How many terms an assertion may have: what is to be true of one entry is soon said.
const TERMS_MAX: u32 = 1_000;
