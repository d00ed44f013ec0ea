//! Members as they run: threads, sockets, certificates, and a journal on a disk that fails.
#![allow(missing_docs, reason = "tests explain themselves by name")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use cluster::transport::AskError;
use cluster::{Node, Service, ServiceParts};
use history::log::conformance::{Bench, Ledger, check, check_faults, record_after};
use history::log::{
    CommitError, CommitLog, Decided, Difference, MemberChange, NotNow, ReadLevel, Reign, Role,
    StateMachine,
};
use history::record::Origin;
use history::recovery::StoreMachine;
use history::test_support::Hooked;
use journal::simulated::{Fault, SimDisk};
use schema::{Change, Schema, SettingChange};
use store::{IndexConfig, LogPosition, Lsn, Mark, Store, StoreOptions};
use support::{
    BEGINNING, Cluster, PATIENCE, barrier, commit, deciding, leader, ledger, open_journal, wait_for,
};

/// One member alone, as the suite wants it.
struct OneMember(Cluster);

impl OneMember {
    fn disk(&mut self) -> &mut SimDisk {
        self.0.disks.get_mut(&1).unwrap()
    }
}

impl Bench for OneMember {
    fn start(&mut self, machine: &Arc<Ledger>) -> Arc<dyn CommitLog> {
        machine.begin_at(BEGINNING);
        let service = self.0.start(1, Arc::clone(machine) as _);
        let log = service.log();
        deciding(&[(1, &log)]);
        log
    }

    fn lose_power(&mut self, _: u64) {
        *self.disk() = self.disk().crash();
    }

    fn break_medium(&mut self, after: u64) -> bool {
        let fault = if after.is_multiple_of(2) { Fault::Sync } else { Fault::Write };
        self.disk().fail(fault, after, u64::MAX, ErrorKind::Other);
        true
    }

    fn mend_medium(&mut self) {
        *self.disk() = self.disk().kill();
    }

    fn fill_medium(&mut self, _: bool) -> bool {
        // A member whose log cannot grow waits for room, and another one leads.
        false
    }
}

fn one_member(seed: u64) -> Box<dyn Bench> {
    let mut cluster = Cluster::new(1);
    cluster.disks.insert(1, SimDisk::new(seed));
    Box::new(OneMember(cluster))
}

#[test]
fn one_member_conforms() {
    check(&|| one_member(1));
}

#[test]
fn one_member_survives_faults() {
    for seed in 0..6 {
        check_faults(&|| one_member(seed), seed);
    }
}

#[test]
fn three_members_go_on_without_the_leader_and_take_it_back() {
    let mut cluster = Cluster::new(3);
    let mut ledgers: BTreeMap<u64, Arc<Ledger>> = (1..=3).map(|id| (id, ledger())).collect();
    let mut services = cluster.start_all(|id| Arc::clone(&ledgers[&id]) as _, |_| ());
    let origin = Origin::of_server([7; 16]);
    let (mut last, mut hash) = (Lsn(0), 0);
    for round in 0..3 {
        let (id, reign) = leader(&services);
        for number in 0..20 {
            let line = format!("round {round} change {number}");
            let record = record_after(last, hash, reign, &origin, line);
            (last, hash) = (record.lsn, record.hash);
            assert_eq!(commit(&*services[&id].log(), reign, record), Ok(last));
        }
        for service in services.values() {
            assert!(barrier(&*service.log(), ReadLevel::Linearizable) >= last);
            assert_eq!(barrier(&*service.log(), ReadLevel::AtLeast(last)), last);
        }
        // The leader loses its power, and comes back with an empty memory.
        cluster.disks.insert(id, cluster.disks[&id].crash());
        services.remove(&id).unwrap().log().close();
        leader(&services);
        let ledger = ledger();
        services.insert(id, cluster.start(id, Arc::clone(&ledger) as _));
        // It serves nobody before it has caught up.
        assert_eq!(ledger.last(), last);
        assert!(services[&id].status().has_caught_up);
        ledgers.insert(id, ledger);
    }
    let mut tail = services[&1].log().tail(Lsn(1)).unwrap();
    for lsn in 1..=last.0 {
        let record = tail.next_within(PATIENCE).unwrap().unwrap();
        assert_eq!(record.lsn, Lsn(lsn));
    }
    services.values().for_each(|service| service.log().close());
    for ledger in ledgers.values() {
        assert_eq!(ledger.records(), ledgers[&1].records());
        assert_eq!(ledger.last(), last);
    }
}

