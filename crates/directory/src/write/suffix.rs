//! The entry at the top of a new naming context.

use aci::{GlobalAcis, Identity, Permitted};
use environment::{Chance, Clock, random_uuid};
use ldap::dn::Dn;
use schema::{
    AddChange, Change, ClassKind, DnKey, Entry, EntryError, EntryId, Schema, SettingChange,
};
use store::Store;

use crate::access::acis::{self, GLOBAL_ACI};
use crate::error::DirectoryError;
use crate::write::delta;
use crate::write::stamp::{Stamper, stamp_new};

/// Makes the entry of a suffix from its name, with the types that come with the server.
///
/// # Errors
/// When it begins with a type that no class is known for.
pub fn of_name(dn: &Dn) -> Result<Entry, DirectoryError> {
    entry(dn, &Schema::builtin())
}

/// Makes the entry of a suffix from its name: which class depends on the type of its first RDN.
pub(crate) fn entry(dn: &Dn, schema: &Schema) -> Result<Entry, DirectoryError> {
    let bad = |reason: &str| DirectoryError::Name { text: dn.to_string(), reason: reason.into() };
    DnKey::from_dn(schema, dn).map_err(|error| bad(&error.to_string()))?;
    let rdn = dn.rdns().first().ok_or_else(|| bad("the empty name is that of the root DSE"))?;
    let [ava] = rdn.avas() else {
        return Err(bad("the first RDN of a suffix must have one value"));
    };
    let kind = schema.attribute_type(&ava.attribute).ok_or_else(|| bad("unknown attribute"))?;
    let (_, classes) = CLASSES
        .iter()
        .find(|(name, _)| *name == kind.name())
        .ok_or_else(|| bad("a suffix begins with dc, o, ou, c, l, st or cn"))?;
    let mut entry = Entry::new(dn.clone());
    let classes = classes.iter().map(|class| class.as_bytes().to_vec()).collect::<Vec<_>>();
    let broken = |error: EntryError| bad(&error.to_string());
    entry.replace_values(schema, &schema.well_known().object_class, classes).map_err(broken)?;
    let mut put = |name: &str, value: &[u8]| {
        let description = schema.describe(name)?;
        entry.replace_values(schema, &description, vec![value.to_vec()])
    };
    put(kind.name(), &ava.value).map_err(broken)?;
    if kind.name() == "dc" {
        // The class domain would do; most trees have an organization at their top.
        put("o", &ava.value).map_err(broken)?;
    }
    Ok(entry)
}

/// Adds the suffix entries to a store that was just created, and the global ACIs, unless they are
/// those that hold without any.
pub(crate) fn add_all(
    store: &Store,
    entries: Vec<Entry>,
    acis: GlobalAcis,
    clock: &dyn Clock,
    chance: &mut dyn Chance,
) -> Result<(), DirectoryError> {
    let schema = Schema::builtin();
    let mut stamper = Stamper::default();
    let mut batch = store.begin()?;
    for mut entry in entries {
        let key = DnKey::from_dn(&schema, entry.name()).map_err(|error| DirectoryError::Name {
            text: entry.name().to_string(),
            reason: error.to_string(),
        })?;
        let structural = entry
            .object_classes(&schema)
            .iter()
            .find(|class| class.kind == ClassKind::Structural)
            .map(|class| class.name().to_owned())
            .unwrap_or_default();
        let stamp = stamper.stamp(clock.now(), &Identity::Anonymous);
        stamp_new(&mut entry, &schema, &stamp, &random_uuid(chance), &structural).map_err(
            |error| DirectoryError::Name {
                text: entry.name().to_string(),
                reason: error.to_string(),
            },
        )?;
        let change = Permitted::internal(Change::Add(AddChange {
            id: batch.next_entry_id(),
            parent: EntryId::ROOT,
            key: delta::name_key(&key, EntryId::ROOT),
            entry,
        }));
        batch.apply(change.get())?;
    }
    if acis != GlobalAcis::default() {
        let (name, values) = (GLOBAL_ACI.to_owned(), acis::texts(acis));
        let change = Permitted::internal(Change::Setting(SettingChange { name, values }));
        batch.apply(change.get())?;
    }
    batch.commit()?;
    Ok(())
}

/// Object classes of a suffix entry, by the attribute type of its name.
const CLASSES: &[(&str, &[&str])] = &[
    ("dc", &["top", "organization", "dcObject"]),
    ("o", &["top", "organization"]),
    ("ou", &["top", "organizationalUnit"]),
    ("c", &["top", "country"]),
    ("l", &["top", "locality"]),
    ("st", &["top", "locality"]),
    ("cn", &["top", "namedObject"]),
];
