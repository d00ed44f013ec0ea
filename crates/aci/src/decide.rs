//! Who may do what: ACIs asked about one asker, then about entries.
//!
//! A rule is decided as early as it can be: [`Rules`] hold what does not depend on the entry, a bit
//! for each statement of a chain; what is left is asked of an entry at most once. So where nothing
//! depends on the entry, a question is one look-up in a table.
//!
//! What applies to an entry is found by the name of its superior as it is written: names are not
//! read anew, and nothing is locked or allocated, for each entry.
//!
//! Invariants: a deny that applies wins; nothing is allowed that no ACI allows. What cannot be
//! found out (no such group, no name of the client's host) is [`Truth::Undefined`]: an allow
//! applies when its condition is true, a deny unless its condition is false. So it never gives
//! access and never lifts a deny.

mod applied;
mod bind;
mod explain;
#[cfg(test)]
mod naive;
mod reach;
mod target;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use schema::{AttributeDescription, AttributeType, DnKey, EntryRead, Truth};

use self::applied::{Applied, Held};
pub use self::explain::{AccessExplanation, Considered, RuleOutcome};
pub use self::reach::Reach;
use self::target::{Target, target_truth};
use crate::rule::{Aci, Right, Statement, ValueFilter};
use crate::set::{AciSet, Chain, Growing, Link, Row, Spot, WORD_BITS, mix};

/// Who asks, and all that bind rules want to know of the connection.
#[derive(Clone, Copy)]
pub struct AccessSubject<'a> {
    /// The name of the identity; none when anonymous.
    pub identity: Option<&'a DnKey>,
    /// Where the client is; none on a local socket, which is at no address.
    pub address: Option<IpAddr>,
    /// How strong the encryption is, in bits; 0 without.
    pub ssf: u32,
    /// How the client authenticated.
    pub method: AuthenticationMethod<'a>,
    /// What is asked only when a rule needs it.
    pub surroundings: &'a dyn Surroundings,
}

/// How a client authenticated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AuthenticationMethod<'a> {
    /// Not at all.
    #[default]
    Anonymous,
    /// By a simple bind.
    Simple,
    /// By a certificate: SASL EXTERNAL over TLS.
    Certificate,
    /// By a SASL mechanism.
    Sasl(&'a str),
}

/// What rules ask about the world beside the entry and the connection.
pub trait Surroundings {
    /// Whether an entry is a member of a group; Undefined when there is no such group, or when it
    /// cannot be found out.
    fn is_member(&self, group: &DnKey, who: &DnKey) -> Truth;

    /// Calls `visit` with an entry. False when there is none, Undefined when it cannot be read.
    fn visit_entry(&self, name: &DnKey, visit: &mut dyn FnMut(&dyn EntryRead)) -> Truth;

    /// The time where the server is; none when it is not known.
    fn time(&self) -> Option<TimeOfWeek>;

    /// The name of the client's host; none when it is not known. Asked once for [`Rules`].
    fn host_name(&self) -> Option<String>;
}

/// A day and a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeOfWeek {
    /// The day of the week; Sunday is 0.
    pub day: u8,
    /// Minutes since midnight.
    pub minute: u16,
}

