//! A stored entry as a modify leaves it, whole: who decides on a modify may have only a part of an
//! entry with very many values.

use std::collections::HashSet;

use ldap::message::{Values, ValuesBuf};
use schema::{AttributeDelta, AttributeDescription, EntryRead, ValueKey};

/// The entry with the deltas applied.
pub(crate) struct Changed<'a> {
    pub(crate) before: &'a dyn EntryRead,
    pub(crate) deltas: &'a [AttributeDelta],
}

impl Changed<'_> {
    /// Which stored values go.
    fn removed(&self) -> HashSet<(&AttributeDescription, &[u8])> {
        let mut removed = HashSet::new();
        for delta in self.deltas {
            removed.extend(delta.removed.iter().map(|one| (&*delta.description, one.as_slice())));
        }
        removed
    }
}

impl EntryRead for Changed<'_> {
    fn dn(&self) -> &str {
        self.before.dn()
    }

    fn split_dn(&self) -> Option<(&str, &str)> {
        self.before.split_dn()
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let removed = self.removed();
        let mut goes_on = true;
        let may_ask = self.before.visit_matching(asked, only, &mut |description, value| {
            goes_on = removed.contains(&(description, value)) || visit(description, value);
            goes_on
        });
        let added = self.deltas.iter().filter(|delta| asked.covers(&delta.description));
        let mut added = added
            .flat_map(|delta| delta.added.iter().map(move |value| (&*delta.description, value)));
        if goes_on {
            let _ = added.all(|(description, value)| visit(description, value));
        }
        may_ask
    }

    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        let removed = self.removed();
        let mut seen = Vec::new();
        self.before.visit_wanted(wants, &mut |description, values| {
            seen.push(description.text().to_owned());
            let Some(values) = values else { return visit(description, None) };
            let deltas = self.deltas.iter().filter(|delta| *delta.description == *description);
            let deltas: Vec<&AttributeDelta> = deltas.collect();
            if deltas.is_empty() {
                return visit(description, Some(values));
            }
            let mut left = ValuesBuf::new();
            for value in values.iter().filter(|value| !removed.contains(&(description, *value))) {
                left.push(value);
            }
            deltas.iter().flat_map(|delta| &delta.added).for_each(|value| left.push(value));
            if !left.as_ref().is_empty() {
                visit(description, Some(left.as_ref()));
            }
        });
        for delta in self.deltas {
            if !seen.iter().any(|name| name == delta.description.text()) && !delta.added.is_empty()
            {
                let mut values = ValuesBuf::new();
                delta.added.iter().for_each(|value| values.push(value));
                visit(&delta.description, Some(values.as_ref()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;
    use ldap::filter::Filter;
    use schema::{Entry, ResolvedFilter, Schema, Truth};

    use super::*;

    #[test]
    fn values_come_and_go() {
        let schema = Schema::builtin();
        let pairs = [("cn", "a"), ("cn", "b"), ("sn", "c"), ("title;lang-de", "d")];
        let pairs = pairs.map(|(name, value)| (name, value.as_bytes()));
        let before = Entry::from_pairs(Dn::parse("cn=a").unwrap(), pairs, &schema).unwrap();
        let delta = |name: &str, removed: &[&str], added: &[&str]| AttributeDelta {
            description: schema.describe(name).unwrap(),
            removed: removed.iter().map(|value| value.as_bytes().to_vec()).collect(),
            added: added.iter().map(|value| value.as_bytes().to_vec()).collect(),
        };
        let deltas =
            [delta("cn", &["a"], &["x"]), delta("sn", &["c"], &[]), delta("title", &[], &["y"])];
        let changed = Changed { before: &before, deltas: &deltas };
        for (filter, want) in [
            ("(cn=a)", false),
            ("(cn=b)", true),
            ("(cn=x)", true),
            ("(name=x)", true),
            ("(sn=*)", false),
            ("(title=d)", true),
            ("(title=y)", true),
            ("(title;lang-de=y)", false),
            ("(:caseIgnoreMatch:=a)", false),
            ("(:caseIgnoreMatch:=x)", true),
            ("(:caseIgnoreMatch:=y)", true),
        ] {
            let parsed = Filter::parse(filter).unwrap();
            let truth = ResolvedFilter::resolve(&parsed, &schema).matches(&schema, &changed);
            assert_eq!(truth == Truth::True, want, "{filter}");
        }
    }
}
