//! What of a change its reader may see: what the access rules of now allow of the entry that was
//! changed, as it is now, or as it was when it was deleted.
//!
//! Invariant: a change is hidden where its reader may not see the entry by every name that the
//! answer tells: that of the time of the change, and that of now. What nobody can decide any more,
//! because the entry is gone and the record does not have it, or what was above it is gone with
//! rules that it may have held, only those see whom no rules concern.

use std::collections::BTreeMap;

use environment::Timestamp;
use ldap::dn::Dn;
use ldap::message::Values;
use schema::{
    AttributeDescription, Change, DnKey, Entry, EntryRead, IndexChange, Schema, SchemaChange,
    ValueKey,
};
use store::{IndexDefinition, Resolved, StoreError, View};

use crate::access::guard::Guard;
use crate::config::index_config;
use crate::password_policy::attributes;

/// The entry that was changed, as its reader may know it.
pub(crate) struct Target {
    /// Its entryUUID, where it is known and may be.
    pub(super) uuid: Option<String>,
    /// Of each attribute that changed, whether its values may be told; none: all may.
    shown: Option<BTreeMap<String, bool>>,
    /// Whether it may be told who made the change.
    pub(super) shows_initiator: bool,
    /// Of a setting or of indexes, the entry that shows it; of a setting, by which attribute.
    pub(super) setting: Option<(String, String)>,
}

/// Who asks about a change, and when that was made.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) time: Timestamp,
    /// One for entries anywhere.
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) view: &'a View<'a>,
    pub(crate) schema: &'a Schema,
    /// The entry that the server makes of what was changed.
    pub(crate) made: Option<&'a Entry>,
    /// The attribute of that entry with a setting.
    pub(crate) attribute: &'a str,
}

impl Target {
    /// What may be seen of a change; none if that is nothing.
    ///
    /// # Errors
    /// When the entry cannot be read.
    pub(crate) fn of(change: &Change, asked: &Asked<'_>) -> Result<Option<Self>, StoreError> {
        let &Asked { guard, view, schema, .. } = asked;
        let (id, names) = match change {
            Change::Add(add) => (add.id, vec![add.entry.name()]),
            Change::Modify(modify) => (modify.id, vec![&modify.dn]),
            Change::Rename(rename) => (rename.id, vec![&rename.old_dn, &rename.new_dn]),
            Change::Delete(delete) => {
                let mut entry = Entry::new(delete.dn.clone());
                for one in &delete.attributes {
                    let values = one.values.clone();
                    // They were values of an entry.
                    let _ = entry.replace_values(schema, &one.description, values);
                }
                if !guard.is_bypassed() && !is_judged(&entry, &Moment::of(asked))? {
                    return Ok(None);
                }
                return Self::as_seen(&entry, &[&delete.dn], change, asked);
            }
            Change::Schema(change) => return Ok(Self::of_schema(change, asked)),
            Change::Setting(_) => return Ok(Self::of_setting(asked)),
            Change::Index(change) => return Ok(Self::of_index(change, asked)),
            Change::Level(_) | Change::Gather(_) => return Ok(None),
        };
        if let Some(stored) = view.entry(id)? {
            return Self::as_seen(&stored, &names, change, asked);
        }
        if let Change::Add(add) = change {
            // As it was in the beginning: it is gone, and what it became is not known here.
            return match guard.is_bypassed() {
                true => Self::as_seen(&add.entry, &names, change, asked),
                false => Ok(None),
            };
        }
        let all = Self { uuid: None, shown: None, shows_initiator: true, setting: None };
        Ok(guard.is_bypassed().then_some(all))
    }

    /// What may be seen of a change of the schema: definitions of the kinds that may be read.
    fn of_schema(change: &SchemaChange, asked: &Asked<'_>) -> Option<Self> {
        let &Asked { guard, schema, made, .. } = asked;
        let rights = guard.on(made?);
        let shows_initiator = schema.describe("modifiersName").is_ok_and(|by| rights.may_read(&by));
        let names = change.added.iter().chain(&change.removed);
        let names = names.filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
        let described = names.filter_map(|name| schema.describe(name).ok());
        let shown: BTreeMap<String, bool> =
            described.map(|one| (one.text().to_owned(), rights.may_read(&one))).collect();
        let tells = rights.may_see() && shown.values().any(|may| *may);
        let (uuid, shown, setting) = (None, Some(shown), None);
        tells.then_some(Self { uuid, shown, shows_initiator, setting })
    }

