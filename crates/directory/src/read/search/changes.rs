//! A search in `cn=changelog`: change records of the archive and the log, one after the other.
//!
//! Invariant: one record is held at a time; what parks holds nothing, and goes on behind the part
//! of a record that it sent last.

use std::borrow::Cow;
use std::time::Duration;

use environment::Timestamp;
use history::changes::{ChangeReader, Changes};
use history::log::{Gone, Tail as _};
use history::record::{Decoder, Record, RecordHead};
use ldap::control_value::usability;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry, Truth};
use store::{Lsn, View};

use super::bounds::Bounds;
use super::outcome::{Done, SearchOutcome};
use super::parked::{CandidatesSeen, Parked, Phase};
use super::request::Search;
use super::special::Visible;
use crate::access::guard::Guard;
use crate::changelog::{self, Asked, ChangeCookie, Naming, Place, Range, Shown, Target};
use crate::config::{index_config, setting_config};
use crate::directory::State;
use crate::read::virtual_tree::names::INDEX_CONFIG_DN;
use crate::read::virtual_tree::{self, TreeEntries, TreeSearch};
use crate::request::controls::response::ResponseControl;
use crate::request::controls::{
    changelog_cookie, dereference, effective_rights, entry_count, join, vlv,
};
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
        let is_dated = self
            .request
            .attributes
            .iter()
            .any(|name| name == "+" || name.eq_ignore_ascii_case("createTimestamp"));
        if self.candidates_max.is_some() && (!is_root_alone || is_dated) {
            return Ok(SearchOutcome::TooMuch);
        }
        self.refuse_critical()?;
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
            Place::Root => {
                let begun = is_dated.then(|| made_first(&changes)).flatten();
                // What is visible a moment before the log tells it is not there yet.
                let last = view.lsn().min(changes.last());
                changelog::root(schema, (changes.first().0, last.0), begun)
            }
            Place::Change { lsn, part } => reading.one(lsn, part, &Naming::Numbers)?,
            Place::ByCsn { .. } => reading.one_by_csn(&place)?,
            Place::Nothing => return Err(no_change()),
        };
        if let Some(end) = self.asserted(&base, guard, schema)? {
            return Ok(end);
        }
        let is_one = place != Place::Root;
        self.made(is_one, schema, guard, || reading.from(&base, is_one, sink))
    }

    /// Refuses controls that are critical and change nothing here.
    fn refuse_critical(&self) -> Result<(), Refusal> {
        match self.controls.critical.iter().find(|oid| NOT_DONE.contains(oid)) {
            None => Ok(()),
            Some(oid) => Err(Refusal::new(
                ResultCode::UnavailableCriticalExtension,
                format!("control {oid} is not supported in cn=changelog"),
            )),
        }
    }
}

