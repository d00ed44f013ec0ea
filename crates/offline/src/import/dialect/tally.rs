//! What was translated and what was not understood: counted by each worker, merged at the end.
//!
//! Invariants: bounded, however many records there are and whatever they hold; merging does not
//! depend on the order of the parts but for the examples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use aci::Aci;
use auth::password;
use ldap::description::is_oid;
use schema::{
    ClassKind, DescriptionError, Entry, EntryRead as _, NAME_LENGTH_MAX_BYTES, ObjectClass, Schema,
    SchemaRule,
};
use store::{Store, StoreError};

use super::base;
use super::convert::{self, scheme_of};
use super::offer::{self, Fit};
use super::rules::{self, RULES};
use crate::import::policy_names::PolicyNames;
use crate::import::record::RawRecord;

/// The most unknown types, and the most unknown classes, that are told apart.
pub(super) const UNKNOWN_MAX: usize = 2000;
/// The most types that an offered class allows.
pub(super) const UNKNOWN_CLASS_TYPES_MAX: usize = 1000;
/// The most combinations of unknown classes that are remembered.
pub(super) const UNKNOWN_COMBINATIONS_MAX: usize = 500;
/// The most password schemes that are told apart.
pub(super) const PASSWORD_SCHEMES_MAX: usize = 100;
/// The longest name of an example, in octets.
const EXAMPLE_MAX_BYTES: usize = 200;

/// What the rules did to the records of an import, and what the schema lacked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    rules: BTreeMap<usize, Uses>,
    passwords: BTreeMap<String, u64>,
    /// By name in lower case.
    pub(super) types: BTreeMap<String, UnknownType>,
    pub(super) classes: BTreeMap<String, UnknownClass>,
    /// Unknown classes, in order, of entries without a structural class that is known.
    pub(super) combinations: BTreeSet<Vec<String>>,
    /// ACIs.
    acis_count: u64,
    /// ACIs with `targattrfilters` beside `targetattr`.
    acis: Uses,
    /// ACIs that ask what the schema cannot answer.
    unanswered: Uses,
    /// Entries that break rules of the schema that they may break, by the rule.
    broken: BTreeMap<&'static str, Uses>,
    /// Whether there were access rules where the data come from that are not loaded.
    lacks_rules: bool,
    /// Controls of records that nothing was done about.
    controls_count: usize,
    /// Password policies, and their names.
    policies: PolicyNames,
    /// Whether a limit left something out.
    is_cut: bool,
}

/// How often a rule was applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RuleUse<'t> {
    /// The name of the rule, as in the reference.
    pub name: &'static str,
    /// Whose records need it.
    pub products: &'static str,
    /// What it is about.
    pub about: String,
    /// What it does.
    pub effect: String,
    /// The reason.
    pub why: &'static str,
    /// How many values or entries it was applied to.
    pub times: u64,
    /// The name of the first such entry.
    pub example: &'t str,
}

/// How many passwords of a scheme there are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PasswordUse<'t> {
    /// The name of the scheme; empty for clear text.
    pub scheme: &'t str,
    /// How many values.
    pub times: u64,
    /// Whether this server can verify them; clear text is hashed, so it can.
    pub is_verifiable: bool,
}

/// A type or class that the schema lacks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownUse<'t> {
    /// Its name as it was first seen.
    pub name: &'t str,
    /// How many values, or entries of a class.
    pub times: u64,
    /// The name of the first such entry.
    pub example: &'t str,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Uses {
    times: u64,
    example: String,
}

impl Uses {
    fn count(&mut self, entry: &Entry) {
        if self.times == 0 {
            self.example = shortened(&entry.name().to_string());
        }
        self.times += 1;
    }