    /// What may be seen of a change of a setting: all of it, or nothing.
    fn of_setting(asked: &Asked<'_>) -> Option<Self> {
        let &Asked { guard, schema, made, attribute, .. } = asked;
        let entry = made?;
        let rights = guard.on(entry);
        let may_read = |name: &str| schema.describe(name).is_ok_and(|one| rights.may_read(&one));
        let (shows_initiator, shown) = (may_read("modifiersName"), None);
        let setting = Some((entry.name().to_string(), attribute.to_owned()));
        let tells = rights.may_see() && may_read(attribute);
        tells.then_some(Self { uuid: None, shown, shows_initiator, setting })
    }

    /// What may be seen of a change of indexes, which the entry above theirs decides: one of theirs
    /// may be gone.
    fn of_index(change: &IndexChange, asked: &Asked<'_>) -> Option<Self> {
        let definition = change.added.iter().chain(&change.removed).next()?;
        let attribute = IndexDefinition::parse(definition).ok()?.attribute;
        let told = Self::of_setting(asked)?;
        let setting = Some((index_config::entry_name(&attribute), String::new()));
        Some(Self { setting, ..told })
    }

    fn as_seen(
        entry: &dyn EntryRead,
        names: &[&Dn],
        change: &Change,
        asked: &Asked<'_>,
    ) -> Result<Option<Self>, StoreError> {
        let &Asked { time, guard, view, schema, .. } = asked;
        let description = schema.describe("entryUUID").ok();
        let mut uuid = None;
        if let Some(description) = &description {
            entry.visit_values(description, &mut |_, value| {
                uuid = std::str::from_utf8(value).ok().map(str::to_owned);
                false
            });
        }
        if guard.is_bypassed() {
            let (shown, setting) = (None, None);
            return Ok(Some(Self { uuid, shown, shows_initiator: true, setting }));
        }
        let mut shown: BTreeMap<String, bool> = BTreeMap::new();
        let (mut sees_all, mut sees_uuid) = (guard.on(entry).may_see(), true);
        let (by, mut shows_initiator) = (schema.describe("modifiersName").ok(), true);
        let mut by_name = |entry: &dyn EntryRead| {
            let rights = guard.on(entry);
            sees_all &= rights.may_see();
            sees_uuid &= description.as_ref().is_some_and(|one| rights.may_read(one));
            shows_initiator &= by.as_ref().is_some_and(|one| rights.may_read(one));
            for description in changed(change) {
                let may = shown.entry(description.text().to_owned()).or_insert(true);
                // What the schema has no more, no rule is about.
                *may &= rights.may_read(description) && schema.describe(description.text()).is_ok();
            }
        };
        by_name(entry);
        let now = DnKey::from_text(schema, entry.dn()).ok();
        let mut others = Vec::new();
        for name in names {
            let key = DnKey::from_dn(schema, name).ok();
            if key != now {
                by_name(&Named { entry, name: name.to_string() });
                others.extend(key);
            }
        }
        // A modification of which nothing is told would tell that something is hidden.
        let tells = !matches!(change, Change::Modify(_)) || shown.values().any(|may| *may);
        let (uuid, shown) = (uuid.filter(|_| sees_uuid), Some(shown));
        if !sees_all || !tells {
            return Ok(None);
        }
        // By a name of before it is judged only where that means what it meant.
        for key in &others {
            if !are_above_unchanged(key, &Moment { time, view, schema, gone: &|_| false })? {
                return Ok(None);
            }
        }
        Ok(Some(Self { uuid, shown, shows_initiator, setting: None }))
    }

    /// Takes away what is not `wanted`; whether anything is left to tell.
    pub(crate) fn narrow(
        &mut self,
        change: &Change,
        wanted: &dyn Fn(&AttributeDescription) -> bool,
    ) -> bool {
        let mut narrowed = BTreeMap::new();
        for description in changed(change) {
            narrowed.insert(
                description.text().to_owned(),
                self.shows(description) && wanted(description),
            );
        }
        // A modification of which nothing is told would tell that something is hidden.
        let tells = !matches!(change, Change::Modify(_)) || narrowed.values().any(|may| *may);
        self.shown = Some(narrowed);
        tells
    }

