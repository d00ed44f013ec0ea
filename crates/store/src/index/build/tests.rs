//! Indexes that come and go under random writes and crashes at any step.

use std::sync::Arc;
use std::time::Duration;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{Change, EntryId, IndexChange, ResolvedFilter, Schema};

use super::IndexStep;
use crate::base::lmdb::StoreOptions;
use crate::base::position::{LogPosition, Lsn};
use crate::conformance::{Chance, History, Rows, agree, contexts, indexes};
use crate::index::status::{IndexStatus, IndexStatusOptions};
use crate::index::{IndexConfig, IndexState};
use crate::overlay::flush::{FlushOptions, set_failing};
use crate::read::plan::Ask;
use crate::read::view::Memories;
use crate::store::Store;

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn create(directory: &tempfile::TempDir, config: IndexConfig) -> Arc<Store> {
    let schema = Schema::builtin();
    let store = Store::create(directory.path(), &options(), schema, config, contexts()).unwrap();
    Arc::new(store)
}

fn write(store: &Store, changes: &[Change]) {
    let mut batch = store.begin().unwrap();
    changes.iter().for_each(|change| batch.apply(change).unwrap());
    let upto = batch.seal().lsn;
    store.publish(upto, LogPosition { term: 1, index: upto.0 });
}

fn index_change(added: &[&str], removed: &[&str]) -> Change {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    Change::Index(IndexChange { added: lines(added), removed: lines(removed) })
}

fn finish(store: &Store) {
    store.flush().unwrap();
    while store.index_step(7).unwrap() != IndexStep::Idle {}
}

#[track_caller]
fn check_sound(store: &Store) {
    let report = store.check(&mut |_, _, _| ()).unwrap();
    assert_eq!(report.findings, []);
}

/// The definitions of the indexes, and how far each is.
fn states(store: &Store) -> Vec<(u16, String, IndexState)> {
    let dictionary = store.dictionary();
    let state = |(id, definition, state): (u16, &crate::IndexDefinition, IndexState)| {
        (id, definition.to_string(), state)
    };
    dictionary.definitions().map(state).collect()
}

/// How many candidates a filter has.
fn candidates(store: &Store, filter: &str) -> usize {
    let filter = ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), &Schema::builtin());
    let view = store.snapshot(Memories::default()).unwrap();
    Rows::candidates(&view, &filter).0.len()
}

/// A directory of `count` entries besides the first, each with a description of its own.
fn people(store: &Store, count: u64) {
    let schema = Schema::builtin();
    let top = crate::testing::entry("dc=example,dc=com\nobjectClass: domain\ndc: example");
    let entry = |id: u64| {
        let name = format!("cn=p{id},dc=example,dc=com");
        crate::testing::entry(&format!(
            "{name}\nobjectClass: person\ncn: p{id}\nsn: x\ndescription: number {id}"
        ))
    };
    let add = |id: u64, parent: u64, entry: schema::Entry| {
        let key = schema::DnKey::from_dn(&schema, entry.name()).unwrap();
        let key = match parent {
            0 => schema::RdnKey::of_naming_context(&key),
            _ => key.leaf().unwrap(),
        };
        let (id, parent) = (EntryId(id), EntryId(parent));
        Change::Add(schema::AddChange { id, parent, key, entry })
    };
    let mut changes = vec![add(1, 0, top)];
    changes.extend((2..count + 2).map(|id| add(id, 1, entry(id))));
    write(store, &changes);
}

#[test]
fn an_index_is_used_when_the_last_entry_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(&directory, IndexConfig::none());
    people(&store, 50);
    let filter = "(description=number 17)";
    assert_eq!(candidates(&store, filter), 51);
    assert_eq!(store.index_step(10).unwrap(), IndexStep::Idle);
    write(&store, &[index_change(&["equality description"], &[])]);
    assert_eq!(store.index_step(10).unwrap(), IndexStep::AfterFlush);
    store.flush().unwrap();
    for _ in 0..5 {
        assert_eq!(store.index_step(10).unwrap(), IndexStep::Filled(10));
        assert_eq!(candidates(&store, filter), 51);
        check_sound(&store);
    }
    assert_eq!(store.index_step(10).unwrap(), IndexStep::Filled(1));
    assert_eq!(candidates(&store, filter), 51);
    assert_eq!(store.index_step(10).unwrap(), IndexStep::Valid(1));
    assert_eq!(candidates(&store, filter), 1);
    assert_eq!(store.index_step(10).unwrap(), IndexStep::Idle);
    check_sound(&store);
    drop(store);
    let store = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
    assert_eq!(candidates(&store, filter), 1);
}

