//! Controls on the wire (RFC 4511 §4.1.11).
