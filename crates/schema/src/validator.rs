//! Validation of many entries, most of which are alike: what object classes mean together and which
//! attributes they allow is found out once for each list of them.
//!
//! Invariant: a validator refuses what [`validate`](crate::validate) refuses, in the same words.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::entry::Entry;
use crate::schema::Schema;
use crate::validate::{Mode, SchemaRule, Structure, Tolerance, ToleratedViolations, check_parts};
use crate::violation::Violation;

/// Validates entries from an LDIF file; one for each thread.
#[derive(Debug)]
pub struct Validator {
    schema: Arc<Schema>,
    /// By the values of `objectClass`, each behind its length.
    classes: FxHashMap<Vec<u8>, Arc<Classes>>,
    /// What is known to be right: the number of a list of classes, and the places in memory of the
    /// attribute types. They are those of `schema`, which holds them as long as this lives.
    shapes: FxHashSet<Vec<usize>>,
    key: Vec<u8>,
    shape: Vec<usize>,
    /// What entries may break.
    tolerated: Vec<SchemaRule>,
}

/// What a list of object classes means.
#[derive(Debug)]
pub struct Classes {
    /// What an entry of these classes is.
    pub structure: Structure,
    number: usize,
    /// Whether all their superiors are in the list.
    is_complete: bool,
}

impl Validator {
    /// Validates by this schema.
    #[must_use]
    pub fn new(schema: Arc<Schema>) -> Self {
        Self {
            schema,
            classes: FxHashMap::default(),
            shapes: FxHashSet::default(),
            key: Vec::new(),
            shape: Vec::new(),
            tolerated: Vec::new(),
        }
    }

    /// Lets entries break these rules.
    #[must_use]
    pub fn tolerating(self, tolerated: Vec<SchemaRule>) -> Self {
        Self { tolerated, ..self }
    }

    /// The schema.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Checks everything about an entry, which was made with the same schema, and adds the
    /// superiors of its object classes that are missing. Tells what it breaks of what it may break.
    ///
    /// # Errors
    /// The first rule that the entry breaks and may not.
    pub fn complete(
        &mut self,
        entry: &mut Entry,
    ) -> Result<(Arc<Classes>, ToleratedViolations), Violation> {
        let mut tolerance = Tolerance::of(self.tolerated.iter().copied());
        check_parts(entry, &self.schema, Mode::Import, &mut tolerance)?;
        let classes = self.classes_of(entry, &mut tolerance)?;
        self.check_shape(entry, &classes, &mut tolerance)?;
        if !classes.is_complete {
            entry.add_superior_classes(&self.schema)?;
        }
        Ok((classes, tolerance.into_broken()))
    }

    fn classes_of(
        &mut self,
        entry: &Entry,
        tolerance: &mut Tolerance,
    ) -> Result<Arc<Classes>, Violation> {
        self.key.clear();
        for value in entry.values(&self.schema.well_known().object_class) {
            self.key.extend_from_slice(&value.len().to_le_bytes());
            self.key.extend_from_slice(value);
        }
        if let Some(classes) = self.classes.get(&self.key) {
            return Ok(Arc::clone(classes));
        }
        let structure = Structure::tolerated(entry, &self.schema, tolerance)?;
        let is_there = |superior| structure.classes.contains(superior);
        let is_complete =
            structure.classes.iter().all(|class| class.superiors.iter().all(is_there));
        if self.classes.len() >= CLASS_LISTS_MAX {
            self.classes.clear();
            self.shapes.clear();
        }
        let is_right = !tolerance.is_broken(SchemaRule::StructuralClass);
        let number = if is_right { self.classes.len() } else { NUMBER_OF_NONE };
        let classes = Arc::new(Classes { structure, number, is_complete });
        if is_right {
            self.classes.insert(self.key.clone(), Arc::clone(&classes));
        }
        Ok(classes)
    }

