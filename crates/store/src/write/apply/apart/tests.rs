//! Values in rows of their own against plain sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::message::{Scope, ValuesBuf};
use schema::{
    AddChange, Assertion, AttributeDelta, AttributeDescription, Change, DeleteChange, DnKey,
    EntryId, EntryRead as _, ModifyChange, RdnKey, RenameChange, ResolvedFilter, Schema, Truth,
};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::bulk::{Held, LoadOptions};
use crate::conformance::Chance;
use crate::index::IndexDefinition;
use crate::read::plan::Ask;
use crate::store::Store;
use crate::testing::{entry, indexes};

const CONTEXT: &str = "dc=example,dc=com";
/// Two that share an index, and one that has none and compares letters alike.
const ATTRIBUTES: [&str; 3] = ["memberUid", "memberUid;x-other", "businessCategory"];
/// Values have numbers.
const NUMBERS: usize = 60;

/// What each attribute of a group has: number and spelling.
type Values = BTreeMap<&'static str, BTreeMap<usize, String>>;

struct World {
    store: Arc<Store>,
    directory: tempfile::TempDir,
    groups: BTreeMap<u64, (String, Values)>,
    names: usize,
}

fn describe(attribute: &str) -> Arc<AttributeDescription> {
    Schema::builtin().describe(attribute).unwrap()
}

fn key(name: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), name).unwrap()
}

/// A value in one of its spellings; every seventh is too long for a key.
fn spelled(attribute: &str, number: usize, chance: &mut Chance) -> String {
    let long = if number.is_multiple_of(7) { "l".repeat(300) } else { String::new() };
    let text = format!("value {number} {long}").trim_end().to_owned();
    match attribute == "businessCategory" && chance.below(2) == 0 {
        true => text.to_uppercase(),
        false => text,
    }
}

