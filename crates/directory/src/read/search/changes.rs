//! A search in `cn=changelog`: change records of the archive and the log, one after the other.
//!
//! Invariant: one record is held at a time; what parks holds nothing, and goes on behind the part
//! of a record that it sent last.

use std::time::Duration;

use history::changes::{ChangeReader, Changes};
use history::log::{Gone, Tail as _};
use history::record::{Decoder, Record};
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{Entry, Truth};
use store::{Lsn, View};

use super::bounds::Bounds;
use super::outcome::{Done, SearchOutcome};
use super::parked::{CandidatesSeen, Parked, Phase};
use super::request::Search;
use super::special::Visible;
use crate::access::guard::Guard;
use crate::changelog::{self, Asked, Place, Range, Target};
use crate::directory::State;
use crate::request::cookie::{self, CookieFault};
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};

/// Steps that a record takes: reading and decoding it.
const RECORD_STEPS: u64 = 200;

/// Steps that each of its parts takes: looking at the entry that was changed.
const PART_STEPS: u64 = 200;

/// A search in `cn=changelog` under way.
struct Reading<'a> {
    search: &'a Search<'a>,
    changes: &'a Changes,
    view: &'a View<'a>,
    state: &'a State,
    guard: &'a Guard<'a>,
    visible: Visible<'a>,
    bounds: Bounds,
    /// Entries sent for this request and the pages before it, and for this page.
    sent: u32,
    of_page: u32,
    /// The change that was sent last.
    last: (Lsn, usize),
    seen: CandidatesSeen,
}

impl Search<'_> {
    /// A search in `cn=changelog`.
    pub(super) fn changes(
        &self,
        view: &View<'_>,
        guard: &Guard<'_>,
        state: &State,
        visible: Visible<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let schema = &state.schema;
        let place = Place::of(self.request.base, schema);
        // Records are read from files.
        let is_root_alone = place == Place::Root && self.request.scope == Scope::Base;
        if self.candidates_max.is_some() && !is_root_alone {
            return Ok(SearchOutcome::TooMuch);
        }
        let bounds = self.bounds();
        let (sent, seen) = self.resumed.map_or((0, CandidatesSeen::default()), Parked::counts);
        let changes = self.directory.changes();
        let mut reading = Reading {
            search: self,
            changes: &changes,
            view,
            state,
            guard,
            visible,
            bounds,
            sent,
            of_page: self.resumed.map_or(0, Parked::of_page),
            last: self.resumed.and_then(Parked::change).unwrap_or(BEFORE_ALL),
            seen,
        };
        if self.resumed.is_some() {
            let has_more = place == Place::Root && self.request.scope != Scope::Base;
            return if has_more { reading.read(sink) } else { reading.complete() };
        }
        let base = match place {
            Place::Root => changelog::root(schema, (changes.first().0, view.lsn().0)),
            Place::Change { lsn, part } => reading.one(lsn, part)?,
            Place::Nothing => return Err(no_change()),
        };
        if let Some(end) = self.asserted(&base, guard, schema)? {
            return Ok(end);
        }
        self.made(place != Place::Root, schema, guard, || reading.from(&base, place, sink))
    }
}