/// A question about an entry.
#[derive(Clone, Copy, Debug)]
pub enum Question<'q> {
    /// A right to an attribute.
    Attribute(Right, &'q AttributeDescription),
    /// A right to the entry; one to attributes means to any of them.
    Entry(Right),
    /// The right to change one value.
    Value(ValueChange, &'q AttributeDescription, &'q [u8]),
    /// The use of a control, by its OID.
    Control(&'q str),
    /// The use of an extended operation, by its OID.
    Operation(&'q str),
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValueChange {
    /// It is added.
    Add,
    /// It is deleted.
    Delete,
}

/// What one asker may: everything about a set of ACIs that does not depend on the entry.
///
/// Holds for one identity on one connection, as long as [`Self::is_current`].
pub struct Rules {
    set: Arc<AciSet>,
    store_stamp: u64,
    applied: Growing<Applied>,
    everywhere: Growing<(About, Everywhere)>,
    standing: OnceLock<u64>,
    hangs_on_others: OnceLock<bool>,
}

/// What was asked about a spot and all that is below it.
struct About {
    /// Where its chains are, which stay there with the set, and which places are below: the first
    /// and the one after the last, since a smaller part of the tree may begin with the same place.
    spot: [usize; 4],
    right: Right,
    /// The type of the attribute; none where the entry was asked about.
    kind: Option<Arc<AttributeType>>,
}

/// What a right is to.
#[derive(Clone, Copy)]
enum Object<'q> {
    /// The entry as a whole: see [`EntryRights::may_entry`].
    Entry,
    Attribute(&'q AttributeDescription),
}

/// What holds for all entries of a part of the tree.
#[derive(Clone, Copy)]
struct Everywhere {
    /// Whether a right is there, if that is so for all.
    found: Option<bool>,
    /// Whether what is said of the attribute is said of all that asking for it gets.
    is_even: bool,
}

impl Rules {
    /// The rules of a set. `store_stamp` changes when an entry does.
    pub fn new(set: &Arc<AciSet>, store_stamp: u64) -> Self {
        let set = Arc::clone(set);
        let (applied, everywhere) = (Growing::default(), Growing::default());
        let (standing, hangs_on_others) = (OnceLock::new(), OnceLock::new());
        Self { set, store_stamp, applied, everywhere, standing, hangs_on_others }
    }

    /// Whether they are still the rules of the same asker.
    pub fn is_current(&self, set: &Arc<AciSet>, store_stamp: u64) -> bool {
        Arc::ptr_eq(&self.set, set)
            && !set.depends_on_time()
            && (!set.depends_on_store() || self.store_stamp == store_stamp)
    }

    /// A number that stays the same as long as what the rules ask of the world beside the entries
    /// (groups, the time, the entry of the asker, the connection) is answered the same for an
    /// asker. What rules are about, it does not say. It is found once, with a call of `each` for
    /// each rule.
    pub fn standing(&self, asker: &AccessSubject<'_>, each: &dyn Fn()) -> u64 {
        *self.standing.get_or_init(|| self.find_standing(asker, each))
    }

    fn find_standing(&self, asker: &AccessSubject<'_>, each: &dyn Fn()) -> u64 {
        let mut hasher = DefaultHasher::new();
        // Also by address, strength and method: a cookie may come back over another connection.
        for rule in self.set.bind_rules().inspect(|_| each()) {
            let left = bind::reduce(rule, asker, self.set.schema());
            hasher.write(format!("{left:?}").as_bytes());
        }
        hasher.finish()
    }

    /// Whether what an asker may see of an entry can change with another entry, which
    /// [`Self::standing`] does not tell: one above it, the asker's own, or a group that it names.
    pub fn hangs_on_others(&self, asker: &AccessSubject<'_>) -> bool {
        let is_to_see =
            |one: &&Statement| one.rights.has(Right::Read) || one.rights.has(Right::Search);
        *self.hangs_on_others.get_or_init(|| {
            self.set.depends_on_others()
                && self
                    .set
                    .statements()
                    .filter(is_to_see)
                    .any(|one| bind::reduce(&one.rule, asker, self.set.schema()).asks_others())
        })
    }

    /// What is asked about an entry and those below it.
    pub fn below<'r>(&'r self, asker: &'r AccessSubject<'r>, base: &DnKey) -> Reach<'r> {
        Reach::new(self, asker, self.set.spot(base))
    }

    /// What applies where a chain does.
    fn applied(&self, chain: &Arc<Chain>, asker: &AccessSubject<'_>) -> Held<'_> {
        let hash = mix(address(chain) as u64);
        let is_it = |one: &Applied| Arc::ptr_eq(&one.chain, chain);
        if let Some((found, applied)) = self.applied.find(hash, is_it) {
            return Held::Kept(found, applied);
        }
        let made = Applied::new(chain, asker, self.set.schema());
        match self.applied.add(hash, made, is_it) {
            Ok((found, applied)) => Held::Kept(found, applied),
            Err(made) => Held::Made(Arc::new(made)),
        }
    }

    /// Whether a right is there at a spot and below it.
    fn everywhere(
        &self,
        spot: &Spot<'_>,
        asker: &AccessSubject<'_>,
        right: Right,
        object: Object<'_>,
    ) -> Everywhere {
        let kind = match object {
            Object::Entry => None,
            Object::Attribute(attribute) if attribute.options().is_empty() => Some(&attribute.kind),
            Object::Attribute(_) => return self.find_everywhere(spot, asker, right, object),
        };
        let places = &spot.places;
        let number = [address(spot.at), address(spot.below), places.start, places.end];
        let of_kind = kind.map_or(0, |kind| kind.number());
        let hash = mix(of_kind ^ mix(address(spot.at) as u64) ^ right as u64);
        let is_it = |(about, _): &(About, Everywhere)| {
            about.right == right && about.kind.as_ref() == kind && about.spot == number
        };
        if let Some((_, (_, known))) = self.everywhere.find(hash, is_it) {
            return *known;
        }
        let found = self.find_everywhere(spot, asker, right, object);
        let about = About { spot: number, right, kind: kind.cloned() };
        // Without room it is found anew each time.
        let _ = self.everywhere.add(hash, (about, found), is_it);
        found
    }

    fn find_everywhere(
        &self,
        spot: &Spot<'_>,
        asker: &AccessSubject<'_>,
        right: Right,
        object: Object<'_>,
    ) -> Everywhere {
        let mut all = Everywhere { found: None, is_even: true };
        if spot.places.len() > PLACES_ASKED_MAX {
            return Everywhere { found: None, is_even: false };
        }
        let mut is_first = true;
        let mut ask = |chain: &Arc<Chain>| {
            let Everywhere { found, is_even } =
                self.applied(chain, asker).everywhere(right, object);
            all.found = if is_first || all.found == found { found } else { None };
            all.is_even &= is_even;
            is_first = false;
        };
        [spot.at, spot.below].into_iter().for_each(&mut ask);
        let matters = |aci: &Aci| match object {
            Object::Entry => aci.is_about_entries(right),
            Object::Attribute(attribute) => aci.is_about(right, attribute),
        };
        for (acis, chains) in self.set.places_in(&spot.places) {
            if acis.iter().any(|placed| matters(&placed.aci)) {
                chains.into_iter().for_each(&mut ask);
            }
        }
        all
    }
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules")
            .field("set", &self.set)
            .field("store_stamp", &self.store_stamp)
            .finish_non_exhaustive()
    }
}

/// What one asker may do with one entry.
pub struct EntryRights<'e> {
    reach: &'e Reach<'e>,
    target: Target<'e>,
    applied: Held<'e>,
    /// Which of the first statements were asked of the entry, and which of them apply.
    asked: Cell<u64>,
    holds: Cell<u64>,
}