fn open(directory: &std::path::Path) -> Arc<Store> {
    Arc::new(Store::open(directory, &StoreOptions::default(), Schema::builtin()).unwrap())
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = indexes().and(IndexDefinition::parse("presence memberUid").unwrap());
        let (options, contexts) = (StoreOptions::default(), [Dn::parse(CONTEXT).unwrap()]);
        let store = Store::create(directory.path(), &options, Schema::builtin(), config, &contexts);
        let (store, groups) = (Arc::new(store.unwrap()), BTreeMap::new());
        let mut world = Self { store, directory, groups, names: 0 };
        world.add(&format!("{CONTEXT}\nobjectClass: domain\ndc: example"));
        world
    }

    fn apply(&self, change: &Change) {
        let mut batch = self.store.begin_on_published().unwrap();
        batch.apply(change).unwrap();
        batch.publish();
    }

    fn add(&mut self, text: &str) -> u64 {
        let id = self.store.begin_on_published().unwrap().next_entry_id();
        let entry = entry(text);
        let own = key(&entry.name().to_string());
        let (parent, key) = match id.0 {
            1 => (EntryId::ROOT, RdnKey::of_naming_context(&own)),
            _ => (EntryId(1), own.leaf().unwrap()),
        };
        self.apply(&Change::Add(AddChange { id, parent, key, entry }));
        id.0
    }

    fn next_name(&mut self) -> String {
        self.names += 1;
        format!("cn=Group {},{CONTEXT}", self.names)
    }

    fn add_group(&mut self, values: Values) -> u64 {
        let name = self.next_name();
        let text = text_of(&name, &values);
        let id = self.add(&text);
        self.groups.insert(id, (name, values));
        id
    }

    /// Changes values, as an operation decides that.
    fn modify(&mut self, id: u64, chance: &mut Chance) {
        let mut deltas = Vec::new();
        let (name, values) = self.groups.get_mut(&id).unwrap();
        for attribute in ATTRIBUTES {
            if chance.below(3) == 0 {
                continue;
            }
            let values = values.entry(attribute).or_default();
            let (mut removed, mut added) = (Vec::new(), Vec::new());
            let takes_all = chance.below(12) == 0;
            let several = chance.below(20);
            let goes: BTreeSet<usize> = match takes_all {
                true => values.keys().copied().collect(),
                false => (0..several).map(|_| chance.below(NUMBERS)).collect(),
            };
            for number in goes {
                removed.extend(values.remove(&number).map(String::into_bytes));
            }
            for _ in 0..chance.below(25) {
                let number = chance.below(NUMBERS);
                let spelling = spelled(attribute, number, chance);
                if let std::collections::btree_map::Entry::Vacant(place) = values.entry(number) {
                    added.push(spelling.clone().into_bytes());
                    place.insert(spelling);
                }
            }
            // What comes as it went is no change.
            let both: Vec<_> = removed.iter().filter(|one| added.contains(one)).cloned().collect();
            removed.retain(|one| !both.contains(one));
            added.retain(|one| !both.contains(one));
            if !removed.is_empty() || !added.is_empty() {
                deltas.push(AttributeDelta { description: describe(attribute), removed, added });
            }
        }
        let dn = Dn::parse(name).unwrap();
        self.apply(&Change::Modify(ModifyChange { id: EntryId(id), dn, deltas }));
    }

    fn rename(&mut self, id: u64) {
        let new = self.next_name();
        let (old, _) = &self.groups[&id];
        let value = |name: &str| {
            let value = name.strip_prefix("cn=").unwrap().split_once(',').unwrap().0;
            vec![value.as_bytes().to_vec()]
        };
        let (removed, added) = (value(old), value(&new));
        let new_dn = Dn::parse(&new).unwrap();
        self.apply(&Change::Rename(RenameChange {
            id: EntryId(id),
            old_dn: Dn::parse(old).unwrap(),
            new_parent: EntryId(1),
            new_rdn: new_dn.rdns()[0].clone(),
            new_dn,
            key: key(&new).leaf().unwrap(),
            deltas: vec![AttributeDelta { description: describe("cn"), removed, added }],
        }));
        self.groups.get_mut(&id).unwrap().0 = new;
    }

    fn delete(&mut self, id: u64) {
        let (name, _) = self.groups.remove(&id).unwrap();
        let (dn, attributes) = (Dn::parse(&name).unwrap(), Vec::new());
        self.apply(&Change::Delete(DeleteChange { id: EntryId(id), dn, attributes }));
    }

    /// How many values are rows of their own.
    fn apart(&self) -> u64 {
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        let mut count = 0;
        for id in self.groups.keys() {
            let stored = view.entry(EntryId(*id)).unwrap().unwrap();
            count += stored.apart_values().unwrap().iter().map(|(_, one)| one.count()).sum::<u64>();
        }
        count
    }

    /// Asks everything that can be asked.
    fn look(&self) {
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        for (id, (_, want)) in &self.groups {
            let stored = view.entry(EntryId(*id)).unwrap().unwrap();
            for attribute in ATTRIBUTES {
                let want: BTreeSet<&[u8]> =
                    want.get(attribute).into_iter().flatten().map(|(_, s)| s.as_bytes()).collect();
                let description = describe(attribute);
                let all: Vec<&[u8]> = stored.values(&description).iter().collect();
                assert_eq!(all.len(), want.len());
                assert_eq!(all.iter().copied().collect::<BTreeSet<_>>(), want);
                // In parts, as a range asks for them.
                let mut parts = Vec::new();
                for first in (0..).step_by(7) {
                    let mut part = ValuesBuf::new();
                    let has_more = stored.values_from(&description, first, 7, &mut part);
                    parts.extend(part.as_ref().iter().map(<[u8]>::to_vec));
                    if !has_more {
                        break;
                    }
                }
                assert_eq!(parts, all);
            }
            for (description, values) in stored.apart_values().unwrap() {
                let all = stored.values(description);
                assert_eq!(values.count(), all.iter().count() as u64);
                assert_eq!(values.octets(), all.as_ber().len() as u64);
                let near = values.near(b"value 3", 5).unwrap();
                assert_eq!(near.len(), values.count().min(5) as usize);
                assert!(near.iter().all(|one| all.iter().any(|other| other == *one)));
            }
            stored.complete().unwrap();
        }
        (0..NUMBERS).for_each(|number| self.look_for(number));
    }

    fn look_for(&self, number: usize) {
        let schema = Schema::builtin();
        for attribute in ATTRIBUTES {
            let asked = spelled(attribute, number, &mut Chance::new(number as u64));
            let assertion = Assertion::equality(&schema, describe(attribute), asked.as_bytes());
            let filter = ResolvedFilter::Equality(assertion.unwrap());
            let has = |values: &Values| {
                let covered = ATTRIBUTES.into_iter().filter(|one| one.starts_with(attribute));
                let mut covered = covered.filter_map(|one| values.get(one));
                covered.any(|values| values.contains_key(&number))
            };
            let having = self.groups.iter().filter(|(_, (_, values))| has(values));
            let want: Vec<u64> = having.map(|(id, _)| *id).collect();
            let mut reader = self.store.reader();
            let view = reader.view().unwrap();
            if attribute == "memberUid" && !number.is_multiple_of(7) {
                let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
                assert!(plan.indexed);
                let found = plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0);
                assert_eq!(found.collect::<Vec<_>>(), want, "{number}");
            }
            for id in self.groups.keys() {
                let stored = view.entry(EntryId(*id)).unwrap().unwrap();
                let truth = filter.matches(&schema, &stored) == Truth::True;
                assert_eq!(truth, want.contains(id), "{attribute} {number}");
            }
        }
    }

    fn check(&self) {
        self.store.flush().unwrap();
        let report = self.store.check(&mut |_, _, _| {}).unwrap();
        assert_eq!(report.findings, []);
    }

    fn step(&mut self, chance: &mut Chance) {
        let groups: Vec<u64> = self.groups.keys().copied().collect();
        let one = groups.get(chance.below(groups.len().max(1))).copied();
        match (chance.below(20), one) {
            (0, _) if groups.len() < 4 => {
                let mut values = Values::new();
                for attribute in ATTRIBUTES {
                    let numbers: BTreeSet<usize> =
                        (0..chance.below(40)).map(|_| chance.below(NUMBERS)).collect();
                    let all = numbers.into_iter().map(|one| (one, spelled(attribute, one, chance)));
                    values.insert(attribute, all.collect());
                }
                self.add_group(values);
            }
            (1 | 2, Some(id)) => self.rename(id),
            (3, Some(id)) if chance.below(4) == 0 => self.delete(id),
            (_, Some(id)) => self.modify(id, chance),
            (_, None) => {}
        }
    }
}

