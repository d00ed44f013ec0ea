//! What is counted and logged of changes that break rules of the schema and may.
//!
//! Invariant: a change is counted once for each rule, when it is made; one that is refused or only
//! tried is not.

use std::sync::atomic::{AtomicU64, Ordering};

use ldap::dn::Dn;
use schema::{SchemaRule, Tolerance};

use super::modes::{Modes, RuleMode};
use crate::request::seldom::Seldom;

/// What a change breaks.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The entry.
    name: String,
    rules: Vec<BrokenRule>,
}

#[derive(Debug)]
struct BrokenRule {
    rule: SchemaRule,
    diagnostic: String,
    is_logged: bool,
}

impl Broken {
    /// What of the entry was tolerated, if anything.
    pub(crate) fn of(name: &Dn, tolerance: Tolerance, modes: &Modes) -> Option<Self> {
        let broken = tolerance.into_broken();
        if broken.is_empty() {
            return None;
        }
        let rules = broken.into_iter().map(|(rule, violation)| BrokenRule {
            rule,
            diagnostic: violation.diagnostic,
            is_logged: modes.of(rule) == Some(RuleMode::Warn),
        });
        Some(Self { name: name.to_string(), rules: rules.collect() })
    }
}

/// How many changes broke each rule, since the start.
#[derive(Debug, Default)]
pub(crate) struct BrokenRules([AtomicU64; SchemaRule::ALL.len()]);

impl BrokenRules {
    /// Notes what a change breaks.
    pub(crate) fn note(&self, broken: &Broken, seldom: &Seldom) {
        for BrokenRule { rule, diagnostic, is_logged } in &broken.rules {
            if let Some(count) = self.0.get(rule.place()) {
                count.fetch_add(1, Ordering::Relaxed);
            }
            if *is_logged {
                // A name may be as long as a request.
                let name =
                    broken.name.get(..broken.name.floor_char_boundary(NAME_LOGGED_MAX_BYTES));
                let (entry, rule) = (name.unwrap_or_default(), rule.name());
                seldom.line(|left_out| {
                    tracing::warn!(
                        ?entry,
                        rule,
                        why = diagnostic,
                        left_out,
                        "an entry breaks the schema"
                    );
                });
            }
        }
    }

    /// The rules, and how many changes broke each.
    pub(crate) fn counts(&self) -> [(&'static str, u64); SchemaRule::ALL.len()] {
        SchemaRule::ALL.map(|rule| {
            let count = self.0.get(rule.place()).map(|count| count.load(Ordering::Relaxed));
            (rule.name(), count.unwrap_or_default())
        })
    }
}

/// So much of the name of an entry is logged, in bytes.
const NAME_LOGGED_MAX_BYTES: usize = 512;
