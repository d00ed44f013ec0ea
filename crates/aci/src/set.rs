//! All ACIs of a directory, by where they apply.
//!
//! An ACI is kept at its *place*: the entry that its `target` names, if it names one, else the
//! entry that holds it. What applies to an entry is its *chain*: the ACIs of its own place, if it
//! is one, and of the places above it.
//!
//! A target that lies outside the holder means nothing, so such an ACI allows nothing. What it
//! denies it denies in the holder and all below: it was about some of them, before a rename.
//!
//! Invariants: places are sorted by key, and the first is the root of the tree, where global ACIs
//! are. A set never changes; a change makes a new one, which shares everything that stayed.

mod chain;
mod global;
mod growing;
mod superiors;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use schema::{DnKey, Schema};

pub(crate) use self::chain::{Chain, Link, Mask, Placed, Row, WORD_BITS};
pub use self::global::GlobalAcis;
pub(crate) use self::growing::{Found, Growing, mix};
use self::superiors::Superiors;
pub(crate) use self::superiors::{Above, Superior};
use crate::rule::{Aci, Bind, Statement, Subject, TargetScope, Targets, Test};

/// Every ACI of the directory.
pub struct AciSet {
    schema: Arc<Schema>,
    holders: BTreeMap<Arc<DnKey>, Arc<[Arc<Aci>]>>,
    places: Vec<Arc<AciHolder>>,
    superiors: Superiors,
    needs: Needs,
}

/// What rules must know of the world.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    store: bool,
    time: bool,
    /// Other entries than the one that is asked about, whichever that is.
    others: bool,
}

/// An entry from which on ACIs apply.
struct AciHolder {
    key: DnKey,
    acis: Arc<[Placed]>,
    /// Whether what applies to the entry itself may differ from what applies below it.
    is_scoped: bool,
    /// What applies to the entry itself, and to those below: made when first asked for.
    at: OnceLock<Arc<Chain>>,
    below: OnceLock<Arc<Chain>>,
}

impl AciHolder {
    fn new(key: DnKey, acis: Arc<[Placed]>) -> Arc<Self> {
        let is_scoped = acis.iter().any(|placed| has_scope_of_place(&placed.aci));
        Arc::new(Self { key, acis, is_scoped, at: OnceLock::new(), below: OnceLock::new() })
    }
}

/// What applies to one entry and below it.
pub(crate) struct Spot<'s> {
    /// To the entry.
    pub(crate) at: &'s Arc<Chain>,
    /// To what is directly below it and no place.
    pub(crate) below: &'s Arc<Chain>,
    /// The places below it.
    pub(crate) places: Range<usize>,
}

impl Spot<'_> {
    /// Whether the same applies to the entry and to all below it.
    pub(crate) fn is_even(&self) -> bool {
        Arc::ptr_eq(self.at, self.below) && self.places.is_empty()
    }
}

impl AciSet {
    /// The set without ACIs.
    pub fn new(schema: Arc<Schema>) -> Self {
        let places = vec![AciHolder::new(DnKey::root(), Arc::default())];
        let (holders, superiors) = (BTreeMap::new(), Superiors::default());
        Self { schema, holders, places, superiors, needs: Needs::default() }
    }

    /// The set in which these entries hold these ACIs and no others. Global ACIs are held by the
    /// root of the tree.
    #[must_use]
    pub fn with_holders(&self, changes: impl IntoIterator<Item = (DnKey, Vec<Arc<Aci>>)>) -> Self {
        let mut holders = self.holders.clone();
        let mut changed = BTreeSet::new();
        let mut touched = BTreeSet::new();
        for (holder, acis) in changes {
            let holder = Arc::new(holder);
            let before = holders.remove(&holder).unwrap_or_default();
            for aci in before.iter().chain(&acis) {
                touched.insert(place_of(aci, &holder).clone());
            }
            if !acis.is_empty() {
                holders.insert(Arc::clone(&holder), acis.into());
            }
            changed.insert(holder);
        }
        let places = self.places_with(&holders, &changed, &touched);
        let needs = needs(&holders);
        let (schema, superiors) = (Arc::clone(&self.schema), Superiors::default());
        Self { schema, holders, places, superiors, needs }
    }