fn text_of(name: &str, values: &Values) -> String {
    let cn = name.strip_prefix("cn=").unwrap().split_once(',').unwrap().0;
    let mut text = format!("{name}\nobjectClass: posixGroup\ncn: {cn}\ngidNumber: 5");
    for (attribute, values) in values {
        for value in values.values() {
            text.push_str(&format!("\n{attribute}: {value}"));
        }
    }
    text
}

/// A group that has these numbers.
fn numbered(numbers: impl Iterator<Item = usize>) -> Values {
    let mut chance = Chance::new(1);
    let all = numbers.map(|number| (number, spelled("memberUid", number, &mut chance)));
    Values::from([("memberUid", all.collect())])
}

fn run(seed: u64, keeps_digest: bool) {
    let mut world = World::new();
    if keeps_digest {
        world.store.keep_digest().unwrap();
        world.apply(&Change::Level(APART_LEVEL));
    }
    let mut chance = Chance::new(seed);
    let mut were_apart = 0;
    for step in 0..250 {
        world.step(&mut chance);
        were_apart += usize::from(world.apart() > 0);
        if chance.below(10) == 0 {
            world.store.flush().unwrap();
        }
        if step % 10 == 0 {
            world.look();
        }
        if step % 50 == 0 {
            world.check();
        }
        if step == 125 {
            let World { store, directory, groups, names } = world;
            store.flush().unwrap();
            drop(store);
            world = World { store: open(directory.path()), directory, groups, names };
        }
    }
    world.look();
    world.check();
    assert!(were_apart > 100, "the test is of values apart");
}

