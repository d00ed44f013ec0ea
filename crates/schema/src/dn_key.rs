//! Names as keys: DNs that name the same entry have equal keys.
//!
//! A [`DnKey`] holds the RDNs from the root down, each ended by an octet 0; a multi-valued RDN holds
//! its assertions sorted, with an octet 1 between them; an assertion is the lower-case first name of
//! its type, `=` and the value as the type's equality rule prepares it.
//!
//! Invariants: octets 0 and 1 occur nowhere else (in values they are escaped by an octet 2), so the
//! form is injective, and the key of a superior is a prefix of the key of an inferior.

use std::fmt;

use ldap::dn::{Dn, DnError, DnLimits, Rdn, parse_dn};

use crate::matching_rule::Holds;
use crate::schema::Schema;

/// The key of a DN.
#[derive(Clone, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DnKey(Vec<u8>);

impl DnKey {
    /// The key of the zero-length DN.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Resolves a DN in text form.
    pub fn from_text(schema: &Schema, text: &str) -> Result<Self, InvalidDn> {
        let mut key = Vec::with_capacity(text.len() + KEY_RESERVE_BYTES);
        Self::write(schema, text, &mut key)?;
        Ok(Self(key))
    }

    /// Resolves a DN.
    pub fn from_dn(schema: &Schema, name: &Dn) -> Result<Self, InvalidDn> {
        let mut key = Vec::new();
        let mut writer = RdnSequenceWriter::new(schema, &mut key);
        for rdn in name.rdns().iter().rev() {
            writer.rdn(rdn)?;
        }
        Ok(Self(key))
    }

    /// The key from octets that [`Self::as_bytes`] gave.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The octets of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The RDNs from the root down, each as the octets of an [`RdnKey`].
    pub fn rdns(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0
            .split_inclusive(|&byte| byte == RDN_END)
            .map(|rdn| rdn.strip_suffix(&[RDN_END]).unwrap_or(rdn))
    }

    /// The number of RDNs.
    pub fn depth(&self) -> usize {
        self.0.iter().filter(|&&byte| byte == RDN_END).count()
    }

    /// Whether this is the key of the zero-length DN.
    pub const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The key without its leaf; the root has no parent.
    pub fn parent(&self) -> Option<Self> {
        let (_, rest) = self.0.split_last()?;
        let length = rest.iter().rposition(|&byte| byte == RDN_END).map_or(0, |end| end + 1);
        Some(Self(rest.get(..length).unwrap_or_default().to_vec()))
    }

    /// The leaf; the root has none.
    pub fn leaf(&self) -> Option<RdnKey> {
        self.rdns().next_back().map(|rdn| RdnKey(rdn.to_vec()))
    }

    /// Whether this names `base` or one of its subordinates.
    pub fn is_within(&self, base: &Self) -> bool {
        self.0.starts_with(&base.0)
    }

    /// Goes down to the subordinate with this RDN.
    pub fn push(&mut self, rdn: &RdnKey) {
        self.0.extend_from_slice(&rdn.0);
        self.0.push(RDN_END);
    }

    /// Appends the key of a DN in text form to `out`.
    pub fn write(schema: &Schema, text: &str, out: &mut Vec<u8>) -> Result<(), InvalidDn> {
        write_text(&mut RdnSequenceWriter::new(schema, out), text)
    }
}

impl fmt::Debug for DnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DnKey({})", self.0.escape_ascii())
    }
}

/// The key of an RDN; the entries below one superior have different ones.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RdnKey(Vec<u8>);

impl RdnKey {
    /// Resolves an RDN.
    pub fn from_rdn(schema: &Schema, rdn: &Rdn) -> Result<Self, InvalidDn> {
        let mut key = Vec::new();
        RdnSequenceWriter::new(schema, &mut key).rdn(rdn)?;
        key.pop();
        Ok(Self(key))
    }

    /// The key of a naming context below the root of the tree: its whole name counts as one RDN.
    pub fn of_naming_context(name: &DnKey) -> Self {
        Self(name.0.strip_suffix(&[RDN_END]).unwrap_or(&name.0).to_vec())
    }

    /// The key from octets that [`Self::as_bytes`] or [`DnKey::rdns`] gave.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The octets of the key, without the one that ends it in a [`DnKey`].
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RdnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RdnKey({})", self.0.escape_ascii())
    }
}

/// Why a DN has no key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InvalidDn {
    /// The text is not a DN.
    Syntax(DnError),
    /// The value of this attribute type breaks the rule by which it is compared.
    Value {
        /// The attribute type, as written.
        attribute: String,
        /// What the value is not, or does wrong.
        reason: &'static str,
    },
    /// An RDN holds the same assertion twice.
    RepeatedAva,
}

impl InvalidDn {
    /// The reason without its place.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "is not a distinguished name",
            Self::Value { reason, .. } => reason,
            Self::RepeatedAva => "holds the same assertion twice in one RDN",
        }
    }
}

impl fmt::Display for InvalidDn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Value { attribute, reason } => write!(f, "the value of '{attribute}' {reason}"),
            Self::RepeatedAva => write!(f, "name {}", self.reason()),
        }
    }
}

impl std::error::Error for InvalidDn {}

/// Appends RDNs to a key.
pub(crate) struct RdnSequenceWriter<'s, 'o> {
    schema: &'s Schema,
    out: &'o mut Vec<u8>,
    /// Where the RDN that is being written starts.
    rdn_start: usize,
    /// How many DNs this one is a value in.
    depth: usize,
}