    /// The places after a change of some holders, whose ACIs are or were at the places `touched`.
    fn places_with(
        &self,
        holders: &BTreeMap<Arc<DnKey>, Arc<[Arc<Aci>]>>,
        changed: &BTreeSet<Arc<DnKey>>,
        touched: &BTreeSet<DnKey>,
    ) -> Vec<Arc<AciHolder>> {
        let mut rebuilt: BTreeMap<&DnKey, Vec<Placed>> =
            touched.iter().map(|key| (key, Vec::new())).collect();
        let mut places = Vec::with_capacity(self.places.len() + touched.len());
        for place in &self.places {
            if let Some(acis) = rebuilt.get_mut(&place.key) {
                let stays = |placed: &&Placed| !changed.contains(&placed.holder);
                acis.extend(place.acis.iter().filter(stays).cloned());
            } else if touched.iter().any(|above| place.key.is_within(above)) {
                places.push(AciHolder::new(place.key.clone(), Arc::clone(&place.acis)));
            } else {
                places.push(Arc::clone(place));
            }
        }
        for holder in changed {
            for aci in holders.get(holder).into_iter().flat_map(|acis| acis.iter()) {
                let effective = if aci.is_outside(holder) {
                    aci.without_target().map(Arc::new)
                } else {
                    Some(Arc::clone(aci))
                };
                if let (Some(acis), Some(aci)) = (rebuilt.get_mut(place_of(aci, holder)), effective)
                {
                    acis.push(Placed { aci, holder: Arc::clone(holder) });
                }
            }
        }
        for (key, acis) in rebuilt {
            if key.is_root() || !acis.is_empty() {
                places.push(AciHolder::new(key.clone(), acis.into()));
            }
        }
        places.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        places
    }

    /// The set with names resolved against another schema. An ACI that can no longer be read stays
    /// as it was.
    #[must_use]
    pub fn resolved_against(&self, schema: Arc<Schema>) -> Self {
        let resolved: Vec<(DnKey, Vec<Arc<Aci>>)> = self
            .holders
            .iter()
            .map(|(holder, acis)| {
                let again = |aci: &Arc<Aci>| match Aci::parse(aci.text(), &schema) {
                    Ok(read) => Arc::new(read),
                    Err(_) => Arc::clone(aci),
                };
                ((**holder).clone(), acis.iter().map(again).collect())
            })
            .collect();
        Self::new(Arc::clone(&schema)).with_holders(resolved)
    }

    /// The bind rules of all of them.
    pub(crate) fn bind_rules(&self) -> impl Iterator<Item = &Bind> {
        self.statements().map(|statement| &statement.rule)
    }

    /// The permissions of all of them.
    pub(crate) fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.holders.values().flat_map(|acis| acis.iter()).flat_map(|aci| &aci.statements)
    }

    /// What an entry holds.
    pub fn at(&self, holder: &DnKey) -> &[Arc<Aci>] {
        self.holders.get(holder).map_or(&[], |acis| acis)
    }

    /// What an entry and all below it hold.
    pub fn within<'s>(
        &'s self,
        base: &'s DnKey,
    ) -> impl Iterator<Item = (&'s DnKey, &'s [Arc<Aci>])> {
        self.holders
            .range::<DnKey, _>(base..)
            .take_while(|(holder, _)| holder.is_within(base))
            .map(|(holder, acis)| (&**holder, &**acis))
    }

    /// An ACI whose target would mean other entries if one got another name.
    pub fn target_of_rename(&self, old: &DnKey, new: &DnKey) -> Option<&Aci> {
        let mut all = self.holders.values().flat_map(|acis| acis.iter());
        all.find(|aci| aci.is_of_rename(old, new, &self.schema)).map(|aci| &**aci)
    }

    /// How many ACIs there are.
    pub fn len(&self) -> usize {
        self.holders.values().map(|acis| acis.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Whether a rule asks for groups or other entries.
    pub fn depends_on_store(&self) -> bool {
        self.needs.store
    }

    /// Whether a rule asks for the time.
    pub fn depends_on_time(&self) -> bool {
        self.needs.time
    }

    /// Whether a rule asks for other entries, depending on the one that it is asked about.
    pub(crate) fn depends_on_others(&self) -> bool {
        self.needs.others
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What applies to an entry and to those below it.
    pub(crate) fn spot(&self, entry: &DnKey) -> Spot<'_> {
        let after = self.places.partition_point(|place| place.key <= *entry);
        let place = self.place_before(after, entry).unwrap_or_default();
        let is_at = self.places.get(place).is_some_and(|place| place.key == *entry);
        let rest = self.places.get(after..).unwrap_or_default();
        let count = rest.partition_point(|place| place.key.is_within(entry));
        Spot {
            at: self.chain_of(place, is_at),
            below: self.chain_of(place, false),
            places: after..after + count,
        }
    }

    /// What applies to the entry directly below a superior with this leaf; none if it has no key.
    pub(crate) fn chain_under(&self, superior: &Superior, leaf: &str) -> Option<&Arc<Chain>> {
        if superior.has_places {
            let key = superior.below(leaf, &self.schema)?;
            if let Ok(place) = self.places.binary_search_by(|place| place.key.cmp(&key)) {
                return Some(self.chain_of(place, true));
            }
        }
        Some(self.chain_of(superior.place, false))
    }

    /// The ACIs of some places, and what applies to each and to what is below it.
    pub(crate) fn places_in(
        &self,
        places: &Range<usize>,
    ) -> impl Iterator<Item = (&[Placed], [&Arc<Chain>; 2])> {
        places.clone().filter_map(|number| {
            let place = self.places.get(number)?;
            Some((&*place.acis, [true, false].map(|is_at| self.chain_of(number, is_at))))
        })
    }

    fn has_places_directly_below(&self, entry: &DnKey) -> bool {
        let depth = entry.depth() + 1;
        let first = self.places.partition_point(|place| place.key <= *entry);
        let below = self.places.get(first..).unwrap_or_default().iter();
        let mut below = below.take_while(|place| place.key.is_within(entry));
        below.any(|place| place.key.depth() == depth)
    }

    /// The lowest place that is the entry or above it.
    fn place_above(&self, entry: &DnKey) -> Option<usize> {
        self.place_before(self.places.partition_point(|place| place.key <= *entry), entry)
    }

    /// The lowest place that is the entry or above it; the places from `after` on are after it.
    fn place_before(&self, after: usize, entry: &DnKey) -> Option<usize> {
        let mut place = after.checked_sub(1)?;
        loop {
            let key = &self.places.get(place)?.key;
            if entry.is_within(key) {
                return Some(place);
            }
            // Before it comes the root of the tree alone.
            if place == 1 {
                return Some(0);
            }
            // Whatever is above the entry and before this place is above this place.
            let mut above = key.parent()?;
            place = loop {
                match self.places.binary_search_by(|place| place.key.cmp(&above)) {
                    Ok(found) => break found,
                    Err(_) => above = above.parent()?,
                }
            };
        }
    }

    fn chain_of(&self, place: usize, is_at: bool) -> &Arc<Chain> {
        let own = self.places.get(place).expect("the index of a place is from the set");
        let is_at = is_at && own.is_scoped;
        let cell = if is_at { &own.at } else { &own.below };
        cell.get_or_init(|| {
            let here = own.acis.iter().filter(|placed| applies(&placed.aci, is_at));
            let mut acis: Vec<Placed> = here.cloned().collect();
            let mut above = own.key.parent();
            while let Some(key) = above {
                if let Ok(found) = self.places.binary_search_by(|place| place.key.cmp(&key))
                    && let Some(place) = self.places.get(found)
                {
                    let below = place.acis.iter().filter(|placed| applies(&placed.aci, false));
                    acis.extend(below.cloned());
                }
                above = key.parent();
            }
            Arc::new(Chain::new(acis, &self.schema))
        })
    }
}

impl fmt::Debug for AciSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AciSet")
            .field("acis", &self.len())
            .field("holders", &self.holders.len())
            .field("places", &self.places.len())
            .finish_non_exhaustive()
    }
}

