//! Exports of trees whose history is made up by chance: their order, and what can be asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use history::test_support::{self, History, begin_journal};
use ldap::dn::Dn;
use schema::{AddChange, Change, DnKey, Entry, EntryId, RdnKey, Schema};
use store::{IndexConfig, Store};

use super::*;

const SUFFIX: &str = "dc=example,dc=com";

fn create() -> (tempfile::TempDir, PathBuf, Arc<Store>) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let contexts = [Dn::parse(SUFFIX).unwrap()];
    let (options, indexes) = (StoreOptions::default(), IndexConfig::default());
    let store = Store::create(&data, &options, Schema::builtin(), indexes, &contexts).unwrap();
    (dir, data, Arc::new(store))
}

/// A directory after so many changes by chance, renames among them.
fn made_by_chance(seed: u64, changes: usize) -> (tempfile::TempDir, PathBuf) {
    let (dir, data, store) = create();
    let mut history = History::new(seed);
    for _ in 0..changes {
        let mut batch = store.begin().unwrap();
        test_support::decide(&mut batch, history.next(&store.tentative()));
        let mark = batch.seal();
        store.publish(mark.lsn, mark.position);
    }
    store.flush().unwrap();
    begin_journal(&data, &store);
    (dir, data)
}

fn dump(data: &Path, options: &ExportOptions<'_>) -> String {
    let mut out = Vec::new();
    export(data, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn records(text: &str) -> Vec<&str> {
    text.split("\n\n").filter(|record| !record.is_empty()).collect()
}

/// The name of each record, in lower case.
fn names(text: &str) -> Vec<String> {
    let unfolded = text.replace("\n ", "");
    let lines = unfolded.lines().filter_map(|line| line.strip_prefix("dn: "));
    lines.map(str::to_ascii_lowercase).collect()
}

#[test]
fn superiors_come_first_and_the_number_of_threads_makes_no_difference() {
    let mut moved = 0;
    for seed in 0..5 {
        let (_dir, data) = made_by_chance(seed, 300);
        let numbered = ExportOptions { has_replication_state: true, ..ExportOptions::default() };
        let text = dump(&data, &numbered);
        for threads in [1, 2, 5] {
            let options = ExportOptions { threads, ..numbered.clone() };
            assert!(dump(&data, &options) == text, "seed {seed}, {threads} threads");
        }
        let mut seen = BTreeSet::new();
        for name in names(&text) {
            let dn = Dn::parse(&name).unwrap();
            let parent = dn.parent().map(|parent| parent.to_string());
            assert!(name == SUFFIX || seen.contains(&parent.unwrap()), "{name} is too early");
            assert!(seen.insert(name));
        }
        let ids = text.lines().filter_map(|line| line.strip_prefix("# id: "));
        let ids: Vec<u64> = ids.map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids.len(), seen.len());
        moved += ids.windows(2).filter(|pair| pair[0] > pair[1]).count();
        let plain = dump(&data, &ExportOptions::default());
        let sorted = ExportOptions { is_by_name: true, ..ExportOptions::default() };
        let sorted = dump(&data, &sorted);
        let in_some_order = |text: &str| -> BTreeSet<String> {
            records(text).into_iter().map(str::to_owned).collect()
        };
        assert_eq!(in_some_order(&plain), in_some_order(&sorted));
    }
    assert!(moved > 0, "no history moves an entry below a younger one");
}

/// Adds these entries, in this order.
fn add(store: &Store, dns: &[&str]) {
    let schema = Schema::builtin();
    let mut batch = store.begin().unwrap();
    for dn in dns {
        let name = Dn::parse(dn).unwrap();
        let class = if *dn == SUFFIX { "domain" } else { "person" };
        let pairs = [
            ("objectClass", class.as_bytes()),
            ("cn", dn.as_bytes()),
            ("cn;lang-de", b"\xc3\xbc"),
            ("sn", b"1"),
            ("createTimestamp", b"20260101000000Z"),
        ];
        let entry = Entry::from_pairs(name.clone(), pairs, &schema).unwrap();
        let dn_key = DnKey::from_dn(&schema, &name).unwrap();
        let id = batch.next_entry_id();
        let above = dn_key.parent().map(|above| batch.view().resolve(&above).unwrap());
        let (parent, key) = match above {
            Some(Resolved::Found(parent)) => (parent, dn_key.leaf().unwrap()),
            _ => (EntryId::ROOT, RdnKey::of_naming_context(&dn_key)),
        };
        batch.apply(&Change::Add(AddChange { id, parent, key, entry })).unwrap();
    }
    batch.commit().unwrap();
}

fn people() -> (tempfile::TempDir, PathBuf) {
    let (dir, data, store) = create();
    let dns = [
        SUFFIX,
        "ou=b,dc=example,dc=com",
        "ou=a,dc=example,dc=com",
        "cn=2,ou=b,dc=example,dc=com",
        "cn=1,ou=b,dc=example,dc=com",
        "cn=x,cn=2,ou=b,dc=example,dc=com",
        "cn=3,ou=a,dc=example,dc=com",
    ];
    add(&store, &dns);
    drop(store);
    (dir, data)
}

#[test]
fn base_scope_and_filter_say_which_entries() {
    #[track_caller]
    fn check(data: &Path, options: &ExportOptions<'_>, want: &[&str]) {
        let want: Vec<String> = want
            .iter()
            .map(|name| match *name {
                "" => SUFFIX.to_owned(),
                name => format!("{name},{SUFFIX}"),
            })
            .collect();
        assert_eq!(names(&dump(data, options)), want);
        let options = ExportOptions { is_by_name: true, ..options.clone() };
        let (got, want) = (names(&dump(data, &options)), BTreeSet::from_iter(want));
        assert_eq!(BTreeSet::from_iter(got), want);
    }
    let (_dir, data) = people();
    let all = ExportOptions::default();
    let of = |scope| ExportOptions { base: Some("OU=B, dc=example,dc=com"), scope, ..all.clone() };
    let every = ["", "ou=b", "ou=a", "cn=2,ou=b", "cn=1,ou=b", "cn=x,cn=2,ou=b", "cn=3,ou=a"];
    check(&data, &all, &every);
    let below = ["cn=2,ou=b", "cn=1,ou=b", "cn=x,cn=2,ou=b"];
    check(&data, &of(Scope::Subtree), &["ou=b", below[0], below[1], below[2]]);
    check(&data, &of(Scope::Subordinate), &below);
    check(&data, &of(Scope::One), &below[..2]);
    check(&data, &of(Scope::Base), &["ou=b"]);
    let filter = Some("(cn=*1*)");
    check(&data, &ExportOptions { filter, ..all.clone() }, &[every[4]]);
    check(&data, &ExportOptions { filter, ..of(Scope::Subtree) }, &[every[4]]);
    check(&data, &ExportOptions { filter, ..of(Scope::Base) }, &[]);
    let filter = Some("(numSubordinates=1)");
    check(&data, &ExportOptions { filter, ..all.clone() }, &["ou=a", "cn=2,ou=b"]);
    let filter = Some("(sn=1)");
    check(&data, &ExportOptions { filter, ..all.clone() }, &every);
    check(&data, &ExportOptions { filter, ..of(Scope::One) }, &below[..2]);
}

#[test]
fn attributes_are_chosen_as_in_a_search() {
    #[track_caller]
    fn check(data: &Path, attributes: &[&str], without: bool, want: &str) {
        let options = ExportOptions {
            base: Some("cn=1,ou=b,dc=example,dc=com"),
            attributes,
            is_without_operational: without,
            ..ExportOptions::default()
        };
        let text = dump(data, &options);
        let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>().join(" "), want, "{attributes:?}");
    }
    let (_dir, data) = people();
    check(&data, &[], false, "dn objectClass cn cn;lang-de sn createTimestamp");
    check(&data, &[], true, "dn objectClass cn cn;lang-de sn");
    check(&data, &["*"], false, "dn objectClass cn cn;lang-de sn");
    check(&data, &["+"], false, "dn createTimestamp");
    check(&data, &["*", "+"], true, "dn objectClass cn cn;lang-de sn");
    check(&data, &["cn", "createTimestamp"], false, "dn cn cn;lang-de createTimestamp");
    check(&data, &["cn;lang-de"], false, "dn cn;lang-de");
    check(&data, &["1.1"], false, "dn");
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    #[track_caller]
    fn check(data: &Path, options: &ExportOptions<'_>, want: &str) {
        let error = export(data, options, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), want);
    }
    let (_dir, data) = people();
    let all = ExportOptions::default();
    let base = Some("ou=c,dc=example,dc=com");
    let want = "there is no entry 'ou=c,dc=example,dc=com'";
    check(&data, &ExportOptions { base, ..all.clone() }, want);
    let scope = Scope::One;
    check(&data, &ExportOptions { scope, ..all.clone() }, "this scope needs a base");
    let error = export(&data, &ExportOptions { base: Some("x"), ..all.clone() }, &mut Vec::new());
    assert!(error.unwrap_err().to_string().starts_with("'x' is not a base: "));
    let error = export(&data, &ExportOptions { filter: Some("(x"), ..all }, &mut Vec::new());
    assert!(error.unwrap_err().to_string().starts_with("'(x' is not a search filter: "));
}