    fn check_shape(
        &mut self,
        entry: &Entry,
        classes: &Classes,
        tolerance: &mut Tolerance,
    ) -> Result<(), Violation> {
        if classes.number == NUMBER_OF_NONE {
            return classes.structure.check_attributes(entry, &self.schema, tolerance);
        }
        self.shape.clear();
        self.shape.push(classes.number);
        for attribute in entry.attributes() {
            self.shape.push(Arc::as_ptr(&attribute.description.kind).addr());
        }
        if self.shapes.contains(&self.shape) {
            return Ok(());
        }
        classes.structure.check_attributes(entry, &self.schema, tolerance)?;
        // What is remembered is right, not what is borne.
        let of_shape = [SchemaRule::Required, SchemaRule::Allowed, SchemaRule::Content];
        if of_shape.into_iter().any(|rule| tolerance.is_broken(rule)) {
            return Ok(());
        }
        if self.shapes.len() >= SHAPES_MAX {
            self.shapes.clear();
        }
        self.shapes.insert(self.shape.clone());
        Ok(())
    }
}

/// Of a list of object classes that is not remembered.
const NUMBER_OF_NONE: usize = usize::MAX;
/// The most lists of object classes that are remembered.
const CLASS_LISTS_MAX: usize = 4096;
/// The most shapes of entries that are remembered.
const SHAPES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use ldap::dn::Dn;

    use super::*;
    use crate::validate;

    fn entry(schema: &Schema, lines: &str) -> Entry {
        let pairs = lines.split("; ").map(|line| line.split_once(": ").unwrap());
        let pairs = pairs.map(|(description, value)| (description, value.as_bytes()));
        Entry::from_pairs(Dn::parse("cn=a").unwrap(), pairs, schema).unwrap()
    }

    #[test]
    fn what_is_remembered_changes_no_answer() {
        let schema = Schema::builtin();
        let mut validator = Validator::new(Arc::clone(&schema));
        let (person, inet) = ("objectClass: person", "objectClass: inetOrgPerson");
        let lines = [
            format!("{person}; cn: a; sn: b"),
            format!("{person}; cn: a"),
            format!("{person}; cn: a; sn: b; mail: x"),
            format!("{inet}; cn: a; sn: b; mail: x"),
            format!("{inet}; {person}; objectClass: top; cn: a; sn: b; mail: x"),
            format!("{inet}; cn: a; sn: b; mail: \u{e9}"),
            format!("{inet}; cn: a; cn;lang-de: b; sn: b"),
            format!("{inet}; cn;lang-de: a; sn: b"),
            format!("{person}; objectClass: device; cn: a; sn: b"),
            format!("{person}; objectClass: extensibleObject; cn: a; sn: b; mail: x; c-l: y"),
            "objectClass: top; cn: a".to_owned(),
            "objectClass: none; cn: a".to_owned(),
            "cn: a".to_owned(),
            "objectClass: person\0top; cn: a; sn: b".to_owned(),
            format!("{person}; objectClass: top; cn: a; sn: b"),
        ];
        for _ in 0..2 {
            for lines in &lines {
                let mut expected = entry(&schema, lines);
                let outcome = validate(&expected, &schema, Mode::Import);
                if outcome.is_ok() {
                    expected.add_superior_classes(&schema).unwrap();
                }
                let mut found = entry(&schema, lines);
                let completed = validator.complete(&mut found);
                assert_eq!(
                    completed.map(|(classes, _)| classes.structure.clone()),
                    outcome,
                    "{lines}"
                );
                assert_eq!(found, expected, "{lines}");
            }
        }
    }

    #[test]
    fn what_is_tolerated_is_told_each_time() {
        let schema = Schema::builtin();
        let (allowed, structural) = (SchemaRule::Allowed, SchemaRule::StructuralClass);
        let validator = Validator::new(Arc::clone(&schema));
        let mut validator = validator.tolerating(vec![allowed, structural]);
        for _ in 0..3 {
            for (lines, rules) in [
                ("objectClass: person; cn: a; sn: b; mail: x", &[allowed][..]),
                ("objectClass: person; cn: a; sn: b", &[]),
                ("objectClass: device; objectClass: person; cn: a; sn: b", &[structural]),
                ("objectClass: dcObject; dc: b; cn: a", &[structural, allowed]),
            ] {
                let (_, broken) = validator.complete(&mut entry(&schema, lines)).unwrap();
                let found: Vec<_> = broken.into_iter().map(|(rule, _)| rule).collect();
                assert_eq!(found, rules, "{lines}");
            }
            let refused = validator.complete(&mut entry(&schema, "objectClass: person; cn: a"));
            assert!(refused.is_err());
        }
    }
}
