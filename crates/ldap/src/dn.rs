//! Distinguished names as text (RFC 4514).
//!
//! A [`Dn`] holds what was written: attribute types in their spelling, values unescaped. Equality
//! here is octet by octet; whether two DNs name the same entry is for the schema to say.
//! Invariants: every attribute type is an `oid` (RFC 4512 §1.4), no RDN is empty, and the displayed
//! text parses back to an equal name.
//!
//! Accepted beyond the RFC: spaces around `,`, `+` and `=`; values in double quotes (RFC 2253 §4),
//! which clients still write. Refused although older RFCs knew them: `;` between RDNs, the prefix
//! `oid.`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::description::is_oid;

/// The longest DN accepted, in octets.
pub const DN_LENGTH_MAX_BYTES: usize = 64 * 1024;
/// The most RDNs in one DN.
pub const RDN_COUNT_MAX: usize = 256;
/// The most attribute value assertions in one RDN.
pub const AVA_COUNT_MAX: usize = 16;

/// A distinguished name, the leaf first; without RDNs it names the root of the tree.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Dn(Vec<Rdn>);

impl Dn {
    /// The zero-length DN, which names the root DSE.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Puts a name together, the leaf first.
    pub const fn new(rdns: Vec<Rdn>) -> Self {
        Self(rdns)
    }

    /// Parses the name of an entry that is stored, however long it has become: each rename is of
    /// one entry, and those below get longer names by it.
    pub fn parse_stored(text: &str) -> Result<Self, DnError> {
        let unlimited = DnLimits {
            length_max_bytes: usize::MAX,
            rdn_count_max: usize::MAX,
            ..DnLimits::default()
        };
        Self::parse_within(text, unlimited)
    }

    /// Parses a DN within the default [`DnLimits`].
    pub fn parse(text: &str) -> Result<Self, DnError> {
        Self::parse_within(text, DnLimits::default())
    }

    fn parse_within(text: &str, limits: DnLimits) -> Result<Self, DnError> {
        let mut rdns = Vec::new();
        let mut avas = Vec::new();
        for ava in parse_dn(text, limits) {
            let ava = ava?;
            let more_in_rdn = ava.more_in_rdn;
            avas.push(Ava::from(ava));
            if !more_in_rdn {
                rdns.push(Rdn(std::mem::take(&mut avas)));
            }
        }
        Ok(Self(rdns))
    }

    /// The RDNs, the leaf first.
    pub fn rdns(&self) -> &[Rdn] {
        &self.0
    }

    /// Whether this is the zero-length DN.
    pub const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The name without its leaf; the root has no parent.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_first().map(|(_, superiors)| Self(superiors.to_vec()))
    }

    /// The name of an entry beside this one, which has this leaf; the root stays what it is.
    pub fn with_leaf(mut self, leaf: Rdn) -> Self {
        if let Some(own) = self.0.first_mut() {
            *own = leaf;
        }
        self
    }

    /// The name of an entry directly below this one.
    pub fn child(&self, rdn: Rdn) -> Self {
        let mut rdns = Vec::with_capacity(self.0.len() + 1);
        rdns.push(rdn);
        rdns.extend_from_slice(&self.0);
        Self(rdns)
    }
}

impl FromStr for Dn {
    type Err = DnError;

    fn from_str(text: &str) -> Result<Self, DnError> {
        Self::parse(text)
    }
}

impl fmt::Display for Dn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (position, rdn) in self.0.iter().enumerate() {
            if position > 0 {
                text.push(',');
            }
            rdn.write(&mut text);
        }
        f.write_str(&text)
    }
}

/// A DN as text, in the one form that [`Dn`] writes: for names that are kept and told, and seldom
/// looked into.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct DnText(Arc<str>);

