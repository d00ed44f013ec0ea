//! Arbitrary trees: which entries there are, and changes that fit them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ldap::dn::{Dn, Rdn};
use ldap::message::Scope;
use schema::{
    AddChange, AttributeDelta, AttributeDescription, Change, DeleteChange, DnKey, Entry, EntryId,
    ModifyChange, RdnKey, RenameChange, Schema,
};

use super::dice::Dice;
use super::vocabulary::{Vocabulary, Word};

/// Entries by id. A copy costs little.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: BTreeMap<u64, Node>,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub parent: u64,
    /// Of its name below the superior.
    pub key: RdnKey,
    /// With its whole name.
    pub entry: Arc<Entry>,
}

pub const CONTEXTS: [&str; 2] = ["dc=example,dc=com", "o=Other"];

pub fn contexts() -> Vec<Dn> {
    CONTEXTS.iter().map(|text| Dn::parse(text).unwrap()).collect()
}

impl Tree {
    pub fn ids(&self) -> Vec<u64> {
        self.nodes.keys().copied().collect()
    }

    pub fn is_within(&self, id: u64, base: u64) -> bool {
        base == 0 || id == base || (id != 0 && self.is_within(self.nodes[&id].parent, base))
    }

    pub fn in_scope(&self, id: u64, base: u64, scope: Scope) -> bool {
        match scope {
            Scope::Base => id == base,
            Scope::One => self.nodes[&id].parent == base,
            Scope::Subtree => self.is_within(id, base),
            Scope::Subordinate => id != base && self.is_within(id, base),
        }
    }

    fn has_children(&self, id: u64) -> bool {
        self.nodes.values().any(|node| node.parent == id)
    }

    fn dn(&self, id: u64) -> Dn {
        self.nodes.get(&id).map_or_else(Dn::root, |node| node.entry.name().clone())
    }

    fn is_taken(&self, parent: u64, key: &RdnKey) -> bool {
        self.nodes.values().any(|node| node.parent == parent && node.key == *key)
    }

    /// A change that fits; none when what was thought of does not.
    pub fn change(&self, next: EntryId, words: &Vocabulary, dice: &mut Dice) -> Option<Change> {
        let ids = self.ids();
        if ids.is_empty() || dice.one_in(40) {
            let context = contexts()[dice.below(2)].clone();
            return self.add(next, 0, context, words, dice);
        }
        let id = *dice.pick(&ids);
        match dice.below(20) {
            0..11 => {
                // Some have many subordinates, some trees are deep.
                let parent = if dice.one_in(2) { *dice.pick_skewed(&ids) } else { id };
                let rdn = self.rdn(next, words, dice)?;
                self.add(next, parent, self.dn(parent).child(rdn), words, dice)
            }
            11..15 => self.modify(id, words, dice),
            15..17 => self.rename(id, *dice.pick(&ids), words, dice),
            _ => {
                let dn = self.dn(id);
                let change = DeleteChange { id: EntryId(id), dn, attributes: Vec::new() };
                (!self.has_children(id)).then_some(Change::Delete(change))
            }
        }
    }

    fn rdn(&self, next: EntryId, words: &Vocabulary, dice: &mut Dice) -> Option<Rdn> {
        let mut text = format!("cn=n{}", next.0);
        if dice.one_in(2) {
            let word = words.word(dice);
            let mut value = String::new();
            ldap::dn::escape_value(dice.pick::<Vec<u8>>(&word.pool), &mut value);
            let own = format!("{}={value}", word.kind.name());
            text = if dice.one_in(3) { format!("{own}+{text}") } else { own };
        }
        Rdn::parse(&text).ok()
    }

    fn add(
        &self,
        id: EntryId,
        parent: u64,
        dn: Dn,
        words: &Vocabulary,
        dice: &mut Dice,
    ) -> Option<Change> {
        let schema = &words.schema;
        let key = name_key(schema, parent, &dn)?;
        if self.is_taken(parent, &key) {
            return None;
        }
        let mut entry = Entry::new(dn);
        let class = schema.describe("objectClass").unwrap();
        let classes = [b"top".to_vec(), b"person".to_vec()].into_iter().take(dice.between(1, 2));
        entry.add_values(schema, &class, classes).unwrap();
        for _ in 0..dice.below(7) {
            let word = often_first(words, dice);
            let description = schema.describe(&words.stored(word, dice)).unwrap();
            for _ in 0..dice.between(1, 2) {
                // A value that is there already is no matter.
                let value = dice.pick_skewed(&word.pool).clone();
                if has_room(&entry, &description) {
                    let _ = entry.add_values(schema, &description, [value]);
                }
            }
        }
        if dice.one_in(CROWD_EVERY) {
            crowd(&mut entry, words);
        }
        Some(Change::Add(AddChange { id, parent: EntryId(parent), key, entry }))
    }

