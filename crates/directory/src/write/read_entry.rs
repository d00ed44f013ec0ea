//! What the pre-read and post-read controls answer (RFC 4527): what the target of an update was
//! before, or is after it.
//!
//! Invariant: an entry is encoded only as a `VisibleEntry`, as in a search.
//! Invariant: what is read for one request, or one transaction, stays within its [`Room`]: it is
//! made by the writer, for whom all others wait, and held until the change is durable.

use aci::{Rights, VisibleEntry};
use ldap::control_value::EntryValueWriter;
use ldap::result::ResultCode;
use schema::{EntryRead, WellKnown};
use store::{OutsideValues, StoredEntry, View};

use crate::access::guard::Guard;
use crate::read::live_entry::LiveEntry;
use crate::request::controls::response::ResponseControl;
use crate::request::controls::write::ReadEntry;
use crate::request::refusal::Refusal;

/// What may still be read for one request, or one transaction.
#[derive(Debug)]
pub(crate) struct Room {
    max_bytes: usize,
    left_bytes: usize,
}

impl Room {
    /// Room for so many octets.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, left_bytes: max_bytes }
    }

    /// Encodes an entry; refuses one that is too large before it is.
    fn encode(&mut self, entry: &VisibleEntry<'_>) -> Result<Vec<u8>, Refusal> {
        let mut writer = EntryValueWriter::begin(entry.dn());
        let mut is_room = true;
        entry.visit(&mut |description, values| {
            let more = description.len() + values.as_ber().len();
            is_room = is_room && writer.octets() + more <= self.left_bytes;
            if is_room {
                writer.attribute(description, values);
            }
        });
        let value = writer.finish();
        let left = self.left_bytes.checked_sub(value.len()).filter(|_| is_room);
        self.left_bytes = left.ok_or_else(|| self.refuse())?;
        Ok(value)
    }

    fn refuse(&self) -> Refusal {
        Refusal::new(
            ResultCode::AdminLimitExceeded,
            format!(
                "pre-read and post-read return at most {} bytes for one request or transaction: \
                 name fewer attributes, or search for the entry",
                self.max_bytes
            ),
        )
    }
}

/// A name takes so many octets at least. Half of the number that a list tells may be wrong.
const NAME_BYTES_MIN: usize = 8;

impl ReadEntry {
    /// The response control `oid` for a stored entry, with what is computed about it.
    pub(crate) fn read(
        &self,
        oid: &'static str,
        room: &mut Room,
        view: &View<'_>,
        stored: &StoredEntry<'_>,
        known: &WellKnown,
        guard: &Guard<'_>,
    ) -> Result<ResponseControl, Refusal> {
        let computed = self.selection.may_select_operational();
        let live = LiveEntry::new(view, stored, known, computed).seen_by(guard);
        let live = live.selecting(&self.selection);
        let mut least: usize = 0;
        for (description, list) in stored.outside()? {
            if self.selection.selects(description) {
                least += match list {
                    OutsideValues::References(list) => {
                        usize::try_from(list.count()?).unwrap_or(usize::MAX) / 2 * NAME_BYTES_MIN
                    }
                    OutsideValues::Apart(values) => {
                        usize::try_from(values.octets()).unwrap_or(usize::MAX)
                    }
                };
            }
        }
        // They are not even put together.
        if least > room.left_bytes {
            return Err(room.refuse());
        }
        let response = self.response(oid, room, &live, &guard.on(stored))?;
        stored.complete()?;
        Ok(response)
    }

    /// The response control `oid` for an entry, reduced to what the asker may see.
    pub(crate) fn response(
        &self,
        oid: &'static str,
        room: &mut Room,
        entry: &dyn EntryRead,
        rights: &Rights<'_>,
    ) -> Result<ResponseControl, Refusal> {
        let value = room.encode(&rights.visible(entry, &self.selection))?;
        Ok(ResponseControl { oid, value: Some(value) })
    }
}
