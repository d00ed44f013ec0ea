//! What a search that goes on with what changes remembers: where it is, and what is said of the
//! entry that it sends next.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ldap::control_value::persistent_search::ChangeType;
use ldap::control_value::sync::SyncState;
use store::Lsn;

use crate::read::streams::Interest;
use crate::request::asker_bytes::AskerHeld;

/// Where such a search is.
#[derive(Clone, Debug)]
pub(in crate::read::search) struct StreamPosition {
    pub(super) stage: Stage,
    /// The last record that was read, and the running hash after it.
    pub(super) lsn: Lsn,
    pub(super) hash: u64,
    /// So many changes of the next record are done with.
    pub(super) parts: usize,
    /// What the rules asked of the world: see `Guard::standing`.
    pub(super) standing: u64,
    /// Something was told since the consumer has a cookie.
    pub(super) has_told: bool,
    /// It waits for a change, and would hear of these; none: of any.
    pub(super) waits: bool,
    pub(super) interest: Option<Arc<Interest>>,
    /// What is said of the entry that waits to be sent in parts.
    pub(super) happened: Option<Happened>,
}

/// What it is at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// The entries that there are.
    Entries,
    /// What has changed since the consumer was here.
    Missed,
    /// What changes.
    Live,
}

impl StreamPosition {
    /// Whether it tells what changes.
    pub(in crate::read::search) fn is_live(&self) -> bool {
        self.stage == Stage::Live
    }

    /// Whether it waits for a change.
    pub(in crate::read::search) fn waits_for_change(&self) -> bool {
        self.waits
    }
}

/// What is said of the entry that is sent next.
#[derive(Default)]
pub(in crate::read::search) struct Streaming {
    pub(super) happened: RefCell<Option<Happened>>,
    /// Room for an entry that it sends in parts, and whether it waits for that.
    pub(super) room: Cell<Option<AskerHeld>>,
    pub(super) waits_for_room: Cell<bool>,
    /// It tells what changes, for as long as its client stays.
    pub(super) is_live: Cell<bool>,
}

/// What has happened to an entry.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) change: ChangeType,
    pub(super) state: SyncState,
    /// The name that it had, where that may be told.
    pub(super) previous_dn: Option<String>,
    /// The number of the record.
    pub(super) number: u64,
}
