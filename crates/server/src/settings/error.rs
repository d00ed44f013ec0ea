//! What can be wrong with settings, said in one line with its location.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why settings were refused.
#[derive(Debug)]
pub enum SettingsError {
    /// A file cannot be read.
    Io {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is not TOML.
    Syntax {
        /// `roster.toml:12`.
        location: String,
        /// What the parser expected.
        reason: String,
    },
    /// No such section, key or variable.
    Unknown {
        /// `roster.toml:12`, `environment` or `command line`.
        location: String,
        /// The name as given.
        name: String,
        /// The known name that is most like it.
        suggestion: Option<String>,
    },
    /// A value of the wrong type or out of range.
    Value {
        /// `roster.toml:12`, the name of a variable, or `command line`.
        location: String,
        /// Which setting, what it accepts, and what was given.
        reason: String,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::Syntax { location, reason } => write!(f, "{location}: {reason}"),
            Self::Unknown { location, name, suggestion: None } => {
                write!(f, "{location}: there is no setting '{name}'")
            }
            Self::Unknown { location, name, suggestion: Some(suggestion) } => {
                write!(f, "{location}: there is no setting '{name}'; did you mean '{suggestion}'?")
            }
            Self::Value { location, reason } => write!(f, "{location}: {reason}"),
        }
    }
}

impl std::error::Error for SettingsError {}
