//! Reference lists against a model of a few lines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::message::Scope;
use schema::{
    AddChange, Assertion, AttributeDescription, Change, DeleteChange, ModifyChange, RdnKey,
    RenameChange, ResolvedFilter, Schema, Truth,
};

use super::*;
use crate::base::lmdb::StoreOptions;
use crate::conformance::Chance;
use crate::index::IndexDefinition;
use crate::read::plan::Ask;
use crate::store::Store;
use crate::testing::{entry, indexes};

const CONTEXT: &str = "dc=example,dc=com";
/// People have these numbers in their names.
const NUMBERS: usize = 60;

/// People and groups; names as they were written.
struct World {
    store: Arc<Store>,
    _directory: tempfile::TempDir,
    /// The people by their ids: the number in the name.
    people: BTreeMap<u64, usize>,
    /// The groups by their ids: what each has.
    groups: BTreeMap<u64, BTreeSet<Value>>,
}

/// A value of a group.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Value {
    /// Names this entry, and follows it.
    Listed(u64),
    /// A name with this number, whether there is such an entry or not.
    Text(usize),
}

impl Value {
    const fn is_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }
}

fn person(number: usize) -> String {
    format!("cn=Person number {number},{CONTEXT}")
}

fn group(id: u64) -> String {
    format!("cn=Group {id},{CONTEXT}")
}

fn name(text: &str) -> Dn {
    Dn::parse(text).unwrap()
}

fn member() -> Arc<AttributeDescription> {
    Schema::builtin().describe("member").unwrap()
}

