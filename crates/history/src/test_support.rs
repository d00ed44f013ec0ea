//! For tests, of this crate and of those above it: histories by chance, with records of all kinds
//! that fit to what the ones before left, and a state machine that tests listen to.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what went wrong")]

use std::path::Path;
use std::sync::Arc;

use crate::JOURNAL_DIRECTORY;
use environment::{Chance, SeededChance, Timestamp};
use journal::{FileDisk, Journal, JournalOptions};
use ldap::dn::{Dn, Rdn};
use schema::{
    AddChange, Attribute, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId,
    ModifyChange, RdnKey, RenameChange, Schema, SchemaChange,
};
use store::{Applied, Batch, CopyHead, DigestPoint, LogPosition, Lsn, Mark, Store};

use crate::Csn;
use crate::log::{
    ApplyError, CopyIntake, Decided, Difference, EncodedRecord, Reign, StateCopy, StateMachine,
};
use crate::record::{Origin, Record, RecordHead};

/// A state machine with what a test has to say: before records are applied to it, and when it
/// hears that it differs.
pub struct Hooked<M> {
    machine: M,
    before_apply: BeforeApply,
    when_different: WhenDifferent,
}

/// Is given what is about to be applied; after an error it is not.
type BeforeApply = Box<dyn Fn(&[EncodedRecord]) -> Result<(), ApplyError> + Send + Sync>;

/// Is given the difference.
type WhenDifferent = Box<dyn Fn(&Difference) + Send + Sync>;

impl<M> Hooked<M> {
    /// One that does as `machine`.
    pub fn new(machine: M) -> Self {
        Self { machine, before_apply: Box::new(|_| Ok(())), when_different: Box::new(|_| ()) }
    }

    /// Calls `hook` before records are applied; after an error they are not.
    #[must_use]
    pub fn before_apply(
        self,
        hook: impl Fn(&[EncodedRecord]) -> Result<(), ApplyError> + Send + Sync + 'static,
    ) -> Self {
        Self { before_apply: Box::new(hook), ..self }
    }

    /// Calls `hook`, and not the machine, when it differs.
    #[must_use]
    pub fn when_different(self, hook: impl Fn(&Difference) + Send + Sync + 'static) -> Self {
        Self { when_different: Box::new(hook), ..self }
    }
}

impl<M: StateMachine> StateMachine for Hooked<M> {
    fn apply(
        &self,
        decided: Decided,
        records: &[EncodedRecord],
        position: LogPosition,
    ) -> Result<(), ApplyError> {
        (self.before_apply)(records)?;
        self.machine.apply(decided, records, position)
    }

    fn applied(&self) -> Lsn {
        self.machine.applied()
    }

    fn position(&self) -> LogPosition {
        self.machine.position()
    }

    fn membership(&self) -> Result<Vec<u8>, ApplyError> {
        self.machine.membership()
    }

    fn set_membership(&self, octets: Vec<u8>) {
        self.machine.set_membership(octets);
    }

    fn begin_membership(&self, octets: Vec<u8>) -> Result<(), ApplyError> {
        self.machine.begin_membership(octets)
    }

    fn digests(&self) -> Vec<DigestPoint> {
        self.machine.digests()
    }

    fn copy_bytes(&self) -> Option<u64> {
        self.machine.copy_bytes()
    }

    fn copy(&self) -> Result<Arc<dyn StateCopy>, ApplyError> {
        self.machine.copy()
    }

    fn receive(&self, head: &CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError> {
        self.machine.receive(head)
    }

    fn install(&self, id: &[u8; 16]) -> Result<(), ApplyError> {
        self.machine.install(id)
    }

    fn settle_copied(&self) {
        self.machine.settle_copied();
    }

    fn drop_received(&self) {
        self.machine.drop_received();
    }

    fn differs(&self, difference: &Difference) {
        (self.when_different)(difference);
    }
}

/// Decides one record after the other; what it decides follows from its seed.
pub struct History {
    chance: SeededChance,
    entries: Vec<Known>,
    next_id: u64,
    decided: u64,
    reign: Reign,
}

#[derive(Clone)]
struct Known {
    id: u64,
    parent: u64,
    rdn: String,
    descriptions: Vec<Vec<u8>>,
}

/// A record that was decided and is not in a batch yet.
pub struct Undone(Record);

impl Undone {
    /// What it does.
    pub fn changes(&self) -> &[Change] {
        &self.0.changes
    }
}

/// Puts a record into a batch, as the writer does.
pub fn decide(batch: &mut Batch<'_>, Undone(record): Undone) -> EncodedRecord {
    record.changes.iter().for_each(|change| batch.change(change).unwrap());
    let encoded = encode(&record);
    let position = LogPosition { term: 1, index: record.lsn.0 };
    let time_us = record.csn.time.0;
    let mark = Mark { lsn: record.lsn, hash: encoded.hash, time_us, position };
    assert_eq!(batch.record(mark).unwrap(), Applied::Done);
    encoded
}

/// The first `count` records of a history.
pub fn records(seed: u64, count: usize) -> Vec<EncodedRecord> {
    let mut history = History::new(seed);
    let mut before = Mark::default();
    let mut records = Vec::new();
    for _ in 0..count {
        let Undone(record) = history.next(&before);
        let encoded = encode(&record);
        before = Mark { lsn: encoded.lsn, hash: encoded.hash, ..before };
        records.push(encoded);
    }
    records
}

fn encode(record: &Record) -> EncodedRecord {
    let mut bytes = Vec::new();
    let hash = record.encode(&mut bytes).unwrap();
    assert_eq!(RecordHead::read(&bytes).unwrap().hash, hash);
    EncodedRecord { lsn: record.lsn, hash, bytes: bytes.into() }
}

impl History {
    /// One that begins with nothing.
    pub fn new(seed: u64) -> Self {
        let (chance, reign) = (SeededChance(seed), Reign::ETERNAL);
        Self { chance, entries: Vec::new(), next_id: 1, decided: 0, reign }
    }

