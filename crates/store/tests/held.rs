//! States that are held after exactly one change: slices of the same state are the same wherever
//! and however it lies, while others write; and what differs is found, whatever the kept digest
//! says.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, ModifyChange, RdnKey,
    Schema, SettingChange,
};
use store::conformance::{Chance, History, contexts, indexes};
use store::{Digest, HeldEntry, HeldState, LogPosition, Lsn, NotHeld, Store, StoreOptions};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

/// A new store, and copies of it under other paths.
fn copies<const N: usize>() -> (tempfile::TempDir, [Store; N]) {
    let directory = tempfile::tempdir().unwrap();
    let first = directory.path().join("first");
    drop(Store::create(&first, &options(), Schema::builtin(), indexes(), contexts()).unwrap());
    let stores = std::array::from_fn(|number| {
        let path = directory.path().join(number.to_string());
        fs::create_dir(&path).unwrap();
        for file in fs::read_dir(&first).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), path.join(file.file_name())).unwrap();
        }
        let store = Store::open(&path, &options(), Schema::builtin()).unwrap();
        store.keep_digest().unwrap();
        store
    });
    (directory, stores)
}

fn publish(store: &Store, batch: store::Batch<'_>) {
    let mark = batch.seal();
    store.publish(mark.lsn, mark.position);
}

/// Applies changes in runs that end where one is awaited, as whoever writes does, or by chance.
fn apply(store: &Store, changes: &[Change], mut ends: impl FnMut() -> bool) {
    let mut changes = changes.iter().peekable();
    while changes.peek().is_some() {
        let mut batch = store.begin().unwrap();
        for change in changes.by_ref() {
            batch.apply(change).unwrap();
            if store.is_awaited(batch.last().lsn) || ends() {
                break;
            }
        }
        publish(store, batch);
    }
}

fn held(store: &Store, lsn: Lsn) -> HeldState {
    store.hold_at(lsn, PATIENCE).unwrap()
}

/// The digest of all that is in a state, read again in slices of so many ids.
fn whole(state: &HeldState, ids: u64) -> Digest {
    let mut sum = 0_u128;
    let add = |sum: u128, digest: Digest| sum.wrapping_add(digest.number());
    for (_, digest) in state.common_rows().unwrap() {
        sum = add(sum, digest);
    }
    let (mut from, mut entries) = (1, 0);
    loop {
        let slice = state.slice(from, from + ids - 1, u64::MAX).unwrap();
        (sum, entries) = (add(sum, slice.digest), entries + slice.entries);
        let Some(next) = slice.next else { break };
        assert!(next >= from + ids);
        from = next;
    }
    assert_eq!(entries, state.entry_count().unwrap());
    Digest::from_number(sum)
}

/// The digest that is kept after each record tells what the rows must add up to.
#[test]
fn a_held_state_is_that_after_exactly_its_change() {
    for seed in 0..6 {
        let (_directory, [one, other, keeper]) = copies();
        let (mut history, mut chance) = (History::default(), Chance::new(seed));
        for round in 0..12 {
            let next = one.begin().unwrap().next_entry_id();
            let changes = history.batch(next, 2 + chance.below(9), &mut chance);
            let (before, rest) = changes.split_at(1 + chance.below(changes.len()));
            let lsn = Lsn(one.published().lsn.0 + before.len() as u64);
            let ids = [(); 2].map(|()| 1 + chance.below(5) as u64);
            let states = std::thread::scope(|scope| {
                let waiting = [(&one, ids[0]), (&other, ids[1])].map(|(store, ids)| {
                    let waits = scope.spawn(move || {
                        let state = held(store, lsn);
                        (state.lsn(), whole(&state, ids))
                    });
                    while !store.is_awaited(lsn) {
                        std::thread::yield_now();
                    }
                    waits
                });
                apply(&one, &changes, || false);
                apply(&other, &changes, || chance.below(3) == 0);
                if chance.below(3) == 0 {
                    other.flush().unwrap();
                }
                waiting.map(|waits| waits.join().unwrap())
            });
            apply(&keeper, before, || false);
            let want = *keeper.digests().last().unwrap();
            apply(&keeper, rest, || false);
            let want = (want.lsn, want.digest);
            assert_eq!((want.0, states), (lsn, [want; 2]), "seed {seed}, round {round}");
        }
    }
}