impl DnText {
    /// Reads a DN.
    ///
    /// # Errors
    /// As [`Dn::parse`], except that a text without any character that needs a second look is
    /// believed to be a DN: the names of entries are.
    pub fn of_entry(text: &str) -> Result<Self, DnError> {
        if is_as_written(text) {
            return Ok(Self(text.into()));
        }
        Ok(Self::from(&Dn::parse(text)?))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&Dn> for DnText {
    fn from(dn: &Dn) -> Self {
        Self(dn.to_string().into())
    }
}

impl fmt::Display for DnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a DN is surely written as [`Dn`] would write it: nothing in it is escaped, and no space
/// is beside a separator.
fn is_as_written(text: &str) -> bool {
    let mut is_at_separator = true;
    for octet in text.bytes() {
        let is_separator = matches!(octet, b',' | b'=' | b'+');
        match octet {
            b' ' if is_at_separator => return false,
            b' ' | b'.' | b'-' | b'_' | b'@' => is_at_separator = octet == b' ',
            _ if is_separator && is_at_separator => return false,
            _ if is_separator => is_at_separator = true,
            _ if octet.is_ascii_alphanumeric() => is_at_separator = false,
            _ => return false,
        }
    }
    !is_at_separator
}

/// A relative distinguished name: one or more attribute value assertions, in the order written.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Rdn(Vec<Ava>);

impl Rdn {
    /// An RDN of these assertions; none if there are none.
    pub fn new(avas: Vec<Ava>) -> Option<Self> {
        (!avas.is_empty()).then_some(Self(avas))
    }

    /// Parses one RDN, such as the new RDN of a Modify DN request.
    pub fn parse(text: &str) -> Result<Self, DnError> {
        let mut avas = Vec::new();
        for ava in parse_dn(text, DnLimits { rdn_count_max: 1, ..DnLimits::default() }) {
            avas.push(Ava::from(ava?));
        }
        Self::new(avas).ok_or(DnError { offset: text.len(), reason: DnReason::MissingRdn })
    }

    /// The assertions; at least one.
    pub fn avas(&self) -> &[Ava] {
        &self.0
    }

    fn write(&self, text: &mut String) {
        for (position, ava) in self.0.iter().enumerate() {
            if position > 0 {
                text.push('+');
            }
            text.push_str(&ava.attribute);
            text.push('=');
            escape_value(&ava.value, text);
        }
    }
}

impl fmt::Display for Rdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&text)
    }
}

/// An attribute value assertion of an RDN.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Ava {
    /// The attribute type as written: a short name or a dotted OID.
    pub attribute: String,
    /// The value's octets, unescaped.
    pub value: Vec<u8>,
}

impl From<AvaRef<'_>> for Ava {
    fn from(ava: AvaRef<'_>) -> Self {
        Self { attribute: ava.attribute.to_owned(), value: ava.value.into_owned() }
    }
}

/// An attribute value assertion, borrowed from the text of the DN where it holds no escapes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AvaRef<'a> {
    /// The attribute type as written.
    pub attribute: &'a str,
    /// The value's octets, unescaped.
    pub value: Cow<'a, [u8]>,
    /// Whether the next assertion belongs to the same RDN.
    pub more_in_rdn: bool,
}

/// Bounds the parsing of one DN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DnLimits {
    /// The longest text, in bytes.
    pub length_max_bytes: usize,
    /// The most RDNs.
    pub rdn_count_max: usize,
    /// The most assertions in one RDN.
    pub ava_count_max: usize,
}

impl Default for DnLimits {
    fn default() -> Self {
        Self {
            length_max_bytes: DN_LENGTH_MAX_BYTES,
            rdn_count_max: RDN_COUNT_MAX,
            ava_count_max: AVA_COUNT_MAX,
        }
    }
}

/// Walks the assertions of a DN from the leaf upwards; allocates only for values with escapes.
///
/// Ends after the first error.
pub const fn parse_dn(text: &str, limits: DnLimits) -> DnIter<'_> {
    DnIter { text, position: 0, limits, rdn_count: 0, ava_count: 0, next: Next::Start }
}

/// The walk that [`parse_dn`] starts.
#[derive(Clone, Debug)]
pub struct DnIter<'a> {
    text: &'a str,
    position: usize,
    limits: DnLimits,
    rdn_count: usize,
    ava_count: usize,
    next: Next,
}

/// What the walk expects next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Next {
    Start,
    Rdn,
    Ava,
    Nothing,
}

