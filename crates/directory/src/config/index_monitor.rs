//! `cn=index,cn=monitor`: how each index is, as an entry; keys, ids and octets as of the last
//! flush.
//!
//! Invariant: what takes long, comparing an index with all entries, is done only for the one that
//! is the base of the search, and only when it is asked for by name.

use std::collections::BTreeSet;

use ldap::dn::{Ava, Rdn};
use schema::{DnKey, Entry};
use store::{IndexState, IndexStatus, IndexStatusOptions};

use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::INDEX_MONITOR_DN;
use crate::request::refusal::Refusal;

/// `cn=index,cn=monitor`, and an entry for each index. One that is built anew is there twice: by
/// its name as it serves, and with the state behind the name as it is being built.
pub(crate) fn entries(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let store = &source.directory.storage.store;
    // Before the rest is looked at: rather one too many than one too few.
    let uncounted = store.published().lsn.0.saturating_sub(store.base().lsn.0);
    let top = source
        .entry(INDEX_MONITOR_DN, &["top", "extensibleObject"])
        .value("roster-index-changes-not-counted", &uncounted.to_string())
        .values("roster-index-error", store.index_error());
    let mut made = vec![top.done()];
    let mut status = store.index_status(&IndexStatusOptions::default())?;
    // The one that serves has the name for itself.
    status.sort_by_key(|one| one.state != IndexState::Valid);
    let mut taken = BTreeSet::new();
    for one in &status {
        made.push(entry(source, one, &mut taken)?);
    }
    Ok(made)
}

fn entry(
    source: &BranchSource<'_>,
    one: &IndexStatus,
    taken: &mut BTreeSet<String>,
) -> Result<Entry, Refusal> {
    let state = match one.state {
        IndexState::Valid => "valid",
        IndexState::Building { .. } => "building",
        IndexState::Dropping => "dropping",
    };
    let mut value = one.name.clone();
    let mut number = 1;
    while !taken.insert(value.to_ascii_lowercase()) {
        value = match number {
            1 => format!("{} {state}", one.name),
            number => format!("{} {state} {number}", one.name),
        };
        number += 1;
    }
    let ava = Ava { attribute: "cn".to_owned(), value: value.into_bytes() };
    let rdn = Rdn::new(vec![ava]).expect("it has one value");
    let name = format!("{rdn},{INDEX_MONITOR_DN}");
    let is_base = DnKey::from_text(source.schema, &name).is_ok_and(|key| key == *source.base);
    let verified = match is_base && source.asks("roster-index-verify") {
        true => verify(source, one)?,
        false => Vec::new(),
    };
    let popular = one.popular.iter().map(|(key, ids)| format!("{ids} {key}"));
    let entry = source
        .entry(&name, &["top", "extensibleObject"])
        .value("roster-index-name", &one.name)
        .value("roster-index-definition", &one.definition)
        .value("roster-index-state", state)
        .value("roster-index-progress", &format!("{}/{}", one.entries_done, one.entries_total))
        .value("roster-index-keys", &one.keys.to_string())
        .value("roster-index-ids", &one.ids.to_string())
        .value("roster-index-bytes", &one.bytes.to_string())
        .value("roster-index-is-estimate", if one.is_estimate { "TRUE" } else { "FALSE" })
        .values("roster-index-lookup-count", one.lookups.map(|count| count.to_string()))
        .values("roster-index-popular", popular)
        .values("roster-index-verify", verified);
    Ok(entry.done())
}

/// `ok`, or a line for each thing that is wrong.
fn verify(source: &BranchSource<'_>, one: &IndexStatus) -> Result<Vec<String>, Refusal> {
    let report = source.directory.storage.store.verify_index(&one.definition, &mut |_, _, _| ())?;
    let Some(report) = report else {
        return Ok(vec!["it is not in the database yet".to_owned()]);
    };
    if report.findings.is_empty() {
        return Ok(vec!["ok".to_owned()]);
    }
    Ok(report.findings.iter().map(ToString::to_string).collect())
}
