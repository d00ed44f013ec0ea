//! Entries as they are changed and validated: a name, and attributes with their values.
//!
//! Invariants: no attribute is there twice or without values; no value is there twice by the
//! equality rule of its attribute (octet by octet where there is no rule).

mod naming;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use ldap::dn::Dn;
use ldap::message::{Attributes, Values, ValuesBuf};

use crate::description::{AttributeDescription, DescriptionError};
use crate::object_class::ObjectClass;
use crate::rules::MatchingRule;
use crate::schema::Schema;
use crate::well_known::WellKnown;

/// The most attributes of one entry.
pub const ATTRIBUTE_COUNT_MAX: usize = 4096;

/// What filters, access control and encoding need of an entry.
pub trait EntryRead {
    /// The name, as it was sent when the entry was added.
    fn dn(&self) -> &str;

    /// The leaf of the name and the name of the superior, of an entry in the store below another:
    /// it has them apart.
    fn split_dn(&self) -> Option<(&str, &str)> {
        None
    }

    /// Calls `visit` with each value of each attribute that `asked` covers, until it returns false.
    /// With a key, values that do not have it may be left out.
    ///
    /// Returns false when the question may not be asked: an assertion about it is Undefined.
    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        only: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool;

    /// As [`Self::visit_matching`], with all values.
    fn visit_values(
        &self,
        asked: &AttributeDescription,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        self.visit_matching(asked, None, visit)
    }

    /// Calls `visit` with each attribute, its values in wire form. One that is not wanted comes
    /// without them where they take long to be put together.
    fn visit_wanted(
        &self,
        wants: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    );

    /// As [`Self::visit_wanted`], with all values.
    fn visit_attributes(&self, visit: &mut dyn FnMut(&AttributeDescription, Values<'_>)) {
        self.visit_wanted(&|_| true, &mut |description, values| {
            if let Some(values) = values {
                visit(description, values);
            }
        });
    }

    /// Appends values of the attribute with exactly this description to `out`: up to `most`, from
    /// number `first` on, where the first has number 0. Whether there are more behind them.
    fn values_from(
        &self,
        description: &AttributeDescription,
        first: u64,
        most: u64,
        out: &mut ValuesBuf,
    ) -> bool {
        let end = first.saturating_add(most);
        let (mut number, mut has_more) = (0, false);
        self.visit_values(description, &mut |found, value| {
            if found != description {
                return true;
            }
            has_more = number >= end;
            if (first..end).contains(&number) {
                out.push(value);
            }
            number += 1;
            !has_more
        });
        has_more
    }
}

/// The key that a value has by a matching rule.
#[derive(Clone, Copy, Debug)]
pub struct ValueKey<'k> {
    /// An equality rule.
    pub rule: &'k MatchingRule,
    /// As the rule prepares values.
    pub key: &'k [u8],
}

impl WellKnown {
    /// Whether an entry is an alias (RFC 4512 §2.6): it has no subordinates.
    #[must_use]
    pub fn is_alias(&self, entry: &dyn EntryRead) -> bool {
        let mut found = false;
        entry.visit_values(&self.object_class, &mut |_, value| {
            found = value.eq_ignore_ascii_case(b"alias") || value == ALIAS_OID;
            !found
        });
        found
    }
}

/// The OID of the object class `alias` (RFC 4512 §2.6).
const ALIAS_OID: &[u8] = b"2.5.6.1";

/// An entry in memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    name: Dn,
    text: String,
    pub(crate) attributes: Vec<Attribute>,
}

/// An attribute of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attribute {
    /// Which one.
    pub description: Arc<AttributeDescription>,
    /// Its values in the order they were added; at least one.
    pub values: Vec<Vec<u8>>,
}

impl Entry {
    /// An entry without attributes.
    pub fn new(name: Dn) -> Self {
        Self { text: name.to_string(), name, attributes: Vec::new() }
    }

    /// An entry from the attributes of an Add request (RFC 4511 §4.7).
    pub fn from_wire(
        name: Dn,
        attributes: Attributes<'_>,
        schema: &Schema,
    ) -> Result<Self, EntryError> {
        let mut entry = Self::new(name);
        for attribute in attributes {
            let description = schema.describe(attribute.description)?;
            entry.add_values(schema, &description, attribute.values.iter().map(<[u8]>::to_vec))?;
        }
        Ok(entry)
    }

