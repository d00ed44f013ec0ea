//! Object classes (RFC 4512 §2.4), with their superiors and attribute lists resolved.