impl Reading<'_> {
    /// Sends the base if it is in scope, and the changes if they are.
    fn from(
        &mut self,
        base: &Entry,
        place: Place,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let scope = self.search.request.scope;
        let is_first_page = self.page()?.is_none();
        if matches!(scope, Scope::Base | Scope::Subtree)
            && is_first_page
            && let Some(end) = self.send(base, BEFORE_ALL, sink)
        {
            return Ok(end);
        }
        if place == Place::Root && scope != Scope::Base {
            return self.read(sink);
        }
        self.complete()
    }

    /// All were sent.
    fn complete(&self) -> Result<SearchOutcome, Refusal> {
        Ok(SearchOutcome::Done(self.search.complete()))
    }

    /// Behind which change the page before ended, and how many entries all before it had.
    fn page(&self) -> Result<Option<(Lsn, usize, u32)>, Refusal> {
        let Some(paged) = &self.search.controls.paged else { return Ok(None) };
        if paged.cookie.is_empty() {
            return Ok(None);
        }
        let key = &self.search.directory.cookie_key;
        let content = key.open(cookie::CHANGES, paged.cookie, &self.search.binding())?;
        let numbers = content.split_first_chunk::<8>().map(|(lsn, rest)| (lsn, rest.as_chunks().0));
        let Some((lsn, [part, sent])) = numbers else { return Err(CookieFault::Malformed.into()) };
        let [part, sent] = [*part, *sent].map(u32::from_be_bytes);
        Ok(Some((Lsn(u64::from_be_bytes(*lsn)), part as usize, sent)))
    }

    /// Sends the changes that the filter is true of, behind those that were sent.
    fn read(&mut self, sink: &mut ResponseSink<'_>) -> Result<SearchOutcome, Refusal> {
        let range = Range::of(&self.search.request.filter, &self.state.schema);
        let (from, after_part) = match (self.search.resumed.and_then(Parked::change), self.page()?)
        {
            (Some(place), _) => place,
            (None, Some((lsn, part, sent))) => {
                self.sent = sent;
                (lsn, part)
            }
            (None, None) => (Lsn(0), 0),
        };
        let (from, after_part) = match from {
            // The first of all is before any.
            Lsn(0) => match self.first(&range)? {
                Some(first) => (first, 0),
                None => return self.interrupted(),
            },
            // Parts of a change that were sent are passed over.
            from if from >= self.changes.first() => (from, after_part),
            from => return Err(gone(from, self.changes.first())),
        };
        // What the view does not have yet cannot be judged by it.
        let last = range.last.min(self.view.lsn().0);
        if from.0 > last {
            return self.complete();
        }
        let mut reader = self.changes.read(from).map_err(|gone| unreadable(&gone))?;
        let mut decoder = Decoder::new(self.state.schema.clone());
        while reader.position().0 <= last {
            // One of which a part was sent was counted then.
            if after_part == 0 || reader.position() != from {
                self.seen.candidates += 1;
                self.search.note.candidates(self.seen.candidates);
            }
            self.search.spend(RECORD_STEPS);
            if let Some(end) = self.search.ended(&self.bounds) {
                return Ok(end);
            }
            if self.has_looked_enough() {
                return Err(Refusal::new(ResultCode::AdminLimitExceeded, LOOKED_ENOUGH));
            }
            let Some(record) = next(&mut reader, &mut decoder)? else { break };
            let skipped = if record.lsn == from { after_part } else { 0 };
            for part in skipped + 1..=record.changes.len() {
                self.search.spend(PART_STEPS);
                if let Some(end) = self.search.ended(&self.bounds) {
                    return Ok(end);
                }
                let Some(entry) = self.entry(&record, part)? else { continue };
                if let Some(end) = self.send(&entry, (record.lsn, part), sink) {
                    return Ok(end);
                }
            }
        }
        self.complete()
    }

    /// Whether no more changes may be looked at.
    fn has_looked_enough(&self) -> bool {
        let most = self.bounds.look_through_entries;
        most > 0 && self.seen.candidates > u64::from(most)
    }

    /// What the next page begins with.
    fn cookie(&self) -> Vec<u8> {
        let (lsn, part) = self.last;
        let mut content = lsn.0.to_be_bytes().to_vec();
        content.extend_from_slice(&u32::try_from(part).unwrap_or(u32::MAX).to_be_bytes());
        content.extend_from_slice(&self.sent.to_be_bytes());
        let search = self.search;
        search.seal(cookie::CHANGES, &content, &search.binding())
    }

    /// The first record that may match; none when looking for it has to end.
    fn first(&self, range: &Range) -> Result<Option<Lsn>, Refusal> {
        let changes = self.changes;
        let first = changes.first().max(Lsn(range.first));
        if range.since.0 == 0 {
            return Ok(Some(first));
        }
        let mut is_over = || {
            self.search.spend(RECORD_STEPS);
            self.search.ended(&self.bounds).is_some()
        };
        let since = changes.first_since(range.since, &mut is_over);
        let since = since.map_err(|gone| unreadable(&gone))?;
        Ok(since.map(|since| first.max(since)))
    }

    /// Why the search ends before its first change.
    fn interrupted(&self) -> Result<SearchOutcome, Refusal> {
        Ok(self.search.ended(&self.bounds).unwrap_or(SearchOutcome::Abandoned))
    }

    /// One change by its name.
    fn one(&self, lsn: Lsn, part: usize) -> Result<Entry, Refusal> {
        let changes = self.changes;
        self.search.spend(RECORD_STEPS + PART_STEPS);
        let is_kept = lsn >= changes.first() && lsn <= self.view.lsn();
        let mut reader = changes.read(lsn).ok().filter(|_| is_kept).ok_or_else(no_change)?;
        let mut decoder = Decoder::new(self.state.schema.clone());
        let record = next(&mut reader, &mut decoder)?.ok_or_else(no_change)?;
        self.entry(&record, part)?.ok_or_else(no_change)
    }

    /// A part of a record as an entry, with what the asker may see of it.
    fn entry(&self, record: &Record, part: usize) -> Result<Option<Entry>, Refusal> {
        let schema = &self.state.schema;
        let Some(change) = record.changes.get(part - 1) else { return Ok(None) };
        let (time, view) = (record.csn.time, self.view);
        let target = self
            .guard
            .anywhere(|guard| Target::of(change, &Asked { time, guard, view, schema }))?;
        Ok(target.and_then(|target| changelog::entry(schema, record, part, &target)))
    }

    /// Sends an entry if the filter is true of it; `at` says which change it is. What ends the
    /// search, if anything does.
    fn send(
        &mut self,
        entry: &Entry,
        at: (Lsn, usize),
        sink: &mut ResponseSink<'_>,
    ) -> Option<SearchOutcome> {
        let (filter, selection, wanted) = self.visible;
        let (search, schema) = (self.search, &self.state.schema);
        let rights = self.guard.on(entry);
        let matches = rights.may_see()
            && search.evaluate(filter, schema, &rights.searchable(entry)) == Truth::True;
        if !matches {
            return search.work_over();
        }
        let limits = [self.bounds.total_entries, self.bounds.entries];
        if limits.into_iter().any(|most| most > 0 && self.sent >= most) {
            return Some(SearchOutcome::Done(Done::refused(Refusal::new(
                ResultCode::SizeLimitExceeded,
                "more changes match than the size limit allows; ask for those after the last \
                 changeNumber",
            ))));
        }
        if self.bounds.page.is_some_and(|most| self.of_page >= most) {
            return Some(SearchOutcome::Done(Done::page(&self.cookie())));
        }
        if let Some(end) = search.picks(&rights.visible(entry, selection), wanted) {
            return Some(end);
        }
        (self.sent, self.of_page) = (self.sent + 1, self.of_page + 1);
        self.last = at;
        match sink.entry(&rights.visible(entry, selection).only(wanted)) {
            Flow::Continue => search.work_over(),
            Flow::Park => {
                let phase = Phase::Changes { lsn: at.0, part: at.1, of_page: self.of_page };
                Some(SearchOutcome::parked(phase, self.sent, self.seen))
            }
            // Kept up to a limit where requests are read.
            Flow::Stop if search.candidates_max.is_some() => Some(SearchOutcome::TooMuch),
            Flow::Stop => Some(SearchOutcome::Abandoned),
        }
    }
}

