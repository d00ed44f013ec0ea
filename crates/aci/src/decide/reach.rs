//! The part of the tree that a request is about, and the rules as they apply to its entries.

use std::cell::Cell;
use std::sync::Arc;

use schema::{AttributeDescription, DnKey, EntryRead, Schema};

use super::applied::{Applied, Held};
use super::{AccessSubject, EntryRights, Everywhere, Object, Rules, Target, bit};
use crate::rule::{RequestTargets, Right, Targets};
use crate::set::{Above, AciSet, Chain, Found, Spot};

/// An entry and those below it, as one asker reaches them in one request.
pub struct Reach<'r> {
    pub(super) rules: &'r Rules,
    pub(super) asker: &'r AccessSubject<'r>,
    spot: Spot<'r>,
    /// What applies to the entry.
    pub(super) base: Held<'r>,
    /// The same statements apply to the entry and to all entries below it.
    is_even: bool,
    /// The superior of the entry that was asked about last, and what applies below it.
    last: Cell<Option<(Found, Found)>>,
}

impl<'r> Reach<'r> {
    pub(super) fn new(rules: &'r Rules, asker: &'r AccessSubject<'r>, spot: Spot<'r>) -> Self {
        let (base, is_even) = (rules.applied(spot.at, asker), spot.is_even());
        Self { rules, asker, spot, base, is_even, last: Cell::new(None) }
    }

    pub(super) fn set(&self) -> &AciSet {
        &self.rules.set
    }

    pub(super) fn schema(&self) -> &Schema {
        self.rules.set.schema()
    }

    /// The rights to an entry.
    pub fn of<'e>(&'e self, entry: &'e dyn EntryRead) -> EntryRights<'e>
    where
        'r: 'e,
    {
        self.rights(Target::new(entry, None, self.set()))
    }

    /// The rights to an entry, when the key of its name is at hand.
    pub fn named<'e>(&'e self, entry: &'e dyn EntryRead, key: &'e DnKey) -> EntryRights<'e>
    where
        'r: 'e,
    {
        self.rights(Target::new(entry, Some(key), self.set()))
    }

    /// Whether a right to an attribute is there, if that is so for the entry and all below it.
    pub fn always(&self, right: Right, attribute: &AttributeDescription) -> Option<bool> {
        self.everywhere(right, Object::Attribute(attribute)).found
    }

    /// Whether a right to an attribute, and to all that asking for it gets, is there in the entry
    /// and in all below it: in subentries not to collective attributes.
    pub fn always_all(&self, right: Right, attribute: &AttributeDescription) -> bool {
        let everywhere = self.everywhere(right, Object::Attribute(attribute));
        everywhere.found == Some(true) && everywhere.is_even
    }

    /// Whether [`EntryRights::may_entry`] gives a right, if that is so for the entry and all below
    /// it. No right to one attribute says that: a deny without attributes takes the entry away.
    pub fn always_entry(&self, right: Right) -> Option<bool> {
        self.everywhere(right, Object::Entry).found
    }

    fn everywhere(&self, right: Right, object: Object<'_>) -> Everywhere {
        if self.is_even {
            return self.base.everywhere(right, object);
        }
        self.rules.everywhere(&self.spot, self.asker, right, object)
    }

    /// Whether a right to the entry where the reach begins is there, if that can be told without
    /// looking at the entry.
    pub fn may_base(&self, right: Right) -> Option<bool> {
        self.base.known_of_entry(right)
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
        let applied = if self.is_even { self.base.shared() } else { self.applied_to(&target) };
        EntryRights { reach: self, target, applied, asked: Cell::new(0), holds: Cell::new(0) }
    }

    /// What applies to an entry. Those below one superior mostly follow each other.
    fn applied_to(&self, target: &Target<'_>) -> Held<'_> {
        let Self { rules, asker, .. } = *self;
        let set = self.set();
        let split = target.entry.split_dn();
        if let Some((_, above)) = split
            && let Some((superior, applied)) = self.last.get()
            && set.superior_at(superior).is_some_and(|superior| superior.is_written(above))
            && let Some(known) = rules.applied.at(applied)
        {
            return Held::Kept(applied, known);
        }
        let above = split.and_then(|(leaf, above)| Some((leaf, set.superior(above)?)));
        let chain = match &above {
            Some((leaf, above)) => set.chain_under(above.superior(), leaf),
            None => target.key().map(|key| set.spot(key).at),
        };
        let Some(chain) = chain else {
            // Nobody knows where it is, so nothing is allowed.
            let nothing = Arc::new(Chain::new(Vec::new(), set.schema()));
            return Held::Made(Arc::new(Applied::new(&nothing, asker, set.schema())));
        };
        let applied = rules.applied(chain, asker);
        if let (Some((_, Above::Kept(superior, known))), Held::Kept(found, _)) = (&above, &applied)
            && known.is_even()
        {
            self.last.set(Some((*superior, *found)));
        }
        applied
    }
}