impl<'a> Iterator for DnIter<'a> {
    type Item = Result<AvaRef<'a>, DnError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next {
            Next::Nothing => return None,
            Next::Start => {
                if self.text.len() > self.limits.length_max_bytes {
                    self.next = Next::Nothing;
                    let reason = DnReason::TooLong { max: self.limits.length_max_bytes };
                    return Some(Err(DnError { offset: self.limits.length_max_bytes, reason }));
                }
                self.skip_spaces();
                if self.peek().is_none() {
                    self.next = Next::Nothing;
                    return None;
                }
                self.next = Next::Rdn;
            }
            Next::Rdn | Next::Ava => {}
        }
        let ava = self.ava();
        if ava.is_err() {
            self.next = Next::Nothing;
        }
        Some(ava)
    }
}

impl<'a> DnIter<'a> {
    fn ava(&mut self) -> Result<AvaRef<'a>, DnError> {
        self.skip_spaces();
        self.count()?;
        let attribute = self.attribute()?;
        let value = self.value()?;
        self.skip_spaces();
        self.next = match self.peek() {
            None => Next::Nothing,
            Some(b',') => Next::Rdn,
            Some(b'+') => Next::Ava,
            // Only after a hex string: a plain value ends at a separator or fails.
            Some(_) => return Err(self.error(DnReason::BadHexString)),
        };
        self.position += 1;
        Ok(AvaRef { attribute, value, more_in_rdn: self.next == Next::Ava })
    }

    fn count(&mut self) -> Result<(), DnError> {
        if self.next == Next::Rdn {
            self.rdn_count += 1;
            self.ava_count = 0;
        }
        self.ava_count += 1;
        if self.rdn_count > self.limits.rdn_count_max {
            return Err(self.error(DnReason::TooManyRdns { max: self.limits.rdn_count_max }));
        }
        if self.ava_count > self.limits.ava_count_max {
            return Err(self.error(DnReason::TooManyAvas { max: self.limits.ava_count_max }));
        }
        Ok(())
    }

    /// Reads an attribute type and the `=` after it.
    fn attribute(&mut self) -> Result<&'a str, DnError> {
        let start = self.position;
        let rest = self.rest();
        let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let length = rest.iter().position(|byte| !in_name(byte)).unwrap_or(rest.len());
        self.position += length;
        let attribute = self.text.get(start..self.position).unwrap_or_default();
        self.skip_spaces();
        match self.peek() {
            Some(b'=') => {}
            None | Some(b',' | b'+') if attribute.is_empty() => {
                return Err(self.error(DnReason::MissingRdn));
            }
            None | Some(b',' | b'+') => return Err(self.error(DnReason::MissingEquals)),
            Some(_) => return Err(self.error(DnReason::BadAttributeType)),
        }
        if !is_oid(attribute) {
            let has_prefix = attribute.get(..4).is_some_and(|p| p.eq_ignore_ascii_case("oid."));
            let reason = if has_prefix { DnReason::OidPrefix } else { DnReason::BadAttributeType };
            return Err(DnError { offset: start, reason });
        }
        self.position += 1;
        self.skip_spaces();
        Ok(attribute)
    }

    /// Reads a value up to its separator.
    fn value(&mut self) -> Result<Cow<'a, [u8]>, DnError> {
        match self.peek() {
            Some(b'#') => return self.hex_string().map(Cow::Owned),
            Some(b'"') => return self.quoted_value().map(Cow::Owned),
            _ => {}
        }
        let rest = self.rest();
        let length = rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len());
        let (plain, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        match after.first() {
            None | Some(b',' | b'+') => {
                self.position += length;
                Ok(Cow::Borrowed(without_padding(plain)))
            }
            Some(_) => self.escaped_value().map(Cow::Owned),
        }
    }

    /// Reads a value between double quotes, where all but `"` and `\` stands for itself.
    fn quoted_value(&mut self) -> Result<Vec<u8>, DnError> {
        let start = self.position;
        let unended = DnError { offset: start, reason: DnReason::QuotedValue };
        let mut value = Vec::new();
        loop {
            self.position += 1;
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => value.push(self.escape()?),
                Some(0) => return Err(self.error(DnReason::Nul)),
                Some(octet) => value.push(octet),
                None => return Err(unended),
            }
        }
        self.position += 1;
        self.skip_spaces();
        match self.peek() {
            None | Some(b',' | b'+') => Ok(value),
            Some(_) => Err(unended),
        }
    }

    /// Reads a value that holds escapes, or something that should have been escaped.
    fn escaped_value(&mut self) -> Result<Vec<u8>, DnError> {
        let mut value = Vec::new();
        // Unescaped spaces at the end are padding, escaped ones belong to the value.
        let mut length_without_padding = 0;
        while let Some(byte) = self.peek() {
            let octet = match byte {
                b',' | b'+' => break,
                b'\\' => self.escape()?,
                b';' => return Err(self.error(DnReason::Semicolon)),
                b'"' | b'<' | b'>' => return Err(self.error(DnReason::Unescaped(byte.into()))),
                0 => return Err(self.error(DnReason::Nul)),
                other => other,
            };
            self.position += 1;
            value.push(octet);
            if byte != b' ' {
                length_without_padding = value.len();
            }
        }
        value.truncate(length_without_padding);
        Ok(value)
    }

    /// Reads an escape up to its last character, which the caller steps over.
    fn escape(&mut self) -> Result<u8, DnError> {
        let escaped = self.rest();
        match escaped.get(1) {
            Some(
                &byte @ (b' ' | b'"' | b'#' | b'+' | b',' | b';' | b'<' | b'=' | b'>' | b'\\'),
            ) => {
                self.position += 1;
                Ok(byte)
            }
            Some(&high) => {
                let octet = escaped.get(2).and_then(|&low| hex_octet(high, low));
                let octet = octet.ok_or_else(|| self.error(DnReason::BadEscape))?;
                self.position += 2;
                Ok(octet)
            }
            None => Err(self.error(DnReason::BadEscape)),
        }
    }

    /// Reads `#` and the hex digits of a BER element; gives the content of its string type.
    fn hex_string(&mut self) -> Result<Vec<u8>, DnError> {
        let start = self.position;
        self.position += 1;
        let rest = self.rest();
        let length = rest.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(rest.len());
        let (pairs, odd) = rest.get(..length).unwrap_or_default().as_chunks::<2>();
        if pairs.is_empty() || !odd.is_empty() {
            return Err(DnError { offset: start, reason: DnReason::BadHexString });
        }
        self.position += length;
        let ber: Vec<u8> = pairs.iter().filter_map(|[high, low]| hex_octet(*high, *low)).collect();
        match string_content(&ber) {
            Ok(content) => Ok(content.to_vec()),
            Err(reason) => Err(DnError { offset: start, reason }),
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.position += 1;
        }
    }

    const fn error(&self, reason: DnReason) -> DnError {
        DnError { offset: self.position, reason }
    }
}

