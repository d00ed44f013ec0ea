//! `cn=References,cn=config`: the attributes whose values follow the entries that they name.

use ldap::result::ResultCode;
use store::{Meant, Naming, References, StoreError, View};

use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::references;

/// The attribute.
pub(super) const ATTRIBUTE: &str = "roster-reference";

/// The attributes of a view.
pub(super) fn values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    references::names(view)
}

/// Refuses what names no entries, or has no index.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let refuse = |code, why: String| Err(Refusal::new(code, why));
    let Ok(description) = decide.state.schema.describe(text) else {
        let why = format!("the schema has no attribute '{text}'");
        return refuse(ResultCode::InvalidAttributeSyntax, why);
    };
    if !description.kind.names_entries() || !description.options().is_empty() {
        let why = format!("values of '{text}' are no names of entries");
        return refuse(ResultCode::UnwillingToPerform, why);
    }
    let same = |other: &String| {
        decide.state.schema.describe(other).is_ok_and(|other| other == description)
    };
    if others.iter().any(same) {
        let why = format!("'{text}' is there already");
        return refuse(ResultCode::AttributeOrValueExists, why);
    }
    let nothing = schema::DnKey::root();
    if decide.view.references(
        &description.kind,
        Meant { name: &nothing, naming: Naming::Itself },
        0,
    )? == References::Unindexed
    {
        return refuse(
            ResultCode::UnwillingToPerform,
            format!(
                "'{text}' has no equality index that is complete, and each rename would have to \
                 look at all entries: add one first (roster index add 'equality {text}' --wait)"
            ),
        );
    }
    Ok(())
}
