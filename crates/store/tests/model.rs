//! Random changes against a naive directory in memory: after each step the store must hold the same
//! entries, find the same names, and plan every search without missing an entry; whether they are
//! in the open batch, sealed, published or flushed. Readers see what is published and nothing else.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};

use ldap::dn::{Dn, Rdn};
use ldap::filter::Filter;
use ldap::message::Scope;
use proptest::prelude::*;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, EntryRead,
    ModifyChange, RdnKey, RenameChange, ResolvedFilter, Schema, Truth,
};
use store::{
    Ask, IndexConfig, IndexDefinition, IndexKind, LogPosition, Lsn, Resolved, Store, StoreOptions,
    View,
};

/// The directory as it should be.
#[derive(Clone, Debug, Default)]
struct Model {
    entries: BTreeMap<u64, ModelEntry>,
}

#[derive(Clone, Debug)]
struct ModelEntry {
    parent: u64,
    entry: Entry,
}

impl Model {
    fn dn(&self, id: u64) -> Dn {
        match self.entries.get(&id) {
            None => Dn::root(),
            Some(found) if found.parent == 0 => found.entry.name().clone(),
            Some(found) => self.dn(found.parent).child(found.entry.name().rdns()[0].clone()),
        }
    }

    fn children(&self, id: u64) -> BTreeSet<u64> {
        let children = self.entries.iter().filter(|(_, entry)| entry.parent == id);
        children.map(|(id, _)| *id).collect()
    }

    fn is_within(&self, id: u64, base: u64) -> bool {
        base == 0 || id == base || (id != 0 && self.is_within(self.entries[&id].parent, base))
    }

    fn in_scope(&self, id: u64, base: u64, scope: Scope) -> bool {
        match scope {
            Scope::Base => id == base,
            Scope::One => self.entries[&id].parent == base,
            Scope::Subtree => self.is_within(id, base),
            Scope::Subordinate => id != base && self.is_within(id, base),
        }
    }

    fn pick(&self, selector: usize) -> Option<u64> {
        let ids: Vec<u64> = self.entries.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[selector % ids.len()])
    }
}

/// A step of a random history; numbers select among what there is.
#[derive(Clone, Debug)]
enum Step {
    Add {
        parent: usize,
        name: usize,
        values: Vec<usize>,
    },
    AddContext {
        which: usize,
    },
    Modify {
        entry: usize,
        attribute: usize,
        removed: usize,
        added: Vec<usize>,
    },
    Rename {
        entry: usize,
        parent: usize,
        name: usize,
    },
    Delete {
        entry: usize,
    },
    Savepoint,
    Rollback,
    Release,
    /// Ends the batch: others see it when it is published.
    Seal,
    /// Ends the batch: it is in LMDB and seen.
    Commit,
    /// Ends the batch: nothing of it stays.
    Abort,
    /// Makes so many of the sealed batches visible.
    Publish {
        count: usize,
    },
    /// What is sealed and not published is gone, and so is the open batch when it is sealed.
    Drop,
    Flush,
    Reopen,
}

const CONTEXTS: [&str; 2] = ["dc=example,dc=com", "o=Other"];
const ATTRIBUTES: [&str; 8] =
    ["cn", "sn", "mail", "uidNumber", "cn;lang-de", "title", "member", "description"];

fn names() -> Vec<String> {
    let mut names: Vec<String> =
        ["cn=a", "cn=B b", "ou=People", "uid=user.1+cn=x", "cn=\\2c", "sn=long"]
            .map(String::from)
            .to_vec();
    // Longer than a key may be, and the same for the first 470 octets.
    for last in ["x", "y"] {
        names.push(format!("cn={}{last}", "n".repeat(480)));
    }
    names
}

