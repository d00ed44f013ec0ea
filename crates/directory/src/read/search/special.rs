//! Searches of entries that the server makes itself: the root DSE, the subschema subentry, and the
//! trees of `virtual_tree`.
//!
//! Invariant: nothing of them is stored; all of them leave through `aci`.

use aci::WantedValues;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{EntryRead, ResolvedFilter, Schema, Selection, Truth};

use super::outcome::{Done, SearchOutcome};
use super::parked::{CandidatesSeen, Parked, Phase};
use super::request::Search;
use crate::access::guard::Guard;
use crate::read::virtual_tree::TreeEntries;
use crate::request::refusal::Refusal;
use crate::request::sink::{Flow, ResponseSink};

/// Which entries are wanted, which attributes of them, and which values of those.
pub(super) type Visible<'a> = (&'a ResolvedFilter, &'a Selection, Option<WantedValues<'a>>);

impl Search<'_> {
    /// A search of an entry the server makes itself: it has nothing below it.
    pub(super) fn special(
        &self,
        entry: &dyn EntryRead,
        guard: &Guard<'_>,
        schema: &Schema,
        (filter, selection, wanted): Visible<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> SearchOutcome {
        let in_scope = match self.request.scope {
            Scope::Base | Scope::Subtree => true,
            Scope::One | Scope::Subordinate => false,
        };
        let rights = guard.on(entry);
        if in_scope
            && rights.may_see()
            && self.evaluate(filter, schema, &rights.searchable(entry)) == Truth::True
        {
            if let Some(end) = self.picks(&rights.visible(entry, selection), wanted) {
                return end;
            }
            let _ = sink.entry(&rights.visible(entry, selection).only(wanted));
        }
        self.work_over().unwrap_or_else(|| SearchOutcome::Done(self.complete()))
    }

    /// A search in a tree the server makes itself.
    pub(super) fn virtual_entries(
        &self,
        found: TreeEntries,
        guard: &Guard<'_>,
        schema: &Schema,
        (filter, selection, wanted): Visible<'_>,
        sink: &mut ResponseSink<'_>,
    ) -> Result<SearchOutcome, Refusal> {
        let TreeEntries::Found { base, in_scope } = found else {
            return Ok(SearchOutcome::TooMuch);
        };
        if self.resumed.is_none()
            && let Some(end) = self.asserted(&base, guard, schema)?
        {
            return Ok(end);
        }
        let before = self.resumed.map_or(0, Parked::made);
        let matching = in_scope.iter().map(|entry| (entry, guard.on(entry)));
        let matching = matching.filter(|(entry, rights)| {
            rights.may_see()
                && self.evaluate(filter, schema, &rights.searchable(*entry)) == Truth::True
        });
        let most = usize::try_from(self.request.size_limit_entries).unwrap_or(usize::MAX);
        for (sent, (entry, rights)) in matching.enumerate().skip(before) {
            if most > 0 && sent >= most {
                return Ok(SearchOutcome::Done(Done::refused(Refusal::new(
                    ResultCode::SizeLimitExceeded,
                    "more entries match than the size limit allows",
                ))));
            }
            if let Some(end) = self.picks(&rights.visible(entry, selection), wanted) {
                return Ok(end);
            }
            let visible = rights.visible(entry, selection).only(wanted);
            match sink.entry(&visible) {
                Flow::Continue => {}
                Flow::Park => {
                    return Ok(SearchOutcome::parked(
                        Phase::Made { sent: sent + 1 },
                        0,
                        CandidatesSeen::default(),
                    ));
                }
                Flow::Stop if self.candidates_max.is_some() => return Ok(SearchOutcome::TooMuch),
                Flow::Stop => return Ok(SearchOutcome::Abandoned),
            }
        }
        Ok(self.work_over().unwrap_or_else(|| SearchOutcome::Done(self.complete())))
    }
}
