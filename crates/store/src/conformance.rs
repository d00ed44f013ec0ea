//! What every engine under the directory must do, as a suite that its tests run.
//!
//! An engine keeps entries, names and indexes; it takes batches of changes, first tentatively, then
//! published, and shows each point in time as [`Rows`]. Its test implements [`Engine`] and calls
//! [`check`] with several seeds, which panics with what went wrong. The store of this crate passes
//! it, and so does [`Naive`], an engine of a few lines that says what is meant.
//!
//! Invariant: the suite knows of an engine nothing but [`Engine`] and [`Rows`]. What a view must
//! show depends on its LSN alone.

mod contents;
mod history;
mod naive;

use std::collections::BTreeMap;

use ldap::message::Scope;
use schema::{Change, DnKey, Entry, EntryId, RdnKey, ResolvedFilter};

pub use self::contents::Contents;
pub use self::history::{Chance, History, contexts, filters, indexes};
pub use self::naive::Naive;
use crate::base::position::Lsn;
use crate::read::plan::Ask;
use crate::read::view::{Resolved, View};

/// What can be asked of one point in time.
pub trait Rows {
    /// The last change that is in it.
    fn lsn(&self) -> Lsn;
    /// How many entries there are.
    fn entry_count(&self) -> u64;
    /// The superior of an entry, and the entry with its whole name.
    fn entry(&self, id: EntryId) -> Option<(EntryId, Entry)>;
    /// What a name stands for.
    fn resolve(&self, name: &DnKey) -> Resolved;
    /// The subordinates one level below an entry or the root.
    fn children(&self, parent: EntryId) -> Vec<EntryId>;
    /// How many these are.
    fn child_count(&self, parent: EntryId) -> u64;
    /// All entries after `after`, in the order of their ids.
    fn scan(&self, after: EntryId) -> Vec<EntryId>;
    /// The entries that the indexes find for a filter, in the order of their ids: at least all that
    /// match. Also whether these are exactly those that match.
    fn candidates(&self, filter: &ResolvedFilter) -> (Vec<EntryId>, bool);
}

/// An engine, with one writer.
pub trait Engine {
    /// The id for the next entry that is added.
    fn next_entry_id(&self) -> EntryId;
    /// Makes changes, each with the next LSN, as one batch that no view shows. An earlier batch
    /// may be tentative still.
    fn write(&mut self, changes: &[Change]);
    /// Makes changes, and takes them back.
    fn write_and_drop(&mut self, changes: &[Change]);
    /// Makes what is tentative up to the end of a batch visible, in one step.
    fn publish(&mut self, upto: Lsn);
    /// Forgets what is tentative.
    fn drop_tentative(&mut self);
    /// Makes all that is published durable by itself, without a log.
    fn flush(&mut self);
    /// Puts its affairs in order, whatever that means to it: no view may see anything of it.
    fn tidy(&mut self);
    /// Ends and starts again with what is durable; returns the last change it still has.
    fn reopen(&mut self) -> Lsn;
    /// The point in time that is published; it stays what it is.
    fn view(&self) -> Box<dyn Rows>;
    /// Looks at the state that the next batch will find.
    fn with_tentative(&self, look: &mut dyn FnMut(&dyn Rows));
}

/// Runs a random history of `steps` steps on an engine that is empty, with the naming contexts and
/// indexes of [`contexts`] and [`indexes`].
///
/// # Panics
/// When the engine is wrong.
pub fn check(engine: &mut dyn Engine, seed: u64, steps: usize) {
    let mut chance = Chance::new(seed);
    let mut run = Run {
        history: History::default(),
        published: Lsn(0),
        flushed: Lsn(0),
        seals: Vec::new(),
        held: Vec::new(),
    };
    for _ in 0..steps {
        run.step(engine, &mut chance);
        run.look(engine, &mut chance);
    }
}

struct Run {
    /// Up to the last tentative change.
    history: History,
    published: Lsn,
    flushed: Lsn,
    /// Where tentative batches end.
    seals: Vec<Lsn>,
    /// Views of earlier times.
    held: Vec<Box<dyn Rows>>,
}

impl Run {
    fn step(&mut self, engine: &mut dyn Engine, chance: &mut Chance) {
        match chance.below(20) {
            0..8 => {
                let next = engine.next_entry_id();
                let changes = self.history.batch(next, 1 + chance.below(4), chance);
                engine.write(&changes);
                if !changes.is_empty() {
                    self.seals.push(self.history.last());
                }
            }
            8 => {
                let mut other = self.history.clone();
                let changes = other.batch(engine.next_entry_id(), 1 + chance.below(4), chance);
                engine.write_and_drop(&changes);
            }
            9..13 if !self.seals.is_empty() => {
                let count = 1 + chance.below(self.seals.len());
                let upto = self.seals.drain(..count).next_back().expect("at least one is drained");
                engine.publish(upto);
                self.published = upto;
            }
            13 => {
                engine.drop_tentative();
                self.seals.clear();
                self.history.cut(self.published);
            }
            14 | 15 => {
                engine.flush();
                self.flushed = self.published;
            }
            16 | 17 => engine.tidy(),
            18 => {
                if self.held.len() == HELD_MAX {
                    self.held.remove(0);
                }
                self.held.push(engine.view());
            }
            19 if chance.below(3) == 0 => {
                self.held.clear();
                let last = engine.reopen();
                assert!(self.flushed <= last, "what was flushed is there: {last:?}");
                assert!(last <= self.published, "what was not published is gone: {last:?}");
                self.seals.clear();
                self.history.cut(last);
                self.published = last;
                self.flushed = last;
            }
            _ => {}
        }
    }

