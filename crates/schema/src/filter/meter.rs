//! What it costs to evaluate a filter, counted while it goes on.
//!
//! A step is about a nanosecond of a processor of today. Counted it is the same everywhere, so that
//! limits mean the same on every machine.
//!
//! Invariant: whatever depends on the number of terms, of pieces, of values or on their lengths is
//! counted before it is done, or right after; preparing a value before, because nothing ends it.

use crate::rules::{Compare, Holds, MatchingRule};

/// Counts the steps of evaluations; asks now and then whether to go on.
pub struct Meter<'m> {
    left: u64,
    is_over: bool,
    more: Option<&'m mut dyn FnMut() -> u64>,
}

impl<'m> Meter<'m> {
    /// Has `left` steps, and then as many as `more` gives; when it gives none, that is the end.
    pub fn new(left: u64, more: &'m mut dyn FnMut() -> u64) -> Self {
        Self { left, is_over: false, more: Some(more) }
    }

    /// For evaluations that nothing ends.
    pub const fn unlimited() -> Self {
        Self { left: u64::MAX, is_over: false, more: None }
    }

    /// Counts; says whether to go on.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> bool {
        match self.left.checked_sub(steps) {
            Some(left) if !self.is_over => {
                self.left = left;
                true
            }
            Some(_) | None => self.ask(steps),
        }
    }

    /// Steps that are left until the next question.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Whether there are no more.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    #[cold]
    fn ask(&mut self, steps: u64) -> bool {
        let Some(more) = &mut self.more else { return true };
        while !self.is_over && self.left < steps {
            let given = more();
            self.is_over = given == 0;
            self.left = self.left.saturating_add(given);
        }
        self.left = self.left.saturating_sub(steps);
        !self.is_over
    }
}

impl std::fmt::Debug for Meter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { left, is_over, more: _ } = self;
        f.debug_struct("Meter")
            .field("left", left)
            .field("is_over", is_over)
            .finish_non_exhaustive()
    }
}

impl MatchingRule {
    /// What preparing a value and comparing it costs, in steps.
    #[inline]
    pub fn steps(&self, value: &[u8]) -> u64 {
        // The usual ones.
        if matches!(self.holds, Holds::Plain | Holds::Text) && self.compare == Compare::Key {
            let is_unicode = self.holds == Holds::Text && !value.is_ascii();
            let of_octet = if is_unicode { 2 + UNICODE_OCTET_STEPS } else { 2 };
            return VALUE_STEPS + value.len() as u64 * of_octet;
        }
        self.steps_of_rare(value)
    }

    fn steps_of_rare(&self, value: &[u8]) -> u64 {
        let of_octet = match (self.compare, self.holds) {
            // Sounds are found letter by letter.
            (Compare::Words, _) => 64,
            (_, Holds::Name) => NAME_OCTET_STEPS,
            (_, Holds::Certificate) => CERTIFICATE_OCTET_STEPS,
            // To find the bits of many digits takes as many passes over what was found.
            (Compare::AllBits | Compare::AnyBits, Holds::Plain | Holds::Text) => {
                2 + value.len() as u64 / 256
            }
            (Compare::Key | Compare::Word | Compare::Chain, Holds::Plain | Holds::Text) => 2,
        };
        VALUE_STEPS + value.len() as u64 * of_octet + self.unicode_steps(value)
    }

    /// The part of [`Self::steps`] that is spent on what is not ASCII: such texts are normalized
    /// character by character.
    pub fn unicode_steps(&self, value: &[u8]) -> u64 {
        let octets = match self.holds {
            Holds::Plain | Holds::Certificate => 0,
            Holds::Text if value.is_ascii() => 0,
            Holds::Text => value.len(),
            Holds::Name => unicode_octets_of_name(value),
        };
        octets as u64 * UNICODE_OCTET_STEPS
    }
}

/// What making the key of a name costs, in steps. A short one is not looked at for that.
pub fn steps_of_name(name: &str) -> u64 {
    if name.len() <= SHORT_NAME_BYTES {
        return name.len() as u64 * NAME_OCTET_STEPS;
    }
    let unicode = unicode_octets_of_name(name.as_bytes()) as u64;
    name.len() as u64 * NAME_OCTET_STEPS + unicode * UNICODE_OCTET_STEPS
}

