//! A change as an entry: what the draft says, what OpenDS and Sun added, and who did it.

use history::record::{ChangeRole, Record};
use ldap::dn::Dn;
use ldap::ldif::push_ldif_line;
use schema::{
    Attribute, AttributeDelta, AttributeDescription, Change, DnKey, Entry, IndexChange,
    RenameChange, Schema, SchemaChange,
};
use store::NamingContexts;

use super::shown::Target;
use super::{Maker, place};
use crate::config::index_config;
use crate::read::subschema::SUBSCHEMA_DN;
use crate::write::references::NONE_AT_ALL;

/// By what changes are called.
#[derive(Clone, Debug)]
pub(crate) enum Naming {
    /// By their numbers.
    Numbers,
    /// By their CSNs, below the naming context that they were made in: of these.
    Csns(NamingContexts),
}

/// A part of a record as it is to be shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'s> {
    /// Counted from 1.
    pub(crate) part: usize,
    /// What may be seen of the entry that it changed.
    pub(crate) target: &'s Target,
    pub(crate) naming: &'s Naming,
    /// Where to go on behind it.
    pub(crate) cookie: &'s str,
}

/// The entry of a part of a record; none when the part changed no entry.
pub(crate) fn entry(schema: &Schema, record: &Record, shown: &Shown<'_>) -> Option<Entry> {
    let &Shown { part, target, naming, cookie } = shown;
    let at = part.checked_sub(1)?;
    let (change, role) = (record.changes.get(at)?, record.role(at));
    let csn = record.csn;
    let (name, number) = match naming {
        Naming::Numbers => (place::name(record.lsn, part), record.lsn.0.to_string()),
        // As OpenDJ has it, without a number.
        Naming::Csns(contexts) => {
            let context = context(schema, change, contexts);
            (place::name_by_csn(&csn.to_string(), part, &context), String::new())
        }
    };
    let maker = Maker::new(schema, &name)
        .text("objectClass", &["top", "changeLogEntry"])
        .text("structuralObjectClass", &["changeLogEntry"])
        .text("changeNumber", &[&number])
        .text("changeLogCookie", &[cookie])
        .text("changeTime", &[&csn.time.generalized_time()])
        .text("targetEntryUUID", &[target.uuid.as_deref().unwrap_or_default()])
        .text("replicationCSN", &[&csn.to_string()])
        .text("replicaIdentifier", &[&csn.replica.to_string()])
        .text(
            "changeInitiatorsName",
            &[if target.shows_initiator { &record.origin.who.dn } else { "" }],
        )
        .text(
            "roster-change-purpose",
            &[record.origin.purpose.as_deref().filter(|_| target.shows_initiator).unwrap_or("")],
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
        Change::Schema(change) => maker
            .text("targetDN", &[SUBSCHEMA_DN])
            .text("changeType", &["modify"])
            .octets("changes", vec![told.definitions(schema, change)]),
        Change::Setting(change) => {
            let (dn, attribute) = target.setting.as_ref()?;
            // What was and what is are told as one, in the place of the first.
            let changes = match (role, record.changes.get(at + 1)) {
                (ChangeRole::Before, Some(Change::Setting(after))) => {
                    deltas(attribute, &change.values, &after.values)
                }
                (ChangeRole::After, _) => return None,
                _ => values_of(attribute, &change.values),
            };
            modified(maker, dn, changes)
        }
        Change::Index(change) => {
            let (dn, _) = target.setting.as_ref()?;
            modified(maker, dn, indexes(change, role))
        }
        Change::Level(_) | Change::Gather(_) => return None,
    };
    Some(made.entry)
}

fn modified<'s>(maker: Maker<'s>, dn: &str, changes: Vec<u8>) -> Maker<'s> {
    let maker = maker.text("targetDN", &[dn]).text("changeType", &["modify"]);
    maker.octets("changes", vec![changes])
}

/// The values of a setting from then on; those of before are not in the record.
fn values_of(attribute: &str, values: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let values: Vec<&str> = values.iter().map(String::as_str).filter(is_value).collect();
    push_change(&mut out, "replace", attribute, &values);
    out
}

/// What a setting lost and got. Where only the order is another, all values come anew.
fn deltas(attribute: &str, before: &[String], after: &[String]) -> Vec<u8> {
    let without = |all: &'_ [String], others: &[String]| {
        let own = all.iter().filter(|value| !others.contains(value) && is_value(&value.as_str()));
        own.cloned().collect::<Vec<_>>()
    };
    let (removed, added) = (without(before, after), without(after, before));
    let mut out = Vec::new();
    for (what, values) in [("delete", &removed), ("add", &added)] {
        if !values.is_empty() {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            push_change(&mut out, what, attribute, &values);
        }
    }
    if out.is_empty() { values_of(attribute, after) } else { out }
}

fn is_value(value: &&str) -> bool {
    *value != NONE_AT_ALL
}

/// Indexes that went and came, or are built anew.
fn indexes(change: &IndexChange, role: ChangeRole) -> Vec<u8> {
    let added = match role {
        ChangeRole::After => index_config::REBUILD,
        ChangeRole::Alone | ChangeRole::Before => index_config::DEFINITION,
    };
    let mut out = Vec::new();
    for (what, attribute, lines) in
        [("delete", index_config::DEFINITION, &change.removed), ("add", added, &change.added)]
    {
        if !lines.is_empty() {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            push_change(&mut out, what, attribute, &lines);
        }
    }
    out
}

fn push_change(out: &mut Vec<u8>, what: &str, attribute: &str, values: &[&str]) {
    push_ldif_line(out, what, attribute.as_bytes(), 0);
    for value in values {
        push_ldif_line(out, attribute, value.as_bytes(), 0);
    }
    out.extend_from_slice(b"-\n");
}

/// The naming context that a change was made in.
fn context(schema: &Schema, change: &Change, contexts: &NamingContexts) -> String {
    let dn = match change {
        Change::Add(add) => add.entry.name(),
        Change::Modify(modify) => &modify.dn,
        Change::Rename(rename) => &rename.old_dn,
        Change::Delete(delete) => &delete.dn,
        Change::Gather(gather) => &gather.dn,
        Change::Schema(_) => return SUBSCHEMA_DN.to_owned(),
        Change::Index(_) | Change::Setting(_) | Change::Level(_) => return "cn=config".to_owned(),
    };
    let key = DnKey::from_dn(schema, dn).unwrap_or_default();
    let mut both = contexts.names().zip(contexts.keys());
    let found = both.find(|(_, context)| key.is_within(context));
    // One that was dropped, or had another name then, is none.
    found.map(|(name, _)| name.to_string()).unwrap_or_default()
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

    /// Definitions that went and came, each a line such as `attributeTypes: ( 1.2.3 … )`.
    fn definitions(&self, schema: &Schema, change: &SchemaChange) -> Vec<u8> {
        let mut out = Vec::new();
        for (what, lines) in [("delete", &change.removed), ("add", &change.added)] {
            for (name, value) in lines.iter().filter_map(|line| line.split_once(": ")) {
                if schema.describe(name).is_ok_and(|one| self.target.shows(&one)) {
                    push_ldif_line(&mut out, what, name.as_bytes(), 0);
                    push_ldif_line(&mut out, name, value.as_bytes(), 0);
                    out.extend_from_slice(b"-\n");
                }
            }
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
