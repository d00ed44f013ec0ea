//! Opening, schema, space and readers: what an operator and the layers above count on.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{
    AddChange, AttributeDelta, Change, Definition, DeleteChange, DnKey, Entry, EntryId, EntryRead,
    IndexChange, ModifyChange, RdnKey, ResolvedFilter, Schema, SchemaChange, SchemaFile,
    SettingChange,
};
use store::{
    Ask, Batch, IndexConfig, IndexKind, Lsn, Resolved, Store, StoreError, StoreOptions, StoreReader,
};

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn create(directory: &Path) -> Store {
    create_with(directory, IndexConfig::default(), &["dc=x"]).unwrap()
}

fn create_with(
    directory: &Path,
    indexes: IndexConfig,
    contexts: &[&str],
) -> Result<Store, StoreError> {
    let contexts: Vec<Dn> = contexts.iter().map(|text| Dn::parse(text).unwrap()).collect();
    Store::create(directory, &options(), Schema::builtin(), indexes, &contexts)
}

fn open(directory: &Path) -> Result<Store, StoreError> {
    Store::open(directory, &options(), Schema::builtin())
}

#[track_caller]
fn add(batch: &mut Batch<'_>, dn: &str, pairs: &[(&str, &str)]) -> EntryId {
    try_add(batch, dn, pairs).unwrap()
}

fn try_add(batch: &mut Batch<'_>, dn: &str, pairs: &[(&str, &str)]) -> Result<EntryId, StoreError> {
    let schema = Arc::clone(batch.view().schema());
    let dn = Dn::parse(dn).unwrap();
    let dn_key = DnKey::from_dn(&schema, &dn).unwrap();
    let parent = batch.view().resolve(&dn_key.parent().unwrap()).unwrap();
    let (parent, key) = match parent {
        Resolved::Found(parent) => (parent, dn_key.leaf().unwrap()),
        Resolved::Missing { .. } | Resolved::NoContext => {
            (EntryId::ROOT, RdnKey::of_naming_context(&dn_key))
        }
    };
    let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
    let pairs = [("objectClass", &b"top"[..])].into_iter().chain(pairs);
    let entry = Entry::from_pairs(dn, pairs, &schema).unwrap();
    let id = batch.next_entry_id();
    batch.apply(&Change::Add(AddChange { id, parent, key, entry }))?;
    Ok(id)
}

fn resolve(reader: &mut StoreReader, dn: &str) -> Resolved {
    let key = DnKey::from_text(&Schema::builtin(), dn).unwrap();
    reader.view().unwrap().resolve(&key).unwrap()
}

fn found(reader: &mut StoreReader, filter: &str) -> Vec<u64> {
    let view = reader.view().unwrap();
    let filter = ResolvedFilter::resolve(&Filter::parse(filter).unwrap(), view.schema());
    let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
    assert!(plan.indexed);
    plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect()
}

#[test]
fn a_data_directory_is_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path());
    assert!(matches!(open(directory.path()), Err(StoreError::InUse { pid: Some(_), .. })));
    drop(store);
    drop(open(directory.path()).unwrap());
    let again = create_with(directory.path(), IndexConfig::none(), &[]);
    assert!(matches!(again, Err(StoreError::NotEmpty { .. })));
}

