//! Attribute descriptions (RFC 4512 §2.5): an attribute type and its options.
//!
//! Invariant: options are in lower case, sorted, each once. `;binary` is no such option: it says
//! how values travel, not which attribute is meant (RFC 4522), so it is part of the text of those
//! types that always travel so, and never of the comparison.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ldap::description::is_attribute_description;

use crate::attribute_type::AttributeType;

/// The most options one description may have.
pub const OPTION_COUNT_MAX: usize = 16;

/// The longest attribute description, in octets.
pub const DESCRIPTION_LENGTH_MAX_BYTES: usize = 1024;

/// An attribute type and its options. Two are equal when OID and options are.
pub struct AttributeDescription {
    /// The type.
    pub kind: Arc<AttributeType>,
    options: Vec<String>,
    text: String,
    is_password: bool,
}

impl AttributeDescription {
    /// The description of a type without options.
    pub fn plain(kind: Arc<AttributeType>) -> Self {
        Self::new(kind, Vec::new())
    }

    /// This description, sent as it is written here: for attributes whose readers expect their
    /// options in an order of their own.
    #[must_use]
    pub fn written_as(&self, text: &str) -> Self {
        let Self { kind, options, is_password, .. } = self;
        let (kind, options) = (Arc::clone(kind), options.clone());
        Self { kind, options, text: text.to_owned(), is_password: *is_password }
    }

    /// Reads the part of `text` after the type's name, such as `;lang-de`; it may be empty.
    pub(crate) fn with_options(
        kind: Arc<AttributeType>,
        options: &str,
    ) -> Result<Self, DescriptionError> {
        let mut tags: Vec<String> = Vec::new();
        for option in options.split(';').skip(1) {
            let option = option.to_ascii_lowercase();
            if option != BINARY {
                tags.push(option);
            } else if !allows_binary(&kind) {
                return Err(DescriptionError::BinaryNotAllowed(kind.name().to_owned()));
            }
        }
        tags.sort_unstable();
        tags.dedup();
        if tags.len() > OPTION_COUNT_MAX {
            return Err(DescriptionError::TooManyOptions);
        }
        Ok(Self::new(kind, tags))
    }

    fn new(kind: Arc<AttributeType>, options: Vec<String>) -> Self {
        let mut text = kind.name().to_owned();
        if requires_binary(&kind) {
            text.push(';');
            text.push_str(BINARY);
        }
        for option in &options {
            text.push(';');
            text.push_str(option);
        }
        let is_password = is_password(&kind);
        Self { kind, options, text, is_password }
    }

    /// The canonical text, `givenName` or `cn;lang-de`, as sent to clients.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The options in lower case, sorted, without `binary`.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Whether asking for `self` gets `other`: the same type or a subtype, with at least the
    /// options of `self` (RFC 4512 §2.5.2). An option ending in a hyphen, such as `lang-en-`,
    /// is a range: it gets `lang-en` and all that starts with it (RFC 3866 §3.2).
    pub fn covers(&self, other: &Self) -> bool {
        other.kind.is_subtype_of(&self.kind)
            && self.options.iter().all(|asked| other.options.iter().any(|had| matches(asked, had)))
    }

    /// Whether an option is a language range: good for asking, not for storing.
    pub fn is_range(&self) -> bool {
        self.options.iter().any(|option| option.ends_with('-'))
    }

    /// Whether the attribute is returned only when asked for.
    pub fn is_operational(&self) -> bool {
        self.kind.is_operational()
    }

    /// Whether values are passwords (`userPassword`, `authPassword` and their subtypes), which
    /// must never be shown or logged.
    pub const fn is_password(&self) -> bool {
        self.is_password
    }
}

impl PartialEq for AttributeDescription {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.kind == other.kind && self.options == other.options)
    }
}

impl Eq for AttributeDescription {}

impl Hash for AttributeDescription {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
        self.options.hash(state);
    }
}

impl fmt::Debug for AttributeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttributeDescription({})", self.text)
    }
}

impl fmt::Display for AttributeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a text describes no attribute of this schema.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DescriptionError {
    /// Not of the form `name` or `name;option`, or too long.
    Malformed,
    /// The schema has no such type.
    UnknownType(String),
    /// Values of this type do not travel as BER (RFC 4522).
    BinaryNotAllowed(String),
    /// More than [`OPTION_COUNT_MAX`] options.
    TooManyOptions,
}

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not an attribute description"),
            Self::UnknownType(name) => write!(f, "attribute type '{name}' is not defined"),
            Self::BinaryNotAllowed(name) => {
                write!(f, "option 'binary' is not allowed for attribute type '{name}'")
            }
            Self::TooManyOptions => {
                write!(f, "an attribute description has at most {OPTION_COUNT_MAX} options")
            }
        }
    }
}

impl std::error::Error for DescriptionError {}

/// Splits `text` into the type's name and the rest, which is empty or starts with a semicolon.
pub(crate) fn split(text: &str) -> Result<(&str, &str), DescriptionError> {
    if text.len() > DESCRIPTION_LENGTH_MAX_BYTES || !is_attribute_description(text) {
        return Err(DescriptionError::Malformed);
    }
    let end = text.find(';').unwrap_or(text.len());
    Ok(text.split_at(end))
}

fn matches(asked: &str, had: &str) -> bool {
    match asked.strip_suffix('-') {
        // `lang-en-` gets `lang-en` and `lang-en-us`, not `lang-eng`; `lang-` gets every language.
        Some(range) => had == range || had.starts_with(asked),
        None => asked == had,
    }
}

fn is_password(kind: &Arc<AttributeType>) -> bool {
    let mut kinds = std::iter::successors(Some(kind), |kind| kind.superior.as_ref());
    kinds.any(|kind| PASSWORD_OIDS.contains(&kind.oid.as_str()))
}

/// Whether values are always sent under `;binary`: the certificate syntaxes (RFC 4523 §2), and
/// types that say so themselves.
fn requires_binary(kind: &AttributeType) -> bool {
    BINARY_SYNTAX_OIDS.contains(&kind.syntax.oid)
        || kind.extensions.iter().any(|extension| extension.name == BINARY_EXTENSION)
}

/// Whether `;binary` may be written: where it is required, and where values are octets anyway.
fn allows_binary(kind: &AttributeType) -> bool {
    requires_binary(kind) || kind.syntax.oid == BINARY_SYNTAX_OID
}

const BINARY: &str = "binary";

/// Marks a type whose definition wants `;binary` though its syntax does not.
const BINARY_EXTENSION: &str = "X-BINARY-TRANSFER";

/// The retired syntax "Binary" (RFC 2252 §4.3.1).
const BINARY_SYNTAX_OID: &str = "1.3.6.1.4.1.1466.115.121.1.5";

/// Certificate, certificate list, certificate pair, supported algorithm (RFC 4523 §2).
const BINARY_SYNTAX_OIDS: [&str; 4] = [
    "1.3.6.1.4.1.1466.115.121.1.8",
    "1.3.6.1.4.1.1466.115.121.1.9",
    "1.3.6.1.4.1.1466.115.121.1.10",
    "1.3.6.1.4.1.1466.115.121.1.49",
];

/// `userPassword` (RFC 4519 §2.41) and `authPassword` (RFC 3112 §3.4).
const PASSWORD_OIDS: [&str; 2] = ["2.5.4.35", "1.3.6.1.4.1.4203.1.3.4"];
