//! Random histories: changes that fit each other, and what they lead to.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use ldap::dn::{Dn, Rdn};
use ldap::filter::Filter;
use schema::{
    AddChange, AttributeDelta, Change, DeleteChange, DnKey, Entry, EntryId, IndexChange,
    ModifyChange, RdnKey, RenameChange, ResolvedFilter, Schema,
};

use super::Contents;
use crate::base::position::Lsn;
use crate::index::{IndexConfig, IndexDefinition, IndexKind};

/// Changes that were made, and the states between them.
#[derive(Clone, Debug)]
pub struct History {
    /// After each change; the first is empty.
    states: Vec<Arc<Contents>>,
    changes: Vec<Change>,
}

impl Default for History {
    fn default() -> Self {
        Self { states: vec![Arc::default()], changes: Vec::new() }
    }
}

/// Numbers that look random, always the same for a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// Begins with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    pub const fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        of.get(self.below(of.len())).expect("a number below the length is a place")
    }
}

impl History {
    /// The number of the last change.
    #[must_use]
    pub const fn last(&self) -> Lsn {
        Lsn(self.changes.len() as u64)
    }

    /// What there is after a change.
    ///
    /// # Panics
    /// When there is no such change.
    #[must_use]
    pub fn at(&self, lsn: Lsn) -> &Arc<Contents> {
        let state = usize::try_from(lsn.0).ok().and_then(|at| self.states.get(at));
        state.expect("a view shows a state of the history")
    }

    /// All changes.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Forgets what came after a change.
    pub fn cut(&mut self, last: Lsn) {
        let count = usize::try_from(last.0).unwrap_or(usize::MAX);
        self.changes.truncate(count);
        self.states.truncate(count.saturating_add(1));
    }

    /// Makes up to `count` changes; `next` is the id of the next entry that is added.
    pub fn batch(&mut self, next: EntryId, count: usize, chance: &mut Chance) -> Vec<Change> {
        let mut next = next;
        let mut changes = Vec::new();
        for _ in 0..count {
            let before = self.states.last().expect("there is a first state");
            let decided = match chance.below(INDEX_CHANGE_EVERY) {
                0 => Some(self.index_change(chance)),
                _ => decide(before, next, chance),
            };
            let Some(change) = decided else { continue };
            if let Change::Add(_) = change {
                next.0 += 1;
            }
            let mut contents = Contents::clone(before);
            contents.apply(&change);
            self.states.push(Arc::new(contents));
            self.changes.push(change.clone());
            changes.push(change);
        }
        changes
    }
}

impl History {
    /// An index that comes, goes, or is built anew.
    fn index_change(&self, chance: &mut Chance) -> Change {
        let line = (*chance.pick(INDEX_LINES)).to_owned();
        let change = match (self.index_lines().contains(&line), chance.below(2)) {
            (true, 0) => IndexChange { added: Vec::new(), removed: vec![line] },
            _ => IndexChange { added: vec![line], removed: Vec::new() },
        };
        Change::Index(change)
    }

    /// The definitions of the indexes that there are after the last change.
    #[must_use]
    pub fn index_lines(&self) -> BTreeSet<String> {
        let first = indexes();
        let mut lines: BTreeSet<String> =
            first.definitions().iter().map(ToString::to_string).collect();
        for change in &self.changes {
            let Change::Index(IndexChange { added, removed }) = change else { continue };
            lines.retain(|line| !removed.contains(line));
            lines.extend(added.iter().cloned());
        }
        lines
    }
}

/// A change that fits; none when what was thought of does not.
fn decide(before: &Contents, next: EntryId, chance: &mut Chance) -> Option<Change> {
    let ids = before.ids();
    if ids.is_empty() || chance.below(20) == 0 {
        let dn = chance.pick(contexts()).clone();
        return add(before, next, EntryId::ROOT, dn, chance);
    }
    match chance.below(20) {
        0..8 => {
            let parent = *chance.pick(&ids);
            let dn = before.dn(parent).child(chance.pick(rdns()).clone());
            add(before, next, parent, dn, chance)
        }
        8..14 => modify(before, *chance.pick(&ids), chance),
        14..17 => rename(before, *chance.pick(&ids), *chance.pick(&ids), chance),
        _ => {
            let id = *chance.pick(&ids);
            let (dn, is_leaf) = (before.dn(id), before.children(id).is_empty());
            is_leaf.then(|| Change::Delete(DeleteChange { id, dn, attributes: Vec::new() }))
        }
    }
}