/// Appends `value` in the form of RFC 4514 §2.4.
///
/// Control characters and octets that are not UTF-8 become `\xx`, so the result is printable.
pub fn escape_value(value: &[u8], out: &mut String) {
    let is_plain =
        |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'@');
    if value.iter().all(is_plain)
        && let Ok(text) = std::str::from_utf8(value)
    {
        return out.push_str(text);
    }
    let mut chunk_start = 0;
    for chunk in value.utf8_chunks() {
        for (position, character) in chunk.valid().char_indices() {
            let at = chunk_start + position;
            match character {
                '"' | '+' | ',' | ';' | '<' | '>' | '\\' => out.extend(['\\', character]),
                ' ' if at == 0 || at + 1 == value.len() => out.push_str("\\ "),
                '#' if at == 0 => out.push_str("\\#"),
                '\0'..='\x1F' | '\x7F' => push_octet_escape(character as u8, out),
                _ => out.push(character),
            }
        }
        for octet in chunk.invalid() {
            push_octet_escape(*octet, out);
        }
        chunk_start += chunk.valid().len() + chunk.invalid().len();
    }
}

/// Appends an octet as `\xx`, the form DNs and filters share.
pub(crate) fn push_octet_escape(octet: u8, out: &mut String) {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or_default();
    out.extend(['\\', digit(octet >> 4), digit(octet & 0xF)]);
}

