//! Values in rows of their own: each is read by itself, or all of an attribute along the table.
//!
//! Invariant: the record says how many there are and what they take, so nobody counts them.

use ldap::message::Values;
use schema::{AttributeDescription, MatchingRule, ValueKey};

use super::View;
use super::reference_lists::{LISTED_READ_MAX, ReferenceList};
use crate::base::lmdb::{PlainTable, VALUES};
use crate::error::StoreError;
use crate::overlay::stack::Stack;
use crate::read::interrupt::Interrupt;
use crate::rows::apart;
use crate::rows::key::display;
use crate::rows::record::{ApartOf, RECORD_LENGTH_MAX_BYTES};

/// The values of one attribute of an entry that are rows of their own, in the order in which its
/// equality rule has them.
#[derive(Debug)]
pub struct ApartValues<'v> {
    view: &'v View<'v>,
    id: u64,
    of: ApartOf,
    rule: &'static MatchingRule,
}

impl<'v> ApartValues<'v> {
    /// Of an attribute that a record says has such values.
    pub(crate) fn new(view: &'v View<'v>, id: u64, of: ApartOf) -> Result<Self, StoreError> {
        let rule = view.dictionary().apart_rule(of.attribute).ok_or_else(|| {
            let reason = format!("has values apart of attribute {}, which has none", of.attribute);
            StoreError::corrupt(crate::base::lmdb::ENTRIES, id, reason)
        })?;
        Ok(Self { view, id, of, rule })
    }

    /// How many values there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.of.count
    }

    /// What they take as they are sent.
    #[must_use]
    pub const fn octets(&self) -> u64 {
        self.of.octets
    }

    /// Refuses to read all values where there are very many, or very long ones; `description` is
    /// their attribute.
    ///
    /// # Errors
    /// [`StoreError::TooManyValues`] or [`StoreError::TooLarge`].
    pub fn check_read(&self, description: &AttributeDescription) -> Result<(), StoreError> {
        if self.count() > LISTED_READ_MAX {
            return Err(StoreError::TooManyValues {
                attribute: description.text().to_owned(),
                limit: LISTED_READ_MAX,
            });
        }
        if self.octets() > RECORD_LENGTH_MAX_BYTES as u64 {
            return Err(StoreError::TooLarge {
                what: "an attribute",
                bytes: usize::try_from(self.octets()).unwrap_or(usize::MAX),
                limit_bytes: RECORD_LENGTH_MAX_BYTES,
            });
        }
        Ok(())
    }

    /// The value that is equal to this one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn find(&self, value: &[u8]) -> Result<Option<&'v [u8]>, StoreError> {
        let schema = self.view.schema();
        let key = apart::key(schema, self.rule, &apart::prefix(self.of.attribute, self.id), value);
        let row = self.view.stack().get(PlainTable::Values, &key)?;
        Ok(row.and_then(|row| apart::find(schema, self.rule, row, value)))
    }

    /// The value that has this key; none of them where keys by that rule tell nothing here.
    pub(crate) fn find_key(
        &self,
        only: &ValueKey<'_>,
    ) -> Option<Result<Option<&'v [u8]>, StoreError>> {
        if only.rule != self.rule {
            return None;
        }
        let key = apart::prepared_key(self.of.attribute, self.id, only.key);
        let found = self.view.stack().get(PlainTable::Values, &key);
        Some(found.map(|row| {
            row.and_then(|row| apart::find_prepared(self.view.schema(), self.rule, row, only.key))
        }))
    }

    /// Calls `visit` with each row behind the value key `after`, until it returns false. Whether
    /// all were visited.
    fn rows(
        &self,
        stack: Stack<'v>,
        after: &[u8],
        visit: &mut dyn FnMut(&'v [u8], &'v [u8]) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let prefix = apart::prefix(self.of.attribute, self.id);
        let mut from = prefix.to_vec();
        from.extend_from_slice(after);
        for row in stack.rows(PlainTable::Values, &from, &prefix)? {
            let (row_key, row) = row?;
            let value_key = row_key.get(prefix.len()..).unwrap_or_default();
            if value_key != after && !visit(value_key, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `visit` with each value, until it returns false.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn values(&self, visit: &mut dyn FnMut(&'v [u8]) -> bool) -> Result<(), StoreError> {
        self.rows(self.view.stack(), &[], &mut |key, row| {
            Ok(of_row(key, row)?.iter().all(&mut *visit))
        })?;
        Ok(())
    }

    /// Calls `visit` with the values from number `first` on, until it returns false.
    pub(crate) fn values_from(
        &self,
        first: u64,
        visit: &mut dyn FnMut(&'v [u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut number = 0;
        self.values(&mut |value| {
            number += 1;
            number <= first || visit(value)
        })
    }

    /// Some values, up to `most`, that lie near `value`. What a batch has just added may be left
    /// out where there are others.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn near(&self, value: &[u8], most: usize) -> Result<Vec<&'v [u8]>, StoreError> {
        let schema = self.view.schema();
        let near = apart::key(schema, self.rule, &apart::prefix(self.of.attribute, self.id), value);
        let near = near.get(apart::PREFIX_BYTES..).unwrap_or_default();
        let whole = self.view.stack();
        // The open layer of a batch is not in order: it is asked only for single rows.
        let sealed = Stack { memory: None, ..whole };
        let mut found = Vec::new();
        for (stack, from) in [(sealed, near), (sealed, &[]), (whole, &[])] {
            found.clear();
            self.rows(stack, from, &mut |key, row| {
                let mut row = Some(row);
                if whole.memory.is_some() {
                    let mut whole_key = apart::prefix(self.of.attribute, self.id).to_vec();
                    whole_key.extend_from_slice(key);
                    row = whole.get(PlainTable::Values, &whole_key)?;
                }
                if let Some(row) = row {
                    found.extend(of_row(key, row)?.iter());
                }
                Ok(found.len() < most)
            })?;
            if found.len() as u64 >= self.count().min(most as u64) {
                break;
            }
        }
        Ok(found)
    }

    /// Appends the values behind the value key `after` as they are sent, until `out` has
    /// `bytes_max` octets or a row more. Behind which key it goes on; none when there are no more.
    fn write_after(
        &self,
        after: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut last: &[u8] = &[];
        let is_all = self.rows(self.view.stack(), after, &mut |key, row| {
            of_row(key, row)?;
            out.extend_from_slice(row);
            last = key;
            Ok(out.len() < bytes_max)
        })?;
        Ok((!is_all).then(|| last.to_vec()))
    }

    /// Appends all values as they are sent.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        self.write_after(&[], out, usize::MAX)?;
        Ok(())
    }
}

/// The values of a row.
fn of_row<'r>(key: &[u8], row: &'r [u8]) -> Result<Values<'r>, StoreError> {
    match apart::is_well_formed(row) {
        true => Ok(Values::from_ber_trusted(row)),
        false => Err(StoreError::corrupt(VALUES, display(key), "has no values, or damaged ones")),
    }
}

