//! Which of the entries that only one side has were renamed: those of one identity (`--by`).
//!
//! It goes by rounds. In each, the uppermost entries that only the first side has, whose superiors
//! both have, are looked for on the second side by their identity: what is found is renamed, and
//! takes what is below it along; what is not found is added. Then those below are compared by their
//! new names. So there are at most as many rounds as the names have parts.
//!
//! Invariant: an entry gets its place when all above it have theirs, which stay where they are from
//! then on; the name it gets is free, since only the first side has it.

use std::collections::HashMap;

use ldap::dn::Dn;
use ldap::ldif::LdifChange;
use schema::{DnKey, RdnKey};

use super::body::{Body, damaged};
use super::change::When;
use super::entry::{after_rename, deletes_old_rdn, is_referral};
use super::side::Ordered;
use super::sort::{Record, Sorted, Sorter};
use super::walk::{Apart, Differences};
use crate::failure::Failure;

/// What one round works with.
pub(super) struct Renames<'d, 'o> {
    differences: &'d mut Differences<'o>,
    memory_max_bytes: usize,
    /// Where entries with others below them went in this round, by the key they had.
    moved: HashMap<Vec<u8>, Moved>,
    moved_bytes: usize,
    spilled_bytes: u64,
}

/// Where an entry went.
#[derive(Debug)]
struct Moved {
    key: Vec<u8>,
    dn: String,
}

/// Entries that were found, or were not, by what they are.
struct Found {
    /// The uppermost of the first side, by name, each with the one it was.
    uppermost: Sorter,
    /// Of the second side, by name.
    rest: Sorter,
}

impl<'d, 'o> Renames<'d, 'o> {
    pub(super) fn new(differences: &'d mut Differences<'o>, memory_max_bytes: usize) -> Self {
        // Up to four sorters take entries at a time, and two give them.
        let memory_max_bytes = memory_max_bytes / 6;
        let moved = HashMap::new();
        Self { differences, memory_max_bytes, moved, moved_bytes: 0, spilled_bytes: 0 }
    }

    fn sorter(&self) -> Sorter {
        Sorter::new(self.memory_max_bytes)
    }

    fn sorted(&mut self, sorter: Sorter) -> Result<Sorted, Failure> {
        let sorted = sorter.sorted()?;
        self.spilled_bytes += sorted.spilled_bytes();
        Ok(sorted)
    }

    /// Tells what is to be done about all of them. How many octets went to temporary files.
    pub(super) fn run(mut self, apart: Apart, each: &mut dyn FnMut()) -> Result<u64, Failure> {
        let mut first = self.sorted(apart.first)?;
        let mut second = self.sorted(apart.second)?;
        loop {
            let mut uppermost = self.sorter();
            let mut below = self.sorter();
            let has_some = uppermost_of(&mut first, &mut uppermost, &mut below)?;
            if !has_some || self.differences.is_enough() {
                break;
            }
            let uppermost = self.sorted(uppermost)?;
            let found = self.look(uppermost, second)?;
            let placed = self.sorted(found.uppermost)?;
            self.place(placed, each)?;
            let rest = self.sorted(found.rest)?;
            second = self.follow(rest)?;
            let mut apart = Apart { first: self.sorter(), second: self.sorter() };
            let mut below = self.sorted(below)?;
            self.differences.join(&mut below, &mut second, Some(&mut apart), each)?;
            first = self.sorted(apart.first)?;
            second = self.sorted(apart.second)?;
        }
        let mut record = Record::default();
        while !self.differences.is_enough() && second.advance(&mut record)? {
            self.differences.delete(&Body::read(&record.body)?)?;
            each();
        }
        Ok(self.spilled_bytes)
    }