impl EntryRights<'_> {
    /// Whether a question is answered with yes.
    pub fn decide(&self, question: &Question<'_>) -> bool {
        match *question {
            Question::Attribute(right, attribute) => self.may(right, attribute),
            Question::Entry(right) => self.may_entry(right),
            Question::Value(change, attribute, value) => self.may_value(change, attribute, value),
            Question::Control(oid) => self.reach.may_use_control(oid),
            Question::Operation(oid) => self.reach.may_extend(oid),
        }
    }

    /// Whether a right to an attribute is there. Changes of values are for [`Self::may_value`].
    pub fn may(&self, right: Right, attribute: &AttributeDescription) -> bool {
        match self.applied.chain.row(attribute) {
            Row::Kept(number, row) => {
                let known = self.applied.known(number, right);
                known.unwrap_or_else(|| self.decide_row(row, right))
            }
            Row::Made(row) => self.decide_row(&row, right),
        }
    }

    /// Whether a right to an attribute and to all that asking for it gets is surely there: to its
    /// options, and to types derived from its own.
    pub fn may_all(&self, right: Right, attribute: &AttributeDescription) -> bool {
        self.applied.chain.is_even(attribute) && self.may(right, attribute)
    }

    /// Whether a right to the entry is there. A right to attributes is if it is to any of them, or
    /// if it is given to the entry without any.
    pub fn may_entry(&self, right: Right) -> bool {
        let chain = &self.applied.chain;
        if !right.is_of_attributes() {
            return self.decide_row(&chain.of_entries, right);
        }
        if let Some(known) = self.applied.known_of_entry(right) {
            return known;
        }
        let bare = &chain.of_whole_entry;
        let is_bare = bare.iter().zip(chain.right(right)).any(|(bare, right)| bare & right != 0);
        if is_bare {
            if self.is_denied(bare, right) {
                return false;
            }
            if self.decide_row(bare, right) {
                return true;
            }
        }
        chain.rows().any(|row| self.decide_row(row, right))
    }

    /// Whether a value may be added or deleted.
    pub fn may_value(
        &self,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        self.may_value_by(change, attribute, value, Selfwrite::Counts)
    }

    /// Whether a value may come into the name of the entry, or go from it: a right to add and
    /// delete the own name (selfwrite) gives none to call the entry so.
    pub fn may_name(
        &self,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        self.may_value_by(change, attribute, value, Selfwrite::OnlyDenies)
    }

    fn may_value_by(
        &self,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
        selfwrite: Selfwrite,
    ) -> bool {
        let chain = &self.applied.chain;
        let row = chain.row(attribute);
        let mut is_allowed = false;
        for (position, link) in chain.links.iter().enumerate() {
            let statement = link.statement();
            let by_self = || {
                statement.rights.has(Right::SelfWrite)
                    && (selfwrite == Selfwrite::Counts || !statement.allows)
                    && self.names_asker(attribute, value)
            };
            if !bit(&chain.of_entries, position)
                || !(statement.rights.has(Right::Write) || by_self())
                || (statement.allows && is_allowed)
            {
                continue;
            }
            let about = self.about_value(link, bit(row.mask(), position), change, attribute, value);
            if about == Truth::False {
                continue;
            }
            match (statement.allows, about.and(self.truth(position, link, false))) {
                (true, Truth::True) => is_allowed = true,
                (false, Truth::True | Truth::Undefined) => return false,
                (true, Truth::False | Truth::Undefined) | (false, Truth::False) => {}
            }
        }
        is_allowed
    }

    /// Whether a statement is about a value; `is_in_row` is whether it is about the attribute.
    fn about_value(
        &self,
        link: &Link,
        is_in_row: bool,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
    ) -> Truth {
        let filters = link.entry_targets().and_then(|targets| targets.values.as_ref());
        let list = filters.and_then(|filters| match change {
            ValueChange::Add => filters.add.as_deref(),
            ValueChange::Delete => filters.delete.as_deref(),
        });
        let Some(list) = list else { return truth(is_in_row) };
        let schema = self.reach.schema();
        target::value_truth(list, link.statement().allows, attribute, value, schema)
    }

    /// Whether a value of an attribute of names is the name of the asker.
    fn names_asker(&self, attribute: &AttributeDescription, value: &[u8]) -> bool {
        let Some(asker) = self.reach.asker.identity else { return false };
        let schema = self.reach.schema();
        NAME_SYNTAXES.contains(&attribute.kind.syntax.oid)
            && bind::key_of(value, schema).is_some_and(|key| key == *asker)
    }

    /// Whether a deny among these statements applies.
    fn is_denied(&self, row: &[u64], right: Right) -> bool {
        let chain = &self.applied.chain;
        let words = self.applied.words(row, right).zip(&chain.denies);
        for (word, ((asked, always, open), denies)) in words.enumerate() {
            if asked & always & denies != 0 {
                return true;
            }
            if self.any_open(word, asked & open & denies, right, |truth| truth != Truth::False) {
                return true;
            }
        }
        false
    }

    /// The decision between the statements of a row that are about a right.
    fn decide_row(&self, row: &[u64], right: Right) -> bool {
        let chain = &self.applied.chain;
        let (mut is_allowed, mut is_open) = (false, false);
        for ((asked, always, open), denies) in self.applied.words(row, right).zip(&chain.denies) {
            if asked & always & denies != 0 {
                return false;
            }
            is_allowed |= asked & always & !denies != 0;
            is_open |= asked & open != 0;
        }
        if !is_open {
            return is_allowed;
        }
        let allows = |truth| truth == Truth::True;
        let words = self.applied.words(row, right).zip(&chain.denies).enumerate();
        for (word, ((asked, _, open), denies)) in words {
            if self.any_open(word, asked & open & denies, right, |truth| truth != Truth::False) {
                return false;
            }
            is_allowed = is_allowed || self.any_open(word, asked & open & !denies, right, allows);
        }
        is_allowed
    }

    /// Whether the truth of one of these statements is as wanted.
    fn any_open(
        &self,
        word: usize,
        mut bits: u64,
        right: Right,
        is_wanted: impl Fn(Truth) -> bool,
    ) -> bool {
        while bits != 0 {
            let position = word * WORD_BITS + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let Some(link) = self.applied.chain.links.get(position) else { continue };
            let truth =
                match right {
                    Right::Add | Right::Delete => self
                        .entry_values_truth(link, right)
                        .and(self.truth(position, link, right == Right::Add)),
                    _ => self.truth(position, link, false),
                };
            if is_wanted(truth) {
                return true;
            }
        }
        false
    }

    /// What the value filters of a statement say of an entry that is added or deleted.
    fn entry_values_truth(&self, link: &Link, right: Right) -> Truth {
        let filters = link.entry_targets().and_then(|targets| targets.values.as_ref());
        let list: Option<&[ValueFilter]> = filters.and_then(|filters| match right {
            Right::Add => filters.add.as_deref(),
            _ => filters.delete.as_deref(),
        });
        let Some(list) = list else { return Truth::True };
        let (entry, schema) = (self.target.entry, self.reach.schema());
        target::entry_values_truth(list, link.statement().allows, entry, schema)
    }

    /// Whether a statement applies to the entry. Known for the first ones once they were asked,
    /// except while an entry is added.
    fn truth(&self, position: usize, link: &Link, adding: bool) -> Truth {
        if bit(&self.applied.always, position) {
            return Truth::True;
        }
        let Some(rule) = self.applied.rule(position) else { return Truth::False };
        let mask = if position < WORD_BITS && !adding { 1 << position } else { 0 };
        let allows = link.statement().allows;
        if self.asked.get() & mask != 0 {
            return truth(self.holds.get() & mask != 0);
        }
        let schema = self.reach.schema();
        let mut found = target_truth(link, &self.target, schema);
        if found != Truth::False {
            let question = bind::RuleQuestion { target: &self.target, link, adding };
            found = found.and(bind::evaluate(rule, self.reach.asker, schema, &question));
        }
        // What applies is all that counts from here on.
        let applies = if allows { found == Truth::True } else { found != Truth::False };
        self.asked.set(self.asked.get() | mask);
        if applies {
            self.holds.set(self.holds.get() | mask);
        }
        truth(applies)
    }
}

fn address(chain: &Arc<Chain>) -> usize {
    Arc::as_ptr(chain).addr()
}

fn truth(holds: bool) -> Truth {
    if holds { Truth::True } else { Truth::False }
}

fn bit(mask: &[u64], position: usize) -> bool {
    let word = mask.get(position / WORD_BITS).copied().unwrap_or_default();
    word & (1 << (position % WORD_BITS)) != 0
}

fn set_bit(mask: &mut [u64], position: usize) {
    if let Some(word) = mask.get_mut(position / WORD_BITS) {
        *word |= 1 << (position % WORD_BITS);
    }
}

/// The most places below an entry that are asked whether they make a difference.
const PLACES_ASKED_MAX: usize = 64;
/// What the right to add and delete the own name is good for.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Selfwrite {
    Counts,
    OnlyDenies,
}

/// DN, and Name and Optional UID: attributes of such values may be given to selfwrite.
const NAME_SYNTAXES: [&str; 2] = ["1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34"];
