//! Changes: what was decided, as effects.
//!
//! A change says everything that applying it needs, so that the store's `apply` is a function of
//! the store and the change alone: no clock, no chance, no schema decision is left in it.

use std::sync::Arc;

use ldap::dn::{Dn, Rdn};

use crate::description::AttributeDescription;
use crate::dn_key::RdnKey;
use crate::entry::{Attribute, Entry};

/// The number of an entry; never used again after the entry is gone.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EntryId(pub u64);

impl EntryId {
    /// The parent of every naming context; no entry has it.
    pub const ROOT: Self = Self(0);
}

/// One change of the directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// A new entry.
    Add(AddChange),
    /// Other values in an entry.
    Modify(ModifyChange),
    /// Another name for an entry, and by that for its subordinates.
    Rename(RenameChange),
    /// One entry less.
    Delete(DeleteChange),
    /// Other definitions in the schema.
    Schema(SchemaChange),
    /// Other indexes.
    Index(IndexChange),
    /// Another value of a setting.
    Setting(SettingChange),
    /// Values that name entries are kept by number from now on.
    Gather(GatherChange),
    /// Records of this level may follow: whoever reads less stops at them.
    Level(u16),
}

impl Change {
    /// The deletion of an entry, if it is one.
    #[must_use]
    pub const fn as_delete(&self) -> Option<&DeleteChange> {
        match self {
            Self::Delete(delete) => Some(delete),
            Self::Add(_)
            | Self::Modify(_)
            | Self::Rename(_)
            | Self::Schema(_)
            | Self::Index(_)
            | Self::Setting(_)
            | Self::Gather(_)
            | Self::Level(_) => None,
        }
    }
}

/// Adds an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddChange {
    /// Its number.
    pub id: EntryId,
    /// Its superior, [`EntryId::ROOT`] for a naming context.
    pub parent: EntryId,
    /// Its name below the superior; see [`RdnKey::of_naming_context`] for a naming context.
    pub key: RdnKey,
    /// Everything it holds, operational attributes included.
    pub entry: Entry,
}

/// Changes the values of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModifyChange {
    /// The entry.
    pub id: EntryId,
    /// Its name, for those who read the change without the store.
    pub dn: Dn,
    /// What changes.
    pub deltas: Vec<AttributeDelta>,
}

/// What one attribute loses and gains; removing comes first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttributeDelta {
    /// The attribute.
    pub description: Arc<AttributeDescription>,
    /// Values as they are stored.
    pub removed: Vec<Vec<u8>>,
    /// Values to store, after those that stay.
    pub added: Vec<Vec<u8>>,
}

/// Gives an entry another name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RenameChange {
    /// The entry.
    pub id: EntryId,
    /// The name it had.
    pub old_dn: Dn,
    /// Its superior from now on, which may be the one it had.
    pub new_parent: EntryId,
    /// Its name from now on.
    pub new_dn: Dn,
    /// The leaf of the new name.
    pub new_rdn: Rdn,
    /// The new name below the superior.
    pub key: RdnKey,
    /// What changes in the entry itself: naming values, stamps.
    pub deltas: Vec<AttributeDelta>,
}

impl RenameChange {
    /// Whether values of the old name left the entry.
    pub fn deletes_old_rdn(&self) -> bool {
        let old = self.old_dn.rdns().first();
        let mut values = old.iter().flat_map(|rdn| rdn.avas()).map(|ava| &ava.value);
        values.any(|value| self.deltas.iter().any(|delta| delta.removed.contains(value)))
    }
}

/// Removes an entry without subordinates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeleteChange {
    /// The entry.
    pub id: EntryId,
    /// The name it had.
    pub dn: Dn,
    /// What it held, for those who read the change later (feeds, undelete); applying the change
    /// does not look at it. Empty when whoever decided did not keep it.
    pub attributes: Vec<Attribute>,
}

/// Has values of an entry that name others kept by number. They stay what they are, and follow what
/// they name from then on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GatherChange {
    /// The entry.
    pub id: EntryId,
    /// Its name, for those who read the change without the store.
    pub dn: Dn,
    /// Which attributes.
    pub attributes: Vec<Arc<AttributeDescription>>,
    /// So many values of each at the most; the others stay as they are.
    pub values_max: u64,
}

/// Changes the schema; each definition as a line, `attributeTypes: ( 1.2.3 NAME 'x' … )`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaChange {
    /// New definitions, and those that replace one of the same OID.
    pub added: Vec<String>,
    /// Definitions that go.
    pub removed: Vec<String>,
}

/// Changes which indexes there are; each definition as a line, such as `substring cn`.
///
/// What the indexes hold is not in the change: each server builds and removes its own, beside all
/// else that it does.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IndexChange {
    /// New definitions. One that is there already is built anew, and serves until then.
    pub added: Vec<String>,
    /// Definitions that go; all of these before any comes.
    pub removed: Vec<String>,
}

/// Gives a setting of the whole directory its values.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SettingChange {
    /// Which setting: a word of letters and `-`.
    pub name: String,
    /// All that it has from now on, in their order; without any it is not set.
    pub values: Vec<String>,
}