fn values(attribute: &str) -> Vec<Vec<u8>> {
    let texts: Vec<String> = match attribute {
        "uidNumber" => ["1", "-5", "1000000000000", "42", "007"].map(String::from).to_vec(),
        "member" => ["cn=a,o=Other", "cn=A, O=other", "ou=People,dc=example,dc=com"]
            .map(String::from)
            .to_vec(),
        "mail" => ["a@example.com", "B@Example.com", "ab", "x"].map(String::from).to_vec(),
        _ => {
            let mut texts = ["Anna", "anna  lee", "Lee", "annalee", "A", "\u{e9}t\u{e9}", "zz"]
                .map(String::from)
                .to_vec();
            texts.push("v".repeat(230));
            texts.push(format!("{}w", "v".repeat(230)));
            texts.push("v".repeat(208));
            texts
        }
    };
    texts.into_iter().map(String::into_bytes).collect()
}

fn filters() -> &'static [(String, ResolvedFilter)] {
    static FILTERS: OnceLock<Vec<(String, ResolvedFilter)>> = OnceLock::new();
    FILTERS.get_or_init(|| {
        let long = "v".repeat(230);
        let texts: Vec<String> = [
            "(objectClass=*)",
            "(objectClass=person)",
            "(cn=anna)",
            "(cn=ANNA LEE)",
            "(cn;lang-de=anna)",
            "(name=anna)",
            "(sn=lee)",
            "(sn=*)",
            "(title=*)",
            "(!(cn=anna))",
            "(!(nosuch=x))",
            "(nosuch=x)",
            "(cn=an*)",
            "(cn=a*)",
            "(cn=*nn*)",
            "(cn=*n*)",
            "(cn=*ee)",
            "(cn=*e)",
            "(cn=a*le*e)",
            "(cn=*  *)",
            "(cn=*na l*)",
            "(cn=*an*na*)",
            "(mail=a@*)",
            "(mail=*example*)",
            "(uidNumber>=2)",
            "(uidNumber<=42)",
            "(uidNumber>=-7)",
            "(cn>=anna)",
            "(cn<=anna)",
            "(cn~=ana)",
            "(&(cn=anna)(sn=lee))",
            "(&(cn=*nn*)(uidNumber>=2))",
            "(&(objectClass=person)(!(sn=lee)))",
            "(|(cn=anna)(uidNumber=42))",
            "(|(cn=anna)(description=anna))",
            "(|(cn=a*)(mail=x*)(&(sn=le*)(cn=*)))",
            "(&)",
            "(|)",
            "(member=cn=a,o=other)",
            "(cn:caseExactMatch:=Anna)",
            "(cn:dn:=a)",
        ]
        .map(String::from)
        .into_iter()
        .chain([
            format!("(cn={long})"),
            format!("(cn>={long})"),
            format!("(cn<={long})"),
            format!("(cn>={})", "v".repeat(208)),
            format!("(cn<={})", "v".repeat(208)),
        ])
        .collect();
        let resolve = |text: &String| {
            ResolvedFilter::resolve(&Filter::parse(text).unwrap(), &Schema::builtin())
        };
        texts.iter().map(|text| (text.clone(), resolve(text))).collect()
    })
}

fn options() -> StoreOptions {
    StoreOptions { map_size_bytes: 1 << 28, ..StoreOptions::default() }
}

fn indexes() -> IndexConfig {
    use IndexKind::{Equality, Presence, Substring};
    let config = IndexConfig::none()
        .with("objectClass", &[Equality])
        .with("cn", &[Equality, Substring])
        .with("name", &[Equality])
        .with("sn", &[Equality, Presence, Substring])
        .with("mail", &[Equality, Substring])
        .with("uidNumber", &[Equality])
        .with("member", &[Equality])
        .with("title", &[Presence]);
    MORE_INDEXES
        .iter()
        .fold(config, |config, line| config.and(IndexDefinition::parse(line).unwrap()))
}

/// One at least of each other sort.
const MORE_INDEXES: [&str; 8] = [
    "approximate cn",
    "extensible cn caseExactMatch",
    "extensible title wordMatch",
    "extensible uidNumber integerBitAndMatch",
    "equality sn with title",
    "equality name with objectClass where (!(uidNumber>=2))",
    "substring sn where (title=*)",
    "equality mail where (|(cn=anna)(description=*e*))",
];

