//! A chain as one asker sees it: what its statements say where nothing is asked of an entry.

use std::ops::Deref;
use std::sync::Arc;

use schema::{AttributeDescription, Schema, Truth};

use super::{AccessSubject, Everywhere, Object, bind, set_bit, target};
use crate::rule::{Bind, Right};
use crate::set::{Chain, Found, Mask, Row};

/// A chain, and what is known of it for one asker.
pub(super) struct Applied {
    pub(super) chain: Arc<Chain>,
    /// The statements that apply to every entry.
    pub(super) always: Mask,
    /// Those that depend on the entry, with what is left of their rules: by position.
    pub(super) open: Mask,
    rules: Vec<(usize, Bind)>,
    /// For each row of the chain what holds for all entries.
    rows: Vec<Known>,
    /// Rights to the entry itself, without an attribute, that hold for all entries.
    entry: Known,
}

/// For reading, searching, comparing and writing: whether the right is there, if that does not
/// depend on the entry.
type Known = [Option<bool>; KNOWN_RIGHTS.len()];

/// The rights that are asked for most, first among all.
const KNOWN_RIGHTS: [Right; 4] = [Right::Read, Right::Search, Right::Compare, Right::Write];

/// Something applied that is kept, or was made for one question.
pub(super) enum Held<'r> {
    Kept(Found, &'r Applied),
    Made(Arc<Applied>),
}

impl Held<'_> {
    pub(super) fn shared(&self) -> Held<'_> {
        match self {
            Self::Kept(found, applied) => Held::Kept(*found, applied),
            Self::Made(applied) => Held::Made(Arc::clone(applied)),
        }
    }
}

impl Deref for Held<'_> {
    type Target = Applied;

    fn deref(&self) -> &Applied {
        match self {
            Self::Kept(_, applied) => applied,
            Self::Made(applied) => applied,
        }
    }
}

impl Applied {
    pub(super) fn new(chain: &Arc<Chain>, asker: &AccessSubject<'_>, schema: &Schema) -> Self {
        let words = chain.words();
        let (mut always, mut open) = (vec![0; words], vec![0; words]);
        let mut rules = Vec::new();
        for (position, link) in chain.links.iter().enumerate() {
            let statement = link.statement();
            let rule = bind::reduce(&statement.rule, asker, schema);
            let mask = match rule {
                Bind::Known(Truth::False) => continue,
                Bind::Known(Truth::Undefined) if statement.allows => continue,
                Bind::Known(_) if !target::depends_on_entry(link) => &mut always,
                rule => {
                    rules.push((position, rule));
                    &mut open
                }
            };
            set_bit(mask, position);
        }
        let (rows, entry) = (Vec::new(), [None; KNOWN_RIGHTS.len()]);
        let mut applied = Self { chain: Arc::clone(chain), always, open, rules, rows, entry };
        let of_row = |row: &[u64]| KNOWN_RIGHTS.map(|right| applied.decide(row, right));
        applied.rows = chain.rows().map(of_row).collect();
        applied.entry = KNOWN_RIGHTS.map(|right| applied.decide_entry(right));
        applied
    }

    /// What is left of the rule of a statement that depends on the entry.
    pub(super) fn rule(&self, position: usize) -> Option<&Bind> {
        let found = self.rules.binary_search_by_key(&position, |(position, _)| *position).ok()?;
        self.rules.get(found).map(|(_, rule)| rule)
    }

    /// Whether a right to the attributes of a row is there, if that is so for all entries.
    pub(super) fn known(&self, row: usize, right: Right) -> Option<bool> {
        *self.rows.get(row)?.get(right as usize)?
    }

    /// Whether a right to the entry is there, if that is so for all entries.
    pub(super) fn known_of_entry(&self, right: Right) -> Option<bool> {
        *self.entry.get(right as usize)?
    }

    /// What is said of a right in all entries of the chain.
    pub(super) fn everywhere(&self, right: Right, object: Object<'_>) -> Everywhere {
        match object {
            Object::Entry => Everywhere { found: self.known_of_entry(right), is_even: true },
            Object::Attribute(attribute) => Everywhere {
                found: self.always_may(right, attribute),
                is_even: self.chain.is_even(attribute),
            },
        }
    }

    fn always_may(&self, right: Right, attribute: &AttributeDescription) -> Option<bool> {
        match self.chain.row(attribute) {
            Row::Kept(number, row) => self.known(number, right).or_else(|| self.decide(row, right)),
            Row::Made(row) => self.decide(&row, right),
        }
    }

    /// What the statements of a row say of a right, if that does not depend on the entry.
    fn decide(&self, row: &[u64], right: Right) -> Option<bool> {
        let (mut allowed, mut may_allow, mut may_deny) = (false, false, false);
        for ((asked, always, open), denies) in self.words(row, right).zip(&self.chain.denies) {
            if asked & always & denies != 0 {
                return Some(false);
            }
            allowed |= asked & always & !denies != 0;
            may_allow |= asked & open & !denies != 0;
            may_deny |= asked & open & denies != 0;
        }
        match allowed {
            true => (!may_deny).then_some(true),
            false => (!may_allow).then_some(false),
        }
    }

    /// Whether a right to the entry is there, if that does not depend on it: see
    /// [`super::EntryRights::may_entry`].
    fn decide_entry(&self, right: Right) -> Option<bool> {
        let bare = &self.chain.of_whole_entry;
        let (mut denied, mut may_deny, mut allowed, mut may_allow) = (false, false, false, false);
        for ((asked, always, open), denies) in self.words(bare, right).zip(&self.chain.denies) {
            denied |= asked & always & denies != 0;
            may_deny |= asked & open & denies != 0;
            allowed |= asked & always & !denies != 0;
            may_allow |= asked & open & !denies != 0;
        }
        if denied {
            return Some(false);
        }
        let known = |row: &Known| row.get(right as usize).copied().flatten();
        let is_any = self.rows.iter().any(|row| known(row) == Some(true));
        if (allowed || is_any) && !may_deny {
            return Some(true);
        }
        let is_none = self.rows.iter().all(|row| known(row) == Some(false));
        (is_none && !allowed && !may_allow).then_some(false)
    }

    /// For each word the statements asked about, those that apply always and those that may.
    pub(super) fn words(&self, row: &[u64], right: Right) -> impl Iterator<Item = (u64, u64, u64)> {
        let asked = row.iter().zip(self.chain.right(right)).map(|(row, right)| row & right);
        asked.zip(self.always.iter().zip(&self.open)).map(|(asked, (a, o))| (asked, *a, *o))
    }
}
