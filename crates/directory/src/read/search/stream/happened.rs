//! What is said with an entry: what has happened to it, and what it is to a consumer.

use ldap::control_value::persistent_search::{ENTRY_CHANGE_OID, EntryChange};
use ldap::control_value::sync::{EntryState, STATE_OID, SyncState, uuid_of_text};
use schema::{EntryRead, WellKnown};
use store::StoredEntry;

use aci::{Privilege, Rights};

use super::state::Happened;
use crate::read::search::request::Search;
use crate::read::search::run::Run;
use crate::request::controls::response::ResponseControl;

impl Search<'_> {
    /// The control that says what has happened, if that is wanted.
    pub(super) fn change_control(&self, happened: &Happened) -> Option<ResponseControl> {
        self.controls.persistent.filter(|asked| asked.return_changes)?;
        // The numbers are those of `cn=changelog`.
        let tells_number = self.access.has(Privilege::ChangelogRead);
        let told = EntryChange {
            change: happened.change,
            previous_dn: happened.previous_dn.as_deref(),
            number: Some(happened.number).filter(|_| tells_number),
        };
        Some(ResponseControl { oid: ENTRY_CHANGE_OID, value: Some(told.encode()) })
    }
}

impl Run<'_> {
    /// Adds what is to be said with an entry that is sent; false: nothing may be.
    pub(in crate::read::search) fn says_what_happened(
        &self,
        stored: &StoredEntry<'_>,
        controls: &mut Vec<ResponseControl>,
    ) -> bool {
        let search = self.search;
        let happened = search.streaming().happened.borrow();
        if search.controls.sync.is_none() {
            controls.extend(happened.as_ref().and_then(|one| search.change_control(one)));
            return true;
        }
        let rights = self.resolved.guard.on(stored);
        let Some(uuid) = uuid_for(&rights, stored, self.state.schema.well_known()) else {
            return false;
        };
        let state = happened.as_ref().map_or(SyncState::Add, |one| one.state);
        controls.push(state_control(state, uuid));
        true
    }
}

/// The control that says what an entry is to a consumer.
pub(super) fn state_control(state: SyncState, uuid: [u8; 16]) -> ResponseControl {
    let value = EntryState { state, uuid, cookie: None }.encode();
    ResponseControl { oid: STATE_OID, value: Some(value) }
}

/// The `entryUUID` of an entry, for who may read it: a consumer gets nothing without.
pub(super) fn uuid_for(
    rights: &Rights<'_>,
    entry: &dyn EntryRead,
    known: &WellKnown,
) -> Option<[u8; 16]> {
    if !rights.may_read(&known.entry_uuid) {
        return None;
    }
    let mut found = None;
    entry.visit_values(&known.entry_uuid, &mut |_, value| {
        found = uuid_of_text(value);
        false
    });
    found
}
