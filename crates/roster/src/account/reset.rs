//! A new password for an account (RFC 3062).

use std::path::Path;

use client::Connection;
use ldap::ber::{DecodeError, Reader, Tag, Writer};
use ldap::control_value::policy_state::{StateOperation, operation};

use super::{ask, each};
use crate::failure::{Exit, Failure};
use crate::output;

/// Reads a new password from a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut password = std::fs::read(path).map_err(|error| Failure::path("read", path, &error))?;
    for end in [b'\n', b'\r'] {
        if password.last() == Some(&end) {
            password.pop();
        }
    }
    if password.is_empty() {
        return Err(Failure::local(format!("{} contains no password", path.display())));
    }
    Ok(password)
}

/// Gives each account the password, or one that the server makes.
pub(crate) fn run(
    connection: &mut Connection,
    accounts: &[String],
    new: Option<&[u8]>,
) -> Result<Exit, Failure> {
    each(connection, accounts, &mut |connection, dn| {
        let value = request(dn, new);
        let (outcome, value) = connection.extended(PASSWORD_MODIFY, Some(&value))?;
        outcome.into_result("reset").map_err(|error| Failure::refused(format!("{dn}: {error}")))?;
        let made = value.as_deref().map(generated).transpose().map_err(|error| {
            Failure::refused(format!("the server sent a malformed password: {error}"))
        })?;
        match made {
            Some(made) => output::line(format_args!("{dn}: the new password is {made}"))?,
            None => output::line(format_args!("{dn}: the new password is set"))?,
        }
        let state = ask(connection, dn, vec![StateOperation::of(operation::ERRORS)])?;
        for finding in state.findings(operation::ERRORS) {
            output::line(format_args!("  {}", finding.message))?;
        }
        Ok(())
    })
}

/// PasswdModifyRequestValue.
fn request(dn: &str, new: Option<&[u8]>) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::context(0, false), dn.as_bytes());
    if let Some(new) = new {
        writer.octets(Tag::context(2, false), new);
    }
    writer.end(sequence);
    value
}

/// PasswdModifyResponseValue.
fn generated(value: &[u8]) -> Result<&str, DecodeError> {
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE)?;
    sequence.string(Tag::context(0, false))
}

/// passwdModifyOID.
const PASSWORD_MODIFY: &str = "1.3.6.1.4.1.4203.1.11.1";