fn add(
    before: &Contents,
    id: EntryId,
    parent: EntryId,
    dn: Dn,
    chance: &mut Chance,
) -> Option<Change> {
    let key = rdn_key(parent, &dn);
    if before.is_taken(parent, &key) {
        return None;
    }
    let schema = Schema::builtin();
    let mut entry = Entry::new(dn.clone());
    let class = schema.describe("objectClass").expect(KNOWN);
    entry.add_values(&schema, &class, [b"top".to_vec(), b"person".to_vec()]).expect(KNOWN);
    for _ in 0..chance.below(6) {
        let attribute = *chance.pick(&ATTRIBUTES);
        let value = chance.pick(&values(attribute)).clone();
        // A value that is there already is no matter.
        let _ = entry.add_values(&schema, &schema.describe(attribute).expect(KNOWN), [value]);
    }
    Some(Change::Add(AddChange { id, parent, key, entry }))
}

fn modify(before: &Contents, id: EntryId, chance: &mut Chance) -> Option<Change> {
    let schema = Schema::builtin();
    let mut deltas = Vec::new();
    let (_, mut entry) = before.entry(id)?;
    let first = chance.below(ATTRIBUTES.len());
    for attribute in ATTRIBUTES.iter().cycle().skip(first).take(1 + chance.below(3)).copied() {
        let description = schema.describe(attribute).expect(KNOWN);
        let mut removed = entry.values(&description).to_vec();
        removed.retain(|_| chance.below(2) == 0);
        if !removed.is_empty() {
            entry.remove_values(&schema, &description, &removed).expect("it has these values");
        }
        let mut added = Vec::new();
        for _ in 0..chance.below(4) {
            let value = chance.pick(&values(attribute)).clone();
            if entry.add_values(&schema, &description, [value.clone()]).is_ok() {
                added.push(value);
            }
        }
        deltas.push(AttributeDelta { description, removed, added });
    }
    Some(Change::Modify(ModifyChange { id, dn: before.dn(id), deltas }))
}

fn rename(
    before: &Contents,
    id: EntryId,
    new_parent: EntryId,
    chance: &mut Chance,
) -> Option<Change> {
    let (old_parent, _) = before.entry(id)?;
    if old_parent == EntryId::ROOT || before.is_within(new_parent, id) {
        return None;
    }
    let new_rdn = chance.pick(rdns()).clone();
    let (old_dn, new_dn) = (before.dn(id), before.dn(new_parent).child(new_rdn.clone()));
    let key = rdn_key(new_parent, &new_dn);
    let is_new_name = old_parent != new_parent || rdn_key(old_parent, &old_dn) != key;
    if is_new_name && before.is_taken(new_parent, &key) {
        return None;
    }
    let deltas = Vec::new();
    Some(Change::Rename(RenameChange { id, old_dn, new_parent, new_dn, new_rdn, key, deltas }))
}

/// The key of a name below `parent`.
fn rdn_key(parent: EntryId, dn: &Dn) -> RdnKey {
    let key = DnKey::from_dn(&Schema::builtin(), dn).expect("the suite's names are valid");
    if parent == EntryId::ROOT {
        return RdnKey::of_naming_context(&key);
    }
    key.leaf().expect("an entry has a name")
}

const ATTRIBUTES: [&str; 8] =
    ["cn", "sn", "mail", "uidNumber", "cn;lang-de", "title", "member", "description"];

/// The naming contexts of the suite.
#[must_use]
pub fn contexts() -> &'static [Dn] {
    static CONTEXTS: OnceLock<Vec<Dn>> = OnceLock::new();
    CONTEXTS.get_or_init(|| {
        let parse = |text| Dn::parse(text).expect("the suite's names are well formed");
        ["dc=example,dc=com", "o=Other"].map(parse).to_vec()
    })
}

/// The indexes of the suite.
#[must_use]
pub fn indexes() -> IndexConfig {
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
    MORE_INDEXES.iter().fold(config, |config, line| {
        config.and(IndexDefinition::parse(line).expect("the suite's indexes are well formed"))
    })
}

