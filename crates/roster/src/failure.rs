//! How a subcommand ends badly: the exit code, the message and what to do about it.
//!
//! Invariant: messages and hints are one sentence each, in lower case and without a full stop.

use std::fmt;
use std::io;
use std::path::Path;

use crate::template::TemplateError;

/// A subcommand's end other than success.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// The exit codes of the program; `--help` lists them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    Done = 0,
    /// The server said no, or gave a wrong answer.
    Refused = 1,
    /// Wrong use, or a failure on this side.
    Local = 2,
}

impl Failure {
    /// A failure on this side.
    pub(crate) fn local(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Local, message: message.to_string(), hint: None }
    }

    /// The server refused.
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Refused, message: message.to_string(), hint: None }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Reading or writing `path` failed.
    pub(crate) fn path(action: &str, path: &Path, error: &io::Error) -> Self {
        let failure = Self::local(format!("cannot {action} {}: {}", path.display(), plain(error)));
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("the disk is full: make room, then run the command again")
            }
            _ => failure,
        }
    }
}

/// The text of an error without Rust's `(os error 2)`, starting in lower case.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or("");
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Writing standard output failed. When its reader left early (`roster export | head`), nobody is
/// there to be told: the program is done.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::Done,
            _ => Exit::Local,
        };
        let message = format!("cannot write the output: {}", plain(&error));
        Self { exit, message, hint: None }
    }
}

impl From<TemplateError> for Failure {
    fn from(error: TemplateError) -> Self {
        Self { hint: error.hint.clone(), ..Self::local(error) }
    }
}
