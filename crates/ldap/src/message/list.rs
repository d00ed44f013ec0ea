//! Lists kept in wire form: checked once when the message is decoded, then walked in place.
//!
//! Invariant: the content of a [`List`] is a series of well-formed elements, so that walking it
//! cannot fail. Only decoding, a [`ListBuf`] and [`Values::from_ber_trusted`] make one.

use std::fmt;
use std::marker::PhantomData;

use crate::ber::{DecodeError, DecodeReason, Reader, Tag, Writer};

/// What a list is made of.
pub trait Element {
    /// One element, borrowed from the buffer.
    type Item<'a>: Copy + fmt::Debug + PartialEq;

    /// Reads the next element.
    fn read<'a>(reader: &mut Reader<'a>) -> Result<Self::Item<'a>, DecodeError>;

    /// Writes one element.
    fn write(item: &Self::Item<'_>, writer: &mut Writer<'_>);
}

/// A SEQUENCE OF or SET OF in wire form.
///
/// Equal lists have equal elements; their octets may differ in the form of a length.
pub struct List<'a, E> {
    content: &'a [u8],
    element: PhantomData<fn() -> E>,
}

impl<'a, E: Element> List<'a, E> {
    /// The list without elements.
    pub const EMPTY: Self = Self { content: &[], element: PhantomData };

    /// Whether it has no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Whether it has more elements than so many; walks the list only when it may have.
    pub(crate) fn is_longer_than(&self, max: usize) -> bool {
        self.as_ber().len() / ELEMENT_BYTES_MIN > max && self.len() > max
    }

    /// How many elements it has; walks the list.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// The elements, in order.
    #[must_use]
    pub const fn iter(&self) -> ListIter<'a, E> {
        ListIter { reader: Reader::new(self.content), element: PhantomData }
    }

    /// The elements as they are on the wire, without tag and length of the list.
    #[must_use]
    pub const fn as_ber(&self) -> &'a [u8] {
        self.content
    }

    /// Checks every element that `reader` has left.
    pub(crate) fn decode(reader: Reader<'a>) -> Result<Self, DecodeError> {
        Self::decode_checked(reader, |_| Ok(()))
    }

    /// Like [`Self::decode`], with a further rule for each element.
    pub(crate) fn decode_checked(
        mut reader: Reader<'a>,
        mut check: impl FnMut(E::Item<'a>) -> Result<(), DecodeReason>,
    ) -> Result<Self, DecodeError> {
        let content = reader.remaining();
        while !reader.is_empty() {
            let start = reader;
            check(E::read(&mut reader)?).map_err(|reason| start.error(reason))?;
        }
        Ok(Self { content, element: PhantomData })
    }

    /// Like [`Self::decode`], where RFC 4511 says SIZE (1..MAX).
    pub(crate) fn decode_filled(reader: Reader<'a>) -> Result<Self, DecodeError> {
        if reader.is_empty() {
            return Err(reader.error(DecodeReason::EmptyList));
        }
        Self::decode(reader)
    }
}

impl<E> Clone for List<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for List<'_, E> {}

impl<E: Element> Default for List<'_, E> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<E: Element> PartialEq for List<'_, E> {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content || self.iter().eq(other.iter())
    }
}

impl<E: Element> Eq for List<'_, E> {}

impl<E: Element> fmt::Debug for List<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, E: Element> IntoIterator for List<'a, E> {
    type Item = E::Item<'a>;
    type IntoIter = ListIter<'a, E>;

    fn into_iter(self) -> ListIter<'a, E> {
        self.iter()
    }
}

impl<'a, E: Element> IntoIterator for &List<'a, E> {
    type Item = E::Item<'a>;
    type IntoIter = ListIter<'a, E>;

    fn into_iter(self) -> ListIter<'a, E> {
        self.iter()
    }
}

/// Walks a [`List`].
pub struct ListIter<'a, E> {
    reader: Reader<'a>,
    element: PhantomData<fn() -> E>,
}