#[test]
fn settings_that_do_not_fit_are_refused_and_leave_nothing() {
    #[track_caller]
    fn check(indexes: IndexConfig, contexts: &[&str], want: &str) {
        let directory = tempfile::tempdir().unwrap();
        let error = create_with(directory.path(), indexes, contexts).map(drop).unwrap_err();
        assert_eq!(error.to_string(), want);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
    let none = IndexConfig::none;
    check(
        none(),
        &["dc=x", "ou=a,dc=x"],
        "naming context 'ou=a,dc=x' lies within naming context 'dc=x'",
    );
    check(
        none(),
        &["ou=a,dc=x", "DC=X"],
        "naming context 'ou=a,dc=x' lies within naming context 'DC=X'",
    );
    check(none(), &[""], "naming context '': it needs a name");
    check(
        none().with("nosuch", &[IndexKind::Equality]),
        &[],
        "index 'equality nosuch': there is no attribute type 'nosuch'",
    );
    check(
        none().with("jpegPhoto", &[IndexKind::Substring]),
        &[],
        "index 'substring jpegPhoto': the attribute type has no substring rule",
    );
}

#[test]
fn a_full_map_is_full_and_nothing_of_the_batch_stays() {
    let directory = tempfile::tempdir().unwrap();
    drop(create(directory.path()));
    let small = StoreOptions { map_size_bytes: 1 << 20, ..StoreOptions::default() };
    let store = Arc::new(Store::open(directory.path(), &small, Schema::builtin()).unwrap());
    let mut batch = store.begin().unwrap();
    add(&mut batch, "dc=x", &[]);
    batch.commit().unwrap();
    let large = "d".repeat(5000);
    let mut batch = store.begin().unwrap();
    for number in 0..500 {
        add(&mut batch, &format!("cn=n{number},dc=x"), &[("description", &large)]);
    }
    let error = batch.commit().unwrap_err();
    assert!(matches!(error, StoreError::Full), "{error:?}");
    let mut reader = store.reader();
    assert_eq!(reader.view().unwrap().lsn(), Lsn(1));
    assert_eq!(reader.view().unwrap().entry_count().unwrap(), 1);
    reader.release();
    // With more room it goes on where it was.
    drop((reader, store));
    let store = open(directory.path()).unwrap();
    let mut batch = store.begin().unwrap();
    for number in 0..500 {
        add(&mut batch, &format!("cn=n{number},dc=x"), &[("description", &large)]);
    }
    assert_eq!(batch.commit().unwrap(), Lsn(501));
    assert!(store.statistics().unwrap().file_bytes > 1 << 20);
}

#[test]
fn a_change_that_fails_leaves_nothing_and_the_batch_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let mut batch = store.begin().unwrap();
    let top = add(&mut batch, "dc=x", &[]);
    let below = add(&mut batch, "ou=a,dc=x", &[]);
    // It fails after the name and the count of subordinates have been looked at.
    for id in [EntryId(99), top] {
        let gone = Change::Delete(DeleteChange { id, dn: Dn::root(), attributes: Vec::new() });
        assert!(matches!(batch.apply(&gone), Err(StoreError::Corrupt(_))));
    }
    // The name is taken: that shows when record and attribute ids are made already.
    let again = try_add(&mut batch, "ou=a,dc=x", &[("description", "new attribute")]);
    assert!(matches!(again, Err(StoreError::Corrupt(_))));
    assert_eq!(batch.view().child_count(top).unwrap(), 1);
    assert_eq!(batch.view().dictionary().len(), 1);
    assert!(batch.view().entry(EntryId(below.0 + 1)).unwrap().is_none());
    let other = add(&mut batch, "cn=b,dc=x", &[]);
    assert_eq!(batch.commit().unwrap(), Lsn(3));
    assert_eq!(resolve(&mut store.reader(), "cn=b,dc=x"), Resolved::Found(other));
    assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings, []);
}