    /// From now on it decides in another reign.
    pub fn in_reign(&mut self, reign: Reign) {
        self.reign = reign;
    }

    /// One that is the same up to now, and goes on otherwise.
    pub fn fork(&self, seed: u64) -> Self {
        let Self { entries, next_id, decided, reign, .. } = self;
        let (next_id, decided, reign) = (*next_id, *decided, *reign);
        Self { chance: SeededChance(seed), entries: entries.clone(), next_id, decided, reign }
    }

    /// The record after the one with `before`.
    pub fn next(&mut self, before: &Mark) -> Undone {
        self.decided += 1;
        let count = if self.upto(8) == 0 { 3 } else { 1 };
        let changes = (0..count).map(|_| self.change()).collect();
        let mut request = [0; 16];
        self.chance.fill(&mut request);
        Undone(Record {
            lsn: Lsn(before.lsn.0 + 1),
            prev_hash: before.hash,
            reign: self.reign,
            csn: Csn::at(Timestamp(1_000_000 * self.decided)),
            origin: Origin::of_server(request),
            changes,
        })
    }

    fn change(&mut self) -> Change {
        if self.entries.is_empty() {
            return self.add_context();
        }
        match self.upto(20) {
            0..7 => self.add(),
            7..12 => self.modify(),
            12..15 => self.rename(),
            15..18 => self.delete(),
            18 => self.schema(),
            _ => self.modify(),
        }
    }

    fn add_context(&mut self) -> Change {
        let name = Dn::parse("dc=example,dc=com").unwrap();
        let key = RdnKey::of_naming_context(&key(&name));
        self.insert(0, "dc=example", name, key)
    }

    fn add(&mut self) -> Change {
        let parent = self.any();
        let rdn = self.new_rdn();
        let name = self.dn(parent.id).child(Rdn::parse(&rdn).unwrap());
        let key = key(&name).leaf().unwrap();
        self.insert(parent.id, &rdn, name, key)
    }

    fn insert(&mut self, parent: u64, rdn: &str, name: Dn, key: RdnKey) -> Change {
        let schema = Schema::builtin();
        let id = self.next_id;
        self.next_id += 1;
        let descriptions = vec![self.value(), self.value()];
        let mut pairs = vec![("objectClass", &b"device"[..]), ("serialNumber", b"7")];
        pairs.extend(descriptions.iter().map(|value| ("description", &value[..])));
        let entry = Entry::from_pairs(name, pairs, &schema).unwrap();
        self.entries.push(Known { id, parent, rdn: rdn.to_owned(), descriptions });
        Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
    }

    fn modify(&mut self) -> Change {
        let known = self.any();
        let dn = self.dn(known.id);
        let deltas = vec![self.delta(known.id)];
        Change::Modify(ModifyChange { id: EntryId(known.id), dn, deltas })
    }

    /// A change of the values of one entry: some go, some come.
    fn delta(&mut self, id: u64) -> AttributeDelta {
        let (goes, added) = (self.upto(3) as usize, self.value());
        let known = self.entries.iter_mut().find(|known| known.id == id).unwrap();
        let goes = goes.min(known.descriptions.len());
        let removed = known.descriptions.drain(..goes).collect();
        known.descriptions.push(added.clone());
        let description = Schema::builtin().describe("description").unwrap();
        AttributeDelta { description, removed, added: vec![added] }
    }

    fn rename(&mut self) -> Change {
        let known = self.any();
        if known.parent == 0 {
            return self.modify();
        }
        let old_dn = self.dn(known.id);
        let rdn = self.new_rdn();
        let mut parent = self.any().id;
        // Not below itself.
        if self.dn(parent).rdns().len() >= old_dn.rdns().len() {
            parent = known.parent;
        }
        let new_rdn = Rdn::parse(&rdn).unwrap();
        let new_dn = self.dn(parent).child(new_rdn.clone());
        let deltas = if self.upto(2) == 0 { vec![self.delta(known.id)] } else { Vec::new() };
        let entry = self.entries.iter_mut().find(|other| other.id == known.id).unwrap();
        (entry.parent, entry.rdn) = (parent, rdn);
        Change::Rename(RenameChange {
            id: EntryId(known.id),
            old_dn,
            new_parent: EntryId(parent),
            key: key(&new_dn).leaf().unwrap(),
            new_dn,
            new_rdn,
            deltas,
        })
    }

