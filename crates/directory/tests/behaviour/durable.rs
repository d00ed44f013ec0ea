//! What was acknowledged is there, whatever became of the process or its disk; and what is not
//! acknowledged is not shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use directory::{Directory, DirectoryOptions, SpaceLimits};
use history::recovery;
use journal::simulated::SimDisk;
use journal::{FileDisk, JournalOptions};
use ldap::message::{
    AddRequest, Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;
use schema::Schema;
use store::{FlushOptions, Store};

use crate::support::disk::{Faults, FaultyDisk, SetSpace};
use crate::support::{Asked, Client, SUFFIX, Served, add_attributes, manual_clock, modifications};
use crate::writes::{Held, code, exists, submit, submit_unit};

/// A directory on a disk that fails when it is told to.
pub(crate) fn on_faulty_disk() -> (Served, Arc<Faults>) {
    on_faulty_disk_with(|_| {})
}

/// Likewise, of a directory whose options `adjust` has changed.
pub(crate) fn on_faulty_disk_with(
    adjust: impl FnOnce(&mut DirectoryOptions),
) -> (Served, Arc<Faults>) {
    let mut faults = None;
    let served = Served::with(|options| {
        let (disk, switches) = FaultyDisk::of(&options.data);
        options.disk = Some(disk);
        // The next segment is needed soon.
        options.journal_segment_bytes = 1 << 20;
        adjust(options);
        faults = Some(switches);
    });
    // The next segment is made beside the first writes; its sync must not be one that a test holds,
    // counts or lets fail.
    let next = served.options.data.join("journal/00000000000000000002.journal");
    while !next.exists() {
        std::thread::yield_now();
    }
    (served, faults.unwrap())
}

fn unit(number: usize) -> String {
    format!("ou={number},{SUFFIX}")
}

fn add_units(root: &mut Client, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let class: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
        assert_eq!(root.add(&unit(number), &[class]), ResultCode::Success);
    }
}

#[test]
fn what_was_acknowledged_is_there_though_nothing_was_flushed() {
    let served = Served::new();
    let mut root = served.root();
    add_units(&mut root, 0..50);
    assert_eq!(root.delete(&unit(7)), ResultCode::Success);
    let replace: (ModifyOperation, &str, &[&str]) = (ModifyOperation::Replace, "l", &["Ulm"]);
    assert_eq!(root.modify(&unit(8), &[replace]), ResultCode::Success);
    assert_eq!(root.rename(&unit(9), "ou=nine", true, None), ResultCode::Success);
    let published = served.directory.store().published();
    drop(root);
    let served = served.killed();
    assert_eq!(served.directory.store().published().lsn, published.lsn);
    assert_eq!(served.directory.store().published().hash, published.hash);
    assert!(!exists(&served, &unit(7)));
    assert!(!exists(&served, &unit(9)));
    assert!(exists(&served, &format!("ou=nine,{SUFFIX}")));
    let search = Asked { filter: "(l=Ulm)", ..Asked::default() };
    assert_eq!(served.client().search(&search).names(), [unit(8).as_str()]);
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    // And again, with what was written after the recovery.
    add_units(&mut served.root(), 50..60);
    let served = served.killed();
    assert!(exists(&served, &unit(59)));
    assert!(exists(&served, &unit(0)));
}

#[test]
fn a_shutdown_leaves_nothing_to_recover() {
    let served = Served::new();
    add_units(&mut served.root(), 0..10);
    served.directory.shutdown();
    let store = served.directory.store();
    assert_eq!(store.base().lsn, store.published().lsn);
    assert!(exists(&served, &unit(3)), "reading goes on");
}

#[test]
fn nothing_is_visible_before_it_is_durable() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    faults.hold();
    let answer = submit_unit(&mut root, &unit(1));
    faults.wait_for_sync();
    // Decided on what is in flight, and told when that is known to have happened.
    let again = submit_unit(&mut root, &unit(1));
    let below = submit_unit(&mut root, &format!("ou=below,{}", unit(1)));
    assert!(!exists(&served, &unit(1)));
    assert!(answer.try_recv().is_err());
    assert!(again.try_recv().is_err());
    faults.release();
    assert_eq!(code(&answer), ResultCode::Success);
    assert!(exists(&served, &unit(1)));
    assert_eq!(code(&again), ResultCode::EntryAlreadyExists);
    assert_eq!(code(&below), ResultCode::Success);
}

#[test]
fn requests_that_come_while_the_disk_is_busy_share_one_sync() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    faults.hold();
    let first = submit_unit(&mut root, &unit(0));
    faults.wait_for_sync();
    let before = faults.syncs.load(Ordering::SeqCst);
    let others: Vec<_> = (1..=100).map(|number| submit_unit(&mut root, &unit(number))).collect();
    faults.release();
    assert_eq!(code(&first), ResultCode::Success);
    for other in &others {
        assert_eq!(code(other), ResultCode::Success);
    }
    let syncs = faults.syncs.load(Ordering::SeqCst) - before;
    assert!((1..=3).contains(&syncs), "{syncs} syncs for a hundred writes");
}

