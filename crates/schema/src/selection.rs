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
    /// Attributes of which only some values are asked for.
    ranges: Vec<ValueRange>,
}

/// Some of the values of an attribute, as `member;range=0-1499` asks for them (as Active Directory
/// has it).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ValueRange {
    /// The attribute.
    pub description: Arc<AttributeDescription>,
    /// The number of the first value; that of the first of all is 0.
    pub first: u64,
    /// The number of the last one; none: as far as it goes.
    pub last: Option<u64>,
}

impl ValueRange {
    /// Reads `member;range=0-*` and the like; none if it is nothing like it.
    fn parse(selector: &str, schema: &Schema) -> Option<Self> {
        let is_range = |option: &&str| {
            option.get(..OPTION.len()).is_some_and(|name| name.eq_ignore_ascii_case(OPTION))
        };
        let (mut ranges, others): (Vec<&str>, Vec<&str>) =
            selector.split(';').partition(|option| is_range(option));
        let range = ranges.pop().filter(|_| ranges.is_empty())?;
        let (first, last) = range.get(OPTION.len()..)?.split_once('-')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
            text.parse::<u64>().ok().filter(|_| is_number)
        };
        let first = number(first)?;
        let last = match last {
            "*" => None,
            last => Some(number(last).filter(|last| *last >= first)?),
        };
        let description = schema.describe(&others.join(";")).ok()?;
        Some(Self { description, first, last })
    }

    /// So many values are sent at the most.
    #[must_use]
    pub fn most(&self) -> u64 {
        let asked = self.last.map_or(u64::MAX, |last| last.saturating_add(1) - self.first);
        asked.min(RANGE_VALUES_MAX)
    }

    /// What the attribute is called with `count` of its values, behind which there are more or not.
    #[must_use]
    pub fn told(&self, count: u64, has_more: bool) -> String {
        let Self { description, first, .. } = self;
        match has_more {
            true => format!("{};{OPTION}{first}-{}", description.text(), first + count - 1),
            false => format!("{};{OPTION}{first}-*", description.text()),
        }
    }
}

/// The option by which some of the values are asked for.
const OPTION: &str = "range=";
/// The most values that are sent of one attribute of which a range is asked for.
pub const RANGE_VALUES_MAX: u64 = 5_000;
/// The most ranges of one selection; more are ignored.
const RANGES_MAX: usize = 8;

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
                    None if selector.contains('=') => {
                        let range = ValueRange::parse(selector, schema);
                        if selection.ranges.len() < RANGES_MAX {
                            selection.ranges.extend(range);
                        }
                    }
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

    /// As [`Self::selects`], for whoever asks of few attributes: asked of each it takes its place
    /// where it is called.
    pub fn selects_this(&self, description: &AttributeDescription) -> bool {
        self.selects(description)
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

    /// The attributes of which only some values are asked for.
    pub fn ranges(&self) -> &[ValueRange] {
        &self.ranges
    }

    /// Whether nothing at all can be selected.
    pub fn is_none(&self) -> bool {
        self.named.is_empty() && self.ranges.is_empty() && !self.has_groups()
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

    #[test]
    fn a_part_of_the_values_can_be_asked_for() {
        let schema = Schema::builtin();
        let parse = |selector: &str| {
            let range = ValueRange::parse(selector, &schema)?;
            Some((range.description.text().to_owned(), range.first, range.last))
        };
        let of = |name: &str, first, last| Some((name.to_owned(), first, last));
        assert_eq!(parse("member;range=0-1499"), of("member", 0, Some(1499)));
        assert_eq!(parse("Member;Range=1500-*"), of("member", 1500, None));
        assert_eq!(parse("cn;lang-de;range=3-3"), of("cn;lang-de", 3, Some(3)));
        for wrong in [
            "member;range=",
            "member;range=1",
            "member;range=-1",
            "member;range=2-1",
            "member;range=+1-2",
            "member;range=1-2;range=3-4",
            "member;range=*-*",
            "range=0-1",
            "nothing;range=0-1",
            "member;range=99999999999999999999-*",
            "member;=",
            "=",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let all = ValueRange::parse("member;range=7-18446744073709551615", &schema).unwrap();
        assert_eq!(all.most(), RANGE_VALUES_MAX);
        assert_eq!(all.told(3, true), "member;range=7-9");
        assert_eq!(all.told(3, false), "member;range=7-*");
    }

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