#[test]
fn indexes_that_come_together_are_filled_together() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(&directory, IndexConfig::none());
    people(&store, 9);
    write(&store, &[index_change(&["equality cn", "substring description"], &[])]);
    store.flush().unwrap();
    assert_eq!(store.index_step(100).unwrap(), IndexStep::Filled(10));
    assert_eq!(store.index_step(100).unwrap(), IndexStep::Valid(2));
    assert_eq!(candidates(&store, "(&(cn=p3)(description=*umbe*))"), 1);
    check_sound(&store);
}

#[test]
fn the_old_index_serves_while_it_is_built_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store =
        create(&directory, IndexConfig::none().and("equality description".parse().unwrap()));
    people(&store, 30);
    write(&store, &[index_change(&["equality description"], &[])]);
    store.flush().unwrap();
    let filter = "(description=number 17)";
    let mut steps = 0;
    loop {
        assert_eq!(candidates(&store, filter), 1, "after {steps} steps");
        if store.index_step(4).unwrap() == IndexStep::Idle {
            break;
        }
        steps += 1;
    }
    assert!(steps > 10);
    let valid = (1, "equality description".to_owned(), IndexState::Valid);
    assert_eq!(states(&store), [valid]);
    check_sound(&store);
}

#[test]
fn an_index_that_goes_is_not_used_and_its_id_is_free_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let store =
        create(&directory, IndexConfig::none().and("equality description".parse().unwrap()));
    people(&store, 30);
    store.flush().unwrap();
    write(&store, &[index_change(&[], &["equality description"])]);
    let filter = "(description=number 17)";
    assert_eq!(candidates(&store, filter), 31);
    assert_eq!(store.index_step(10).unwrap(), IndexStep::AfterFlush, "it is in the base still");
    store.flush().unwrap();
    assert_eq!(store.index_step(10).unwrap(), IndexStep::Removed(10));
    check_sound(&store);
    finish(&store);
    assert_eq!(states(&store), []);
    write(&store, &[index_change(&["presence sn"], &[])]);
    finish(&store);
    assert_eq!(states(&store), [(0, "presence sn".to_owned(), IndexState::Valid)]);
    check_sound(&store);
}

#[test]
fn a_change_that_does_not_fit_is_refused_whole() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(&directory, IndexConfig::none());
    let mut batch = store.begin().unwrap();
    for (added, removed) in [
        (&["equality cn", "equality nosuch"][..], &[][..]),
        (&[], &["equality cn"]),
        (&["equality description x"], &[]),
        (&["substring jpegPhoto"], &[]),
    ] {
        batch.apply(&index_change(added, removed)).unwrap_err();
    }
    batch.seal();
    assert_eq!(states(&store), []);
}

/// Writes that go on while indexes come, go and are built anew; flushes and steps that fail; and
/// crashes: what is not in the base is applied again, as from the journal.
fn check_random(seed: u64, count: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut store = create(&directory, indexes());
    let (mut history, mut chance) = (History::default(), Chance::new(seed));
    let mut next = EntryId(1);
    let mut crashes = 0;
    while history.changes().len() < count {
        match chance.below(12) {
            0..4 => {
                let changes = history.batch(next, 1 + chance.below(4), &mut chance);
                let adds = changes.iter().filter(|change| matches!(change, Change::Add(_)));
                next.0 += adds.count() as u64;
                if !changes.is_empty() {
                    write(&store, &changes);
                }
            }
            4 => drop(store.flush()),
            5 => set_failing(&store, chance.below(3) == 0),
            6..11 => drop(store.index_step(1 + chance.below(6) as u64)),
            _ => {
                set_failing(&store, false);
                drop(store);
                crashes += 1;
                store = recover(&directory, &history);
            }
        }
        if chance.below(16) == 0 {
            let view = store.snapshot(Memories::default()).unwrap();
            agree(&view, history.at(history.last()));
            check_sound(&store);
        }
    }
    assert!(crashes > 0);
    set_failing(&store, false);
    finish(&store);
    check_sound(&store);
    let view = store.snapshot(Memories::default()).unwrap();
    agree(&view, history.at(history.last()));
    let mut left: Vec<String> = Vec::new();
    for (_, definition, state) in states(&store) {
        assert_eq!(state, IndexState::Valid);
        left.push(definition);
    }
    left.sort();
    assert_eq!(left, history.index_lines().into_iter().collect::<Vec<_>>());
}

/// Opens the store again, and applies what is not in its base.
fn recover(directory: &tempfile::TempDir, history: &History) -> Arc<Store> {
    let store = Store::open(directory.path(), &options(), Schema::builtin()).unwrap();
    let base = usize::try_from(store.base().lsn.0).unwrap();
    write(&store, &history.changes()[base..]);
    assert_eq!(store.published().lsn, Lsn(history.changes().len() as u64));
    Arc::new(store)
}

