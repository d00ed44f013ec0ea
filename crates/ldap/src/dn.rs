//! Distinguished names as text (RFC 4514).
