//! Members compare what they have stored while they write: real members, threads and sockets, over
//! real stores.
#![allow(missing_docs, reason = "tests explain themselves by name")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cluster::Service;
use history::log::conformance::record_of;
use history::log::{
    CommitLog, Durability, LogBatch, Oddity, ReadLevel, StateMachine, Verification,
    VerificationState,
};
use history::record::Origin;
use history::recovery::StoreMachine;
use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, RdnKey,
    Schema, SettingChange,
};
use store::{IndexConfig, Lsn, Mark, Store, StoreOptions};
use support::{BEGINNING, Cluster, PATIENCE, barrier, leader, ledger, wait_for};
use tempfile::TempDir;

const CONTEXT: &str = "dc=example,dc=com";
/// More than two slices.
const ENTRIES: u64 = 9000;

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 30, ..StoreOptions::default() }
}

fn dn_key(dn: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), dn).unwrap()
}

fn name(id: u64) -> String {
    if id == 1 { CONTEXT.to_owned() } else { format!("cn=entry{id},{CONTEXT}") }
}

fn add(id: u64) -> Change {
    let dn = name(id);
    let (parent, key) = match id {
        1 => (0, RdnKey::of_naming_context(&dn_key(&dn))),
        _ => (1, dn_key(&dn).leaf().unwrap()),
    };
    let uuid = format!("00000000-0000-4000-8000-{id:012}");
    let pairs = [
        ("objectClass", &b"top"[..]),
        ("cn", b"name"),
        ("userPassword", b"secret"),
        ("entryUUID", uuid.as_bytes()),
    ];
    let entry = Entry::from_pairs(Dn::parse(&dn).unwrap(), pairs, &Schema::builtin()).unwrap();
    Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
}

/// Another value of an attribute that has `removed`.
fn modify(id: u64, attribute: &str, removed: Option<&str>, added: &str) -> Change {
    let description = Schema::builtin().describe(attribute).unwrap();
    let values = |value: &str| value.as_bytes().to_vec();
    let (removed, added) = (removed.map(values).into_iter().collect(), vec![values(added)]);
    let deltas = vec![AttributeDelta { description, removed, added }];
    Change::Modify(ModifyChange { id: EntryId(id), dn: Dn::parse(&name(id)).unwrap(), deltas })
}

fn delete(id: u64) -> Change {
    let (dn, attributes) = (Dn::parse(&name(id)).unwrap(), Vec::new());
    Change::Delete(DeleteChange { id: EntryId(id), dn, attributes })
}

fn setting(value: &str) -> Change {
    let values = vec![value.to_owned()];
    Change::Setting(SettingChange { name: "colour".to_owned(), values })
}

/// What all members begin with: entries, of which two in the middle are gone.
fn make(data: &Path) {
    let contexts = [Dn::parse(CONTEXT).unwrap()];
    let (schema, indexes) = (Schema::builtin(), IndexConfig::none());
    let store = Store::create(data, &options(), schema, indexes, &contexts).unwrap();
    let mut batch = store.begin().unwrap();
    (1..=ENTRIES).for_each(|id| batch.change(&add(id)).unwrap());
    [7000, 7001].iter().for_each(|id| batch.change(&delete(*id)).unwrap());
    batch.change(&setting("blue")).unwrap();
    let mark = Mark { lsn: Lsn(1), hash: 7, time_us: 1, position: BEGINNING };
    assert_eq!(batch.record(mark).unwrap(), store::Applied::Done);
    batch.commit().unwrap();
    store.keep_digest().unwrap();
}

/// Members over stores that are copies of each other.
struct Running {
    cluster: Cluster,
    stores: BTreeMap<u64, Arc<Store>>,
    services: BTreeMap<u64, Arc<Service>>,
    _folder: TempDir,
}

impl Running {
    fn new(count: u64, rate_bytes: u64) -> Self {
        Self::with(count, rate_bytes, |_, store| Arc::new(StoreMachine::new(Arc::clone(store))))
    }

    fn with(
        count: u64,
        rate_bytes: u64,
        machine: impl Fn(u64, &Arc<Store>) -> Arc<dyn StateMachine>,
    ) -> Self {
        let (cluster, folder) = (Cluster::new(count), tempfile::tempdir().unwrap());
        let first = folder.path().join("1");
        make(&first);
        for id in 2..=count {
            let other = folder.path().join(id.to_string());
            std::fs::create_dir(&other).unwrap();
            for file in std::fs::read_dir(&first).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
            }
        }
        let stores: BTreeMap<u64, Arc<Store>> = (1..=count)
            .map(|id| {
                let data = folder.path().join(id.to_string());
                (id, Arc::new(Store::open(&data, &options(), Schema::builtin()).unwrap()))
            })
            .collect();
        let services = cluster.start_all(
            |id| machine(id, &stores[&id]),
            |parts| parts.options.verify_rate_bytes = rate_bytes,
        );
        leader(&services);
        Self { cluster, stores, services, _folder: folder }
    }

    /// Compares, as member `id` is asked to, until that is over.
    fn verify(&self, id: u64) -> Verification {
        let run = self.services[&id].verify().unwrap();
        self.over(id, run)
    }

    fn over(&self, id: u64, run: u64) -> Verification {
        wait_for("the comparison is over", || {
            let told = self.services[&id].ask_after_verification(run).unwrap();
            (told.state != VerificationState::Running).then_some(told)
        })
    }

    fn close(&self) {
        self.services.values().for_each(|service| service.log().close());
    }
}

