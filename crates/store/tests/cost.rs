//! What writes and reads cost in the store: CPU for each, on one thread. Not run by itself:
//! `cargo test --release -p store --test cost -- --ignored --nocapture`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement may panic, and prints"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange,
    ResolvedFilter, Schema,
};
use store::{
    Ask, IndexConfig, IndexDefinition, LoadOptions, LogPosition, Lsn, Mark, Resolved, Store,
    StoreOptions,
};

/// People in the directory before anything is measured.
const LOADED: u64 = 100_000;
/// Operations that are measured at a time.
const MEASURED: u64 = 10_000;

fn word(number: u64, salt: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "an", "be", "cor", "da", "el", "fi", "gra", "ho", "in", "jo", "ka", "lun", "mi", "no",
        "ri", "sta",
    ];
    let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xff51);
    let mut word = String::new();
    for _ in 0..3 {
        mixed ^= mixed >> 29;
        word.push_str(SYLLABLES[(mixed % 16) as usize]);
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 3;
    }
    word[..1].to_uppercase() + &word[1..]
}

/// A person with about twenty attributes.
fn person(number: u64, schema: &Schema) -> Entry {
    let (given, family) = (word(number % 5000, 1), word(number % 20_000, 2));
    let town = word(number % 200, 3);
    let text = [
        ("objectClass", "top".to_owned()),
        ("objectClass", "person".to_owned()),
        ("objectClass", "organizationalPerson".to_owned()),
        ("objectClass", "inetOrgPerson".to_owned()),
        ("uid", format!("user.{number}")),
        ("cn", format!("{given} {family}")),
        ("sn", family.clone()),
        ("givenName", given.clone()),
        ("mail", format!("user.{number}@example.com")),
        (
            "telephoneNumber",
            format!("+1 {:03} {:03} {:04}", number % 997, number % 991, number % 9973),
        ),
        ("l", town.clone()),
        ("title", format!("{} engineer", word(number % 50, 4))),
        ("employeeNumber", number.to_string()),
        ("initials", format!("{}{}", &given[..1], &family[..1])),
        ("homePhone", format!("+1 {:03} 555 {:04}", number % 977, number % 9967)),
        ("mobile", format!("+1 {:03} 556 {:04}", number % 971, number % 9949)),
        ("street", format!("{} {} street", number % 100_000, word(number, 5))),
        ("postalCode", format!("{:05}", number % 90_001)),
        ("description", format!("This is the description for {given} {family}.")),
        ("userPassword", "{SSHA512}abcdefghijklmnopqrstuvwxyz0123456789abcdefghijkl".to_owned()),
        ("entryUUID", format!("{number:08x}-1234-4abc-8def-0123456789ab")),
        ("createTimestamp", "20261121190000Z".to_owned()),
        ("creatorsName", "cn=admin,dc=example,dc=com".to_owned()),
        ("modifyTimestamp", "20261121190000Z".to_owned()),
        ("modifiersName", "cn=admin,dc=example,dc=com".to_owned()),
        ("entryCSN", format!("20261121190000.{:06}Z#000000#000#000000", number % 1_000_000)),
    ];
    let dn = Dn::parse(&format!("uid=user.{number},ou=People,dc=example,dc=com")).unwrap();
    let pairs = text.iter().map(|(name, value)| (*name, value.as_bytes()));
    Entry::from_pairs(dn, pairs, schema).unwrap()
}

fn filled(directory: &Path) -> Store {
    loaded(directory, IndexConfig::default(), LOADED)
}

fn loaded(directory: &Path, indexes: IndexConfig, count: u64) -> Store {
    let schema = Schema::builtin();
    let contexts = [Dn::parse("dc=example,dc=com").unwrap()];
    let options = StoreOptions::default();
    let store = Store::create(directory, &options, Arc::clone(&schema), indexes, &contexts);
    let store = store.unwrap();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    for (dn, class) in
        [("dc=example,dc=com", "domain"), ("ou=People,dc=example,dc=com", "organizationalUnit")]
    {
        let pairs = [("objectClass", &b"top"[..]), ("objectClass", class.as_bytes())];
        let entry = Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &schema).unwrap();
        loader.load(&entry, 0).unwrap();
    }
    for number in 0..count {
        loader.load(&person(number, &schema), number).unwrap();
    }
    loader.commit().unwrap();
    store
}

