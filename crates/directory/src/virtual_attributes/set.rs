//! All virtual attributes of a directory.
//!
//! Invariant: the set is that of the directory as the last change left it: it is read at start, and
//! every change that touches a definition, or the name of one, has it read again before it is
//! visible. Where there is none, a question costs one look.

use std::collections::BTreeSet;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use schema::{
    AttributeDescription, Change, DnKey, Entry, EntryId, EntryRead, ResolvedFilter, Schema,
};
use store::{Ask, StoreError, View};

use super::definition::{DEFINITIONS_MAX, Definition};
use super::text::{VIRTUAL_ATTRIBUTES, VirtualAttribute};
use super::{collective, service};
use crate::read::subentry::Subentries;
use crate::request::refusal::Refusal;

/// All of them.
#[derive(Default)]
pub(crate) struct VirtualAttributes {
    /// The entries with definitions.
    holders: BTreeSet<DnKey>,
    /// By attribute.
    attributes: Vec<Attribute>,
    /// There are collective ones.
    has_collective: bool,
    /// What plans are told of subtrees and subentries by.
    known: Option<Known>,
}

/// Terms of plans.
pub(super) struct Known {
    pub(super) entry_dn: Arc<AttributeDescription>,
    pub(super) subentries: ResolvedFilter,
}

/// An attribute that may be given.
pub(crate) struct Attribute {
    pub(crate) description: Arc<AttributeDescription>,
    /// In the order in which they count.
    pub(crate) definitions: Vec<Definition>,
}

impl VirtualAttributes {
    /// Reads all.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn read(view: &View<'_>, schema: &Schema) -> Result<Self, StoreError> {
        let known = Known {
            entry_dn: Arc::clone(&schema.well_known().entry_dn),
            subentries: Subentries::new(schema).filter().clone(),
        };
        let mut found = Self { known: Some(known), ..Self::default() };
        let mut all = Vec::new();
        for text in view.setting(VIRTUAL_ATTRIBUTES)? {
            match VirtualAttribute::parse(&text, schema) {
                Ok(line) => all.push(line.definition),
                Err(error) => {
                    tracing::warn!(text, %error, "a virtual attribute gives nothing any more");
                }
            }
        }
        let classes = service::CLASSES.iter().map(|(name, ..)| *name).chain([collective::CLASS]);
        let classes = classes.map(|name| format!("(objectClass={name})")).collect::<String>();
        let filter = Filter::parse(&format!("(|{classes})")).map_or_else(
            |_| ResolvedFilter::Undefined,
            |text| ResolvedFilter::resolve(&text, schema),
        );
        let plan = view.plan(&Ask::new(&filter, EntryId::ROOT, Scope::Subtree))?;
        for entry in plan.entries(view, EntryId::ROOT) {
            let entry = entry?;
            let Some(read) = definitions_of(&entry, schema) else { continue };
            if all.len() >= DEFINITIONS_MAX {
                let most = DEFINITIONS_MAX;
                tracing::error!(most, "there are more virtual attributes: they give nothing");
                break;
            }
            found.holders.extend(key(&entry, schema));
            match read {
                Ok(definitions) => all.extend(definitions),
                Err(error) => {
                    let subentry = entry.dn();
                    tracing::error!(subentry, error, "collective attributes are shared by nobody");
                }
            }
        }
        found.has_collective = all.iter().any(|one| one.subentry.is_some());
        for definition in all {
            let is_its = |one: &&mut Attribute| one.description == definition.description;
            match found.attributes.iter_mut().find(is_its) {
                Some(attribute) => attribute.definitions.push(definition),
                None => found.attributes.push(Attribute {
                    description: Arc::clone(&definition.description),
                    definitions: vec![definition],
                }),
            }
        }
        Ok(found)
    }

    /// Those after these changes; none when they stay as they are. `view` has the changes.
    pub(crate) fn after<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
        view: &View<'_>,
    ) -> Result<Option<Self>, StoreError> {
        let schema = view.schema();
        let is_touched = changes.into_iter().any(|change| self.is_touched(change, schema));
        is_touched.then(|| Self::read(view, schema)).transpose()
    }

    fn is_touched(&self, change: &Change, schema: &Schema) -> bool {
        let holds = |dn: &Dn| {
            !self.holders.is_empty()
                && DnKey::from_dn(schema, dn).is_ok_and(|key| self.holders.contains(&key))
        };
        match change {
            Change::Add(add) => is_holder(&add.entry, schema),
            Change::Modify(modify) => {
                let object_class = &schema.well_known().object_class;
                let mut classes =
                    modify.deltas.iter().filter(|delta| delta.description == *object_class);
                classes.any(|delta| delta.added.iter().any(|value| is_class(value)))
                    || holds(&modify.dn)
            }
            Change::Rename(rename) => {
                !self.holders.is_empty()
                    && DnKey::from_dn(schema, &rename.old_dn)
                        .is_ok_and(|old| self.holders.iter().any(|one| one.is_within(&old)))
            }
            Change::Delete(delete) => holds(&delete.dn),
            Change::Setting(setting) => setting.name == VIRTUAL_ATTRIBUTES,
            Change::Schema(_) => true,
            Change::Index(_) | Change::Gather(_) | Change::Level(_) => false,
        }
    }

    /// Whether an entry with definitions is at or below this name.
    pub(crate) fn holds_within(&self, base: &DnKey) -> bool {
        self.holders.range::<DnKey, _>(base..).next().is_some_and(|one| one.is_within(base))
    }

    /// Whether a rename has definitions be about other entries than they say now: one of them, or
    /// a name in one, is at or below the old or the new name.
    pub(crate) fn are_of_rename(&self, old: &DnKey, new: &DnKey) -> bool {
        let mut all = self.attributes.iter().flat_map(|one| &one.definitions);
        self.holds_within(old) || all.any(|one| one.area.is_of_rename(old, new))
    }

    /// Whether nothing is given.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    pub(super) fn known(&self) -> Option<&Known> {
        self.known.as_ref()
    }

    /// All attributes that may be given.
    pub(crate) fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Whether entries share attributes of subentries.
    pub(crate) fn has_collective(&self) -> bool {
        self.has_collective
    }

    /// Whether asking for an attribute may get one that is given.
    pub(crate) fn may_give(&self, asked: &AttributeDescription) -> bool {
        self.attributes.iter().any(|one| asked.covers(&one.description))
            || (self.has_collective && asked.kind.is_named(SUBENTRIES))
    }
}