    fn merge(&mut self, other: Self) {
        if self.times == 0 {
            self.example = other.example;
        }
        self.times += other.times;
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnknownType {
    pub(super) name: String,
    pub(super) times: u64,
    pub(super) example: String,
    /// Which syntaxes all values have.
    pub(super) fit: Fit,
    /// Whether it was seen where no unknown class could allow it.
    pub(super) is_operational: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnknownClass {
    pub(super) name: String,
    pub(super) times: u64,
    pub(super) example: String,
    /// Whether it was seen beside a structural class that is known.
    pub(super) is_beside_structural: bool,
    /// Types that no known class of its entries allows.
    pub(super) allows: BTreeSet<String>,
}

impl Tally {
    /// Adds what another worker has counted.
    pub fn merge(&mut self, other: Self) {
        for (at, uses) in other.rules {
            let own = self.rules.entry(at).or_insert_with(|| Uses { times: 0, ..uses.clone() });
            own.times += uses.times;
        }
        for (scheme, times) in other.passwords {
            self.count_scheme(scheme, times);
        }
        self.acis.merge(other.acis);
        self.unanswered.merge(other.unanswered);
        self.policies.merge(other.policies);
        self.acis_count += other.acis_count;
        self.lacks_rules |= other.lacks_rules;
        for (rule, uses) in other.broken {
            self.broken.entry(rule).or_default().merge(uses);
        }
        self.controls_count += other.controls_count;
        for (key, found) in other.types {
            let is_new = !self.types.contains_key(&key);
            if is_new && self.types.len() >= UNKNOWN_MAX {
                self.is_cut = true;
                continue;
            }
            let own = self.types.entry(key);
            let own = own.or_insert_with(|| UnknownType { times: 0, ..found.clone() });
            own.times += found.times;
            own.fit = own.fit.and(found.fit);
            own.is_operational |= found.is_operational;
        }
        for (key, found) in other.classes {
            let is_new = !self.classes.contains_key(&key);
            if is_new && self.classes.len() >= UNKNOWN_MAX {
                self.is_cut = true;
                continue;
            }
            let own = self.classes.entry(key);
            let own = own.or_insert_with(|| UnknownClass { times: 0, ..found.clone() });
            own.times += found.times;
            own.is_beside_structural |= found.is_beside_structural;
            own.allows.extend(found.allows);
            self.is_cut |= cut(&mut own.allows, UNKNOWN_CLASS_TYPES_MAX);
        }
        self.combinations.extend(other.combinations);
        self.is_cut |= other.is_cut || cut(&mut self.combinations, UNKNOWN_COMBINATIONS_MAX);
    }

    /// Whether no rule was applied and nothing unknown was met.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.types.is_empty() && self.classes.is_empty()
    }

    /// The rules that were applied, in the order of the reference.
    pub fn rules(&self) -> impl Iterator<Item = RuleUse<'_>> {
        self.rules.iter().filter_map(|(at, uses)| {
            let rule = RULES.get(*at)?;
            Some(RuleUse {
                name: rule.name,
                products: rule.products,
                about: rule.matches.describe(),
                effect: rule.action.describe(),
                why: rule.why,
                times: uses.times,
                example: &uses.example,
            })
        })
    }

    /// The schemes of the passwords that were met.
    pub fn passwords(&self) -> impl Iterator<Item = PasswordUse<'_>> {
        self.passwords.iter().map(|(scheme, times)| PasswordUse {
            scheme,
            times: *times,
            is_verifiable: scheme.is_empty() || password::is_verifiable(scheme.as_bytes()),
        })
    }

