//! One search request: everything that it depends on, and what it means here and now.

use std::cell::OnceCell;
use std::time::Duration;

use aci::{Access, WantedValues};
use ldap::message::{Scope, SearchRequest};
use schema::{EntryId, ResolvedFilter, Selection};

use super::dereference::Dereference;
use super::join::Join;
use super::parked::Parked;
use super::regions::Regions;
use super::stream::state::Streaming;
use super::work::Work;
use crate::access::guard::Guard;
use crate::directory::{Directory, State};
use crate::groups::lookup::Groups;
use crate::read::analyser::Watch;
use crate::read::effective_rights::ReportedRights;
use crate::read::subentry::Visibility;
use crate::request::asker_queues::Asker;
use crate::request::controls::request::RequestControls;
use crate::request::large_turns::LargeTurns;
use crate::request::note::Note;
use crate::request::session::Session;
use crate::request::stop::Stop;

/// One search, with everything it depends on.
pub(crate) struct Search<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) access: &'a Access,
    pub(crate) request: &'a SearchRequest<'a>,
    pub(crate) controls: &'a RequestControls<'a>,
    /// What ends it from outside; `None` on the thread that reads requests.
    pub(crate) stop: Option<&'a Stop>,
    /// Whose connection it came on; `None` on that thread.
    pub(crate) asker: Option<Asker>,
    /// The turns of the connection's requests to send an entry in parts; `None` there, too.
    pub(crate) large_turns: Option<&'a LargeTurns>,
    /// Candidates up to which it may run here; `None` on a pool thread.
    pub(crate) candidates_max: Option<u64>,
    /// On a pool thread, because of what the asker may not find: later requests wait (see
    /// [`Run::release`]).
    pub(crate) keeps_order: bool,
    /// When it began on this thread.
    pub(crate) begun: Duration,
    /// Whose connection it came on, where the root DSE may be asked for.
    pub(crate) session: Option<&'a Session>,
    /// Where it goes on, when it has parked.
    pub(crate) resumed: Option<&'a Parked>,
    /// Set when the search is measured.
    pub(crate) watch: Option<Watch<'a>>,
    /// What the access log tells of it.
    pub(crate) note: &'a Note,
    /// What it has cost.
    pub(crate) work: Work,
    /// What is said of the entry that is sent, of one that goes on with what changes.
    pub(super) streaming: OnceCell<Box<Streaming>>,
}

/// What the request means here and now.
pub(crate) struct Resolved<'a> {
    /// Base and scope; where aliases are followed, the lowest subtree with all that they lead to.
    pub(crate) base: EntryId,
    pub(crate) scope: Scope,
    /// Where to look exactly, when aliases in scope are followed.
    pub(crate) regions: Option<Regions>,
    pub(crate) filter: &'a ResolvedFilter,
    /// What is planned instead, where it asks for what indexes do not have all of.
    pub(crate) planned: Option<Box<ResolvedFilter>>,
    pub(crate) selection: &'a Selection,
    /// Referral objects are looked out for.
    pub(crate) referrals: bool,
    /// Which of the entries found are shown.
    pub(crate) shown: Visibility,
    /// Which of their values are.
    pub(crate) wanted: Option<WantedValues<'a>>,
    /// Whether the asker may use all of the filter in every entry.
    pub(crate) searchable: bool,
    /// What the asker may see.
    pub(crate) guard: &'a Guard<'a>,
    /// What is known of the groups that entries are in.
    pub(crate) groups: Groups<'a>,
    /// Whose rights are reported beside the entries.
    pub(crate) reported: Option<&'a ReportedRights<'a>>,
    /// Which values of theirs are followed.
    pub(super) dereference: Option<&'a Dereference>,
    /// What is joined with them.
    pub(super) join: Option<&'a Join>,
}

impl Search<'_> {
    /// Whether the entries are wanted in an order.
    pub(super) fn is_sorted(&self) -> bool {
        self.controls.sort.is_some() || self.controls.vlv.is_some()
    }
}

impl Resolved<'_> {
    /// What plans are made for.
    pub(super) fn plan_filter(&self) -> &ResolvedFilter {
        self.planned.as_deref().unwrap_or(self.filter)
    }

    /// The filter that finds the subentries among what is asked for, when only they are shown:
    /// there are few of them, and an index knows which.
    pub(super) fn only_subentries(&self, state: &State) -> Option<ResolvedFilter> {
        (self.shown == Visibility::Subentries).then(|| {
            let subentries = state.subentries.filter().clone();
            ResolvedFilter::And(vec![subentries, self.plan_filter().clone()])
        })
    }
}
