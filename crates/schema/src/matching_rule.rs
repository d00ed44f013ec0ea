//! The table of matching rules (RFC 4517 §4).
