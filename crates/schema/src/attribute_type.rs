//! Attribute types (RFC 4512 §2.5.1), with everything they inherit resolved.
//!
//! Invariant: a type's chain of superiors is finite and at most
//! [`SUPERIOR_DEPTH_MAX`](crate::SUPERIOR_DEPTH_MAX) long; loading refuses anything else.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::definition::{Extension, Usage};
use crate::rules::{MatchingRule, Syntax};
use crate::syntax::oid;

/// One attribute type. Two are equal when their OIDs are, whichever version of the schema they
/// are from.
pub struct AttributeType {
    /// Dotted OID; some private types have `name-oid` instead.
    pub oid: String,
    /// Short names, the primary one first. May be empty.
    pub names: Vec<String>,
    /// What the type is for, in words.
    pub description: Option<String>,
    /// Not to be used for new data.
    pub obsolete: bool,
    /// The type this one is a kind of.
    pub superior: Option<Arc<Self>>,
    /// How two values are compared; `None`: by no filter and no modification.
    pub equality: Option<&'static MatchingRule>,
    /// How values are ordered.
    pub ordering: Option<&'static MatchingRule>,
    /// How pieces of values are found.
    pub substring: Option<&'static MatchingRule>,
    /// The form of the values.
    pub syntax: &'static Syntax,
    /// Suggested longest value, in characters or octets. A hint, not enforced (RFC 4512 §4.1.2).
    pub length_max: Option<u32>,
    /// An entry holds at most one value.
    pub single_value: bool,
    /// Shared by the entries of a subtree (RFC 3671).
    pub collective: bool,
    /// Only the server changes it.
    pub no_user_modification: bool,
    /// What the attribute is for: people's data or the server's.
    pub usage: Usage,
    /// `X-` items, in the order written.
    pub extensions: Vec<Extension>,
    /// See [`Self::is_secret`].
    pub(crate) secret: bool,
    /// See [`Self::key`].
    pub(crate) key: String,
    /// A number that types of one OID share, and few others.
    pub(crate) oid_hash: u64,
    /// See [`Self::families`].
    pub(crate) families: Families,
}

/// One bit for a type and each of its superiors; some types share one. A type that has no bit in
/// common with another's [`AttributeType::family`] is certainly none of its subtypes.
pub type Families = u128;

impl AttributeType {
    /// The primary name, or the OID of a type without names.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// [`Self::name`] in lower case: how names of entries are stored, so it must never change.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A number that types of one OID share, and few others: for tables by type.
    pub const fn number(&self) -> u64 {
        self.oid_hash
    }

    /// The bit of this type among [`Families`].
    #[inline]
    pub const fn family(&self) -> Families {
        family_of(self.oid_hash)
    }

    /// The bits of this type and of all its superiors.
    #[inline]
    pub const fn families(&self) -> Families {
        self.families
    }

    /// Whether this type is `other` or derived from it.
    #[inline]
    pub fn is_subtype_of(&self, other: &Self) -> bool {
        // Most are asked about many that they do not come from.
        self.families & other.family() != 0 && self.comes_from(other)
    }

    fn comes_from(&self, other: &Self) -> bool {
        let mut kind = self;
        loop {
            if kind == other {
                return true;
            }
            match &kind.superior {
                Some(superior) => kind = superior,
                None => return false,
            }
        }
    }

    /// Whether the attribute belongs to the server's workings and is returned only when asked for
    /// (RFC 4512 §3.4).
    pub fn is_operational(&self) -> bool {
        self.usage.is_operational()
    }

    /// Whether its values are for nobody's eyes: passwords, keys, the state of passwords. The
    /// definition says so (`X-SECRET 'TRUE'`), or it is one of [`KNOWN_SECRETS`], or derived from
    /// such a type.
    ///
    /// [`KNOWN_SECRETS`]: crate::KNOWN_SECRETS
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// Whether values are names of entries, with a rule that says which are the same.
    pub fn names_entries(&self) -> bool {
        const OF_NAMES: [&str; 2] = [oid::DN, oid::NAME_AND_OPTIONAL_UID];
        self.equality.is_some() && OF_NAMES.contains(&self.syntax.oid)
    }

    /// Whether a log had better not show values: what is secret, but for the times and numbers that
    /// the server itself keeps of an account, such as since when it is locked.
    pub fn is_kept_from_logs(&self) -> bool {
        const STATE: [&str; 3] = [oid::GENERALIZED_TIME, oid::INTEGER, oid::BOOLEAN];
        self.secret && !(self.no_user_modification && STATE.contains(&self.syntax.oid))
    }

    /// Whether `name` is one of the names or the OID, in any case.
    pub fn is_named(&self, name: &str) -> bool {
        self.oid.eq_ignore_ascii_case(name)
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The bit of a type whose OID has this hash: its best bits are the highest.
pub(crate) const fn family_of(oid_hash: u64) -> Families {
    1 << (oid_hash >> (u64::BITS - Families::BITS.ilog2()))
}

impl PartialEq for AttributeType {
    fn eq(&self, other: &Self) -> bool {
        // Most are compared with many that differ; the number says so without a look at the text.
        std::ptr::eq(self, other) || (self.oid_hash == other.oid_hash && self.oid == other.oid)
    }
}

impl Eq for AttributeType {}

impl Hash for AttributeType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.oid.hash(state);
    }
}

impl fmt::Debug for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttributeType({} {})", self.oid, self.name())
    }
}
