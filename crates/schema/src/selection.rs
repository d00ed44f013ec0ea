//! Attribute selection: which attributes of an entry a search returns (RFC 4511 §4.5.1.8).

use std::collections::HashSet;
use std::sync::Arc;

use crate::attribute_type::{AttributeType, Families};
use crate::description::AttributeDescription;
use crate::schema::Schema;

/// The most different attribute descriptions one selection names; more are ignored.
pub const SELECTION_NAMES_MAX: usize = 4096;

/// Among so many descriptions one that is there already is found without a table.
const FEW_NAMES: usize = 16;

/// A list of selectors, resolved.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    all_user: bool,
    all_operational: bool,
    named: Vec<Arc<AttributeDescription>>,
    /// Of all that are named: most attributes of an entry are none of them.
    named_families: Families,
    /// From `@class` (RFC 4529).
    of_classes: Vec<Arc<AttributeType>>,
}

impl Selection {
    /// Selects every user attribute, as an empty list does.
    pub fn all_user() -> Self {
        Self { all_user: true, ..Self::default() }
    }

    /// Selects nothing, as `1.1` does.
    pub fn none() -> Self {
        Self::default()
    }

    /// Resolves the selectors of a search; what the schema does not know is ignored.
    pub fn resolve<'a>(selectors: impl Iterator<Item = &'a str>, schema: &Schema) -> Self {
        let mut selection = Self::default();
        let mut seen = HashSet::new();
        let mut is_new = |known: &[Arc<_>], description: &Arc<AttributeDescription>| {
            if known.len() < FEW_NAMES {
                return !known.contains(description);
            }
            if seen.is_empty() {
                seen.extend(known.iter().cloned());
            }
            seen.insert(Arc::clone(description))
        };
        let mut is_empty = true;
        for selector in selectors {
            is_empty = false;
            match selector {
                "*" => selection.all_user = true,
                "+" => selection.all_operational = true,
                _ => match selector.strip_prefix('@') {
                    Some(class) => selection.add_class(class, schema),
                    None => {
                        let Ok(description) = schema.describe(selector) else { continue };
                        let is_room = selection.named.len() < SELECTION_NAMES_MAX;
                        if is_room && is_new(&selection.named, &description) {
                            selection.named_families |= description.kind.family();
                            selection.named.push(description);
                        }
                    }
                },
            }
        }
        if is_empty { Self::all_user() } else { selection }
    }

    fn add_class(&mut self, name: &str, schema: &Schema) {
        let Some(class) = schema.object_class(name) else { return };
        if class.is_extensible() {
            self.all_user = true;
            return;
        }
        for kind in class.all_must.iter().chain(&class.all_may) {
            if !self.of_classes.contains(kind) {
                self.of_classes.push(Arc::clone(kind));
            }
        }
    }

    /// Whether the attribute is to be returned.
    #[inline]
    pub fn selects(&self, description: &AttributeDescription) -> bool {
        (self.has_groups() && self.is_in_group(description)) || self.names_attribute(description)
    }

    const fn has_groups(&self) -> bool {
        self.all_user || self.all_operational || !self.of_classes.is_empty()
    }

    #[inline]
    fn is_in_group(&self, description: &AttributeDescription) -> bool {
        let is_asked =
            if description.is_operational() { self.all_operational } else { self.all_user };
        is_asked || self.of_classes.iter().any(|kind| description.kind.is_subtype_of(kind))
    }

    /// Whether the attribute, or a supertype of it, was asked for by name.
    #[inline]
    pub fn names_attribute(&self, description: &AttributeDescription) -> bool {
        self.named_families & description.kind.families() != 0
            && self.named.iter().any(|named| named.covers(description))
    }

    /// The attributes asked for by name.
    pub fn named(&self) -> &[Arc<AttributeDescription>] {
        &self.named
    }

    /// The types asked for by their classes.
    pub(crate) fn of_classes(&self) -> &[Arc<AttributeType>] {
        &self.of_classes
    }

    /// Whether nothing at all can be selected.
    pub fn is_none(&self) -> bool {
        self.named.is_empty() && !self.has_groups()
    }

    /// Whether an operational attribute can be selected.
    pub fn may_select_operational(&self) -> bool {
        self.all_operational
            || self.named.iter().any(|named| named.is_operational())
            || self.of_classes.iter().any(|kind| kind.is_operational())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of some attributes the selectors select.
    #[track_caller]
    fn check(selectors: &[&str], expected: &str) {
        const ATTRIBUTES: [&str; 7] =
            ["cn", "cn;lang-de", "sn", "mail", "uid", "createTimestamp", "entryUUID"];
        let schema = Schema::builtin();
        let selection = Selection::resolve(selectors.iter().copied(), &schema);
        let selected = ATTRIBUTES
            .into_iter()
            .filter(|name| selection.selects(&schema.describe(name).unwrap()))
            .collect::<Vec<_>>();
        assert_eq!(selected.join(" "), expected, "{selectors:?}");
    }

    #[test]
    fn an_empty_list_selects_user_attributes() {
        check(&[], "cn cn;lang-de sn mail uid");
        check(&["*"], "cn cn;lang-de sn mail uid");
    }

    #[test]
    fn a_plus_selects_operational_attributes() {
        check(&["+"], "createTimestamp entryUUID");
        check(&["*", "+"], "cn cn;lang-de sn mail uid createTimestamp entryUUID");
    }

    #[test]
    fn names_select_subtypes_and_options() {
        check(&["cn"], "cn cn;lang-de");
        check(&["CommonName"], "cn cn;lang-de");
        check(&["cn;lang-de"], "cn;lang-de");
        check(&["name"], "cn cn;lang-de sn");
        check(&["*", "entryUUID"], "cn cn;lang-de sn mail uid entryUUID");
        check(&["entryuuid", "mail"], "mail entryUUID");
    }

    #[test]
    fn one_dot_one_selects_nothing_by_itself() {
        check(&["1.1"], "");
        check(&["1.1", "cn"], "cn cn;lang-de");
    }

    #[test]
    fn unknown_selectors_are_ignored() {
        check(&["noSuchType"], "");
        check(&["noSuchType", "sn"], "sn");
        check(&["@noSuchClass"], "");
        check(&["", "**", "c n"], "");
    }

    #[test]
    fn a_class_selects_its_attributes() {
        check(&["@person"], "cn cn;lang-de sn");
        check(&["@inetOrgPerson"], "cn cn;lang-de sn mail uid");
        check(&["@2.5.6.6", "mail"], "cn cn;lang-de sn mail");
        check(&["@extensibleObject"], "cn cn;lang-de sn mail uid");
    }

    #[test]
    fn what_is_asked_for_by_name_is_known() {
        let schema = Schema::builtin();
        let selection =
            Selection::resolve(["*", "cn", "cn", "modifyTimestamp"].into_iter(), &schema);
        let names = |name: &str| selection.names_attribute(&schema.describe(name).unwrap());
        assert!(names("cn"));
        assert!(names("cn;lang-de"));
        assert!(!names("sn"));
        assert_eq!(selection.named().len(), 2);
        assert!(selection.may_select_operational());
        assert!(!Selection::all_user().may_select_operational());
        assert!(Selection::resolve(["1.1"].into_iter(), &schema).is_none());
        assert!(Selection::none().is_none());
        assert!(!selection.is_none());
    }

    #[test]
    fn a_name_is_there_once_however_many_there_are() {
        for count in [FEW_NAMES - 1, FEW_NAMES, FEW_NAMES + 1, 3 * FEW_NAMES] {
            let names: Vec<String> = (0..count).map(|number| format!("cn;x-{number}")).collect();
            let twice = names.iter().chain(names.iter().rev()).map(String::as_str);
            let selection = Selection::resolve(twice, &Schema::builtin());
            assert_eq!(selection.named().len(), count);
        }
    }

    #[test]
    fn what_a_selection_takes_is_counted() {
        let held = |selectors: &[&str]| {
            Selection::resolve(selectors.iter().copied(), &Schema::builtin()).held_bytes()
        };
        assert_eq!(held(&["*", "+", "noSuchType"]), 0);
        assert_eq!(held(&["cn", "sn"]), 2 * size_of::<usize>(), "the schema has the rest");
        assert!(held(&["@person"]) > 0);
        let long = format!("cn;{}", "x".repeat(200));
        assert!((500..1_000).contains(&held(&[&long])), "text, option and what holds them");
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let names: Vec<String> =
            (0..SELECTION_NAMES_MAX + 10).map(|number| format!("cn;x-{number}")).collect();
        let selection = Selection::resolve(names.iter().map(String::as_str), &Schema::builtin());
        assert_eq!(selection.named().len(), SELECTION_NAMES_MAX);
    }
}