    fn delete(&mut self) -> Change {
        let known = self.any();
        if known.parent == 0 || self.entries.iter().any(|other| other.parent == known.id) {
            return self.add();
        }
        let dn = self.dn(known.id);
        self.entries.retain(|other| other.id != known.id);
        let description = Schema::builtin().describe("description").unwrap();
        let attributes = match known.descriptions {
            values if values.is_empty() => Vec::new(),
            values => vec![Attribute { description, values }],
        };
        Change::Delete(DeleteChange { id: EntryId(known.id), dn, attributes })
    }

    fn schema(&mut self) -> Change {
        let number = self.upto(5);
        let line = format!(
            "attributeTypes: ( 1.3.6.1.4.1.99999.{number} NAME 'x-{number}' DESC '{}' SYNTAX \
             1.3.6.1.4.1.1466.115.121.1.15 )",
            self.decided
        );
        Change::Schema(SchemaChange { added: vec![line], removed: Vec::new() })
    }

    fn dn(&self, id: u64) -> Dn {
        let known = self.entries.iter().find(|known| known.id == id).unwrap();
        if known.parent == 0 {
            return Dn::parse("dc=example,dc=com").unwrap();
        }
        self.dn(known.parent).child(Rdn::parse(&known.rdn).unwrap())
    }

    fn any(&mut self) -> Known {
        let at = self.upto(self.entries.len() as u64) as usize;
        self.entries[at].clone()
    }

    fn new_rdn(&mut self) -> String {
        let (number, more) = (self.decided, self.upto(1_000_000));
        if self.upto(5) == 0 {
            format!("cn=E {number}+sn=\\2c{more}")
        } else {
            format!("cn=e{number}-{more}")
        }
    }

    /// A value that is not there yet, of any octets that are text.
    fn value(&mut self) -> Vec<u8> {
        let (length, number) = (self.upto(60) as usize, self.upto(1_000_000));
        format!("{} {number} {}", self.decided, "ü".repeat(length)).into_bytes()
    }

    fn upto(&mut self, limit: u64) -> u64 {
        let mut octets = [0; 8];
        self.chance.fill(&mut octets);
        u64::from_le_bytes(octets) % limit
    }
}

/// A journal after the base: what the base says it has a place in.
pub fn begin_journal(data: &Path, store: &Store) {
    let directory = data.join(JOURNAL_DIRECTORY);
    std::fs::create_dir(&directory).unwrap();
    let (disk, next) = (Arc::new(FileDisk::new(directory)), store.base().lsn.0 + 1);
    Journal::create(disk, JournalOptions::new(store.id()), next).unwrap().close();
}

fn key(name: &Dn) -> DnKey {
    DnKey::from_dn(&Schema::builtin(), name).unwrap()
}

/// A naming context and then people below it, ordinary ones, as a client would add them.
pub fn people(count: u64) -> impl Iterator<Item = EncodedRecord> {
    let mut history = History::new(1);
    let mut before = Mark::default();
    (1..=count).map(move |id| {
        let Undone(mut record) = history.next(&before);
        if id > 1 {
            let name = Dn::parse(&format!("uid=user.{id},dc=example,dc=com")).unwrap();
            let key = key(&name).leaf().unwrap();
            let entry = person(id, name);
            let add = AddChange { id: EntryId(id), parent: EntryId(1), key, entry };
            record.changes = vec![Change::Add(add)];
        }
        let encoded = encode(&record);
        before = Mark { lsn: encoded.lsn, hash: encoded.hash, ..before };
        encoded
    })
}

fn person(id: u64, name: Dn) -> Entry {
    let text = format!(
        "objectClass=top objectClass=person objectClass=organizationalPerson \
         objectClass=inetOrgPerson uid=user.{id} cn=User.{id} sn=Surname{} givenName=Given{} \
         mail=user.{id}@example.com telephoneNumber=+49-30-{id} mobile=+49-170-{id} \
         employeeNumber={id} employeeType=regular title=Engineer l=Berlin \
         street=Unter-den-Linden-{id} postalCode=10117 roomNumber=12 departmentNumber=42 \
         preferredLanguage=de initials=U description=number-{id} \
         entryUUID=12345678-1234-1234-1234-{id:012} \
         entryCSN=20241231235959.{id:06}Z#000000#000#000000 createTimestamp=20241231235959Z \
         modifyTimestamp=20241231235959Z creatorsName=cn=manager modifiersName=cn=manager",
        id % 997,
        id % 499
    );
    let pairs = text.split_whitespace().map(|pair| {
        let (description, value) = pair.split_once('=').unwrap();
        (description, value.as_bytes())
    });
    Entry::from_pairs(name, pairs, &Schema::builtin()).unwrap()
}