    fn look(&self, engine: &dyn Engine, chance: &mut Chance) {
        let view = engine.view();
        assert_eq!(view.lsn(), self.published, "a view shows what is published");
        agree(&*view, self.history.at(self.published));
        engine.with_tentative(&mut |rows| {
            assert_eq!(rows.lsn(), self.history.last(), "a batch goes on from what is tentative");
            agree(rows, self.history.at(rows.lsn()));
        });
        if let Some(held) = self.held.get(chance.below(HELD_MAX)) {
            agree(&**held, self.history.at(held.lsn()));
        }
    }
}

/// How many earlier views are looked at again and again.
const HELD_MAX: usize = 4;

/// Everything that can be asked, against what must be there.
///
/// # Panics
/// When an answer is wrong.
pub fn agree(rows: &dyn Rows, contents: &Contents) {
    assert_eq!(rows.entry_count(), contents.len() as u64, "how many entries at {:?}", rows.lsn());
    assert_eq!(rows.scan(EntryId::ROOT), contents.ids());
    let middle = contents.ids().get(contents.len() / 2).copied().unwrap_or(EntryId::ROOT);
    let after: Vec<EntryId> = contents.ids().into_iter().filter(|id| *id > middle).collect();
    assert_eq!(rows.scan(middle), after);
    for (id, want) in contents.whole() {
        let id = *id;
        let (parent, entry) = rows.entry(id).expect("each entry is found by its id");
        assert_eq!(Some(parent), contents.parent(id));
        assert_eq!(entry.name().to_string(), want.name().to_string());
        assert_eq!(values(&entry), values(want), "values of {}", want.name());
        let key = contents.key(id);
        assert_eq!(rows.resolve(&key), Resolved::Found(id), "{}", want.name());
        let mut below = key;
        below.push(&RdnKey::from_bytes(b"cn=none".to_vec()));
        assert_eq!(rows.resolve(&below), Resolved::Missing { nearest: Some(id) });
    }
    for id in contents.ids().into_iter().chain([EntryId::ROOT]) {
        let mut children = rows.children(id);
        children.sort_unstable();
        assert_eq!(children, contents.children(id), "below entry {}", id.0);
        assert_eq!(rows.child_count(id), children.len() as u64, "below entry {}", id.0);
    }
    for ((text, filter), want) in filters().iter().zip(contents.matches()) {
        let (got, is_exact) = rows.candidates(filter);
        assert!(got.is_sorted_by(|one, next| one < next), "{text} in order: {got:?}");
        if is_exact {
            assert_eq!(&got, want, "{text} at {:?}", rows.lsn());
        } else {
            let has = |id: &EntryId| got.binary_search(id).is_ok();
            assert!(want.iter().all(has), "{text} at {:?}: {want:?} in {got:?}", rows.lsn());
        }
    }
}

fn values(entry: &Entry) -> BTreeMap<&str, &[Vec<u8>]> {
    let attributes = entry.attributes().iter();
    attributes.map(|one| (one.description.text(), one.values.as_slice())).collect()
}

impl Rows for View<'_> {
    fn lsn(&self) -> Lsn {
        View::lsn(self)
    }

    fn entry_count(&self) -> u64 {
        View::entry_count(self).expect(READABLE)
    }

    fn entry(&self, id: EntryId) -> Option<(EntryId, Entry)> {
        let stored = View::entry(self, id).expect(READABLE)?;
        Some((stored.parent(), stored.to_entry().expect(READABLE)))
    }

    fn resolve(&self, name: &DnKey) -> Resolved {
        View::resolve(self, name).expect(READABLE)
    }

    fn children(&self, parent: EntryId) -> Vec<EntryId> {
        let children = View::children(self, parent).expect(READABLE);
        children.collect::<Result<_, _>>().expect(READABLE)
    }

    fn child_count(&self, parent: EntryId) -> u64 {
        View::child_count(self, parent).expect(READABLE)
    }

    fn scan(&self, after: EntryId) -> Vec<EntryId> {
        let entries = View::scan(self, after.0).expect(READABLE);
        entries.map(|entry| entry.expect(READABLE).id()).collect()
    }

    fn candidates(&self, filter: &ResolvedFilter) -> (Vec<EntryId>, bool) {
        let plan = self.plan(&Ask::new(filter, EntryId::ROOT, Scope::Subtree)).expect(READABLE);
        let ids = plan.candidates(self, EntryId::ROOT).collect::<Result<_, _>>();
        (ids.expect(READABLE), plan.exact)
    }
}

const READABLE: &str = "the suite runs on a sound store";

#[cfg(test)]
mod tests;