fn resolve(store: &Arc<Store>, dn: &str) -> EntryId {
    let key = DnKey::from_text(&Schema::builtin(), dn).unwrap();
    let Resolved::Found(id) = store.reader().view().unwrap().resolve(&key).unwrap() else {
        panic!("{dn} is there");
    };
    id
}

/// The CPU time this thread has taken.
fn cpu() -> Duration {
    let taken = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(taken.tv_sec as u64, taken.tv_nsec as u32)
}

fn report(what: &str, taken: Duration, count: usize) {
    println!("{what}: {:.2} us of CPU each", taken.as_nanos() as f64 / count as f64 / 1000.0);
}

/// Makes changes in batches of this size, as the writer does, and publishes them. Flushing is not
/// counted, and layers are not merged.
fn measure(store: &Arc<Store>, what: &str, batch_size: usize, changes: &[Change]) {
    let mut taken = Duration::ZERO;
    for changes in changes.chunks(batch_size * LAYERS) {
        let start = cpu();
        for changes in changes.chunks(batch_size) {
            let mut batch = store.begin().unwrap();
            for change in changes {
                batch.savepoint();
                batch.change(change).unwrap();
                let last = batch.last();
                let _ = batch.record(Mark { lsn: Lsn(last.lsn.0 + 1), ..last }).unwrap();
                batch.release();
            }
            let mark = batch.seal();
            store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
        }
        taken += cpu() - start;
        store.flush().unwrap();
    }
    report(&format!("{what}, batches of {batch_size}"), taken, changes.len());
}

/// At most so many layers lie over the base.
const LAYERS: usize = 16;

fn searches(store: &Arc<Store>, what: &str) {
    let mut reader = store.reader();
    let schema = Schema::builtin();
    let filters: Vec<ResolvedFilter> = (0..MEASURED)
        .map(|number| {
            let text = format!("(uid=user.{})", number * 7 % LOADED);
            ResolvedFilter::resolve(&Filter::parse(&text).unwrap(), &schema)
        })
        .collect();
    let base = resolve(store, "dc=example,dc=com");
    let start = cpu();
    for filter in &filters {
        let view = reader.view().unwrap();
        let plan = view.plan(&Ask::new(filter, base, Scope::Subtree)).unwrap();
        assert_eq!(plan.entries(view, EntryId::ROOT).filter(Result::is_ok).count(), 1);
    }
    report(&format!("search by uid, {what}"), cpu() - start, filters.len());
}

#[test]
#[ignore = "a measurement"]
fn costs() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(filled(directory.path()));
    let schema = Schema::builtin();
    let parent = resolve(&store, "ou=People,dc=example,dc=com");
    searches(&store, "no layers");
    let mut number = LOADED;
    let mut id = store.begin().unwrap().next_entry_id().0;
    let mut last = Vec::new();
    for batch_size in [1, 10, 50, 0] {
        let adds: Vec<Change> = (0..MEASURED / 2)
            .map(|_| {
                let entry = person(number, &schema);
                let key = DnKey::from_dn(&schema, entry.name()).unwrap().leaf().unwrap();
                let add = AddChange { id: EntryId(id), parent, key, entry };
                number += 1;
                id += 1;
                Change::Add(add)
            })
            .collect();
        if batch_size == 0 {
            last = adds;
        } else {
            measure(&store, "add", batch_size, &adds);
        }
    }
    let adds = std::mem::take(&mut last);
    for changes in adds.chunks(adds.len() / LAYERS) {
        let mut batch = store.begin().unwrap();
        changes.iter().for_each(|change| batch.apply(change).unwrap());
        let mark = batch.seal();
        store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
    }
    println!("{} entries over the base take {} bytes", adds.len(), store.overlay_bytes());
    searches(&store, "16 layers");
    let description = schema.describe("description").unwrap();
    for batch_size in [1, 10, 50] {
        let modifies: Vec<Change> = (0..MEASURED)
            .map(|at| {
                let number = at * 13 % LOADED;
                let dn = Dn::parse(&format!("uid=user.{number},ou=People,dc=example,dc=com"));
                let entry = EntryId(number + 3);
                let delta = AttributeDelta {
                    description: Arc::clone(&description),
                    removed: vec![],
                    added: vec![format!("changed {batch_size} {number}").into_bytes()],
                };
                Change::Modify(ModifyChange { id: entry, dn: dn.unwrap(), deltas: vec![delta] })
            })
            .collect();
        measure(&store, "modify", batch_size, &modifies);
    }
    let first = id - MEASURED / 2;
    let deletes: Vec<Change> = (first..id)
        .map(|id| {
            let (id, dn) = (EntryId(id), Dn::root());
            Change::Delete(DeleteChange { id, dn, attributes: Vec::new() })
        })
        .collect();
    measure(&store, "delete", 10, &deletes);
}

