//! Name forms and DIT structure rules (RFC 4512 §4.1.7): how entries may be named, and where they
//! may stand.
//!
//! Invariant: which rule governs an entry follows from its structural class, its RDN and the rule
//! that governs its superior, and from nothing else; of several that fit, the lowest number
//! governs.

use std::sync::Arc;

use ldap::result::ResultCode;
use rustc_hash::FxHashMap;

use crate::violation::Violation;

/// An attribute type or object class.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaElement {
    /// Its OID.
    pub oid: String,
    /// Its first name, or its OID.
    pub name: String,
}

/// How entries of a structural class may be named (RFC 4512 §4.1.7.2).
#[derive(Clone, Debug)]
pub struct NameForm {
    /// Its first name, or its OID.
    pub name: String,
    /// The structural class it is about.
    pub class: SchemaElement,
    /// What the RDN must have.
    pub must: Vec<SchemaElement>,
    /// What it may have.
    pub may: Vec<SchemaElement>,
}

/// Where entries that a name form names may stand (RFC 4512 §4.1.7.1).
#[derive(Clone, Debug)]
pub struct StructureRule {
    /// Its number.
    pub number: u32,
    /// Its first name, if it has any.
    pub name: Option<String>,
    /// The name form.
    pub form: Arc<NameForm>,
    /// The rules of which one governs the superior; none: the entry is the topmost one.
    pub superiors: Vec<u32>,
}

/// The OIDs of the attribute types of an RDN; none for one that the schema lacks.
pub type RdnTypes = [Option<String>];

/// What is above an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Above {
    /// No entry: it is the topmost of its naming context, an administrative point.
    Nothing,
    /// An entry that no rule governs.
    Ungoverned,
    /// An entry that this rule governs.
    Governed(u32),
}

impl From<Option<u32>> for Above {
    fn from(rule: Option<u32>) -> Self {
        rule.map_or(Self::Ungoverned, Self::Governed)
    }
}

/// All name forms and structure rules in use, by the OIDs of structural classes. Those that are
/// obsolete are not in use.
#[derive(Debug, Default)]
pub struct StructureRules {
    forms: FxHashMap<String, Vec<Arc<NameForm>>>,
    /// By their numbers, within a class.
    rules: FxHashMap<String, Vec<StructureRule>>,
    names: FxHashMap<u32, String>,
}

impl StructureRules {
    /// Of these, where rules name forms of the list.
    pub(crate) fn new(forms: Vec<Arc<NameForm>>, rules: Vec<StructureRule>) -> Self {
        let mut found = Self::default();
        for form in forms {
            found.forms.entry(form.class.oid.clone()).or_default().push(form);
        }
        for rule in rules {
            found.names.insert(rule.number, rule.to_string());
            found.rules.entry(rule.form.class.oid.clone()).or_default().push(rule);
        }
        for rules in found.rules.values_mut() {
            rules.sort_by_key(|rule| rule.number);
        }
        found
    }

    /// Whether there are structure rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether there are name forms.
    #[must_use]
    pub fn has_forms(&self) -> bool {
        !self.forms.is_empty()
    }

    /// Checks that an RDN is as one of the name forms of the class says, if it has any.
    ///
    /// # Errors
    /// `namingViolation`, with the forms and what they ask for.
    pub fn check_form(&self, structural: &SchemaElement, rdn: &RdnTypes) -> Result<(), Violation> {
        let Some(forms) = self.forms.get(&structural.oid) else { return Ok(()) };
        if forms.iter().any(|form| form.fits(rdn)) {
            return Ok(());
        }
        let all = forms.iter().take(SHOWN_MAX).map(|form| form.to_string());
        Err(Violation::new(
            ResultCode::NamingViolation,
            format!(
                "the RDN of an entry of class '{}' is as {}",
                structural.name,
                all.collect::<Vec<_>>().join(", or as ")
            ),
        ))
    }

    /// The rule that governs an entry (RFC 4512 §3.4.6).
    #[must_use]
    pub fn governing(
        &self,
        structural: &SchemaElement,
        rdn: &RdnTypes,
        above: Above,
    ) -> Option<&StructureRule> {
        let rules = self.rules.get(&structural.oid)?;
        rules.iter().find(|rule| rule.may_stand(above) && rule.form.fits(rdn))
    }

    /// Checks that an entry may stand where it does.
    ///
    /// # Errors
    /// `namingViolation`, with the rules that its class has.
    pub fn check_place(
        &self,
        structural: &SchemaElement,
        rdn: &RdnTypes,
        above: Above,
    ) -> Result<(), Violation> {
        if self.governing(structural, rdn, above).is_some() {
            return Ok(());
        }
        let place = match above {
            Above::Nothing => "at the top of a naming context".to_owned(),
            Above::Ungoverned => "below an entry that no structure rule governs".to_owned(),
            Above::Governed(number) => {
                format!("below an entry that {} governs", self.named(number))
            }
        };
        let class = &structural.name;
        let why = match (self.rules.get(&structural.oid), above) {
            (None, Above::Nothing | Above::Ungoverned) => return Ok(()),
            (None, Above::Governed(_)) => "its class has none".to_owned(),
            (Some(rules), _) => {
                let all = rules.iter().take(SHOWN_MAX).map(|rule| self.described(rule));
                all.collect::<Vec<_>>().join("; ")
            }
        };
        Err(Violation::new(
            ResultCode::NamingViolation,
            format!("no structure rule lets this entry of class '{class}' stand {place}: {why}"),
        ))
    }