impl<'s, 'o> RdnSequenceWriter<'s, 'o> {
    pub(crate) const fn new(schema: &'s Schema, out: &'o mut Vec<u8>) -> Self {
        let rdn_start = out.len();
        Self { schema, out, rdn_start, depth: 0 }
    }

    fn rdn(&mut self, rdn: &Rdn) -> Result<(), InvalidDn> {
        let last = rdn.avas().len().saturating_sub(1);
        for (position, ava) in rdn.avas().iter().enumerate() {
            self.ava(&ava.attribute, &ava.value, position < last)?;
        }
        Ok(())
    }

    /// Appends an assertion; the last of its RDN ends the RDN.
    pub(crate) fn ava(
        &mut self,
        attribute: &str,
        value: &[u8],
        more_in_rdn: bool,
    ) -> Result<(), InvalidDn> {
        let is_first = self.out.len() == self.rdn_start;
        if !is_first {
            self.out.push(AVA_SEPARATOR);
        }
        self.assertion(attribute, value)?;
        if more_in_rdn {
            return Ok(());
        }
        if !is_first {
            self.sort_rdn()?;
        }
        self.out.push(RDN_END);
        self.rdn_start = self.out.len();
        Ok(())
    }

    fn assertion(&mut self, attribute: &str, value: &[u8]) -> Result<(), InvalidDn> {
        let Some(kind) = self.schema.attribute_type(attribute) else {
            // Nothing is known about it: the name in any case, the value octet by octet.
            self.out.extend(attribute.bytes().map(|byte| byte.to_ascii_lowercase()));
            self.out.push(b'=');
            let start = self.out.len();
            self.out.extend_from_slice(value);
            escape(self.out, start);
            return Ok(());
        };
        self.out.extend_from_slice(kind.key().as_bytes());
        self.out.push(b'=');
        let start = self.out.len();
        let invalid = |reason| InvalidDn::Value { attribute: attribute.to_owned(), reason };
        let rule = kind.equality;
        match (rule, rule.map_or(Holds::Plain, |rule| rule.holds)) {
            (Some(rule), Holds::Plain) => {
                (rule.prepare)(self.schema, value, self.out).map_err(|error| invalid(error.0))?;
            }
            (_, Holds::Name) => self.nested(value).map_err(|error| invalid(error.reason()))?,
            // A certificate may hold a name with a certificate with a name …
            (None, _) | (_, Holds::Certificate) => self.out.extend_from_slice(value),
        }
        escape(self.out, start);
        Ok(())
    }

    /// Appends the key of a DN that is a value in this one.
    fn nested(&mut self, value: &[u8]) -> Result<(), InvalidDn> {
        let invalid = |reason| InvalidDn::Value { attribute: String::new(), reason };
        if self.depth >= NESTING_MAX {
            return Err(invalid("is a name in a name in a name"));
        }
        let text = std::str::from_utf8(value).map_err(|_| invalid("is not UTF-8"))?;
        let rdn_start = self.out.len();
        let depth = self.depth + 1;
        let mut writer = RdnSequenceWriter { schema: self.schema, out: self.out, rdn_start, depth };
        write_text(&mut writer, text)
    }

    fn sort_rdn(&mut self) -> Result<(), InvalidDn> {
        let rdn = self.out.split_off(self.rdn_start);
        let mut avas: Vec<&[u8]> = rdn.split(|&byte| byte == AVA_SEPARATOR).collect();
        avas.sort_unstable();
        if avas.array_windows().any(|[one, next]| one == next) {
            return Err(InvalidDn::RepeatedAva);
        }
        self.out.extend_from_slice(&avas.join(&AVA_SEPARATOR));
        Ok(())
    }
}

/// Appends the RDNs of a DN in text form.
fn write_text(writer: &mut RdnSequenceWriter<'_, '_>, text: &str) -> Result<(), InvalidDn> {
    let start = writer.out.len();
    for ava in parse_dn(text, DnLimits::default()) {
        let ava = ava.map_err(InvalidDn::Syntax)?;
        writer.ava(ava.attribute, &ava.value, ava.more_in_rdn)?;
    }
    // The text has the leaf first. Turning all octets around, and then those of each RDN, leaves
    // the RDNs in the order of the key without a second buffer.
    let key = writer.out.get_mut(start..).unwrap_or_default();
    key.reverse();
    let mut rest = key;
    while let [_, inner @ ..] = &*rest {
        let end = inner.iter().position(|&byte| byte == RDN_END).map_or(rest.len(), |end| end + 1);
        let (rdn, after) = std::mem::take(&mut rest).split_at_mut(end);
        rdn.reverse();
        rest = after;
    }
    Ok(())
}

/// Escapes the octets that give a key its structure, from `start` on.
fn escape(out: &mut Vec<u8>, start: usize) {
    let needs_escape = |byte: &u8| *byte <= ESCAPE;
    let value = out.get(start..).unwrap_or_default();
    if !value.iter().any(needs_escape) {
        return;
    }
    let plain = out.split_off(start);
    for byte in plain {
        if needs_escape(&byte) {
            out.extend([ESCAPE, byte + ESCAPED_OFFSET]);
        } else {
            out.push(byte);
        }
    }
}

const RDN_END: u8 = 0;
const AVA_SEPARATOR: u8 = 1;
const ESCAPE: u8 = 2;
/// Added to an escaped octet, so that it is none of the three.
const ESCAPED_OFFSET: u8 = 3;
/// How deep a name may be a value inside a name.
const NESTING_MAX: usize = 1;
/// What the key of a name may take more than its text: the octet that ends the last RDN.
const KEY_RESERVE_BYTES: usize = 16;
