//! The form in which the new passwords of a request are stored; where it takes long to make, the
//! hash pool is asked for it.

use auth::password;
use schema::{Entry, Schema};

use crate::bind::hashing::Hashed;
use crate::bind::refusals::require_confidentiality;
use crate::password_policy::verdict::Storing;
use crate::request::refusal::Refusal;
use crate::request::session::Session;
use crate::request::worker::Worker;
use crate::write::passwords::{hash_passwords_with, is_hashable};

/// Replaces clear-text passwords by their hashes; slow ones are asked for. Where they are refused
/// (`storing` is none) the entry loses them.
pub(crate) fn hash_passwords(
    worker: &mut Worker,
    session: &Session,
    entry: &mut Entry,
    schema: &Schema,
    storing: Option<&Storing>,
) -> Result<(), Refusal> {
    if entry.attributes().iter().any(|attribute| is_hashable(&attribute.description)) {
        require_confidentiality(&worker.directory.credentials.authentication(), session)?;
    }
    hash_passwords_with(entry, schema, &mut |value| match storing {
        Some(storing) => stored_password(worker, storing, value),
        None => Ok(None),
    })
}

/// The form in which a password is stored. A value that is hashed already is kept when it comes
/// from those who may send one; from anyone else it was refused, unless it only begins like one.
/// None while it is asked for.
pub(crate) fn stored_password(
    worker: &mut Worker,
    storing: &Storing,
    value: &[u8],
) -> Result<Option<Vec<u8>>, Refusal> {
    if storing.keeps_hashed && password::is_hashed(value) {
        return Ok(Some(value.to_vec()));
    }
    Ok(match worker.stored_form(value, storing.scheme, false)? {
        Hashed::Now(form) => Some(form),
        Hashed::Pending => None,
    })
}
