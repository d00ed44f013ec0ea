//! A record of a source as it was read: a name and values, nothing resolved yet.

use std::borrow::Cow;

/// What a record says, borrowed from the block it was read from as far as that is possible.
#[derive(Clone, Debug, Default)]
pub(super) struct RawRecord<'r> {
    /// The DN as written, not parsed.
    pub(super) dn: Cow<'r, str>,
    /// Descriptions and values in the order of the file, a pair for each value.
    pub(super) attributes: Vec<(Cow<'r, str>, Cow<'r, [u8]>)>,
}

impl<'r> RawRecord<'r> {
    /// A record that borrows all it holds.
    pub(super) fn borrowed(
        dn: &'r str,
        attributes: impl Iterator<Item = (&'r str, &'r [u8])>,
    ) -> Self {
        let attributes = attributes
            .map(|(description, value)| (Cow::Borrowed(description), Cow::Borrowed(value)))
            .collect();
        Self { dn: Cow::Borrowed(dn), attributes }
    }
}
