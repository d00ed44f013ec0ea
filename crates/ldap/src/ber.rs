//! BER as LDAP restricts it (RFC 4511 §5.1): definite lengths, primitive strings, TRUE is 0xFF.
//!
//! Invariants: a [`Reader`] never looks past its slice, never allocates and never recurses; a
//! length need not be minimal (many clients write `84 00 00 00 05`) but takes at most four octets;
//! integers are minimal (X.690 §8.3.2). A [`Writer`] writes minimal lengths only.

use std::fmt;

/// The first octet of an element: class, primitive or constructed, and a number below 31.
///
/// LDAP needs no higher numbers; the reader refuses the long form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u8);

impl Tag {
    /// Universal BOOLEAN.
    pub const BOOLEAN: Self = Self(0x01);
    /// Universal INTEGER.
    pub const INTEGER: Self = Self(0x02);
    /// Universal OCTET STRING, primitive.
    pub const OCTET_STRING: Self = Self(0x04);
    /// Universal NULL.
    pub const NULL: Self = Self(0x05);
    /// Universal ENUMERATED.
    pub const ENUMERATED: Self = Self(0x0A);
    /// Universal SEQUENCE and SEQUENCE OF.
    pub const SEQUENCE: Self = Self(0x30);
    /// Universal SET and SET OF.
    pub const SET: Self = Self(0x31);

    /// The tag `[APPLICATION number]`; `number` is below 31.
    #[must_use]
    pub const fn application(number: u8, constructed: bool) -> Self {
        Self::with_class(CLASS_APPLICATION, number, constructed)
    }

    /// The tag `[number]`; `number` is below 31.
    #[must_use]
    pub const fn context(number: u8, constructed: bool) -> Self {
        Self::with_class(CLASS_CONTEXT, number, constructed)
    }

    /// The number within its class.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0 & NUMBER_MASK
    }

    /// Whether it is one of ASN.1's own types.
    #[must_use]
    pub const fn is_universal(self) -> bool {
        self.0 & CLASS_MASK == 0
    }

    /// Whether it is a context-specific tag, `[n]`.
    #[must_use]
    pub const fn is_context(self) -> bool {
        self.0 & CLASS_MASK == CLASS_CONTEXT
    }

    const fn with_class(class: u8, number: u8, constructed: bool) -> Self {
        assert!(number < NUMBER_MASK);
        Self(class | number | if constructed { CONSTRUCTED } else { 0 })
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag(0x{:02X})", self.0)
    }
}

/// Why octets are not the message they should be, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Octets from the start of the message to the element at fault.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: DecodeReason,
}

/// What is wrong with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeReason {
    /// The octets end before the element does.
    Truncated,
    /// A length of 0x80, which RFC 4511 §5.1 forbids.
    IndefiniteLength,
    /// More than four length octets, or a length of 2³¹ or more.
    LengthTooLong,
    /// The message is longer than the receiver allows.
    MessageTooLong,
    /// A tag number of 31 or more; LDAP has none.
    HighTagNumber,
    /// Another element is expected here, or none.
    UnexpectedTag(Tag),
    /// A BOOLEAN that is neither 0x00 nor 0xFF.
    BadBoolean,
    /// An INTEGER or ENUMERATED that is empty, not minimal or too large for any LDAP field.
    BadInteger,
    /// A number its field does not allow.
    OutOfRange,
    /// A string that is not UTF-8.
    BadUtf8,
    /// A NULL with content.
    BadNull,
    /// Octets follow the last element.
    TrailingBytes,
    /// An empty list where RFC 4511 says SIZE (1..MAX).
    EmptyList,
    /// Substrings out of order: `initial` not first, `final` not last, or either of them twice.
    SubstringOrder,
    /// A substring without octets (RFC 4517 §3.3.30).
    EmptySubstring,
    /// An extensible match with neither a rule nor an attribute (RFC 4511 §4.5.1.7.7).
    EmptyMatchingRule,
    /// Filters nested deeper than the limit.
    TooDeep,
    /// More filter terms than the limit.
    TooManyTerms,
    /// More controls than the limit.
    TooManyControls,
    /// More attributes asked for than the limit.
    TooManyAttributes,
    /// More modifications in one request than the limit.
    TooManyModifications,
    /// A name longer than the limit.
    NameTooLong,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.reason, self.offset)
    }
}