#[test]
fn rows_of_values_are_what_plain_sets_say() {
    (0..6).for_each(|seed| run(seed, seed % 2 == 1));
}

#[test]
fn members_of_a_cluster_have_rows_of_values_when_all_know_them() {
    for (level, want) in [(None, 0), (Some(APART_LEVEL - 1), 0), (Some(APART_LEVEL), 40)] {
        let mut world = World::new();
        world.store.keep_digest().unwrap();
        level.into_iter().for_each(|level| world.apply(&Change::Level(level)));
        world.add_group(numbered(0..40));
        assert_eq!(world.apart(), want, "{level:?}");
        world.check();
    }
}

#[test]
fn the_digest_is_that_of_the_rows() {
    let mut world = World::new();
    world.add_group(numbered(0..40));
    assert_eq!(world.apart(), 40);
    // It is computed from what is there, and goes on with each change.
    world.store.keep_digest().unwrap();
    world.apply(&Change::Level(APART_LEVEL));
    world.check();
    let mut chance = Chance::new(3);
    let id = *world.groups.keys().next().unwrap();
    (0..20).for_each(|_| world.modify(id, &mut chance));
    world.check();
    // What members of a cluster compare is the same.
    let want = *world.store.digests().last().unwrap();
    let state = world.store.hold_at(want.lsn, std::time::Duration::from_secs(60)).unwrap();
    let of_entries = state.slice(1, u64::MAX, u64::MAX).unwrap().digest.number();
    let others = state.common_rows().unwrap();
    let all = others.iter().fold(of_entries, |sum, (_, one)| sum.wrapping_add(one.number()));
    assert_eq!(all, want.digest.number());
    let crate::read::held::HeldEntry::Readable { attributes, .. } = state.describe(id).unwrap()
    else {
        panic!("it can be read");
    };
    assert!(attributes.iter().any(|(name, _)| name == "memberUid"));
    drop(state);
    world.delete(id);
    world.check();
}

#[test]
fn what_goes_from_the_record_leaves_the_presence_of_what_is_apart() {
    let mut world = World::new();
    let mut values = numbered(0..40);
    values.insert("memberUid;x-other", BTreeMap::from([(0, "z".to_owned())]));
    let id = world.add_group(values);
    assert_eq!(world.apart(), 40);
    let change = |name: &str, removed: Vec<Vec<u8>>, added: Vec<Vec<u8>>| {
        let deltas = vec![AttributeDelta { description: describe(name), removed, added }];
        let dn = Dn::parse(&world.groups[&id].0).unwrap();
        world.apply(&Change::Modify(ModifyChange { id: EntryId(id), dn, deltas }));
        let filter = ResolvedFilter::Present(describe("memberUid"));
        let mut reader = world.store.reader();
        let view = reader.view().unwrap();
        let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
        assert!(plan.indexed);
        let found: Vec<u64> =
            plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect();
        assert_eq!(found, [id]);
    };
    change("memberUid;x-other", vec![b"z".to_vec()], Vec::new());
    world.check();
    // The other way round: what is apart goes, and the record has one.
    change("memberUid;x-other", Vec::new(), vec![b"z".to_vec()]);
    let all: Vec<Vec<u8>> =
        world.groups[&id].1["memberUid"].values().map(|one| one.clone().into_bytes()).collect();
    change("memberUid", all, Vec::new());
    world.check();
}

