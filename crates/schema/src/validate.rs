//! Validation: whether an entry keeps the rules of the schema.
//!
//! Invariant: every refusal names what breaks a rule and what would keep it, and never shows the
//! value of an attribute.

mod tolerance;

use std::sync::Arc;

use ldap::result::ResultCode;

use crate::attribute_type::AttributeType;
use crate::definition::ClassKind;
use crate::description::AttributeDescription;
use crate::entry::{Attribute, Entry, EntryError};
use crate::object_class::ObjectClass;
use crate::schema::Schema;
use crate::violation::Violation;

pub use tolerance::{SchemaRule, Tolerance, ToleratedViolations};
use tolerance::{is_bearable, is_bearable_anywhere};

/// Where an entry comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// From a client, who may not set what only the server sets.
    Client,
    /// From the server itself or an LDIF file: operational attributes are allowed.
    Import,
}

impl From<EntryError> for Violation {
    fn from(error: EntryError) -> Self {
        let code = match &error {
            EntryError::Description(_) => ResultCode::UndefinedAttributeType,
            EntryError::ValueExists(_) => ResultCode::AttributeOrValueExists,
            EntryError::NoSuchValue(_) | EntryError::NoSuchAttribute(_) => {
                ResultCode::NoSuchAttribute
            }
            EntryError::TooManyAttributes => ResultCode::AdminLimitExceeded,
        };
        Self::new(code, error.to_string())
    }
}

/// Checks everything about an entry: classes, attributes, values, name.
pub fn validate(entry: &Entry, schema: &Schema, mode: Mode) -> Result<Structure, Violation> {
    validate_tolerant(entry, schema, mode, &mut Tolerance::none())
}

/// Checks everything about an entry but what it may break.
pub fn validate_tolerant(
    entry: &Entry,
    schema: &Schema,
    mode: Mode,
    tolerance: &mut Tolerance,
) -> Result<Structure, Violation> {
    check_parts(entry, schema, mode, tolerance)?;
    let structure = Structure::tolerated(entry, schema, tolerance)?;
    structure.check_attributes(entry, schema, tolerance)?;
    Ok(structure)
}

/// Checks the name and each attribute on its own.
pub(crate) fn check_parts(
    entry: &Entry,
    schema: &Schema,
    mode: Mode,
    tolerance: &mut Tolerance,
) -> Result<(), Violation> {
    check_name(entry, schema)?;
    for attribute in entry.attributes() {
        match mode {
            Mode::Client => check_modifiable(&attribute.description)?,
            Mode::Import => {}
        }
        check_values(attribute, schema, tolerance)?;
    }
    Ok(())
}

/// Checks an entry of which only the attributes in `touched` changed; they need not be there.
///
/// Costs nothing for the values of other attributes, however many there are.
pub fn validate_touched(
    entry: &Entry,
    schema: &Schema,
    touched: &[Arc<AttributeDescription>],
    tolerance: &mut Tolerance,
) -> Result<Structure, Violation> {
    for attribute in touched.iter().filter_map(|description| entry.get(description)) {
        check_values(attribute, schema, tolerance)?;
    }
    let structure = Structure::tolerated(entry, schema, tolerance)?;
    structure.check_attributes(entry, schema, tolerance)?;
    check_name(entry, schema)?;
    Ok(structure)
}

/// What an entry is, by its object classes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Structure {
    /// The most specific structural class (RFC 4512 §2.4.2).
    pub structural: Arc<ObjectClass>,
    /// Every class that the entry names.
    pub classes: Vec<Arc<ObjectClass>>,
}

impl Structure {
    /// Resolves the object classes of an entry.
    pub fn of(entry: &Entry, schema: &Schema) -> Result<Self, Violation> {
        Self::tolerated(entry, schema, &mut Tolerance::none())
    }

    /// Resolves the object classes of an entry. If it may have no structural one, or several that
    /// have nothing to do with each other, the first that is listed says what it is.
    pub fn tolerated(
        entry: &Entry,
        schema: &Schema,
        tolerance: &mut Tolerance,
    ) -> Result<Self, Violation> {
        let names = entry.values(&schema.well_known().object_class);
        if names.is_empty() {
            return Err(Violation::of_class(
                "entry has no attribute 'objectClass': add its structural object class",
            ));
        }
        let mut classes = Vec::with_capacity(names.len());
        for name in names {
            let name = String::from_utf8_lossy(name);
            let class = schema.object_class(&name).ok_or_else(|| {
                Violation::of_class(format!("object class '{}' is not defined", shortened(&name)))
            })?;
            classes.push(Arc::clone(class));
        }
        let structural = most_specific(&classes, schema, tolerance)?;
        Ok(Self { structural, classes })
    }

