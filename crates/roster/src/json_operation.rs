//! Extended operations of a roster server whose values are JSON, where a refusal says all itself.

use client::Connection;
use ldap::result::ResultCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;

/// Asks for one, and reads what the server answers.
///
/// # Errors
/// When the server refuses, or answers something else.
pub(crate) fn ask<A: DeserializeOwned>(
    connection: &mut Connection,
    oid: &str,
    asked: &impl Serialize,
) -> Result<A, Failure> {
    let value = serde_json::to_vec(asked)
        .map_err(|error| Failure::local(format!("the request cannot be encoded: {error}")))?;
    let (outcome, value) = connection.extended(oid, Some(&value))?;
    if outcome.code != ResultCode::Success {
        let refused = Failure::refused(outcome.to_string());
        return Err(match outcome.code {
            ResultCode::InsufficientAccessRights => refused.hint(ADMINISTRATOR_HINT),
            ResultCode::ProtocolError => {
                refused.hint("does the server run an earlier release? Upgrade it first")
            }
            _ => refused,
        });
    }
    serde_json::from_slice(&value.unwrap_or_default())
        .map_err(|error| Failure::refused(format!("the server answers what is none: {error}")))
}
