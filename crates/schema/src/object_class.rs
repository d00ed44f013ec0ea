//! Object classes (RFC 4512 §2.4), with their superiors and attribute lists resolved.
//!
//! Invariant: superior classes form a finite graph without cycles, and the kinds of a class and
//! its superiors fit together (RFC 4512 §2.4.1–2.4.3).

use std::fmt;
use std::sync::Arc;

use crate::attribute_type::AttributeType;
use crate::definition::{ClassKind, Extension};
use crate::schema::Schema;
use crate::structure::SchemaElement;

/// The OID of `extensibleObject`, whose entries may hold any attribute (RFC 4512 §4.3).
const EXTENSIBLE_OBJECT_OID: &str = "1.3.6.1.4.1.1466.101.120.111";

/// Structural classes of groups whose members are attributes of auxiliary classes: that of RFC
/// 2307. In RFC 2307bis it is an auxiliary class itself, and makes no group.
const WITH_MEMBERS_BY_OTHERS: &[&str] = &["posixGroup"];

/// The class of subentries that other servers have.
const LDAP_SUBENTRY: &str = "ldapSubentry";

/// One object class. Two are equal when their OIDs are, whichever version of the schema they are
/// from.
pub struct ObjectClass {
    /// Dotted OID; some private classes have `name-oid` instead.
    pub oid: String,
    /// Short names, the primary one first. May be empty.
    pub names: Vec<String>,
    /// What the class is for, in words.
    pub description: Option<String>,
    /// Not to be used for new data.
    pub obsolete: bool,
    /// Direct superiors, in the order written.
    pub superiors: Vec<Arc<Self>>,
    /// How entries may use it.
    pub kind: ClassKind,
    /// Attributes this class itself requires.
    pub must: Vec<Arc<AttributeType>>,
    /// Attributes this class itself allows.
    pub may: Vec<Arc<AttributeType>>,
    /// Attributes this class or a superior requires, each once.
    pub all_must: Vec<Arc<AttributeType>>,
    /// Attributes this class or a superior allows, each once; may hold some of `all_must`.
    pub all_may: Vec<Arc<AttributeType>>,
    /// `X-` items, in the order written.
    pub extensions: Vec<Extension>,
    /// OIDs of all superiors, direct and indirect.
    pub(crate) ancestors: Vec<String>,
}

impl ObjectClass {
    /// The primary name, or the OID of a class without names.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Its OID and name.
    pub fn element(&self) -> SchemaElement {
        SchemaElement { oid: self.oid.clone(), name: self.name().to_owned() }
    }

    /// Whether it is structural and provides for members itself: `groupOfNames` and its like, and
    /// what other vendors and sites define.
    #[must_use]
    pub fn is_of_groups(&self, schema: &Schema) -> bool {
        let known = schema.well_known();
        let named = [&known.member, &known.unique_member, &known.member_url];
        let mut attributes = self.all_must.iter().chain(&self.all_may);
        let is_listed = |name: &str| {
            schema.object_class(name).is_some_and(|listed| self.is_subclass_of(listed))
        };
        self.kind == ClassKind::Structural
            && (attributes.any(|kind| named.iter().any(|one| kind.is_subtype_of(&one.kind)))
                || WITH_MEMBERS_BY_OTHERS.iter().any(|name| is_listed(name)))
    }

    /// Whether the server minds that an entry is one of this class, from its first day on: it may
    /// be a group, stand for another entry, or be there for the server.
    #[must_use]
    pub fn is_minded(&self, schema: &Schema) -> bool {
        let known = schema.well_known();
        let is_of = |special: &Self| self.is_subclass_of(special);
        let named = [&known.alias, &known.referral, &known.subentry];
        named.into_iter().any(|special| is_of(special))
            || schema.object_class(LDAP_SUBENTRY).is_some_and(|special| is_of(special))
            || self.is_of_groups(schema)
    }

    /// Whether this class is `other` or derived from it.
    pub fn is_subclass_of(&self, other: &Self) -> bool {
        self == other || self.ancestors.contains(&other.oid)
    }

    /// Whether an entry of this class must hold `kind`.
    pub fn requires(&self, kind: &AttributeType) -> bool {
        self.all_must.iter().any(|required| **required == *kind)
    }

    /// Whether an entry of this class must or may hold `kind`.
    pub fn allows(&self, kind: &AttributeType) -> bool {
        // Mostly both are of the same schema, where each type has one place; that costs less.
        self.all_may.iter().any(|allowed| std::ptr::eq(&**allowed, kind))
            || self.requires(kind)
            || self.is_extensible()
            || self.all_may.iter().any(|allowed| **allowed == *kind)
    }

    /// Whether it is `extensibleObject` or derived from it.
    pub fn is_extensible(&self) -> bool {
        self.oid == EXTENSIBLE_OBJECT_OID
            || self.ancestors.iter().any(|oid| oid == EXTENSIBLE_OBJECT_OID)
    }

    /// Whether `name` is one of the names or the OID, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.oid.eq_ignore_ascii_case(name)
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl PartialEq for ObjectClass {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.oid == other.oid
    }
}

impl Eq for ObjectClass {}

impl fmt::Debug for ObjectClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectClass({} {})", self.oid, self.name())
    }
}