/// Ends those who write, also where the test fails: they would write without end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever waits looks while others write all the time, in runs as they come, and flush.
#[test]
fn slices_are_the_same_while_others_write() {
    let (_directory, [one, other]) = copies();
    let (one, other) = (&one, &other);
    let is_over = &AtomicBool::new(false);
    let (sender, given) = std::sync::mpsc::sync_channel::<Vec<Change>>(4);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut history, mut chance) = (History::default(), Chance::new(3));
            while !is_over.load(Ordering::Relaxed) {
                // Whoever looks reads all there is, and must not fall behind for ever.
                std::thread::park_timeout(Duration::from_millis(1));
                let next = one.begin().unwrap().next_entry_id();
                let changes = history.batch(next, 1 + chance.below(20), &mut chance);
                apply(one, &changes, || chance.below(9) == 0);
                if chance.below(40) == 0 {
                    one.flush().unwrap();
                }
                sender.send(changes).unwrap();
            }
        });
        scope.spawn(move || {
            let mut chance = Chance::new(4);
            for changes in given {
                apply(other, &changes, || chance.below(4) == 0);
                if chance.below(40) == 0 {
                    other.flush().unwrap();
                }
            }
        });
        let over = Over(is_over);
        let (mut alike, mut tries) = (0, 0_u64);
        while alike < 30 {
            tries += 1;
            let lsn = Lsn(one.published().lsn.0 + 1 + tries % 64);
            let look = |store: &Store| {
                let state = store.hold_at(lsn, PATIENCE)?;
                Ok::<_, NotHeld>((state.lsn(), whole(&state, 7)))
            };
            let (one, other) = std::thread::scope(|scope| {
                let other = scope.spawn(|| look(other));
                (look(one), other.join().unwrap())
            });
            match (one, other) {
                (Ok(one), Ok(other)) => {
                    assert_eq!(one, other);
                    alike += 1;
                }
                // It was too late.
                (Err(NotHeld::Passed { at }), _) | (_, Err(NotHeld::Passed { at })) => {
                    assert!(at >= lsn);
                }
                other => panic!("{other:?}"),
            }
        }
        drop(over);
    });
}

fn dn_key(dn: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), dn).unwrap()
}

fn add(id: u64, parent: u64, dn: &str) -> Change {
    let key = match parent {
        0 => RdnKey::of_naming_context(&dn_key(dn)),
        _ => dn_key(dn).leaf().unwrap(),
    };
    let uuid = format!("00000000-0000-4000-8000-{id:012}");
    let pairs = [
        ("objectClass", &b"top"[..]),
        ("cn", b"name"),
        ("userPassword", b"secret"),
        ("entryUUID", uuid.as_bytes()),
    ];
    let entry = Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &Schema::builtin()).unwrap();
    Change::Add(AddChange { id: EntryId(id), parent: EntryId(parent), key, entry })
}

fn modify(id: u64, attribute: &str, added: &str) -> Change {
    let description = Schema::builtin().describe(attribute).unwrap();
    let (removed, added) = (Vec::new(), vec![added.as_bytes().to_vec()]);
    let deltas = vec![AttributeDelta { description, removed, added }];
    // Nobody looks at the name.
    Change::Modify(ModifyChange { id: EntryId(id), dn: contexts()[0].clone(), deltas })
}

fn delete(id: u64, dn: &str) -> Change {
    let (dn, attributes) = (Dn::parse(dn).unwrap(), Vec::new());
    Change::Delete(DeleteChange { id: EntryId(id), dn, attributes })
}

/// Stores with the entries 1 to 3 and 5, of which `N` are copies.
fn filled<const N: usize>() -> (tempfile::TempDir, [Store; N]) {
    let (directory, stores) = copies();
    let context = contexts()[0].to_string();
    let name = |leaf: &str| format!("cn={leaf},{context}");
    let mut changes = vec![add(1, 0, &context)];
    changes
        .extend([(2, "a"), (3, "b"), (4, "c"), (5, "d")].map(|(id, leaf)| add(id, 1, &name(leaf))));
    changes.push(delete(4, &name("c")));
    stores.iter().for_each(|store| apply(store, &changes, || false));
    (directory, stores)
}