impl std::error::Error for DecodeError {}

impl fmt::Display for DecodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "element ends too early",
            Self::IndefiniteLength => "indefinite length",
            Self::LengthTooLong => "length too long",
            Self::MessageTooLong => "message longer than allowed",
            Self::HighTagNumber => "tag number above 30",
            Self::UnexpectedTag(tag) => return write!(f, "unexpected tag 0x{:02x}", tag.0),
            Self::BadBoolean => "boolean is not one octet",
            Self::BadInteger => "integer is empty, too long or not minimal",
            Self::OutOfRange => "number out of range",
            Self::BadUtf8 => "string is not utf-8",
            Self::BadNull => "null with content",
            Self::TrailingBytes => "trailing octets",
            Self::EmptyList => "list must not be empty",
            Self::SubstringOrder => "substrings out of order",
            Self::EmptySubstring => "empty substring",
            Self::EmptyMatchingRule => "extensible match without rule and attribute",
            Self::TooDeep => "the filter is nested deeper than 100 levels",
            Self::TooManyTerms => "the filter has more than 10000 terms",
            Self::TooManyControls => "too many controls",
            Self::TooManyAttributes => "more than 10000 attributes are asked for",
            Self::TooManyModifications => {
                "a request has at most 20000 modifications; one may have many values"
            }
            Self::NameTooLong => "name longer than allowed",
        })
    }
}

/// What the start of a receive buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first message is whole: its length in bytes, header included.
    Complete(usize),
    /// More must be read.
    Incomplete {
        /// How many bytes the buffer must hold before it is worth looking again.
        need_at_least: usize,
    },
}

/// Looks at the start of a receive buffer: is the first message whole, and how long is it?
///
/// Refuses what cannot become a message before its octets are there: another first tag than
/// SEQUENCE, an indefinite length, a message above `message_size_max` bytes (header included).
pub fn frame(buffer: &[u8], message_size_max: usize) -> Result<Frame, DecodeError> {
    let refuse = |reason| Err(DecodeError { offset: 0, reason });
    let Some((&first, rest)) = buffer.split_first() else {
        return Ok(Frame::Incomplete { need_at_least: 2 });
    };
    if Tag(first) != Tag::SEQUENCE {
        return refuse(DecodeReason::UnexpectedTag(Tag(first)));
    }
    match parse_length(rest) {
        Ok((length, length_octets)) => {
            let total = 1 + length_octets + length;
            if total > message_size_max {
                refuse(DecodeReason::MessageTooLong)
            } else if total > buffer.len() {
                Ok(Frame::Incomplete { need_at_least: total })
            } else {
                Ok(Frame::Complete(total))
            }
        }
        Err(LengthFault::Refused(reason)) => refuse(reason),
        Err(LengthFault::NeedOctets(octets)) => Ok(Frame::Incomplete { need_at_least: 1 + octets }),
    }
}

