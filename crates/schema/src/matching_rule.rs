//! The table of matching rules (RFC 4517 §4).

/// What a rule decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleKind {
    /// Whether two values match.
    Equality,
    /// Which of two values comes first.
    Ordering,
    /// Whether a value holds some pieces.
    Substring,
}

/// A matching rule.
pub struct MatchingRule {
    /// Its object identifier.
    pub oid: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What it decides.
    pub kind: RuleKind,
    /// The syntax of assertion values, as an OID.
    pub syntax: &'static str,
}

impl MatchingRule {
    /// Whether it can compare values of the syntax with this OID.
    pub fn applies_to(&self, syntax: &str) -> bool {
        self.syntax == syntax
    }
}

/// Every matching rule.
pub static MATCHING_RULES: &[MatchingRule] = &[];
