//! After a restart: is everything there that was acknowledged, nothing half, nothing else, and do
//! names and indexes agree with the entries?

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Entry, MARKS, Owner, SIDES, Slot, TOP, UNIQUE, Which, differences};
use crate::client::{Attributes, Client, ClientError, Found, Search};

/// Faults told in full; the rest is counted.
const FAULTS_MAX: usize = 20;

/// What was found right.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verified {
    pub(super) entries: usize,
    /// Requests without an answer that were done, and that were not.
    pub(super) done: usize,
    pub(super) undone: usize,
    pub(super) searches: usize,
}

/// Compares the directory with what the owners expect, and settles what was in flight.
/// Everything wrong is a fault, in words.
pub(super) fn verify(
    client: &mut Client,
    owners: &mut [Owner],
) -> Result<(Verified, Vec<String>), ClientError> {
    let mut faults = Vec::new();
    let mut verified = Verified::default();
    let mut seen = observe(client, &mut faults)?;
    for owner in owners.iter_mut() {
        let mut transactions = Transactions::new();
        // Names of people hang on their containers, so these come first.
        let all: Vec<Which> = owner.slots().map(|(which, _)| which).collect();
        for which in all {
            let transaction = owner.slot(which).and_then(|slot| slot.pending.as_ref()?.transaction);
            let outcome = settle(owner, which, &mut seen, &mut verified, &mut faults);
            if let (Some(transaction), Some(outcome)) = (transaction, outcome) {
                let mark = owner.slot(which).map(|slot| slot.mark.clone());
                transactions.entry(transaction).or_default().push((mark, outcome));
            }
        }
        for parts in transactions.values() {
            let done = parts.iter().filter(|(_, done)| *done).count();
            if done != 0 && done != parts.len() {
                faults.push(format!("a transaction was done in part: {parts:?}"));
            }
        }
    }
    for (mark, entries) in &seen {
        for (dn, _) in entries {
            faults.push(format!("nobody made this entry (mark {mark}): {dn}"));
        }
    }
    if faults.is_empty() {
        verified.searches = search(client, owners, &mut faults)?;
        changes(client, &mut faults)?;
    }
    if faults.len() > FAULTS_MAX {
        let more = faults.len() - FAULTS_MAX;
        faults.truncate(FAULTS_MAX);
        faults.push(format!("… and {more} more"));
    }
    Ok((verified, faults))
}

/// Looks whether `cn=changelog` has every change from the first one on, whatever the journal gave
/// up meanwhile.
fn changes(client: &mut Client, faults: &mut Vec<String>) -> Result<(), ClientError> {
    let found = client.search(&Search {
        base: "cn=changelog".to_owned(),
        scope: 1,
        filter: "(objectClass=*)".to_owned(),
        attributes: vec!["changeNumber".to_owned()],
    })?;
    let number = |attributes: &Attributes| attributes.get("changeNumber")?.first()?.parse().ok();
    let numbers: Vec<u64> =
        found.entries.iter().filter_map(|(_, attributes)| number(attributes)).collect();
    if found.code != 0 || numbers.len() != found.entries.len() {
        faults.push(format!("the search for all changes ended with {}", found.code));
    }
    if !numbers.is_sorted() {
        faults.push("changes are not in the order of their numbers".to_owned());
    }
    let first = numbers.first().copied().unwrap_or_default();
    let last = numbers.last().copied().unwrap_or_default();
    let distinct = numbers.iter().collect::<BTreeSet<_>>().len() as u64;
    let missing = (last + 1 - first).saturating_sub(distinct);
    if first > CHANGES_BEFORE_MAX || missing > 0 {
        faults.push(format!("of the changes up to {last} the first is {first}, {missing} miss"));
    }
    Ok(())
}

/// The directory was made by no more changes.
const CHANGES_BEFORE_MAX: u64 = 20;

/// The entries that a transaction without an answer was to change, and whether it did.
type Transactions = BTreeMap<u64, Vec<(Option<String>, bool)>>;

/// All entries below the top, by mark.
type Seen = BTreeMap<String, Vec<(String, Attributes)>>;