/// Reads elements from a slice, front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// Where `bytes` starts in the message; for errors only.
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader over the elements in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The octets not read yet.
    #[must_use]
    pub const fn remaining(&self) -> &'a [u8] {
        self.bytes
    }

    /// Octets from the start of the message to the next element.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// An error at the next element.
    #[must_use]
    pub const fn error(&self, reason: DecodeReason) -> DecodeError {
        DecodeError { offset: self.offset, reason }
    }

    /// The tag of the next element, if there is one.
    #[must_use]
    pub fn peek_tag(&self) -> Option<Tag> {
        self.bytes.first().map(|&octet| Tag(octet))
    }

    /// Reads the next element, whatever it is.
    pub fn read_any(&mut self) -> Result<(Tag, &'a [u8]), DecodeError> {
        let (tag, content, _) = self.element()?;
        Ok((tag, content))
    }

    /// Reads the next element, which must have this tag, and returns its content.
    #[inline]
    pub fn read(&mut self, tag: Tag) -> Result<&'a [u8], DecodeError> {
        self.expect_tag(tag)?;
        let (_, content, _) = self.element()?;
        Ok(content)
    }

    /// Reads the next element if it has this tag; `None` leaves it where it is.
    pub fn read_optional(&mut self, tag: Tag) -> Result<Option<&'a [u8]>, DecodeError> {
        if self.peek_tag() == Some(tag) { self.read(tag).map(Some) } else { Ok(None) }
    }

    /// Reads a primitive string of octets.
    pub fn octets(&mut self, tag: Tag) -> Result<&'a [u8], DecodeError> {
        self.read(tag)
    }

    /// Reads a string that must be UTF-8 (LDAPString, LDAPDN, LDAPOID, …).
    #[inline]
    pub fn string(&mut self, tag: Tag) -> Result<&'a str, DecodeError> {
        let start = *self;
        let content = self.read(tag)?;
        str::from_utf8(content).map_err(|_| start.error(DecodeReason::BadUtf8))
    }

    /// Reads a string if the next element has this tag.
    pub fn string_optional(&mut self, tag: Tag) -> Result<Option<&'a str>, DecodeError> {
        if self.peek_tag() == Some(tag) { self.string(tag).map(Some) } else { Ok(None) }
    }

    /// Reads an INTEGER of at most eight octets.
    pub fn integer_i64(&mut self, tag: Tag) -> Result<i64, DecodeError> {
        let start = *self;
        parse_integer(self.read(tag)?).ok_or(start.error(DecodeReason::BadInteger))
    }

    /// Reads an INTEGER that must fit 32 bits.
    pub fn integer_i32(&mut self, tag: Tag) -> Result<i32, DecodeError> {
        let start = *self;
        let number = self.integer_i64(tag)?;
        i32::try_from(number).map_err(|_| start.error(DecodeReason::OutOfRange))
    }

    /// Reads an INTEGER (0..maxInt), maxInt being 2³¹ − 1 (RFC 4511 §4.1.1).
    pub fn unsigned(&mut self, tag: Tag) -> Result<u32, DecodeError> {
        let start = *self;
        let number = self.integer_i32(tag)?;
        u32::try_from(number).map_err(|_| start.error(DecodeReason::OutOfRange))
    }

    /// Reads an ENUMERATED, never negative in LDAP.
    pub fn enumerated(&mut self, tag: Tag) -> Result<u32, DecodeError> {
        self.unsigned(tag)
    }

    /// Reads a BOOLEAN: senders write TRUE as 0xFF (RFC 4511 §5.1), of what they should write a
    /// reader makes TRUE of all but 0, as BER does (X.690 §8.2.2).
    pub fn boolean(&mut self, tag: Tag) -> Result<bool, DecodeError> {
        let start = *self;
        match self.read(tag)? {
            [octet] => Ok(*octet != 0),
            _ => Err(start.error(DecodeReason::BadBoolean)),
        }
    }

    /// Reads a constructed element and returns a reader over what is inside.
    #[inline]
    pub fn sequence(&mut self, tag: Tag) -> Result<Self, DecodeError> {
        self.expect_tag(tag)?;
        let (_, content, header) = self.element()?;
        Ok(Reader { bytes: content, offset: header })
    }

    /// Like [`Self::sequence`], if the next element has this tag.
    pub fn sequence_optional(&mut self, tag: Tag) -> Result<Option<Self>, DecodeError> {
        if self.peek_tag() == Some(tag) { self.sequence(tag).map(Some) } else { Ok(None) }
    }

    /// Refuses whatever is left.
    pub fn end(&self) -> Result<(), DecodeError> {
        if self.is_empty() { Ok(()) } else { Err(self.error(DecodeReason::TrailingBytes)) }
    }

    /// Ends a SEQUENCE: later versions of the protocol may have added components, which are ignored
    /// (RFC 4511 §4). A universal tag or one of `known`, constructed or not, is no addition and
    /// refused.
    #[inline]
    pub fn end_extensible(&mut self, known: &[Tag]) -> Result<(), DecodeError> {
        while let Some(tag) = self.peek_tag() {
            let is_known = known.iter().any(|known| (known.0 ^ tag.0) & !CONSTRUCTED == 0);
            if tag.is_universal() || is_known {
                return Err(self.error(DecodeReason::UnexpectedTag(tag)));
            }
            self.element()?;
        }
        Ok(())
    }

    fn expect_tag(&self, tag: Tag) -> Result<(), DecodeError> {
        match self.peek_tag() {
            Some(found) if found == tag => Ok(()),
            Some(found) => Err(self.error(DecodeReason::UnexpectedTag(found))),
            None => Err(self.error(DecodeReason::Truncated)),
        }
    }

    /// Reads one element: its tag, its content, and the offset of that content in the message.
    #[inline]
    fn element(&mut self) -> Result<(Tag, &'a [u8], usize), DecodeError> {
        let Some((&tag, rest)) = self.bytes.split_first() else {
            return Err(self.error(DecodeReason::Truncated));
        };
        if tag & NUMBER_MASK == NUMBER_MASK {
            return Err(self.error(DecodeReason::HighTagNumber));
        }
        let (length, length_octets) = match parse_length(rest) {
            Ok(parsed) => parsed,
            Err(LengthFault::NeedOctets(_)) => return Err(self.error(DecodeReason::Truncated)),
            Err(LengthFault::Refused(reason)) => return Err(self.error(reason)),
        };
        let content_start = 1 + length_octets;
        let content_end = content_start + length;
        let (Some(content), Some(after)) =
            (self.bytes.get(content_start..content_end), self.bytes.get(content_end..))
        else {
            return Err(self.error(DecodeReason::Truncated));
        };
        let content_offset = self.offset + content_start;
        self.offset += content_end;
        self.bytes = after;
        Ok((Tag(tag), content, content_offset))
    }
}