#[test]
fn random_writes_steps_and_crashes() {
    for seed in 0..8 {
        check_random(seed, 120);
    }
}

#[test]
fn the_threads_do_it_by_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(&directory, IndexConfig::none());
    people(&store, 3000);
    let options = FlushOptions { index_build_percent: 100, ..FlushOptions::default() };
    let flusher = store.start_flusher(options, Box::new(|_| ())).unwrap();
    write(&store, &[index_change(&["equality description", "substring description"], &[])]);
    wait_until(|| states(&store).iter().all(|(_, _, state)| *state == IndexState::Valid));
    assert_eq!(candidates(&store, "(description=number 17)"), 1);
    write(&store, &[index_change(&[], &["substring description"])]);
    wait_until(|| states(&store).len() == 1);
    flusher.stop();
    check_sound(&store);
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = crate::overlay::flush::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(300));
        std::thread::yield_now();
    }
}

#[test]
fn the_status_counts_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let config = IndexConfig::none().and("equality sn".parse().unwrap());
    let store = create(&directory, config.and("equality cn".parse().unwrap()));
    people(&store, 100);
    store.flush().unwrap();
    let exact = store.index_status(&IndexStatusOptions::default()).unwrap();
    let told: Vec<_> = exact.iter().map(|one| (one.name.as_str(), one.keys, one.ids)).collect();
    assert_eq!(told, [("sn.equality", 1, 100), ("cn.equality", 100, 100)]);
    assert_eq!(exact[0].popular, [("x".to_owned(), 100)]);
    assert!(exact.iter().all(|one| !one.is_estimate && one.bytes > 0));
    assert_eq!((exact[0].entries_done, exact[0].entries_total), (101, 101));
    let options = IndexStatusOptions { rows_max: 10, ..IndexStatusOptions::default() };
    let estimated = store.index_status(&options).unwrap();
    assert_eq!(estimated[0], exact[0], "it has few rows");
    let cn = &estimated[1];
    assert!(cn.is_estimate);
    assert!((90..120).contains(&cn.keys) && (90..120).contains(&cn.ids), "{cn:?}");
}

#[test]
fn the_status_tells_how_far_a_build_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(&directory, IndexConfig::none());
    people(&store, 99);
    write(&store, &[index_change(&["substring cn"], &[])]);
    let status = || store.index_status(&IndexStatusOptions::default()).unwrap().remove(0);
    let done = |one: &IndexStatus| (one.entries_done, one.entries_total, one.keys);
    assert_eq!(done(&status()), (0, 0, 0), "nothing is in the base");
    store.flush().unwrap();
    assert_eq!(done(&status()), (0, 100, 0));
    store.index_step(50).unwrap();
    let half = status();
    assert_eq!((half.entries_done, half.entries_total), (50, 100));
    assert!(matches!(half.state, IndexState::Building { .. }) && half.keys > 0);
    finish(&store);
    assert_eq!(status().state, IndexState::Valid);
    assert_eq!(status().popular[0].1, 99);
    assert!(status().popular.iter().any(|(key, _)| key.starts_with("^ p")), "{:?}", status());
}

#[test]
fn one_index_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let config = IndexConfig::none().and("equality sn".parse().unwrap());
    let store = create(&directory, config.and("equality cn".parse().unwrap()));
    people(&store, 100);
    store.flush().unwrap();
    let verify = |name: &str| store.verify_index(name, &mut |_, _, _| ()).unwrap();
    assert!(verify("title.equality").is_none());
    let report = verify("cn.equality").unwrap();
    assert_eq!((report.entries, report.rows, report.findings), (101, 100, vec![]));
    // One list goes, another gets an id more.
    let environment = store.base_environment();
    let mut txn = environment.write().unwrap();
    let postings = environment.tables.postings;
    let head = crate::rows::key::RowKey::postings(1, b"p7");
    assert!(postings.delete(&mut txn, head.as_bytes()).unwrap());
    let mut row = Vec::new();
    crate::index::posting::Head::write_inline(&[3, 4], &mut row);
    let head = crate::rows::key::RowKey::postings(1, b"p3");
    postings.put(&mut txn, head.as_bytes(), &row).unwrap();
    txn.commit().unwrap();
    assert_eq!(verify("sn.equality").unwrap().findings, []);
    assert_eq!(verify("equality cn").unwrap().findings.len(), 2);
    // What is built anew is right again.
    write(&store, &[index_change(&["equality cn"], &[])]);
    finish(&store);
    assert_eq!(verify("cn.equality").unwrap().findings, []);
    check_sound(&store);
}

