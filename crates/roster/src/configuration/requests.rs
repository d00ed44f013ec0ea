//! Changes of the configuration on their way: several as one, or not at all.
//!
//! Invariant: what has more than one request is a transaction (RFC 5805), so that nobody ever sees
//! a part of it.

use client::{ClientError, Connection, Outcome};
use ldap::ber::{Tag, Writer};
use ldap::control_value::purpose::{self, OperationPurpose};
use ldap::message::{Control, ControlsBuf};
use server::is_hidden;

use crate::changes::step::Step;
use crate::failure::Failure;

/// The longest message, in bytes: as the server has it.
const MESSAGE_MAX_BYTES: usize = 1_024;

/// Why something is changed, as the change log keeps it.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct MessageOption {
    /// Why, for the history and the audit log
    #[arg(short, long, value_name = "TEXT", value_parser = message)]
    pub(crate) message: Option<String>,
}

fn message(text: &str) -> Result<String, String> {
    let text = text.trim();
    // As the server refuses it.
    let is_refused = |letter| matches!(letter, '"' | '\\') || is_hidden(letter);
    if text.is_empty() || text.len() > MESSAGE_MAX_BYTES || text.chars().any(is_refused) {
        return Err(format!(
            "a message is one line of up to {MESSAGE_MAX_BYTES} bytes, without quotation marks, \
             backslashes and hidden characters"
        ));
    }
    Ok(text.to_owned())
}

impl MessageOption {
    /// The value of the control that says so.
    fn value(&self) -> Option<Vec<u8>> {
        let purpose = self.message.as_deref()?;
        Some(OperationPurpose { purpose: Some(purpose), ..OperationPurpose::default() }.encode())
    }

    /// Adds the control, if there is a message. `value` is where its value is kept.
    fn put(&self, controls: &mut ControlsBuf, value: &mut Option<Vec<u8>>) {
        *value = self.value();
        // Without the control the change would be made, and nobody told why.
        if let Some(value) = value.as_deref() {
            let control = Control { oid: purpose::OID, critical: true, value: Some(value) };
            controls.push(control);
        }
    }
}

/// Makes all of these changes, or none. `what` is what they are called together.
///
/// # Errors
/// When the server refuses one of them.
pub(crate) fn carry_out(
    connection: &mut Connection,
    steps: &[Step],
    message: &MessageOption,
    what: &'static str,
) -> Result<(), Failure> {
    match steps {
        [] => Ok(()),
        [step] => {
            let (mut controls, mut value) = (ControlsBuf::new(), None);
            message.put(&mut controls, &mut value);
            Ok(step.send(connection, controls.as_ref())?.into_result(what)?)
        }
        steps => together(connection, steps, message, what),
    }
}

fn together(
    connection: &mut Connection,
    steps: &[Step],
    message: &MessageOption,
    what: &'static str,
) -> Result<(), Failure> {
    let (outcome, identifier) = connection.extended(START, None)?;
    outcome.into_result("start of a transaction")?;
    let identifier = identifier.ok_or_else(|| {
        let why = "the start of a transaction was answered without an identifier";
        ClientError::Malformed(why.to_owned())
    })?;
    for step in steps {
        let (mut controls, mut value) = (ControlsBuf::new(), None);
        let part = Control { oid: PART, critical: true, value: Some(&identifier) };
        controls.push(part);
        message.put(&mut controls, &mut value);
        let outcome = step.send(connection, controls.as_ref())?;
        if !outcome.is_success() {
            // It is gone with the update that was refused, or goes with the connection.
            let _ = connection.extended(END, Some(&end(&identifier, false)));
            return refused(outcome, what, Some(step));
        }
    }
    let (outcome, _) = connection.extended(END, Some(&end(&identifier, true)))?;
    if outcome.is_success() { Ok(()) } else { refused(outcome, what, None) }
}

/// Nothing was done, and why.
fn refused(outcome: Outcome, what: &'static str, step: Option<&Step>) -> Result<(), Failure> {
    let Err(error) = outcome.into_result(what) else { return Ok(()) };
    let failure = Failure::from(error);
    let place = step.map(|step| format!("{}: ", step.dn())).unwrap_or_default();
    Err(Failure { message: format!("{place}{}", failure.message), ..failure }
        .hint("nothing was changed: all of it is one change"))
}

/// What ends a transaction (RFC 5805 §2.3).
fn end(identifier: &[u8], commit: bool) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let fields = writer.begin(Tag::SEQUENCE);
    if !commit {
        writer.boolean(Tag::BOOLEAN, false);
    }
    writer.octets(Tag::OCTET_STRING, identifier);
    writer.end(fields);
    value
}

/// Starts a transaction; an update is part of one; ends one.
const START: &str = "1.3.6.1.1.21.1";
const PART: &str = "1.3.6.1.1.21.2";
const END: &str = "1.3.6.1.1.21.3";