fn key_of(parent: u64, dn: &Dn) -> RdnKey {
    let schema = Schema::builtin();
    if parent == 0 {
        RdnKey::of_naming_context(&DnKey::from_dn(&schema, dn).unwrap())
    } else {
        RdnKey::from_rdn(&schema, &dn.rdns()[0]).unwrap()
    }
}

fn new_entry(dn: &Dn, values_of: &[usize]) -> Entry {
    let schema = Schema::builtin();
    let mut entry = Entry::new(dn.clone());
    let class = schema.describe("objectClass").unwrap();
    entry.add_values(&schema, &class, [b"top".to_vec(), b"person".to_vec()]).unwrap();
    for &selector in values_of {
        let attribute = ATTRIBUTES[selector % ATTRIBUTES.len()];
        let values = values(attribute);
        let value = values[selector / ATTRIBUTES.len() % values.len()].clone();
        let description = schema.describe(attribute).unwrap();
        // A value that is there already is no matter.
        let _ = entry.add_values(&schema, &description, [value]);
    }
    entry
}

/// Turns a step into a change that fits the model, and applies it to the model.
fn decide(model: &mut Model, step: &Step, next: EntryId) -> Option<Change> {
    match step {
        Step::AddContext { which } => {
            let dn = Dn::parse(CONTEXTS[which % CONTEXTS.len()]).unwrap();
            add(model, next, 0, dn, &[])
        }
        Step::Add { parent, name, values } => {
            let parent = model.pick(*parent)?;
            let names = names();
            let rdn = Rdn::parse(&names[name % names.len()]).unwrap();
            let dn = model.dn(parent).child(rdn);
            add(model, next, parent, dn, values)
        }
        Step::Modify { entry, attribute, removed, added } => {
            let id = model.pick(*entry)?;
            modify(model, id, ATTRIBUTES[attribute % ATTRIBUTES.len()], *removed, added)
        }
        Step::Rename { entry, parent, name } => {
            let id = model.pick(*entry)?;
            let new_parent = model.pick(*parent)?;
            rename(model, id, new_parent, *name)
        }
        Step::Delete { entry } => {
            let id = model.pick(*entry)?;
            if !model.children(id).is_empty() {
                return None;
            }
            let dn = model.dn(id);
            model.entries.remove(&id);
            Some(Change::Delete(DeleteChange { id: EntryId(id), dn, attributes: Vec::new() }))
        }
        Step::Savepoint
        | Step::Rollback
        | Step::Release
        | Step::Seal
        | Step::Commit
        | Step::Abort
        | Step::Publish { .. }
        | Step::Drop
        | Step::Flush
        | Step::Reopen => None,
    }
}

fn add(model: &mut Model, id: EntryId, parent: u64, dn: Dn, values: &[usize]) -> Option<Change> {
    if is_taken(model, parent, &dn) {
        return None;
    }
    let entry = new_entry(&dn, values);
    model.entries.insert(id.0, ModelEntry { parent, entry: entry.clone() });
    let key = key_of(parent, &dn);
    Some(Change::Add(AddChange { id, parent: EntryId(parent), key, entry }))
}

fn is_taken(model: &Model, parent: u64, dn: &Dn) -> bool {
    let key = key_of(parent, dn);
    model.children(parent).iter().any(|&id| key_of(parent, &model.dn(id)) == key)
}

