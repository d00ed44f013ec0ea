//! Batches: what is tentative, what readers see, and what becomes of records that do not fit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::thread;

use ldap::dn::Dn;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead,
    ModifyChange, RdnKey, Schema, SchemaChange,
};
use store::{
    Applied, Batch, IndexConfig, LogPosition, Lsn, Mark, Resolved, Store, StoreError, StoreOptions,
    StoreReader,
};

/// A store in a directory that goes with it; an entry `dc=x` with id 1 is there and flushed.
struct Fixture {
    store: Arc<Store>,
    _directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() };
    let contexts = [Dn::parse("dc=x").unwrap()];
    let (schema, indexes) = (Schema::builtin(), IndexConfig::default());
    let store = Store::create(directory.path(), &options, schema, indexes, &contexts).unwrap();
    let mut batch = store.begin().unwrap();
    let change = add_change(&batch, "dc=x");
    batch.apply(&change).unwrap();
    batch.commit().unwrap();
    Fixture { store: Arc::new(store), _directory: directory }
}

fn key(dn: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), dn).unwrap()
}

/// Adds an entry below the naming context, or that itself.
fn add_change(batch: &Batch<'_>, dn: &str) -> Change {
    let (key, dn) = (key(dn), Dn::parse(dn).unwrap());
    let (parent, key) = match dn.rdns().len() {
        1 => (EntryId::ROOT, RdnKey::of_naming_context(&key)),
        _ => (EntryId(1), key.leaf().unwrap()),
    };
    let pairs = [("objectClass", &b"top"[..]), ("cn", b"some name"), ("l", b"some town")];
    let entry = Entry::from_pairs(dn, pairs, batch.view().schema()).unwrap();
    Change::Add(AddChange { id: batch.next_entry_id(), parent, key, entry })
}

fn after(mark: Mark) -> Mark {
    let Mark { lsn, hash, time_us, position } = mark;
    let position = LogPosition { index: position.index + 1, ..position };
    Mark { lsn: Lsn(lsn.0 + 1), hash: hash.wrapping_add(17), time_us: time_us + 1, position }
}

/// Adds an entry as the next record.
fn add(batch: &mut Batch<'_>, dn: &str) {
    let change = add_change(batch, dn);
    batch.change(&change).unwrap();
    assert_eq!(batch.record(after(batch.last())).unwrap(), Applied::Done);
}

fn is_there(reader: &mut StoreReader, dn: &str) -> bool {
    matches!(reader.view().unwrap().resolve(&key(dn)).unwrap(), Resolved::Found(_))
}

fn is_in(batch: &Batch<'_>, dn: &str) -> bool {
    matches!(batch.view().resolve(&key(dn)).unwrap(), Resolved::Found(_))
}

#[test]
fn what_is_sealed_later_batches_see_and_readers_when_it_is_published() {
    let Fixture { store, _directory } = fixture();
    let mut reader = store.reader();
    let mut marks = Vec::new();
    for dn in ["cn=a,dc=x", "cn=b,dc=x", "cn=c,dc=x"] {
        let mut batch = store.begin().unwrap();
        add(&mut batch, dn);
        marks.push(batch.seal());
        assert!(!is_there(&mut reader, dn));
    }
    assert_eq!((store.published().lsn, store.tentative()), (Lsn(1), marks[2]));
    let batch = store.begin().unwrap();
    assert!(is_in(&batch, "cn=a,dc=x") && is_in(&batch, "cn=c,dc=x"));
    assert_eq!(batch.view().entry_count().unwrap(), 4);
    // Publishing does not disturb the batch that is open.
    let position = LogPosition { term: 3, index: 40 };
    store.publish(marks[1].lsn, position);
    assert!(is_there(&mut reader, "cn=a,dc=x") && is_there(&mut reader, "cn=b,dc=x"));
    assert!(!is_there(&mut reader, "cn=c,dc=x"));
    assert_eq!(store.published(), Mark { position, ..marks[1] });
    assert_eq!(reader.view().unwrap().mark(), store.published());
    assert!(is_in(&batch, "cn=c,dc=x"));
    drop(batch);
    // A flush takes what is published, with its place in the log.
    assert_eq!(store.flush().unwrap(), Mark { position, ..marks[1] });
    assert_eq!(store.base(), store.published());
    assert!(is_there(&mut reader, "cn=b,dc=x") && !is_there(&mut reader, "cn=c,dc=x"));
    store.publish(marks[2].lsn, LogPosition { term: 3, index: 41 });
    assert!(is_there(&mut reader, "cn=c,dc=x"));
}