/// The octet that two hex digits stand for.
pub(crate) fn hex_octet(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|v| u8::try_from(v).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Whether an octet ends the plain part of a value.
const fn is_special(byte: u8) -> bool {
    matches!(byte, b',' | b'+' | b'\\' | b'"' | b';' | b'<' | b'>' | 0)
}

fn without_padding(mut value: &[u8]) -> &[u8] {
    while let Some((b' ', rest)) = value.split_last() {
        value = rest;
    }
    value
}

/// The content of a BER element if it is one of the string types whose octets LDAP sends as they
/// are: OCTET STRING, UTF8String, NumericString, PrintableString, IA5String, VisibleString.
fn string_content(ber: &[u8]) -> Result<&[u8], DnReason> {
    let (&tag, rest) = ber.split_first().ok_or(DnReason::BadHexString)?;
    let (length, content) = ber_length(rest).ok_or(DnReason::BadHexString)?;
    if length != content.len() {
        return Err(DnReason::BadHexString);
    }
    match tag {
        0x04 | 0x0C | 0x12 | 0x13 | 0x16 | 0x1A => Ok(content),
        tag => Err(DnReason::HexStringType { tag }),
    }
}

fn ber_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    // A DN is too short for a length of more than three octets.
    let (octets, content) = rest.split_at_checked(usize::from(first & 0x7F))?;
    let is_definite = (1..=3).contains(&octets.len());
    let length = octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet));
    is_definite.then_some((length, content))
}

/// Why a text is not a DN, and where.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DnError {
    /// The byte of the text at which the trouble begins.
    pub offset: usize,
    /// What is wrong there.
    pub reason: DnReason,
}

impl fmt::Display for DnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.reason, self.offset)
    }
}

impl std::error::Error for DnError {}

/// What is wrong with the text of a DN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DnReason {
    /// The text is longer than the limit, in bytes.
    TooLong {
        /// The limit.
        max: usize,
    },
    /// There are more RDNs than the limit.
    TooManyRdns {
        /// The limit.
        max: usize,
    },
    /// One RDN has more assertions than the limit.
    TooManyAvas {
        /// The limit.
        max: usize,
    },
    /// Nothing stands where an RDN or an assertion must.
    MissingRdn,
    /// An attribute type is not followed by `=`.
    MissingEquals,
    /// What stands before `=` is neither a short name nor a dotted OID.
    BadAttributeType,
    /// A dotted OID has the prefix `oid.` of older RFCs.
    OidPrefix,
    /// A character stands in a value that must be escaped there.
    Unescaped(char),
    /// A value begins with a double quote, and does not end with one.
    QuotedValue,
    /// A semicolon separates RDNs, or stands unescaped in a value.
    Semicolon,
    /// A zero octet stands in a value.
    Nul,
    /// A backslash is not followed by a special character or two hex digits.
    BadEscape,
    /// What follows `#` is not one BER element in hex digits.
    BadHexString,
    /// The BER element after `#` is of a type without a string form here.
    HexStringType {
        /// Its tag octet.
        tag: u8,
    },
}

impl fmt::Display for DnReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { max } => write!(f, "the DN is longer than {max} bytes"),
            Self::TooManyRdns { max } => write!(f, "the DN has more RDNs than {max}"),
            Self::TooManyAvas { max } => {
                write!(f, "an RDN has more attribute values than {max}")
            }
            Self::MissingRdn => f.write_str("an RDN such as cn=name is missing"),
            Self::MissingEquals => f.write_str("an attribute type is not followed by '='"),
            Self::BadAttributeType => f.write_str(
                "an attribute type must be a name of letters, digits and hyphens or a dotted OID",
            ),
            Self::OidPrefix => f.write_str("write the OID without the prefix 'oid.'"),
            Self::Unescaped(character) => {
                write!(f, "'{character}' in a value must be written as '\\{character}'")
            }
            Self::QuotedValue => f.write_str(
                "a value that begins with '\"' must end with '\"': \
                 write '\\\"' for the character itself",
            ),
            Self::Semicolon => f.write_str(
                "';' does not separate RDNs: write ',', or '\\;' for the character itself",
            ),
            Self::Nul => f.write_str("a zero octet in a value must be written as '\\00'"),
            Self::BadEscape => f.write_str(
                "'\\' must be followed by two hex digits or one of ' \"#+,;<=>\\': \
                 write '\\\\' for the character itself",
            ),
            Self::BadHexString => f.write_str(
                "'#' must be followed by one BER element in hex digits: \
                 write '\\#' for the character itself",
            ),
            Self::HexStringType { tag } => write!(
                f,
                "a value of BER type 0x{tag:02x} has no string form here: \
                 write the value as text"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