#[test]
fn changes_that_do_not_fit_name_table_and_key() {
    #[track_caller]
    fn check(change: impl FnOnce(EntryId) -> Change, want: &str) {
        let directory = tempfile::tempdir().unwrap();
        let store = create(directory.path());
        let mut batch = store.begin().unwrap();
        add(&mut batch, "dc=x", &[]);
        let id = add(&mut batch, "cn=a,dc=x", &[("cn", "a")]);
        let error = batch.apply(&change(id)).unwrap_err();
        assert_eq!(error.to_string(), format!("the data are damaged: {want}"));
    }
    let schema = Schema::builtin();
    let cn = schema.describe("cn").unwrap();
    let dn = Dn::parse("cn=a,dc=x").unwrap();
    let entry = Entry::new(dn.clone());
    let key = RdnKey::from_rdn(&schema, &dn.rdns()[0]).unwrap();
    let add_as = |id, parent| {
        let (key, entry) = (key.clone(), entry.clone());
        Change::Add(AddChange { id, parent, key, entry })
    };
    check(|id| add_as(id, EntryId(1)), "table 'entries', key 2: is there before it is added");
    check(
        |_| add_as(EntryId(9), EntryId(1)),
        "table 'names', key 0000000000000001636e3d61: is there before it is added",
    );
    check(
        |_| add_as(EntryId(9), EntryId(8)),
        "table 'entries', key 8: is missing, though its superior",
    );
    check(
        |_| Change::Delete(DeleteChange { id: EntryId(1), dn: Dn::root(), attributes: Vec::new() }),
        "table 'children', key 1: is not zero in a deletion",
    );
    check(
        |id| {
            let removed = vec![b"other".to_vec()];
            let delta = AttributeDelta { description: cn, removed, added: Vec::new() };
            Change::Modify(ModifyChange { id, dn, deltas: vec![delta] })
        },
        "table 'entries', key 2: lacks a value of cn that a change removes",
    );
}

#[test]
fn a_reader_keeps_its_view_until_something_is_committed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let mut reader = store.reader();
    assert_eq!(resolve(&mut reader, "dc=x"), Resolved::Missing { nearest: None });
    assert_eq!(resolve(&mut reader, "dc=y"), Resolved::NoContext);
    let mut batch = store.begin().unwrap();
    let top = add(&mut batch, "dc=x", &[]);
    let below = add(&mut batch, "ou=a,dc=x", &[]);
    assert_eq!(resolve(&mut reader, "dc=x"), Resolved::Missing { nearest: None });
    assert_eq!(batch.commit().unwrap(), Lsn(2));
    assert_eq!(resolve(&mut reader, "OU=A, dc=X"), Resolved::Found(below));
    let missing = Resolved::Missing { nearest: Some(top) };
    assert_eq!(resolve(&mut reader, "cn=c,ou=b,dc=x"), missing);
    // A batch without changes commits nothing, and a dropped one leaves nothing.
    assert_eq!(store.begin().unwrap().commit().unwrap(), Lsn(2));
    let mut batch = store.begin().unwrap();
    let dropped = add(&mut batch, "ou=b,dc=x", &[]);
    drop(batch);
    assert_eq!(resolve(&mut reader, "cn=c,ou=b,dc=x"), missing);
    assert_eq!(store.begin().unwrap().next_entry_id(), dropped);
}

#[test]
fn readers_forget_names_when_an_entry_that_had_subordinates_is_added_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let mut reader = store.reader();
    let mut batch = store.begin().unwrap();
    add(&mut batch, "dc=x", &[]);
    let old = add(&mut batch, "ou=a,dc=x", &[]);
    let child = add(&mut batch, "cn=c,ou=a,dc=x", &[]);
    batch.commit().unwrap();
    assert_eq!(resolve(&mut reader, "cn=c,ou=a,dc=x"), Resolved::Found(child));
    let mut batch = store.begin().unwrap();
    for id in [child, old] {
        batch
            .apply(&Change::Delete(DeleteChange { id, dn: Dn::root(), attributes: Vec::new() }))
            .unwrap();
    }
    let new = add(&mut batch, "ou=a,dc=x", &[]);
    let child = add(&mut batch, "cn=d,ou=a,dc=x", &[]);
    batch.commit().unwrap();
    assert_eq!(resolve(&mut reader, "cn=d,ou=a,dc=x"), Resolved::Found(child));
    let missing = Resolved::Missing { nearest: Some(new) };
    assert_eq!(resolve(&mut reader, "cn=c,ou=a,dc=x"), missing);
}

