//! Who may do what: ACIs asked about one asker, then about entries.
//!
//! A rule is decided as early as it can be: [`Rules`] hold what does not depend on the entry, a bit
//! for each statement of a chain; what is left is asked of an entry at most once. So where nothing
//! depends on the entry, a question is one look-up in a table and a few operations on bits.
//!
//! Invariants: a deny that applies wins; nothing is allowed that no ACI allows. What cannot be
//! found out (no such group, no name of the client's host) is [`Truth::Undefined`]: an allow
//! applies when its condition is true, a deny unless its condition is false. So it never gives
//! access and never lifts a deny.

mod bind;
mod explain;
#[cfg(test)]
mod naive;
mod target;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use schema::{AttributeDescription, DnKey, EntryRead, Schema, Truth};

pub use self::explain::{Considered, Explanation, Outcome};
use self::target::{Target, target_truth};
use crate::rule::{Bind, RequestTargets, Right, Targets, ValueFilter};
use crate::set::{AciSet, Chain, Link, Mask, WORD_BITS};

/// Who asks, and all that bind rules want to know of the connection.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuthenticationMethod<'a> {
    /// Not at all.
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
    applied: Mutex<HashMap<usize, Arc<Applied>>>,
    /// What applies to all entries below the one with this name, as it is written.
    parents: Mutex<HashMap<String, Arc<Applied>>>,
}

impl Rules {
    /// The rules of a set. `store_stamp` changes when an entry does.
    pub fn new(set: &Arc<AciSet>, store_stamp: u64) -> Self {
        Self {
            set: Arc::clone(set),
            store_stamp,
            applied: Mutex::default(),
            parents: Mutex::default(),
        }
    }

    /// Whether they are still the rules of the same asker.
    pub fn is_current(&self, set: &Arc<AciSet>, store_stamp: u64) -> bool {
        Arc::ptr_eq(&self.set, set)
            && !set.depends_on_time()
            && (!set.depends_on_store() || self.store_stamp == store_stamp)
    }