#[test]
fn what_was_changed_behind_the_digest_is_found_and_named() {
    let (_directory, [one, other]) = filled();
    let context = contexts()[0].to_string();
    other.plant_unnoticed(&modify(2, "userPassword", "other")).unwrap();
    other.plant_unnoticed(&delete(3, &format!("cn=b,{context}"))).unwrap();
    other.plant_unnoticed(&add(4, 1, &format!("cn=e,{context}"))).unwrap();
    // Nobody sees it who compares what is kept, and both go on.
    for store in [&one, &other] {
        apply(store, &[modify(5, "cn", "more")], || false);
    }
    assert_eq!(one.digests(), other.digests());
    let [one, other] = [&one, &other].map(|store| held(store, store.published().lsn));
    let [here, there] = [&one, &other].map(|state| state.slice(1, 4, u64::MAX).unwrap());
    assert_ne!(here.digest, there.digest);
    assert_eq!((here.entries, there.entries, here.next, there.next), (3, 3, Some(5), Some(5)));
    let [here, there] = [&one, &other].map(|state| state.slice(5, u64::MAX, u64::MAX).unwrap());
    assert_eq!(here, there);
    let [mut here, mut there] = [&one, &other].map(|state| state.entries(1, 5, 9).unwrap());
    here.retain(|entry| !there.contains(entry));
    there.retain(|entry| entry.0 == 2 || entry.0 == 4);
    assert_eq!(here.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(there.len(), 2);
    let [here, there] = [&one, &other].map(|state| state.describe(2).unwrap());
    let parts = |entry: HeldEntry| match entry {
        HeldEntry::Readable { dn, uuid, name, attributes } => (dn, uuid, name, attributes),
        other => panic!("{other:?}"),
    };
    let (here, there) = (parts(here), parts(there));
    assert_eq!(here.0.as_deref(), Some(&*format!("cn=a,{context}")));
    assert_eq!(here.1, "00000000-0000-4000-8000-000000000002");
    assert_eq!((&here.0, &here.1, here.2), (&there.0, &there.1, there.2));
    let odd: Vec<&str> =
        here.3.iter().filter(|one| !there.3.contains(one)).map(|one| &*one.0).collect();
    assert_eq!(odd, ["userPassword"]);
    assert_eq!(other.describe(3).unwrap(), HeldEntry::Missing);
    assert_eq!(one.describe(4).unwrap(), HeldEntry::Missing);
    assert!(matches!(other.describe(4).unwrap(), HeldEntry::Readable { .. }));
}

#[test]
fn settings_are_compared_as_well() {
    let (_directory, [one, other]) = filled();
    let values = vec!["blue".to_owned()];
    let setting = Change::Setting(SettingChange { name: "colour".to_owned(), values });
    other.plant_unnoticed(&setting).unwrap();
    let rows = |store: &Store| held(store, store.published().lsn).common_rows().unwrap();
    let (here, there) = (rows(&one), rows(&other));
    let odd: Vec<&str> =
        there.iter().filter(|row| !here.contains(row)).map(|row| &*row.0).collect();
    assert_eq!((odd, there.len()), (vec!["setting colour"], here.len() + 1));
}

#[test]
fn a_slice_ends_where_it_is_long_enough() {
    let (_directory, [store]) = filled();
    let state = held(&store, store.published().lsn);
    let whole = state.slice(1, u64::MAX, u64::MAX).unwrap();
    assert_eq!((whole.entries, whole.through, whole.next), (4, u64::MAX, None));
    let first = state.slice(1, u64::MAX, 1).unwrap();
    assert_eq!((first.entries, first.through, first.next), (1, 1, Some(2)));
    assert_eq!(state.slice(1, 1, u64::MAX).unwrap(), first);
    let third = state.slice(3, 4, u64::MAX).unwrap();
    assert_eq!((third.entries, third.through, third.next), (1, 4, Some(5)));
    assert_eq!(state.slice(6, 9, 1).unwrap().next, None);
    assert_eq!(state.entries(1, 5, 2).unwrap().len(), 2);
}

#[test]
fn what_cannot_be_held_is_said() {
    let (directory, [store]) = filled();
    let published = store.published().lsn;
    assert!(held(&store, published).lsn() == published);
    let earlier = store.hold_at(Lsn(published.0 - 1), PATIENCE);
    assert!(matches!(earlier, Err(NotHeld::Passed { at }) if at == published), "{earlier:?}");
    let later = store.hold_at(Lsn(published.0 + 1), Duration::from_millis(1));
    assert!(matches!(later, Err(NotHeld::NotReached { at }) if at == published), "{later:?}");
    assert!(!store.is_awaited(Lsn(published.0 + 1)));
    // A batch that was decided before goes over it.
    let mut batch = store.begin().unwrap();
    for value in ["x", "y"] {
        batch.apply(&modify(2, "description", value)).unwrap();
    }
    let mark = batch.seal();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| store.hold_at(Lsn(published.0 + 1), PATIENCE).map(drop));
        while !store.is_awaited(Lsn(published.0 + 1)) {
            std::thread::yield_now();
        }
        assert!(matches!(store.hold_at(published, PATIENCE), Err(NotHeld::Busy)));
        store.publish(mark.lsn, LogPosition::default());
        let over = waits.join().unwrap();
        assert!(matches!(over, Err(NotHeld::Passed { at }) if at == mark.lsn), "{over:?}");
    });
    // Who is alone keeps no digest.
    let alone = directory.path().join("alone");
    let alone =
        Store::create(&alone, &options(), Schema::builtin(), indexes(), contexts()).unwrap();
    assert!(matches!(alone.hold_at(Lsn(0), PATIENCE), Err(NotHeld::Refused(_))));
}