    fn modify(&self, id: u64, words: &Vocabulary, dice: &mut Dice) -> Option<Change> {
        let schema = &words.schema;
        let mut entry = Entry::clone(&self.nodes[&id].entry);
        let dn = entry.name().clone();
        let mut deltas: Vec<AttributeDelta> = Vec::new();
        for _ in 0..dice.between(1, 3) {
            let word = often_first(words, dice);
            let description = match entry.attributes() {
                there if !there.is_empty() && dice.one_in(2) => {
                    Arc::clone(&dice.pick(there).description)
                }
                _ => schema.describe(&words.stored(word, dice)).unwrap(),
            };
            // Every entry has a class.
            let is_class = description.kind.name() == "objectClass";
            if is_class || deltas.iter().any(|delta| delta.description == description) {
                continue;
            }
            let mut removed = entry.values(&description).to_vec();
            removed.retain(|_| dice.one_in(2));
            if !removed.is_empty() {
                entry.remove_values(schema, &description, &removed).unwrap();
            }
            let pool = words.words.iter().find(|word| word.kind == description.kind);
            let pool = &pool.unwrap_or(word).pool;
            let mut added = Vec::new();
            for _ in 0..dice.below(3) {
                let value = dice.pick_skewed(pool).clone();
                if has_room(&entry, &description)
                    && entry.add_values(schema, &description, [value.clone()]).is_ok()
                {
                    added.push(value);
                }
            }
            deltas.push(AttributeDelta { description, removed, added });
        }
        Some(Change::Modify(ModifyChange { id: EntryId(id), dn, deltas }))
    }

    fn rename(
        &self,
        id: u64,
        new_parent: u64,
        words: &Vocabulary,
        dice: &mut Dice,
    ) -> Option<Change> {
        let schema = &words.schema;
        let old_parent = self.nodes[&id].parent;
        let new_parent = if dice.one_in(3) { old_parent } else { new_parent };
        if old_parent == 0 || self.is_within(new_parent, id) {
            return None;
        }
        let new_rdn = self.rdn(EntryId(id), words, dice)?;
        let (old_dn, new_dn) = (self.dn(id), self.dn(new_parent).child(new_rdn.clone()));
        let key = name_key(schema, new_parent, &new_dn)?;
        let is_same = old_parent == new_parent && self.nodes[&id].key == key;
        if !is_same && self.is_taken(new_parent, &key) {
            return None;
        }
        Some(Change::Rename(RenameChange {
            id: EntryId(id),
            old_dn,
            new_parent: EntryId(new_parent),
            new_dn,
            new_rdn,
            key,
            deltas: Vec::new(),
        }))
    }

    /// Makes a change that fits.
    pub fn apply(&mut self, change: &Change, schema: &Schema) {
        match change {
            Change::Add(add) => {
                let (parent, key) = (add.parent.0, add.key.clone());
                let node = Node { parent, key, entry: Arc::new(add.entry.clone()) };
                assert!(self.nodes.insert(add.id.0, node).is_none());
            }
            Change::Modify(modify) => {
                let entry = Arc::make_mut(&mut self.nodes.get_mut(&modify.id.0).unwrap().entry);
                for AttributeDelta { description, removed, added } in &modify.deltas {
                    if !removed.is_empty() {
                        entry.remove_values(schema, description, removed).unwrap();
                    }
                    entry.add_values(schema, description, added.iter().cloned()).unwrap();
                }
            }
            Change::Rename(rename) => {
                let node = self.nodes.get_mut(&rename.id.0).unwrap();
                node.parent = rename.new_parent.0;
                node.key = rename.key.clone();
                self.name(rename.id.0, rename.new_dn.clone());
            }
            Change::Delete(delete) => {
                assert!(self.nodes.remove(&delete.id.0).is_some());
            }
            _ => {}
        }
    }

    /// Gives an entry a name, and by that those below it.
    fn name(&mut self, id: u64, dn: Dn) {
        Arc::make_mut(&mut self.nodes.get_mut(&id).unwrap().entry).rename(dn.clone());
        let children = self.nodes.iter().filter(|(_, node)| node.parent == id);
        let children: Vec<(u64, Rdn)> =
            children.map(|(id, node)| (*id, node.entry.name().rdns()[0].clone())).collect();
        for (child, rdn) in children {
            self.name(child, dn.child(rdn));
        }
    }

    /// Superiors first.
    pub fn top_down(&self) -> Vec<(u64, &Node)> {
        let mut all: Vec<(u64, &Node)> = self.nodes.iter().map(|(id, node)| (*id, node)).collect();
        all.sort_by_key(|(_, node)| node.entry.name().rdns().len());
        all
    }
}

/// Any attribute, the first few more often: so that entries have them together.
pub fn often_first<'w>(words: &'w Vocabulary, dice: &mut Dice) -> &'w Word {
    let few = &words.words[..words.words.len().min(PAIRED)];
    if dice.one_in(2) { dice.pick(few) } else { words.word(dice) }
}

/// Whether one more value may be there.
fn has_room(entry: &Entry, description: &AttributeDescription) -> bool {
    !description.kind.single_value || entry.values(description).is_empty()
}

/// Gives an entry more pairs of values than an index of two attributes has keys for.
fn crowd(entry: &mut Entry, words: &Vocabulary) {
    for word in words.words.iter().take(PAIRED) {
        if word.kind.single_value || word.kind.name() == "objectClass" {
            continue;
        }
        let description = words.schema.describe(word.kind.name()).unwrap();
        let numbers = (0..CROWD_VALUES).map(|number| number.to_string().into_bytes());
        for value in word.pool.iter().cloned().chain(numbers) {
            let _ = entry.add_values(&words.schema, &description, [value]);
        }
    }
}

/// One entry in so many has so many values of the first few attributes.
const CROWD_EVERY: usize = 80;
const CROWD_VALUES: usize = 66;
/// So many attributes are the first.
const PAIRED: usize = 4;

/// The key of a name below `parent`; none when the name breaks the rule of its attribute.
pub fn name_key(schema: &Schema, parent: u64, dn: &Dn) -> Option<RdnKey> {
    let key = DnKey::from_dn(schema, dn).ok()?;
    if parent == 0 { Some(RdnKey::of_naming_context(&key)) } else { key.leaf() }
}
