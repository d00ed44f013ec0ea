//! Which values of an entry are passwords that are stored as hashes.

use std::sync::Arc;

use ldap::result::ResultCode;
use schema::{AttributeDescription, Entry, EntryError, Schema};

use crate::request::refusal::Refusal;

/// Whether values of this attribute are hashed when they come in clear: userPassword and its
/// subtypes; authPassword carries its hash by its own syntax (RFC 3112).
pub(crate) fn is_hashable(description: &AttributeDescription) -> bool {
    description.is_password() && description.kind.name() != "authPassword"
}

/// Gives the form in which a password is stored; none while that is asked for, or where it is
/// refused.
pub type StoredForm<'f, E> = dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>, E> + 'f;

/// Puts the stored form of each password of `entry` in its place.
///
/// # Errors
/// Those of `stored_form`, and what is wrong with the values it gives.
pub fn hash_passwords_with<E: From<EntryError>>(
    entry: &mut Entry,
    schema: &Schema,
    stored_form: &mut StoredForm<'_, E>,
) -> Result<(), E> {
    let replaced = entry
        .attributes()
        .iter()
        .filter(|attribute| is_hashable(&attribute.description))
        .map(|attribute| {
            let values = attribute.values.iter();
            let values = values.filter_map(|value| stored_form(value).transpose());
            Ok((Arc::clone(&attribute.description), values.collect::<Result<Vec<_>, E>>()?))
        })
        .collect::<Result<Vec<_>, E>>()?;
    for (description, values) in replaced {
        entry.replace_values(schema, &description, values)?;
    }
    Ok(())
}

/// Puts one unknown value in the place of the passwords of each attribute: they are refused, and
/// what rules and assertions say of an entry that has passwords is asked before that is told.
pub(crate) fn replace_by_unknown(entry: &mut Entry, schema: &Schema) -> Result<(), EntryError> {
    let attributes = entry.attributes().iter();
    let hashable = attributes.filter(|attribute| is_hashable(&attribute.description));
    let descriptions: Vec<_> = hashable.map(|one| Arc::clone(&one.description)).collect();
    for description in descriptions {
        entry.replace_values(schema, &description, vec![UNKNOWN.to_vec()])?;
    }
    Ok(())
}

/// What is asked about in the place of a stored form that nobody has made.
pub(crate) const UNKNOWN: &[u8] = b"";

/// Refuses more passwords in one request than one account has use for.
pub(crate) fn check_password_count(count: usize) -> Result<(), Refusal> {
    match count > PASSWORDS_MAX {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!("a request may set at most {PASSWORDS_MAX} passwords"),
        )),
    }
}

/// Passwords that one request may set: each may be hashed slowly.
pub(crate) const PASSWORDS_MAX: usize = 10;
