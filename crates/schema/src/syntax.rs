//! The table of syntaxes (RFC 4517 §3).