fn key(name: &str) -> DnKey {
    DnKey::from_text(&Schema::builtin(), name).unwrap()
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = indexes().and(IndexDefinition::parse("presence member").unwrap());
        let (options, contexts) = (StoreOptions::default(), [name(CONTEXT)]);
        let store = Store::create(directory.path(), &options, Schema::builtin(), config, &contexts);
        let store = Arc::new(store.unwrap());
        let (people, groups) = (BTreeMap::new(), BTreeMap::new());
        let world = Self { store, _directory: directory, people, groups };
        world.add(&format!("{CONTEXT}\nobjectClass: domain\ndc: example"));
        world
    }

    fn apply(&self, change: &Change) {
        let mut batch = self.store.begin_on_published().unwrap();
        batch.apply(change).unwrap();
        batch.publish();
    }

    fn next_id(&self) -> EntryId {
        self.store.begin_on_published().unwrap().next_entry_id()
    }

    fn add(&self, text: &str) -> u64 {
        let (id, entry) = (self.next_id(), entry(text));
        let own = key(&entry.name().to_string());
        let (parent, key) = match id.0 {
            1 => (EntryId::ROOT, RdnKey::of_naming_context(&own)),
            _ => (EntryId(1), own.leaf().unwrap()),
        };
        self.apply(&Change::Add(AddChange { id, parent, key, entry }));
        id.0
    }

    fn is_taken(&self, number: usize) -> bool {
        self.people.values().any(|one| *one == number)
    }

    fn add_person(&mut self, number: usize) {
        if !self.is_taken(number) {
            let text = "objectClass: person\nsn: x\ncn: Person number";
            let id = self.add(&format!("{}\n{text} {number}", person(number)));
            self.people.insert(id, number);
        }
    }

    fn add_group(&mut self, members: &BTreeSet<usize>) {
        let lines: String =
            members.iter().map(|number| format!("\nmember: {}", person(*number))).collect();
        let next = self.next_id().0;
        let text = "objectClass: groupOfNames\ncn: Group";
        let id = self.add(&format!("{}\n{text} {next}{lines}", group(next)));
        let values = self.read(id);
        assert_eq!(values.len(), members.len());
        self.groups.insert(id, values);
    }

    fn text_of(&self, value: &Value) -> String {
        match value {
            Value::Listed(id) => person(self.people[id]),
            Value::Text(number) => person(*number),
        }
    }

    /// What a group has by the store.
    fn read(&self, id: u64) -> BTreeSet<Value> {
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        let stored = view.entry(EntryId(id)).unwrap().unwrap();
        let mut values = BTreeSet::new();
        for (_, list) in stored.lists() {
            let mut ids = Vec::new();
            let mut last = EntryId::ROOT;
            while let Some(end) = list.after(last, 5).unwrap().last() {
                ids.extend(list.after(last, 5).unwrap());
                last = *end;
            }
            values.extend(ids.iter().map(|id| Value::Listed(id.0)));
        }
        let number = |text: &[u8]| {
            let rest = text.strip_prefix(b"cn=Person number ").unwrap();
            let rest = rest.split(|octet| *octet == b',').next().unwrap();
            Value::Text(std::str::from_utf8(rest).unwrap().parse().unwrap())
        };
        for (description, of_record) in stored.record_attributes() {
            if **description == *member() {
                values.extend(of_record.iter().map(number));
            }
        }
        let whole = stored.values(&member());
        let whole: Vec<&[u8]> = whole.iter().collect();
        let want: BTreeSet<String> = values.iter().map(|value| self.text_of(value)).collect();
        assert_eq!(whole.len(), want.len());
        assert_eq!(
            whole.into_iter().collect::<BTreeSet<_>>(),
            want.iter().map(String::as_bytes).collect()
        );
        values
    }

    /// Adds and removes members, as an operation decides that.
    fn modify(&mut self, id: u64, added: &[usize], removed: &[usize]) {
        let had: BTreeSet<String> =
            self.groups[&id].iter().map(|value| self.text_of(value)).collect();
        let names = |numbers: &[usize], are_there: bool| -> BTreeSet<String> {
            let names = numbers.iter().map(|number| person(*number));
            names.filter(|name| had.contains(name) == are_there).collect()
        };
        let (added, removed) = (names(added, false), names(removed, true));
        let octets =
            |names: &BTreeSet<String>| names.iter().map(|name| name.clone().into()).collect();
        let delta = AttributeDelta {
            description: member(),
            removed: octets(&removed),
            added: octets(&added),
        };
        let (dn, deltas) = (name(&group(id)), vec![delta]);
        self.apply(&Change::Modify(ModifyChange { id: EntryId(id), dn, deltas }));
        let now = self.read(id);
        let texts: BTreeSet<String> = now.iter().map(|value| self.text_of(value)).collect();
        let after: BTreeSet<String> = had.difference(&removed).chain(&added).cloned().collect();
        assert_eq!(texts, after);
        self.groups.insert(id, now);
    }

    /// Keeps members by number, which changes nothing but that; up to so many.
    fn gather(&mut self, id: u64, most: u64) {
        let texts = |world: &Self| -> BTreeSet<String> {
            world.groups[&id].iter().map(|value| world.text_of(value)).collect()
        };
        let (before, there) = (texts(self), self.groups[&id].clone());
        let named = |value: &Value| match value {
            Value::Text(number) => {
                let mut people = self.people.iter();
                let id = people.find(|(_, one)| *one == number).map(|(id, _)| *id);
                id.is_some_and(|id| !there.contains(&Value::Listed(id)))
            }
            Value::Listed(_) => false,
        };
        let want = there.iter().filter(|value| named(value)).count().min(most as usize);
        let listed = |values: &BTreeSet<Value>| values.iter().filter(|one| one.is_listed()).count();
        let attributes = vec![member()];
        let (id, dn, values_max) = (EntryId(id), name(&group(id)), most);
        self.apply(&Change::Gather(GatherChange { id, dn, attributes, values_max }));
        let now = self.read(id.0);
        assert_eq!(listed(&now), listed(&there) + want);
        self.groups.insert(id.0, now);
        let after: BTreeSet<String> =
            self.groups[&id.0].iter().map(|value| self.text_of(value)).collect();
        assert_eq!(after, before);
    }

    fn delete(&mut self, id: u64) {
        let dn = match self.people.get(&id) {
            Some(number) => name(&person(*number)),
            None => name(&group(id)),
        };
        let attributes = Vec::new();
        self.apply(&Change::Delete(DeleteChange { id: EntryId(id), dn, attributes }));
        self.groups.remove(&id);
        self.people.remove(&id);
        for values in self.groups.values_mut() {
            values.remove(&Value::Listed(id));
        }
    }

    /// That a name which an entry gets is not in a group beside the entry is for whoever decides.
    fn rename(&mut self, id: u64, number: usize) {
        let has_text = |values: &BTreeSet<Value>| values.contains(&Value::Text(number));
        if self.is_taken(number) || self.groups.values().any(has_text) {
            return;
        }
        let was = self.people[&id];
        let (old_dn, new_dn) = (name(&person(was)), name(&person(number)));
        let text = |number: usize| vec![format!("Person number {number}").into_bytes()];
        let description = Schema::builtin().describe("cn").unwrap();
        let delta = AttributeDelta { description, removed: text(was), added: text(number) };
        self.apply(&Change::Rename(RenameChange {
            id: EntryId(id),
            old_dn,
            new_parent: EntryId(1),
            new_rdn: new_dn.rdns()[0].clone(),
            new_dn,
            key: key(&person(number)).leaf().unwrap(),
            deltas: vec![delta],
        }));
        self.people.insert(id, number);
    }

    /// Asks everything that can be asked.
    fn look(&self) {
        for (id, want) in &self.groups {
            assert_eq!(self.read(*id), *want);
        }
        for number in 0..NUMBERS {
            self.look_for(&person(number));
        }
        let any = self.groups.iter().filter(|(_, values)| !values.is_empty());
        let any: Vec<u64> = any.map(|(id, _)| *id).collect();
        assert_eq!(self.found(&ResolvedFilter::Present(member())), any);
    }

    fn found(&self, filter: &ResolvedFilter) -> Vec<u64> {
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        let plan = view.plan(&Ask::new(filter, EntryId::ROOT, Scope::Subtree)).unwrap();
        assert!(plan.indexed && plan.exact);
        plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect()
    }

    fn look_for(&self, name: &str) {
        let schema = Schema::builtin();
        let filter = Assertion::equality(&schema, member(), name.as_bytes()).unwrap();
        let filter = ResolvedFilter::Equality(filter);
        let has = |values: &BTreeSet<Value>| values.iter().any(|value| self.text_of(value) == name);
        let having = self.groups.iter().filter(|(_, values)| has(values));
        let want: Vec<u64> = having.map(|(id, _)| *id).collect();
        assert_eq!(self.found(&filter), want, "{name} {:?}", self.groups);
        let mut reader = self.store.reader();
        let view = reader.view().unwrap();
        let target = match view.resolve(&key(name)).unwrap() {
            Resolved::Found(id) => Some(id),
            Resolved::Missing { .. } | Resolved::NoContext => None,
        };
        for id in [None, target] {
            let few = view.few_naming(&member(), &key(name), id).unwrap().unwrap();
            assert_eq!(few.iter().map(|id| id.0).collect::<Vec<u64>>(), want, "{name}");
        }
        for id in self.groups.keys() {
            let stored = view.entry(EntryId(*id)).unwrap().unwrap();
            let truth = filter.matches(&schema, &stored);
            assert_eq!(truth == Truth::True, want.contains(id), "{name}");
            assert_eq!(filter.matches(&schema, &stored.to_entry().unwrap()), truth);
        }
    }

    fn check(&self) {
        self.store.flush().unwrap();
        let report = self.store.check(&mut |_, _, _| {}).unwrap();
        assert_eq!(report.findings, []);
    }

    fn step(&mut self, chance: &mut Chance) {
        let some = |chance: &mut Chance, most: usize| -> Vec<usize> {
            (0..chance.below(most)).map(|_| chance.below(NUMBERS)).collect()
        };
        let one = |chance: &mut Chance, of: Vec<u64>| match of.len() {
            0 => None,
            length => of.get(chance.below(length)).copied(),
        };
        let groups: Vec<u64> = self.groups.keys().copied().collect();
        let people: Vec<u64> = self.people.keys().copied().collect();
        match chance.below(16) {
            0..4 => self.add_person(chance.below(NUMBERS)),
            4 if groups.len() < 4 => self.add_group(&some(chance, 20).into_iter().collect()),
            11 => {
                if let Some(id) = one(chance, groups) {
                    self.gather(id, 1 + chance.below(5) as u64);
                }
            }
            5..12 => {
                if let Some(id) = one(chance, groups) {
                    let (added, removed) = (some(chance, 12), some(chance, 12));
                    self.modify(id, &added, &removed);
                }
            }
            12 | 13 => {
                if let Some(id) = one(chance, people) {
                    self.rename(id, chance.below(NUMBERS));
                }
            }
            14 => {
                if let Some(id) = one(chance, people) {
                    self.delete(id);
                }
            }
            _ if chance.below(5) == 0 => {
                if let Some(id) = one(chance, groups) {
                    self.delete(id);
                }
            }
            _ => {}
        }
    }
}

