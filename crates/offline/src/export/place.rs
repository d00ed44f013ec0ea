//! Where an entry stands: whether it is in the region, and whether its turn is by its number.
//!
//! Numbers grow from a superior to its subordinates, but where an entry was moved below a younger
//! one. Such an entry and all below it are *moved*: their turn is behind all others. The younger
//! ones are remembered, to find the moved entries again: few, however many are moved.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;
use schema::EntryId;
use store::{StoreError, StoredEntry, View};

/// The entries that moved ones are right below, as far as threads have met them.
#[derive(Debug, Default)]
pub(super) struct Moved(Mutex<BTreeSet<u64>>);

impl Moved {
    fn note(&self, parent: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(parent);
    }

    /// All of them, in order.
    pub(super) fn take(&self) -> BTreeSet<u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// It is the base or the entry of a naming context, and comes first.
    Head,
    /// Its turn is by its number.
    Straight,
    /// Its turn is behind all others.
    Moved,
    /// It is not below the base.
    Outside,
}

/// Finds places; remembers those of superiors.
#[derive(Debug)]
pub(super) struct Places<'m> {
    base: EntryId,
    known: FxHashMap<u64, Place>,
    /// The superior that was asked about last: mostly it is that of the next entry, too.
    last: (u64, Place),
    moved: &'m Moved,
}

impl<'m> Places<'m> {
    pub(super) fn new(base: EntryId, moved: &'m Moved) -> Self {
        Self { base, known: FxHashMap::default(), last: (0, Place::Head), moved }
    }

    /// Where an entry stands.
    pub(super) fn of(
        &mut self,
        view: &View<'_>,
        entry: &StoredEntry<'_>,
    ) -> Result<Place, StoreError> {
        let (id, parent) = (entry.id().0, entry.parent().0);
        match self.fixed(id, parent) {
            Some(place) => Ok(place),
            None => {
                let above = self.of_parent(view, parent)?;
                Ok(self.below(above, id, parent))
            }
        }
    }

    /// The place of the entries that places are counted from.
    fn fixed(&self, id: u64, parent: u64) -> Option<Place> {
        if id == self.base.0 || (parent == 0 && self.base == EntryId::ROOT) {
            Some(Place::Head)
        } else if parent == 0 {
            Some(Place::Outside)
        } else {
            None
        }
    }

    fn below(&self, above: Place, id: u64, parent: u64) -> Place {
        match above {
            Place::Head => Place::Straight,
            Place::Straight if parent > id => {
                self.moved.note(parent);
                Place::Moved
            }
            Place::Straight | Place::Moved | Place::Outside => above,
        }
    }

    fn of_parent(&mut self, view: &View<'_>, parent: u64) -> Result<Place, StoreError> {
        if self.last.0 == parent {
            return Ok(self.last.1);
        }
        // From the superior up to one that is known, and down again.
        let mut unknown = Vec::new();
        let mut next = parent;
        let mut place = loop {
            if let Some(place) = self.known.get(&next) {
                break *place;
            }
            let entry = view.entry(EntryId(next))?;
            let entry = entry.expect("a superior was read for the name of the entry below it");
            let above = entry.parent().0;
            if let Some(place) = self.fixed(next, above) {
                self.remember(next, place);
                break place;
            }
            unknown.push((next, above));
            next = above;
        };
        while let Some((id, above)) = unknown.pop() {
            place = self.below(place, id, above);
            self.remember(id, place);
        }
        self.last = (parent, place);
        Ok(place)
    }

    fn remember(&mut self, id: u64, place: Place) {
        if self.known.len() >= PLACES_MAX {
            self.known.clear();
        }
        self.known.insert(id, place);
    }
}

/// The most superiors one thread remembers; then it starts anew.
const PLACES_MAX: usize = 100_000;