#[test]
fn values_that_make_an_entry_too_large_are_refused() {
    let mut world = World::new();
    let id = world.add_group(numbered(0..40));
    assert_eq!(world.apart(), 40);
    let long = vec![b'x'; APART_MAX_BYTES];
    let (description, removed, added) = (describe("memberUid"), Vec::new(), vec![long]);
    let deltas = vec![AttributeDelta { description, removed, added }];
    let dn = Dn::parse(&world.groups[&id].0).unwrap();
    let change = Change::Modify(ModifyChange { id: EntryId(id), dn, deltas });
    {
        let mut batch = world.store.begin_on_published().unwrap();
        let refused = batch.change(&change);
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    }
    assert_eq!(world.apart(), 40);
    world.check();
    world.delete(id);
    world.check();
}

#[test]
fn values_that_name_the_entry_and_few_values_stay() {
    let mut world = World::new();
    let values: String =
        (0..40).map(|number| format!("\nbusinessCategory: value {number}")).collect();
    let text = "objectClass: posixGroup\ncn: x\ngidNumber: 5";
    let named = format!("businessCategory=value 1,{CONTEXT}\n{text}{values}");
    let id = world.add(&named);
    world.groups.insert(id, (named, Values::new()));
    let long = "l".repeat(100);
    let few: String =
        (0..APART_MIN_COUNT - 1).map(|one| format!("\nbusinessCategory: {one} {long}")).collect();
    let id = world.add(&format!("cn=x,{CONTEXT}\n{text}{few}"));
    world.groups.insert(id, (String::new(), Values::new()));
    assert_eq!(world.apart(), 0);
    world.check();
}

#[test]
fn an_index_that_is_added_has_them() {
    let mut world = World::new();
    let id = world.add_group(Values::from([(
        "businessCategory",
        (0..40).map(|number| (number, format!("Value {number}"))).collect(),
    )]));
    let lines = vec!["equality businessCategory".to_owned()];
    let change = schema::IndexChange { added: lines.clone(), removed: Vec::new() };
    world.apply(&Change::Index(change));
    world.store.flush().unwrap();
    let mut steps = 0;
    while world.store.index_step(1).unwrap() != crate::index::build::IndexStep::Idle {
        world.store.flush().unwrap();
        steps += 1;
        assert!(steps < 100, "it ends");
    }
    let schema = Schema::builtin();
    let assertion = Assertion::equality(&schema, describe("businessCategory"), b"vALUE 7").unwrap();
    let filter = ResolvedFilter::Equality(assertion);
    {
        let mut reader = world.store.reader();
        let view = reader.view().unwrap();
        let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree)).unwrap();
        assert!(plan.indexed);
        let found = plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0);
        assert_eq!(found.collect::<Vec<_>>(), [id]);
        // One that would need all of them together is not to be added.
        let against = |line: &str| {
            let definition = IndexDefinition::parse(line).unwrap();
            view.dictionary().lists_against(&definition).map(|found| found.text().to_owned())
        };
        assert_eq!(against("substring businessCategory").as_deref(), Some("businessCategory"));
        assert_eq!(against("presence businessCategory"), None);
    }
    world.check();
}

#[test]
fn the_rule_by_which_they_are_kept_stays() {
    let mut world = World::new();
    let all = (0..40).map(|number| (number, format!("Value {number}"))).collect();
    world.add_group(Values::from([("businessCategory", all)]));
    assert_eq!(world.apart(), 40);
    world.store.flush().unwrap();
    let World { store, directory, .. } = world;
    drop(store);
    let oid = &describe("businessCategory").kind.oid;
    let open = |equality: &str| {
        let text = format!(
            "dn: cn=schema\nattributeTypes: ( {oid} NAME 'businessCategory' {equality} SYNTAX \
             1.3.6.1.4.1.1466.115.121.1.15 )\n"
        );
        let file = schema::SchemaFile { name: "99-other.ldif".to_owned(), text };
        let schema = Arc::new(Schema::builtin().with_files(&[file]).unwrap());
        Store::open(directory.path(), &StoreOptions::default(), schema).map(drop)
    };
    for other in ["EQUALITY caseExactMatch", ""] {
        let refused = open(other).unwrap_err().to_string();
        assert!(refused.contains("which are kept by caseIgnoreMatch"), "{refused}");
    }
    open("EQUALITY caseIgnoreMatch").unwrap();
}