fn run(seed: u64, keeps_digest: bool) {
    let mut world = World::new();
    if keeps_digest {
        world.store.keep_digest().unwrap();
        world.apply(&Change::Level(LISTED_LEVEL));
    }
    let mut chance = Chance::new(seed);
    let mut was_listed = 0;
    for step in 0..300 {
        world.step(&mut chance);
        let any = world.groups.values().any(|values| values.iter().any(Value::is_listed));
        was_listed += usize::from(any);
        if chance.below(10) == 0 {
            world.store.flush().unwrap();
        }
        if step % 10 == 0 {
            world.look();
        }
        if step % 50 == 0 {
            world.check();
        }
    }
    world.look();
    world.check();
    assert!(was_listed > 100, "the test is of lists");
}

#[test]
fn lists_are_what_their_values_say() {
    (0..6).for_each(|seed| run(seed, seed % 2 == 1));
}

#[test]
fn members_of_a_cluster_have_lists_when_all_know_them() {
    let members: BTreeSet<usize> = (0..40).collect();
    for (level, want) in
        [(None, false), (Some(LISTED_LEVEL - 1), false), (Some(LISTED_LEVEL), true)]
    {
        let mut world = World::new();
        world.store.keep_digest().unwrap();
        level.into_iter().for_each(|level| world.apply(&Change::Level(level)));
        members.iter().for_each(|number| world.add_person(*number));
        world.add_group(&members);
        let mut values = world.groups.values().flatten();
        assert_eq!(values.all(Value::is_listed), want, "{level:?}");
        world.check();
    }
}

#[test]
fn values_are_looked_through_when_they_have_doubled() {
    let step = LISTED_MIN_BYTES;
    for (before, after, want) in [
        (0, step - 1, false),
        (0, step, true),
        (step, step + 1, false),
        (step - 1, step, true),
        (step, 2 * step, true),
        (2 * step, 3 * step, false),
        (3 * step, 4 * step, true),
        (4 * step, step, false),
    ] {
        assert_eq!(passes_step(before, after), want, "{before} {after}");
    }
}