    /// Looks for the uppermost entries of the first side among all of the second one.
    fn look(&mut self, mut uppermost: Sorted, second: Sorted) -> Result<Found, Failure> {
        let mut by_identity = self.by_identity(second)?;
        let mut found = Found { uppermost: self.sorter(), rest: self.sorter() };
        let (mut one, mut other) = (Record::default(), Record::default());
        let mut has_other = by_identity.advance(&mut other)?;
        while uppermost.advance(&mut one)? {
            let wanted = Whole::read(&one.body)?;
            while has_other && other.key < one.key {
                found.rest(&other)?;
                has_other = by_identity.advance(&mut other)?;
            }
            let is_same = has_other && !one.key.is_empty() && one.key == other.key;
            let had = if is_same { Some(Whole::read(&other.body)?) } else { None };
            // What cannot become the other one is not what it was.
            let had = match had {
                Some(had) => {
                    let (first, second) = (Body::read(wanted.body)?, Body::read(had.body)?);
                    (!self.differences.compared(&first, &second).is_other_kind).then_some(had)
                }
                None => None,
            };
            let mut pair = Vec::new();
            match had {
                Some(_) => {
                    push(&mut pair, wanted.body);
                    pair.extend_from_slice(&other.body);
                    found.uppermost.push(wanted.key, &pair)?;
                    has_other = by_identity.advance(&mut other)?;
                }
                None => {
                    push(&mut pair, wanted.body);
                    found.uppermost.push(wanted.key, &pair)?;
                }
            }
        }
        while has_other {
            found.rest(&other)?;
            has_other = by_identity.advance(&mut other)?;
        }
        Ok(found)
    }

    /// Entries in the order of their identities, and whether others are below each.
    fn by_identity(&mut self, mut second: Sorted) -> Result<Sorted, Failure> {
        let mut sorter = self.sorter();
        let (mut one, mut next) = (Record::default(), Record::default());
        let mut has_one = second.advance(&mut one)?;
        let mut whole = Vec::new();
        while has_one {
            let has_next = second.advance(&mut next)?;
            let has_below = has_next && next.key.starts_with(&one.key);
            Whole { key: &one.key, has_below, body: &one.body }.write(&mut whole);
            sorter.push(Body::read(&one.body)?.identity, &whole)?;
            std::mem::swap(&mut one, &mut next);
            has_one = has_next;
        }
        self.sorted(sorter)
    }

    /// Adds and renames the uppermost entries.
    fn place(&mut self, mut placed: Sorted, each: &mut dyn FnMut()) -> Result<(), Failure> {
        self.moved.clear();
        self.moved_bytes = 0;
        let mut record = Record::default();
        while !self.differences.is_enough() && placed.advance(&mut record)? {
            let mut rest = record.body.as_slice();
            let first = Body::read(pull(&mut rest)?)?;
            if rest.is_empty() {
                self.differences.add(When::First, &first)?;
            } else {
                self.rename(&record.key, &first, &Whole::read(rest)?)?;
            }
            each();
        }
        Ok(())
    }

    fn rename(&mut self, key: &[u8], wanted: &Body<'_>, had: &Whole<'_>) -> Result<(), Failure> {
        let second = Body::read(had.body)?;
        let (now_key, now_dn) = match self.followed(had.key, second.dn)? {
            Some(Moved { key, dn }) => (key, dn),
            None => (had.key.to_vec(), second.dn.to_owned()),
        };
        let dn = Dn::parse_stored(wanted.dn).map_err(Failure::local)?;
        let above = |key: &[u8]| DnKey::from_bytes(key.to_vec()).parent();
        let new_superior =
            (above(key) != above(&now_key)).then(|| dn.parent().unwrap_or_default().to_string());
        let new_rdn = dn.rdns().first().map(ToString::to_string).unwrap_or_default();
        let attributes = &mut self.differences.attributes;
        let deletes_old = deletes_old_rdn(wanted, &second, attributes);
        let mut octets = Vec::new();
        after_rename(&second, wanted.dn, deletes_old, attributes, &mut octets);
        let change = LdifChange::ModifyDn { new_rdn, delete_old_rdn: deletes_old, new_superior };
        self.differences.rename(&now_dn, change, is_referral(&second))?;
        let renamed = Body::read(&octets)?;
        let comparison = self.differences.compared(wanted, &renamed);
        self.differences.modify(&renamed, comparison)?;
        if had.has_below {
            self.moved_bytes += had.key.len() + key.len() + wanted.dn.len() + MOVED_BYTES;
            if self.moved_bytes > self.memory_max_bytes {
                return Err(Failure::local("too many entries with others below them were renamed")
                    .hint("give it more memory with --memory, or leave --by out"));
            }
            let moved = Moved { key: key.to_vec(), dn: wanted.dn.to_owned() };
            self.moved.insert(had.key.to_vec(), moved);
        }
        Ok(())
    }