    /// What is asked about an entry and those below it.
    pub fn below<'r>(&'r self, asker: &'r Asker<'r>, base: &DnKey) -> Reach<'r> {
        let (at, below) = (self.set.chain(base), self.set.chain_below(base));
        let is_fixed = Arc::ptr_eq(at, below) && !self.set.has_places_below(base);
        let varies = (!is_fixed).then(|| base.clone());
        let base = self.applied(at, asker);
        Reach { rules: self, asker, base, varies, last: RefCell::new(None) }
    }

    fn applied(&self, chain: &Arc<Chain>, asker: &Asker<'_>) -> Arc<Applied> {
        let key = Arc::as_ptr(chain) as usize;
        let found = {
            let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            applied.get(&key).map(Arc::clone)
        };
        // Made without the lock: a rule may have to read the store.
        found.unwrap_or_else(|| {
            let made = Arc::new(Applied::new(chain, asker, self.set.schema()));
            let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            applied.insert(key, Arc::clone(&made));
            made
        })
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

/// A chain, and what is known of it for one asker.
struct Applied {
    chain: Arc<Chain>,
    /// The statements that apply to every entry.
    always: Mask,
    /// Those that depend on the entry, with what is left of their rules.
    open: Mask,
    rules: HashMap<usize, Bind>,
    /// Whether some attribute may be read, searched, compared, written of every entry.
    any: [Option<bool>; 4],
}

impl Applied {
    fn new(chain: &Arc<Chain>, asker: &Asker<'_>, schema: &Schema) -> Self {
        let words = chain.words();
        let (mut always, mut open) = (vec![0; words], vec![0; words]);
        let mut rules = HashMap::new();
        for (position, link) in chain.links.iter().enumerate() {
            let statement = link.statement();
            let rule = bind::reduce(&statement.rule, asker, schema);
            let mask = match rule {
                Bind::Known(Truth::False) => continue,
                Bind::Known(Truth::Undefined) if statement.allows => continue,
                Bind::Known(_) if !target::depends_on_entry(link) => &mut always,
                rule => {
                    rules.insert(position, rule);
                    &mut open
                }
            };
            set_bit(mask, position);
        }
        let mut applied = Self { chain: Arc::clone(chain), always, open, rules, any: [None; 4] };
        let rights = [Right::Read, Right::Search, Right::Compare, Right::Write];
        applied.any = rights.map(|right| applied.any_attribute(right));
        applied
    }

    /// Whether a right is there to some attribute, if that is so for all entries.
    fn any_attribute(&self, right: Right) -> Option<bool> {
        let mut may_be = false;
        for row in self.chain.rows() {
            let (mut denied, mut maybe_denied, mut allowed, mut maybe_allowed) =
                (false, false, false, false);
            for (word, denies) in self.words(row, right).zip(&self.chain.denies) {
                let (asked, always, open) = word;
                denied |= asked & always & denies != 0;
                maybe_denied |= asked & open & denies != 0;
                allowed |= asked & always & !denies != 0;
                maybe_allowed |= asked & open & !denies != 0;
            }
            if allowed && !denied && !maybe_denied {
                return Some(true);
            }
            may_be |= !denied && (allowed || maybe_allowed);
        }
        (!may_be).then_some(false)
    }

    /// Whether a right to an attribute is there, if that is so for all entries of the chain.
    fn always_may(&self, right: Right, attribute: &AttributeDescription) -> Option<bool> {
        let row = self.chain.row(attribute);
        let (mut allowed, mut may_allow, mut may_deny) = (false, false, false);
        for ((asked, always, open), denies) in self.words(&row, right).zip(&self.chain.denies) {
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

    /// For each word the statements asked about, those that apply always and those that may.
    fn words(&self, row: &[u64], right: Right) -> impl Iterator<Item = (u64, u64, u64)> {
        let asked = row.iter().zip(self.chain.right(right)).map(|(row, right)| row & right);
        asked.zip(self.always.iter().zip(&self.open)).map(|(asked, (a, o))| (asked, *a, *o))
    }
}

/// An entry and those below it, as one asker reaches them in one request.
pub struct Reach<'r> {
    rules: &'r Rules,
    asker: &'r Asker<'r>,
    /// What applies to the entry.
    base: Arc<Applied>,
    /// The entry, when not the same applies to all entries below it.
    varies: Option<DnKey>,
    /// What applies to all entries below the one with this name, which was asked for last.
    last: RefCell<Option<(String, Arc<Applied>)>>,
}

impl<'r> Reach<'r> {
    /// The rights to an entry.
    pub fn of<'e>(&'e self, entry: &'e dyn EntryRead) -> EntryRights<'e>
    where
        'r: 'e,
    {
        self.rights(Target::new(entry, None))
    }

    /// Likewise, when the key of its name is at hand.
    pub fn named<'e>(&'e self, entry: &'e dyn EntryRead, key: &'e DnKey) -> EntryRights<'e>
    where
        'r: 'e,
    {
        self.rights(Target::new(entry, Some(key)))
    }

    /// Whether a right to an attribute is there, if that is so for the entry and all below it.
    pub fn always(&self, right: Right, attribute: &AttributeDescription) -> Option<bool> {
        let found = self.base.always_may(right, attribute)?;
        let Some(base) = &self.varies else { return Some(found) };
        let set = &self.rules.set;
        let below = self.rules.applied(set.chain_below(base), self.asker);
        let mut is_same = below.always_may(right, attribute) == Some(found);
        for (number, acis) in set.places_below(base).enumerate() {
            let mut is_about = acis.iter().map(|placed| placed.aci.is_about(right, attribute));
            is_same &= number < PLACES_ASKED_MAX && !is_about.any(|is_about| is_about);
            if !is_same {
                return None;
            }
        }
        is_same.then_some(found)
    }

    /// Whether a right that [`Self::always`] is there to an attribute is there to all that asking
    /// for the attribute gets: types derived from it, and values with options.
    pub fn always_all(&self, right: Right, attribute: &AttributeDescription) -> bool {
        let set = &self.rules.set;
        let mut subtypes = set.schema().subtypes(&attribute.kind).iter();
        !set.names_options_of(attribute)
            && subtypes.all(|one| self.always(right, one) == Some(true))
    }

    /// Whether a right to attributes is there to nothing in the entry and in all below it.
    pub fn never(&self, right: Right) -> bool {
        let applied = &self.base;
        let mut bare = applied.words(&applied.chain.of_whole_entry, right);
        let is_bare = bare.any(|(asked, always, open)| asked & (always | open) != 0);
        let any = applied.any.get(right as usize).copied().flatten();
        self.varies.is_none() && !is_bare && any == Some(false)
    }

    /// Whether a control may be used, where the reach begins.
    pub fn may_use_control(&self, oid: &str) -> bool {
        self.may_request(|targets| targets.controls.as_ref().is_some_and(|list| list.covers(oid)))
    }

    /// Whether an extended operation may be used.
    pub fn may_extend(&self, oid: &str) -> bool {
        let covers = |targets: &RequestTargets| {
            targets.operations.as_ref().is_some_and(|list| list.covers(oid))
        };
        self.may_request(covers)
    }

    fn may_request(&self, covers: impl Fn(&RequestTargets) -> bool) -> bool {
        let Applied { chain, always, open, .. } = &*self.base;
        let mut is_allowed = false;
        for (position, link) in chain.links.iter().enumerate() {
            let Targets::Requests(targets) = &link.placed.aci.targets else { continue };
            let statement = link.statement();
            if !statement.rights.has(Right::Read) || !covers(targets) {
                continue;
            }
            // There is no entry to ask: what depends on one is not known.
            match statement.allows {
                true => is_allowed |= bit(always, position),
                false if bit(always, position) || bit(open, position) => return false,
                false => {}
            }
        }
        is_allowed
    }

    fn rights<'e>(&'e self, target: Target<'e>) -> EntryRights<'e> {
        let applied = if self.varies.is_none() {
            Held::Shared(&self.base)
        } else {
            Held::Own(self.applied_to(&target))
        };
        EntryRights { reach: self, target, applied, asked: Cell::new(0), holds: Cell::new(0) }
    }

    /// What applies to an entry. Those below one entry mostly follow each other.
    fn applied_to(&self, target: &Target<'_>) -> Arc<Applied> {
        let set = &self.rules.set;
        let parent = parent_text(target.entry.dn());
        if let Some((above, applied)) = &*self.last.borrow()
            && Some(above.as_str()) == parent
        {
            return Arc::clone(applied);
        }
        let known = parent.and_then(|parent| {
            let parents = self.rules.parents.lock().unwrap_or_else(PoisonError::into_inner);
            parents.get(parent).map(Arc::clone)
        });
        if let Some(applied) = known {
            return applied;
        }
        let Some(key) = target.key(set.schema()) else {
            // Nobody knows where it is, so nothing is allowed.
            let nothing = Arc::new(Chain::new(Vec::new(), set.schema()));
            return Arc::new(Applied::new(&nothing, self.asker, set.schema()));
        };
        let applied = self.rules.applied(set.chain(key), self.asker);
        if let Some(parent) = parent
            && let Some(above) = key.parent()
            && !set.has_places_below(&above)
        {
            *self.last.borrow_mut() = Some((parent.to_owned(), Arc::clone(&applied)));
            let mut parents = self.rules.parents.lock().unwrap_or_else(PoisonError::into_inner);
            if parents.len() < PARENTS_KEPT_MAX {
                parents.insert(parent.to_owned(), Arc::clone(&applied));
            }
        }
        applied
    }
}

enum Held<'e> {
    Shared(&'e Applied),
    Own(Arc<Applied>),
}

impl Deref for Held<'_> {
    type Target = Applied;

    fn deref(&self) -> &Applied {
        match self {
            Self::Shared(applied) => applied,
            Self::Own(applied) => applied,
        }
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
            std::borrow::Cow::Borrowed(row) => self.decide_row(row, right),
            std::borrow::Cow::Owned(row) => self.decide_row(&row, right),
        }
    }

    /// Whether a right to the entry is there. A right to attributes is if it is to any of them, or
    /// if it is given to the entry without any.
    pub fn may_entry(&self, right: Right) -> bool {
        let chain = &self.applied.chain;
        if !right.is_of_attributes() {
            return self.decide_row(&chain.of_entries, right);
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
        let known = self.applied.any.get(right as usize).copied().flatten();
        known.unwrap_or_else(|| chain.rows().any(|row| self.decide_row(row, right)))
    }

    /// Whether a value may be added or deleted.
    pub fn may_value(
        &self,
        change: ValueChange,
        attribute: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        let chain = &self.applied.chain;
        let row = chain.row(attribute);
        let mut is_allowed = false;
        for (position, link) in chain.links.iter().enumerate() {
            let statement = link.statement();
            let by_self =
                || statement.rights.has(Right::SelfWrite) && self.names_asker(attribute, value);
            if !bit(&chain.of_entries, position)
                || !(statement.rights.has(Right::Write) || by_self())
                || (statement.allows && is_allowed)
            {
                continue;
            }
            let about = self.about_value(link, bit(&row, position), (change, attribute, value));
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
        (change, attribute, value): (ValueChange, &AttributeDescription, &[u8]),
    ) -> Truth {
        let filters = link.entry_targets().and_then(|targets| targets.values.as_ref());
        let list = filters.and_then(|filters| match change {
            ValueChange::Add => filters.add.as_deref(),
            ValueChange::Delete => filters.delete.as_deref(),
        });
        let Some(list) = list else { return truth(is_in_row) };
        let schema = self.reach.rules.set.schema();
        target::value_truth(list, attribute, value, schema)
    }

    /// Whether a value of an attribute of names is the name of the asker.
    fn names_asker(&self, attribute: &AttributeDescription, value: &[u8]) -> bool {
        let Some(asker) = self.reach.asker.identity else { return false };
        let schema = self.reach.rules.set.schema();
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
        let (entry, schema) = (self.target.entry, self.reach.rules.set.schema());
        target::entry_values_truth(list, link.statement().allows, entry, schema)
    }

    /// Whether a statement applies to the entry. Known for the first ones once they were asked,
    /// except while an entry is added.
    fn truth(&self, position: usize, link: &Link, adding: bool) -> Truth {
        if bit(&self.applied.always, position) {
            return Truth::True;
        }
        let Some(rule) = self.applied.rules.get(&position) else { return Truth::False };
        let mask = if position < WORD_BITS && !adding { 1 << position } else { 0 };
        let allows = link.statement().allows;
        if self.asked.get() & mask != 0 {
            return truth(self.holds.get() & mask != 0);
        }
        let schema = self.reach.rules.set.schema();
        let mut found = target_truth(link, &self.target, schema);
        if found != Truth::False {
            let question = bind::Asked { target: &self.target, link, adding };
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

/// The name above the one in this text, as it is written; none above the root.
fn parent_text(name: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (position, byte) in name.bytes().enumerate() {
        if byte == b',' && !is_escaped {
            return name.get(position + 1..);
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    None
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

/// The most names of superiors that an asker's rules remember.
const PARENTS_KEPT_MAX: usize = 64;
/// The most places below an entry that are asked whether they make a difference.
const PLACES_ASKED_MAX: usize = 256;
/// DN, and Name and Optional UID: attributes of such values may be given to selfwrite.
const NAME_SYNTAXES: [&str; 2] = ["1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34"];