/// Appends elements to a buffer.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

/// An element begun with [`Writer::begin`]: where its length is to be.
#[derive(Debug)]
#[must_use = "the element has no length until it is given to Writer::end"]
pub struct OpenElement {
    length_at: usize,
}

impl<'b> Writer<'b> {
    /// A writer that appends to `out`.
    pub const fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Begins an element whose length is not known yet; [`Self::end`] completes it.
    pub fn begin(&mut self, tag: Tag) -> OpenElement {
        self.out.extend_from_slice(&[tag.0, 0]);
        OpenElement { length_at: self.out.len() - 1 }
    }

    /// Begins an element that will likely hold 256 to 65,535 octets: [`Self::end`] need not move
    /// these, and moves a shorter content down.
    pub fn begin_long(&mut self, tag: Tag) -> OpenElement {
        self.out.extend_from_slice(&[tag.0, 0x82, 0, 0]);
        OpenElement { length_at: self.out.len() - 3 }
    }

    /// Completes the element: everything written since [`Self::begin`] is its content.
    pub fn end(&mut self, element: OpenElement) {
        let reserved = match self.out.get(element.length_at) {
            Some(0) => 1,
            Some(_) => 3,
            None => unreachable!("an element lies within the buffer it was made for"),
        };
        let content_at = element.length_at + reserved;
        let (octets, count) = length_octets(self.out.len() - content_at);
        let (octets, _) = octets.split_at(count);
        if count == reserved
            && let Some(place) = self.out.get_mut(element.length_at..content_at)
        {
            place.copy_from_slice(octets);
        } else {
            self.out.splice(element.length_at..content_at, octets.iter().copied());
        }
    }

    /// Writes tag and length of an element whose `content_len` octets the caller writes next.
    #[inline]
    pub fn header(&mut self, tag: Tag, content_len: usize) {
        if content_len < 0x80 {
            // Truncation cannot happen: the length is below 0x80.
            self.out.extend_from_slice(&[tag.0, content_len as u8]);
        } else {
            let (octets, count) = length_octets(content_len);
            self.out.push(tag.0);
            self.out.extend_from_slice(octets.split_at(count).0);
        }
    }

    /// Writes a primitive string of octets.
    #[inline]
    pub fn octets(&mut self, tag: Tag, content: &[u8]) {
        self.header(tag, content.len());
        self.out.extend_from_slice(content);
    }

    /// Writes an INTEGER in its minimal form.
    pub fn integer(&mut self, tag: Tag, number: i64) {
        let octets = number.to_be_bytes();
        let (_, content) = octets.split_at(octets.len() - integer_len(number));
        self.octets(tag, content);
    }

    /// Writes an ENUMERATED.
    pub fn enumerated(&mut self, tag: Tag, number: u32) {
        self.integer(tag, i64::from(number));
    }

    /// Writes a BOOLEAN.
    pub fn boolean(&mut self, tag: Tag, value: bool) {
        self.out.extend_from_slice(&[tag.0, 1, if value { 0xFF } else { 0 }]);
    }

