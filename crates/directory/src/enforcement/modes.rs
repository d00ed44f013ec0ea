//! `RULE: MODE`: what becomes of changes that break a rule of the schema.

use std::sync::Arc;

use schema::{Schema, SchemaRule, Tolerance};

use crate::lines::Line;
use crate::lines::scanner::{LINE_MAX_BYTES, LineError, Parsed, wrong};

/// The setting with the modes.
pub const MODES: &str = "schema-modes";

/// What becomes of a change that breaks a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RuleMode {
    /// It is refused.
    Reject,
    /// It is accepted, counted and logged.
    Warn,
    /// It is accepted and counted.
    Accept,
}

impl RuleMode {
    /// Every mode.
    const ALL: [Self; 3] = [Self::Reject, Self::Warn, Self::Accept];

    fn name(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Warn => "warn",
            Self::Accept => "accept",
        }
    }
}

/// A line of the setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ModeLine {
    /// The rule.
    pub(crate) rule: SchemaRule,
    /// What becomes of changes that break it.
    pub(crate) mode: RuleMode,
}

impl ModeLine {
    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        if text.len() > LINE_MAX_BYTES {
            return wrong(format!("the mode has more than {LINE_MAX_BYTES} bytes"));
        }
        let Some((rule, mode)) = text.split_once(':') else {
            return wrong("it is a rule and its mode, as in 'syntax: warn'");
        };
        let (rule, mode) = (rule.trim(), mode.trim());
        let known = SchemaRule::ALL.into_iter().find(|one| one.name() == rule);
        let Some(rule) = known else {
            let all = SchemaRule::ALL.map(SchemaRule::name).join(", ");
            return wrong(format!("'{rule}' is no rule; there are: {all}"));
        };
        let Some(mode) = RuleMode::ALL.into_iter().find(|one| one.name() == mode) else {
            let all = RuleMode::ALL.map(RuleMode::name).join(", ");
            return wrong(format!("'{mode}' is no mode; there are: {all}"));
        };
        Ok(Self { rule, mode })
    }
}

impl ModeLine {
    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> SchemaRule {
        self.rule
    }
}

impl std::fmt::Display for ModeLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.mode.name())
    }
}

impl Line for ModeLine {
    const SETTING: &'static str = MODES;

    fn read(text: &str, _: &Schema) -> Parsed<Self> {
        Self::parse(text)
    }
}

/// The modes in force.
#[derive(Clone)]
pub(crate) struct Modes(Arc<[ModeLine]>);

impl Modes {
    /// As these lines say it.
    pub(crate) fn new(lines: Arc<[ModeLine]>) -> Self {
        Self(lines)
    }

    /// What becomes of changes that break a rule; none where that is not looked at.
    pub(crate) fn of(&self, rule: SchemaRule) -> Option<RuleMode> {
        let said = self.0.iter().find(|line| line.rule == rule).map(|line| line.mode);
        said.or(match rule {
            SchemaRule::NameForm | SchemaRule::StructureRule => None,
            SchemaRule::Required
            | SchemaRule::Allowed
            | SchemaRule::Content
            | SchemaRule::Syntax
            | SchemaRule::SingleValue
            | SchemaRule::StructuralClass => Some(RuleMode::Reject),
        })
    }

    /// What a change may break.
    pub(crate) fn tolerance(&self) -> Tolerance {
        // Mostly nothing is said.
        if self.0.is_empty() {
            return Tolerance::none();
        }
        Tolerance::of(tolerated(&self.0))
    }
}

/// The rules that may be broken.
pub fn tolerated(lines: &[ModeLine]) -> impl Iterator<Item = SchemaRule> {
    lines.iter().filter(|line| line.mode != RuleMode::Reject).map(|line| line.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_rule_and_its_mode() {
        let read = ModeLine::parse(" single-value :accept ").unwrap();
        assert_eq!(read.to_string(), "single-value: accept");
        assert_eq!(read, ModeLine { rule: SchemaRule::SingleValue, mode: RuleMode::Accept });
        for (text, why) in [
            ("syntax", "it is a rule and its mode"),
            ("colour: warn", "'colour' is no rule; there are: required, allowed, content-rule"),
            ("syntax: maybe", "'maybe' is no mode; there are: reject, warn, accept"),
            ("syntax: Warn", "'Warn' is no mode"),
        ] {
            let error = ModeLine::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(ModeLine::parse(&"x".repeat(LINE_MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn what_is_not_said_is_refused_or_not_looked_at() {
        let lines = ["syntax: warn", "required: accept", "name-form: reject"];
        let lines = lines.into_iter().map(|text| ModeLine::parse(text).unwrap());
        let modes = Modes::new(lines.collect());
        assert_eq!(modes.of(SchemaRule::Syntax), Some(RuleMode::Warn));
        assert_eq!(modes.of(SchemaRule::Allowed), Some(RuleMode::Reject));
        assert_eq!(modes.of(SchemaRule::NameForm), Some(RuleMode::Reject));
        assert_eq!(modes.of(SchemaRule::StructureRule), None);
        let tolerance = modes.tolerance();
        let allowed = SchemaRule::ALL.into_iter().filter(|rule| tolerance.allows(*rule));
        assert_eq!(allowed.collect::<Vec<_>>(), [SchemaRule::Required, SchemaRule::Syntax]);
    }
}
