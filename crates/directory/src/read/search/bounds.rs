//! What a search may cost: the limits of the client, the server and the identity, and what else
//! may end it before it is done.

use std::time::Duration;

use ldap::result::ResultCode;
use schema::EntryId;
use store::StoreError;

use super::outcome::{Done, SearchOutcome};
use super::request::Search;
use crate::request::controls::paged::Position;
use crate::request::refusal::Refusal;
use crate::request::stop::Stop;

/// What ends a search before its candidates do.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// What all pages together may have, of the client's size limit and the server's for pages; 0 =
    /// any number.
    pub(crate) total_entries: u32,
    /// The server's size limit, for each page; 0 = none.
    pub(crate) entries: u32,
    /// Entries that may be looked at; 0 = any number.
    pub(crate) look_through_entries: u32,
    pub(crate) page: Option<u32>,
    pub(crate) deadline: Option<Duration>,
}

impl Search<'_> {
    /// The smaller of what was asked for and what is allowed. What the identity was given comes
    /// before what everybody has; the root identity is allowed all.
    pub(crate) fn bounds(&self) -> Bounds {
        let limits = &self.directory.limits();
        let grants = self.access.grants();
        let page = self.controls.paged.as_ref().map(|paged| paged.size_entries);
        let (entries, paged_total, seconds, look_through_entries) = if self.access.is_root() {
            (0, 0, 0, 0)
        } else {
            (
                grants.size_limit_entries.unwrap_or(limits.size_limit_entries),
                grants.paged_total_entries_max.unwrap_or(limits.paged_total_entries_max),
                grants.time_limit_s.unwrap_or(limits.time_limit_s),
                grants.look_through_limit_entries.unwrap_or(limits.look_through_limit_entries),
            )
        };
        let time = [self.request.time_limit_s, seconds].into_iter().filter(|&s| s > 0).min();
        let total = page.map(|_| paged_total).into_iter().chain([self.request.size_limit_entries]);
        // The time that a job waited for its turn counts.
        let deadline = self
            .stop
            .and_then(Stop::deadline)
            .or_else(|| time.map(|time| self.begun + Duration::from_secs(time.into())));
        Bounds {
            total_entries: total.filter(|&most| most > 0).min().unwrap_or(0),
            entries,
            look_through_entries,
            page,
            deadline,
        }
    }

    /// Whether nobody waits for the search any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.stop.is_some_and(Stop::is_abandoned)
    }

    /// Whether planning has to end: nobody waits for it, the time is up, or it takes too long for
    /// the thread that reads requests.
    pub(super) fn planning_ends(&self, bounds: &Bounds) -> bool {
        if self.is_abandoned() {
            return true;
        }
        let now = self.directory.clock.elapsed();
        let most = self.directory.limits().inline_planning_max;
        bounds.deadline.is_some_and(|deadline| now >= deadline)
            || (self.candidates_max.is_some() && now.saturating_sub(self.begun) > most)
    }

    /// What the store asks while it reads: see [`Self::planning_ends`].
    pub(super) fn interrupt<'s>(&'s self, bounds: &'s Bounds) -> impl Fn() -> bool + 's {
        || self.planning_ends(bounds)
    }

    /// How the search ends when the store was interrupted, or failed.
    pub(crate) fn ended_by(
        &self,
        error: StoreError,
        bounds: &Bounds,
    ) -> Result<SearchOutcome, Refusal> {
        match error {
            // Without another reason it is too much for the thread that reads requests.
            StoreError::Interrupted => Ok(self.ended(bounds).unwrap_or(SearchOutcome::TooMuch)),
            failed => Err(failed.into()),
        }
    }

    /// How many entries are enough, if that is known: one more than may be sent, to see that there
    /// are more.
    pub(super) fn wanted(&self, bounds: &Bounds, start: &Position) -> Option<u64> {
        let is_picky = self.controls.join.as_ref().is_some_and(|join| join.require_match);
        let needs_all = self.controls.entry_count.is_some() || self.is_sorted() || is_picky;
        if needs_all || self.resumed.is_some() || start.after != EntryId::ROOT {
            return None;
        }
        let limits = [bounds.total_entries, bounds.entries].into_iter().filter(|&most| most > 0);
        limits.chain(bounds.page).min().map(|most| u64::from(most) + 1)
    }

    /// Why the search has to end now, if it has to; for steps that look at no entries.
    pub(crate) fn ended(&self, bounds: &Bounds) -> Option<SearchOutcome> {
        if self.is_abandoned() {
            return Some(SearchOutcome::Abandoned);
        }
        if let Some(end) = self.work_over() {
            return Some(end);
        }
        let now = self.directory.clock.elapsed();
        self.is_late(bounds, now).then(|| SearchOutcome::Done(too_long()))
    }
}

/// The answer to a search that took too long.
pub(crate) fn too_long() -> Done {
    Done::refused(Refusal::new(
        ResultCode::TimeLimitExceeded,
        "the search took longer than allowed; its entries are incomplete",
    ))
}