    /// Writes whole elements that are in wire form already.
    #[inline]
    pub fn raw(&mut self, elements: &[u8]) {
        self.out.extend_from_slice(elements);
    }

    /// Makes room for `additional` octets at once.
    pub fn reserve(&mut self, additional: usize) {
        self.out.reserve(additional);
    }
}

/// How many octets an element with `content_len` octets of content takes in all.
#[must_use]
pub const fn tlv_len(content_len: usize) -> usize {
    1 + length_octets(content_len).1 + content_len
}

/// How many content octets the minimal form of an INTEGER takes.
#[must_use]
pub const fn integer_len(number: i64) -> usize {
    // One bit more than the magnitude needs, for the sign.
    let magnitude = if number < 0 { !number } else { number };
    ((64 - magnitude.leading_zeros()) / 8 + 1) as usize
}

/// The minimal length octets, and how many of the array they are.
const fn length_octets(length: usize) -> ([u8; 5], usize) {
    let [.., a, b, c, d] = (length as u64).to_be_bytes();
    match length {
        0..=0x7F => ([d, 0, 0, 0, 0], 1),
        0x80..=0xFF => ([0x81, d, 0, 0, 0], 2),
        0x100..=0xFFFF => ([0x82, c, d, 0, 0], 3),
        0x1_0000..=0xFF_FFFF => ([0x83, b, c, d, 0], 4),
        _ => {
            // No client leads here. What a server writes holds an entry (its record has at most 256
            // MiB, and so have its rows of values), the entries that an update reads (limited for
            // a whole transaction together), or
            // what one request had in it, whose size is limited as well.
            assert!(length <= LENGTH_MAX, "an LDAP element holds less than 2 GiB");
            ([0x84, a, b, c, d], 5)
        }
    }
}

enum LengthFault {
    /// This many octets must be there before the length is known.
    NeedOctets(usize),
    Refused(DecodeReason),
}

/// Reads length octets at the start of `bytes`: the length, and how many octets said so.
#[inline]
fn parse_length(bytes: &[u8]) -> Result<(usize, usize), LengthFault> {
    let Some((&first, rest)) = bytes.split_first() else {
        return Err(LengthFault::NeedOctets(1));
    };
    if first < 0x80 {
        return Ok((usize::from(first), 1));
    }
    let count = usize::from(first & 0x7F);
    if count == 0 {
        return Err(LengthFault::Refused(DecodeReason::IndefiniteLength));
    }
    if count > LENGTH_OCTETS_MAX {
        return Err(LengthFault::Refused(DecodeReason::LengthTooLong));
    }
    let Some(octets) = rest.get(..count) else {
        return Err(LengthFault::NeedOctets(1 + count));
    };
    let length = octets.iter().fold(0u64, |length, &octet| length << 8 | u64::from(octet));
    match usize::try_from(length) {
        Ok(length) if length <= LENGTH_MAX => Ok((length, 1 + count)),
        Ok(_) | Err(_) => Err(LengthFault::Refused(DecodeReason::LengthTooLong)),
    }
}

/// The value of an INTEGER's content octets; `None` when empty, longer than eight or not minimal.
fn parse_integer(content: &[u8]) -> Option<i64> {
    let (&first, rest) = content.split_first()?;
    // The first nine bits must not be all equal (X.690 §8.3.2).
    let padded = match rest.first() {
        Some(&second) => first == 0 && second < 0x80 || first == 0xFF && second >= 0x80,
        None => false,
    };
    if padded || content.len() > 8 {
        return None;
    }
    // The first octet carries the sign: extend it.
    let start = i64::from(i8::from_be_bytes([first]));
    Some(rest.iter().fold(start, |number, &octet| number << 8 | i64::from(octet)))
}

const CLASS_MASK: u8 = 0xC0;
const CLASS_APPLICATION: u8 = 0x40;
const CLASS_CONTEXT: u8 = 0x80;
const CONSTRUCTED: u8 = 0x20;
const NUMBER_MASK: u8 = 0x1F;

/// The most octets that may follow the first length octet.
pub const LENGTH_OCTETS_MAX: usize = 4;
/// The longest content of one element, in octets: maxInt of RFC 4511 §4.1.1.
pub const LENGTH_MAX: usize = 0x7FFF_FFFF;