    /// Where an entry is by the renames of this round that were told; none if where it was.
    fn followed(&self, key: &[u8], dn: &str) -> Result<Option<Moved>, Failure> {
        if self.moved.is_empty() {
            return Ok(None);
        }
        let whole = DnKey::from_bytes(key.to_vec());
        let mut below: Vec<RdnKey> = whole.leaf().into_iter().collect();
        let mut above = whole.parent();
        while let Some(superior) = above {
            let Some(moved) = self.moved.get(superior.as_bytes()) else {
                below.extend(superior.leaf());
                above = superior.parent();
                continue;
            };
            let mut key = DnKey::from_bytes(moved.key.clone());
            below.iter().rev().for_each(|rdn| key.push(rdn));
            let old = Dn::parse_stored(dn).map_err(Failure::local)?;
            let mut rdns: Vec<_> = old.rdns().iter().take(below.len()).cloned().collect();
            let new = Dn::parse_stored(&moved.dn).map_err(Failure::local)?;
            rdns.extend(new.rdns().iter().cloned());
            let dn = Dn::new(rdns).to_string();
            return Ok(Some(Moved { key: key.as_bytes().to_vec(), dn }));
        }
        Ok(None)
    }

    /// The rest of the second side by the names that it has after the renames of this round.
    fn follow(&mut self, mut rest: Sorted) -> Result<Sorted, Failure> {
        if self.moved.is_empty() {
            return Ok(rest);
        }
        let mut sorter = self.sorter();
        let (mut record, mut octets) = (Record::default(), Vec::new());
        while rest.advance(&mut record)? {
            let body = Body::read(&record.body)?;
            match self.followed(&record.key, body.dn)? {
                None => sorter.push(&record.key, &record.body)?,
                Some(moved) => {
                    body.renamed(&moved.dn, &mut octets);
                    sorter.push(&moved.key, &octets)?;
                }
            }
        }
        self.sorted(sorter)
    }
}

impl Found {
    /// One of the second side was not looked for.
    fn rest(&mut self, record: &Record) -> Result<(), Failure> {
        let whole = Whole::read(&record.body)?;
        self.rest.push(whole.key, whole.body)
    }
}

/// Divides entries into those below no other one, by their identities, and the rest by name. False
/// if there are none.
fn uppermost_of(
    all: &mut Sorted,
    uppermost: &mut Sorter,
    below: &mut Sorter,
) -> Result<bool, Failure> {
    let mut last: Option<Vec<u8>> = None;
    let (mut record, mut whole) = (Record::default(), Vec::new());
    while all.advance(&mut record)? {
        if last.as_ref().is_some_and(|last| record.key.starts_with(last)) {
            below.push(&record.key, &record.body)?;
            continue;
        }
        Whole { key: &record.key, has_below: false, body: &record.body }.write(&mut whole);
        uppermost.push(Body::read(&record.body)?.identity, &whole)?;
        last = Some(record.key.clone());
    }
    Ok(last.is_some())
}

/// An entry whose key is not what it is sorted by.
struct Whole<'a> {
    key: &'a [u8],
    has_below: bool,
    body: &'a [u8],
}

impl<'a> Whole<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        push(out, self.key);
        out.push(u8::from(self.has_below));
        out.extend_from_slice(self.body);
    }

    fn read(octets: &'a [u8]) -> Result<Self, Failure> {
        let mut rest = octets;
        let key = pull(&mut rest)?;
        let (has_below, body) = rest.split_first().ok_or_else(damaged)?;
        Ok(Self { key, has_below: *has_below != 0, body })
    }
}

fn push(out: &mut Vec<u8>, octets: &[u8]) {
    out.extend_from_slice(&u32::try_from(octets.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(octets);
}

fn pull<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (octets, after) = after.split_at_checked(length).ok_or_else(damaged)?;
    *rest = after;
    Ok(octets)
}

/// What a renamed entry takes in memory beside its names, about.
const MOVED_BYTES: usize = 128;
