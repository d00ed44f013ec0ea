//! What clients ask, as real change records: each request gives a register a new value.
//!
//! A register is the `description` of an entry. Beside it each record adds an entry that is named
//! after the request: whoever decides the same request again sees that it has happened.
//!
//! Invariant: the number of a request is the value it writes, so no two requests write the same.

use std::sync::Arc;

use environment::Timestamp;
use history::Csn;
use history::log::{EncodedRecord, Reign};
use history::record::{Origin, Record};
use ldap::dn::{Dn, Rdn};
use schema::{
    AddChange, Attribute, AttributeDelta, AttributeDescription, Change, DeleteChange, DnKey, Entry,
    EntryId, EntryRead as _, ModifyChange, RenameChange, Schema,
};
use store::{Applied, Batch, LogPosition, Mark, Resolved, View};

/// How many registers there are.
pub(super) const KEYS: u64 = 6;
/// The naming context.
pub(super) const CONTEXT: &str = "dc=example,dc=com";
/// The superior of the entries that are named after requests.
const MARKS: &str = "cn=requests,dc=example,dc=com";

/// What a client asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Its number, and what it writes.
    pub(super) id: u64,
    /// How often it was sent before.
    pub(super) attempt: usize,
    /// Which register it writes.
    pub(super) key: u64,
    pub(super) way: Way,
    /// The entry of this request, which nobody asks again, is renamed or goes.
    pub(super) tidies: Option<u64>,
}

/// How a value is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// The entry is modified.
    Modify,
    /// The entry goes, and another one of the same name comes.
    Replace,
}

/// What a request was decided to do.
pub(super) enum Decision {
    Record(EncodedRecord),
    /// It has happened, as far as the batch knows.
    Known,
}

/// Where and when it is decided.
#[derive(Clone, Copy)]
pub(super) struct Desk {
    pub(super) reign: Reign,
    /// What the clock of the node says, in µs since 1970.
    pub(super) now_us: u64,
    /// Nobody looks whether a request has happened.
    pub(super) is_blind: bool,
}

/// Decides a request on the state that the batch has led to, as the writer does.
pub(super) fn decide(batch: &mut Batch<'_>, request: &Request, desk: Desk) -> Decision {
    let Some(changes) = changes(&batch.view(), batch.next_entry_id(), request, desk) else {
        return Decision::Known;
    };
    changes.iter().for_each(|change| batch.change(change).unwrap());
    let before = batch.last();
    let lsn = store::Lsn(before.lsn.0 + 1);
    let mut number = [0; 16];
    number[..8].copy_from_slice(&request.id.to_le_bytes());
    // As the writer's: later than all before, whatever the clock says.
    let time_us = desk.now_us.max(before.time_us + 1);
    let record = Record {
        lsn,
        prev_hash: before.hash,
        reign: desk.reign,
        csn: Csn::at(Timestamp(time_us)),
        origin: Origin::of_server(number),
        changes,
    };
    let mut bytes = Vec::new();
    let hash = record.encode(&mut bytes).unwrap();
    // The log says later where it has it.
    let position = LogPosition { term: desk.reign.0, index: lsn.0 };
    assert_eq!(batch.record(Mark { lsn, hash, time_us, position }).unwrap(), Applied::Done);
    Decision::Record(EncodedRecord { lsn, hash, bytes: bytes.into() })
}

/// The request that a record is of.
pub(super) fn request_of(request: [u8; 16]) -> u64 {
    u64::from_le_bytes(*request.first_chunk().unwrap())
}