    /// An entry from descriptions and values in any order, as LDIF has them.
    pub fn from_pairs<'a>(
        name: Dn,
        pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        schema: &Schema,
    ) -> Result<Self, EntryError> {
        let mut entry = Self::new(name);
        // Values of one attribute follow each other, and are added together: it is the way to add
        // many of them without comparing each with each.
        let mut run: Option<(&str, Vec<Vec<u8>>)> = None;
        for (description, value) in pairs {
            match &mut run {
                Some((current, values)) if *current == description => values.push(value.to_vec()),
                Some(_) | None => {
                    if let Some((current, values)) = run.take() {
                        entry.add_values(schema, &schema.describe(current)?, values)?;
                    }
                    run = Some((description, vec![value.to_vec()]));
                }
            }
        }
        if let Some((current, values)) = run {
            entry.add_values(schema, &schema.describe(current)?, values)?;
        }
        Ok(entry)
    }

    /// An entry as it was stored: that its attributes and values differ was checked then.
    pub fn from_stored(name: Dn, attributes: Vec<Attribute>) -> Self {
        debug_assert!(
            attributes.iter().all(|attribute| !attribute.values.is_empty()),
            "a stored attribute has values"
        );
        Self { text: name.to_string(), name, attributes }
    }

    /// Its name.
    pub const fn name(&self) -> &Dn {
        &self.name
    }

    /// Gives it another name.
    pub fn rename(&mut self, name: Dn) {
        self.text = name.to_string();
        self.name = name;
    }

    /// Its name, which it no longer has.
    pub(crate) fn take_name(&mut self) -> Dn {
        std::mem::take(&mut self.name)
    }

    /// Its attributes, in the order they were added.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The attribute with exactly this description.
    pub fn get(&self, description: &AttributeDescription) -> Option<&Attribute> {
        // Most descriptions are of the same schema, where each has one place; that costs less.
        let is_same = |one: &&Attribute| std::ptr::eq(&*one.description, description);
        let is_equal = |one: &&Attribute| *one.description == *description;
        self.attributes.iter().find(is_same).or_else(|| self.attributes.iter().find(is_equal))
    }

    /// The values of the attribute with exactly this description; none if it is not there.
    pub fn values(&self, description: &AttributeDescription) -> &[Vec<u8>] {
        self.get(description).map_or(&[], |attribute| &attribute.values)
    }

    /// Whether the attribute has a value that matches `value`.
    pub fn has_value(
        &self,
        schema: &Schema,
        description: &AttributeDescription,
        value: &[u8],
    ) -> bool {
        let values = self.values(description);
        // What is the same octet by octet matches, whatever the rule: the usual case while loading.
        if values.iter().any(|own| own == value) {
            return true;
        }
        let asked = value_key(schema, description, value);
        let mut key = Vec::new();
        values.iter().any(|value| {
            write_value_key(schema, description, value, &mut key);
            key == asked
        })
    }

    /// Adds values; adds none when one of them is there already or comes twice.
    ///
    /// Adding no values changes nothing.
    pub fn add_values(
        &mut self,
        schema: &Schema,
        description: &Arc<AttributeDescription>,
        values: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<(), EntryError> {
        let values: Vec<Vec<u8>> = values.into_iter().collect();
        let count = self.attributes.len();
        let is_this = |attribute: &Attribute| attribute.description == *description;
        let there = self.attributes.iter_mut().find(|attribute| is_this(attribute));
        if values.is_empty() {
            return Ok(());
        }
        // One value of a new attribute needs no comparing: the usual case while loading.
        let is_compared = there.is_some() || values.len() > 1;
        if is_compared && !differ(schema, description, there.as_deref(), &values) {
            return Err(EntryError::ValueExists(Arc::clone(description)));
        }
        match there {
            Some(attribute) => attribute.values.extend(values),
            None if count >= ATTRIBUTE_COUNT_MAX => {
                return Err(EntryError::TooManyAttributes);
            }
            None => {
                self.attributes.push(Attribute { description: Arc::clone(description), values });
            }
        }
        Ok(())
    }

    /// Removes values and returns them as they were; removes none when one of them is not there.
    pub fn remove_values(
        &mut self,
        schema: &Schema,
        description: &Arc<AttributeDescription>,
        values: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, EntryError> {
        let missing = || EntryError::NoSuchValue(Arc::clone(description));
        let position = self.position(description)?;
        let mut keys = distinct_keys(schema, description, values).ok_or_else(missing)?;
        let Some(attribute) = self.attributes.get_mut(position) else { return Ok(Vec::new()) };
        let mut key = Vec::new();
        let mut goes = Vec::with_capacity(attribute.values.len());
        for value in &attribute.values {
            write_value_key(schema, description, value, &mut key);
            goes.push(keys.remove(&key));
        }
        if !keys.is_empty() {
            return Err(missing());
        }
        let mut goes = goes.into_iter();
        let removed = attribute.values.extract_if(.., |_| goes.next().unwrap_or(false)).collect();
        if attribute.values.is_empty() {
            self.attributes.remove(position);
        }
        Ok(removed)
    }

    /// Adds those values that are not there yet, each once.
    pub fn add_missing_values(
        &mut self,
        schema: &Schema,
        description: &Arc<AttributeDescription>,
        values: &[Vec<u8>],
    ) -> Result<(), EntryError> {
        let mut known: HashSet<Vec<u8>> = self
            .values(description)
            .iter()
            .map(|value| value_key(schema, description, value))
            .collect();
        let missing: Vec<Vec<u8>> = values
            .iter()
            .filter(|value| known.insert(value_key(schema, description, value)))
            .cloned()
            .collect();
        self.add_values(schema, description, missing)
    }

    /// Removes those values that are there.
    pub fn remove_present_values(
        &mut self,
        schema: &Schema,
        description: &Arc<AttributeDescription>,
        values: &[Vec<u8>],
    ) {
        let Ok(position) = self.position(description) else { return };
        let Some(attribute) = self.attributes.get_mut(position) else { return };
        let keys: HashSet<Vec<u8>> =
            values.iter().map(|value| value_key(schema, description, value)).collect();
        attribute.values.retain(|value| !keys.contains(&value_key(schema, description, value)));
        if attribute.values.is_empty() {
            self.attributes.remove(position);
        }
    }

    /// Removes an attribute and returns its values.
    pub fn remove_attribute(
        &mut self,
        description: &Arc<AttributeDescription>,
    ) -> Result<Vec<Vec<u8>>, EntryError> {
        let position = self.position(description)?;
        Ok(self.attributes.remove(position).values)
    }

    /// Puts `values` in the place of those that are there; without values the attribute goes.
    pub fn replace_values(
        &mut self,
        schema: &Schema,
        description: &Arc<AttributeDescription>,
        values: Vec<Vec<u8>>,
    ) -> Result<(), EntryError> {
        if values.len() > 1 && !differ(schema, description, None, &values) {
            return Err(EntryError::ValueExists(Arc::clone(description)));
        }
        match self.position(description) {
            Ok(position) if values.is_empty() => {
                self.attributes.remove(position);
            }
            Ok(position) => {
                if let Some(attribute) = self.attributes.get_mut(position) {
                    attribute.values = values;
                }
            }
            Err(_) => self.add_values(schema, description, values)?,
        }
        Ok(())
    }

    /// Adds the superiors of the object classes that are missing (RFC 4512 §3.3).
    pub fn add_superior_classes(&mut self, schema: &Schema) -> Result<(), EntryError> {
        let description = Arc::clone(&schema.well_known().object_class);
        let classes = self.object_classes(schema);
        let mut missing: Vec<Arc<ObjectClass>> = Vec::new();
        let mut open: Vec<Arc<ObjectClass>> = classes.clone();
        while let Some(class) = open.pop() {
            for superior in &class.superiors {
                if !classes.contains(superior) && !missing.contains(superior) {
                    missing.push(Arc::clone(superior));
                    open.push(Arc::clone(superior));
                }
            }
        }
        let names = missing.iter().map(|class| class.name().as_bytes().to_vec());
        self.add_values(schema, &description, names)
    }

    /// Its object classes, as far as the schema knows them.
    pub fn object_classes(&self, schema: &Schema) -> Vec<Arc<ObjectClass>> {
        let names = self.values(&schema.well_known().object_class);
        let known = |name: &Vec<u8>| schema.object_class(std::str::from_utf8(name).ok()?);
        names.iter().filter_map(|name| known(name).map(Arc::clone)).collect()
    }

    fn position(&self, description: &Arc<AttributeDescription>) -> Result<usize, EntryError> {
        self.attributes
            .iter()
            .position(|attribute| attribute.description == *description)
            .ok_or_else(|| EntryError::NoSuchAttribute(Arc::clone(description)))
    }
}

impl EntryRead for Entry {
    fn dn(&self) -> &str {
        &self.text
    }

    fn visit_matching(
        &self,
        asked: &AttributeDescription,
        _: Option<&ValueKey<'_>>,
        visit: &mut dyn FnMut(&AttributeDescription, &[u8]) -> bool,
    ) -> bool {
        let covered =
            self.attributes.iter().filter(|attribute| asked.covers(&attribute.description));
        for attribute in covered {
            if !attribute.values.iter().all(|value| visit(&attribute.description, value)) {
                break;
            }
        }
        true
    }

    fn visit_wanted(
        &self,
        _: &dyn Fn(&AttributeDescription) -> bool,
        visit: &mut dyn FnMut(&AttributeDescription, Option<Values<'_>>),
    ) {
        let mut values = ValuesBuf::new();
        for attribute in &self.attributes {
            values.clear();
            values.extend(attribute.values.iter().map(Vec::as_slice));
            visit(&attribute.description, Some(values.as_ref()));
        }
    }
}

/// Why attributes cannot be put into or taken out of an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntryError {
    /// The description names no attribute.
    Description(DescriptionError),
    /// A value is there already, or comes twice.
    ValueExists(Arc<AttributeDescription>),
    /// A value is not there.
    NoSuchValue(Arc<AttributeDescription>),
    /// The attribute is not there.
    NoSuchAttribute(Arc<AttributeDescription>),
    /// More than [`ATTRIBUTE_COUNT_MAX`].
    TooManyAttributes,
}

impl From<DescriptionError> for EntryError {
    fn from(error: DescriptionError) -> Self {
        Self::Description(error)
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description(error) => error.fmt(f),
            Self::ValueExists(description) => {
                write!(f, "attribute '{description}' has a value that is added already")
            }
            Self::NoSuchValue(description) => {
                write!(f, "attribute '{description}' does not have a value that is to be removed")
            }
            Self::NoSuchAttribute(description) => {
                write!(f, "entry has no attribute '{description}'")
            }
            Self::TooManyAttributes => {
                write!(f, "an entry has at most {ATTRIBUTE_COUNT_MAX} attributes")
            }
        }
    }
}