    fn named(&self, number: u32) -> String {
        self.names.get(&number).cloned().unwrap_or_else(|| format!("structure rule {number}"))
    }

    fn described(&self, rule: &StructureRule) -> String {
        let place = match &*rule.superiors {
            [] => "is for the topmost entry".to_owned(),
            superiors => {
                let all = superiors.iter().take(SHOWN_MAX).map(u32::to_string);
                format!("is for entries below rule {}", all.collect::<Vec<_>>().join(", "))
            }
        };
        format!("{rule} {place}, named as {}", rule.form)
    }
}

impl NameForm {
    /// Whether the RDN has all it must have, and nothing else than it may have.
    fn fits(&self, rdn: &RdnTypes) -> bool {
        let is_there = |kind: &SchemaElement| rdn.iter().flatten().any(|found| *found == kind.oid);
        let is_allowed = |found: &Option<String>| {
            let mut allowed = self.must.iter().chain(&self.may);
            found.as_ref().is_some_and(|found| allowed.any(|kind| kind.oid == *found))
        };
        self.must.iter().all(is_there) && rdn.iter().all(is_allowed)
    }
}

impl std::fmt::Display for NameForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |kinds: &[SchemaElement]| {
            kinds.iter().map(|kind| format!("'{}'", kind.name)).collect::<Vec<_>>().join(" and ")
        };
        write!(f, "name form '{}' says: {}", self.name, list(&self.must))?;
        match &*self.may {
            [] => Ok(()),
            may => write!(f, " and, where wanted, {}", list(may)),
        }
    }
}

impl StructureRule {
    fn may_stand(&self, above: Above) -> bool {
        match above {
            Above::Nothing => self.superiors.is_empty(),
            Above::Ungoverned => false,
            Above::Governed(number) => self.superiors.contains(&number),
        }
    }
}

impl std::fmt::Display for StructureRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "structure rule {}", self.number)?;
        match &self.name {
            Some(name) => write!(f, " '{name}'"),
            None => Ok(()),
        }
    }
}

