//! The uniqueness control: an update is carried out only if no other entry has the same.

use std::sync::Arc;

use ldap::ber::DecodeReason;
use ldap::control_value::uniqueness::{
    ATTRIBUTES_MAX, SeveralAttributes, UniquenessRequest, ValidationLevel,
};
use ldap::message::{Control, Controls, DecodeLimits};
use ldap::result::ResultCode;
use schema::{AttributeDescription, DnKey, ResolvedFilter, Schema};

use super::value::{malformed, required};
use crate::lines::place::Place;
use crate::lines::scanner;
use crate::request::refusal::Refusal;

pub(crate) use ldap::control_value::uniqueness::REQUEST_OID as OID;

/// What a control asks for, resolved against the schema.
#[derive(Debug)]
pub(crate) struct Uniqueness {
    /// By what its response is told from others.
    pub(crate) id: Vec<u8>,
    /// The attributes whose values are to be unique; if there are none, the filter says all.
    pub(crate) attributes: Vec<Arc<AttributeDescription>>,
    pub(crate) several: SeveralAttributes,
    /// Where others are looked for.
    pub(crate) place: Place,
    /// A conflict refuses the update.
    pub(crate) before: bool,
    /// Whether there is a conflict afterwards is told.
    pub(crate) after: bool,
}

/// Reads one of the controls of a request.
pub(super) fn put<'a>(
    all: &mut Vec<UniquenessRequest<'a>>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    let value = required(control, NAME)?;
    let limits = DecodeLimits { filter_terms_max: TERMS_MAX, ..DecodeLimits::default() };
    let request = UniquenessRequest::decode(value, &limits).map_err(|error| match error.reason {
        DecodeReason::TooDeep | DecodeReason::TooManyTerms => Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!(
                "{NAME} has at most {ATTRIBUTES_MAX} attributes and a filter of {TERMS_MAX} terms"
            ),
        ),
        DecodeReason::EmptyList => {
            malformed("the uniqueness control has neither attribute nor filter")
        }
        _ => malformed("the value of the uniqueness control is malformed"),
    })?;
    if all.iter().any(|other| other.id == request.id) {
        return Err(malformed("two uniqueness controls have the same uniqueness id"));
    }
    if all.len() >= CONTROLS_MAX {
        return Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a request has at most {CONTROLS_MAX} uniqueness controls"),
        ));
    }
    all.push(request);
    Ok(())
}

/// Whether an update is made in spite of conflicts, of which its answer tells. Without the answer a
/// success says all.
pub(crate) fn tells_conflicts(controls: &Controls<'_>) -> bool {
    let values = controls.iter().filter(|control| control.oid == OID);
    let mut requests = values.flat_map(|control| {
        UniquenessRequest::decode(control.value.unwrap_or_default(), &DecodeLimits::default())
    });
    requests.any(|one| one.before == ValidationLevel::None && one.after != ValidationLevel::None)
}

impl Uniqueness {
    /// Resolves what a control asks for.
    pub(super) fn resolve(
        request: &UniquenessRequest<'_>,
        schema: &Schema,
    ) -> Result<Self, Refusal> {
        let refused =
            |why: String| Refusal::new(ResultCode::UnwillingToPerform, format!("{NAME}: {why}"));
        let names = request.attributes.iter().copied();
        let attributes = scanner::attributes(names, schema, WHAT);
        let attributes = attributes.map_err(|error| refused(error.to_string()))?;
        if let Some(one) = attributes.iter().find(|one| one.kind.equality.is_none()) {
            let name = one.text();
            return Err(refused(format!("'{name}' has no equality rule to compare its values by")));
        }
        let below = request.base.filter(|base| !base.is_empty());
        let below = below.map(|base| DnKey::from_text(schema, base)).transpose();
        let below = below.map_err(|error| {
            Refusal::new(ResultCode::InvalidDnSyntax, format!("{NAME}: its base: {error}"))
        })?;
        let filter = request.filter.as_ref().map(|one| scanner::resolved(one, schema, WHAT));
        let filter = filter.transpose().map_err(|error| refused(error.to_string()))?;
        if filter.as_ref().is_some_and(ResolvedFilter::asks_chains) {
            return Err(refused("in-chain terms of a filter are for searches".to_owned()));
        }
        Ok(Self {
            id: request.id.to_vec(),
            attributes,
            several: request.several,
            place: Place { below, filter },
            before: request.before != ValidationLevel::None,
            after: request.after != ValidationLevel::None,
        })
    }

    /// Octets that it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let Self { id, attributes, place: Place { below, filter }, .. } = self;
        size_of::<Self>()
            + id.len()
            + size_of_val(&attributes[..])
            + below.as_ref().map_or(0, |key| key.as_bytes().len())
            + filter.as_ref().map_or(0, ResolvedFilter::held_bytes)
    }
}

/// What the control is called.
const NAME: &str = "the uniqueness control";
/// The same, in a sentence about what it is about.
const WHAT: &str = "uniqueness control";
/// How many terms its filter may have: it is evaluated while other writes wait.
const TERMS_MAX: u32 = 100;
/// How many of them one request may have.
const CONTROLS_MAX: usize = 16;