#[test]
fn a_check_finds_rows_that_are_wrong() {
    let mut world = World::new();
    let id = world.add_group(numbered(0..40));
    world.check();
    let environment = world.store.base_environment();
    let table = environment.tables.values.unwrap();
    let attribute = world.store.dictionary().id(&describe("memberUid")).unwrap();
    let key = |value: &str| {
        let rule = describe("memberUid").kind.equality.unwrap();
        apart::key(&Schema::builtin(), rule, &apart::prefix(attribute, id), value.as_bytes())
    };
    let found = |change: &dyn Fn(&mut heed::RwTxn<'_>)| {
        let mut txn = environment.write().unwrap();
        change(&mut txn);
        txn.commit().unwrap();
        let report = world.store.check(&mut |_, _, _| {}).unwrap();
        report.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mut other = Vec::new();
    apart::push(&mut other, b"value 2");
    let wrong = found(&|txn| table.put(txn, &key("value 1"), &other).unwrap());
    assert!(wrong.contains("has a value of another key"), "{wrong}");
    let missing = found(&|txn| assert!(table.delete(txn, &key("value 1")).unwrap()));
    assert!(missing.contains("says 40 values of attribute"), "{missing}");
    let damaged = found(&|txn| table.put(txn, &key("value 1"), b"\x04\x7f").unwrap());
    assert!(damaged.contains("is not well formed"), "{damaged}");
    let orphan = found(&|txn| {
        let key = [&apart::prefix(attribute, id + 7)[..], b"\x01x"].concat();
        table.put(txn, &key, &other).unwrap();
    });
    assert!(orphan.contains("is of no entry that says"), "{orphan}");
}

#[test]
fn a_load_makes_what_adding_makes() {
    let (mut one, world) = (World::new(), World::new());
    let group = numbered(0..40);
    one.add_group(group.clone());
    let load = |held, numbers: &[(usize, &Values)]| {
        let options = LoadOptions { held, ..LoadOptions::default() };
        let mut loader = world.store.bulk_load(&options).unwrap();
        for (number, values) in numbers {
            let text = text_of(&format!("cn=Group {number},{CONTEXT}"), values);
            loader.load(&entry(&text), 1).unwrap();
        }
        loader.commit().unwrap();
        assert_eq!(world.store.check(&mut |_, _, _| {}).unwrap().findings, []);
    };
    let rows = |store: &Store| {
        let environment = store.base_environment();
        let txn = environment.read().unwrap();
        let rows = environment.tables.values.unwrap();
        let rows = rows.iter(&txn).unwrap().map(Result::unwrap);
        rows.map(|(_, row)| row.to_vec()).collect::<Vec<_>>()
    };
    one.store.flush().unwrap();
    load(Held::Keep, &[(1, &group)]);
    assert_eq!(rows(&world.store), rows(&one.store));
    // What is there stays, and goes where it is replaced.
    let (few, other) = (numbered(0..3), numbered(20..50));
    load(Held::Keep, &[(2, &few)]);
    assert_eq!(rows(&world.store).len(), 40);
    load(Held::Replace, &[(1, &other)]);
    assert_eq!(rows(&world.store).len(), 30);
    load(Held::Replace, &[(1, &few)]);
    assert_eq!(rows(&world.store).len(), 0);
}
