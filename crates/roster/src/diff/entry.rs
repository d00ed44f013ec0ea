//! Comparing two entries: the modifications that make the second one as the first.
//!
//! Invariant: the order of values and attributes makes no difference, nor does how they are
//! written where their rules say so.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ldap::dn::{Ava, Dn};
use ldap::ldif::LdifModification;
use ldap::message::ModifyOperation;
use schema::{ClassKind, ObjectClass, Schema};

use super::body::{Body, BodyWriter};
use super::known::{Attributes, Known};

/// What is different about two entries.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// What makes the second one as the first.
    pub(crate) modifications: Vec<LdifModification>,
    /// Attributes that differ, and that only servers set.
    pub(crate) server_set: Vec<String>,
    /// No modification makes the second one as the first: its structural class differs.
    pub(crate) is_other_kind: bool,
}

/// The values of an attribute, as they were read.
struct Values<'a> {
    known: Arc<Known>,
    all: Vec<&'a [u8]>,
}

fn gathered<'a>(body: &Body<'a>, attributes: &mut Attributes) -> BTreeMap<String, Values<'a>> {
    let mut all: BTreeMap<String, Values<'a>> = BTreeMap::new();
    let mut current: Option<(&str, Arc<Known>)> = None;
    for (description, value) in body.values() {
        let known = match &current {
            Some((last, known)) if *last == description => Arc::clone(known),
            Some(_) | None => attributes.get(description),
        };
        match all.get_mut(&known.key) {
            Some(values) => values.all.push(value),
            None => {
                let values = Values { known: Arc::clone(&known), all: vec![value] };
                all.insert(known.key.clone(), values);
            }
        }
        current = Some((description, known));
    }
    all
}

/// Compares two entries.
pub(crate) fn compare(
    first: &Body<'_>,
    second: &Body<'_>,
    attributes: &mut Attributes,
) -> Comparison {
    let mut found = Comparison::default();
    if first.has_same_octets(second) {
        return found;
    }
    let (wanted, mut had) = (gathered(first, attributes), gathered(second, attributes));
    for (key, values) in &wanted {
        let other = had.remove(key);
        if !values.known.is_compared {
            continue;
        }
        if values.known.is_object_class {
            let other = other.as_ref().map_or(&[][..], |other| &other.all);
            compare_classes(values, other, &attributes.schema, &mut found);
            continue;
        }
        let changes = match &other {
            None => vec![modification(ModifyOperation::Add, &values.known, &values.all)],
            Some(other) => changes(values, other, attributes),
        };
        found.take(&values.known, changes);
    }
    for Values { known, .. } in had.into_values().filter(|values| values.known.is_compared) {
        let changes = vec![modification(ModifyOperation::Delete, &known, &[])];
        found.take(&known, changes);
    }
    found
}

impl Comparison {
    fn take(&mut self, known: &Known, changes: Vec<LdifModification>) {
        match known.is_server_set {
            true if !changes.is_empty() => self.server_set.push(known.text.clone()),
            true => {}
            false => self.modifications.extend(changes),
        }
    }
}

fn modification(operation: ModifyOperation, known: &Known, values: &[&[u8]]) -> LdifModification {
    let values = values.iter().map(|value| value.to_vec()).collect();
    LdifModification { operation, description: known.text.clone(), values }
}

/// What a value is compared by, and the value.
type Keyed<'a> = (Vec<u8>, &'a [u8]);

/// Values with what they are compared by, each once; and whether a rule could be applied to all.
fn keyed<'a>(values: &Values<'a>, attributes: &Attributes) -> (Vec<Keyed<'a>>, bool) {
    let (mut key, mut are_prepared) = (Vec::new(), true);
    let mut all = Vec::with_capacity(values.all.len());
    for value in &values.all {
        are_prepared &= attributes.value_key(&values.known, value, &mut key);
        all.push((key.as_slice().into(), *value));
    }
    all.sort_unstable();
    all.dedup_by(|one, other| one.0 == other.0);
    (all, are_prepared)
}

/// What makes the values of an attribute that both have the same.
fn changes(
    wanted: &Values<'_>,
    had: &Values<'_>,
    attributes: &Attributes,
) -> Vec<LdifModification> {
    if wanted.all == had.all {
        return Vec::new();
    }
    let (first, first_prepared) = keyed(wanted, attributes);
    let (second, second_prepared) = keyed(had, attributes);
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (first.iter().peekable(), second.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (Some(one), Some(other)) if one.0 == other.0 => {
                left.next();
                right.next();
            }
            (Some(one), other) if other.is_none_or(|other| one.0 < other.0) => {
                added.push(one.1);
                left.next();
            }
            (_, Some(other)) => {
                removed.push(other.1);
                right.next();
            }
            (_, None) => break,
        }
    }
    if added.is_empty() && removed.is_empty() {
        return Vec::new();
    }
    let known = &wanted.known;
    // Values without a rule cannot be named one by one; nor need they, when all go.
    if !(first_prepared && second_prepared) || removed.len() == second.len() {
        return vec![modification(ModifyOperation::Replace, known, &wanted.all)];
    }
    let part = |operation, values: &[&[u8]]| {
        (!values.is_empty()).then(|| modification(operation, known, values))
    };
    let parts = [part(ModifyOperation::Delete, &removed), part(ModifyOperation::Add, &added)];
    parts.into_iter().flatten().collect()
}

