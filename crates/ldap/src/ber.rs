//! BER as LDAP restricts it (RFC 4511 §5.1).