#[test]
fn long_lists_shrink_and_grow_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    let indexes = IndexConfig::none().with("l", &[IndexKind::Equality, IndexKind::Substring]);
    let store = Arc::new(create_with(directory.path(), indexes, &["dc=x"]).unwrap());
    let mut reader = store.reader();
    let mut batch = store.begin().unwrap();
    add(&mut batch, "dc=x", &[]);
    let ids: Vec<EntryId> = (0..300)
        .map(|number| add(&mut batch, &format!("cn=n{number},dc=x"), &[("l", "Town")]))
        .collect();
    batch.commit().unwrap();
    let all: Vec<u64> = ids.iter().map(|id| id.0).collect();
    assert_eq!(found(&mut reader, "(l=town)"), all);
    // Down by one entry a batch, through 64 and 32, with the batch's own view beside it.
    let mut left = all;
    while left.len() > 20 {
        let mut batch = store.begin().unwrap();
        for id in left.drain(..left.len().min(30)) {
            let delete = DeleteChange { id: EntryId(id), dn: Dn::root(), attributes: Vec::new() };
            batch.apply(&Change::Delete(delete)).unwrap();
        }
        let schema = Schema::builtin();
        for text in ["(l=town)", "(l=*ow*)", "(l=*own*)"] {
            let filter = ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &schema);
            let view = batch.view();
            let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
            let ids: Vec<u64> =
                plan.candidates(&view, EntryId::ROOT).map(|id| id.unwrap().0).collect();
            assert_eq!(ids, left, "{text}");
        }
        batch.commit().unwrap();
        for text in ["(l=town)", "(l=*ow*)", "(l=*own*)"] {
            assert_eq!(found(&mut reader, text), left, "{text}");
        }
        assert_eq!(store.check(&mut |_, _, _| ()).unwrap().findings.len(), 0);
    }
}

const DEFINITION: &str = "attributeTypes: ( 1.2.3.4 NAME 'shoeSize' EQUALITY integerMatch \
                          ORDERING integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )";

#[test]
fn definitions_added_online_are_in_force_at_once_and_after_opening() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let mut batch = store.begin().unwrap();
    add(&mut batch, "dc=x", &[]);
    let added = vec![DEFINITION.to_owned()];
    let change = SchemaChange { added: added.clone(), removed: Vec::new() };
    batch.apply(&Change::Schema(change)).unwrap();
    let id = add(&mut batch, "cn=a,dc=x", &[("shoeSize", "42")]);
    batch.commit().unwrap();
    assert!(store.schema().attribute_type("shoesize").is_some());
    assert_eq!(store.schema_definitions().unwrap(), added);
    drop(store);
    let store = Arc::new(open(directory.path()).unwrap());
    let mut reader = store.reader();
    let view = reader.view().unwrap();
    let entry = view.entry(id).unwrap().unwrap();
    let shoe_size = view.schema().describe("shoeSize").unwrap();
    assert_eq!(entry.values(&shoe_size).iter().collect::<Vec<_>>(), [b"42"]);
    let mut batch = store.begin().unwrap();
    let change = SchemaChange { added: Vec::new(), removed: added };
    batch.apply(&Change::Schema(change)).unwrap();
    batch.commit().unwrap();
    assert!(store.schema().attribute_type("shoeSize").is_none());
    assert!(store.schema_definitions().unwrap().is_empty());
    // What was stored stays readable.
    let stored = reader.view().unwrap().entry(id).unwrap().unwrap();
    let entry = stored.to_entry().unwrap();
    assert_eq!(entry.attributes()[1].description.text(), "shoeSize");
    assert_eq!(stored.dn(), "cn=a,dc=x");
}