#[test]
fn lines_are_folded_where_it_is_asked() {
    let (_dir, data) = people();
    let options = ExportOptions { fold_columns: 30, ..ExportOptions::default() };
    let text = dump(&data, &options);
    assert!(text.lines().all(|line| line.len() <= 30));
    assert!(text.contains("dn: cn=x,cn=2,ou=b,dc=example,\n dc=com\n"));
    let options = ExportOptions { fold_columns: 0, ..ExportOptions::default() };
    assert_eq!(text.replace("\n ", ""), dump(&data, &options));
}

#[test]
fn a_replica_learns_the_place_in_the_history() {
    let (_dir, data) = people();
    let options = ExportOptions { has_replication_state: true, ..ExportOptions::default() };
    let text = dump(&data, &options);
    let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
    let id: String = store.id().iter().map(|octet| format!("{octet:02x}")).collect();
    let lsn = store.base().lsn.0;
    drop(store);
    let (head, rest) = text.split_once("\n\n").unwrap();
    assert_eq!(
        head,
        format!(
            "# roster replication state 1\n# store: {id}\n# number: {lsn}\n\
             # hash: 0000000000000000\n# time: 0\n# term: 0\n# index: {lsn}\n# next: 8"
        )
    );
    assert!(rest.starts_with("# id: 1\ndn: dc=example,dc=com\nobjectClass: domain\n"), "{rest}");
    assert_eq!(rest.matches("# id: ").count(), 7);
    let plain = dump(&data, &ExportOptions::default());
    let without = rest.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(without.collect::<Vec<_>>(), plain.lines().collect::<Vec<_>>());
}

#[test]
fn an_export_tells_how_far_it_is() {
    let (_dir, data) = people();
    let mut told = Vec::new();
    let options = ExportOptions { compression: Compression::Zstd, ..ExportOptions::default() };
    let mut out = Vec::new();
    let report = export_watched(&data, &options, &mut out, &mut |report| told.push(*report));
    let report = report.unwrap();
    assert_eq!(told.first().map(|first| (first.entries, first.expected)), Some((0, 7)));
    assert_eq!(told.last(), Some(&report));
    let text = zstd::stream::decode_all(&*out).unwrap();
    let want = (7, text.len() as u64, out.len() as u64);
    assert_eq!((report.entries, report.text_bytes, report.written_bytes), want);
}