/// Writes all the time, in batches of different lengths, of which several are on their way.
fn write(services: &BTreeMap<u64, Arc<Service>>, is_over: &AtomicBool) -> u64 {
    let (id, reign) = leader(services);
    let (log, origin) = (services[&id].log(), Origin::of_server([7; 16]));
    let (mut last, mut hash, mut round) = (Lsn(1), 7, 0_u64);
    let mut next_id = ENTRIES + 1;
    let (told, heard) = mpsc::channel();
    let mut waiting = 0;
    while !is_over.load(Ordering::Relaxed) {
        // Nothing is flushed here, so that each batch makes all later ones dearer.
        std::thread::park_timeout(Duration::from_millis(1));
        round += 1;
        let mut records = Vec::new();
        for number in 0..=round % 7 {
            let id = 2 + (round * 31 + number * 997) % 6000;
            let change = match number {
                0 => {
                    next_id += 1;
                    add(next_id - 1)
                }
                _ => modify(id, "description", None, &format!("{round} {number}")),
            };
            let record = record_of(last, hash, reign, &origin, change);
            (last, hash) = (record.lsn, record.hash);
            records.push(record);
        }
        let (batch, told) = (LogBatch { records, durability: Durability::Synced }, told.clone());
        log.commit(reign, batch, Box::new(move |outcome| drop(told.send(outcome))));
        waiting += 1;
        while waiting > 3 || (waiting > 0 && round % 5 == 0) {
            heard.recv_timeout(PATIENCE).unwrap().unwrap();
            waiting -= 1;
        }
    }
    (0..waiting).for_each(|_| {
        heard.recv_timeout(PATIENCE).unwrap().unwrap();
    });
    last.0
}

/// Ends those who write, also where the test fails: they would be waited for without end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn members_that_write_all_the_time_have_stored_the_same() {
    let running = Running::new(3, u64::MAX);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| write(&running.services, &is_over));
        let over = Over(&is_over);
        let mut last = 0;
        for round in 0..8 {
            let told = running.verify(1 + round % 3);
            assert!(told.is_alike(), "{told:?}");
            assert_eq!(told.members.len(), 3);
            assert!(told.entries >= ENTRIES - 2, "{told:?}");
            let (first, end) = told.lsns;
            assert!(first.0 > last && end > first, "nothing was written: {told:?}");
            last = end.0;
        }
        drop(over);
        assert!(writes.join().unwrap() > last);
    });
    running.close();
}

#[test]
fn what_differs_is_named_and_who_has_it() {
    let running = Running::new(3, u64::MAX);
    assert!(running.verify(2).is_alike());
    let plant = |id: u64, change: &Change| running.stores[&id].plant_unnoticed(change).unwrap();
    plant(2, &modify(5, "userPassword", Some("secret"), "other"));
    plant(3, &delete(8999));
    plant(1, &add(7000));
    plant(3, &setting("red"));
    // Each has something else.
    plant(1, &modify(6, "cn", None, "one"));
    plant(2, &modify(6, "cn", None, "two"));
    // What is kept tells nobody.
    let digests: Vec<_> = running.stores.values().map(|store| store.digests()).collect();
    assert!(digests.iter().all(|one| *one == digests[0]));
    let other = |attributes: &[&str]| Oddity::Differs {
        is_name: false,
        attributes: attributes.iter().map(|one| (*one).to_owned()).collect(),
    };
    for id in 1..=3 {
        let told = running.verify(id);
        assert_eq!((&told.state, told.differing), (&VerificationState::Done, 5), "{told:?}");
        assert!(!told.is_alike());
        let counted: Vec<u64> = told.members.iter().map(|one| one.differing).collect();
        // Of three that differ, the one with the lowest number is what the others are compared to.
        assert_eq!(counted, [1, 2, 3]);
        let found = told.differences.iter().map(|one| {
            let odd: Vec<_> = one.odd.iter().map(|odd| (odd.member, odd.how.clone())).collect();
            (one.id, one.name.clone(), odd, one.is_clear)
        });
        let want = [
            (0, "setting colour".to_owned(), vec![(3, other(&[]))], true),
            (5, name(5), vec![(2, other(&["userPassword"]))], true),
            (6, name(6), vec![(2, other(&["cn"])), (3, other(&["cn"]))], false),
            (7000, name(7000), vec![(1, Oddity::Surplus)], true),
            (8999, name(8999), vec![(3, Oddity::Missing)], true),
        ];
        assert_eq!(found.collect::<Vec<_>>(), want);
        assert_eq!(told.differences[4].uuid, "00000000-0000-4000-8000-000000008999");
    }
    running.close();
}