    /// Checks that everything required is there and everything there is allowed.
    pub fn check_attributes(
        &self,
        entry: &Entry,
        schema: &Schema,
        tolerance: &mut Tolerance,
    ) -> Result<(), Violation> {
        self.check_required(entry, tolerance)?;
        self.check_allowed(entry, schema, tolerance)?;
        self.check_content_rule(entry, schema, tolerance)
    }

    fn check_required(&self, entry: &Entry, tolerance: &mut Tolerance) -> Result<(), Violation> {
        let is_there = |required: &AttributeType| {
            entry.attributes().iter().any(|found| *found.description.kind == *required)
        };
        for class in &self.classes {
            for missing in class.all_must.iter().filter(|required| !is_there(required)) {
                tolerance.judge(SchemaRule::Required, is_bearable(missing), || {
                    let (class, missing) = (class.name(), missing.name());
                    Violation::of_class(format!(
                        "object class '{class}' requires attribute '{missing}'"
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn check_allowed(
        &self,
        entry: &Entry,
        schema: &Schema,
        tolerance: &mut Tolerance,
    ) -> Result<(), Violation> {
        let rule = schema.content_rule(&self.structural);
        for attribute in entry.attributes() {
            let kind = &attribute.description.kind;
            let is_allowed = || {
                self.classes.iter().any(|class| class.allows(kind))
                    || rule.is_some_and(|rule| rule.must.contains(kind) || rule.may.contains(kind))
            };
            if kind.collective {
                // A subentry may hold any of them (RFC 3671 §3).
                if !self.is_subentry(schema) {
                    return Err(Violation::of_class(format!(
                        "attribute '{}' is collective: put it in a subentry",
                        attribute.description
                    )));
                }
            } else if !kind.is_operational() && !is_allowed() {
                tolerance.judge(SchemaRule::Allowed, is_bearable_anywhere(kind), || {
                    Violation::of_class(format!(
                        "attribute '{}' is not allowed by the object classes of the entry: leave \
                         it out or add a class that allows it",
                        attribute.description
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn is_subentry(&self, schema: &Schema) -> bool {
        self.structural.is_subclass_of(&schema.well_known().subentry)
    }

    /// Checks against the DIT content rule of the structural class, if there is one
    /// (RFC 4512 §4.1.6).
    fn check_content_rule(
        &self,
        entry: &Entry,
        schema: &Schema,
        tolerance: &mut Tolerance,
    ) -> Result<(), Violation> {
        match self.broken_content_rule(entry, schema) {
            None => Ok(()),
            Some(what) => tolerance.judge(SchemaRule::Content, true, || {
                let structural = self.structural.name();
                Violation::of_class(format!("the DIT content rule of '{structural}' {what}"))
            }),
        }
    }

    fn broken_content_rule(&self, entry: &Entry, schema: &Schema) -> Option<String> {
        let rule = schema.content_rule(&self.structural)?;
        let is_there = |kind: &AttributeType| {
            entry.attributes().iter().any(|found| *found.description.kind == *kind)
        };
        let is_excluded = |class: &&Arc<ObjectClass>| {
            class.kind == ClassKind::Auxiliary && !rule.auxiliary.contains(class)
        };
        if let Some(class) = self.classes.iter().find(is_excluded) {
            return Some(format!("does not allow object class '{}'", class.name()));
        }
        if let Some(kind) = rule.must.iter().find(|kind| !is_there(kind)) {
            return Some(format!("requires attribute '{}'", kind.name()));
        }
        let kind = rule.not.iter().find(|kind| is_there(kind))?;
        Some(format!("forbids attribute '{}'", kind.name()))
    }
}

/// Refuses attributes that only the server changes (RFC 4512 §2.5.1, NO-USER-MODIFICATION).
pub fn check_modifiable(description: &AttributeDescription) -> Result<(), Violation> {
    if description.kind.no_user_modification {
        return Err(Violation::new(
            ResultCode::ConstraintViolation,
            format!("attribute '{description}' is kept by the server and cannot be set"),
        ));
    }
    Ok(())
}

/// Checks number and syntax of the values of one attribute.
pub(crate) fn check_values(
    attribute: &Attribute,
    schema: &Schema,
    tolerance: &mut Tolerance,
) -> Result<(), Violation> {
    let Attribute { description, values } = attribute;
    let kind = &description.kind;
    if description.is_range() {
        return Err(Violation::new(
            ResultCode::ConstraintViolation,
            format!("attribute '{description}' names a range of languages: name one language"),
        ));
    }
    if kind.single_value && values.len() > 1 {
        tolerance.judge(SchemaRule::SingleValue, is_bearable(kind), || {
            Violation::new(
                ResultCode::ConstraintViolation,
                format!("attribute '{description}' takes one value, not {}", values.len()),
            )
        })?;
    }
    for (position, value) in values.iter().enumerate() {
        if let Err(reason) = (kind.syntax.check)(schema, value) {
            tolerance.judge(SchemaRule::Syntax, is_bearable(kind), || {
                Violation::new(
                    ResultCode::InvalidAttributeSyntax,
                    format!("value {} of attribute '{description}' {reason}", position + 1),
                )
            })?;
        }
    }
    Ok(())
}

/// Checks that the leaf of the name may name an entry, and that the entry has the values that its
/// name has (RFC 4512 §2.3).
pub fn check_name(entry: &Entry, schema: &Schema) -> Result<(), Violation> {
    let Some(rdn) = entry.name().rdns().first() else { return Ok(()) };
    let mut naming = Vec::new();
    for ava in rdn.avas() {
        let description = schema.describe(&ava.attribute).map_err(EntryError::from)?;
        let kind = &description.kind;
        if kind.equality.is_none() || kind.is_operational() {
            let reason =
                if kind.is_operational() { "is operational" } else { "has no equality rule" };
            return Err(Violation::new(
                ResultCode::NamingViolation,
                format!("attribute '{description}' {reason} and cannot name an entry"),
            ));
        }
        // The usual case.
        if let ([_], true) = (rdn.avas(), entry.values(&description).contains(&ava.value)) {
            return Ok(());
        }
        naming.push((description, &*ava.value));
    }
    match entry.missing_values(schema, naming).first() {
        None => Ok(()),
        Some((description, _)) => Err(Violation::new(
            ResultCode::NamingViolation,
            format!(
                "attribute '{description}' lacks the value that the name of the entry has: add \
                 it, or rename the entry"
            ),
        )),
    }
}

/// The structural class that is derived from all other structural ones.
fn most_specific(
    classes: &[Arc<ObjectClass>],
    schema: &Schema,
    tolerance: &mut Tolerance,
) -> Result<Arc<ObjectClass>, Violation> {
    let structural = || classes.iter().filter(|class| class.kind == ClassKind::Structural);
    let is_lowest =
        |class: &&Arc<ObjectClass>| structural().all(|other| class.is_subclass_of(other));
    if let Some(lowest) = structural().find(is_lowest) {
        return Ok(Arc::clone(lowest));
    }
    let is_bearable = !classes.iter().any(|class| class.is_minded(schema));
    let Some(first) = structural().next() else {
        if let Some(class) = classes.iter().find(|class| class.oid.as_str() == POSIX_GROUP) {
            return Ok(Arc::clone(class));
        }
        let auxiliary = classes.iter().find(|class| class.kind == ClassKind::Auxiliary);
        let refuse = || {
            Violation::of_class(
                "entry has no structural object class: add one that says what it is",
            )
        };
        let Some(auxiliary) = auxiliary else { return Err(refuse()) };
        tolerance.judge(SchemaRule::StructuralClass, is_bearable, refuse)?;
        return Ok(Arc::clone(auxiliary));
    };
    let is_unrelated =
        |other: &&Arc<ObjectClass>| !first.is_subclass_of(other) && !other.is_subclass_of(first);
    let other = structural().find(is_unrelated).unwrap_or(first);
    tolerance.judge(SchemaRule::StructuralClass, is_bearable, || {
        Violation::of_class(format!(
            "object classes '{}' and '{}' are both structural and neither is derived from the \
             other: keep one",
            first.name(),
            other.name()
        ))
    })?;
    // The lowest one of the chain that the first is of.
    let lower = |one: &Arc<ObjectClass>| {
        structural().find(|other| *other != one && other.is_subclass_of(one)).cloned()
    };
    let chain = std::iter::successors(Some(Arc::clone(first)), lower);
    Ok(chain.last().unwrap_or_else(|| Arc::clone(first)))
}

/// The OID of posixGroup: structural in RFC 2307, auxiliary in its successor, where a group can be
/// a groupOfNames too. Entries of both kinds are common, so alone it says what an entry is.
const POSIX_GROUP: &str = "1.3.6.1.1.1.2.2";

/// A name for a diagnostic; what a client sends as a name may be of any length.
fn shortened(name: &str) -> &str {
    const SHOWN_MAX_BYTES: usize = 64;
    name.get(..name.floor_char_boundary(SHOWN_MAX_BYTES)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
