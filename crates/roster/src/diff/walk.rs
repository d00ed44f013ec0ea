//! Both sides side by side, in the order of names: what only one has, and what both have.
//!
//! Invariant: one entry of each side is in memory.

use std::cmp::Ordering;

use ldap::ldif::LdifChange;

use super::body::Body;
use super::change::{Edit, Teller, When, addition};
use super::entry::{Comparison, compare, is_referral};
use super::known::Attributes;
use super::side::Ordered;
use super::sort::{Record, Sorter};
use crate::failure::Failure;

/// How many there were of each kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) added: u64,
    pub(crate) modified: u64,
    pub(crate) renamed: u64,
    pub(crate) deleted: u64,
    /// Entries that differ in attributes that only servers set, and in no others.
    pub(crate) server_set: u64,
}

impl Counts {
    /// Whether nothing differs.
    pub(crate) fn is_equal(&self) -> bool {
        *self == Self::default()
    }
}

/// What tells the differences.
pub(super) struct Differences<'o> {
    pub(super) teller: Teller<'o>,
    pub(super) attributes: Attributes,
    pub(super) counts: Counts,
    /// The key of the last entry that is deleted and added anew.
    anew: Option<Vec<u8>>,
}

/// Entries that only one side has, for who finds out which of them were renamed.
#[derive(Debug)]
pub(super) struct Apart {
    pub(super) first: Sorter,
    pub(super) second: Sorter,
}

impl<'o> Differences<'o> {
    pub(super) fn new(teller: Teller<'o>, attributes: Attributes) -> Self {
        Self { teller, attributes, counts: Counts::default(), anew: None }
    }

    /// Whether enough is known.
    pub(super) fn is_enough(&self) -> bool {
        self.teller.is_silent() && !self.counts.is_equal()
    }

    /// An entry is added.
    pub(super) fn add(&mut self, when: When, body: &Body<'_>) -> Result<(), Failure> {
        self.counts.added += 1;
        if self.teller.is_silent() {
            return Ok(());
        }
        let attributes = &mut self.attributes;
        let is_told = |description: &str| !attributes.get(description).is_server_set;
        let values = addition(body, is_told);
        let edit =
            Edit { dn: body.dn, change: LdifChange::Add(values), is_referral: is_referral(body) };
        self.teller.tell(when, edit)
    }

    /// An entry is deleted.
    pub(super) fn delete(&mut self, body: &Body<'_>) -> Result<(), Failure> {
        self.counts.deleted += 1;
        let is_referral = is_referral(body);
        let edit = Edit { dn: body.dn, change: LdifChange::Delete, is_referral };
        self.teller.tell(When::Third, edit)
    }

    /// An entry is renamed.
    pub(super) fn rename(
        &mut self,
        dn: &str,
        change: LdifChange,
        is_referral: bool,
    ) -> Result<(), Failure> {
        self.counts.renamed += 1;
        self.teller.tell(When::First, Edit { dn, change, is_referral })
    }

    /// How two entries of one name differ.
    pub(super) fn compared(&mut self, first: &Body<'_>, second: &Body<'_>) -> Comparison {
        compare(first, second, &mut self.attributes)
    }

    /// An entry becomes as another one.
    pub(super) fn modify(
        &mut self,
        second: &Body<'_>,
        comparison: Comparison,
    ) -> Result<(), Failure> {
        let Comparison { modifications, server_set, .. } = comparison;
        match modifications.is_empty() {
            false => self.counts.modified += 1,
            true if server_set.is_empty() => return Ok(()),
            true => self.counts.server_set += 1,
        }
        if !server_set.is_empty() {
            self.teller.tell_server_set(second.dn, &server_set)?;
        }
        if modifications.is_empty() {
            return Ok(());
        }
        let change = LdifChange::Modify(modifications);
        let edit = Edit { dn: second.dn, change, is_referral: is_referral(second) };
        self.teller.tell(When::Second, edit)
    }

    /// Goes through both sides. What only one has is told, or goes to `apart`.
    pub(super) fn join(
        &mut self,
        first: &mut impl Ordered,
        second: &mut impl Ordered,
        mut apart: Option<&mut Apart>,
        each: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let (mut left, mut right) = (Record::default(), Record::default());
        let (mut has_left, mut has_right) =
            (first.advance(&mut left)?, second.advance(&mut right)?);
        while (has_left || has_right) && !self.is_enough() {
            let order = match (has_left, has_right) {
                (true, true) => left.key.cmp(&right.key),
                (true, false) => Ordering::Less,
                (false, _) => Ordering::Greater,
            };
            match order {
                Ordering::Less => self.only_first(&left, apart.as_deref_mut())?,
                Ordering::Greater => self.only_second(&right, apart.as_deref_mut())?,
                Ordering::Equal => self.both(&left, &right)?,
            }
            each();
            if order != Ordering::Greater {
                has_left = first.advance(&mut left)?;
            }
            if order != Ordering::Less {
                has_right = second.advance(&mut right)?;
            }
        }
        Ok(())
    }

    /// Whether an entry is at or below one that is deleted and added anew.
    fn is_made_anew(&self, key: &[u8]) -> bool {
        self.anew.as_ref().is_some_and(|above| key.starts_with(above))
    }

    fn only_first(&mut self, record: &Record, apart: Option<&mut Apart>) -> Result<(), Failure> {
        let body = Body::read(&record.body)?;
        match apart {
            _ if self.is_made_anew(&record.key) => self.add(When::Last, &body),
            Some(apart) => apart.first.push(&record.key, &record.body),
            None => self.add(When::First, &body),
        }
    }

    fn only_second(&mut self, record: &Record, apart: Option<&mut Apart>) -> Result<(), Failure> {
        match apart {
            Some(apart) if !self.is_made_anew(&record.key) => {
                apart.second.push(&record.key, &record.body)
            }
            Some(_) | None => self.delete(&Body::read(&record.body)?),
        }
    }

    fn both(&mut self, left: &Record, right: &Record) -> Result<(), Failure> {
        let (first, second) = (Body::read(&left.body)?, Body::read(&right.body)?);
        let mut is_anew = self.is_made_anew(&left.key);
        if !is_anew {
            let comparison = self.compared(&first, &second);
            is_anew = comparison.is_other_kind;
            if !is_anew {
                return self.modify(&second, comparison);
            }
            // A structural class never changes (RFC 4512 §2.4.2), and what is below goes with it.
            self.anew = Some(left.key.clone());
        }
        self.delete(&second)?;
        self.add(When::Last, &first)
    }
}