impl<E> Clone for ListIter<'_, E> {
    fn clone(&self) -> Self {
        Self { reader: self.reader, element: PhantomData }
    }
}

impl<E> fmt::Debug for ListIter<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListIter").field("reader", &self.reader).finish()
    }
}

impl<'a, E: Element> Iterator for ListIter<'a, E> {
    type Item = E::Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<E::Item<'a>> {
        if self.reader.is_empty() {
            return None;
        }
        let item = E::read(&mut self.reader);
        debug_assert!(item.is_ok(), "a list is checked before it is walked: {item:?}");
        item.ok()
    }
}

/// Builds a [`List`].
pub struct ListBuf<E> {
    content: Vec<u8>,
    element: PhantomData<fn() -> E>,
}

impl<E: Element> ListBuf<E> {
    /// A builder without elements.
    #[must_use]
    pub const fn new() -> Self {
        Self { content: Vec::new(), element: PhantomData }
    }

    /// A builder with room for so many octets of elements.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { content: Vec::with_capacity(bytes), element: PhantomData }
    }

    /// Appends an element.
    pub fn push(&mut self, item: E::Item<'_>) {
        E::write(&item, &mut Writer::new(&mut self.content));
    }

    /// The list built so far.
    #[must_use]
    pub fn as_ref(&self) -> List<'_, E> {
        List { content: &self.content, element: PhantomData }
    }

    /// Removes all elements and keeps the memory.
    pub fn clear(&mut self) {
        self.content.clear();
    }
}

impl<E: Element> Default for ListBuf<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Clone for ListBuf<E> {
    fn clone(&self) -> Self {
        Self { content: self.content.clone(), element: PhantomData }
    }
}

impl<E: Element> PartialEq for ListBuf<E> {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl<E: Element> Eq for ListBuf<E> {}

impl<E: Element> fmt::Debug for ListBuf<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl<'i, E: Element> Extend<E::Item<'i>> for ListBuf<E> {
    fn extend<I: IntoIterator<Item = E::Item<'i>>>(&mut self, items: I) {
        for item in items {
            self.push(item);
        }
    }
}

impl<'i, E: Element> FromIterator<E::Item<'i>> for ListBuf<E> {
    fn from_iter<I: IntoIterator<Item = E::Item<'i>>>(items: I) -> Self {
        let mut list = Self::new();
        list.extend(items);
        list
    }
}

/// An OCTET STRING, as attribute values are.
#[derive(Debug)]
pub enum Octets {}

impl Element for Octets {
    type Item<'a> = &'a [u8];

    #[inline]
    fn read<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], DecodeError> {
        reader.octets(Tag::OCTET_STRING)
    }

    fn write(item: &&[u8], writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, item);
    }
}

/// An OCTET STRING in UTF-8.
#[derive(Debug)]
pub enum Text {}

impl Element for Text {
    type Item<'a> = &'a str;

    fn read<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
        reader.string(Tag::OCTET_STRING)
    }

    fn write(item: &&str, writer: &mut Writer<'_>) {
        writer.octets(Tag::OCTET_STRING, item.as_bytes());
    }
}

/// Attribute values (`vals` in RFC 4511 §4.1.7).
pub type Values<'a> = List<'a, Octets>;
/// Builds [`Values`].
pub type ValuesBuf = ListBuf<Octets>;
/// Strings: attribute selections, referral URIs.
pub type Strings<'a> = List<'a, Text>;
/// Builds [`Strings`].
pub type StringsBuf = ListBuf<Text>;

impl<'a> Values<'a> {
    /// Values from a stored entry, which keeps them in wire form.
    ///
    /// The caller answers for `content` being whole OCTET STRING elements; checked in debug builds.
    #[must_use]
    pub fn from_ber_trusted(content: &'a [u8]) -> Self {
        debug_assert!(Self::decode(Reader::new(content)).is_ok(), "stored values are in wire form");
        Self { content, element: PhantomData }
    }
}

/// What an element takes at least: its tag and its length.
const ELEMENT_BYTES_MIN: usize = 2;