fn observe(client: &mut Client, faults: &mut Vec<String>) -> Result<Seen, ClientError> {
    let found = client.search(&Search {
        base: TOP.to_owned(),
        scope: 2,
        filter: "(objectClass=*)".to_owned(),
        attributes: vec!["*".to_owned(), "entryUUID".to_owned()],
    })?;
    if found.code != 0 {
        faults.push(format!("the search for everything ended with {}", found.code));
    }
    let fixed: Vec<String> = fixed_names();
    let mut seen = Seen::new();
    for (dn, attributes) in found.entries {
        if fixed.contains(&dn) {
            continue;
        }
        let mark = MARKS.iter().find_map(|name| attributes.get(*name)?.first().cloned());
        seen.entry(mark.unwrap_or_default()).or_default().push((dn, attributes));
    }
    Ok(seen)
}

/// The entries that are there from the start.
fn fixed_names() -> Vec<String> {
    let sides = SIDES.iter().map(|side| format!("{side},{TOP}"));
    sides.chain([TOP.to_owned()]).collect()
}

/// Finds out which outcome the entry of a slot has; anything else is a fault. Says whether the
/// request in flight was done, where that makes a difference.
fn settle(
    owner: &mut Owner,
    which: Which,
    seen: &mut Seen,
    verified: &mut Verified,
    faults: &mut Vec<String>,
) -> Option<bool> {
    let slot = owner.slot(which)?;
    let mut entries = seen.remove(&slot.mark).unwrap_or_default();
    if entries.len() > 1 {
        let names: Vec<&str> = entries.iter().map(|(dn, _)| dn.as_str()).collect();
        faults.push(tell(slot, &format!("there are several: {}", names.join(" and "))));
        return None;
    }
    let found = entries.pop().map(|(dn, mut attributes)| {
        let uuid = attributes.remove("entryUUID").and_then(|values| values.first().cloned());
        (dn, attributes, uuid)
    });
    let slot = slot.clone();
    let matches = |want: &Option<Entry>| match (want, &found) {
        (None, None) => true,
        (Some(want), Some((dn, attributes, uuid))) => {
            *dn == owner.dn(which, want)
                && *attributes == want.attributes
                && uuid.is_some()
                && (want.uuid.is_none() || want.uuid == *uuid)
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    let (is_before, is_after) =
        (matches(&slot.state), slot.pending.as_ref().is_some_and(|one| matches(&one.after)));
    if !is_before && !is_after {
        let mut problem = String::new();
        let pending = slot.pending.as_ref().map(|pending| &pending.after);
        for want in [Some(&slot.state), pending].into_iter().flatten() {
            let want_dn = want.as_ref().map(|want| owner.dn(which, want));
            problem.push_str(&mismatch(want.as_ref(), want_dn, found.as_ref()));
        }
        faults.push(tell(&slot, &problem));
        return None;
    }
    let in_flight = slot.pending.is_some();
    if in_flight {
        let count = if is_after { &mut verified.done } else { &mut verified.undone };
        *count += 1;
    }
    let slot = owner.slot(which)?;
    slot.settle(is_after, if is_after { "unanswered, done" } else { "unanswered, not done" });
    if let (Some(state), Some((_, _, uuid))) = (&mut slot.state, found) {
        state.uuid = uuid;
        verified.entries += 1;
    }
    (in_flight && is_before != is_after).then_some(is_after)
}

fn mismatch(
    want: Option<&Entry>,
    want_dn: Option<String>,
    found: Option<&(String, Attributes, Option<String>)>,
) -> String {
    match (want, found) {
        (None, None) => String::new(),
        (None, Some((dn, _, _))) => format!("\n    wanted none, found {dn}"),
        (Some(_), None) => format!("\n    wanted {}, found none", want_dn.unwrap_or_default()),
        (Some(want), Some((dn, attributes, uuid))) => {
            let want_dn = want_dn.unwrap_or_default();
            let difference = differences(&want.attributes, attributes);
            let mut text = format!("\n    wanted {want_dn}\n    found  {dn}: {difference}");
            if want.uuid.is_some() && want.uuid != *uuid {
                text.push_str(&format!("; entryUUID is {uuid:?} instead of {:?}", want.uuid));
            }
            text
        }
    }
}

fn tell(slot: &Slot, problem: &str) -> String {
    let mut text = format!("entry {}: {problem}", slot.mark);
    if let Some(pending) = &slot.pending {
        text.push_str(&format!("\n    in flight: {}", pending.text));
    }
    for line in &slot.history {
        text.push_str(&format!("\n    before: {line}"));
    }
    text
}

/// What one search must find.
struct Wanted {
    search: Search,
    /// The one entry, or none.
    dn: Option<String>,
}

/// Names and indexes: every name leads to its entry, every value to its entry, and what went leads
/// nowhere.
fn search(
    client: &mut Client,
    owners: &mut [Owner],
    faults: &mut Vec<String>,
) -> Result<usize, ClientError> {
    let mut live: BTreeSet<String> = fixed_names().into_iter().collect();
    let mut people = 0;
    for owner in owners.iter() {
        for (which, slot) in owner.slots() {
            let Some(entry) = &slot.state else { continue };
            live.insert(owner.dn(which, entry));
            people += usize::from(matches!(which, Which::Person(_)));
        }
    }
    let mut wanted = Vec::new();
    for owner in owners.iter_mut() {
        for (which, slot) in owner.slots() {
            want(owner, which, slot, &live, &mut wanted);
        }
        for slot in owner.containers.iter_mut().chain(&mut owner.people) {
            slot.retired.clear();
            slot.retired_names.clear();
        }
    }
    let searches: Vec<Search> = wanted.iter().map(|wanted| wanted.search.clone()).collect();
    let founds = client.search_all(&searches)?;
    for (wanted, found) in wanted.iter().zip(&founds) {
        judge(wanted, found, faults);
    }
    let all = client.search(&Search {
        base: TOP.to_owned(),
        scope: 2,
        filter: "(objectClass=inetOrgPerson)".to_owned(),
        attributes: vec!["1.1".to_owned()],
    })?;
    if all.entries.len() != people {
        let found = all.entries.len();
        faults
            .push(format!("the index of objectClass leads to {found} people instead of {people}"));
    }
    Ok(searches.len() + 1)
}

fn want(
    owner: &Owner,
    which: Which,
    slot: &Slot,
    live: &BTreeSet<String>,
    wanted: &mut Vec<Wanted>,
) {
    let value = |name: &str, value: &str, dn: Option<&String>| Wanted {
        search: Search {
            base: TOP.to_owned(),
            scope: 2,
            filter: format!("({name}={value})"),
            attributes: vec!["1.1".to_owned()],
        },
        dn: dn.cloned(),
    };
    let name = |dn: &str, there: bool| Wanted {
        search: Search {
            base: dn.to_owned(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: vec!["1.1".to_owned()],
        },
        dn: there.then(|| dn.to_owned()),
    };
    if let Some(entry) = &slot.state {
        let dn = owner.dn(which, entry);
        wanted.push(name(&dn, true));
        for attribute in UNIQUE {
            for one in entry.attributes.get(attribute).into_iter().flatten() {
                wanted.push(value(attribute, one, Some(&dn)));
            }
        }
        if let Some(one) = entry.attributes.get("mail").and_then(|values| values.last()) {
            let inside = one.get(2..8).unwrap_or_default();
            let part = one.split('@').next().unwrap_or_default();
            wanted.push(value("mail", &format!("{part}*"), Some(&dn)));
            let both = format!("(&(mail=*{inside}*)(mail={one}))");
            wanted.push(Wanted {
                search: Search { filter: both, ..value("", "", None).search },
                dn: Some(dn),
            });
        }
    }
    for (attribute, gone) in &slot.retired {
        wanted.push(value(attribute, gone, None));
    }
    for dn in slot.retired_names.iter().filter(|dn| !live.contains(*dn)) {
        wanted.push(name(dn, false));
    }
}

fn judge(wanted: &Wanted, found: &Found, faults: &mut Vec<String>) {
    let names: Vec<&String> = found.entries.iter().map(|(dn, _)| dn).collect();
    let asked = format!("{} below '{}'", wanted.search.filter, wanted.search.base);
    let fits = match &wanted.dn {
        Some(dn) => found.code == 0 && names == [dn],
        None => names.is_empty() && (found.code == 0 || found.code == NO_SUCH_OBJECT),
    };
    if !fits {
        let want = wanted.dn.as_deref().unwrap_or("nothing");
        faults.push(format!(
            "a search for {asked} leads to {names:?} (code {}) instead of {want}",
            found.code
        ));
    }
}

/// The result code of a base entry that is not there.
const NO_SUCH_OBJECT: i64 = 32;