#[test]
fn a_member_that_reaches_nobody_starts_and_decides_nothing() {
    let cluster = Cluster::new(3);
    let service = cluster.start(1, ledger());
    assert_eq!(service.log().role(), Role::Alone);
    assert_eq!(barrier(&*service.log(), ReadLevel::Local), Lsn(0));
    assert!(!service.status().has_caught_up, "nobody told it what there is");
    // With another one it goes on by itself.
    let other = cluster.start(2, ledger());
    for service in [&service, &other] {
        wait_for("it catches up", || service.status().has_caught_up.then_some(()));
    }
    service.log().close();
    other.log().close();
}

#[test]
fn a_leader_against_which_something_speaks_hands_the_lead_over() {
    // Whose disk is full; 0 nobody's.
    let full = Arc::new(AtomicU64::new(0));
    let cluster = Cluster::new(3);
    let services = cluster.start_all(
        |_| ledger(),
        |parts| {
            let (full, id) = (Arc::clone(&full), parts.options.id);
            parts.impediment = Arc::new(move || {
                (full.load(Ordering::SeqCst) == id).then(|| "the disk is full".to_owned())
            });
        },
    );
    let (first, reign) = leader(&services);
    full.store(first, Ordering::SeqCst);
    let others: Vec<_> = services
        .iter()
        .filter(|(id, _)| **id != first)
        .map(|(id, service)| (*id, service.log()))
        .collect();
    let (next, later) = deciding(&others.iter().map(|(id, log)| (*id, log)).collect::<Vec<_>>());
    assert!(next != first && later > reign, "{next} leads in {later:?}");
    assert_eq!(services[&first].status().unfit.as_deref(), Some("the disk is full"));
    // Nothing is wrong with the clocks of the others, whom it asks more often than it takes.
    for _ in 0..5 {
        let (told, heard) = mpsc::channel();
        services[&first].ask_status(PATIENCE, move |said| told.send(said).unwrap());
        let said = heard.recv_timeout(PATIENCE).unwrap();
        assert_eq!(said.len(), 2);
        for (id, report) in said {
            let report = report.unwrap();
            assert!(!report.is_unfit && !report.is_failed, "{id}: {report:?}");
            assert!(report.clock_us > 1_700_000_000_000_000, "{id}: {report:?}");
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
    services.values().for_each(|service| service.log().close());
}

#[test]
fn members_that_speak_other_versions_say_which_is_to_be_upgraded() {
    let cluster = Cluster::new(3);
    let services = cluster.start_all(
        |_| ledger(),
        |parts| parts.asks_version = if parts.options.id == 3 { 2 } else { 1 },
    );
    let said = |id: u64, count: usize| {
        wait_for("it says so", || {
            let versions = services[&id].status().versions;
            (versions.len() == count).then(|| versions.join("\n"))
        })
    };
    for id in [1, 2] {
        let said = said(id, 1);
        assert!(said.starts_with("member 3 speaks version 2 of the form"), "{said}");
        assert!(said.ends_with(&format!("upgrade member {id}")), "{said}");
    }
    let said = said(3, 2);
    assert!(said.contains("upgrade member 1\n") && said.ends_with("upgrade member 2"), "{said}");
    services.values().for_each(|service| service.log().close());
}

#[test]
fn members_that_list_others_are_told_of_by_both_sides() {
    let cluster = Cluster::new(3);
    let services = cluster.start_all(
        |_| ledger(),
        |parts| {
            if parts.options.id == 3 {
                parts.options.members.retain(|id, _| *id == 3);
            }
        },
    );
    let said = |id: u64, what: &str| {
        wait_for(what, || {
            let said = services[&id].status().listings.join("\n");
            said.contains(what).then_some(said)
        })
    };
    for id in [1, 2] {
        let said = said(id, "member 3 lists member 3, and");
        assert!(said.contains(&format!("member {id} lists members 1, 2 and 3: ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // It asks nobody, but is asked.
    said(3, "member 1 asks member 3, which lists member 3: ");
    said(3, "member 2 asks member 3, which lists member 3: ");
    services.values().for_each(|service| service.log().close());
}

#[test]
fn a_member_keeps_to_the_members_it_began_with() {
    let directory = tempfile::tempdir().unwrap();
    let schema = Schema::builtin();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    drop(copies(directory.path(), 1));
    let cluster = Cluster::new(3);
    let start = |change: &dyn Fn(&mut BTreeMap<u64, Node>)| {
        let path = directory.path().join("1");
        // The threads of the one before end by themselves.
        let store =
            wait_for("it is free", || Store::open(&path, &options, Arc::clone(&schema)).ok());
        let mut parts = cluster.parts(1, Arc::new(StoreMachine::new(Arc::new(store))));
        change(&mut parts.options.members);
        Service::start(parts).map(|service| {
            let urls: Vec<String> =
                service.status().members.into_iter().map(|member| member.url).collect();
            service.log().close();
            urls
        })
    };
    start(&|_| ()).unwrap();
    for (listed, listed_said) in [(vec![1], "member 1"), (vec![1, 2], "members 1 and 2")] {
        let refused = start(&|members| members.retain(|id, _| listed.contains(id))).unwrap_err();
        let what = format!(
            "the settings list {listed_said}, and this data directory is that of a member of the \
             cluster of members 1, 2 and 3: have cluster.members list members 1, 2 and 3"
        );
        assert!(refused.starts_with(&what), "{refused}");
    }
    let more = |members: &mut BTreeMap<u64, Node>| drop(members.insert(4, Node::default()));
    assert!(start(&more).unwrap_err().starts_with("the settings list members 1, 2, 3 and 4, "));
    // It may be elsewhere.
    let moved = |members: &mut BTreeMap<u64, Node>| {
        members.get_mut(&2).unwrap().url = "ldap://moved".to_owned();
    };
    assert_eq!(start(&moved).unwrap()[1], "ldap://moved");
}

#[test]
fn the_lead_goes_to_the_member_that_is_preferred() {
    let preferred = |parts: &mut ServiceParts| parts.options.preferred = [3].into();
    let cluster = Cluster::new(3);
    let services = cluster.start_all(|_| ledger(), preferred);
    let log = services[&3].log();
    let (id, _) = deciding(&[(3, &log)]);
    assert_eq!(id, 3);
    // It was taken from it.
    services[&3].log().members().change(MemberChange::Transfer { id: 1 }, Box::new(drop));
    let others: Vec<_> = [1, 2].map(|id| (id, services[&id].log())).into();
    let (_, between) = deciding(&others.iter().map(|(id, log)| (*id, log)).collect::<Vec<_>>());
    let (told, heard) = mpsc::channel();
    log.watch(Box::new(move |role| drop(told.send(role.clone()))));
    let is_back = |role: Role| matches!(role, Role::Deciding(reign) if reign > between);
    while !is_back(heard.recv_timeout(PATIENCE).unwrap()) {}
    services.values().for_each(|service| service.log().close());
}

#[test]
fn what_is_asked_of_a_leader_ends_with_its_lead() {
    let (told, heard) = mpsc::channel();
    let cluster = Cluster::new(3);
    let services = cluster.start_all(
        |_| ledger(),
        |parts| {
            let told = told.clone();
            // It never answers.
            parts.asked_here = Arc::new(move |_, done| told.send(done).unwrap());
        },
    );
    let (first, _) = leader(&services);
    let (&other, follower) = services.iter().find(|(id, _)| **id != first).unwrap();
    // It hears who leads.
    barrier(&*follower.log(), ReadLevel::Linearizable);
    let (answered, answer) = mpsc::channel();
    let done = Box::new(move |outcome| answered.send(outcome).unwrap());
    follower.ask_leader(b"x".to_vec().into(), 10 * PATIENCE, done);
    let _kept = heard.recv_timeout(PATIENCE).unwrap();
    services[&first].log().members().change(MemberChange::Transfer { id: other }, Box::new(drop));
    let answer = answer.recv_timeout(PATIENCE).unwrap();
    assert!(matches!(answer, Err(AskError::Unknown(_))), "{answer:?}");
    services.values().for_each(|service| service.log().close());
}

#[test]
fn a_leader_that_retires_hands_the_lead_over() {
    let cluster = Cluster::new(3);
    let services = cluster.start_all(|_| ledger(), |_| ());
    let (first, reign) = leader(&services);
    services[&first].log().retire();
    let others: Vec<_> = services
        .iter()
        .filter(|(id, _)| **id != first)
        .map(|(id, service)| (*id, service.log()))
        .collect();
    let (next, later) = deciding(&others.iter().map(|(id, log)| (*id, log)).collect::<Vec<_>>());
    assert!(next != first && later > reign, "{next} leads in {later:?}");
    services.values().for_each(|service| service.log().close());
}

fn ask(log: &dyn CommitLog, level: ReadLevel) -> Result<Lsn, NotNow> {
    let (told, heard) = mpsc::channel();
    log.barrier(level, Box::new(move |answer| told.send(answer).unwrap()));
    heard.recv_timeout(PATIENCE).expect("a barrier is answered in time")
}

/// Lets nobody through while it is shut.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let guard = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(guard, |is_shut| *is_shut).unwrap());
    }
}

#[test]
fn a_barrier_is_answered_in_time_whatever_the_others_do() {
    let cluster = Cluster::new(3);
    let gates: BTreeMap<u64, Arc<Gate>> = (1..=3).map(|id| (id, Arc::default())).collect();
    let state = |id: u64| {
        let (gate, ledger) = (Arc::clone(&gates[&id]), Ledger::default());
        ledger.begin_at(BEGINNING);
        Arc::new(Hooked::new(ledger).before_apply(move |_| {
            gate.pass();
            Ok(())
        })) as Arc<dyn StateMachine>
    };
    let mut services = cluster.start_all(state, |_| ());
    let (id, reign) = leader(&services);
    let follower = services.keys().copied().find(|other| *other != id).unwrap();
    let log = services[&follower].log();
    // It may not know yet who leads.
    while ask(&*log, ReadLevel::Linearizable).is_err() {}

    // It hears of a change, and does not apply it.
    gates[&follower].set_shut(true);
    let origin = Origin::of_server([7; 16]);
    let record = record_after(Lsn(0), 0, reign, &origin, "a change".to_owned());
    assert_eq!(commit(&*services[&id].log(), reign, record), Ok(Lsn(1)));
    assert!(matches!(
        ask(&*log, ReadLevel::Linearizable),
        Err(NotNow::NoQuorum { heard: Some(_) })
    ));
    // Nor is anybody kept who waits for a change.
    for number in [1, 1, 2] {
        let answer = ask(&*log, ReadLevel::AtLeast(Lsn(number)));
        assert!(matches!(answer, Err(NotNow::NoQuorum { heard: Some(_) })), "{answer:?}");
    }
    gates[&follower].set_shut(false);
    while ask(&*log, ReadLevel::AtLeast(Lsn(1))) != Ok(Lsn(1)) {}
    while ask(&*log, ReadLevel::Linearizable) != Ok(Lsn(1)) {}

    // Nobody else is there any more.
    for other in (1..=3).filter(|other| *other != follower) {
        services.remove(&other).unwrap().log().close();
    }
    let answer = ask(&*log, ReadLevel::Linearizable);
    assert!(matches!(answer, Err(NotNow::NoQuorum { heard: Some(_) })), "{answer:?}");
    assert_eq!(ask(&*log, ReadLevel::Local), Ok(Lsn(1)));
    log.close();
}

#[test]
fn a_member_whose_log_has_failed_does_not_take_what_it_has_for_fresh() {
    let three = Three::new();
    let (first, reign) = leader(&three.services);
    let others = three.others(first);
    let (follower, service) = others.first_key_value().unwrap();
    three.cluster.disks[follower].fail(Fault::Write, 0, u64::MAX, ErrorKind::Other);
    three.commit(first, reign).unwrap();
    wait_for("it has failed", || matches!(service.log().role(), Role::Failed(_)).then_some(()));
    let last = three.commit(first, reign).unwrap();
    let log = service.log();
    assert!(ask(&*log, ReadLevel::Linearizable).is_err());
    assert_eq!(ask(&*log, ReadLevel::AtLeast(last)), Err(NotNow::Closed));
    assert!(ask(&*log, ReadLevel::Local).unwrap() < last);
    three.services.values().for_each(|service| service.log().close());
}

/// Three members with their ledgers, one of which leads.
struct Three {
    ledgers: BTreeMap<u64, Arc<Ledger>>,
    services: BTreeMap<u64, Arc<Service>>,
    cluster: Cluster,
}

impl Three {
    fn new() -> Self {
        let cluster = Cluster::new(3);
        let ledgers: BTreeMap<u64, Arc<Ledger>> = (1..=3).map(|id| (id, ledger())).collect();
        let services = cluster.start_all(|id| Arc::clone(&ledgers[&id]) as _, |_| ());
        Self { ledgers, services, cluster }
    }

    /// Has a leader commit one more change.
    fn commit(&self, leader: u64, reign: Reign) -> Result<Lsn, CommitError> {
        let origin = Origin::of_server([7; 16]);
        let ledger = &self.ledgers[&leader];
        let (last, hash) = (ledger.last(), ledger.hash());
        let record = record_after(last, hash, reign, &origin, format!("after {}", last.0));
        commit(&*self.services[&leader].log(), reign, record)
    }

    fn others(&self, than: u64) -> BTreeMap<u64, Arc<Service>> {
        let others = self.services.iter().filter(|(id, _)| **id != than);
        others.map(|(id, service)| (*id, Arc::clone(service))).collect()
    }

    /// Fills the disk of a member, and commits until that has no room for its journal.
    fn fill(&self, id: u64, leader: u64, reign: Reign) {
        self.cluster.disks[&id].limit_space(Some(self.cluster.disks[&id].used_bytes()));
        let says = || self.services[&id].status().unfit;
        while says().is_none() {
            // A leader without room hands the lead over meanwhile.
            if self.commit(leader, reign).is_err() {
                assert_eq!(id, leader, "the others go on");
                break;
            }
        }
        let said = wait_for("it says so", says);
        assert_eq!(said, "its disk has no room for its journal");
    }

    /// Gives a member room, and waits until the leader knows that it has everything.
    fn mend(&self, id: u64, leader: u64) {
        self.cluster.disks[&id].limit_space(None);
        wait_for("it has everything", || {
            let status = self.services[&leader].status();
            let member = status.members.iter().find(|member| member.id == id);
            (member?.matched_index? == status.last_index).then_some(())
        });
        let role = self.services[&id].log().role();
        assert!(matches!(role, Role::Following { .. }), "{role:?}");
    }
}

#[test]
fn a_member_without_room_for_its_journal_goes_on_when_there_is_some() {
    let three = Three::new();
    let (first, reign) = leader(&three.services);
    let follower = *three.others(first).first_key_value().unwrap().0;
    three.fill(follower, first, reign);
    for _ in 0..5 {
        three.commit(first, reign).unwrap();
    }
    let durable = open_journal(&three.cluster.disks[&follower].crash()).last().unwrap().index;
    assert!(durable < three.services[&first].status().last_index, "it has room");
    three.mend(follower, first);

    // And when it leads.
    three.fill(first, first, reign);
    let (next, later) = leader(&three.others(first));
    assert!(later > reign);
    wait_for("it has what the other had", || three.commit(next, later).ok());
    for _ in 0..5 {
        three.commit(next, later).unwrap();
    }
    three.mend(first, next);
    let last = three.ledgers[&next].last();
    for (id, service) in &three.services {
        assert_eq!(barrier(&*service.log(), ReadLevel::AtLeast(last)), last);
        service.log().close();
        assert_eq!(three.ledgers[id].records(), three.ledgers[&next].records());
    }
}

/// Its engine is in the middle of saving a vote, for which there is no room.
#[test]
fn a_start_that_the_disk_ends_says_what_the_disk_said() {
    for fault in [Fault::Write, Fault::Sync] {
        let cluster = Cluster::new(1);
        let parts = cluster.parts(1, ledger());
        cluster.disks[&1].fail(fault, 0, u64::MAX, ErrorKind::Other);
        let refused = Service::start(parts).unwrap_err();
        assert!(refused.starts_with("the engine of the cluster ended: "), "{refused}");
        assert!(refused.contains(".journal") && refused.contains("other error"), "{refused}");
        assert!(refused.ends_with("restart the server when the disk works again"), "{refused}");
    }
}

#[test]
fn a_member_that_waits_for_room_can_be_stopped() {
    let three = Three::new();
    let (first, reign) = leader(&three.services);
    let others: Vec<u64> = three.others(first).into_keys().collect();
    let full = others[0];
    three.fill(full, first, reign);
    let change = MemberChange::Transfer { id: others[1] };
    three.services[&first].log().members().change(change, Box::new(drop));
    leader(&three.others(first));
    let (told, heard) = mpsc::channel();
    let log = three.services[&full].log();
    std::thread::spawn(move || {
        log.close();
        told.send(()).unwrap();
    });
    heard.recv_timeout(PATIENCE).expect("it stops");
    three.services.values().for_each(|service| service.log().close());
}

/// A store that is compared, and what its member was told of the others.
struct Compared {
    store: Arc<Store>,
    found: Arc<Mutex<Option<Difference>>>,
}

impl Compared {
    fn machine(&self) -> Arc<dyn StateMachine> {
        let found = Arc::clone(&self.found);
        let machine = Hooked::new(StoreMachine::new(Arc::clone(&self.store)));
        Arc::new(machine.when_different(move |difference| {
            *found.lock().unwrap() = Some(difference.clone());
        }))
    }
}

fn setting(value: &str) -> Change {
    let values = vec![value.to_owned()];
    Change::Setting(SettingChange { name: "colour".to_owned(), values })
}

/// Stores with one record, all copies of one data directory.
fn copies(of: &std::path::Path, count: u64) -> BTreeMap<u64, Compared> {
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let first = of.join("1");
    let (schema, indexes) = (Schema::builtin(), IndexConfig::none());
    let store = Store::create(&first, &options, Arc::clone(&schema), indexes, &[]).unwrap();
    let mut batch = store.begin().unwrap();
    batch.change(&setting("blue")).unwrap();
    let position = LogPosition { term: 1, index: 1 };
    let mark = Mark { lsn: Lsn(1), hash: 7, time_us: 1, position };
    assert_eq!(batch.record(mark).unwrap(), store::Applied::Done);
    batch.commit().unwrap();
    drop(store);
    for id in 2..=count {
        let other = of.join(id.to_string());
        std::fs::create_dir(&other).unwrap();
        for file in std::fs::read_dir(&first).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
        }
    }
    let opened = (1..=count).map(|id| {
        let path = of.join(id.to_string());
        let store = Arc::new(Store::open(&path, &options, Arc::clone(&schema)).unwrap());
        store.keep_digest().unwrap();
        (id, Compared { store, found: Arc::default() })
    });
    opened.collect()
}

/// What it decided alone has numbers that the cluster gives as well.
#[test]
fn a_member_with_changes_of_its_own_says_that_it_has_diverged() {
    let cluster = Cluster::new(3);
    let origin = Origin::of_server([7; 16]);
    let odd = Ledger::default();
    let own = record_after(Lsn(0), 0, Reign(1), &origin, "decided alone".to_owned());
    odd.apply(Decided::Elsewhere, &[own], BEGINNING).unwrap();
    let mut services: BTreeMap<u64, Arc<Service>> =
        [1, 2].map(|id| (id, cluster.start(id, ledger()))).into();
    let (id, reign) = leader(&services);
    services.insert(3, cluster.start(3, Arc::new(odd)));
    let (mut last, mut hash) = (Lsn(0), 0);
    for number in 0..3 {
        let record = record_after(last, hash, reign, &origin, format!("change {number}"));
        (last, hash) = (record.lsn, record.hash);
        assert_eq!(commit(&*services[&id].log(), reign, record), Ok(last));
    }
    wait_for("it says so", || (services[&3].status().diverged == Some(Lsn(1))).then_some(()));
    // The next number is free there, and what has it does not follow.
    wait_for("it leaves", || matches!(services[&3].log().role(), Role::Failed(_)).then_some(()));
    assert_eq!((services[&3].status().voids, services[&3].status().diverged), (1, Some(Lsn(1))));
    let (told, heard) = mpsc::channel();
    services[&id].ask_status(PATIENCE, move |said| told.send(said).unwrap());
    for (other, report) in heard.recv_timeout(PATIENCE).unwrap() {
        let want = (other == 3).then_some(Lsn(1));
        assert_eq!(report.unwrap().diverged, want, "member {other}");
    }
    services.values().for_each(|service| service.log().close());
}

#[test]
fn a_member_whose_data_are_others_is_found_and_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let states = copies(directory.path(), 3);
    let often = |parts: &mut ServiceParts| parts.options.compare_every = Duration::from_millis(20);
    let cluster = Cluster::new(3);
    let services = cluster.start_all(|id| states[&id].machine(), often);
    for service in services.values() {
        wait_for("the same on all", || (service.status().alike == Some(Lsn(1))).then_some(()));
        assert_eq!(service.status().difference, None);
    }
    // The one that leads, which is the hardest.
    let (odd, _) = leader(&services);
    states[&odd].store.plant(&setting("red")).unwrap();
    let found = wait_for("it knows", || states[&odd].found.lock().unwrap().clone());
    assert_eq!((found.lsn, found.points.len()), (Lsn(1), 3));
    assert_eq!(services[&odd].status().diverged, Some(Lsn(1)));
    wait_for("it leaves", || match services[&odd].log().role() {
        Role::Failed(reason) => {
            assert!(reason.contains("not those of the others"), "{reason}");
            Some(())
        }
        _ => None,
    });
    // The others go on, and say what they see.
    let rest: BTreeMap<u64, Arc<Service>> = services
        .iter()
        .filter(|(id, _)| **id != odd)
        .map(|(id, service)| (*id, Arc::clone(service)))
        .collect();
    leader(&rest);
    for (id, service) in &rest {
        let said = wait_for("they see it", || service.status().difference);
        assert!(said.contains("differ after change record 1"), "{said}");
        assert!(states[id].found.lock().unwrap().is_none());
        assert!(!matches!(service.log().role(), Role::Failed(_)));
    }
    services.values().for_each(|service| service.log().close());
}