#[test]
fn after_a_failed_sync_the_outcome_is_unknown_and_nothing_is_written_any_more() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    add_units(&mut root, 0..3);
    faults.hold();
    let lost = submit_unit(&mut root, &unit(3));
    faults.wait_for_sync();
    let on_top = submit_unit(&mut root, &format!("ou=below,{}", unit(3)));
    let refused = submit_unit(&mut root, &unit(3));
    Faults::set(&faults.sync_fails, true);
    faults.release();
    assert_eq!(code(&lost), ResultCode::Other, "the outcome is not known");
    assert_eq!(code(&on_top), ResultCode::Unavailable, "it was never begun");
    assert_eq!(code(&refused), ResultCode::Unavailable);
    // The disk is well again, but what it holds is not known.
    Faults::set(&faults.sync_fails, false);
    let answer = root.try_add(&unit(4), &[("objectClass", &["organizationalUnit"])]);
    assert_eq!(answer.code(), ResultCode::Unavailable);
    assert!(answer.diagnostic.contains("restarts it"), "{}", answer.diagnostic);
    assert!(!exists(&served, &unit(3)), "what is not known to be durable is not shown");
    assert!(exists(&served, &unit(2)), "reading goes on");
    drop(root);
    let served = served.killed();
    assert!(exists(&served, &unit(2)));
    assert!(!exists(&served, &format!("ou=below,{}", unit(3))));
    add_units(&mut served.root(), 10..12);
}

#[test]
fn a_journal_without_room_refuses_and_goes_on_by_itself() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    Faults::set(&faults.is_full, true);
    let text = "x".repeat(200_000);
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("description", &[&text])];
    let mut codes = Vec::new();
    for number in 0..12 {
        codes.push(root.add(&format!("cn={number},{SUFFIX}"), device));
    }
    let written = codes.iter().take_while(|code| **code == ResultCode::Success).count();
    assert!((1..12).contains(&written), "{codes:?}");
    let refused = &codes[written..];
    assert!(refused.iter().all(|code| *code == ResultCode::UnwillingToPerform), "{codes:?}");
    assert!(exists(&served, &format!("cn=0,{SUFFIX}")), "reading goes on");
    assert!(!exists(&served, &format!("cn=11,{SUFFIX}")));
    Faults::set(&faults.is_full, false);
    assert_eq!(root.add(&format!("cn=11,{SUFFIX}"), device), ResultCode::Success);
    drop(root);
    let served = served.killed();
    assert!(exists(&served, &format!("cn=11,{SUFFIX}")));
    assert!(!exists(&served, &format!("cn={written},{SUFFIX}")));
}

#[test]
fn below_the_thresholds_only_the_administrator_writes_and_then_nobody() {
    let space = Arc::new(SetSpace(AtomicU64::new(300 << 20)));
    let handed_in = Arc::clone(&space);
    let served = Served::with(move |options| {
        options.space = Some(handed_in);
        options.space_limits = SpaceLimits { low_bytes: 200 << 20, full_bytes: 100 << 20 };
    });
    let mut root = served.root();
    add_units(&mut root, 0..1);
    space.0.store(150 << 20, Ordering::SeqCst);
    served.clock.advance(Duration::from_secs(2));
    add_units(&mut root, 1..2);
    space.0.store(99 << 20, Ordering::SeqCst);
    served.clock.advance(Duration::from_secs(2));
    let answer = root.try_add(&unit(2), &[("objectClass", &["organizationalUnit"])]);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert!(answer.diagnostic.starts_with("the disk of the server has"), "{}", answer.diagnostic);
    assert!(exists(&served, &unit(1)), "reading goes on");
    space.0.store(300 << 20, Ordering::SeqCst);
    served.clock.advance(Duration::from_secs(2));
    add_units(&mut root, 2..3);
}

/// Adds entries of 400 kB until one is refused; the codes.
fn fill_overlay(served: &Served) -> Vec<ResultCode> {
    let mut root = served.root();
    let text = "x".repeat(400_000);
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("description", &[&text])];
    let mut codes = Vec::new();
    while codes.len() < 20 && codes.last().is_none_or(|code| *code == ResultCode::Success) {
        codes.push(root.add(&format!("cn={},{SUFFIX}", codes.len()), device));
    }
    assert!((4..20).contains(&codes.len()), "the bound holds: {codes:?}");
    assert!(exists(served, &format!("cn=2,{SUFFIX}")), "reading goes on");
    assert!(!exists(served, &format!("cn={},{SUFFIX}", codes.len() - 1)));
    codes
}

