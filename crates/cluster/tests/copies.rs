//! Members that lack what the log no longer has get a copy of the data: real members, threads and
//! sockets, over real stores.
#![allow(missing_docs, reason = "tests explain themselves by name")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use cluster::{CopyProgress, MemberFacts, Service};
use history::log::conformance::record_of;
use history::log::{
    CommitLog, MemberChange, MembersChanged, MembersError, ReadLevel, StateMachine,
};
use history::record::Origin;
use history::recovery::StoreMachine;
use journal::Journal;
use schema::{Change, Schema, SettingChange};
use store::{IndexConfig, Lsn, Mark, Store, StoreError, StoreOptions};
use support::{BEGINNING, Cluster, PATIENCE, barrier, commit, leader, wait_for};
use tempfile::TempDir;

/// Members over stores.
struct Running {
    cluster: Cluster,
    folder: TempDir,
    stores: BTreeMap<u64, Arc<Store>>,
    services: BTreeMap<u64, Arc<Service>>,
    journals: BTreeMap<u64, Arc<Journal>>,
    last: Lsn,
    hash: u64,
    /// Octets a second.
    rate: u64,
    /// What the log keeps for members that fall behind.
    keep: u64,
}

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 30, ..StoreOptions::default() }
}

fn setting(name: String, value: String) -> Change {
    Change::Setting(SettingChange { name, values: vec![value] })
}

/// What all members begin with.
fn make(data: &Path) {
    let (schema, indexes) = (Schema::builtin(), IndexConfig::none());
    let store = Store::create(data, &options(), schema, indexes, &[]).unwrap();
    let mut batch = store.begin().unwrap();
    batch.change(&setting("colour".to_owned(), "blue".to_owned())).unwrap();
    let mark = Mark { lsn: Lsn(1), hash: 7, time_us: 1, position: BEGINNING };
    assert_eq!(batch.record(mark).unwrap(), store::Applied::Done);
    batch.commit().unwrap();
    store.keep_digest().unwrap();
}

impl Running {
    fn new(count: u64, rate: u64) -> Self {
        Self::keeping(count, rate, 0)
    }

    fn keeping(count: u64, rate: u64, keep: u64) -> Self {
        let (cluster, folder) = (Cluster::new(count), tempfile::tempdir().unwrap());
        let first = folder.path().join("1");
        make(&first);
        for id in 2..=count {
            copy_files(&first, &folder.path().join(id.to_string()));
        }
        let (last, hash) = (Lsn(1), 7);
        let (stores, services) = (BTreeMap::new(), BTreeMap::new());
        let journals = BTreeMap::new();
        let mut running =
            Self { cluster, folder, stores, services, journals, last, hash, rate, keep };
        for id in 1..=count {
            running.open(id);
        }
        let (stores, journals) = (running.stores.clone(), Mutex::new(BTreeMap::new()));
        let state = |id: u64| machine(&stores[&id]);
        running.services = running.cluster.start_all(state, |parts| {
            parts.options.log_keep_bytes = keep;
            parts.options.copy_rate_bytes = rate;
            journals.lock().unwrap().insert(parts.options.id, Arc::clone(&parts.journal));
        });
        running.journals = journals.into_inner().unwrap();
        leader(&running.services);
        running
    }

    fn data(&self, id: u64) -> PathBuf {
        self.folder.path().join(id.to_string())
    }

    fn open(&mut self, id: u64) {
        // The last one who had it may be closing it.
        let store = wait_for("it can be opened", || {
            match Store::open(&self.data(id), &options(), Schema::builtin()) {
                Err(StoreError::InUse { .. }) => None,
                opened => Some(opened.unwrap()),
            }
        });
        self.stores.insert(id, Arc::new(store));
    }

    fn start(&mut self, id: u64) {
        self.start_with(id, 0);
    }

    /// A member that says that its disk has so much left.
    fn start_with(&mut self, id: u64, disk_free_bytes: u64) -> Arc<AtomicU64> {
        self.open(id);
        let mut parts = self.cluster.parts(id, machine(&self.stores[&id]));
        parts.options.log_keep_bytes = self.keep;
        parts.options.copy_rate_bytes = self.rate;
        let told = Arc::new(AtomicU64::new(disk_free_bytes));
        let free = Arc::clone(&told);
        parts.facts = Arc::new(move || MemberFacts {
            disk_free_bytes: free.load(Ordering::Relaxed),
            ..MemberFacts::default()
        });
        self.journals.insert(id, Arc::clone(&parts.journal));
        self.services.insert(id, Service::start(parts).unwrap());
        told
    }