fn modify(
    model: &mut Model,
    id: u64,
    attribute: &str,
    removed: usize,
    added: &[usize],
) -> Option<Change> {
    let schema = Schema::builtin();
    let description = schema.describe(attribute).unwrap();
    let dn = model.dn(id);
    let entry = &mut model.entries.get_mut(&id)?.entry;
    let had = entry.values(&description).to_vec();
    let goes: Vec<Vec<u8>> = had
        .iter()
        .enumerate()
        .filter(|(at, _)| (removed >> at) & 1 == 1)
        .map(|(_, value)| value.clone())
        .collect();
    if !goes.is_empty() {
        entry.remove_values(&schema, &description, &goes).unwrap();
    }
    let mut comes = Vec::new();
    let all = values(attribute);
    for &selector in added {
        let value = all[selector % all.len()].clone();
        if entry.add_values(&schema, &description, [value.clone()]).is_ok() {
            comes.push(value);
        }
    }
    let delta = AttributeDelta { description, removed: goes, added: comes };
    Some(Change::Modify(ModifyChange { id: EntryId(id), dn, deltas: vec![delta] }))
}

fn rename(model: &mut Model, id: u64, new_parent: u64, name: usize) -> Option<Change> {
    let old_parent = model.entries[&id].parent;
    if old_parent == 0 || model.is_within(new_parent, id) {
        return None;
    }
    let names = names();
    let new_rdn = Rdn::parse(&names[name % names.len()]).unwrap();
    let old_dn = model.dn(id);
    let new_dn = model.dn(new_parent).child(new_rdn.clone());
    let key = key_of(new_parent, &new_dn);
    let is_new_name = key_of(old_parent, &old_dn) != key || old_parent != new_parent;
    if is_new_name && is_taken(model, new_parent, &new_dn) {
        return None;
    }
    let renamed = model.entries.get_mut(&id).unwrap();
    renamed.parent = new_parent;
    renamed.entry.rename(new_dn.clone());
    let new_parent = EntryId(new_parent);
    let deltas = Vec::new();
    let id = EntryId(id);
    Some(Change::Rename(RenameChange { id, old_dn, new_parent, new_dn, new_rdn, key, deltas }))
}

/// Everything a view says against the model.
fn check(view: &View<'_>, model: &Model) {
    let schema = Schema::builtin();
    assert_eq!(view.entry_count().unwrap(), model.entries.len() as u64);
    for (&id, expected) in &model.entries {
        let dn = model.dn(id);
        let key = DnKey::from_dn(&schema, &dn).unwrap();
        assert_eq!(view.resolve(&key).unwrap(), Resolved::Found(EntryId(id)), "{dn}");
        let stored = view.entry(EntryId(id)).unwrap().unwrap();
        assert_eq!(stored.dn(), dn.to_string());
        assert_eq!(view.dn(EntryId(id)).unwrap(), dn.to_string());
        assert_eq!(stored.parent(), EntryId(expected.parent));
        let entry = stored.to_entry().unwrap();
        for attribute in expected.entry.attributes() {
            assert_eq!(entry.values(&attribute.description), attribute.values);
        }
        assert_eq!(entry.attributes().len(), expected.entry.attributes().len());
        let mut below = key.clone();
        below.push(&RdnKey::from_bytes(b"cn=none".to_vec()));
        let missing = Resolved::Missing { nearest: Some(EntryId(id)) };
        assert_eq!(view.resolve(&below).unwrap(), missing);
    }
    for id in model.entries.keys().copied().chain([0]) {
        let children: BTreeSet<u64> =
            view.children(EntryId(id)).unwrap().map(|id| id.unwrap().0).collect();
        assert_eq!(children, model.children(id));
        assert_eq!(view.child_count(EntryId(id)).unwrap(), children.len() as u64);
    }
    for (text, filter) in filters() {
        check_filter(view, model, text, filter);
    }
}

