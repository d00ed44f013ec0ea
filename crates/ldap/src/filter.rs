//! Search filters and their text form (RFC 4515, RFC 4526).

use std::borrow::Cow;

/// A search filter (RFC 4511 §4.5.1.7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter<'a> {
    /// True when all of them are; an empty one is the absolute true filter (RFC 4526 §2).
    And(Vec<Filter<'a>>),
    /// True when one of them is; an empty one is the absolute false filter (RFC 4526 §2).
    Or(Vec<Filter<'a>>),
    /// Inverts its filter.
    Not(Box<Filter<'a>>),
    /// `(cn=x)`.
    Equality(AvaFilter<'a>),
    /// `(cn=a*b*c)`.
    Substrings(SubstringFilter<'a>),
    /// `(cn>=x)`.
    GreaterOrEqual(AvaFilter<'a>),
    /// `(cn<=x)`.
    LessOrEqual(AvaFilter<'a>),
    /// `(cn=*)`.
    Present(&'a str),
    /// `(cn~=x)`.
    Approx(AvaFilter<'a>),
    /// `(cn:dn:rule:=x)`.
    Extensible(ExtensibleFilter<'a>),
}

/// An attribute description and the value asserted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvaFilter<'a> {
    /// The attribute description.
    pub description: &'a str,
    /// The assertion value, unescaped.
    pub value: Cow<'a, [u8]>,
}

/// A substring assertion; at least one piece is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubstringFilter<'a> {
    /// The attribute description.
    pub description: &'a str,
    /// What the value must start with.
    pub initial: Option<Cow<'a, [u8]>>,
    /// What it must contain, in this order.
    pub any: Vec<Cow<'a, [u8]>>,
    /// What it must end with.
    pub final_: Option<Cow<'a, [u8]>>,
}

/// A matching rule assertion; a rule or a description is present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensibleFilter<'a> {
    /// The matching rule, by name or OID.
    pub rule: Option<&'a str>,
    /// The attribute description.
    pub description: Option<&'a str>,
    /// The assertion value, unescaped.
    pub value: Cow<'a, [u8]>,
    /// Whether the attributes of the DN are compared as well.
    pub dn_attributes: bool,
}
