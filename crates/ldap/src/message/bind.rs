//! Bind (RFC 4511 §4.2). Credentials never appear in `Debug` output.

use std::fmt;

use super::DecodeLimits;
use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// Asks to authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest<'a> {
    /// The protocol version, 1 to 127; 3 is this one.
    pub version: i32,
    /// The DN to bind as; empty for anonymous and most SASL binds.
    pub name: &'a str,
    /// How.
    pub authentication: Authentication<'a>,
}

/// The ways to authenticate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// With a password.
    Simple(&'a [u8]),
    /// With a SASL mechanism (RFC 4513 §5.2).
    Sasl {
        /// The name of the mechanism.
        mechanism: &'a str,
        /// The client's part of the exchange.
        credentials: Option<&'a [u8]>,
    },
    /// Some other choice, by the number of its tag: `authMethodNotSupported`.
    Other(u8),
}

impl fmt::Debug for Authentication<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(password) => write!(f, "Simple({} octets)", password.len()),
            Self::Sasl { mechanism, credentials } => f
                .debug_struct("Sasl")
                .field("mechanism", mechanism)
                .field("credentials_octets", &credentials.map(<[u8]>::len))
                .finish(),
            Self::Other(number) => f.debug_tuple("Other").field(number).finish(),
        }
    }
}

impl<'a> BindRequest<'a> {
    pub(super) fn read(mut fields: Reader<'a>, limits: &DecodeLimits) -> Result<Self, DecodeError> {
        let start = fields;
        let version = fields.integer_i32(Tag::INTEGER)?;
        if !(1..=VERSION_MAX).contains(&version) {
            return Err(start.error(DecodeReason::OutOfRange));
        }
        let name = limits.read_name(&mut fields, Tag::OCTET_STRING)?;
        let authentication = Authentication::read(&mut fields)?;
        fields.end_extensible(&[SIMPLE, SASL])?;
        Ok(Self { version, name, authentication })
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.integer(Tag::INTEGER, i64::from(self.version));
        writer.octets(Tag::OCTET_STRING, self.name.as_bytes());
        self.authentication.write(writer);
    }
}

impl<'a> Authentication<'a> {
    fn read(fields: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match fields.peek_tag() {
            Some(SIMPLE) => fields.octets(SIMPLE).map(Self::Simple),
            Some(SASL) => Self::read_sasl(fields.sequence(SASL)?),
            Some(tag) if tag.is_context() && !is_known(tag.number()) => {
                fields.read_any()?;
                Ok(Self::Other(tag.number()))
            }
            Some(tag) => Err(fields.error(DecodeReason::UnexpectedTag(tag))),
            None => Err(fields.error(DecodeReason::Truncated)),
        }
    }

    fn read_sasl(mut fields: Reader<'a>) -> Result<Self, DecodeError> {
        let mechanism = fields.string(Tag::OCTET_STRING)?;
        let credentials = fields.read_optional(Tag::OCTET_STRING)?;
        fields.end_extensible(&[])?;
        Ok(Self::Sasl { mechanism, credentials })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Simple(password) => writer.octets(SIMPLE, password),
            Self::Sasl { mechanism, credentials } => {
                let mark = writer.begin(SASL);
                writer.octets(Tag::OCTET_STRING, mechanism.as_bytes());
                if let Some(credentials) = credentials {
                    writer.octets(Tag::OCTET_STRING, credentials);
                }
                writer.end(mark);
            }
            Self::Other(number) => {
                debug_assert!(!is_known(*number), "the choices 0 and 3 have variants");
                writer.octets(Tag::context(*number, false), &[]);
            }
        }
    }
}

/// Whether `[number]` is a choice with a variant of its own.
const fn is_known(number: u8) -> bool {
    number == SIMPLE.number() || number == SASL.number()
}

const SIMPLE: Tag = Tag::context(0, false);
const SASL: Tag = Tag::context(3, true);
/// `version INTEGER (1 .. 127)`.
const VERSION_MAX: i32 = 127;
