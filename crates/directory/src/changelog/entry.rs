//! A change as an entry: what the draft says, what OpenDS and Sun added, and who did it.

use history::record::Record;
use ldap::dn::Dn;
use ldap::ldif::push_ldif_line;
use schema::{
    Attribute, AttributeDelta, AttributeDescription, Change, Entry, RenameChange, Schema,
};

use super::shown::Target;
use super::{Maker, place};

/// The entry of a part of a record, counted from 1, with what `target` shows of it; none when the
/// part changed no entry or the asker may not know of that.
pub(crate) fn entry(
    schema: &Schema,
    record: &Record,
    part: usize,
    target: &Target,
) -> Option<Entry> {
    let change = record.changes.get(part.checked_sub(1)?)?;
    let (lsn, csn) = (record.lsn.0.to_string(), record.csn);
    let maker = Maker::new(schema, &place::name(record.lsn, part))
        .text("objectClass", &["top", "changeLogEntry"])
        .text("structuralObjectClass", &["changeLogEntry"])
        .text("changeNumber", &[&lsn])
        .text("changeTime", &[&csn.time.generalized_time()])
        .text("targetEntryUUID", &[target.uuid.as_deref().unwrap_or_default()])
        .text("replicationCSN", &[&csn.to_string()])
        .text("replicaIdentifier", &[&csn.replica.to_string()])
        .text(
            "changeInitiatorsName",
            &[if target.shows_initiator { &record.origin.who.dn } else { "" }],
        )
        .text("hasSubordinates", &["FALSE"]);
    let maker =
        if part > 1 { maker.text("roster-change-part", &[&part.to_string()]) } else { maker };
    let told = Told { target };
    let made = match change {
        Change::Add(add) => maker
            .text("targetDN", &[&add.entry.name().to_string()])
            .text("changeType", &["add"])
            .octets("changes", vec![told.attributes(add.entry.attributes())]),
        Change::Modify(modify) => maker
            .text("targetDN", &[&modify.dn.to_string()])
            .text("changeType", &["modify"])
            .octets("changes", vec![told.deltas(&modify.deltas)]),
        Change::Delete(delete) => maker
            .text("targetDN", &[&delete.dn.to_string()])
            .text("changeType", &["delete"])
            .octets("deletedEntryAttrs", vec![told.attributes(&delete.attributes)]),
        Change::Rename(rename) => renamed(maker, rename, &told),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => {
            return None;
        }
    };
    Some(made.entry)
}

fn renamed<'s>(maker: Maker<'s>, rename: &RenameChange, told: &Told<'_>) -> Maker<'s> {
    let superior = |dn: &Dn| Dn::new(dn.rdns().iter().skip(1).cloned().collect());
    let new = superior(&rename.new_dn);
    let moved = if new == superior(&rename.old_dn) { String::new() } else { new.to_string() };
    maker
        .text("targetDN", &[&rename.old_dn.to_string()])
        .text("changeType", &["modrdn"])
        .text("newRDN", &[&rename.new_rdn.to_string()])
        .text("deleteOldRDN", &[if rename.deletes_old_rdn() { "TRUE" } else { "FALSE" }])
        .text("newSuperior", &[&moved])
        .octets("changes", vec![told.deltas(&rename.deltas)])
}

/// Writes as LDIF (RFC 2849) what may be told.
struct Told<'t> {
    target: &'t Target,
}

impl Told<'_> {
    fn attributes(&self, attributes: &[Attribute]) -> Vec<u8> {
        let mut out = Vec::new();
        for attribute in attributes.iter().filter(|one| self.target.shows(&one.description)) {
            push_values(&mut out, &attribute.description, &attribute.values);
        }
        out
    }

    fn deltas(&self, deltas: &[AttributeDelta]) -> Vec<u8> {
        let mut out = Vec::new();
        for delta in deltas.iter().filter(|delta| self.target.shows(&delta.description)) {
            for (what, values) in [("delete", &delta.removed), ("add", &delta.added)] {
                if !values.is_empty() {
                    push_ldif_line(&mut out, what, delta.description.text().as_bytes(), 0);
                    push_values(&mut out, &delta.description, values);
                    out.extend_from_slice(b"-\n");
                }
            }
        }
        out
    }
}

fn push_values(out: &mut Vec<u8>, description: &AttributeDescription, values: &[Vec<u8>]) {
    for value in values {
        push_ldif_line(out, description.text(), value, 0);
    }
}