impl std::error::Error for EntryError {}

/// Whether no value of `values` matches another, or one that is there.
pub(crate) fn differ(
    schema: &Schema,
    description: &AttributeDescription,
    there: Option<&Attribute>,
    values: &[Vec<u8>],
) -> bool {
    if there.is_none() && values.len() <= FEW_VALUES {
        return few_differ(schema, description, values);
    }
    let Some(keys) = distinct_keys(schema, description, values) else { return false };
    let mut key = Vec::new();
    !there.iter().flat_map(|attribute| &attribute.values).any(|value| {
        write_value_key(schema, description, value, &mut key);
        keys.contains(&key)
    })
}

/// Whether no two of a few values match; without a place in memory for each.
fn few_differ(schema: &Schema, description: &AttributeDescription, values: &[Vec<u8>]) -> bool {
    let (mut keys, mut key) = (Vec::new(), Vec::new());
    let mut ends = [0; FEW_VALUES];
    let mut is_new = |(value, position): (&Vec<u8>, usize)| {
        write_value_key(schema, description, value, &mut key);
        let mut start = 0;
        for end in ends.iter().take(position) {
            if keys.get(start..*end) == Some(&*key) {
                return false;
            }
            start = *end;
        }
        keys.extend_from_slice(&key);
        if let Some(end) = ends.get_mut(position) {
            *end = keys.len();
        }
        true
    };
    values.iter().zip(0..).all(&mut is_new)
}

