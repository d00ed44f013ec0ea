//! Attribute types (RFC 4512 §2.5.1), with everything they inherit resolved.