#[test]
fn what_is_dropped_nobody_sees_and_the_next_batch_takes_its_place() {
    let Fixture { store, _directory } = fixture();
    let mut batch = store.begin().unwrap();
    add(&mut batch, "cn=a,dc=x");
    let first = batch.seal();
    let mut batch = store.begin().unwrap();
    add(&mut batch, "cn=b,dc=x");
    store.publish(first.lsn, first.position);
    let sealed = batch.seal();
    let mut open = store.begin().unwrap();
    add(&mut open, "cn=c,dc=x");
    store.drop_tentative();
    assert_eq!(store.tentative(), first);
    // The batch that was open was made on what is gone.
    open.seal();
    assert_eq!(store.tentative(), first);
    store.publish(Lsn(9), LogPosition::default());
    assert_eq!(store.published(), first);
    let mut batch = store.begin().unwrap();
    assert!(is_in(&batch, "cn=a,dc=x") && !is_in(&batch, "cn=b,dc=x"));
    assert_eq!(batch.next_entry_id(), EntryId(3));
    add(&mut batch, "cn=d,dc=x");
    assert_eq!(batch.seal().lsn, sealed.lsn);
    store.publish(sealed.lsn, sealed.position);
    let mut reader = store.reader();
    assert!(is_there(&mut reader, "cn=d,dc=x") && !is_there(&mut reader, "cn=b,dc=x"));
}

#[test]
fn attribute_ids_and_schema_of_a_dropped_batch_are_forgotten() {
    let Fixture { store, _directory } = fixture();
    let known = store.dictionary().len();
    let definition = "attributeTypes: ( 1.2.3.4 NAME 'shoeSize' EQUALITY integerMatch \
                      SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )";
    let change = |view_schema: &Schema, name: &str| {
        let description = view_schema.describe(name).unwrap();
        let delta = AttributeDelta { description, removed: vec![], added: vec![b"42".to_vec()] };
        let (id, dn) = (EntryId(1), Dn::parse("dc=x").unwrap());
        Change::Modify(ModifyChange { id, dn, deltas: vec![delta] })
    };
    for round in 0..2 {
        let mut batch = store.begin().unwrap();
        let added = vec![definition.to_owned()];
        batch.apply(&Change::Schema(SchemaChange { added, removed: vec![] })).unwrap();
        let schema = Arc::clone(batch.view().schema());
        // Also within the batch.
        batch.savepoint();
        batch.apply(&change(&schema, "description")).unwrap();
        assert_eq!(batch.view().dictionary().len(), known + 1);
        batch.rollback();
        assert_eq!(batch.view().dictionary().len(), known);
        batch.apply(&change(&schema, "shoeSize")).unwrap();
        let mark = batch.seal();
        let batch = store.begin().unwrap();
        assert!(batch.view().schema().attribute_type("shoeSize").is_some());
        drop(batch);
        assert!(store.schema().attribute_type("shoeSize").is_none());
        assert!(store.schema_definitions().unwrap().is_empty());
        if round == 0 {
            store.drop_tentative();
            let batch = store.begin().unwrap();
            assert!(batch.view().schema().attribute_type("shoeSize").is_none());
            assert_eq!(batch.view().dictionary().len(), known);
        } else {
            store.publish(mark.lsn, mark.position);
        }
    }
    assert!(store.schema().attribute_type("shoeSize").is_some());
    assert_eq!(store.schema_definitions().unwrap(), [definition]);
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let description = view.schema().describe("shoeSize").unwrap();
    let entry = view.entry(EntryId(1)).unwrap().unwrap();
    assert_eq!(entry.values(&description).iter().collect::<Vec<_>>(), [b"42"]);
}

