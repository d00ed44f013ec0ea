//! The operational attributes of RFC 4512 §3.4 that the writer stamps.
//!
//! Invariant: each stamp is later than the one before it, and than every record that was applied
//! before the server started: no CSN is ever given twice, whatever the clock does.

use std::sync::Arc;

use aci::Identity;
use environment::Timestamp;
use history::Csn;
use schema::{AttributeDelta, AttributeDescription, Entry, EntryError, Schema};
use store::StoredEntry;

/// What one decided change is stamped with. Made by the writer alone, in order.
#[derive(Clone, Debug)]
pub struct Stamp {
    /// The CSN, for the change record.
    pub moment: Csn,
    /// `createTimestamp`, `modifyTimestamp`: GeneralizedTime of whole seconds.
    pub time: String,
    /// `entryCSN`.
    pub csn: String,
    /// `creatorsName`, `modifiersName`; empty for changes made anonymously.
    pub name: String,
}

/// The operational attributes of a new entry (RFC 4512 §3.4, RFC 4530).
pub fn stamp_new(
    entry: &mut Entry,
    schema: &Schema,
    stamp: &Stamp,
    uuid: &str,
    structural: &str,
) -> Result<(), EntryError> {
    let known = schema.well_known();
    let stamps = [
        (&known.structural_object_class, structural),
        (&known.entry_uuid, uuid),
        (&known.creators_name, stamp.name.as_str()),
        (&known.create_timestamp, stamp.time.as_str()),
        (&known.entry_csn, stamp.csn.as_str()),
        (&known.modifiers_name, stamp.name.as_str()),
        (&known.modify_timestamp, stamp.time.as_str()),
    ];
    for (description, value) in stamps {
        // An imported entry keeps the stamps it came with.
        if entry.get(description).is_none() {
            entry.add_values(schema, description, [value.as_bytes().to_vec()])?;
        }
    }
    Ok(())
}

/// Notes who changed the entry last, and when. Of the attributes in `kept` all but the CSN stay.
pub(crate) fn stamp_modified(
    entry: &mut Entry,
    schema: &Schema,
    stamp: &Stamp,
    kept: &[Arc<AttributeDescription>],
) -> Result<(), EntryError> {
    let known = schema.well_known();
    let csn = [stamp.csn.as_bytes().to_vec()].into();
    entry.replace_values(schema, &known.entry_csn, csn)?;
    let stamps = [(&known.modifiers_name, &stamp.name), (&known.modify_timestamp, &stamp.time)];
    for (description, value) in stamps {
        if kept.contains(description) {
            continue;
        }
        entry.replace_values(schema, description, vec![value.as_bytes().to_vec()])?;
    }
    Ok(())
}

/// What notes on an entry that changes with another one who changed it, and when.
pub(crate) fn of_what_follows(
    entry: &StoredEntry<'_>,
    schema: &Schema,
    stamp: &Stamp,
) -> Vec<AttributeDelta> {
    let known = schema.well_known();
    let stamps = [
        (&known.entry_csn, &stamp.csn),
        (&known.modifiers_name, &stamp.name),
        (&known.modify_timestamp, &stamp.time),
    ];
    let delta = |(description, value): (&Arc<AttributeDescription>, &String)| {
        let added = vec![value.as_bytes().to_vec()];
        let removed: Vec<_> = entry.values(description).iter().map(<[u8]>::to_vec).collect();
        let is_new = removed != added;
        is_new.then(|| AttributeDelta { description: Arc::clone(description), removed, added })
    };
    stamps.into_iter().filter_map(delta).collect()
}

/// Hands out stamps that only grow, whatever the clock does.
#[derive(Debug, Default)]
pub(crate) struct Stamper {
    last: u64,
}

impl Stamper {
    /// Stamps that are later than `last`, the time of the last record that was applied.
    pub(crate) fn after(last: Timestamp) -> Self {
        Self { last: last.0 }
    }

    /// The next stamps are later than `last` as well: another server has given stamps meanwhile.
    pub(crate) fn follow(&mut self, last: Timestamp) {
        self.last = self.last.max(last.0);
    }

    /// The stamp of a change made by `identity` at `now`; never earlier than the one before.
    pub(crate) fn stamp(&mut self, now: Timestamp, identity: &Identity) -> Stamp {
        let moment = Timestamp(now.0.max(self.last.saturating_add(1)));
        self.last = moment.0;
        let moment = Csn::at(moment);
        Stamp {
            moment,
            time: moment.time.generalized_time(),
            csn: moment.to_string(),
            name: identity.dn().map(|dn| dn.as_str().to_owned()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_follow_those_of_another_server() {
        let mut stamper = Stamper::after(Timestamp(3_000_000));
        stamper.follow(Timestamp(7_000_000));
        let stamp = stamper.stamp(Timestamp(5_000_000), &Identity::Anonymous);
        assert_eq!(stamp.moment.time, Timestamp(7_000_001));
        stamper.follow(Timestamp(2_000_000));
        let next = stamper.stamp(Timestamp(5_000_000), &Identity::Anonymous);
        assert_eq!(next.moment.time, Timestamp(7_000_002), "its own are not forgotten");
    }

    #[test]
    fn stamps_grow_even_when_the_clock_goes_back() {
        let mut stamper = Stamper::default();
        let early = stamper.stamp(Timestamp(5_000_000), &Identity::Anonymous);
        let late = stamper.stamp(Timestamp(1_000_000), &Identity::Anonymous);
        assert_eq!(early.csn, "19700101000005.000000Z#000000#000#000000");
        assert_eq!(late.csn, "19700101000005.000001Z#000000#000#000000");
        assert!(early.moment < late.moment);
    }

    #[test]
    fn stamps_go_on_where_the_last_start_ended() {
        let mut stamper = Stamper::after(Timestamp(7_000_000));
        let stamp = stamper.stamp(Timestamp(5_000_000), &Identity::Anonymous);
        assert_eq!(stamp.csn, "19700101000007.000001Z#000000#000#000000");
        assert_eq!(stamp.time, "19700101000007Z");
    }
}
