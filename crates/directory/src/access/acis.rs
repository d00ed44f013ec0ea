//! The ACIs in force: those of entries, and the global ones of the configuration.
//!
//! Invariant: the set is that of the directory as the last change left it: it is read once at
//! start, and every change that touches an ACI, or the name of an entry that has one, brings it up
//! to date before it is visible.

use std::sync::Arc;

use aci::{Aci, AciSet, GlobalAcis};
use ldap::dn::Dn;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, Change, DnKey, Entry, EntryId, EntryRead, RdnKey, ResolvedFilter, Schema,
};
use store::{Ask, StoreError, View};

use crate::request::refusal::Refusal;

/// The setting that has the global ACIs.
pub const GLOBAL_ACI: &str = "global-aci";

/// Stands in the setting for "none at all": a setting without values is not set.
pub(crate) const NONE_AT_ALL: &str = "";

/// Reads all ACIs. Without an index on `aci` that takes a look at every entry.
pub(crate) fn read(view: &View<'_>, schema: &Arc<Schema>) -> Result<AciSet, StoreError> {
    let aci = &schema.well_known().aci;
    let filter = ResolvedFilter::Present(aci.clone());
    let mut holders = vec![(DnKey::root(), global(view, schema)?)];
    let dictionary = view.dictionary();
    let ids = 0..u32::try_from(dictionary.len()).unwrap_or(u32::MAX);
    let mut described = ids.filter_map(|id| dictionary.description(id));
    if described.any(|description| aci.covers(description)) {
        let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        if !plan.indexed {
            tracing::warn!(
                "there is no presence index on aci: looking for ACIs in every entry; \
                 add one below cn=Index,cn=config"
            );
        }
        for entry in plan.entries(view, EntryId::ROOT) {
            let entry = entry?;
            let acis = of(&entry, schema);
            if !acis.is_empty() {
                holders.extend(stored_key(schema, entry.dn()).map(|key| (key, acis)));
            }
        }
    }
    holders.iter().flat_map(|(_, acis)| acis).for_each(|aci| warn_of(aci));
    Ok(AciSet::new(Arc::clone(schema)).with_holders(holders))
}

/// The values of the global ACIs, as they are configured or by default.
pub fn global_values(view: &View<'_>) -> Result<Vec<String>, StoreError> {
    let mut values = view.setting(GLOBAL_ACI)?;
    if values.is_empty() {
        return Ok(texts(GlobalAcis::default()));
    }
    values.retain(|value| value != NONE_AT_ALL);
    Ok(values)
}

/// The values of the setting for such global ACIs.
pub fn texts(acis: GlobalAcis) -> Vec<String> {
    acis.texts().into_iter().map(str::to_owned).collect()
}

fn global(view: &View<'_>, schema: &Schema) -> Result<Vec<Arc<Aci>>, StoreError> {
    Ok(global_values(view)?.iter().map(|text| stored(text, schema, "the configuration")).collect())
}

/// The ACIs of an entry.
fn of(entry: &dyn EntryRead, schema: &Schema) -> Vec<Arc<Aci>> {
    let mut acis = Vec::new();
    entry.visit_values(&schema.well_known().aci, &mut |_, value| {
        acis.push(stored(&String::from_utf8_lossy(value), schema, entry.dn()));
        true
    });
    acis
}

/// An ACI that was accepted when it was written. One that cannot be read any more, because the
/// schema has changed or another release wrote it, is never taken for one that allows something.
fn stored(text: &str, schema: &Schema, place: &str) -> Arc<Aci> {
    Arc::new(Aci::parse(text, schema).unwrap_or_else(|error| {
        tracing::error!(place, %error, aci = text, "an ACI cannot be read: it denies everything");
        Aci::unreadable(text)
    }))
}

/// The key of a stored name. Never that of the root for one that cannot be read: ACIs would hold
/// for everything.
fn stored_key(schema: &Schema, name: &str) -> Option<DnKey> {
    let key = Dn::parse_stored(name).ok().and_then(|name| DnKey::from_dn(schema, &name).ok());
    if key.is_none() {
        tracing::error!(
            name,
            "the name of an entry with ACIs cannot be read: they apply to nothing"
        );
    }
    key
}

/// The set after these changes; none when they leave it as it is. `view` has them.
pub(crate) fn after<'c>(
    set: &AciSet,
    changes: impl IntoIterator<Item = &'c Change>,
    view: &View<'_>,
) -> Result<Option<AciSet>, StoreError> {
    let mut changed: Option<AciSet> = None;
    for change in changes {
        let now = changed.as_ref().unwrap_or(set);
        if let Some(holders) = touched(now, change, view)? {
            changed = Some(now.with_holders(holders));
        }
    }
    Ok(changed)
}

