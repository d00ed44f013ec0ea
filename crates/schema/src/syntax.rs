//! The table of syntaxes (RFC 4517 §3).

/// A syntax.
pub struct Syntax {
    /// Its object identifier.
    pub oid: &'static str,
    /// Its name, as published in `ldapSyntaxes`.
    pub name: &'static str,
    /// Whether values are text that a person can read.
    pub human_readable: bool,
}

/// Every syntax.
pub static SYNTAXES: &[Syntax] = &[];
