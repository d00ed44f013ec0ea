//! What of a message a receiver is ready to decode.

use crate::ber::{DecodeError, DecodeReason, Reader, Tag};
use crate::dn::DN_LENGTH_MAX_BYTES;
use crate::filter::{FILTER_DEPTH_MAX, FILTER_TERMS_MAX};

/// What a receiver is ready to decode; by default as much as the text forms allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// How deep filters may nest; a single item has depth 1.
    pub filter_depth_max: u16,
    /// How many terms a filter may have, counting each operator, item and substring.
    pub filter_terms_max: u32,
    /// How long a name may be, in bytes.
    pub dn_length_max_bytes: usize,
    /// How many controls a message may have.
    pub controls_max: usize,
    /// How many attributes a search may ask for by name.
    pub selected_max: usize,
    /// How many modifications one request may have.
    pub modifications_max: usize,
}

impl DecodeLimits {
    /// Reads a DN, whose length is limited; its syntax is not looked at.
    pub(crate) fn read_name<'a>(
        &self,
        reader: &mut Reader<'a>,
        tag: Tag,
    ) -> Result<&'a str, DecodeError> {
        let start = *reader;
        let name = reader.string(tag)?;
        if name.len() > self.dn_length_max_bytes {
            return Err(start.error(DecodeReason::NameTooLong));
        }
        Ok(name)
    }
}

/// The longest name in a request, in octets. Its key is made several times, and of text beyond
/// ASCII that takes a millisecond for each 8 KiB.
pub const NAME_LENGTH_MAX_BYTES: usize = 16 * 1024;

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            filter_depth_max: FILTER_DEPTH_MAX,
            filter_terms_max: FILTER_TERMS_MAX,
            dn_length_max_bytes: DN_LENGTH_MAX_BYTES,
            controls_max: CONTROLS_MAX,
            selected_max: SELECTED_MAX,
            modifications_max: MODIFICATIONS_MAX,
        }
    }
}

/// Default of [`DecodeLimits::controls_max`].
pub const CONTROLS_MAX: usize = 64;
/// How many attributes a search may ask for by name.
pub const SELECTED_MAX: usize = 10_000;
/// How many modifications one request may have.
pub const MODIFICATIONS_MAX: usize = 20_000;