impl Reading<'_> {
    /// Sends the base if it is in scope, and the changes if they are.
    fn from(
        &mut self,
        base: &Entry,
        is_one: bool,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let scope = self.search.request.scope;
        let is_first_page = self.page()?.is_none();
        // Before anything is sent.
        let cookie = self.search.controls.changelog_cookie.map(|asked| asked.cookie);
        if let Some(cookie) = cookie.filter(|cookie| !cookie.is_empty() && is_first_page) {
            self.behind(cookie)?;
        }
        if matches!(scope, Scope::Base | Scope::Subtree)
            && is_first_page
            && let Some(end) = self.send(base, BEFORE_ALL, None, sink)
        {
            return Ok(end);
        }
        if !is_one && scope != Scope::Base {
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
        // What the view does not have yet cannot be judged by it.
        let last = range.last.min(self.view.lsn().0);
        let (mut reader, from, after_part) = match self.begin(&range)? {
            Begin::At(from, after_part) if from.0 <= last => {
                let reader = self.changes.read(from).map_err(|gone| unreadable(&gone))?;
                (reader, from, after_part)
            }
            Begin::At(..) => return self.complete(),
            Begin::Behind(reader) => {
                let from = reader.position();
                (*reader, from, 0)
            }
            Begin::Over => return self.interrupted(),
        };
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
            let Some((record, hash)) = next(&mut reader, &mut decoder)? else { break };
            let skipped = if record.lsn == from { after_part } else { 0 };
            for part in skipped + 1..=record.changes.len() {
                self.search.spend(PART_STEPS);
                if let Some(end) = self.search.ended(&self.bounds) {
                    return Ok(end);
                }
                let cookie = self.cookie_behind(&record, hash, part);
                let Some(entry) = self.entry(&record, part, &self.naming(), &cookie)? else {
                    continue;
                };
                let at = (record.lsn, part);
                if let Some(end) = self.send(&entry, at, Some(&cookie), sink) {
                    return Ok(end);
                }
            }
        }
        self.complete()
    }

    /// Where to begin, or to go on.
    fn begin(&mut self, range: &Range) -> Result<Begin, Refusal> {
        let cookie = self.search.controls.changelog_cookie.map(|asked| asked.cookie);
        let first = self.changes.first();
        let resumed = self.search.resumed.and_then(Parked::change);
        let page = self.page()?.filter(|_| resumed.is_none());
        if let Some((_, _, sent)) = page {
            self.sent = sent;
        }
        let place = resumed.or_else(|| page.map(|(lsn, part, _)| (lsn, part)));
        // Behind the base alone reading has not begun.
        let (from, after_part) = match place.filter(|place| *place != BEFORE_ALL) {
            Some(place) => place,
            None => match cookie.filter(|cookie| !cookie.is_empty()) {
                Some(cookie) => return self.behind(cookie),
                None => BEFORE_ALL,
            },
        };
        Ok(match from {
            // The first of all is before any.
            Lsn(0) => self.first(range)?.map_or(Begin::Over, |first| Begin::At(first, 0)),
            // Parts of a change that were sent are passed over.
            from if from >= first => Begin::At(from, after_part),
            from => return Err(gone(from, first)),
        })
    }

    /// Behind the change that a cookie tells, if that is one of this history.
    fn behind(&self, cookie: &str) -> Result<Begin, Refusal> {
        let changes = self.changes;
        let ChangeCookie { lsn, hash, part } = self.search.directory.change_cookies.read(cookie)?;
        if lsn > changes.last() {
            return Err(Refusal::new(
                ResultCode::UnwillingToPerform,
                format!(
                    "the cookie tells of change {}, and the last one here is {}: older data were \
                     restored, or this server is behind another; try again, or begin with an \
                     empty cookie",
                    lsn.0,
                    changes.last().0
                ),
            ));
        }
        let Some(part) = part else {
            let reader = changes.read_after(lsn, hash).map_err(|gone| stale(&gone))?;
            return Ok(Begin::Behind(Box::new(reader)));
        };
        let mut reader = changes.read(lsn).map_err(|gone| stale(&gone))?;
        let record = reader.next_within(Duration::ZERO).map_err(|gone| stale(&gone))?;
        match record.is_some_and(|record| record.hash == hash) {
            true => Ok(Begin::At(lsn, part as usize)),
            false => Err(stale(&Gone {
                first: changes.first(),
                reason: format!("record {} is of another history of these data", lsn.0),
                may_pass: false,
            })),
        }
    }

    /// Where to go on behind a part of a record.
    fn cookie_behind(&self, record: &Record, hash: u64, part: usize) -> String {
        let is_last = part >= record.changes.len();
        let part = u32::try_from(part).ok().filter(|_| !is_last);
        let cookie = ChangeCookie { lsn: record.lsn, hash, part };
        self.search.directory.change_cookies.write(&cookie)
    }

    /// By what changes are called.
    fn naming(&self) -> Naming {
        match self.search.controls.changelog_cookie {
            Some(_) => Naming::Csns(self.search.directory.storage.store.naming_contexts()),
            None => Naming::Numbers,
        }
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

    /// One change by its number.
    fn one(&self, lsn: Lsn, part: usize, naming: &Naming) -> Result<Entry, Refusal> {
        let changes = self.changes;
        self.search.spend(RECORD_STEPS + PART_STEPS);
        let is_kept = lsn >= changes.first() && lsn <= self.view.lsn();
        let mut reader = changes.read(lsn).ok().filter(|_| is_kept).ok_or_else(no_change)?;
        let mut decoder = Decoder::new(self.state.schema.clone());
        let (record, hash) = next(&mut reader, &mut decoder)?.ok_or_else(no_change)?;
        let cookie = self.cookie_behind(&record, hash, part);
        self.entry(&record, part, naming, &cookie)?.ok_or_else(no_change)
    }

    /// One change by its CSN.
    fn one_by_csn(&self, place: &Place) -> Result<Entry, Refusal> {
        let Place::ByCsn { time, csn, part, key } = place else { return Err(no_change()) };
        let changes = self.changes;
        let mut is_over = || {
            self.search.spend(RECORD_STEPS);
            self.search.ended(&self.bounds).is_some()
        };
        let since = changes.first_since(*time, &mut is_over).map_err(|gone| unreadable(&gone))?;
        let from = since.ok_or_else(no_change)?;
        let mut reader = changes.read(from).map_err(|gone| unreadable(&gone))?;
        while let Some(record) =
            reader.next_within(Duration::ZERO).map_err(|gone| unreadable(&gone))?
        {
            self.search.spend(RECORD_STEPS);
            let head = RecordHead::read(&record.bytes).map_err(|_| no_change())?;
            if head.csn.time != *time {
                break;
            }
            if head.csn.to_string().eq_ignore_ascii_case(csn) {
                let contexts = self.search.directory.storage.store.naming_contexts();
                let entry = self.one(head.lsn, *part, &Naming::Csns(contexts))?;
                let own = DnKey::from_dn(&self.state.schema, entry.name());
                return own.ok().filter(|own| own == key).map(|_| entry).ok_or_else(no_change);
            }
        }
        Err(no_change())
    }

    /// A part of a record as an entry, with what the asker may see of it.
    fn entry(
        &self,
        record: &Record,
        part: usize,
        naming: &Naming,
        cookie: &str,
    ) -> Result<Option<Entry>, Refusal> {
        let schema = &self.state.schema;
        let Some(change) = record.changes.get(part - 1) else { return Ok(None) };
        let (time, view) = (record.csn.time, self.view);
        let target = self.guard.anywhere(|guard| {
            let (made, attribute) = match change {
                Change::Schema(_) => (Some(Cow::Borrowed(&*self.state.subschema)), ""),
                Change::Setting(change) => {
                    let told = setting_config::told(&change.name);
                    told.map_or((None, ""), |(dn, attribute)| self.config(dn, attribute, guard))
                }
                Change::Index(_) => self.config(INDEX_CONFIG_DN, index_config::DEFINITION, guard),
                Change::Add(_)
                | Change::Modify(_)
                | Change::Rename(_)
                | Change::Delete(_)
                | Change::Gather(_)
                | Change::Level(_) => (None, ""),
            };
            let made = made.as_deref();
            Target::of(change, &Asked { time, guard, view, schema, made, attribute })
        })?;
        Ok(target.and_then(|target| {
            let shown = Shown { part, target: &target, naming, cookie };
            changelog::entry(schema, record, &shown)
        }))
    }

    /// An entry of the configuration, as it is now, and the attribute that is asked about; to those
    /// who may see it.
    fn config(
        &self,
        dn: &str,
        attribute: &'static str,
        guard: &Guard<'_>,
    ) -> (Option<Cow<'_, Entry>>, &'static str) {
        let Self { search, state, visible: (_, selection, _), .. } = self;
        let Ok(base) = &DnKey::from_text(&state.schema, dn) else { return (None, "") };
        let asked = TreeSearch { base, scope: Scope::Base, selection, may_wait: true };
        let found = virtual_tree::find(search.directory, state, guard, &asked);
        match found {
            Some(Ok(TreeEntries::Found { base, .. })) => (Some(Cow::Owned(base)), attribute),
            Some(Ok(TreeEntries::TooSlowHere) | Err(_)) | None => (None, ""),
        }
    }

    /// Sends an entry if the filter is true of it; `at` says which change it is. What ends the
    /// search, if anything does.
    fn send(
        &mut self,
        entry: &Entry,
        at: (Lsn, usize),
        cookie: Option<&str>,
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
        let visible = rights.visible(entry, selection).only(wanted);
        let cookie = cookie.filter(|_| search.controls.changelog_cookie.is_some());
        let controls: Vec<ResponseControl> =
            cookie.into_iter().map(changelog_cookie::response).collect();
        match sink.entry_with(&visible, ResponseControl::list(&controls).as_ref()) {
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

/// Where reading begins.
enum Begin {
    /// With this record, behind so many of its parts.
    At(Lsn, usize),
    /// Where a reader is.
    Behind(Box<ChangeReader>),
    /// Nowhere: looking for it has to end.
    Over,
}

/// Controls that change nothing of what is told of changes; whoever cannot do without is refused.
const NOT_DONE: &[&str] = &[
    dereference::OID,
    join::OID,
    entry_count::OID,
    effective_rights::OID,
    usability::OID,
    vlv::OID,
    "2.16.840.1.113730.3.4.17",
    "2.16.840.1.113730.3.4.19",
];

/// The place before all changes.
const BEFORE_ALL: (Lsn, usize) = (Lsn(0), 0);

/// When the first change was made that is kept.
fn made_first(changes: &Changes) -> Option<Timestamp> {
    let mut reader = changes.read(changes.first()).ok()?;
    let record = reader.next_within(Duration::ZERO).ok().flatten()?;
    RecordHead::read(&record.bytes).ok().map(|head| head.csn.time)
}

/// The next record, decoded, and the running hash after it; none when there is none now.
fn next(
    reader: &mut ChangeReader,
    decoder: &mut Decoder,
) -> Result<Option<(Record, u64)>, Refusal> {
    let record = reader.next_within(Duration::ZERO).map_err(|gone| unreadable(&gone))?;
    let Some(record) = record else { return Ok(None) };
    let decoded = decoder.decode(&record.bytes);
    decoded.map(|decoded| Some((decoded, record.hash))).map_err(|error| {
        tracing::error!(lsn = record.lsn.0, %error, "a change record cannot be read");
        Refusal::new(ResultCode::Other, format!("change {} cannot be read", record.lsn.0))
    })
}

fn unreadable(gone: &Gone) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, gone.to_string())
}

/// The refusal of a cookie where no changes are read.
pub(super) fn no_cookies_here() -> Refusal {
    Refusal::new(
        ResultCode::UnavailableCriticalExtension,
        format!("control {} is for searches in cn=changelog", changelog_cookie::OID),
    )
}

/// Why a cookie is of no use any more.
fn stale(gone: &Gone) -> Refusal {
    let Gone { first, reason, .. } = gone;
    let why = format!(
        "the cookie does not lead on: {reason}; begin again with an empty cookie, which leads \
         through the changes from {} on",
        first.0
    );
    Refusal::new(ResultCode::UnwillingToPerform, why)
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