/// Names of entries, and the ACIs that each holds.
type Holders = Vec<(DnKey, Vec<Arc<Aci>>)>;

/// The holders whose ACIs are others after a change, with those.
fn touched(set: &AciSet, change: &Change, view: &View<'_>) -> Result<Option<Holders>, StoreError> {
    let schema = view.schema();
    let aci = &schema.well_known().aci;
    let name = |dn: &Dn| DnKey::from_dn(schema, dn).unwrap_or_default();
    Ok(match change {
        Change::Add(add) => {
            let acis = of(&add.entry, schema);
            (!acis.is_empty()).then(|| vec![(name(add.entry.name()), acis)])
        }
        Change::Modify(modify) if modify.deltas.iter().any(|one| aci.covers(&one.description)) => {
            let acis = match view.entry(modify.id)? {
                Some(entry) => of(&entry, schema),
                None => Vec::new(),
            };
            Some(vec![(name(&modify.dn), acis)])
        }
        Change::Rename(rename) => {
            let (old, new) = (name(&rename.old_dn), name(&rename.new_dn));
            let moved = set.within(&old).flat_map(|(holder, acis)| {
                let mut there = new.clone();
                for rdn in holder.rdns().skip(old.depth()) {
                    there.push(&RdnKey::from_bytes(rdn.to_vec()));
                }
                [(holder.clone(), Vec::new()), (there, acis.to_vec())]
            });
            // A name may differ in its spelling alone: what comes wins over what goes.
            let mut moved: Vec<_> = moved.collect();
            moved.sort_by_key(|(_, acis)| !acis.is_empty());
            (!moved.is_empty()).then_some(moved)
        }
        Change::Delete(delete) => {
            let gone = name(&delete.dn);
            (!set.at(&gone).is_empty()).then(|| vec![(gone, Vec::new())])
        }
        Change::Setting(setting) if setting.name == GLOBAL_ACI => {
            Some(vec![(DnKey::root(), global(view, schema)?)])
        }
        Change::Modify(_)
        | Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Gather(_)
        | Change::Level(_) => None,
    })
}

/// Warns of what in an ACI nobody can answer: it allows nothing by that, and denies.
fn warn_of(aci: &Aci) {
    for name in aci.unknown_names() {
        tracing::warn!(
            aci = aci.name(),
            name,
            "an ACI names an attribute the schema lacks: by it, it allows nothing and denies"
        );
    }
    for term in aci.unanswered_terms() {
        tracing::warn!(
            aci = aci.name(),
            term,
            "an ACI has a filter that no entry can answer: by it, it allows nothing and denies"
        );
    }
}

/// Refuses an ACI that is none, or that the entry `holder` cannot hold.
pub(crate) fn check(schema: &Schema, holder: &DnKey, value: &[u8]) -> Result<(), Refusal> {
    let refuse =
        |why: String| Refusal::new(ResultCode::InvalidAttributeSyntax, format!("aci: {why}"));
    let text = std::str::from_utf8(value).map_err(|_| refuse("is not UTF-8".to_owned()))?;
    let aci = Aci::parse(text, schema).map_err(|error| refuse(error.to_string()))?;
    warn_of(&aci);
    aci.check_holder(holder).map_err(|error| refuse(error.to_string()))
}

/// Refuses new values of an ACI under an option: they would be in force where nobody looks.
pub(crate) fn check_description(
    schema: &Schema,
    description: &AttributeDescription,
) -> Result<(), Refusal> {
    match schema.well_known().aci.covers(description) && !description.options().is_empty() {
        false => Ok(()),
        true => Err(Refusal::new(
            ResultCode::ConstraintViolation,
            format!("'{}': an ACI has no options", description.text()),
        )),
    }
}

/// Refuses an entry with an ACI that is none. Looks at the same values as those that are in force.
pub(crate) fn check_entry(schema: &Schema, entry: &Entry) -> Result<(), Refusal> {
    let mut holder = None;
    let mut checked = Ok(());
    entry.visit_values(&schema.well_known().aci, &mut |_, value| {
        let holder =
            holder.get_or_insert_with(|| DnKey::from_dn(schema, entry.name()).unwrap_or_default());
        checked = check(schema, holder, value);
        checked.is_ok()
    });
    checked
}

#[cfg(test)]
mod tests;
