//! Search filters on the wire (RFC 4511 §4.5.1.7).
