//! Versions: what readers see, and the line of sealed layers that they do not see yet.
//!
//! A version is the base (LMDB as of some change) and the layers over it. Publishing a layer is one
//! exchange of the version; nobody waits for anybody.
//!
//! Invariants: the layers of a version go on where its base ends, and each where the one before it
//! ends; tentative layers go on where the version ends. A layer of the line is published, or
//! dropped together with all after it, never half.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::base::lmdb::Environment;
use crate::base::meta::{Counters, Mark};
use crate::base::position::{LogPosition, Lsn};
use crate::error::StoreError;
use crate::overlay::awaited::{Awaited, Catch};
use crate::overlay::layer::Layer;
use crate::overlay::stack::Ground;
use crate::rows::dictionary::Dictionary;
use crate::rows::names::Naming;

/// The published state at one point in time.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) environment: Arc<Environment>,
    /// Which base of this store it is: each one that takes the place of another has the next
    /// number.
    pub(crate) number: u64,
    /// The last change that is in the base, as far as this version counts on it: the base may have
    /// more of the changes that the layers hold, too, since they can be put over it again.
    pub(crate) base: Mark,
    /// From the oldest to the newest.
    pub(crate) layers: Arc<[Arc<Layer>]>,
    /// As of the last change.
    pub(crate) counters: Counters,
    pub(crate) dictionary: Arc<Dictionary>,
    /// How often an index of the base became valid: the base that this is read over is as of the
    /// same number, so that what the dictionary calls valid is whole there.
    pub(crate) index_epoch: u64,
}

impl Version {
    /// The first version: a base with nothing over it.
    pub(crate) fn first(
        environment: Arc<Environment>,
        counters: Counters,
        dictionary: Arc<Dictionary>,
        index_epoch: u64,
    ) -> Self {
        let (base, layers) = (counters.mark(), Arc::default());
        Self { environment, number: 0, base, layers, counters, dictionary, index_epoch }
    }

    /// This version with all up to `counters` in the base and nothing over it.
    fn settled(&self, counters: Counters, dictionary: Arc<Dictionary>) -> Self {
        let (base, layers) = (counters.mark(), Arc::default());
        Self { base, layers, counters, dictionary, ..Self::clone(self) }
    }

    /// Whether the layers fit over this point in time of the base.
    pub(crate) const fn fits(&self, ground: &Ground) -> bool {
        self.number == ground.number
            && self.index_epoch == ground.index_epoch
            && self.base.lsn.0 <= ground.lsn.0
            && ground.lsn.0 <= self.counters.lsn
    }

    /// The state after this change; none when a layer goes over it, or it is all in the base.
    pub(crate) fn as_of(&self, lsn: Lsn) -> Option<Self> {
        if self.counters.lsn == lsn.0 {
            return Some(self.clone());
        }
        let last = self.layers.iter().position(|layer| layer.last() == lsn)?;
        let layers: Arc<[Arc<Layer>]> = self.layers.iter().take(last + 1).cloned().collect();
        let counters = layers.last()?.counters();
        Some(Self { layers, counters, ..self.clone() })
    }

    /// What names of the state with these counters may be remembered for.
    pub(crate) const fn naming(&self, counters: &Counters) -> Naming {
        Naming { base: self.number, moved: counters.names_moved }
    }
}

/// What a batch is made on: the version and the tentative layers over it.
#[derive(Debug)]
pub(crate) struct Footing {
    pub(crate) version: Arc<Version>,
    /// Those of the version and the tentative ones.
    pub(crate) layers: Arc<[Arc<Layer>]>,
    pub(crate) counters: Counters,
    pub(crate) dictionary: Arc<Dictionary>,
    /// A layer may be sealed onto this footing while this is the line's number.
    pub(crate) epoch: u64,
}

/// The current version and the tentative layers behind it.
#[derive(Debug)]
pub(crate) struct Versions {
    current: ArcSwap<Version>,
    /// Counts the exchanges: a reader looks only at this to know that nothing has changed.
    exchanges: AtomicU64,
    line: Mutex<Line>,
    pub(crate) awaited: Awaited,
}

#[derive(Debug, Default)]
struct Line {
    /// From the oldest to the newest.
    tentative: VecDeque<Tentative>,
    /// Moves when tentative layers are dropped.
    epoch: u64,
}