/// Octets of the assertions of a name that may hold more than ASCII, escaped or not.
fn unicode_octets_of_name(name: &[u8]) -> usize {
    let is_simple = |octet: &u8| octet.is_ascii() && !matches!(octet, b'\\' | b'#');
    if name.iter().all(is_simple) {
        return 0;
    }
    // Separators in quotes are none, either.
    if name.contains(&b'"') {
        return name.len();
    }
    // A separator that is escaped is none: what follows is of the same assertion.
    let (mut octets, mut goes_on) = (0, false);
    for part in name.split(|octet| matches!(octet, b',' | b'+')) {
        if goes_on || !part.iter().all(is_simple) {
            octets += part.len();
        }
        goes_on = part.ends_with(b"\\");
    }
    octets
}

/// A term of the filter: finding its attribute, and whether the asker may search by it.
pub(super) const TERM_STEPS: u64 = 100;
/// A value, whatever its length.
const VALUE_STEPS: u64 = 20;
/// Looking for one piece of a substring assertion, besides the length of the value.
pub(super) const PIECE_STEPS: u64 = 40;
/// An attribute of an entry, when a rule is asked of all.
pub(super) const ATTRIBUTE_STEPS: u64 = 20;
/// Reading an octet of a name.
pub(super) const NAME_OCTET_STEPS: u64 = 8;
/// Such a name costs some microseconds, whatever it is made of.
const SHORT_NAME_BYTES: usize = 256;
/// Reading an octet of a certificate, part of which are names.
const CERTIFICATE_OCTET_STEPS: u64 = 24;
/// Normalizing an octet of a text that is not ASCII, or is beside one that is not.
const UNICODE_OCTET_STEPS: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching_rule::MATCHING_RULES;

    #[test]
    fn what_is_not_ascii_costs_more_and_only_where_it_is_normalized() {
        let unicode = |rule: &str, value: &str| {
            let rule = MatchingRule::find(rule).unwrap();
            let (all, of_it) = (rule.steps(value.as_bytes()), rule.unicode_steps(value.as_bytes()));
            assert!(of_it < all, "{rule:?} {value}");
            of_it / UNICODE_OCTET_STEPS
        };
        for rule in ["caseIgnoreMatch", "caseExactSubstringsMatch", "caseIgnoreListMatch"] {
            assert_eq!(unicode(rule, "plain text"), 0);
            assert_eq!(unicode(rule, "gr\u{FC}n"), 5);
        }
        for rule in ["octetStringMatch", "integerMatch", "certificateListExactMatch"] {
            assert_eq!(unicode(rule, "gr\u{FC}n"), 0, "{rule}");
        }
    }

    #[test]
    fn rules_that_normalize_are_known_to() {
        let schema = crate::schema::Schema::builtin();
        let plain = MATCHING_RULES.iter().filter(|rule| rule.holds == Holds::Plain);
        for rule in plain {
            let (value, mut key) = ("x\u{FB01}".as_bytes(), Vec::new());
            let prepared = (rule.prepare)(&schema, value, &mut key);
            assert!(prepared.is_err() || key == value, "{rule:?}");
        }
    }

    #[test]
    fn of_a_name_the_assertions_that_are_not_ascii_cost_more() {
        let rule = MatchingRule::find("distinguishedNameMatch").unwrap();
        let check = |name: &str, octets: u64| {
            let found = rule.unicode_steps(name.as_bytes()) / UNICODE_OCTET_STEPS;
            assert_eq!(found, octets, "{name}");
        };
        check("cn=a+sn=b,dc=example,dc=org", 0);
        check("cn=\u{FC},dc=example,dc=org", 5);
        check("dc=example,cn=a+sn=\u{FC}", 5);
        check("cn=\\C3\\BC,dc=example", 9);
        // What follows is of the same assertion.
        check("cn=a\\,bcd,dc=example", 8);
        check("cn=\"\u{FC},bcd\",dc=example", 22);
        check("cn=#0401,dc=example", 8);
    }
}