#[test]
fn writes_wait_for_the_overlay_and_are_then_busy() {
    let served = Served::with(|options| {
        // Nothing is flushed before the test is over.
        let hour = Duration::from_secs(3_600);
        let bound = FlushOptions::with_overlay_max(2 << 20);
        options.flush = FlushOptions { flush_bytes: u64::MAX, flush_after: hour, ..bound };
        options.limits.write_wait_max = Duration::from_millis(50);
    });
    assert_eq!(fill_overlay(&served).last(), Some(&ResultCode::Busy));
    // What makes room lets writes go on.
    served.directory.store().flush().unwrap();
    add_units(&mut served.root(), 0..1);
}

#[test]
fn a_database_without_room_refuses_when_the_overlay_is_full() {
    let served = Served::with(|options| {
        options.store.map_size_bytes = 1 << 20;
        options.flush = FlushOptions::with_overlay_max(2 << 20);
    });
    assert_eq!(fill_overlay(&served).last(), Some(&ResultCode::UnwillingToPerform));
}

#[test]
fn a_success_is_seen_by_every_worker_at_once() {
    let served = Served::new();
    let searches = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for writer in 0..4 {
            let (served, searches) = (&served, &searches);
            threads.spawn(move || {
                let mut root = served.root();
                let mut readers: Vec<_> = (0..3).map(|_| served.client()).collect();
                for number in 0..30 {
                    let name = format!("cn={writer}-{number},{SUFFIX}");
                    let text = format!("seen {writer} {number}");
                    let device: &[(&str, &[&str])] =
                        &[("objectClass", &["device"]), ("description", &[&text])];
                    assert_eq!(root.add(&name, device), ResultCode::Success);
                    let filter = format!("(description={text})");
                    let search = Asked { filter: &filter, ..Asked::default() };
                    for reader in &mut readers {
                        assert_eq!(reader.search(&search).names(), [name.as_str()]);
                        searches.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(
                        root.rename(&name, &format!("cn=r{writer}-{number}"), true, None),
                        ResultCode::Success
                    );
                    let gone = Asked { base: &name, scope: Scope::Base, ..Asked::default() };
                    for reader in &mut readers {
                        assert_eq!(reader.search(&gone).code(), ResultCode::NoSuchObject);
                    }
                }
            });
        }
    });
    assert_eq!(searches.into_inner(), 4 * 30 * 3);
}

#[test]
fn a_damaged_journal_is_no_silent_start() {
    let served = Served::new();
    add_units(&mut served.root(), 0..200);
    let (options, data) = served.pulled();
    let journal = options.data.join("journal");
    // In the first half of what was written, in the segment that holds it; each of these writes
    // begins a block.
    let place = 20 * 4096..20 * 4096 + 64;
    let files = std::fs::read_dir(&journal).unwrap().map(|found| found.unwrap().path());
    let (path, mut octets) = files
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .find(|(_, octets)| octets.get(place.clone()).is_some_and(|part| part != [0; 64]))
        .unwrap();
    for octet in &mut octets[place.clone()] {
        *octet ^= 0x5a;
    }
    std::fs::write(path, octets).unwrap();
    let opened = Directory::open(options, manual_clock());
    let Err(error) = opened else { panic!("a damaged journal is reported") };
    let text = error.to_string();
    assert!(text.starts_with("the journal is damaged: "), "{text}");
    assert!(text.contains("entry 21: "), "{text}");
    drop(data);
}

#[test]
fn a_lazy_write_does_not_wait_for_the_disk_and_another_in_its_batch_does() {
    let (served, faults) = on_faulty_disk();
    let mut root = served.root();
    faults.hold();
    let mut lazy = ControlsBuf::new();
    lazy.push(Control { oid: LAZY_COMMIT, critical: true, value: None });
    let list = add_attributes(&[("objectClass", &["organizationalUnit"])]);
    let (one, two) = (unit(1), unit(2));
    let add = Request::Add(AddRequest { name: &one, attributes: list.as_ref() });
    assert_eq!(root.request(add, lazy.as_ref()).code(), ResultCode::Success);
    assert!(exists(&served, &one), "it is visible though it is not synced");
    // It survives the end of the process.
    let synced = submit_unit(&mut root, &two);
    faults.wait_for_sync();
    assert!(synced.try_recv().is_err());
    faults.release();
    assert_eq!(code(&synced), ResultCode::Success);
    drop(root);
    let served = served.killed();
    assert!(exists(&served, &one));
    assert!(exists(&served, &two));
}