#[test]
fn settings_are_in_force_at_once_and_after_opening() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(create(directory.path()));
    let values = |store: &Arc<Store>| store.reader().view().unwrap().setting("a-rule").unwrap();
    let set = |store: &Arc<Store>, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        let mut batch = store.begin().unwrap();
        let change = SettingChange { name: "a-rule".to_owned(), values };
        batch.apply(&Change::Setting(change)).unwrap();
        batch.commit().unwrap();
    };
    assert!(values(&store).is_empty());
    set(&store, &["first\nline", "", "grün"]);
    assert_eq!(values(&store), ["first\nline", "", "grün"]);
    drop(store);
    let store = Arc::new(open(directory.path()).unwrap());
    assert_eq!(values(&store), ["first\nline", "", "grün"]);
    // What else changes leaves them as they are; so does what is rolled back.
    let mut batch = store.begin().unwrap();
    batch.savepoint();
    let change = SettingChange { name: "a-rule".to_owned(), values: vec!["other".to_owned()] };
    batch.apply(&Change::Setting(change)).unwrap();
    assert_eq!(batch.view().setting("a-rule").unwrap(), ["other"]);
    batch.rollback();
    let added = vec!["presence description".to_owned()];
    let index = IndexChange { added: added.clone(), removed: Vec::new() };
    batch.apply(&Change::Index(index)).unwrap();
    let change = SchemaChange { added: vec![DEFINITION.to_owned()], removed: Vec::new() };
    batch.apply(&Change::Schema(change)).unwrap();
    let index = IndexChange { added: Vec::new(), removed: added };
    batch.apply(&Change::Index(index)).unwrap();
    assert_eq!(batch.view().setting("a-rule").unwrap(), ["first\nline", "", "grün"]);
    batch.commit().unwrap();
    assert_eq!(values(&store), ["first\nline", "", "grün"]);
    set(&store, &[]);
    assert!(values(&store).is_empty());
    let mut batch = store.begin().unwrap();
    let change = SettingChange { name: "A rule".to_owned(), values: Vec::new() };
    assert!(batch.apply(&Change::Setting(change)).is_err());
}

#[test]
fn an_index_whose_rule_a_schema_file_changes_keeps_the_store_closed() {
    let with_rule = |rule: &str| {
        let syntax = "1.3.6.1.4.1.1466.115.121.1.15";
        let text = format!(
            "dn: cn=schema\nobjectClass: subschema\n\
             attributeTypes: ( 1.2.3.5 NAME 'badge' EQUALITY {rule} SYNTAX {syntax} )\n"
        );
        let file = SchemaFile { name: "90-badge.ldif".to_owned(), text };
        Arc::new(Schema::builtin().with_files(&[file]).unwrap())
    };
    let directory = tempfile::tempdir().unwrap();
    let indexes = IndexConfig::none().with("badge", &[IndexKind::Equality]);
    let ignore = with_rule("caseIgnoreMatch");
    let store =
        Store::create(directory.path(), &options(), Arc::clone(&ignore), indexes.clone(), &[]);
    assert_eq!(store.unwrap().indexes(), indexes);
    let exact = Store::open(directory.path(), &options(), with_rule("caseExactMatch"));
    let error = exact.map(drop).unwrap_err().to_string();
    assert!(error.starts_with("index 'equality badge': a schema file gives"), "{error}");
    assert!(open(directory.path()).is_err());
    assert!(Store::open(directory.path(), &options(), ignore).is_ok());
}

#[test]
fn definitions_are_kept_by_kind_and_oid() {
    let again = DEFINITION.replace("'shoeSize'", "( 'shoeSize' 'footSize' )");
    assert!(Definition::parse_line(&again).is_ok());
    let directory = tempfile::tempdir().unwrap();
    let store = create(directory.path());
    for line in [DEFINITION, &again] {
        let mut batch = store.begin().unwrap();
        let change = SchemaChange { added: vec![line.to_owned()], removed: Vec::new() };
        batch.apply(&Change::Schema(change)).unwrap();
        batch.commit().unwrap();
    }
    assert_eq!(store.schema_definitions().unwrap(), [again]);
    assert!(store.schema().attribute_type("footSize").is_some());
}