    fn stop(&mut self, id: u64) {
        self.services.remove(&id).unwrap().log().close();
        self.journals.remove(&id);
        let store = Arc::downgrade(&self.stores.remove(&id).unwrap());
        wait_for("it is closed", || store.upgrade().is_none().then_some(()));
    }

    /// Whoever leads makes so many changes of 256 KiB.
    fn write(&mut self, count: u64) {
        let origin = Origin::of_server([7; 16]);
        for _ in 0..count {
            let (id, reign) = leader(&self.services);
            let number = self.last.0 + 1;
            let name: String =
                number.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
            let change = setting(name, format!("{number} ").repeat(60_000));
            let record = record_of(self.last, self.hash, reign, &origin, change);
            (self.last, self.hash) = (record.lsn, record.hash);
            assert_eq!(commit(&*self.services[&id].log(), reign, record), Ok(self.last));
        }
    }

    /// Its base has everything, and its log need keep nothing.
    fn forget(&self, id: u64) {
        barrier(&*self.services[&id].log(), ReadLevel::AtLeast(self.last));
        let mark = self.stores[&id].flush().unwrap();
        self.services[&id].log().forget(mark.position);
    }

    fn has_purged(&self, id: u64) -> bool {
        let purged = self.journals[&id].status().purged;
        purged.is_some_and(|purged| purged.index >= self.stores[&id].base().position.index)
    }

    /// Index, as the journal counts, up to which its log is purged.
    fn purged(&self, id: u64) -> u64 {
        self.journals[&id].status().purged.map_or(0, |purged| purged.index)
    }

    fn change(&self, change: &MemberChange) -> Result<MembersChanged, MembersError> {
        let (told, heard) = mpsc::channel();
        let done = Box::new(move |outcome| told.send(outcome).unwrap());
        let (by, _) = leader(&self.services);
        self.services[&by].change_members(change.clone(), PATIENCE, done);
        heard.recv_timeout(2 * PATIENCE).unwrap()
    }

    fn transfer(&self, to: u64) {
        wait_for("it leads", || {
            let outcome = self.change(&MemberChange::Transfer { id: to });
            (outcome.is_ok() && leader(&self.services).0 == to).then_some(())
        });
    }

    /// A member goes away, and comes back when nobody who leads has what it lacks.
    fn leave_behind(&mut self) -> u64 {
        let (first, _) = leader(&self.services);
        let away = *self.services.keys().find(|id| **id != first).unwrap();
        self.fall_behind(away, |all| all.stop(away));
        self.forget(first);
        wait_for("the log is purged", || self.has_purged(first).then_some(()));
        away
    }

    /// A member that does not lead falls behind, from when it `leave`s on, until one leads whose
    /// log has not what it lacks; which one.
    fn fall_behind(&mut self, away: u64, leave: impl FnOnce(&mut Self)) -> u64 {
        self.write(2);
        let (first, _) = leader(&self.services);
        self.forget(away);
        leave(self);
        self.write(24);
        let stays = |id: &&u64| ![first, away].contains(id);
        let other = *self.services.keys().find(stays).unwrap();
        // Whoever leads keeps what a member lacks, others do not.
        self.forget(other);
        wait_for("the log is purged", || self.has_purged(other).then_some(()));
        self.transfer(other);
        other
    }

    /// The others look for a member there from now on.
    fn rename(&self, id: u64, address: &str) {
        let (address, url) = (address.to_owned(), String::new());
        let rename = MemberChange::Rename { id, address, url };
        wait_for("it is renamed", || self.change(&rename).ok());
    }

    /// Why copies do not get where they should, as member `id` says.
    fn hindered(&self, id: u64) -> String {
        self.services[&id].status().copy_hindrances.join("\n")
    }

    /// Copies that a member has made to be sent.
    fn made(&self, id: u64) -> usize {
        let Ok(files) = std::fs::read_dir(self.data(id).join("copy")) else { return 0 };
        let names = files.map(|file| file.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("sent-")).count()
    }