/// Compares object classes: what one server stores, another takes from the superiors of a class.
fn compare_classes(wanted: &Values<'_>, had: &[&[u8]], schema: &Schema, found: &mut Comparison) {
    let all = |values: &[&[u8]]| -> HashSet<String> {
        let mut names = HashSet::new();
        for value in values {
            match class(schema, value) {
                Some(class) => with_superiors(class, &mut names),
                None => {
                    names.insert(lower(value));
                }
            }
        }
        names
    };
    let key = |value: &[u8]| match class(schema, value) {
        Some(class) => class.oid.clone(),
        None => lower(value),
    };
    let (first, second) = (all(&wanted.all), all(had));
    let without = |values: &[&[u8]], others: &HashSet<String>| -> Vec<Vec<u8>> {
        let mut seen = HashSet::new();
        let is_new = |value: &&&[u8]| !others.contains(&key(value)) && seen.insert(key(value));
        values.iter().filter(is_new).map(|value| value.to_vec()).collect()
    };
    let (added, removed) = (without(&wanted.all, &second), without(had, &first));
    let description = wanted.known.text.clone();
    for (operation, values) in [(ModifyOperation::Delete, removed), (ModifyOperation::Add, added)] {
        if !values.is_empty() {
            let description = description.clone();
            found.modifications.push(LdifModification { operation, description, values });
        }
    }
    if let (Some(one), Some(other)) = (structural(schema, &wanted.all), structural(schema, had)) {
        found.is_other_kind = one != other;
    }
}

fn class<'s>(schema: &'s Schema, value: &[u8]) -> Option<&'s Arc<ObjectClass>> {
    schema.object_class(std::str::from_utf8(value).ok()?.trim())
}

fn lower(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim().to_ascii_lowercase()
}

fn with_superiors(class: &ObjectClass, names: &mut HashSet<String>) {
    if names.insert(class.oid.clone()) {
        class.superiors.iter().for_each(|superior| with_superiors(superior, names));
    }
}

/// The structural class that no other one of the entry is derived from; none if that is not known.
fn structural<'s>(schema: &'s Schema, values: &[&[u8]]) -> Option<&'s Arc<ObjectClass>> {
    let mut lowest: Option<&Arc<ObjectClass>> = None;
    for value in values {
        // What is not known may be structural.
        let class = class(schema, value)?;
        if class.kind == ClassKind::Structural
            && lowest.is_none_or(|lowest| class.is_subclass_of(lowest))
        {
            lowest = Some(class);
        }
    }
    lowest
}

/// Whether an entry is a referral, which servers follow unless they are told not to (RFC 3296).
pub(crate) fn is_referral(body: &Body<'_>) -> bool {
    body.values().any(|(description, value)| {
        description.eq_ignore_ascii_case("objectClass") && value.eq_ignore_ascii_case(b"referral")
    })
}

/// Whether an entry has a value, as its rule compares it.
fn has_value(body: &Body<'_>, ava: &Ava, attributes: &mut Attributes) -> bool {
    let known = attributes.get(&ava.attribute);
    let (mut key, mut other) = (Vec::new(), Vec::new());
    attributes.value_key(&known, &ava.value, &mut key);
    body.values().any(|(description, value)| {
        attributes.get(description).key == known.key && {
            attributes.value_key(&known, value, &mut other);
            key == other
        }
    })
}

/// The values in the last RDN of a name.
pub(crate) fn naming_values(dn: &str) -> Vec<Ava> {
    let dn = Dn::parse_stored(dn).unwrap_or_default();
    dn.rdns().first().map(|rdn| rdn.avas().to_vec()).unwrap_or_default()
}

/// Whether the values of the old RDN go when an entry becomes as `wanted` by a rename.
pub(crate) fn deletes_old_rdn(
    wanted: &Body<'_>,
    had: &Body<'_>,
    attributes: &mut Attributes,
) -> bool {
    !naming_values(had.dn).iter().all(|ava| has_value(wanted, ava, attributes))
}

/// What an entry is when it has been renamed.
pub(crate) fn after_rename(
    had: &Body<'_>,
    dn: &str,
    deletes_old: bool,
    attributes: &mut Attributes,
    out: &mut Vec<u8>,
) {
    let (old, new) = (naming_values(had.dn), naming_values(dn));
    let keys = |avas: &[Ava], attributes: &mut Attributes| -> Vec<(String, Vec<u8>)> {
        let key = |ava: &Ava| {
            let known = attributes.get(&ava.attribute);
            let mut key = Vec::new();
            attributes.value_key(&known, &ava.value, &mut key);
            (known.key.clone(), key)
        };
        avas.iter().map(key).collect()
    };
    let (old, kept) = (keys(&old, attributes), keys(&new, attributes));
    let mut writer = BodyWriter::new(out, had.identity, dn);
    let mut key = Vec::new();
    for (description, value) in had.values() {
        let known = attributes.get(description);
        if old.iter().any(|(name, _)| *name == known.key) {
            attributes.value_key(&known, value, &mut key);
            let is = |one: &(String, Vec<u8>)| one.0 == known.key && one.1 == key;
            if deletes_old && old.iter().any(is) && !kept.iter().any(is) {
                continue;
            }
        }
        writer.value(description, value);
    }
    for ava in &new {
        if attributes.get(&ava.attribute).is_read && !has_value(had, ava, attributes) {
            writer.value(&ava.attribute, &ava.value);
        }
    }
}
