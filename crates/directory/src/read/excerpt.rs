//! What a modify needs of an entry with very many values: a group of a million members is not taken
//! apart for one of them.
//!
//! Invariant: what is decided on an excerpt is what would be decided on the whole entry. It has
//! every value that the modifications or the entry's name could match, and so many others that no
//! modification empties an attribute of it which the entry would keep.

use std::collections::HashSet;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::message::{ModifyOperation, Scope, Values};
use ldap::result::ResultCode;
use schema::{
    Attribute, AttributeDescription, DnKey, Entry, EntryId, EntryRead as _, ResolvedFilter, Schema,
};
use store::{ApartValues, Ask, ReferenceList, StoreError, View};

use crate::access::guard;
use crate::request::refusal::Refusal;
use crate::write::passes::Passes;
use crate::write::passwords;
use crate::write::request::Modification;

/// Reads an entry that was found, as far as these modifications need it.
pub(crate) fn load(
    view: &View<'_>,
    id: EntryId,
    schema: &Schema,
    modifications: &[Modification],
    passes: &mut Passes,
) -> Result<Entry, Refusal> {
    let stored = guard::stored(view, id)?;
    let mut lists: Vec<_> = stored.lists().collect();
    let is_small = |values: Values<'_>| values.as_ber().len() < LARGE_BYTES;
    if !stored.has_lists() && stored.record_attributes().all(|(_, values)| is_small(values)) {
        return Ok(stored.to_entry()?);
    }
    let Ok(name) = Dn::parse_stored(stored.dn()) else { return Ok(stored.to_entry()?) };
    let mut attributes = Vec::new();
    for (description, values) in stored.record_attributes() {
        let list = lists.iter().position(|(one, _)| *one == description);
        let list = list.map(|at| lists.swap_remove(at).1);
        let wanted = (list.is_some() || !is_small(values))
            .then(|| wanted(&name, schema, description, modifications))
            .flatten()
            .filter(|wanted| list.is_some() || wanted.len() <= WANTED_MAX);
        let excerpt = Excerpt { view, id, schema, description };
        let mut kept = match &wanted {
            Some(wanted) if !is_small(values) => excerpt.of(values, wanted, passes)?,
            Some(_) | None => values.iter().map(<[u8]>::to_vec).collect(),
        };
        if let Some(list) = list {
            let there = excerpt.keys(&kept);
            kept.append(&mut excerpt.of_list(&list, wanted.as_ref(), &there)?);
        }
        attributes.push(Attribute { description: Arc::clone(description), values: kept });
    }
    for (description, list) in lists {
        let wanted = wanted(&name, schema, description, modifications);
        let values = Excerpt { view, id, schema, description }.of_list(
            &list,
            wanted.as_ref(),
            &HashSet::new(),
        )?;
        attributes.push(Attribute { description: Arc::clone(description), values });
    }
    for (description, values) in stored.apart_values()? {
        let wanted = wanted(&name, schema, description, modifications);
        let values =
            Excerpt { view, id, schema, description }.of_apart(&values, wanted.as_ref())?;
        attributes.push(Attribute { description: Arc::clone(description), values });
    }
    Ok(Entry::from_stored(name, attributes))
}

/// Reads an entry for what the server changes itself: all that its record has, and few of the
/// values outside of it, which are none of those.
pub(crate) fn load_for_server(
    view: &View<'_>,
    id: EntryId,
    schema: &Schema,
) -> Result<Entry, Refusal> {
    let stored = guard::stored(view, id)?;
    if !stored.has_lists() {
        return Ok(stored.to_entry()?);
    }
    let Ok(name) = Dn::parse_stored(stored.dn()) else { return Ok(stored.to_entry()?) };
    let mut attributes = Vec::new();
    for (description, values) in stored.record_attributes() {
        let values = values.iter().map(<[u8]>::to_vec).collect();
        attributes.push(Attribute { description: Arc::clone(description), values });
    }
    let is_there = |all: &[Attribute], one: &AttributeDescription| {
        all.iter().any(|attribute| *attribute.description == *one)
    };
    for (description, list) in stored.lists() {
        if !is_there(&attributes, description) {
            let wanted = wanted(&name, schema, description, &[]);
            let excerpt = Excerpt { view, id, schema, description };
            let values = excerpt.of_list(&list, wanted.as_ref(), &HashSet::new())?;
            attributes.push(Attribute { description: Arc::clone(description), values });
        }
    }
    for (description, values) in stored.apart_values()? {
        let wanted = wanted(&name, schema, description, &[]);
        let excerpt = Excerpt { view, id, schema, description };
        let values = excerpt.of_apart(&values, wanted.as_ref())?;
        attributes.push(Attribute { description: Arc::clone(description), values });
    }
    Ok(Entry::from_stored(name, attributes))
}