#[test]
fn who_is_away_is_not_compared_and_not_different() {
    let mut running = Running::new(3, u64::MAX);
    running.services.remove(&3).unwrap().log().close();
    let told = running.verify(1);
    assert_eq!((&told.state, told.differing), (&VerificationState::Done, 0), "{told:?}");
    assert!(!told.is_alike());
    let reasons: Vec<bool> = told.members.iter().map(|one| one.not_compared.is_some()).collect();
    assert_eq!(reasons, [false, false, true], "{told:?}");
    // It is compared again when it is back.
    let machine = Arc::new(StoreMachine::new(Arc::clone(&running.stores[&3])));
    running.services.insert(3, running.cluster.start(3, machine));
    let told = wait_for("it is back", || {
        let told = running.verify(2);
        told.members[2].not_compared.is_none().then_some(told)
    });
    assert!(told.is_alike(), "{told:?}");
    for id in [2, 3] {
        running.services.remove(&id).unwrap().log().close();
    }
    let told = running.verify(1);
    let VerificationState::Stopped(why) = told.state else { panic!("{told:?}") };
    assert!(why.contains("fewer than two"), "{why}");
    running.close();
}

#[test]
fn the_leader_may_go_while_the_data_are_compared() {
    // About a second for each slice.
    let mut running = Running::new(3, 500_000);
    let (id, _) = leader(&running.services);
    let by = 1 + id % 3;
    let run = running.services[&by].verify().unwrap();
    wait_for("the first slice", || {
        (running.services[&by].verification()?.entries > 0).then_some(())
    });
    running.services.remove(&id).unwrap().log().close();
    let told = running.over(by, run);
    assert_eq!((&told.state, told.differing), (&VerificationState::Done, 0), "{told:?}");
    for member in &told.members {
        assert_eq!(member.not_compared.is_some(), member.member == id, "{told:?}");
    }
    running.close();
}

#[test]
fn who_has_nothing_to_compare_says_so() {
    let running = Running::with(3, u64::MAX, |id, store| match id {
        2 => ledger(),
        _ => Arc::new(StoreMachine::new(Arc::clone(store))),
    });
    let told = running.verify(1);
    assert_eq!((&told.state, told.differing), (&VerificationState::Done, 0), "{told:?}");
    let why = told.members[1].not_compared.as_deref();
    assert_eq!(why, Some("this state cannot be compared"));
    running.close();
}

#[test]
fn one_comparison_at_a_time_and_it_can_be_stopped() {
    // A slice a day.
    let running = Running::new(3, 1);
    let [one, two] = [&running.services[&1], &running.services[&2]];
    let run = one.verify().unwrap();
    wait_for("the first slice", || (one.verification()?.entries > 0).then_some(()));
    assert!(one.verify().unwrap_err().contains("already"));
    let told = running.verify(2);
    let VerificationState::Stopped(why) = told.state else { panic!("{told:?}") };
    assert!(why.contains("member 1 compares the data already"), "{why}");
    assert!(two.ask_after_verification(run).is_none());
    one.stop_verification(run + 1);
    assert_eq!(one.verification().unwrap().state, VerificationState::Running);
    one.stop_verification(run);
    let told = running.over(1, run);
    assert_eq!(told.state, VerificationState::Stopped("it was stopped".to_owned()));
    // The members are free for another.
    let run = two.verify().unwrap();
    wait_for("the first slice", || (two.verification()?.entries > 0).then_some(()));
    // Nobody asks after it.
    let why = wait_for("it ends by itself", || match two.verification()?.state {
        VerificationState::Stopped(why) => Some(why),
        VerificationState::Running => None,
        VerificationState::Done => panic!("it is done"),
    });
    assert!(why.contains("nobody asked"), "{why}");
    assert_ne!(running.services[&3].verify().unwrap(), run);
    running.close();
}

#[test]
fn who_holds_a_state_keeps_nobody_from_writing_and_gives_it_back() {
    let running = Running::new(3, 1);
    let run = running.services[&1].verify().unwrap();
    wait_for("the first slice", || {
        (running.services[&1].verification()?.entries > 0).then_some(())
    });
    let is_over = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let writes = scope.spawn(|| write(&running.services, &is_over));
        let over = Over(&is_over);
        wait_for("changes come", || (running.stores[&3].published().lsn.0 > 500).then_some(()));
        drop(over);
        writes.join().unwrap()
    });
    for (id, service) in &running.services {
        barrier(&*service.log(), ReadLevel::AtLeast(Lsn(last)));
        let store = &running.stores[id];
        store.flush().unwrap();
        // While nothing is read, nothing is held.
        assert!(store.base_status().unwrap().oldest_reader.is_zero(), "member {id}");
    }
    running.services[&1].stop_verification(run);
    running.over(1, run);
    running.close();
}
