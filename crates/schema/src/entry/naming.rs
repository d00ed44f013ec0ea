//! The values that an entry has by its name (RFC 4512 §2.3).
//!
//! Invariant: the values of an attribute are gone through once, however many of them an RDN has.

use std::sync::Arc;

use super::{Entry, EntryError, value_key, write_value_key};
use crate::description::AttributeDescription;
use crate::schema::Schema;

/// A value, and the attribute that it is of.
type Naming<'v> = (Arc<AttributeDescription>, &'v [u8]);

impl Entry {
    /// Adds the values of the RDN that are missing: an Add request need not repeat them
    /// (RFC 4511 §4.7).
    pub fn add_naming_values(&mut self, schema: &Schema) -> Result<(), EntryError> {
        let mut added: Vec<(Arc<AttributeDescription>, Vec<u8>, Vec<u8>)> = Vec::new();
        for (description, value) in self.missing_naming_values(schema)? {
            let key = value_key(schema, &description, value);
            if !added.iter().any(|(of, known, _)| *of == description && *known == key) {
                added.push((description, key, value.to_vec()));
            }
        }
        for (description, _, value) in added {
            // It was compared with those that are there.
            match self.attributes.iter_mut().find(|one| one.description == description) {
                Some(attribute) => attribute.values.push(value),
                None => self.add_values(schema, &description, [value])?,
            }
        }
        Ok(())
    }

    /// The values of the RDN that are missing.
    pub(crate) fn missing_naming_values(
        &self,
        schema: &Schema,
    ) -> Result<Vec<Naming<'_>>, EntryError> {
        let avas = self.name().rdns().first().into_iter().flat_map(|rdn| rdn.avas());
        let naming = avas.map(|ava| Ok((schema.describe(&ava.attribute)?, &*ava.value)));
        Ok(self.missing_values(schema, naming.collect::<Result<_, EntryError>>()?))
    }

    /// Those of some values that match none of the entry's.
    pub fn missing_values<'v>(
        &self,
        schema: &Schema,
        mut asked: Vec<Naming<'v>>,
    ) -> Vec<Naming<'v>> {
        // What is the same octet by octet matches, whatever the rule: the usual case.
        asked.retain(|(description, value)| {
            !self.values(description).iter().any(|own| own == value)
        });
        let mut missing = Vec::with_capacity(asked.len());
        while let Some((description, _)) = asked.first().cloned() {
            let is_of_it = |(other, _): &Naming<'v>| *other == description;
            let own = asked.extract_if(.., |one| is_of_it(one));
            let mut own: Vec<_> =
                own.map(|(_, value)| (value_key(schema, &description, value), value)).collect();
            let mut key = Vec::new();
            for value in self.values(&description) {
                if own.is_empty() {
                    break;
                }
                write_value_key(schema, &description, value, &mut key);
                own.retain(|(asked, _)| *asked != key);
            }
            missing.extend(own.into_iter().map(|(_, value)| (Arc::clone(&description), value)));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;

    use super::*;

    #[test]
    fn values_of_the_name_that_are_there_in_any_spelling_are_not_missing() {
        let schema = Schema::builtin();
        let check = |name: &str, pairs: &[(&str, &str)], missing: &[&str], all: usize| {
            let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
            let name = Dn::parse(name).unwrap();
            let mut entry = Entry::from_pairs(name, pairs, &schema).unwrap();
            let found = entry.missing_naming_values(&schema).unwrap();
            let found = found.iter().map(|(of, value)| format!("{of}={}", value.escape_ascii()));
            assert_eq!(found.collect::<Vec<_>>(), missing);
            entry.add_naming_values(&schema).unwrap();
            assert!(entry.missing_naming_values(&schema).unwrap().is_empty());
            assert_eq!(entry.attributes().iter().map(|one| one.values.len()).sum::<usize>(), all);
        };
        check("cn=a,dc=x", &[("cn", "a")], &[], 1);
        check("cn=a,dc=x", &[("cn", "b"), ("cn", "A")], &[], 2);
        check("cn=a,dc=x", &[("cn", "b")], &["cn=a"], 2);
        check("cn=a+sn=b+cn=c+cn=D,dc=x", &[("cn", "C"), ("sn", "b")], &["cn=a", "cn=D"], 4);
        check("cn=a+sn=b,dc=x", &[], &["cn=a", "sn=b"], 2);
        check("cn=a+cn=A+cn=b,dc=x", &[("cn", "c")], &["cn=a", "cn=A", "cn=b"], 3);
        check("dc=x", &[("cn", "a")], &["dc=x"], 2);
    }
}