/// Indexes that come and go.
const INDEX_LINES: &[&str] = &[
    "presence cn",
    "equality cn",
    "substring cn",
    "substring mail",
    "equality uidNumber",
    "equality title",
    "substring title",
    "substring description",
    "presence sn",
    "approximate cn",
    "extensible cn 2.5.13.5",
    "equality cn with sn",
    "equality sn where (objectClass=person)",
];

/// One of so many changes is one of indexes.
const INDEX_CHANGE_EVERY: usize = 25;

/// One at least of each other sort.
const MORE_INDEXES: [&str; 8] = [
    "approximate cn",
    "extensible cn 2.5.13.5",
    "extensible title 2.5.13.32",
    "extensible uidNumber 1.2.840.113556.1.4.803",
    "equality sn with title",
    "equality name with objectClass where (!(uidNumber>=2))",
    "substring sn where (title=*)",
    "equality mail where (|(cn=anna)(description=*e*))",
];

fn rdns() -> &'static [Rdn] {
    static RDNS: OnceLock<Vec<Rdn>> = OnceLock::new();
    RDNS.get_or_init(|| {
        let texts = ["cn=a", "cn=B b", "ou=People", "uid=user.1+cn=x", "cn=\\2c", "sn=long"];
        let mut texts = texts.map(String::from).to_vec();
        // Longer than a key may be, and the same for the first 470 octets.
        texts.extend(["x", "y"].map(|last| format!("cn={}{last}", "n".repeat(480))));
        let parse = |text: &String| Rdn::parse(text).expect("the suite's names are well formed");
        texts.iter().map(parse).collect()
    })
}

fn values(attribute: &str) -> Vec<Vec<u8>> {
    let long = ["v".repeat(230), format!("{}w", "v".repeat(230)), "v".repeat(208)];
    let texts: &[&str] = match attribute {
        "uidNumber" => &["1", "-5", "1000000000000", "42", "007"],
        "member" => &["cn=a,o=Other", "cn=A, O=other", "ou=People,dc=example,dc=com"],
        "mail" => &["a@example.com", "B@Example.com", "ab", "x"],
        _ => &["Anna", "anna  lee", "Lee", "annalee", "A", "\u{e9}t\u{e9}", "zz"],
    };
    let is_text = !matches!(attribute, "uidNumber" | "member" | "mail");
    let long = long.iter().map(String::as_str).take(if is_text { 3 } else { 0 });
    texts.iter().copied().chain(long).map(|text| text.as_bytes().to_vec()).collect()
}

/// Filters of all kinds, with their texts.
#[must_use]
pub fn filters() -> &'static [(String, ResolvedFilter)] {
    static FILTERS: OnceLock<Vec<(String, ResolvedFilter)>> = OnceLock::new();
    FILTERS.get_or_init(|| {
        let long = ["=", ">=", "<="].map(|sign| format!("(cn{sign}{})", "v".repeat(230)));
        let texts = FILTER_TEXTS.iter().copied().map(String::from).chain(long);
        let resolve = |text: String| {
            let filter = Filter::parse(&text).expect("the suite's filters are well formed");
            let filter = ResolvedFilter::resolve(&filter, &Schema::builtin());
            (text, filter)
        };
        texts.map(resolve).collect()
    })
}

const FILTER_TEXTS: &[&str] = &[
    "(objectClass=*)",
    "(objectClass=person)",
    "(cn=anna)",
    "(cn;lang-de=anna)",
    "(name=anna)",
    "(sn=lee)",
    "(sn=*)",
    "(title=*)",
    "(!(cn=anna))",
    "(nosuch=x)",
    "(cn=an*)",
    "(cn=a*)",
    "(cn=*nn*)",
    "(cn=*e)",
    "(cn=a*le*e)",
    "(cn=*na l*)",
    "(mail=a@*)",
    "(mail=*example*)",
    "(uidNumber>=2)",
    "(uidNumber<=42)",
    "(cn>=anna)",
    "(&(cn=anna)(sn=lee))",
    "(&(cn=*nn*)(uidNumber>=2))",
    "(|(cn=anna)(uidNumber=42))",
    "(|(cn=a*)(mail=x*)(&(sn=le*)(cn=*)))",
    "(member=cn=a,o=other)",
];

const KNOWN: &str = "the built-in schema knows the suite's attributes";