/// Look-ups of the index with this name that serves.
fn lookups(store: &Store, name: &str) -> u64 {
    let uses = store.index_uses();
    let dictionary = store.dictionary();
    let serving = dictionary
        .definitions()
        .find(|(_, definition, state)| definition.name() == name && *state == IndexState::Valid);
    uses.of(serving.unwrap().0).unwrap()
}

#[test]
fn each_index_that_is_asked_counts_it_and_a_new_one_begins_at_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let indexes = ["equality cn", "equality sn", "substring cn"].map(|line| line.parse().unwrap());
    let config = indexes.into_iter().fold(IndexConfig::none(), IndexConfig::and);
    let store = create(&directory, config);
    people(&store, 50);
    let (mut one, mut other) = (store.reader(), store.reader());
    let ask = |reader: &mut crate::StoreReader, filter: &str| {
        let filter = ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), &Schema::builtin());
        let ask = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
        reader.view().unwrap().plan(&ask).unwrap();
    };
    ask(&mut one, "(cn=p3)");
    ask(&mut other, "(|(cn=p4)(cn=p5))");
    ask(&mut one, "(cn=*p1*)");
    // Few names begin so: their keys are all that is read.
    ask(&mut one, "(cn=p49*)");
    let counts = |store: &Store| {
        ["cn.equality", "cn.substring", "sn.equality"].map(|name| lookups(store, name))
    };
    assert_eq!(counts(&store), [4, 1, 0]);
    drop(one);
    assert_eq!(counts(&store), [4, 1, 0], "what a reader used that is gone was used");
    let names = store.name_uses();
    assert_eq!((names.known, names.read), (0, 0), "no name was asked for");
    other.view().unwrap().dn(EntryId(2)).unwrap();
    other.view().unwrap().dn(EntryId(3)).unwrap();
    assert_eq!((store.name_uses().known, store.name_uses().read), (1, 1));
    // Another index gets the id of the first.
    write(&store, &[index_change(&[], &["equality cn"])]);
    finish(&store);
    ask(&mut other, "(sn=x)");
    write(&store, &[index_change(&["equality description"], &[])]);
    finish(&store);
    let names = states(&store).into_iter().map(|(id, name, _)| (id, name));
    assert_eq!(names.collect::<Vec<_>>()[0], (0, "equality description".to_owned()));
    assert_eq!((lookups(&store, "description.equality"), lookups(&store, "sn.equality")), (0, 1));
    ask(&mut other, "(description=number 7)");
    assert_eq!(lookups(&store, "description.equality"), 1);
}

#[test]
fn a_row_is_read_the_first_time_and_after_a_flush_and_remembered_between() {
    let directory = tempfile::tempdir().unwrap();
    let config = IndexConfig::none().and("equality cn".parse().unwrap());
    let store = create(&directory, config);
    people(&store, 50);
    store.flush().unwrap();
    let (mut reader, mut other) = (store.reader(), store.reader());
    // How often rows were known, and how often they were read, for one question.
    let ask = |reader: &mut crate::StoreReader| {
        let before = store.row_uses();
        let filter = Filter::parse("(cn=p3)").unwrap();
        let filter = ResolvedFilter::resolve(&filter, &Schema::builtin());
        let ask = Ask::new(&filter, EntryId::ROOT, Scope::Subtree);
        reader.view().unwrap().plan(&ask).unwrap();
        let after = store.row_uses();
        (after.known - before.known, after.read - before.read)
    };
    assert_eq!((ask(&mut reader), ask(&mut reader)), ((0, 1), (1, 0)));
    assert_eq!(ask(&mut other), (0, 1), "each reader remembers its own");
    reader.release();
    assert_eq!(ask(&mut reader), (1, 0), "the next view has it from the one before");
    // What lies over the base changes nothing in it.
    write(&store, &[index_change(&["equality sn"], &[])]);
    assert_eq!(ask(&mut reader), (1, 0));
    store.flush().unwrap();
    assert_eq!((ask(&mut reader), ask(&mut reader)), ((0, 1), (1, 0)));
    let name = "cn=p3,dc=example,dc=com";
    let name = schema::DnKey::from_text(&Schema::builtin(), name).unwrap();
    for known in [0, 1] {
        let before = store.row_uses();
        reader.view().unwrap().resolve(&name).unwrap();
        let after = store.row_uses();
        // The entry at the top of the naming context is kept by the view.
        assert_eq!((after.known - before.known, after.read - before.read), (known, 2 - 2 * known));
    }
    let all = store.row_uses();
    drop((reader, other));
    assert_eq!(store.row_uses(), all, "what a reader used that is gone was used");
    // A batch has none, and counts none.
    store.begin().unwrap().view().resolve(&name).unwrap();
    assert_eq!(store.row_uses(), all);
}
