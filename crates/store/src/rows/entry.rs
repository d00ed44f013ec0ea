//! Stored entries: read in place, from the memory map; one that is compressed holds its attributes
//! itself.

use std::cell::OnceCell;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::message::Values;
use schema::{Attribute, AttributeDescription, Entry, EntryId, EntryRead, Families, Schema};

use crate::base::lmdb::ENTRIES;
use crate::error::StoreError;
use crate::rows::dictionary::{Asked, Dictionary};
use crate::rows::record::{Record, RecordHead};

/// An entry as it is in the store; borrows from the view it was read in.
#[derive(Debug)]
pub struct StoredEntry<'v> {
    id: EntryId,
    parent: u64,
    rdn: &'v str,
    attributes: Attributes<'v>,
    superior: Arc<str>,
    dn: OnceCell<String>,
    /// The families of all its attributes, once somebody has looked at each: a bind asks for
    /// dozens that an entry seldom has.
    families: OnceCell<Families>,
    dictionary: &'v Dictionary,
}

/// Whether the attributes of a record were read through before, as they are at this commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsChecked(pub(crate) bool);

/// The attributes of a record that was read.
#[derive(Debug)]
enum Attributes<'v> {
    Mapped(&'v [u8]),
    Decompressed(Vec<u8>),
}

impl<'v> StoredEntry<'v> {
    /// Reads a record whose superior has this name.
    #[inline]
    pub(crate) fn new(
        id: EntryId,
        head: &RecordHead<'v>,
        is_checked: IsChecked,
        superior: Arc<str>,
        dictionary: &'v Dictionary,
    ) -> Result<Self, &'static str> {
        let plain = match is_checked {
            IsChecked(true) => head.plain_attributes(),
            IsChecked(false) => head.plain(dictionary.len())?,
        };
        let attributes = match plain {
            Some(attributes) => Attributes::Mapped(attributes),
            None => {
                let mut buffer = Vec::new();
                head.attributes(dictionary, &mut buffer)?;
                Attributes::Decompressed(buffer)
            }
        };
        let (parent, rdn) = (head.parent, head.rdn);
        let (dn, families) = (OnceCell::new(), OnceCell::new());
        Ok(Self { id, parent, rdn, attributes, superior, dn, families, dictionary })
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        let attributes = match &self.attributes {
            Attributes::Mapped(attributes) => attributes,
            Attributes::Decompressed(attributes) => attributes.as_slice(),
        };
        Record::of_parts(self.parent, self.rdn, attributes)
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> EntryId {
        self.id
    }

    /// Its superior; [`EntryId::ROOT`] of a naming context.
    #[must_use]
    pub const fn parent(&self) -> EntryId {
        EntryId(self.parent)
    }

    /// The leaf of its name, as it was sent; of a naming context the whole DN.
    #[must_use]
    pub const fn rdn(&self) -> &'v str {
        self.rdn
    }

    /// The name of its superior; empty for a naming context. With [`Self::rdn`] it makes the DN
    /// without allocating.
    #[must_use]
    pub fn superior_dn(&self) -> &str {
        &self.superior
    }

    /// The values of the attribute with exactly this description.
    #[must_use]
    pub fn values(&self, description: &AttributeDescription) -> Values<'_> {
        self.dictionary.id(description).map_or(Values::EMPTY, |id| self.record().values(id))
    }

    /// The attributes, in the order they were added.
    pub fn attributes(&self) -> impl Iterator<Item = (&'v Arc<AttributeDescription>, Values<'_>)> {
        let dictionary = self.dictionary;
        self.record()
            .attributes()
            .filter_map(move |(id, values)| Some((dictionary.description(id)?, values)))
    }

    /// A copy to work on.
    pub fn to_entry(&self) -> Result<Entry, StoreError> {
        let name = Dn::parse_stored(self.dn()).map_err(|error| {
            StoreError::corrupt(ENTRIES, self.id.0, format!("has a name that is none: {error}"))
        })?;
        let attributes = self.attributes().map(|(description, values)| Attribute {
            description: Arc::clone(description),
            values: values.iter().map(<[u8]>::to_vec).collect(),
        });
        Ok(Entry::from_stored(name, attributes.collect()))
    }
}

/// Whether an attribute tells the groups or roles of an entry, which are computed from others.
fn tells_groups(asked: &AttributeDescription, schema: &Schema) -> bool {
    let known = schema.well_known();
    let all = [&known.is_member_of, &known.member_of, &known.is_direct_member_of, &known.ns_role];
    all.into_iter().any(|one| asked.covers(one))
}

impl EntryRead for StoredEntry<'_> {
    fn dn(&self) -> &str {
        if self.superior.is_empty() {
            return self.rdn;
        }
        self.dn.get_or_init(|| join(self.rdn, &self.superior))
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        // The name of a naming context is in one piece.
        (!self.superior.is_empty()).then_some((self.rdn, &*self.superior))
    }

    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        // What is stored does not tell: an assertion about them is Undefined here, and so is its
        // opposite.
        if asked.is_operational() && tells_groups(asked, self.dictionary.schema()) {
            return false;
        }
        let asked = Asked::new(asked);
        if self.families.get().is_some_and(|&families| !asked.may_be_in(families)) {
            return true;
        }
        let mut families = 0;
        for (id, values) in self.record().attributes() {
            families |= self.dictionary.families(id);
            if self.dictionary.is_covered(id, &asked)
                && let Some(description) = self.dictionary.description(id)
                && !values.iter().all(|value| visit(description, value))
            {
                return true;
            }
        }
        // All of them were looked at.
        let _ = self.families.set(families);
        true
    }

    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.attributes().for_each(|(description, values)| visit(description, values));
    }
}

/// The DN of the entry `rdn` below `superior`.
pub(crate) fn join(rdn: &str, superior: &str) -> String {
    if superior.is_empty() {
        return rdn.to_owned();
    }
    let mut dn = String::with_capacity(rdn.len() + 1 + superior.len());
    dn.push_str(rdn);
    dn.push(',');
    dn.push_str(superior);
    dn
}