    fn receives(&self, id: u64) -> Option<CopyProgress> {
        self.services[&id].status().receives
    }

    /// All have the same in the end.
    fn check(&mut self) {
        self.write(3);
        for (id, service) in &self.services {
            let store = &self.stores[id];
            // A copy takes longer than a barrier waits.
            wait_for("all of it", || (store.published().lsn >= self.last).then_some(()));
            assert_eq!(store.published().hash, self.hash);
            assert_eq!(
                store.digests().last(),
                self.stores[&leader(&self.services).0].digests().last()
            );
            assert_eq!(store.flush().unwrap().lsn, self.last);
            assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
            assert!(service.status().diverged.is_none());
        }
    }

    fn stop_all(self) {
        self.services.values().for_each(|service| service.log().close());
    }
}

fn machine(store: &Arc<Store>) -> Arc<dyn StateMachine> {
    Arc::new(StoreMachine::new(Arc::clone(store)))
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// So fast that nobody looks in between.
const FAST: u64 = u64::MAX;
/// Half a minute for a copy: whoever starts waits some seconds for the others.
const SLOW: u64 = 1 << 18;
/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

/// The engine purged all that was in the base each time it was told of it: a member that had been
/// away for a moment got a copy of everything, and one that had just got a copy another one.
#[test]
fn what_the_log_keeps_for_members_is_not_purged() {
    let mut running = Running::keeping(3, 200 << 20, 2 << 20);
    let begins = running.purged(1);
    running.write(24);
    for id in [1, 2, 3] {
        running.forget(id);
    }
    for id in [1, 2, 3] {
        wait_for("what is not to be kept goes", || (running.purged(id) > begins).then_some(()));
        let has = running.stores[&id].base().position.index;
        // Eight changes take 2 MiB.
        assert!(running.purged(id) + 8 <= has, "{} of {has}", running.purged(id));
    }
}

#[test]
fn a_member_that_was_away_while_the_log_was_purged_gets_a_copy_and_goes_on() {
    let mut all = Running::new(3, FAST);
    let away = all.leave_behind();
    all.start(away);
    all.check();
    let copied = all.stores[&away].base().position;
    assert!(copied.index > BEGINNING.index);
    // Nothing of the copy is left: neither there nor where it was made, when its time has come.
    let left = || std::fs::read_dir(all.data(away).join("copy")).unwrap().count();
    wait_for("the note is gone", || (left() == 0).then_some(()));
    // And after a restart.
    all.stop(away);
    all.write(1);
    all.start(away);
    all.check();
    all.stop_all();
}

/// A member that had made a copy for another got one itself, and went on to send its own: what came
/// after that one its log did not have, and whoever got it waited for ever.
#[test]
fn who_gets_a_copy_gives_up_its_own() {
    let mut all = Running::new(3, FAST);
    let away = all.leave_behind();
    all.start(away);
    all.check();
    let (sender, _) = leader(&all.services);
    assert_eq!(all.made(sender), 1);
    // Now the others do not find the one that made it.
    let other = *all.services.keys().find(|id| ![sender, away].contains(id)).unwrap();
    all.transfer(other);
    let address = all.cluster.nodes[&sender].address.clone();
    all.fall_behind(sender, |all| all.rename(sender, NOWHERE));
    all.rename(sender, &address);
    all.check();
    // It leads again, and the next one needs a copy.
    let (first, _) = leader(&all.services);
    let away = *all.services.keys().find(|id| ![sender, first].contains(id)).unwrap();
    assert_eq!(all.fall_behind(away, |all| all.stop(away)), sender);
    all.start(away);
    all.check();
    all.stop_all();
}

/// A copy named members of a later time than its own, and the engine of whoever got it ended.
#[test]
fn a_copy_is_of_the_members_of_its_own_time() {
    let mut all = Running::new(3, FAST);
    let away = all.leave_behind();
    // Entries of the log without a record: the base says them before it has come so far.
    for port in [1, 2] {
        let (address, url) = (format!("127.0.0.1:{port}"), String::new());
        let join = MemberChange::Join { address, url, key: format!("key {port}"), replaces: None };
        wait_for("a member more", || all.change(&join).ok());
    }
    for (id, store) in &all.stores {
        barrier(&*all.services[id].log(), ReadLevel::Linearizable);
        store.flush().unwrap();
    }
    all.start(away);
    all.check();
    all.stop_all();
}

#[test]
fn a_copy_is_begun_by_another_when_its_sender_dies() {
    let mut all = Running::new(3, SLOW);
    let away = all.leave_behind();
    all.start(away);
    wait_for("a copy comes", || all.receives(away).filter(|it| it.bytes > 0));
    let (sender, _) = leader(&all.services);
    assert_eq!(all.receives(away).map(|it| it.member), Some(sender));
    all.stop(sender);
    let next = wait_for("another sends", || all.receives(away).filter(|it| it.member != sender));
    assert_ne!(next.member, away);
    all.check();
    all.start(sender);
    all.check();
    all.stop_all();
}

#[test]
fn a_copy_goes_on_when_its_receiver_comes_back() {
    let mut all = Running::new(3, SLOW);
    let away = all.leave_behind();
    all.start(away);
    let before = wait_for("a copy comes", || all.receives(away).filter(|it| it.bytes >= 3 << 20));
    let (sender, _) = leader(&all.services);
    all.stop(away);
    all.start(away);
    let after = wait_for("it goes on", || all.receives(away));
    assert!(after.bytes >= before.bytes, "{before:?}, {after:?}");
    assert_eq!((after.of_bytes, after.member), (before.of_bytes, sender));
    all.check();
    all.stop_all();
}

#[test]
fn no_copy_is_made_for_a_member_whose_disk_has_no_room_for_it() {
    let mut all = Running::new(3, FAST);
    let away = all.leave_behind();
    let free = all.start_with(away, 1 << 20);
    let (sender, _) = leader(&all.services);
    let said = wait_for("it is said", || Some(all.hindered(sender)).filter(|it| !it.is_empty()));
    let wanted = format!("the disk of member {away} has 0.00 GiB left");
    assert!(said.contains(&wanted) && said.contains("make room there"), "{said}");
    assert_eq!((all.made(sender), all.receives(away)), (0, None));
    free.store(1 << 40, Ordering::Relaxed);
    all.check();
    assert_eq!(all.hindered(sender), "");
    all.stop_all();
}

/// Mounting needs root; where it is not allowed the test says so and passes.
#[test]
fn a_copy_waits_while_the_disk_is_full_and_goes_on_when_there_is_room() {
    let mut all = Running::new(3, SLOW);
    let away = all.leave_behind();
    let Some(_disk) = SmallDisk::over(&all.data(away)) else { return };
    // Enough for it to begin.
    all.start(away);
    wait_for("a copy comes", || all.receives(away).filter(|it| it.bytes > 0));
    let filler = all.data(away).join("filler");
    let mut open = std::fs::OpenOptions::new();
    let mut filled = open.append(true).create(true).open(&filler).unwrap();
    while filled.write_all(&[1; 4096]).is_ok() {}
    // Or it would keep the room when its name is gone.
    drop(filled);
    let (sender, _) = leader(&all.services);
    let said = wait_for("it says why", || Some(all.hindered(away)).filter(|it| !it.is_empty()));
    assert!(said.contains("the disk has 0.00 GiB left: make room there"), "{said}");
    wait_for("its sender knows", || all.hindered(sender).contains("0.00 GiB").then_some(()));
    // It takes part all the same, and so do the others.
    all.write(1);
    std::fs::remove_file(&filler).unwrap();
    all.check();
    assert_eq!((all.hindered(away), all.hindered(sender)), (String::new(), String::new()));
    all.stop_all();
}

/// A small file system in the place of a directory, with what was in it.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where nothing can be mounted.
    fn over(directory: &Path) -> Option<Self> {
        let kept = directory.with_extension("kept");
        std::fs::rename(directory, &kept).unwrap();
        std::fs::create_dir(directory).unwrap();
        if !run("mount", &["-t", "tmpfs", "-o", "size=160m", "none"], directory) {
            eprintln!("skipped: a small file system cannot be mounted (it takes root)");
            return None;
        }
        for file in std::fs::read_dir(&kept).unwrap().map(Result::unwrap) {
            if file.path().is_file() {
                std::fs::copy(file.path(), directory.join(file.file_name())).unwrap();
            }
        }
        Some(Self(directory.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    let command = command.args(arguments).arg(path).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