    /// Whether values of an attribute may be told.
    pub(super) fn shows(&self, description: &AttributeDescription) -> bool {
        let Some(shown) = &self.shown else { return true };
        shown.get(description.text()) == Some(&true)
    }
}

/// When a change was made, and the directory of now.
pub(crate) struct Moment<'a> {
    pub(crate) time: Timestamp,
    pub(crate) view: &'a View<'a>,
    pub(crate) schema: &'a Schema,
    /// Whether an entry went with the change, and held no rules.
    pub(crate) gone: &'a dyn Fn(&DnKey) -> bool,
}

impl<'a> Moment<'a> {
    fn of(asked: &Asked<'a>) -> Self {
        let &Asked { time, view, schema, .. } = asked;
        Self { time, view, schema, gone: &|_| false }
    }
}

/// Whether the rules of now say what they said of an entry that was deleted at a moment: rules that
/// it held, or that were kept above it in what is gone, hold no more.
pub(crate) fn is_judged(entry: &Entry, moment: &Moment<'_>) -> Result<bool, StoreError> {
    let schema = moment.schema;
    let has = |name: &str| schema.describe(name).is_ok_and(|one| !entry.values(&one).is_empty());
    // Without attributes rules about them would not hold.
    if entry.attributes().is_empty() || has("aci") {
        return Ok(false);
    }
    match DnKey::from_dn(schema, entry.name()) {
        Ok(key) => are_above_unchanged(&key, moment),
        Err(_) => Ok(false),
    }
}

/// Whether all entries above a name are there and were not changed since a moment: else others may
/// have their names, or rules that they held are gone.
pub(crate) fn are_above_unchanged(key: &DnKey, moment: &Moment<'_>) -> Result<bool, StoreError> {
    let &Moment { time, view, schema, gone } = moment;
    // Its naming context was dropped or renamed: the rules that were there are gone, too.
    if matches!(view.resolve(key)?, Resolved::NoContext) {
        return Ok(false);
    }
    let mut key = key.clone();
    while let Some(above) = key.parent().filter(|above| !above.is_root()) {
        if gone(&above) {
            key = above;
            continue;
        }
        let id = match view.resolve(&above)? {
            Resolved::Found(id) => id,
            // Above the naming context there is nothing.
            Resolved::NoContext => return Ok(true),
            Resolved::Missing { .. } => return Ok(false),
        };
        let Some(entry) = view.entry(id)? else { return Ok(false) };
        if !is_older(&entry, time, schema) {
            return Ok(false);
        }
        key = above;
    }
    Ok(true)
}

/// Whether an entry was neither made nor changed after `time`: its `entryCSN` says so.
fn is_older(entry: &dyn EntryRead, time: Timestamp, schema: &Schema) -> bool {
    let mut is_older = false;
    entry.visit_values(&schema.well_known().entry_csn, &mut |_, value| {
        let moment = std::str::from_utf8(value).ok().and_then(|csn| csn.split('#').next());
        is_older = moment.and_then(attributes::time).is_some_and(|changed| changed <= time);
        false
    });
    is_older
}

/// The attributes that a change is about.
fn changed(change: &Change) -> Vec<&AttributeDescription> {
    match change {
        Change::Add(add) => add.entry.attributes().iter().map(|one| &*one.description).collect(),
        Change::Delete(delete) => delete.attributes.iter().map(|one| &*one.description).collect(),
        Change::Modify(modify) => modify.deltas.iter().map(|one| &*one.description).collect(),
        Change::Rename(rename) => rename.deltas.iter().map(|one| &*one.description).collect(),
        Change::Schema(_)
        | Change::Index(_)
        | Change::Setting(_)
        | Change::Level(_)
        | Change::Gather(_) => Vec::new(),
    }
}

/// An entry by a name that it had.
struct Named<'e> {
    entry: &'e dyn EntryRead,
    name: String,
}

impl EntryRead for Named<'_> {
    fn dn(&self) -> &str {
        &self.name
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.entry.visit_matching(asked, only, visit)
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        self.entry.visit_wanted(wants, visit);
    }
}