/// So many forms, rules or superiors are listed in a refusal.
const SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use ldap::dn::{Dn, Rdn};

    use super::*;
    use crate::definition::{Definition, DefinitionKind};
    use crate::entry::Entry;
    use crate::schema::Schema;
    use crate::validate::{Mode, SchemaRule, Tolerance, validate_tolerant};

    fn schema(definitions: &[(DefinitionKind, &str)]) -> Schema {
        let parse = |(kind, text): &(DefinitionKind, &str)| Definition::parse(*kind, text).unwrap();
        let all: Vec<Definition> = definitions.iter().map(parse).collect();
        Schema::builtin().with_change(&all, &[]).unwrap()
    }

    const FORM: DefinitionKind = DefinitionKind::NameForm;
    const RULE: DefinitionKind = DefinitionKind::StructureRule;

    const UNITS: &[(DefinitionKind, &str)] = &[
        (FORM, "( 1.1.1 NAME 'unitForm' OC organizationalUnit MUST ou MAY l )"),
        (FORM, "( 1.1.2 NAME 'oldForm' OBSOLETE OC organizationalUnit MUST cn )"),
        (FORM, "( 1.1.3 NAME 'personForm' OC person MUST cn )"),
        (RULE, "( 7 FORM unitForm SUP 3 )"),
        (RULE, "( 3 NAME 'first' FORM unitForm )"),
        (RULE, "( 5 FORM unitForm SUP ( 3 7 ) )"),
        (RULE, "( 1 OBSOLETE FORM unitForm SUP 3 )"),
        (RULE, "( 9 FORM personForm SUP 7 )"),
    ];

    fn rdn(schema: &Schema, text: &str) -> Vec<Option<String>> {
        schema.rdn_types(&Rdn::parse(text).unwrap())
    }

    #[test]
    fn an_rdn_has_what_its_form_asks_for_and_nothing_else() {
        let schema = schema(UNITS);
        let (unit, rules) = (
            &schema.object_class("organizationalUnit").unwrap().element(),
            schema.structure_rules(),
        );
        for (text, fits) in [
            ("ou=a", true),
            ("OU=a+l=b", true),
            ("2.5.4.11=a", true),
            ("l=b", false),
            ("ou=a+cn=b", false),
            // Of the obsolete form, and of a type that is none.
            ("cn=a", false),
            ("nobody=a", false),
        ] {
            assert_eq!(rules.check_form(unit, &rdn(&schema, text)).is_ok(), fits, "{text}");
        }
        // Other classes have forms of their own, or none.
        let device = &schema.object_class("device").unwrap().element();
        assert!(rules.check_form(device, &rdn(&schema, "serialNumber=1")).is_ok());
        let lower = &schema.object_class("inetOrgPerson").unwrap().element();
        assert!(rules.check_form(lower, &rdn(&schema, "uid=a")).is_ok(), "of 'person' alone");
        let violation = rules.check_form(unit, &rdn(&schema, "l=b")).unwrap_err();
        assert_eq!(violation.code, ResultCode::NamingViolation);
        assert_eq!(
            violation.diagnostic,
            "the RDN of an entry of class 'organizationalUnit' is as name form 'unitForm' says: \
             'ou' and, where wanted, 'l'"
        );
    }

    #[test]
    fn the_lowest_rule_that_fits_governs() {
        let schema = schema(UNITS);
        let (unit, rules) = (
            &schema.object_class("organizationalUnit").unwrap().element(),
            schema.structure_rules(),
        );
        let of = |text: &str, above| {
            rules.governing(unit, &rdn(&schema, text), above).map(|rule| rule.number)
        };
        assert_eq!(of("ou=a", Above::Nothing), Some(3));
        assert_eq!(of("ou=a", Above::Governed(3)), Some(5), "of 5 and 7; 1 is obsolete");
        assert_eq!(of("ou=a", Above::Governed(7)), Some(5));
        assert_eq!(of("ou=a", Above::Governed(5)), None);
        assert_eq!(of("ou=a", Above::Ungoverned), None);
        assert_eq!(of("l=a", Above::Nothing), None);
        let place = |name: &str, above| {
            let class = &schema.object_class(name).unwrap().element();
            rules.check_place(class, &rdn(&schema, "ou=a"), above).map_err(|error| error.diagnostic)
        };
        assert_eq!(place("device", Above::Ungoverned), Ok(()));
        assert_eq!(place("device", Above::Nothing), Ok(()));
        assert_eq!(
            place("device", Above::Governed(3)).unwrap_err(),
            "no structure rule lets this entry of class 'device' stand below an entry that \
             structure rule 3 'first' governs: its class has none"
        );
        assert!(
            place("person", Above::Governed(3)).unwrap_err().contains("structure rule 9 is for")
        );
        assert!(!Schema::builtin().structure_rules().has_rules());
        assert!(!Schema::builtin().structure_rules().has_forms());
    }

    fn entry(schema: &Schema, lines: &str) -> Entry {
        let pairs = lines.split("; ").map(|line| line.split_once(": ").unwrap());
        let pairs = pairs.map(|(description, value)| (description, value.as_bytes()));
        Entry::from_pairs(Dn::parse("cn=a").unwrap(), pairs, schema).unwrap()
    }

    #[test]
    fn what_is_tolerated_hides_nothing_that_is_not() {
        let schema = Schema::builtin();
        let all = || Tolerance::of(SchemaRule::ALL);
        let mut tolerance = all();
        let broken =
            entry(&schema, "objectClass: person; cn: a; mail: x; mail: é; employeeNumber: 1");
        assert!(validate_tolerant(&broken, &schema, Mode::Client, &mut tolerance).is_ok());
        let rules: Vec<_> = tolerance.into_broken().into_iter().map(|(rule, _)| rule).collect();
        assert_eq!(
            rules,
            [SchemaRule::Syntax, SchemaRule::Required, SchemaRule::Allowed],
            "each once"
        );
        // Behind what may be, what may not.
        for lines in [
            "objectClass: person; objectClass: alias; cn: a",
            "objectClass: device; cn: a; mail: x; userPassword: x",
            "objectClass: person; cn: a; mail: é; manager: é",
            "objectClass: person; cn: a; sn: b; c-l: y",
            "objectClass: top; cn: a",
            "objectClass: person; objectClass: none; cn: a",
            "objectClass: person; sn: a",
            "cn: a",
        ] {
            let entry = entry(&schema, lines);
            let found = validate_tolerant(&entry, &schema, Mode::Client, &mut all());
            assert!(found.is_err(), "{lines}");
        }
    }

    #[test]
    fn the_first_class_says_what_an_entry_of_several_is() {
        let schema = Schema::builtin();
        for (lines, is) in [
            ("objectClass: device; objectClass: person; cn: a; sn: b", "device"),
            (
                "objectClass: person; objectClass: device; objectClass: inetOrgPerson; \
                 cn: a; sn: b",
                "inetOrgPerson",
            ),
            ("objectClass: dcObject; objectClass: labeledURIObject; dc: a; cn: a", "dcObject"),
        ] {
            let mut tolerance = Tolerance::of([SchemaRule::StructuralClass, SchemaRule::Allowed]);
            let entry = entry(&schema, lines);
            let structure =
                validate_tolerant(&entry, &schema, Mode::Client, &mut tolerance).unwrap();
            assert_eq!(structure.structural.name(), is, "{lines}");
            assert!(tolerance.is_broken(SchemaRule::StructuralClass));
        }
    }
}