/// A power cut under four writers: all that was acknowledged is there, and nothing by halves.
fn cut_power(seed: u64) {
    let disk = SimDisk::new(seed);
    let handed_in = Arc::new(disk.clone());
    let served = Served::with(|options| {
        options.disk = Some(handed_in);
        options.journal_segment_bytes = 1 << 18;
    });
    let mut root = served.root();
    add_units(&mut root, 0..10);
    disk.cut_power_after(seed % 97 + 5);
    let acknowledged: Vec<usize> = std::thread::scope(|threads| {
        let writers: Vec<_> = (1..=4)
            .map(|writer| {
                let served = &served;
                threads.spawn(move || {
                    let mut root = served.root();
                    let class: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
                    let mut done = Vec::new();
                    for number in (writer * 1_000..).take(200) {
                        match root.add(&unit(number), &[class]) {
                            ResultCode::Success => done.push(number),
                            // The journal fails without power, and says no more than it knows.
                            ResultCode::Other | ResultCode::Unavailable | ResultCode::Busy => {}
                            code => panic!("{code:?}"),
                        }
                    }
                    done
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(acknowledged.len() < 800, "the power was cut");
    drop(root);
    let (mut options, data) = served.pulled();
    options.disk = Some(Arc::new(disk.crash()));
    let served = Served::opened(options, data);
    for number in (0..10).chain(acknowledged) {
        assert!(exists(&served, &unit(number)), "seed {seed}: {number} was acknowledged");
    }
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "seed {seed}: {:?}", report.findings);
    add_units(&mut served.root(), 9_000..9_003);
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    (1..=8).for_each(|seed| cut_power(seed * 7_919));
}

/// Lazy commit: the client does not wait until its change is synced.
const LAZY_COMMIT: &str = "1.2.840.113556.1.4.619";

#[test]
fn what_was_stored_of_a_type_that_left_the_schema_can_be_deleted_for_good() {
    let served = Served::with(|options| {
        let hat = "dn: cn=schema\nattributeTypes: ( 1.3.6.1.4.1.55555.1 NAME 'hat' \
                   EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )\n";
        std::fs::write(options.data.join("schema/hat.ldif"), hat).unwrap();
    });
    let hatted: &[(&str, &[&str])] =
        &[("objectClass", &["device", "extensibleObject"]), ("hat", &["Panama"])];
    let name = format!("cn=1,{SUFFIX}");
    assert_eq!(served.root().add(&name, hatted), ResultCode::Success);
    std::fs::remove_file(served.options.data.join("schema/hat.ldif")).unwrap();
    let served = served.reopen();
    assert_eq!(served.root().delete(&name), ResultCode::Success);
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    // The record of the deletion has what the entry held.
    let served = served.killed();
    assert!(!exists(&served, &name));
    let report = served.directory.store().check(&mut |_, _, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// A directory with one entry of a megabyte, and 80 small changes of it submitted together; as how
/// many groups the journal has them.
fn change_a_large_entry(served: &Served) -> u64 {
    let mut root = served.root();
    let (name, text) = (format!("cn=large,{SUFFIX}"), "x".repeat(1 << 20));
    let large: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("description", &[&text])];
    assert_eq!(root.add(&name, large), ResultCode::Success);
    let held = Held::new(served);
    let groups = || served.directory.journal().status().groups;
    let before = groups();
    let change = |number: usize| {
        let number = number.to_string();
        let replace: (ModifyOperation, &str, &[&str]) = (ModifyOperation::Replace, "l", &[&number]);
        let changes = modifications(&[replace]);
        let modify = ModifyRequest { name: &name, changes: changes.as_ref() };
        submit(&mut root, Request::Modify(modify))
    };
    let answers: Vec<_> = (0..80).map(change).collect();
    held.release();
    for answer in &answers {
        assert_eq!(code(answer), ResultCode::Success);
    }
    groups() - before
}

#[test]
fn small_changes_of_a_large_entry_take_bounded_memory() {
    let served = Served::with(|options| {
        // Nothing is flushed, so that all of it is replayed.
        let hour = Duration::from_secs(3_600);
        let bound = FlushOptions::with_overlay_max(1 << 30);
        options.flush = FlushOptions { flush_bytes: u64::MAX, flush_after: hour, ..bound };
    });
    assert!(change_a_large_entry(&served) >= 5, "16 MiB of rows are a batch");
    let (options, _data) = served.pulled();
    let store = Store::open(&options.data, &options.store, Schema::builtin()).unwrap();
    let mut batches = 0;
    let disk = Arc::new(FileDisk::new(options.data.join("journal")));
    let journal = JournalOptions::new(store.id());
    let (_, recovered) = recovery::open(&store, disk, journal, &mut |_| {
        batches += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(recovered.records, 82);
    assert!(batches >= 5, "likewise when they are replayed: {batches}");
}