/// What one index costs, each alone beside a directory without any: the octets it takes in the
/// file for each entry, the rows, and of an add the CPU until it is seen, the CPU of its flush, and
/// the memory between; last, the adds that one core takes in a second with this index. One run
/// takes minutes; `KINDS_ENTRIES` says how many people there are.
#[test]
#[ignore = "a measurement"]
fn kinds() {
    let entries = std::env::var("KINDS_ENTRIES").ok().and_then(|count| count.parse().ok());
    let entries = entries.unwrap_or(50_000);
    // The first time pays for what is new to the process.
    let _ = cost_of(&IndexConfig::none(), entries);
    let none = cost_of(&IndexConfig::none(), entries);
    println!("{entries} people, {MEASURED} adds and one flush; each line less the first");
    println!(
        "index | octets/entry | rows/entry | add us | flush us | octets in memory/add | adds/s"
    );
    println!("none | {none} | {:.0}", none.rate());
    let show = |what: &str, indexes: &IndexConfig| {
        let cost = cost_of(indexes, entries);
        println!("{what} | {} | {:.0}", cost.less(&none), cost.rate());
    };
    for line in KINDS {
        show(line, &IndexConfig::none().and(IndexDefinition::parse(line).unwrap()));
    }
    show("the default ones", &IndexConfig::default());
}

const KINDS: [&str; 15] = [
    "presence cn",
    "equality cn",
    "equality uid",
    "equality l",
    "equality objectClass",
    "equality entryUUID",
    "equality createTimestamp",
    "substring cn",
    "substring uid",
    "substring mail",
    "substring description",
    "approximate cn",
    "extensible cn caseExactMatch",
    "equality l with title",
    "equality uid where (l=Anbecor)",
];

/// What a directory costs.
#[derive(Default)]
struct KindCost {
    /// For each entry: octets and rows of posting lists.
    octets: f64,
    rows: f64,
    /// For each add: microseconds until it is seen, and of its flush; octets in memory.
    add_us: f64,
    flush_us: f64,
    memory: f64,
}

impl KindCost {
    /// Adds in a second of one core.
    fn rate(&self) -> f64 {
        1e6 / (self.add_us + self.flush_us)
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            octets: self.octets - other.octets,
            rows: self.rows - other.rows,
            add_us: self.add_us - other.add_us,
            flush_us: self.flush_us - other.flush_us,
            memory: self.memory - other.memory,
        }
    }
}

impl std::fmt::Display for KindCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { octets, rows, add_us, flush_us, memory } = self;
        write!(f, "{octets:.1} | {rows:.2} | {add_us:.2} | {flush_us:.2} | {memory:.0}")
    }
}

fn cost_of(indexes: &IndexConfig, entries: u64) -> KindCost {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(loaded(directory.path(), indexes.clone(), entries));
    let statistics = store.statistics().unwrap();
    let postings = statistics.tables.iter().find(|table| table.name == "postings").unwrap();
    let (schema, count) = (Schema::builtin(), statistics.entries as f64);
    let mut cost = KindCost {
        octets: postings.bytes as f64 / count,
        rows: postings.rows as f64 / count,
        ..KindCost::default()
    };
    let parent = resolve(&store, "ou=People,dc=example,dc=com");
    let first = store.begin().unwrap().next_entry_id().0;
    let adds: Vec<Change> = (0..MEASURED)
        .map(|at| {
            let entry = person(entries + at, &schema);
            let key = DnKey::from_dn(&schema, entry.name()).unwrap().leaf().unwrap();
            Change::Add(AddChange { id: EntryId(first + at), parent, key, entry })
        })
        .collect();
    let each_us = |taken: Duration| taken.as_nanos() as f64 / 1000.0 / MEASURED as f64;
    let start = cpu();
    for changes in adds.chunks(adds.len() / LAYERS) {
        let mut batch = store.begin().unwrap();
        changes.iter().for_each(|change| batch.apply(change).unwrap());
        let mark = batch.seal();
        store.publish(mark.lsn, LogPosition { term: 1, index: mark.lsn.0 });
    }
    cost.add_us = each_us(cpu() - start);
    cost.memory = store.overlay_bytes() as f64 / MEASURED as f64;
    let start = cpu();
    store.flush().unwrap();
    cost.flush_us = each_us(cpu() - start);
    cost
}