fn check_filter(view: &View<'_>, model: &Model, text: &str, filter: &ResolvedFilter) {
    let schema = Schema::builtin();
    let matches: BTreeSet<u64> = model
        .entries
        .iter()
        .filter(|(id, expected)| {
            let mut entry = expected.entry.clone();
            entry.rename(model.dn(**id));
            filter.matches(&schema, &entry) == Truth::True
        })
        .map(|(id, _)| *id)
        .collect();
    let bases = model.entries.keys().copied().take(3).chain(model.entries.keys().last().copied());
    for base in bases.chain([0]) {
        for scope in [Scope::Base, Scope::One, Scope::Subtree, Scope::Subordinate] {
            let plan = view.plan(&Ask::new(filter, EntryId(base), scope)).unwrap();
            let ids: Vec<u64> =
                plan.candidates(view, EntryId::ROOT).map(|id| id.unwrap().0).collect();
            assert!(ids.is_sorted(), "{text} {scope:?}");
            let in_scope = |id: &&u64| model.in_scope(**id, base, scope);
            let want: BTreeSet<u64> = matches.iter().filter(in_scope).copied().collect();
            let got: BTreeSet<u64> = ids.iter().copied().collect();
            assert_eq!(got.len(), ids.len());
            assert!(want.is_subset(&got), "{text} {scope:?} of {base}: {want:?} not in {got:?}");
            if plan.exact {
                assert_eq!(want, got, "{text} {scope:?} of {base} is exact");
            }
            if plan.scope_exact {
                assert!(got.iter().all(|id| in_scope(&id)), "{text} {scope:?} of {base}");
            }
            let entries = plan.entries(view, EntryId::ROOT).map(|entry| entry.unwrap().id().0);
            assert!(entries.eq(ids.iter().copied()));
            if let Some(&after) = ids.get(ids.len() / 2) {
                let rest = plan.candidates(view, EntryId(after)).map(|id| id.unwrap().0);
                assert!(rest.eq(ids.iter().copied().filter(|&id| id > after)));
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0_usize..200, 0..6);
    prop_oneof![
        8 => (0_usize..50, 0_usize..20, some())
            .prop_map(|(parent, name, values)| Step::Add { parent, name, values }),
        2 => (0_usize..2).prop_map(|which| Step::AddContext { which }),
        4 => (0_usize..50, 0_usize..8, 0_usize..8, some()).prop_map(
            |(entry, attribute, removed, added)| Step::Modify { entry, attribute, removed, added }
        ),
        3 => (0_usize..50, 0_usize..50, 0_usize..20)
            .prop_map(|(entry, parent, name)| Step::Rename { entry, parent, name }),
        2 => (0_usize..50).prop_map(|entry| Step::Delete { entry }),
        2 => Just(Step::Savepoint),
        2 => Just(Step::Rollback),
        1 => Just(Step::Release),
        4 => Just(Step::Seal),
        1 => Just(Step::Commit),
        1 => Just(Step::Abort),
        3 => (1_usize..4).prop_map(|count| Step::Publish { count }),
        1 => Just(Step::Drop),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

/// A store and what should be in it.
struct World {
    store: Arc<Store>,
    directory: tempfile::TempDir,
    published: State,
    /// What was sealed and not published.
    line: VecDeque<State>,
    /// How often the line was dropped.
    drops: usize,
}

#[derive(Clone, Debug, Default)]
struct State {
    lsn: Lsn,
    model: Model,
}

impl World {
    fn new(is_compressed: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let contexts = CONTEXTS.map(|text| Dn::parse(text).unwrap());
        let (schema, path) = (Schema::builtin(), directory.path());
        let store = Store::create(path, &options(), schema, indexes(), &contexts).unwrap();
        if is_compressed {
            store::measure::compress(&store).unwrap();
        }
        let (published, line) = (State::default(), VecDeque::new());
        Self { store: Arc::new(store), directory, published, line, drops: 0 }
    }

    /// What happens beside an open batch.
    fn beside(&mut self, step: &Step) {
        match step {
            Step::Publish { count } => {
                for _ in 0..*count {
                    let Some(next) = self.line.pop_front() else { break };
                    self.published = next;
                }
                let lsn = self.published.lsn;
                self.store.publish(lsn, LogPosition { term: 7, index: lsn.0 });
                assert_eq!(self.store.published().lsn, lsn);
            }
            Step::Drop => {
                self.store.drop_tentative();
                self.line.clear();
                self.drops += 1;
            }
            Step::Flush => {
                let before = self.store.base().lsn;
                let base = self.store.flush().unwrap();
                assert_eq!(base.lsn, self.published.lsn.max(before));
                assert_eq!(self.store.overlay_bytes(), 0);
            }
            _ => return,
        }
        let last = self.line.back().unwrap_or(&self.published);
        assert_eq!(self.store.tentative().lsn, last.lsn);
    }

    fn reopen(&mut self) {
        self.beside(&Step::Flush);
        self.line.clear();
        let elsewhere = tempfile::tempdir().unwrap();
        let contexts = [];
        let (schema, path) = (Schema::builtin(), elsewhere.path());
        let other = Store::create(path, &options(), schema, indexes(), &contexts).unwrap();
        // The lock is given back before the directory is opened again.
        self.store = Arc::new(other);
        let opened = Store::open(self.directory.path(), &options(), Schema::builtin()).unwrap();
        self.store = Arc::new(opened);
    }
}

/// One batch, from its begin to its end; returns the step that ended it.
fn batch<'s>(
    world: &mut World,
    store: &Store,
    steps: &mut impl Iterator<Item = &'s Step>,
) -> Option<&'s Step> {
    let mut state = world.line.back().unwrap_or(&world.published).clone();
    let mut batch = store.begin().unwrap();
    let mut savepoint: Option<State> = None;
    let drops = world.drops;
    let end = loop {
        let step = steps.next();
        match step {
            None | Some(Step::Seal | Step::Commit | Step::Abort | Step::Reopen) => break step,
            Some(Step::Savepoint) if savepoint.is_none() => {
                batch.savepoint();
                savepoint = Some(state.clone());
            }
            Some(Step::Rollback) if savepoint.is_some() => {
                batch.rollback();
                state = savepoint.take().unwrap();
                check(&batch.view(), &state.model);
            }
            Some(Step::Release) => {
                batch.release();
                savepoint = None;
            }
            Some(step) => {
                world.beside(step);
                if let Some(change) = decide(&mut state.model, step, batch.next_entry_id()) {
                    batch.apply(&change).unwrap();
                    state.lsn.0 += 1;
                }
            }
        }
        assert_eq!(batch.last().lsn, state.lsn);
    };
    check(&batch.view(), &state.model);
    match end {
        Some(Step::Seal) => {
            assert_eq!(batch.seal().lsn, state.lsn);
            let last = world.line.back().unwrap_or(&world.published);
            if world.drops == drops && last.lsn != state.lsn {
                world.line.push_back(state);
            }
        }
        Some(Step::Commit) if world.line.is_empty() && world.drops == drops => {
            assert_eq!(batch.commit().unwrap(), state.lsn);
            world.published = state;
        }
        _ => drop(batch),
    }
    end
}

fn run(steps: &[Step], is_compressed: bool) {
    let mut world = World::new(is_compressed);
    let mut steps = steps.iter();
    loop {
        let store = Arc::clone(&world.store);
        let (mut reader, mut slow) = (store.reader(), store.reader());
        let (held, seen) = (slow.view().unwrap(), world.published.clone());
        check(held, &seen.model);
        let end = batch(&mut world, &store, &mut steps);
        // What is not published nobody sees, and a view stays where it is.
        let view = reader.view().unwrap();
        check(view, &world.published.model);
        assert_eq!(view.lsn(), world.published.lsn);
        check(held, &seen.model);
        assert_eq!(held.lsn(), seen.lsn);
        drop((reader, slow, store));
        match end {
            Some(Step::Reopen) => world.reopen(),
            Some(_) => {}
            None => break,
        }
    }
    world.beside(&Step::Flush);
    assert_eq!(world.store.check(&mut |_, _, _| ()).unwrap().findings, []);
    assert_eq!(world.store.is_compressed(), is_compressed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn the_store_agrees_with_a_naive_directory(
        steps in prop::collection::vec(step(), 10..60),
        is_compressed: bool,
    ) {
        let mut all = vec![Step::AddContext { which: 0 }, Step::Commit];
        all.extend(steps);
        run(&all, is_compressed);
    }
}
