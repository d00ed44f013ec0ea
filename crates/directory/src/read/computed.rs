//! Which attributes are computed when an entry is read.

use environment::Timestamp;
use history::Csn;
use schema::{AttributeDescription, EntryId, WellKnown};
use sha2::{Digest as _, Sha256};
use store::{StoredEntry, View};

/// All of them.
pub fn descriptions(known: &WellKnown) -> [&AttributeDescription; 11] {
    let [one, two, three, four, five, six, seven] = of_entry(known);
    let [eight, nine, ten, eleven] = of_groups(known);
    [one, two, three, four, five, six, seven, eight, nine, ten, eleven]
}

/// Those that tell of the entry, its superiors and its subordinates.
pub(super) fn of_entry(known: &WellKnown) -> [&AttributeDescription; 7] {
    [
        &known.entry_dn,
        &known.subschema_subentry,
        &known.has_subordinates,
        &known.num_subordinates,
        &known.etag,
        &known.governing_structure_rule,
        &known.context_csn,
    ]
}

/// The number of the last change, for the entry of a naming context: the same on all servers of a
/// cluster after the same change, and what is in the cookies of content synchronisation. None where
/// nothing was changed since the import.
pub(super) fn context_csn(view: &View<'_>, stored: &StoredEntry<'_>) -> Option<String> {
    let time = Timestamp(view.mark().time_us);
    let is_context = stored.parent() == EntryId::ROOT;
    (is_context && time.0 > 0).then(|| Csn::at(time).to_string())
}

/// The state of an entry, the same on all servers of a cluster: another one after each change that
/// leaves a stamp.
pub(super) fn etag(stored: &StoredEntry<'_>, known: &WellKnown) -> String {
    let mut hash = Sha256::new();
    for description in [&known.entry_uuid, &known.entry_csn] {
        let values = stored.values(description);
        values.iter().for_each(|value| hash.update(value));
        hash.update([0]);
    }
    let octets = hash.finalize();
    let half = octets.first_chunk::<8>().copied().unwrap_or_default();
    format!("{:016x}", u64::from_be_bytes(half))
}

/// Those that tell of groups and roles. One that the schema of a site makes a user attribute is
/// stored, and not computed.
pub(crate) fn of_groups(known: &WellKnown) -> [&AttributeDescription; 4] {
    [&known.is_member_of, &known.member_of, &known.is_direct_member_of, &known.ns_role]
}
