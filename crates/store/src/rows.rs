//! What rows hold: keys, names, entry records, and the numbers of attribute descriptions.

pub(crate) mod apart;
pub(crate) mod dictionary;
pub(crate) mod entry;
pub(crate) mod key;
pub(crate) mod names;
pub(crate) mod record;
pub mod varint;
