//! The assertion control of a search (RFC 4528 §3): its target is the base.

use schema::{EntryId, EntryRead, ResolvedFilter, Schema, Truth};
use store::View;

use super::outcome::SearchOutcome;
use super::request::Search;
use crate::access::guard::{self, Guard};
use crate::directory::State;
use crate::read::live_entry::LiveEntry;
use crate::read::root_dse::{self, Offer};
use crate::request::controls::assertion;
use crate::request::refusal::Refusal;

impl Search<'_> {
    /// The target of the assertion control is the base of the search (RFC 4528 §3).
    pub(super) fn asserted_of_base(
        &self,
        view: &View<'_>,
        state: &State,
        guard: &Guard<'_>,
        base: EntryId,
    ) -> Result<Option<SearchOutcome>, Refusal> {
        let schema = &state.schema;
        if base == EntryId::ROOT {
            let root = root_dse::entry(self.directory, schema, self.offer());
            return self.asserted(&root, guard, schema);
        }
        let stored = guard::stored(view, base)?;
        let live = LiveEntry::new(view, &stored, schema.well_known(), true).seen_by(guard);
        self.asserted(&live, guard, schema)
    }

    /// Refuses with `assertionFailed` what is asserted and not true; the end of the search, when
    /// finding out is too much work.
    pub(super) fn asserted(
        &self,
        entry: &dyn EntryRead,
        guard: &Guard<'_>,
        schema: &Schema,
    ) -> Result<Option<SearchOutcome>, Refusal> {
        let Some(filter) = &self.controls.assertion else { return Ok(None) };
        let filter = ResolvedFilter::resolve(filter, schema);
        let rights = guard.on(entry);
        let truth = match rights.is_disclosed() {
            true => self.evaluate(&filter, schema, &rights.searchable(entry)),
            false => Truth::Undefined,
        };
        match self.work_over() {
            Some(end) => Ok(Some(end)),
            None => assertion::holds(truth).map(|()| None),
        }
    }

    /// What the server offers whoever asks.
    pub(super) fn offer(&self) -> Offer {
        let offer = self.session.map(|session| Offer::to(session, self.directory));
        offer.unwrap_or_default()
    }
}