/// The keys of `values`; none if two of them match.
fn distinct_keys(
    schema: &Schema,
    description: &AttributeDescription,
    values: &[Vec<u8>],
) -> Option<HashSet<Vec<u8>>> {
    let mut keys = HashSet::with_capacity(values.len());
    values.iter().all(|value| keys.insert(value_key(schema, description, value))).then_some(keys)
}

fn value_key(schema: &Schema, description: &AttributeDescription, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(value.len() + 1);
    write_value_key(schema, description, value, &mut key);
    key
}

/// Writes what values of an attribute are compared by: the prepared value, or the octets of a value
/// that the rule cannot prepare.
fn write_value_key(
    schema: &Schema,
    description: &AttributeDescription,
    value: &[u8],
    key: &mut Vec<u8>,
) {
    key.clear();
    key.push(PREPARED);
    let prepared = description.kind.equality.map(|rule| (rule.prepare)(schema, value, key));
    if !matches!(prepared, Some(Ok(()))) {
        key.clear();
        key.push(AS_IT_IS);
        key.extend_from_slice(value);
    }
}

/// So many values are compared each with each.
const FEW_VALUES: usize = 8;

const AS_IT_IS: u8 = 0;
const PREPARED: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_or_missing_already_can_be_passed_over() {
        let schema = schema();
        let cn = schema.describe("cn").unwrap();
        let values = |names: &[&str]| -> Vec<Vec<u8>> {
            names.iter().map(|name| name.as_bytes().to_vec()).collect()
        };
        let mut entry = Entry::new(Dn::parse("dc=a").unwrap());
        entry.remove_present_values(&schema, &cn, &values(&["x"]));
        entry.add_missing_values(&schema, &cn, &values(&["A", "b", "a"])).unwrap();
        entry.add_missing_values(&schema, &cn, &values(&["B", "c"])).unwrap();
        assert_eq!(entry.values(&cn), values(&["A", "b", "c"]));
        entry.remove_present_values(&schema, &cn, &values(&["C", "nobody", "a", "A"]));
        assert_eq!(entry.values(&cn), values(&["b"]));
        entry.remove_present_values(&schema, &cn, &values(&["B"]));
        assert!(entry.get(&cn).is_none(), "an attribute has values");
    }

    fn schema() -> Arc<Schema> {
        Schema::builtin()
    }

    fn describe(text: &str) -> Arc<AttributeDescription> {
        schema().describe(text).unwrap()
    }

    fn values(texts: &[&str]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    fn with(pairs: &[(&str, &str)]) -> Entry {
        let pairs = pairs.iter().map(|(name, value)| (*name, value.as_bytes()));
        Entry::from_pairs(Dn::parse("cn=a,dc=x").unwrap(), pairs, &schema()).unwrap()
    }

    fn shown(entry: &Entry) -> String {
        let mut lines = Vec::new();
        for attribute in entry.attributes() {
            for value in &attribute.values {
                lines.push(format!("{}={}", attribute.description, value.escape_ascii()));
            }
        }
        lines.join(" ")
    }

    #[derive(Clone, Copy)]
    enum Do {
        Add,
        Remove,
        Replace,
    }

    /// What becomes of `description: anna`, `description: bob` and `jpegPhoto: x`.
    #[track_caller]
    fn check(action: Do, description: &str, texts: &[&str], expected: &str) {
        let mut entry =
            with(&[("description", "Anna"), ("description", "bob"), ("jpegPhoto", "x")]);
        let before = entry.clone();
        let description = describe(description);
        let result = match action {
            Do::Add => entry.add_values(&schema(), &description, values(texts)),
            Do::Remove => entry.remove_values(&schema(), &description, &values(texts)).map(|_| ()),
            Do::Replace => entry.replace_values(&schema(), &description, values(texts)),
        };
        match result {
            Ok(()) => assert_eq!(shown(&entry), expected),
            Err(error) => {
                assert_eq!(error.to_string(), expected);
                assert_eq!(entry, before, "a refused change changes nothing");
            }
        }
    }

    #[test]
    fn added_values_follow_those_that_are_there() {
        check(
            Do::Add,
            "description",
            &["carl", "dora"],
            "description=Anna description=bob description=carl description=dora jpegPhoto=x",
        );
        check(
            Do::Add,
            "description;lang-de",
            &["anna"],
            "description=Anna description=bob jpegPhoto=x description;lang-de=anna",
        );
        check(Do::Add, "sn", &[], "description=Anna description=bob jpegPhoto=x");
        check(
            Do::Add,
            "jpegPhoto",
            &["X"],
            "description=Anna description=bob jpegPhoto=x jpegPhoto=X",
        );
    }

    #[test]
    fn values_are_added_once() {
        const THERE: &str = "attribute 'description' has a value that is added already";
        check(Do::Add, "description", &["carl", " ANNA "], THERE);
        check(Do::Add, "description", &["carl", "Carl"], THERE);
        check(
            Do::Add,
            "jpegPhoto",
            &["x"],
            "attribute 'jpegPhoto' has a value that is added already",
        );
    }

    #[test]
    fn removed_values_match_by_the_rule() {
        check(Do::Remove, "description", &["ANNA"], "description=bob jpegPhoto=x");
        check(Do::Remove, "description", &["bob", " anna"], "jpegPhoto=x");
        check(Do::Remove, "description", &[], "description=Anna description=bob jpegPhoto=x");
    }

    #[test]
    fn missing_values_cannot_be_removed() {
        const MISSING: &str = "attribute 'description' does not have a value that is to be removed";
        check(Do::Remove, "description", &["anna", "carl"], MISSING);
        check(Do::Remove, "description", &["anna", "Anna"], MISSING);
        check(Do::Remove, "sn", &["x"], "entry has no attribute 'sn'");
        check(
            Do::Remove,
            "jpegPhoto",
            &["X"],
            "attribute 'jpegPhoto' does not have a value that is to be removed",
        );
        check(
            Do::Remove,
            "description;lang-de",
            &["anna"],
            "entry has no attribute 'description;lang-de'",
        );
    }

    #[test]
    fn replacing_takes_the_place_of_all_values() {
        check(Do::Replace, "description", &["anna"], "description=anna jpegPhoto=x");
        check(Do::Replace, "description", &[], "jpegPhoto=x");
        check(Do::Replace, "sn", &[], "description=Anna description=bob jpegPhoto=x");
        check(Do::Replace, "sn", &["b"], "description=Anna description=bob jpegPhoto=x sn=b");
        check(
            Do::Replace,
            "description",
            &["a", "A"],
            "attribute 'description' has a value that is added already",
        );
    }

    #[test]
    fn removed_values_come_back_as_they_were() {
        let mut entry = with(&[("description", "Anna"), ("description", "Bob")]);
        let removed = entry.remove_values(&schema(), &describe("description"), &values(&["bob"]));
        assert_eq!(removed, Ok(values(&["Bob"])));
        assert_eq!(entry.remove_attribute(&describe("description")), Ok(values(&["Anna"])));
        assert!(entry.remove_attribute(&describe("description")).is_err());
        assert!(entry.attributes().is_empty());
    }

    #[test]
    fn values_that_cannot_be_prepared_are_compared_as_they_are() {
        let mut entry = with(&[("uidNumber", "many")]);
        let number = describe("uidNumber");
        assert!(entry.has_value(&schema(), &number, b"many"));
        assert!(!entry.has_value(&schema(), &number, b"MANY"));
        assert!(entry.add_values(&schema(), &number, values(&["many"])).is_err());
        assert!(entry.remove_values(&schema(), &number, &values(&["many"])).is_ok());
    }

    #[test]
    fn attributes_that_come_apart_are_put_together() {
        let entry = with(&[("cn", "a"), ("sn", "b"), ("commonName", "c"), ("2.5.4.3", "d")]);
        assert_eq!(shown(&entry), "cn=a cn=c cn=d sn=b");
        let twice = [("cn", &b"a"[..]), ("sn", b"b"), ("CN", b"A")];
        let error = Entry::from_pairs(Dn::root(), twice, &schema()).unwrap_err();
        assert_eq!(error, EntryError::ValueExists(describe("cn")));
    }

    #[test]
    fn naming_values_are_added_where_they_are_missing() {
        let mut entry = with(&[("cn", "A")]);
        entry.add_naming_values(&schema()).unwrap();
        assert_eq!(shown(&entry), "cn=A");
        entry.rename(Dn::parse("sn=c+cn=b,dc=x").unwrap());
        entry.add_naming_values(&schema()).unwrap();
        assert_eq!(shown(&entry), "cn=A cn=b sn=c");
        assert_eq!(EntryRead::dn(&entry), "sn=c+cn=b,dc=x");
        entry.rename(Dn::parse("foo=c").unwrap());
        assert!(entry.add_naming_values(&schema()).is_err());
    }

    #[test]
    fn superior_classes_are_added_where_they_are_missing() {
        let mut entry = with(&[("objectClass", "inetOrgPerson"), ("objectClass", "TOP")]);
        entry.add_superior_classes(&schema()).unwrap();
        assert_eq!(
            shown(&entry),
            "objectClass=inetOrgPerson objectClass=TOP objectClass=organizationalPerson \
             objectClass=person"
        );
        let before = entry.clone();
        entry.add_superior_classes(&schema()).unwrap();
        assert_eq!(entry, before);
        let mut unknown = with(&[("objectClass", "noSuchClass")]);
        unknown.add_superior_classes(&schema()).unwrap();
        assert_eq!(shown(&unknown), "objectClass=noSuchClass");
    }

    #[test]
    fn many_values_are_added_and_removed_in_one_pass() {
        let member = |number: usize| format!("uid=user.{number},ou=people,dc=x").into_bytes();
        let description = describe("member");
        let mut entry = with(&[("cn", "a")]);
        entry.add_values(&schema(), &description, (0..20_000).map(member)).unwrap();
        entry.add_values(&schema(), &description, (20_000..40_000).map(member)).unwrap();
        let odd: Vec<_> = (0..40_000).filter(|number| number % 2 == 1).map(member).collect();
        entry.remove_values(&schema(), &description, &odd).unwrap();
        assert_eq!(entry.values(&description).len(), 20_000);
        assert_eq!(entry.values(&description)[1], member(2));
    }

    #[test]
    fn the_number_of_attributes_is_limited() {
        let mut entry = with(&[]);
        let mut add = |number| {
            let description = describe(&format!("cn;x-{number}"));
            entry.add_values(&schema(), &description, values(&["a"]))
        };
        for number in 0..ATTRIBUTE_COUNT_MAX {
            assert_eq!(add(number), Ok(()));
        }
        assert_eq!(add(ATTRIBUTE_COUNT_MAX), Err(EntryError::TooManyAttributes));
    }

    #[test]
    fn values_are_visited_until_enough_are_seen() {
        let entry = with(&[("cn", "a"), ("cn;lang-de", "b"), ("sn", "c"), ("mail", "d")]);
        let seen = |asked: &str, most: usize| {
            let mut seen = Vec::new();
            let may_ask = entry.visit_values(&describe(asked), &mut |description, value| {
                seen.push(format!("{description}={}", value.escape_ascii()));
                seen.len() < most
            });
            assert!(may_ask);
            seen.join(" ")
        };
        assert_eq!(seen("name", 9), "cn=a cn;lang-de=b sn=c");
        assert_eq!(seen("name", 2), "cn=a cn;lang-de=b");
        assert_eq!(seen("cn;lang-de", 9), "cn;lang-de=b");
        assert_eq!(seen("uid", 9), "");
    }

    #[test]
    fn attributes_are_visited_in_wire_form() {
        let entry = with(&[("cn", "a"), ("cn", "b"), ("sn", "c")]);
        let mut seen = Vec::new();
        entry.visit_attributes(&mut |description, values| {
            seen.push((description.text().to_owned(), values.as_ber().to_vec()));
        });
        let expected = vec![
            ("cn".to_owned(), b"\x04\x01a\x04\x01b".to_vec()),
            ("sn".to_owned(), b"\x04\x01c".to_vec()),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_entry_comes_from_the_wire() {
        let (mut cn, mut sn) = (ValuesBuf::new(), ValuesBuf::new());
        cn.extend([&b"a"[..], b"b"]);
        sn.extend([&b"c"[..]]);
        let attributes: ldap::message::AttributesBuf = [
            ldap::message::PartialAttribute { description: "cn", values: cn.as_ref() },
            ldap::message::PartialAttribute { description: "SURNAME", values: sn.as_ref() },
        ]
        .into_iter()
        .collect();
        let entry = Entry::from_wire(Dn::root(), attributes.as_ref(), &schema()).unwrap();
        assert_eq!(shown(&entry), "cn=a cn=b sn=c");
    }
}