/// Where an ACI is kept: with its holder, if it names nothing there.
fn place_of<'a>(aci: &'a Aci, holder: &'a DnKey) -> &'a DnKey {
    aci.targets.exact_name().filter(|name| name.is_within(holder)).unwrap_or(holder)
}

/// Whether the place itself decides what the scope reaches; a pattern is for `decide`.
fn scope_of_place(aci: &Aci) -> TargetScope {
    let Targets::Entries(targets) = &aci.targets else { return TargetScope::Subtree };
    let is_of_pattern =
        targets.name.as_ref().is_some_and(|name| !name.negated && name.pattern.exact().is_none());
    if is_of_pattern { TargetScope::Subtree } else { targets.scope }
}

fn has_scope_of_place(aci: &Aci) -> bool {
    scope_of_place(aci) != TargetScope::Subtree
}

/// Whether an ACI of a place can apply at it, or below it.
fn applies(aci: &Aci, is_at: bool) -> bool {
    match scope_of_place(aci) {
        TargetScope::Base => is_at,
        TargetScope::OneLevel | TargetScope::Subordinate => !is_at,
        TargetScope::Subtree => true,
    }
}

fn needs(holders: &BTreeMap<Arc<DnKey>, Arc<[Arc<Aci>]>>) -> Needs {
    let mut needs = Needs::default();
    for aci in holders.values().flat_map(|acis| acis.iter()) {
        for statement in &aci.statements {
            note_needs(&statement.rule, &mut needs);
            needs.others |= statement.rule.asks_others();
        }
    }
    needs
}

fn note_needs(rule: &Bind, needs: &mut Needs) {
    match rule {
        Bind::Is(condition) => match &condition.test {
            Test::User(subjects) => {
                needs.store |= subjects.iter().any(|one| matches!(one, Subject::Search(_)));
            }
            Test::Group(_) => needs.store = true,
            Test::Time(..) | Test::Days(_) => needs.time = true,
            // What depends on the entry is asked anew for each.
            Test::Attribute(_)
            | Test::Address(_)
            | Test::Host(_)
            | Test::Method(_)
            | Test::Strength(..) => {}
        },
        Bind::Not(rule) => note_needs(rule, needs),
        Bind::All(rules) | Bind::Any(rules) | Bind::Mixed(rules, _) => {
            rules.iter().for_each(|rule| note_needs(rule, needs));
        }
        Bind::Known(_) => {}
    }
}
