//! Entries made one after the other of descriptions and values, most of which are alike: what the
//! descriptions of the last one meant need not be found out again, and its memory is used again.
//!
//! Invariant: a maker makes what [`Entry::from_pairs`] makes, and refuses what it refuses.

use std::sync::Arc;

use ldap::dn::{DN_LENGTH_MAX_BYTES, Dn, DnError, Rdn};

use crate::description::AttributeDescription;
use crate::entry::{Attribute, Entry, EntryError, differ};
use crate::schema::Schema;

/// Makes the entries of an LDIF file; one for each thread.
#[derive(Debug)]
pub struct EntryMaker {
    schema: Arc<Schema>,
    /// The descriptions of the last entry as they were written, in order; no two mean the same.
    shape: Vec<(String, Arc<AttributeDescription>)>,
    /// What is left of an entry that is done with.
    spare: Option<Entry>,
    /// The name of that entry.
    last: Option<Dn>,
    /// The name that was read last behind its leaf, as it was written; empty where nothing is
    /// there.
    above: String,
}

impl EntryMaker {
    /// Makes entries by this schema.
    #[must_use]
    pub const fn new(schema: Arc<Schema>) -> Self {
        Self { schema, shape: Vec::new(), spare: None, last: None, above: String::new() }
    }

    /// Reads the name of the next entry, as [`Dn::parse`] does.
    ///
    /// # Errors
    /// Those of [`Dn::parse`].
    pub fn name(&mut self, text: &str) -> Result<Dn, DnError> {
        // Where nothing is escaped or quoted, the first comma ends the leaf.
        let parts = text.split_once(',').filter(|(leaf, _)| !leaf.contains(['\\', '"']));
        if let (Some((leaf, above)), Some(last)) = (parts, self.last.take())
            && !above.is_empty()
            && *above == *self.above
            && text.len() <= DN_LENGTH_MAX_BYTES
            && let Ok(leaf) = Rdn::parse(leaf)
        {
            return Ok(last.with_leaf(leaf));
        }
        self.above.clear();
        let name = Dn::parse(text)?;
        if let Some((_, above)) = parts {
            self.above.push_str(above);
        }
        Ok(name)
    }

    /// Makes an entry, as [`Entry::from_pairs`] does.
    ///
    /// # Errors
    /// Those of [`Entry::from_pairs`].
    pub fn make<'a>(
        &mut self,
        name: Dn,
        pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Entry, EntryError> {
        let mut entry = self.spare.take().unwrap_or_else(|| Entry::new(Dn::root()));
        entry.rename(name);
        let mut made = 0;
        let mut pairs = pairs.into_iter().peekable();
        while let Some((description, value)) = pairs.next() {
            let is_same = |(next, _): &(&str, &[u8])| *next == description;
            let others = std::iter::from_fn(|| pairs.next_if(is_same)).map(|(_, value)| value);
            let values = std::iter::once(value).chain(others);
            match self.shape.get(made) {
                Some((text, known)) if text == description => {
                    put(&self.schema, &mut entry.attributes, made, known, values)?;
                    made += 1;
                }
                _ => {
                    self.shape.truncate(made);
                    entry.attributes.truncate(made);
                    let known = self.schema.describe(description)?;
                    let values = values.map(<[u8]>::to_vec);
                    entry.add_values(&self.schema, &known, values)?;
                    if entry.attributes.len() > made {
                        self.shape.push((description.to_owned(), known));
                        made += 1;
                    }
                }
            }
        }
        entry.attributes.truncate(made);
        Ok(entry)
    }

    /// Takes an entry that is done with; its name is still the one that was read last.
    pub fn recycle(&mut self, mut entry: Entry) {
        self.last = Some(entry.take_name());
        self.spare = Some(entry);
    }
}

/// Makes the attribute at a place, where there may be an old one; those before it are of this
/// entry, and others.
fn put<'a>(
    schema: &Schema,
    attributes: &mut Vec<Attribute>,
    place: usize,
    description: &Arc<AttributeDescription>,
    values: impl Iterator<Item = &'a [u8]>,
) -> Result<(), EntryError> {
    if attributes.len() <= place {
        attributes.push(Attribute { description: Arc::clone(description), values: Vec::new() });
    }
    let Some(attribute) = attributes.get_mut(place) else { return Ok(()) };
    if !Arc::ptr_eq(&attribute.description, description) {
        attribute.description = Arc::clone(description);
    }
    let own = &mut attribute.values;
    let mut count = 0;
    for value in values {
        match own.get_mut(count) {
            Some(old) => {
                old.clear();
                old.extend_from_slice(value);
            }
            None => own.push(value.to_vec()),
        }
        count += 1;
    }
    own.truncate(count);
    if count > 1 && !differ(schema, description, None, own) {
        return Err(EntryError::ValueExists(Arc::clone(description)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DESCRIPTIONS: [&str; 10] = [
        "cn",
        "CN",
        "commonName",
        "sn",
        "mail",
        "cn;lang-de",
        "unknown",
        "objectClass",
        "a b",
        "l",
    ];

    const NAMES: [&str; 18] = [
        "cn=N,dc=x",
        "cn=N,dc=x",
        "cn=N,dc=x",
        "cn=N ,dc=x",
        "cn=N,dc=y",
        "cn=N\\,dc=x,dc=x",
        "cn=N\\,dc=x",
        "cn=N",
        "",
        " ",
        "cn=N,",
        "cn=,dc=x",
        ",dc=x",
        "=N,dc=x",
        "cn=N+sn=N,dc=x",
        "cn=N+,dc=x",
        "cn=\"N,dc=x\",dc=x",
        "cn=N,dc=x\",dc=x",
    ];

    proptest! {
        #[test]
        fn a_maker_makes_what_is_made_without_one(
            records in prop::collection::vec(
                (0_u8..20, prop::collection::vec((0_usize..40, 0_u8..4), 0..8)),
                1..12,
            ),
            is_long: bool,
            is_changed: bool,
        ) {
            let schema = Schema::builtin();
            let mut maker = EntryMaker::new(Arc::clone(&schema));
            // Most records are like the one before.
            let count = if is_long { 24 } else { 5 };
            let records = records.iter().flat_map(|one| [one, one]).take(count);
            for (number, (name, record)) in records.enumerate() {
                let name = *name;
                let values: Vec<(&str, Vec<u8>)> = record.iter().map(|(description, value)| {
                    let description = DESCRIPTIONS.get(*description).unwrap_or(&"description");
                    (*description, format!("{value}{number}").into_bytes())
                }).collect();
                let pairs = || values.iter().map(|(description, value)| (*description, &**value));
                let name = NAMES.get(usize::from(name)).unwrap_or(&"");
                let name = name.replace('N', &number.to_string());
                let want = Dn::parse(&name);
                let found = maker.name(&name);
                prop_assert_eq!(&found, &want);
                let (Ok(found), Ok(want)) = (found, want) else { continue };
                let want = Entry::from_pairs(want, pairs(), &schema);
                let found = maker.make(found, pairs());
                prop_assert_eq!(&found, &want);
                if let Ok(mut entry) = found {
                    if is_changed {
                        // What is done with an entry afterwards is not in the next.
                        let l = schema.describe("l").unwrap();
                        entry.replace_values(&schema, &l, vec![b"here".to_vec()]).unwrap();
                        let cn = schema.describe("cn").unwrap();
                        let _ = entry.remove_attribute(&cn);
                    }
                    maker.recycle(entry);
                }
            }
        }
    }
}
