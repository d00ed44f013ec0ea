//! Compare (RFC 4511 §4.10).

use aci::Rights;
use ldap::message::{CompareRequest, Scope, Values};
use ldap::result::ResultCode;
use schema::{
    Assertion, AssertionError, AttributeDescription, EntryRead, Schema, Selection, Truth,
};

use crate::controls::RequestControls;
use crate::guard::{Site, guarded};
use crate::hashing::Behind;
use crate::live_entry::LiveEntry;
use crate::ops::bind::require_confidentiality;
use crate::ops::target::{self, Lookup};
use crate::ops::update;
use crate::password;
use crate::refusal::Refusal;
use crate::root_dse::Offer;
use crate::session::Session;
use crate::virtual_tree::{Asked, Found};
use crate::worker::Worker;

/// Carries out a compare; the outcome is compareTrue or compareFalse. It counts only when nothing
/// had to be asked for: a clear-text password is true where it is behind a stored value.
pub(crate) fn run(
    worker: &mut Worker,
    session: &Session,
    request: &CompareRequest<'_>,
    controls: &RequestControls<'_>,
) -> Result<ResultCode, Refusal> {
    let directory = &worker.directory;
    let state = directory.state.load();
    let schema = &state.schema;
    let key = worker
        .names
        .key(schema, request.name)
        .map_err(|error| Refusal::new(ResultCode::InvalidDnSyntax, error.to_string()))?;
    let assertion = resolve(request, schema)?;
    if update::is_hashable(&assertion.description) {
        require_confidentiality(directory, session)?;
    }
    let (view, referrals) =
        worker.snapshot.view_for(schema.well_known(), controls.manage_dsa_it)?;
    let site = Site { directory, access: session.access(), view, schema };
    let (outcome, values) = guarded(&site, &key, |guard| {
        let check = |entry: &dyn EntryRead, rights: &Rights<'_>| {
            let work_max = directory.limits.inline_work_max;
            controls.check_assertion((entry, rights), schema, work_max)?;
            evaluate(entry, rights, &assertion, schema)
        };
        if let Some(special) =
            target::special(directory, &state, &key, || Offer::to(session, directory))
        {
            return Ok((check(special.entry(), &guard.on(special.entry()))?, Vec::new()));
        }
        let nothing = Selection::none();
        let asked = Asked { base: &key, scope: Scope::Base, selection: &nothing, may_wait: true };
        if let Some(found) = state.virtual_trees.find(directory, &state, guard, &asked)
            && let Found::Entries { base, .. } = found?
        {
            return Ok((check(&base, &guard.on(&base))?, Vec::new()));
        }
        let lookup = Lookup { name: request.name, key: &key, referrals, scope: None };
        let id = target::find(view, &state, guard, &lookup)?;
        let stored = target::stored(view, id)?;
        let rights = guard.on(&stored);
        if !rights.is_disclosed() {
            return Err(guard.hidden(view, id)?);
        }
        let live = LiveEntry::new(view, &stored, schema.well_known(), false).seen_by(guard);
        let outcome = check(&live, &rights)?;
        let is_password = update::is_hashable(&assertion.description);
        let values = match outcome == ResultCode::CompareFalse && is_password {
            true => password::stored_in(&live, &assertion.description),
            false => Vec::new(),
        };
        Ok((outcome, values))
    })?;
    match worker.hashing.which(request.value, &values) {
        Behind::At(_) => Ok(ResultCode::CompareTrue),
        Behind::Nowhere | Behind::Asked => Ok(outcome),
    }
}

/// The assertion of the request, with its value checked and prepared.
fn resolve(request: &CompareRequest<'_>, schema: &Schema) -> Result<Assertion, Refusal> {
    let description = schema
        .describe(request.description)
        .map_err(|error| Refusal::new(ResultCode::UndefinedAttributeType, error.to_string()))?;
    Assertion::equality(schema, description, request.value).map_err(|error| {
        let code = match &error {
            AssertionError::NoRule(_) => ResultCode::InappropriateMatching,
            AssertionError::Value(_) => ResultCode::InvalidAttributeSyntax,
        };
        Refusal::new(code, error.to_string())
    })
}

fn evaluate(
    entry: &dyn EntryRead,
    rights: &Rights<'_>,
    assertion: &Assertion,
    schema: &Schema,
) -> Result<ResultCode, Refusal> {
    if !rights.may_compare(&assertion.description) {
        return Err(Refusal::new(
            ResultCode::InsufficientAccessRights,
            "values of this attribute may not be compared",
        ));
    }
    let entry = &Comparable { entry, rights };
    let mut present = false;
    entry.visit_values(&assertion.description, &mut |_, _| {
        present = true;
        false
    });
    if !present {
        return Err(Refusal::new(
            ResultCode::NoSuchAttribute,
            "the entry does not have the attribute",
        ));
    }
    match assertion.holds(schema, entry) {
        Truth::True => Ok(ResultCode::CompareTrue),
        Truth::False | Truth::Undefined => Ok(ResultCode::CompareFalse),
    }
}

/// An entry as a compare may see it: an attribute that may be compared may have values with options
/// or subtypes that may not.
struct Comparable<'e> {
    entry: &'e dyn EntryRead,
    rights: &'e Rights<'e>,
}

impl EntryRead for Comparable<'_> {
    fn dn(&self) -> &str {
        self.entry.dn()
    }

    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_values(asked, &mut |description, value| {
            (description != asked && !self.rights.may_compare(description))
                || visit(description, value)
        })
    }

    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.entry.visit_attributes(&mut |description, values| {
            if self.rights.may_compare(description) {
                visit(description, values);
            }
        });
    }
}