    /// The attribute types that refused entries because the schema lacks them.
    pub fn unknown_types(&self) -> impl Iterator<Item = UnknownUse<'_>> {
        self.types.values().map(|UnknownType { name, times, example, .. }| UnknownUse {
            name,
            times: *times,
            example,
        })
    }

    /// The object classes that refused entries because the schema lacks them.
    pub fn unknown_classes(&self) -> impl Iterator<Item = UnknownUse<'_>> {
        self.classes.values().map(|UnknownClass { name, times, example, .. }| UnknownUse {
            name,
            times: *times,
            example,
        })
    }

    /// A schema file that defines what the schema lacks, guessed from what was seen; `None` when it
    /// lacks nothing.
    #[must_use]
    pub fn schema_file(&self) -> Option<String> {
        (!self.types.is_empty() || !self.classes.is_empty()).then(|| offer::schema_file(self))
    }

    /// What to do about unknown types and classes, in one sentence; `None` when there are none.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let (types, classes) = (self.types.len(), self.classes.len());
        (types + classes > 0).then(|| {
            format!(
                "the schema lacks {} and {}: write definitions guessed from the file with \
                 --schema-file FILE, review them, and put the file into the directory 'schema' of \
                 the data directory",
                counted(types, "attribute type", "attribute types"),
                counted(classes, "object class", "object classes"),
            )
        })
    }

    /// What was left out or is loaded as it is and means something else here than where it comes
    /// from, a sentence each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let Uses { times, example } = &self.acis;
        let warning = format!(
            "{} targattrfilters beside targetattr, the first in '{example}': when values are added \
             or deleted, only the filters count here; other servers require both to match",
            counted(usize::try_from(*times).unwrap_or(usize::MAX), "ACI has", "ACIs have"),
        );
        let acis = (*times > 0).then_some(warning);
        let Uses { times, example } = &self.unanswered;
        let unanswered = (*times > 0).then(|| {
            format!(
                "{} what the schema cannot answer, the first in '{example}': an attribute that it \
                 lacks, or a value that is not of the syntax; by that they allow nothing, and deny",
                counted(usize::try_from(*times).unwrap_or(usize::MAX), "ACI asks", "ACIs ask"),
            )
        });
        let controls = (self.controls_count > 0).then(|| {
            format!(
                "{} not critical and left out: only a running server could do what a control asks",
                counted(self.controls_count, "control is", "controls are"),
            )
        });
        let broken = self.broken.iter().map(|(rule, Uses { times, example })| {
            format!(
                "{} the rule '{rule}' of the schema, the first '{example}': its mode lets them",
                counted(
                    usize::try_from(*times).unwrap_or(usize::MAX),
                    "entry breaks",
                    "entries break"
                ),
            )
        });
        let policies = self.policies.warning();
        acis.into_iter().chain(unanswered).chain(controls).chain(policies).chain(broken)
    }

    /// Remembers whether an entry is a password policy, and which one it names.
    pub(in crate::import) fn count_policies(&mut self, entry: &Entry, schema: &Schema) {
        self.policies.count(entry, schema);
    }

    /// Forgets names of policies that are there: in the import, or in `store` before it.
    pub(in crate::import) fn settle_policies(
        &mut self,
        store: Option<&Store>,
    ) -> Result<(), StoreError> {
        self.policies.settle(store)
    }

    /// Counts controls of a record that nothing is done about.
    pub(in crate::import) fn count_controls(&mut self, count: usize) {
        self.controls_count += count;
    }

    /// How many ACIs there were.
    #[must_use]
    pub fn acis_count(&self) -> u64 {
        self.acis_count
    }

    /// Whether entries show that the server where they come from has access rules that may be no
    /// part of what is loaded.
    #[must_use]
    pub fn lacks_rules(&self) -> bool {
        self.lacks_rules
    }

    /// Looks whether a record shows that there were access rules where it comes from.
    pub(in crate::import) fn look_for_rules(&mut self, record: &RawRecord<'_>) {
        self.lacks_rules = self.lacks_rules || rules::has_rules_elsewhere(record);
    }

    /// Counts the ACIs of an entry, and those that mean something else here.
    pub(in crate::import) fn count_acis(&mut self, entry: &Entry, schema: &Schema) {
        entry.visit_values(&schema.well_known().aci, &mut |_, value| {
            self.acis_count += 1;
            let aci =
                std::str::from_utf8(value).ok().and_then(|text| Aci::parse(text, schema).ok());
            let Some(aci) = aci else { return true };
            if aci.has_filters_beside_attributes() {
                self.acis.count(entry);
            }
            if !aci.unknown_names().is_empty() || !aci.unanswered_terms().is_empty() {
                self.unanswered.count(entry);
            }
            true
        });
    }

    /// Counts the rules that an entry breaks and may.
    pub(in crate::import) fn count_broken(&mut self, entry: &Entry, rules: &[SchemaRule]) {
        for rule in rules {
            self.broken.entry(rule.name()).or_default().count(entry);
        }
    }

    pub(super) fn count_rule(&mut self, at: usize, dn: &str) {
        let uses = self.rules.entry(at).or_default();
        if uses.times == 0 {
            uses.example = shortened(dn);
        }
        uses.times += 1;
    }

    /// Counts a password; tells whether a rule is about it.
    pub(super) fn count_password(&mut self, value: &[u8]) -> bool {
        let is_hashed = password::is_hashed(value);
        let is_foreign = !is_hashed && password::is_foreign(value);
        let scheme = scheme_of(value).filter(|_| is_hashed || is_foreign).map(|(scheme, _)| scheme);
        let scheme = scheme.and_then(|scheme| std::str::from_utf8(scheme).ok()).unwrap_or_default();
        match self.passwords.get_mut(scheme) {
            Some(times) => *times += 1,
            None => self.count_scheme(scheme.to_ascii_uppercase(), 1),
        }
        is_foreign || !is_hashed && convert::plain_password(value).is_some()
    }

    fn count_scheme(&mut self, scheme: String, times: u64) {
        if self.passwords.len() < PASSWORD_SCHEMES_MAX || self.passwords.contains_key(&scheme) {
            *self.passwords.entry(scheme).or_default() += times;
        } else {
            self.is_cut = true;
        }
    }

    /// Remembers what `schema` lacks of a record.
    pub(super) fn examine(&mut self, schema: &Schema, record: &RawRecord<'_>) {
        let (mut known, mut unknown): (Vec<&ObjectClass>, Vec<&str>) = (Vec::new(), Vec::new());
        for (description, value) in &record.attributes {
            let is_class = base(description).eq_ignore_ascii_case(super::OBJECT_CLASS);
            let name = std::str::from_utf8(value).map(str::trim);
            let (true, Ok(name)) = (is_class, name) else { continue };
            match schema.object_class(name) {
                Some(class) => known.push(class),
                None if is_definable(name) && !unknown.contains(&name) => unknown.push(name),
                None => {}
            }
        }
        // The most specific class comes last, where servers keep an order.
        let last = unknown.last().copied();
        let mut lacked = BTreeSet::new();
        for (description, value) in &record.attributes {
            match schema.describe(description) {
                Err(DescriptionError::UnknownType(name)) if is_definable(&name) => {
                    self.count_type(schema, &name, value, last.is_none(), &record.dn);
                    lacked.insert(name.to_ascii_lowercase());
                }
                Ok(known_type) if !known_type.is_operational() => {
                    let kind = &known_type.kind;
                    if *kind == schema.well_known().object_class.kind {
                        continue;
                    }
                    if !known.iter().any(|class| class.allows(kind)) {
                        lacked.insert(kind.name().to_ascii_lowercase());
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        let has_structural = known.iter().any(|class| class.kind == ClassKind::Structural);
        for name in &unknown {
            let allows =
                if Some(*name) == last { std::mem::take(&mut lacked) } else { BTreeSet::new() };
            self.count_class(name, has_structural, allows, &record.dn);
        }
        if !has_structural && !unknown.is_empty() {
            self.combinations
                .insert(unknown.iter().map(|name| name.to_ascii_lowercase()).collect());
            self.is_cut |= cut(&mut self.combinations, UNKNOWN_COMBINATIONS_MAX);
        }
    }

    fn count_type(&mut self, schema: &Schema, name: &str, value: &[u8], alone: bool, dn: &str) {
        let key = name.to_ascii_lowercase();
        if self.types.len() >= UNKNOWN_MAX && !self.types.contains_key(&key) {
            self.is_cut = true;
            return;
        }
        let found = self.types.entry(key).or_insert_with(|| UnknownType {
            name: name.to_owned(),
            times: 0,
            example: shortened(dn),
            fit: Fit::default(),
            is_operational: false,
        });
        found.times += 1;
        found.fit = found.fit.and(Fit::of(schema, value));
        found.is_operational |= alone;
    }

    fn count_class(&mut self, name: &str, beside: bool, allows: BTreeSet<String>, dn: &str) {
        let key = name.to_ascii_lowercase();
        if self.classes.len() >= UNKNOWN_MAX && !self.classes.contains_key(&key) {
            self.is_cut = true;
            return;
        }
        let found = self.classes.entry(key).or_insert_with(|| UnknownClass {
            name: name.to_owned(),
            times: 0,
            example: shortened(dn),
            is_beside_structural: false,
            allows: BTreeSet::new(),
        });
        found.times += 1;
        found.is_beside_structural |= beside;
        found.allows.extend(allows);
        self.is_cut |= cut(&mut found.allows, UNKNOWN_CLASS_TYPES_MAX);
    }
}

impl fmt::Display for Tally {
    /// The report: a line for each rule, scheme, and unknown type and class.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = |f: &mut fmt::Formatter<'_>, head: &str, is_any: bool| match is_any {
            true => writeln!(f, "{head}"),
            false => Ok(()),
        };
        if self.is_empty() && self.passwords.is_empty() {
            return writeln!(f, "Nothing was translated, and nothing is unknown.");
        }
        head(f, "Translated (rule: times, what it does, first entry):", !self.rules.is_empty())?;
        for RuleUse { name, times, effect, example, .. } in self.rules() {
            writeln!(f, "  {name}: {times}, {effect}, {example}")?;
        }
        head(f, "Passwords (scheme: values):", !self.passwords.is_empty())?;
        for PasswordUse { scheme, times, is_verifiable } in self.passwords() {
            match (scheme, is_verifiable) {
                ("", _) => writeln!(f, "  clear text: {times}, hashed")?,
                (_, true) => writeln!(f, "  {scheme}: {times}, kept")?,
                (_, false) => writeln!(f, "  {scheme}: {times}, kept, but cannot be verified")?,
            }
        }
        let unknown = |f: &mut fmt::Formatter<'_>, found: UnknownUse<'_>| {
            let UnknownUse { name, times, example } = found;
            writeln!(f, "  {name}: {times}, {example}")
        };
        head(f, "Unknown object classes (entries, first entry):", !self.classes.is_empty())?;
        self.unknown_classes().try_for_each(|found| unknown(f, found))?;
        head(f, "Unknown attribute types (values, first entry):", !self.types.is_empty())?;
        self.unknown_types().try_for_each(|found| unknown(f, found))?;
        head(f, "There was more than is listed here.", self.is_cut)
    }
}

/// Whether a definition can have this name.
fn is_definable(name: &str) -> bool {
    // Some octets are left for what is appended to the name to make an OID.
    is_oid(name) && name.len() + 16 <= NAME_LENGTH_MAX_BYTES
}

/// Lets `set` have at most `max` elements; tells whether it had more.
fn cut<T: Ord>(set: &mut BTreeSet<T>, max: usize) -> bool {
    let is_over = set.len() > max;
    while set.len() > max {
        set.pop_last();
    }
    is_over
}

/// A name for a report: one line, not too long.
fn shortened(dn: &str) -> String {
    let end = dn.floor_char_boundary(EXAMPLE_MAX_BYTES);
    let shown = dn.get(..end).unwrap_or_default().chars();
    let mut text: String = shown.map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    if end < dn.len() {
        text.push('…');
    }
    text
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