/// What names the subentries whose attributes an entry shares.
const SUBENTRIES: &str = "collectiveAttributeSubentries";

fn key(entry: &dyn EntryRead, schema: &Schema) -> Option<DnKey> {
    let name = Dn::parse_stored(entry.dn()).ok()?;
    DnKey::from_dn(schema, &name).ok()
}

/// Whether an entry has definitions.
pub(crate) fn is_holder(entry: &dyn EntryRead, schema: &Schema) -> bool {
    let mut found = false;
    entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
        found = is_class(value);
        !found
    });
    found
}

/// Whether a value of `objectClass` makes an entry one that has definitions.
pub(crate) fn is_class(value: &[u8]) -> bool {
    collective::is_class(value) || service::kind_of_class(value).is_some()
}

/// What an entry defines, if it is one that defines anything; why it does not.
fn definitions_of(
    entry: &dyn EntryRead,
    schema: &Schema,
) -> Option<Result<Vec<Definition>, String>> {
    let (mut kind, mut is_collective) = (None, false);
    entry.visit_values(&schema.well_known().object_class, &mut |_, value| {
        is_collective |= collective::is_class(value);
        kind = kind.or(service::kind_of_class(value));
        true
    });
    match kind {
        Some(kind) => Some(Ok(service::read(entry, kind, schema))),
        None if is_collective => {
            Some(collective::read(entry, schema).map_err(|fault| fault.to_string()))
        }
        None => None,
    }
}

/// Refuses a subentry whose subtree cannot be understood: nobody would share its attributes.
pub(crate) fn check_entry(schema: &Schema, entry: &Entry) -> Result<(), Refusal> {
    match is_holder(entry, schema).then(|| definitions_of(entry, schema)).flatten() {
        Some(Err(why)) => Err(Refusal::new(ResultCode::ConstraintViolation, why)),
        Some(Ok(_)) | None => Ok(()),
    }
}
