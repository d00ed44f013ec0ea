//! Attribute descriptions (RFC 4512 §2.5): an attribute type and its options.
