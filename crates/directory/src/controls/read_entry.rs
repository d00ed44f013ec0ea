//! The pre-read and post-read controls (RFC 4527): an update tells what its target was before, or
//! is after it.
//!
//! Invariant: an entry is encoded only as a `VisibleEntry`, as in a search.

use aci::{Rights, VisibleEntry};
use ldap::control_value::{self, EntryValueWriter};
use ldap::message::{Control, Strings};
use schema::{EntryRead, Schema, Selection, WellKnown};
use store::{StoredEntry, View};

use super::{RequestControls, malformed};
use crate::decide::ResponseControl;
use crate::guard::Guard;
use crate::live_entry::LiveEntry;
use crate::refusal::Refusal;

/// The OID of the pre-read controls, request and response.
pub(crate) const PRE_READ: &str = "1.3.6.1.1.13.1";
/// The OID of the post-read controls, request and response.
pub(crate) const POST_READ: &str = "1.3.6.1.1.13.2";

/// What a client wants to read.
#[derive(Debug)]
pub(crate) struct ReadRequest<'a> {
    attributes: Strings<'a>,
    critical: bool,
}

impl ReadRequest<'_> {
    pub(super) fn resolve(&self, schema: &Schema) -> ReadEntry {
        ReadEntry {
            selection: Selection::resolve(self.attributes.iter(), schema),
            critical: self.critical,
        }
    }
}

/// Likewise, resolved.
#[derive(Debug)]
pub(crate) struct ReadEntry {
    pub(crate) selection: Selection,
    /// Without the entry, the update is not to be carried out.
    pub(crate) critical: bool,
}

pub(super) fn take_pre_read<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    take(&mut taken.pre_read, control)
}

pub(super) fn take_post_read<'a>(
    taken: &mut RequestControls<'a>,
    control: &Control<'a>,
) -> Result<(), Refusal> {
    take(&mut taken.post_read, control)
}

fn take<'a>(place: &mut Option<ReadRequest<'a>>, control: &Control<'a>) -> Result<(), Refusal> {
    if place.is_some() {
        return Err(malformed("a read entry control was sent twice"));
    }
    let value = control.value.ok_or_else(|| malformed("a read entry control lacks its value"))?;
    let attributes = control_value::attribute_selection(value)
        .map_err(|_| malformed("the value of a read entry control is no attribute selection"))?;
    *place = Some(ReadRequest { attributes, critical: control.critical });
    Ok(())
}

impl ReadEntry {
    /// The response control `oid` for a stored entry, with what is computed about it.
    pub(crate) fn read(
        &self,
        oid: &'static str,
        view: &View<'_>,
        stored: &StoredEntry<'_>,
        known: &WellKnown,
        guard: &Guard<'_>,
    ) -> ResponseControl {
        let computed = self.selection.may_select_operational();
        let live = LiveEntry::new(view, stored, known, computed).seen_by(guard);
        self.response(oid, &live, &guard.on(stored))
    }

    /// The response control `oid` for an entry, reduced to what the asker may see.
    pub(crate) fn response(
        &self,
        oid: &'static str,
        entry: &dyn EntryRead,
        rights: &Rights<'_>,
    ) -> ResponseControl {
        let value = encode(&rights.visible(entry, &self.selection));
        ResponseControl { oid, value: Some(value) }
    }
}

fn encode(entry: &VisibleEntry<'_>) -> Vec<u8> {
    let mut writer = EntryValueWriter::begin(entry.dn());
    entry.visit(&mut |description, values| writer.attribute(description, values));
    writer.finish()
}