#[test]
fn a_rollback_undoes_changes_and_records_since_the_savepoint() {
    let Fixture { store, _directory } = fixture();
    let mut batch = store.begin().unwrap();
    add(&mut batch, "cn=a,dc=x");
    let (before, next) = (batch.last(), batch.next_entry_id());
    batch.savepoint();
    add(&mut batch, "cn=b,dc=x");
    let gone = DeleteChange { id: EntryId(2), dn: Dn::root(), attributes: vec![] };
    batch.change(&Change::Delete(gone)).unwrap();
    assert!(!is_in(&batch, "cn=a,dc=x") && is_in(&batch, "cn=b,dc=x"));
    batch.rollback();
    assert!(is_in(&batch, "cn=a,dc=x") && !is_in(&batch, "cn=b,dc=x"));
    assert_eq!((batch.last(), batch.next_entry_id()), (before, next));
    assert_eq!(batch.view().entry_count().unwrap(), 2);
    // What is released stays.
    batch.savepoint();
    add(&mut batch, "cn=c,dc=x");
    batch.release();
    batch.savepoint();
    batch.rollback();
    let mark = batch.seal();
    store.publish(mark.lsn, mark.position);
    store.flush().unwrap();
    let mut reader = store.reader();
    assert!(is_there(&mut reader, "cn=a,dc=x") && is_there(&mut reader, "cn=c,dc=x"));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn a_record_that_is_not_the_next_changes_nothing() {
    let Fixture { store, _directory } = fixture();
    let mut batch = store.begin().unwrap();
    let change = add_change(&batch, "cn=a,dc=x");
    let last = batch.last();
    for lsn in [0, last.lsn.0, last.lsn.0 + 2] {
        let mark = Mark { lsn: Lsn(lsn), ..after(last) };
        let changes = [change.clone()];
        // The number decides, whatever the hash.
        assert_eq!(batch.apply_record(99, mark, &changes).unwrap(), Applied::Void);
        batch.change(&change).unwrap();
        assert_eq!(batch.record(mark).unwrap(), Applied::Void);
        assert!(!is_in(&batch, "cn=a,dc=x"));
        assert_eq!(batch.last(), last);
    }
    let changes = [change];
    assert_eq!(batch.apply_record(last.hash, after(last), &changes).unwrap(), Applied::Done);
    assert_eq!(batch.last(), after(last));
    assert!(is_in(&batch, "cn=a,dc=x"));
}

#[test]
fn a_record_of_another_history_is_refused_and_half_of_one_never_stays() {
    let Fixture { store, _directory } = fixture();
    let mut batch = store.begin().unwrap();
    let last = batch.last();
    let changes = [add_change(&batch, "cn=a,dc=x")];
    let error = batch.apply_record(last.hash + 1, after(last), &changes).unwrap_err();
    assert!(matches!(error, StoreError::Diverged { lsn } if lsn == after(last).lsn), "{error}");
    // The second change of the record does not fit.
    let changes = [changes[0].clone(), changes[0].clone()];
    let error = batch.apply_record(last.hash, after(last), &changes).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert_eq!(batch.last(), last);
    assert!(!is_in(&batch, "cn=a,dc=x"));
    assert_eq!(batch.view().entry_count().unwrap(), 1);
    assert_eq!(batch.seal(), last);
    assert_eq!(store.tentative(), last);
}

#[test]
fn a_view_stays_where_it_is_while_layers_are_published_and_flushed() {
    let Fixture { store, _directory } = fixture();
    let (mut early, mut late) = (store.reader(), store.reader());
    let view = early.view().unwrap();
    for round in 0..4 {
        let mut batch = store.begin().unwrap();
        add(&mut batch, &format!("cn=n{round},dc=x"));
        let mark = batch.seal();
        store.publish(mark.lsn, mark.position);
        // Success was answered: every reader sees it from now on.
        assert!(is_there(&mut late, &format!("cn=n{round},dc=x")));
        if round % 2 == 1 {
            store.flush().unwrap();
        }
        assert_eq!(view.lsn(), Lsn(1));
        assert_eq!(view.resolve(&key("cn=n0,dc=x")).unwrap(), missing());
        assert_eq!(view.children(EntryId(1)).unwrap().count(), 0);
    }
    assert_eq!(early.view().unwrap().children(EntryId(1)).unwrap().count(), 4);
}

fn missing() -> Resolved {
    Resolved::Missing { nearest: Some(EntryId(1)) }
}

#[test]
fn readers_see_whole_batches_while_they_are_published_and_flushed() {
    const ROUNDS: u64 = 300;
    let Fixture { store, _directory } = fixture();
    let reading = |store: &Arc<Store>| {
        let mut reader = store.reader();
        let mut last = Lsn(0);
        while last.0 < 1 + 3 * ROUNDS {
            let view = reader.view().unwrap();
            // A batch adds three entries, and each is there with its name and in the count.
            let count = view.entry_count().unwrap();
            assert_eq!(count, view.lsn().0);
            assert_eq!(count % 3, 1);
            assert_eq!(view.child_count(EntryId(1)).unwrap(), count - 1);
            assert!(view.lsn() >= last);
            last = view.lsn();
            if let Some(newest) = (count > 1).then_some(count) {
                let entry = view.entry(EntryId(newest)).unwrap().unwrap();
                let found = view.resolve(&key(entry.dn())).unwrap();
                assert_eq!(found, Resolved::Found(EntryId(newest)));
            }
            if last.0.is_multiple_of(7) {
                reader.release();
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| reading(&store));
        }
        scope.spawn(|| {
            while store.published().lsn.0 < 1 + 3 * ROUNDS {
                store.flush().unwrap();
            }
        });
        for round in 0..ROUNDS {
            let mut batch = store.begin().unwrap();
            for which in 0..3 {
                add(&mut batch, &format!("cn=n{round}-{which},dc=x"));
            }
            let mark = batch.seal();
            store.publish(mark.lsn, mark.position);
        }
    });
    store.flush().unwrap();
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}
