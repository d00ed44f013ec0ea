//! What a search that waits would hear of, and how it waits for that.

use std::fmt;
use std::sync::{Arc, Weak};

use ldap::message::DerefAliases;
use schema::{DnKey, ResolvedFilter};
use store::{Lsn, StoreReader};

use super::follow::Following;
use crate::directory::Directory;
use crate::read::computed;
use crate::read::search::request::Search;
use crate::read::search::work::terms;
use crate::read::streams::{
    Found, Ground, Interest, Look, Passed, Place, RECORDS_MAX, Waiter, look,
};
use crate::request::asker_bytes::{AskerHeld, RoomWait};
use crate::request::job::Job;
use crate::request::large_entry::LARGE_ENTRY_BYTES;
use crate::request::snapshot::any_alias;

impl Following<'_, '_> {
    /// What it would hear of, where that can be said; none: it looks at all changes.
    pub(super) fn interest(&self) -> Option<Arc<Interest>> {
        let search = self.run.search;
        let schema = &self.state.schema;
        // What the rules ask of the world may change with any change.
        let is_ruled = !self.run.resolved.guard.is_bypassed();
        if self.is_sync() && is_ruled {
            return None;
        }
        let generation = schema.generation();
        let is_same =
            |one: &&Arc<Interest>| one.generation == generation && one.is_ruled == is_ruled;
        if let Some(known) = self.at.interest.as_ref().filter(is_same) {
            return Some(Arc::clone(known));
        }
        let request = search.request;
        let base = DnKey::from_text(schema, request.base).ok()?;
        let filter = ResolvedFilter::resolve(&request.filter, schema);
        let text = request.filter.to_string();
        let is_small = terms(&filter) <= TERMS_MAX && text.len() <= TEXT_MAX_BYTES;
        // A value that rules hide from its reader may make a negation true.
        let is_told = is_small && !(is_ruled && negates(&filter)) && self.is_stored(&filter);
        let filter = Some(filter).filter(|_| is_told);
        let text = format!(
            "{generation} {} {} {} {} {} {}",
            u8::from(self.is_sync()),
            u8::from(is_ruled),
            request.scope as u8,
            request.deref as u8,
            filter.as_ref().map_or("", |_| &text),
            request.base,
        );
        Some(Arc::new(Interest {
            text: text.into(),
            generation,
            base,
            scope: request.scope,
            filter,
            follows_aliases: request.deref != DerefAliases::Never,
            is_sync: self.is_sync(),
            is_ruled,
        }))
    }

    /// Whether a filter asks for nothing but values that entries store.
    fn is_stored(&self, filter: &ResolvedFilter) -> bool {
        let computed = computed::descriptions(self.state.schema.well_known());
        let mut is_stored = !asks_any(filter);
        filter.visit_descriptions(&mut |one| {
            is_stored &= !computed.iter().any(|computed| one.covers(computed));
        });
        is_stored
    }
}

/// Whether a part of a filter asks by a rule, of any attribute or of names.
fn asks_any(filter: &ResolvedFilter) -> bool {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(asks_any),
        ResolvedFilter::Not(part) => asks_any(part),
        ResolvedFilter::Extensible(_) => true,
        ResolvedFilter::Present(_)
        | ResolvedFilter::Equality(_)
        | ResolvedFilter::GreaterOrEqual(_)
        | ResolvedFilter::LessOrEqual(_)
        | ResolvedFilter::Approx(_)
        | ResolvedFilter::Substrings(_)
        | ResolvedFilter::Undefined => false,
    }
}

/// Whether a part of a filter is negated.
fn negates(filter: &ResolvedFilter) -> bool {
    match filter {
        ResolvedFilter::And(parts) | ResolvedFilter::Or(parts) => parts.iter().any(negates),
        ResolvedFilter::Not(_) => true,
        ResolvedFilter::Extensible(_)
        | ResolvedFilter::Present(_)
        | ResolvedFilter::Equality(_)
        | ResolvedFilter::GreaterOrEqual(_)
        | ResolvedFilter::LessOrEqual(_)
        | ResolvedFilter::Approx(_)
        | ResolvedFilter::Substrings(_)
        | ResolvedFilter::Undefined => false,
    }
}

/// A search that waits for a change, or for room to tell one, as long as this lives.
pub struct ChangeWait {
    _wait: Wait,
}

#[expect(dead_code, reason = "it is there until it goes")]
enum Wait {
    Change(Waiter),
    Room(RoomWait),
}

impl fmt::Debug for ChangeWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeWait").finish_non_exhaustive()
    }
}

impl Search<'_> {
    /// It may use what its job has waited for.
    pub(in crate::read::search) fn has_room(&self, job: &Job) {
        if let Some(room) = job.room.take() {
            self.streaming().room.set(Some(room));
        }
    }

    /// The room that it has waited for.
    pub(in crate::read::search) fn take_room(&self) -> Option<AskerHeld> {
        self.streaming.get()?.room.take()
    }

    /// Whether it may wait for room: before it tells what changes it has a limit of time, and holds
    /// back what its connection asks next.
    pub(in crate::read::search) fn may_wait_for_room(&self) -> bool {
        self.streaming.get().is_some_and(|streaming| streaming.is_live.get())
    }

    /// It parks until there is room for an entry that is sent in parts.
    pub(in crate::read::search) fn wait_for_room(&self) {
        self.streaming().waits_for_room.set(true);
    }

    pub(in crate::read::search) fn waits_for_room(&self) -> bool {
        self.streaming.get().is_some_and(|streaming| streaming.waits_for_room.get())
    }
}