/// The values of a large attribute that matter; none when all of them do.
fn wanted<'m>(
    name: &'m Dn,
    schema: &Schema,
    description: &AttributeDescription,
    modifications: &'m [Modification],
) -> Option<HashSet<&'m [u8]>> {
    // A clear-text password stands for a hash that must be looked for.
    if passwords::is_hashable(description) {
        return None;
    }
    let mut wanted = HashSet::new();
    for modification in modifications.iter().filter(|one| *one.description == *description) {
        match modification.operation {
            ModifyOperation::Add | ModifyOperation::Delete if !modification.values.is_empty() => {
                wanted.extend(modification.values.iter().map(Vec::as_slice));
            }
            _ => return None,
        }
    }
    for ava in name.rdns().first().into_iter().flat_map(|rdn| rdn.avas()) {
        if schema.describe(&ava.attribute).is_ok_and(|known| *known == *description) {
            wanted.insert(&ava.value);
        }
    }
    Some(wanted)
}

/// A large attribute of which not all is needed.
struct Excerpt<'a> {
    view: &'a View<'a>,
    id: EntryId,
    schema: &'a Schema,
    description: &'a AttributeDescription,
}

impl Excerpt<'_> {
    /// The first values, and those that are equal to one of `wanted`, in their order.
    fn of(
        &self,
        values: Values<'_>,
        wanted: &HashSet<&[u8]>,
        passes: &mut Passes,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let first_count = wanted.len() + SPARE_COUNT;
        let mut kept = Vec::new();
        let mut missing = wanted.clone();
        for (value, place) in values.iter().zip(0..) {
            if missing.remove(value) || place < first_count {
                kept.push((place, value));
            }
        }
        // What is not there octet by octet may be there in another spelling.
        let mut keys = HashSet::new();
        for value in missing {
            let mut key = Vec::new();
            if self.prepare(value, &mut key) && !self.is_denied(value)? {
                keys.insert(key);
            }
        }
        if !keys.is_empty() {
            passes.prepared(self.description, values.iter())?;
            kept.clear();
            let mut key = Vec::new();
            for (value, place) in values.iter().zip(0..) {
                key.clear();
                let is_wanted = wanted.contains(value)
                    || (self.prepare(value, &mut key) && keys.contains(&key));
                if is_wanted || place < first_count {
                    kept.push((place, value));
                }
            }
        }
        Ok(kept.into_iter().map(|(_, value)| value.to_vec()).collect())
    }

    /// Those of a reference list that are wanted, and some more; all where none are told.
    fn of_list(
        &self,
        list: &ReferenceList<'_>,
        wanted: Option<&HashSet<&[u8]>>,
        there: &HashSet<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        // A name that was text before an entry got it is one value.
        let is_new = |name: &str| {
            let mut key = Vec::new();
            there.is_empty() || !(self.prepare(name.as_bytes(), &mut key) && there.contains(&key))
        };
        let mut kept = Vec::new();
        let Some(wanted) = wanted else {
            if list.count()? > LISTED_GONE_MAX {
                return Err(too_many_at_once(self.description, LISTED_GONE_MAX));
            }
            list.names(&mut |name| {
                if is_new(name) {
                    kept.push(name.as_bytes().to_vec());
                }
                true
            })?;
            return Ok(kept);
        };
        let mut found = HashSet::new();
        for value in wanted {
            let mut key = Vec::new();
            if self.prepare(value, &mut key)
                && let Some(id) = list.find(&DnKey::from_bytes(key))?
                && found.insert(id)
            {
                kept.extend(
                    Some(self.view.dn(id)?).filter(|name| is_new(name)).map(String::into_bytes),
                );
            }
        }
        let some = list.after(EntryId::ROOT, found.len() + SPARE_COUNT)?;
        for id in some.iter().filter(|id| !found.contains(id)).take(SPARE_COUNT) {
            kept.extend(
                Some(self.view.dn(*id)?).filter(|name| is_new(name)).map(String::into_bytes),
            );
        }
        Ok(kept)
    }

    /// Of values that are rows of their own those that are wanted, and some more; all where none
    /// are told.
    fn of_apart(
        &self,
        values: &ApartValues<'_>,
        wanted: Option<&HashSet<&[u8]>>,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        let mut kept = Vec::new();
        let Some(wanted) = wanted else {
            if values.count() > LISTED_GONE_MAX {
                return Err(too_many_at_once(self.description, LISTED_GONE_MAX));
            }
            if values.octets() > APART_GONE_MAX_BYTES {
                return Err(too_large_at_once(self.description));
            }
            values.values(&mut |value| {
                kept.push(value.to_vec());
                true
            })?;
            return Ok(kept);
        };
        let mut found = HashSet::new();
        for value in wanted {
            if let Some(value) = values.find(value)?
                && found.insert(value)
            {
                kept.push(value.to_vec());
            }
        }
        let near = wanted.iter().next().copied().unwrap_or_default();
        let some = values.near(near, found.len() + SPARE_COUNT)?;
        let others = some.into_iter().filter(|value| !found.contains(value));
        kept.extend(others.take(SPARE_COUNT).map(<[u8]>::to_vec));
        Ok(kept)
    }

    /// The keys of values.
    fn keys(&self, values: &[Vec<u8>]) -> HashSet<Vec<u8>> {
        let key = |value: &Vec<u8>| {
            let mut key = Vec::new();
            self.prepare(value, &mut key).then_some(key)
        };
        values.iter().filter_map(key).collect()
    }

    /// The key by which values are equal; false where there is none but the octets.
    fn prepare(&self, value: &[u8], key: &mut Vec<u8>) -> bool {
        let rule = self.description.kind.equality;
        rule.is_some_and(|rule| (rule.prepare)(self.schema, value, key).is_ok())
    }

    /// Whether an index says that the entry does not have this value in any spelling.
    fn is_denied(&self, value: &[u8]) -> Result<bool, StoreError> {
        let description = self.description.text();
        let filter = Filter::Equality(AvaFilter { description, value: value.into() });
        let filter = ResolvedFilter::resolve(&filter, self.schema);
        let plan = self.view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            return Ok(false);
        }
        let before = EntryId(self.id.0.saturating_sub(1));
        let next = plan.candidates(self.view, before).next().transpose()?;
        Ok(next != Some(self.id))
    }
}

