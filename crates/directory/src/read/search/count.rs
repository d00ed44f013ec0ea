//! Counting instead of returning: the matching entry count control.
//!
//! Invariant: a number tells no more than the entries would: of a filter that the asker may not use
//! in full, or of candidates elsewhere that may be hidden, only entries that were looked at are
//! counted.

use ldap::result::ResultCode;
use ldap::search_control::{EntryCount, EntryCountRequest};
use schema::EntryId;
use store::Plan;

use super::outcome::{Done, SearchOutcome};
use super::parked::{Parked, Phase};
use super::request::Search;
use super::run::{AfterEntry, Run};
use crate::request::controls::entry_count;
use crate::request::refusal::Refusal;
use crate::request::sink::ResponseSink;

impl Search<'_> {
    /// Answers with the number of entries that the search has.
    pub(super) fn count(
        &self,
        request: &EntryCountRequest,
        plan: &Plan,
        run: &mut Run<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        if self.controls.paged.is_some() {
            return Err(Refusal::new(
                ResultCode::UnwillingToPerform,
                "a count has no pages: leave out one of the two controls",
            ));
        }
        let may_tell = run.may_count_candidates();
        let is_indexed = (plan.indexed || plan.exact) && may_tell;
        let may_examine = if is_indexed {
            plan.estimate <= u64::from(request.examine_max)
        } else {
            request.even_unindexed
        };
        let goes_on = matches!(self.resumed, Some(Parked { phase: Phase::Counted { .. }, .. }));
        // As it began, whatever may be estimated by now.
        let may_examine = may_examine || goes_on;
        let is_exact =
            may_tell && run.sends_all() && !(request.always_examine && may_examine) && !goes_on;
        if (is_exact || may_examine) && self.candidates_max.is_some_and(|max| plan.estimate > max) {
            return Ok(SearchOutcome::TooMuch);
        }
        let count = if is_exact {
            match self.unexamined(plan, run)? {
                Ok(count) => EntryCount::Unexamined(count),
                Err(end) => return Ok(end),
            }
        } else if may_examine {
            self.note_unindexed(plan);
            match examined(plan, run, sink)? {
                Ok(count) => EntryCount::Examined(count),
                Err(end) => return Ok(end),
            }
        } else if is_indexed {
            EntryCount::AtMost(plan.estimate)
        } else {
            EntryCount::Unknown
        };
        let mut debug = Vec::new();
        if request.debug && may_tell {
            let how = if is_exact {
                "each of which matches"
            } else if may_examine {
                "each of which was looked at"
            } else {
                "none of which was looked at"
            };
            debug.push(format!("{} candidates, {how}", plan.estimate));
        }
        let control = entry_count::response(count, &debug, is_indexed);
        Ok(SearchOutcome::Done(Done::success().with(control)))
    }

    /// Counts candidates that all match; `Err` when it has to end before.
    fn unexamined(
        &self,
        plan: &Plan,
        run: &mut Run<'_>,
    ) -> Result<Result<u64, SearchOutcome>, Refusal> {
        if !plan.indexed {
            // Every entry there is.
            return Ok(Ok(plan.estimate));
        }
        let mut count = 0_u64;
        let interrupt = self.interrupt(&run.bounds);
        for id in plan.candidates_until(run.view, EntryId::ROOT, &interrupt) {
            if let Err(error) = id {
                return self.ended_by(error, &run.bounds).map(Err);
            }
            count += 1;
            if count.is_multiple_of(IDS_BETWEEN_CHECKS)
                && let Some(end) = self.ended(&run.bounds)
            {
                return Ok(Err(end));
            }
        }
        Ok(Ok(count))
    }
}

/// Looks at every candidate and counts those that match.
fn examined(
    plan: &Plan,
    run: &mut Run<'_>,
    sink: &mut ResponseSink<'_>,
) -> Result<Result<u64, SearchOutcome>, Refusal> {
    let (mut begin, mut count) = (EntryId::ROOT, 0);
    let (search, bounds) = (run.search, run.bounds);
    if let Some(parked) = search.resumed {
        run.resume(parked);
        if let Phase::Counted { after, count: counted } = parked.phase {
            (begin, count) = (after, counted);
        }
    }
    let interrupt = search.interrupt(&bounds);
    for stored in plan.entries_until(run.view, begin, &interrupt) {
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => return search.ended_by(error, &bounds).map(Err),
        };
        if let Some(end) = run.interrupted() {
            return Ok(Err(end));
        }
        count += u64::from(run.matches(&stored)?);
        run.release(sink);
        match run.turn(sink) {
            AfterEntry::Next => {}
            AfterEntry::Park => {
                return Ok(Err(run.parked(Phase::Counted { after: stored.id(), count })));
            }
            AfterEntry::End(end) => return Ok(Err(end)),
        }
    }
    Ok(Ok(count))
}

/// Ids counted between two looks at whether to go on.
const IDS_BETWEEN_CHECKS: u64 = 1_000;