#[derive(Debug)]
struct Tentative {
    layer: Arc<Layer>,
    dictionary: Arc<Dictionary>,
}

impl Versions {
    pub(crate) fn new(version: Version) -> Self {
        Self {
            current: ArcSwap::from_pointee(version),
            exchanges: AtomicU64::new(0),
            line: Mutex::default(),
            awaited: Awaited::default(),
        }
    }

    /// The version that readers see.
    pub(crate) fn load(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Looks at the version that readers see.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Version) -> T) -> T {
        look(&self.current.load())
    }

    /// Changes whenever the version does, and not before.
    #[inline]
    pub(crate) fn exchanges(&self) -> u64 {
        self.exchanges.load(Ordering::Acquire)
    }

    /// The state that the next batch goes on from.
    pub(crate) fn footing(&self) -> Footing {
        let line = self.line();
        let version = self.load();
        let epoch = line.epoch;
        let Some(last) = line.tentative.back() else {
            let (layers, dictionary) =
                (Arc::clone(&version.layers), Arc::clone(&version.dictionary));
            let counters = version.counters;
            return Footing { version, layers, counters, dictionary, epoch };
        };
        let counters = last.layer.counters();
        let dictionary = Arc::clone(&last.dictionary);
        let tentative = line.tentative.iter().map(|tentative| &tentative.layer);
        let layers = version.layers.iter().chain(tentative).map(Arc::clone).collect();
        Footing { version, layers, counters, dictionary, epoch }
    }

    /// The last change, tentative ones included.
    pub(crate) fn tentative(&self) -> Mark {
        let line = self.line();
        match line.tentative.back() {
            Some(last) => last.layer.counters().mark(),
            None => self.with(|version| version.counters.mark()),
        }
    }

    /// Puts a layer at the end of the line; false when what it was made on is gone.
    pub(crate) fn seal(&self, epoch: u64, layer: Arc<Layer>, dictionary: Arc<Dictionary>) -> bool {
        let mut line = self.line();
        if line.epoch != epoch {
            return false;
        }
        line.tentative.push_back(Tentative { layer, dictionary });
        true
    }

    /// Makes the tentative layers up to `upto` visible, all in one step.
    pub(crate) fn publish(&self, upto: Lsn, position: LogPosition) {
        let mut line = self.line();
        let count = line.tentative.iter().take_while(|one| one.layer.last() <= upto).count();
        self.publish_first(&mut line, count, position);
    }

    /// As [`Self::publish`], if a tentative layer ends with the record `upto` of this running hash;
    /// false, and nothing happens, when none does.
    pub(crate) fn publish_exactly(&self, upto: Lsn, hash: u64, position: LogPosition) -> bool {
        let mut line = self.line();
        let is_it = |one: &Tentative| {
            let counters = one.layer.counters();
            counters.lsn == upto.0 && counters.hash == hash
        };
        let Some(last) = line.tentative.iter().position(is_it) else { return false };
        self.publish_first(&mut line, last + 1, position);
        true
    }

    fn publish_first(&self, line: &mut Line, count: usize, position: LogPosition) {
        let mut dictionary = None;
        let mut published: Vec<Arc<Layer>> = Vec::with_capacity(count);
        for Tentative { layer, dictionary: later } in line.tentative.drain(..count) {
            published.push(layer);
            dictionary = Some(later);
        }
        let (Some(last), Some(dictionary)) = (published.last(), dictionary) else { return };
        last.set_position(position);
        let counters = last.counters();
        let before = self.load();
        let layers = before.layers.iter().cloned().chain(published).collect();
        self.exchange(Version { layers, counters, dictionary, ..Version::clone(&before) });
    }

    /// Makes a layer that was made on the published ones visible. The caller holds the seat since
    /// it dropped what was tentative, so nothing else was sealed.
    pub(crate) fn append(&self, layer: Arc<Layer>, dictionary: Arc<Dictionary>) {
        let line = self.line();
        let before = self.load();
        let follows = line.tentative.is_empty() && layer.first().0 == before.counters.lsn + 1;
        assert!(follows, "who publishes a batch holds the seat, and began on what was published");
        let counters = layer.counters();
        let layers = before.layers.iter().cloned().chain([layer]).collect();
        self.exchange(Version { layers, counters, dictionary, ..Version::clone(&before) });
    }

    /// The last changes of the tentative layers, in order.
    pub(crate) fn tentative_ends(&self) -> Vec<Mark> {
        self.line().tentative.iter().map(|one| one.layer.counters().mark()).collect()
    }

    /// Forgets the tentative layers.
    pub(crate) fn drop_tentative(&self) {
        let mut line = self.line();
        line.epoch += 1;
        line.tentative.clear();
    }

    /// Puts one layer in the place of several that follow each other and hold the same together;
    /// false when they are not there any more.
    pub(crate) fn replace_layers(&self, old: &[Arc<Layer>], new: Arc<Layer>) -> bool {
        let _line = self.line();
        let before = self.load();
        let is_run =
            |run: &[Arc<Layer>]| run.iter().zip(old).all(|(one, other)| Arc::ptr_eq(one, other));
        let Some(start) = before.layers.windows(old.len().max(1)).position(is_run) else {
            return false;
        };
        let head = before.layers.iter().take(start).cloned();
        let tail = before.layers.iter().skip(start + old.len()).cloned();
        let layers = head.chain([new]).chain(tail).collect();
        self.exchange(Version { layers, ..Version::clone(&before) });
        true
    }

    /// The base has all changes up to `base` now: the layers that held them go.
    pub(crate) fn rebase(&self, base: Mark) {
        let _line = self.line();
        let before = self.load();
        let is_left = |layer: &&Arc<Layer>| layer.last() > base.lsn;
        let layers: Arc<[Arc<Layer>]> = before.layers.iter().filter(is_left).cloned().collect();
        debug_assert!(
            layers.first().is_none_or(|first| first.first().0 == base.lsn.0 + 1),
            "no layer is partly in the base"
        );
        self.exchange(Version { base, layers, ..Version::clone(&before) });
    }

    /// Everything that was goes; what is in the base counts, or in another that takes its place,
    /// which comes with its index epoch.
    pub(crate) fn restart(
        &self,
        other: Option<(Arc<Environment>, u64)>,
        counters: Counters,
        dictionary: Arc<Dictionary>,
    ) {
        let mut line = self.line();
        line.epoch += 1;
        line.tentative.clear();
        let mut version = self.load().settled(counters, dictionary);
        if let Some((environment, index_epoch)) = other {
            version.environment = environment;
            version.index_epoch = index_epoch;
            version.number += 1;
        }
        self.exchange(version);
    }

    /// The base has everything now, up to these counters.
    pub(crate) fn settle(&self, counters: Counters, dictionary: Arc<Dictionary>) {
        let mut line = self.line();
        line.tentative.clear();
        let version = self.load().settled(counters, dictionary);
        self.exchange(version);
    }

    /// Changes the dictionary of the version and of the tentative layers, at the next index epoch
    /// if one is given.
    pub(crate) fn translate(
        &self,
        index_epoch: Option<u64>,
        change: impl Fn(&Dictionary) -> Result<Dictionary, StoreError>,
    ) -> Result<(), StoreError> {
        let mut line = self.line();
        let before = self.load();
        let dictionary = Arc::new(change(&before.dictionary)?);
        let mut changed = Vec::with_capacity(line.tentative.len());
        for tentative in &line.tentative {
            changed.push(Arc::new(change(&tentative.dictionary)?));
        }
        for (tentative, dictionary) in line.tentative.iter_mut().zip(changed) {
            tentative.dictionary = dictionary;
        }
        let index_epoch = index_epoch.unwrap_or(before.index_epoch);
        self.exchange(Version { dictionary, index_epoch, ..Version::clone(&before) });
        Ok(())
    }

    /// Catches the state after exactly `lsn`: now, if that is the last change, or else when it is
    /// published, within `limit`. None when it is not, or somebody else waits already.
    pub(crate) fn catch(&self, lsn: Lsn, limit: Duration) -> Option<Catch> {
        {
            let _line = self.line();
            let now = self.load();
            if now.counters.lsn >= lsn.0 {
                return Some(Catch::of(&now, lsn));
            }
            if !self.awaited.begin(lsn) {
                return None;
            }
        }
        self.awaited.wait(limit)
    }

    /// Only with the line locked, so that no exchange is lost.
    fn exchange(&self, version: Version) {
        self.awaited.note(&version);
        self.current.store(Arc::new(version));
        self.exchanges.fetch_add(1, Ordering::Release);
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