impl Directory {
    /// Calls `wake` once, when there is a change that may concern a job that [waits for one], or
    /// none will come; not while the returned value is gone. None: the job does not wait.
    ///
    /// [waits for one]: Job::waits_for_change
    pub fn wait_for_change(
        self: &Arc<Self>,
        job: &Job,
        wake: Box<dyn FnOnce(Passed) + Send>,
    ) -> Option<ChangeWait> {
        let parked = job.parked.as_ref()?;
        if parked.waits_for_room {
            let grant = move |room| wake(Passed { place: None, room });
            let all = &self.budgets.large_entries;
            let wait = AskerHeld::wait(all, job.asker, LARGE_ENTRY_BYTES, Box::new(grant));
            return Some(ChangeWait { _wait: Wait::Room(wait) });
        }
        let stream = parked.stream.as_ref().filter(|stream| stream.waits)?;
        let place = Place { lsn: stream.lsn, hash: stream.hash };
        let directory = Arc::downgrade(self);
        let interest = stream.interest.clone();
        let wait = self.streams.wait(place, interest, wake, move || looker(directory));
        Some(ChangeWait { _wait: Wait::Change(wait) })
    }
}

impl Directory {
    /// Calls `wake` once, when there is a change behind this one, or none will come; not while the
    /// returned value is gone.
    pub fn wait_behind(self: &Arc<Self>, lsn: Lsn, wake: Box<dyn FnOnce() + Send>) -> ChangeWait {
        let directory = Arc::downgrade(self);
        // The hash is for those who are passed over.
        let place = Place { lsn, hash: 0 };
        let wait = self.streams.wait(place, None, Box::new(|_| wake()), move || looker(directory));
        ChangeWait { _wait: Wait::Change(wait) }
    }
}

impl Job {
    /// It goes on with what it has waited for.
    pub fn pass(&mut self, passed: Passed) {
        let Passed { place, room } = passed;
        self.room.set(room);
        let stream = self.parked.as_mut().and_then(|parked| parked.stream.as_mut());
        let Some((stream, place)) = stream.zip(place) else { return };
        if stream.waits && stream.lsn < place.lsn {
            (stream.lsn, stream.hash) = (place.lsn, place.hash);
        }
    }
}

#[cfg(any(test, feature = "test-support"))]
impl crate::request::worker::Worker {
    /// Has a job pass over the changes that do not concern it; whether these are all there are.
    pub fn pass_changes(&mut self, job: &mut Job) -> bool {
        let parked = job.parked.as_ref().and_then(|parked| parked.stream.as_ref());
        let Some((place, interest)) = parked.filter(|stream| stream.waits).and_then(|stream| {
            let place = Place { lsn: stream.lsn, hash: stream.hash };
            stream.interest.clone().map(|interest| (place, interest))
        }) else {
            return false;
        };
        let mut look = looker(Arc::downgrade(&self.directory));
        let (place, is_all) = match look(&[(interest, place)])[..] {
            [Found::Passed(place)] => (Some(place), true),
            [Found::Concerned(place)] => (Some(place), false),
            _ => (None, false),
        };
        job.pass(Passed { place, room: None });
        is_all
    }
}

/// What looks at changes for those who wait, with a reader of its own.
fn looker(directory: Weak<Directory>) -> Look {
    let mut reader = None;
    Box::new(move |asked| {
        let found = directory.upgrade().and_then(|directory| {
            // It goes with a panic.
            let mut one = reader.take().unwrap_or_else(|| directory.storage.store.reader());
            let found = look_now(&directory, &mut one, asked);
            one.release();
            reader = Some(one);
            found
        });
        found.unwrap_or_else(|| vec![Found::Unknown; asked.len()])
    })
}

/// None where what there is cannot be read.
fn look_now(
    directory: &Directory,
    reader: &mut StoreReader,
    asked: &[(Arc<Interest>, Place)],
) -> Option<Vec<Found>> {
    let state = directory.state.load();
    let view = reader.view().ok()?;
    let last = view.lsn();
    let first = asked.iter().map(|(_, place)| place.lsn).min()?;
    // Who is further behind reads for itself.
    let oldest = last.0.saturating_sub(RECORDS_MAX as u64 / 2);
    let changes = directory.changes();
    let mut told = Vec::new();
    for lsn in (first.0.max(oldest) + 1..=last.0).map(Lsn) {
        match directory.streams.record(&changes, &state.schema, lsn).ok()? {
            Some(one) => told.push(one),
            // It is there, and not shared: who waits reads it.
            None if lsn <= changes.last() => return None,
            None => break,
        }
    }
    let rules = directory.rules.of_views.load();
    let given = &rules.at(last).virtual_attributes;
    let follows = asked.iter().any(|(interest, _)| interest.follows_aliases);
    let ground = Ground {
        view,
        schema: &state.schema,
        has_aliases: follows && any_alias(view).unwrap_or(true),
        may_give: &|one| !given.is_empty() && given.may_give(one),
    };
    Some(look(&ground, &told, asked))
}

/// A filter of more terms, or of a longer text, is asked by who waits.
const TERMS_MAX: u64 = 32;
const TEXT_MAX_BYTES: usize = 2_048;
