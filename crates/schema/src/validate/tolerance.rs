//! Which rules of the schema an entry may break, where its administrator says so.
//!
//! Invariant: what other parts of the server rely on is never tolerated: values that name entries
//! are names, what the server acts on is as its definition says, and each class is defined.

use crate::acted_on::is_acted_on;
use crate::attribute_type::AttributeType;
use crate::syntax::oid;
use crate::violation::Violation;

/// A rule of the schema that entries may be allowed to break.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SchemaRule {
    /// Object classes require attributes.
    Required,
    /// Object classes allow attributes.
    Allowed,
    /// DIT content rules require, allow and forbid (RFC 4512 §4.1.6).
    Content,
    /// Values have the syntax of their type.
    Syntax,
    /// Some types take one value.
    SingleValue,
    /// One structural class is derived from all others (RFC 4512 §2.4.2).
    StructuralClass,
    /// The RDN is as a name form says (RFC 4512 §4.1.7.2).
    NameForm,
    /// An entry stands where a structure rule lets it (RFC 4512 §4.1.7.1).
    StructureRule,
}

impl SchemaRule {
    /// Every rule.
    pub const ALL: [Self; 8] = [
        Self::Required,
        Self::Allowed,
        Self::Content,
        Self::Syntax,
        Self::SingleValue,
        Self::StructuralClass,
        Self::NameForm,
        Self::StructureRule,
    ];

    /// What it is called in settings, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Allowed => "allowed",
            Self::Content => "content-rule",
            Self::Syntax => "syntax",
            Self::SingleValue => "single-value",
            Self::StructuralClass => "structural-class",
            Self::NameForm => "name-form",
            Self::StructureRule => "structure-rule",
        }
    }

    /// Its number, from 0 on, in the order of [`Self::ALL`].
    #[must_use]
    pub const fn place(self) -> usize {
        self as usize
    }
}

/// The rules that were broken, each once, and how.
pub type ToleratedViolations = Vec<(SchemaRule, Violation)>;

/// The rules that an entry may break, and how it does.
///
/// Of each rule the first violation is kept, so that it takes little memory however many there are.
#[derive(Debug, Default)]
pub struct Tolerance {
    rules: [bool; SchemaRule::ALL.len()],
    broken: ToleratedViolations,
}

impl Tolerance {
    /// No rule may be broken.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// These rules may be broken.
    #[must_use]
    pub fn of(rules: impl IntoIterator<Item = SchemaRule>) -> Self {
        let mut found = Self::default();
        for rule in rules {
            if let Some(place) = found.rules.get_mut(rule.place()) {
                *place = true;
            }
        }
        found
    }

    /// Whether a rule may be broken.
    #[must_use]
    pub fn allows(&self, rule: SchemaRule) -> bool {
        self.rules.get(rule.place()).copied().unwrap_or_default()
    }

    /// Keeps a violation in mind that may be; returns another one.
    ///
    /// # Errors
    /// The violation.
    pub fn judge(
        &mut self,
        rule: SchemaRule,
        is_bearable: bool,
        violation: impl FnOnce() -> Violation,
    ) -> Result<(), Violation> {
        if !is_bearable || !self.allows(rule) {
            return Err(violation());
        }
        if !self.is_broken(rule) {
            self.broken.push((rule, violation()));
        }
        Ok(())
    }

    /// Whether a rule was broken, and may be.
    #[must_use]
    pub fn is_broken(&self, rule: SchemaRule) -> bool {
        self.broken.iter().any(|(known, _)| *known == rule)
    }

    /// The rules that were broken, each once, and how.
    #[must_use]
    pub fn into_broken(self) -> ToleratedViolations {
        self.broken
    }
}

/// Whether nothing but users and applications minds that values of a type are too many, or not
/// there, or none of their syntax.
pub(super) fn is_bearable(kind: &AttributeType) -> bool {
    let names_entries = [oid::DN, oid::NAME_AND_OPTIONAL_UID].contains(&kind.syntax.oid);
    !is_acted_on(kind) && !names_entries
}

/// Whether an entry may have such values that has no class for them.
pub(super) fn is_bearable_anywhere(kind: &AttributeType) -> bool {
    !is_acted_on(kind)
}