/// The place before all changes.
const BEFORE_ALL: (Lsn, usize) = (Lsn(0), 0);

/// The next record, decoded; none when there is none now.
fn next(reader: &mut ChangeReader, decoder: &mut Decoder) -> Result<Option<Record>, Refusal> {
    let record = reader.next_within(Duration::ZERO).map_err(|gone| unreadable(&gone))?;
    let Some(record) = record else { return Ok(None) };
    let decoded = decoder.decode(&record.bytes);
    decoded.map(Some).map_err(|error| {
        tracing::error!(lsn = record.lsn.0, %error, "a change record cannot be read");
        Refusal::new(ResultCode::Other, format!("change {} cannot be read", record.lsn.0))
    })
}

fn unreadable(gone: &Gone) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, gone.to_string())
}

fn gone(from: Lsn, first: Lsn) -> Refusal {
    let why = format!(
        "change {} is not kept any more: begin again with changeNumber>={}",
        from.0, first.0
    );
    Refusal::new(ResultCode::UnwillingToPerform, why)
}

const LOOKED_ENOUGH: &str = "more changes would have to be looked at than the look-through limit \
                             allows; ask for a range of changeNumber";

fn no_change() -> Refusal {
    Refusal::no_such_object(changelog::CHANGELOG_DN.to_owned(), "there is no such change")
}
