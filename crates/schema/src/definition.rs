//! Definitions as text (RFC 4512 §4.1): one parser and one printer for all eight kinds.
