//! The LDAPMessage envelope and every operation in it (RFC 4511 §4.2–§4.14).
