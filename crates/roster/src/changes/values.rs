//! What changes did to values, taken together: what went and what came.

use std::collections::BTreeMap;
use std::sync::Arc;

use ldap::message::ModifyOperation;
use schema::Schema;

use super::{ToldChange, is_server_set};
use crate::failure::Failure;

/// Compares values as servers do, as far as the standard schema tells.
#[derive(Clone)]
pub(crate) struct ValueRules {
    schema: Arc<Schema>,
}

/// What became of the values of an attribute.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Values {
    /// Values of before that are gone.
    pub(crate) removed: Vec<Vec<u8>>,
    /// Values that were not there before.
    pub(crate) added: Vec<Vec<u8>>,
}

/// What became of the values of an entry, without those that only servers set.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) attributes: BTreeMap<String, Values>,
    pub(crate) rules: ValueRules,
}

impl ValueRules {
    pub(crate) fn new() -> Self {
        Self { schema: Schema::builtin() }
    }

    /// Whether two values of an attribute are the same one.
    pub(crate) fn are_same(&self, attribute: &str, one: &[u8], other: &[u8]) -> bool {
        one == other || self.key(attribute, one) == self.key(attribute, other)
    }

    fn key(&self, attribute: &str, value: &[u8]) -> Vec<u8> {
        let rule = self.schema.describe(attribute).ok().and_then(|one| one.kind.equality);
        let mut key = Vec::new();
        match rule.map(|rule| (rule.prepare)(&self.schema, value, &mut key)) {
            Some(Ok(_)) => key,
            Some(Err(_)) | None => value.to_vec(),
        }
    }

    /// Whether an attribute has one value at most.
    pub(crate) fn is_single(&self, attribute: &str) -> bool {
        self.schema.describe(attribute).is_ok_and(|one| one.kind.single_value)
    }

    /// Whether only servers set an attribute.
    pub(crate) fn is_server_set(&self, attribute: &str) -> bool {
        let described = self.schema.describe(attribute);
        is_server_set(attribute) || described.is_ok_and(|one| one.kind.no_user_modification)
    }
}

impl Net {
    /// Nothing yet.
    pub(crate) fn none() -> Self {
        Self { attributes: BTreeMap::new(), rules: ValueRules::new() }
    }

    /// What one change did.
    ///
    /// # Errors
    /// When it does not tell the values of before.
    pub(crate) fn of(change: &ToldChange) -> Result<Self, Failure> {
        let mut net = Self::none();
        net.put(change)?;
        Ok(net)
    }

    /// Takes what a further change did to what is known.
    ///
    /// # Errors
    /// When it does not tell the values of before.
    pub(crate) fn put(&mut self, change: &ToldChange) -> Result<(), Failure> {
        let rules = self.rules.clone();
        for delta in change.deltas() {
            if rules.is_server_set(&delta.attribute) {
                continue;
            }
            let name = delta.attribute;
            let is_untold = delta.operation == ModifyOperation::Delete && delta.values.is_empty();
            let values = self.attributes.entry(name.clone()).or_default();
            match delta.operation {
                ModifyOperation::Add => values.come(&rules, &name, delta.values),
                ModifyOperation::Delete if !is_untold => values.go(&rules, &name, delta.values),
                ModifyOperation::Delete | ModifyOperation::Replace | ModifyOperation::Increment => {
                    return Err(Failure::refused(format!(
                        "change {} does not tell which values of '{name}' {} had before it",
                        change.number, change.dn
                    ))
                    .hint("roster tells them; other servers tell only the new values"));
                }
            }
        }
        self.attributes.retain(|_, one| !one.removed.is_empty() || !one.added.is_empty());
        Ok(())
    }
}

impl Values {
    fn come(&mut self, rules: &ValueRules, name: &str, values: Vec<Vec<u8>>) {
        for value in values {
            // One that went and comes again never went, if it is written as it was.
            match self.removed.iter().position(|one| *one == value) {
                Some(at) => drop(self.removed.swap_remove(at)),
                None if self.added.iter().any(|one| rules.are_same(name, one, &value)) => {}
                None => self.added.push(value),
            }
        }
    }

    fn go(&mut self, rules: &ValueRules, name: &str, values: Vec<Vec<u8>>) {
        for value in values {
            match self.added.iter().position(|one| rules.are_same(name, one, &value)) {
                Some(at) => drop(self.added.swap_remove(at)),
                None => self.removed.push(value),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn change(lines: &str) -> ToldChange {
        let (number, dn) = (7, "cn=a,dc=x".to_owned());
        let lines = lines.as_bytes().to_vec();
        ToldChange { number, dn, kind: "modify".to_owned(), lines, ..ToldChange::default() }
    }

    #[test]
    fn what_came_and_went_again_is_nothing() {
        let mut net = Net::none();
        for lines in [
            "delete: l\nl: Bern\n-\nadd: l\nl: Chur\n-\n",
            "delete: l\nl: CHUR\n-\nadd: l\nl: Basel\n-\n\
             add: modifyTimestamp\nmodifyTimestamp: x\n-\n",
            "add: title\ntitle: x\n-\n",
            "delete: title\ntitle: X\n-\n",
        ] {
            net.put(&change(lines)).unwrap();
        }
        let octets = |text: &str| vec![text.as_bytes().to_vec()];
        let expected = Values { removed: octets("Bern"), added: octets("Basel") };
        assert_eq!(net.attributes, BTreeMap::from([("l".to_owned(), expected)]));
        net.put(&change("delete: l\nl: Basel\n-\nadd: l\nl: Bern\n-\n")).unwrap();
        assert!(net.attributes.is_empty());
    }

    #[test]
    fn what_does_not_tell_the_values_of_before_is_refused() {
        for lines in ["replace: l\nl: Chur\n-\n", "delete: l\n-\n"] {
            let failure = Net::of(&change(lines)).err().unwrap();
            assert!(failure.message.contains("does not tell which values of 'l'"), "{lines}");
        }
    }
}