/// Refuses a change that goes through all values of a list.
pub(crate) fn too_many_at_once(description: &AttributeDescription, most: u64) -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        format!(
            "'{}' has more than {most} values, which is too many for them to go at once: delete \
             them by name first, some thousands at a time",
            description.text()
        ),
    )
}

/// Refuses a change that goes through values which take more octets than a change record holds.
fn too_large_at_once(description: &AttributeDescription) -> Refusal {
    Refusal::new(
        ResultCode::AdminLimitExceeded,
        format!(
            "the values of '{}' take more than {APART_GONE_MAX_BYTES} bytes, which is too much for \
             them to go at once: delete them by name first, some at a time",
            description.text()
        ),
    )
}

/// So many octets values in rows of their own may take that are deleted or replaced without being
/// named.
const APART_GONE_MAX_BYTES: u64 = 8 << 20;
/// So many values outside of the record may be deleted or replaced without being named: the change
/// record has all of them.
const LISTED_GONE_MAX: u64 = 100_000;
/// An attribute with so many octets is large: about a thousand members.
const LARGE_BYTES: usize = 64 << 10;
/// The most values of a large attribute that one request names; with more the entry is taken as a
/// whole.
const WANTED_MAX: usize = 64;
/// Values that stay when all that are named go, so that a large attribute never looks empty or
/// single.
const SPARE_COUNT: usize = 2;