/// Values of an attribute that are not in the record of their entry.
#[derive(Debug)]
pub enum OutsideValues<'v> {
    /// They name entries, and are kept by number.
    References(ReferenceList<'v>),
    /// They are rows of their own.
    Apart(ApartValues<'v>),
}

impl OutsideValues<'_> {
    /// How many there are, at most.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn count(&self) -> Result<u64, StoreError> {
        match self {
            Self::References(list) => list.count(),
            Self::Apart(values) => Ok(values.count()),
        }
    }

    /// Refuses to read all of very many; `description` is their attribute.
    ///
    /// # Errors
    /// [`StoreError::TooManyValues`] or [`StoreError::TooLarge`], or when the store cannot be read.
    pub fn check_read(&self, description: &AttributeDescription) -> Result<(), StoreError> {
        match self {
            Self::References(list) => list.check_read(description),
            Self::Apart(values) => values.check_read(description),
        }
    }

    /// What they take as they are sent, where that is known without going through them.
    #[must_use]
    pub const fn octets_known(&self) -> u64 {
        match self {
            Self::References(_) => 0,
            Self::Apart(values) => values.octets(),
        }
    }

    /// Calls `visit` with each value, until it returns false.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn each(&self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), StoreError> {
        match self {
            Self::References(list) => list.names(&mut |name| visit(name.as_bytes())),
            Self::Apart(values) => values.values(&mut |value| visit(value)),
        }
    }

    /// How many octets [`Self::write_after`] writes for all of them.
    ///
    /// # Errors
    /// [`StoreError::Interrupted`], or when the store cannot be read.
    pub fn octets(&self, interrupt: Interrupt<'_>) -> Result<u64, StoreError> {
        match self {
            Self::References(list) => list.octets(interrupt),
            Self::Apart(values) => Ok(values.octets()),
        }
    }

    /// Appends those behind `after` as they are sent, until `out` has `bytes_max` octets or one
    /// more; begins where `after` is empty. Behind what it goes on; none when there are no more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn write_after(
        &self,
        after: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::References(list) => list.write_behind(after, out, bytes_max),
            Self::Apart(values) => values.write_after(after, out, bytes_max),
        }
    }
}