/// What the request changes; none when it has happened.
fn changes(view: &View<'_>, next: EntryId, request: &Request, desk: Desk) -> Option<Vec<Change>> {
    let marks = find(view, MARKS).unwrap();
    let mark = match desk.is_blind {
        true => format!("r{}-{}", request.id, request.attempt),
        false => format!("r{}", request.id),
    };
    let mark = format!("cn={mark},{MARKS}");
    if find(view, &mark).is_some() {
        return None;
    }
    let mut changes = Vec::new();
    let mut next = next;
    let name = register(request.key);
    let id = find(view, &name).unwrap();
    let old = value(view, id).to_string().into_bytes();
    let new = request.id.to_string();
    match request.way {
        Way::Modify => {
            let delta = AttributeDelta {
                description: description(),
                removed: vec![old],
                added: vec![new.into_bytes()],
            };
            let dn = Dn::parse(&name).unwrap();
            changes.push(Change::Modify(ModifyChange { id, dn, deltas: vec![delta] }));
        }
        Way::Replace => {
            let attributes = vec![Attribute { description: description(), values: vec![old] }];
            let dn = Dn::parse(&name).unwrap();
            changes.push(Change::Delete(DeleteChange { id, dn, attributes }));
            let context = find(view, CONTEXT).unwrap();
            changes.push(add(next, context, &name, &new));
            next.0 += 1;
        }
    }
    changes.extend(request.tidies.and_then(|tidied| tidy(view, marks, tidied)));
    changes.push(add(next, marks, &mark, "done"));
    Some(changes)
}

/// Renames the entry of a request, or deletes it.
fn tidy(view: &View<'_>, marks: EntryId, request: u64) -> Option<Change> {
    let old_dn = Dn::parse(&format!("cn=r{request},{MARKS}")).unwrap();
    let id = find(view, &format!("cn=r{request},{MARKS}"))?;
    if request.is_multiple_of(2) {
        return Some(Change::Delete(DeleteChange { id, dn: old_dn, attributes: Vec::new() }));
    }
    let new_rdn = Rdn::parse(&format!("cn=old {request}")).unwrap();
    let new_dn = Dn::parse(MARKS).unwrap().child(new_rdn.clone());
    let key = key(&new_dn).leaf().unwrap();
    let deltas = Vec::new();
    Some(Change::Rename(RenameChange {
        id,
        old_dn,
        new_parent: marks,
        key,
        new_dn,
        new_rdn,
        deltas,
    }))
}

/// What is there before anybody asks anything, as three records.
pub(super) fn first_records() -> [Vec<Change>; 3] {
    let context = Dn::parse(CONTEXT).unwrap();
    let context_key = schema::RdnKey::of_naming_context(&key(&context));
    let (id, parent) = (EntryId(1), EntryId::ROOT);
    let entry = entry(context, "the registers");
    let top = Change::Add(AddChange { id, parent, key: context_key, entry });
    let registers = (0..KEYS).map(|at| add(EntryId(3 + at), EntryId(1), &register(at), "0"));
    [vec![top], vec![add(EntryId(2), EntryId(1), MARKS, "done")], registers.collect()]
}

/// What a register has; 0 before anybody wrote.
pub(super) fn read(view: &View<'_>, key: u64) -> u64 {
    value(view, find(view, &register(key)).unwrap())
}

/// Whether a request has happened, as far as `view` knows.
pub(super) fn has_happened(view: &View<'_>, request: u64) -> bool {
    find(view, &format!("cn=r{request},{MARKS}")).is_some()
}

fn value(view: &View<'_>, id: EntryId) -> u64 {
    let mut found = None;
    view.entry(id).unwrap().unwrap().visit_values(&description(), &mut |_, value| {
        found = std::str::from_utf8(value).unwrap().parse().ok();
        true
    });
    found.unwrap()
}

fn find(view: &View<'_>, name: &str) -> Option<EntryId> {
    match view.resolve(&key(&Dn::parse(name).unwrap())).unwrap() {
        Resolved::Found(id) => Some(id),
        Resolved::Missing { .. } | Resolved::NoContext => None,
    }
}

fn register(key: u64) -> String {
    format!("cn=k{key},{CONTEXT}")
}

fn add(id: EntryId, parent: EntryId, name: &str, description: &str) -> Change {
    let name = Dn::parse(name).unwrap();
    let key = key(&name).leaf().unwrap();
    Change::Add(AddChange { id, parent, key, entry: entry(name, description) })
}

fn entry(name: Dn, description: &str) -> Entry {
    let pairs = [("objectClass", &b"device"[..]), ("description", description.as_bytes())];
    Entry::from_pairs(name, pairs, &schema()).unwrap()
}

fn key(name: &Dn) -> DnKey {
    DnKey::from_dn(&schema(), name).unwrap()
}

fn description() -> Arc<AttributeDescription> {
    schema().describe("description").unwrap()
}

fn schema() -> Arc<Schema> {
    Schema::builtin()
}
