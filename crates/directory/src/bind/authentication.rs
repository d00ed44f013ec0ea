//! How clients may prove who they are: what the settings of a node say about it.
//!
//! Invariant: attribute types are named as text here and resolved when they are used, because a
//! schema can change while the server runs. A name the schema does not have maps nobody.

use auth::jwt::TokenOptions;
use auth::plain::PLAIN;
use schema::{AttributeType, Schema};

use crate::error::DirectoryError;

/// What is accepted as proof, and how a name becomes an entry.
#[derive(Clone, Debug)]
pub struct AuthenticationOptions {
    /// Where a password is taken only under protection.
    pub confidentiality: Confidentiality,
    /// Where the mechanism PLAIN is, beyond that.
    pub plain_confidentiality: Confidentiality,
    /// SASL mechanisms that are offered, by name, wherever they can succeed.
    pub mechanisms: Vec<String>,
    /// Whether a simple bind may give a user's name in place of a DN.
    pub bind_by_name: bool,
    /// How a user's name becomes an entry.
    pub names: IdentityMapper,
    /// How a client certificate becomes an entry.
    pub certificates: CertificateMapper,
    /// What a bearer token must say.
    pub tokens: TokenOptions,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            confidentiality: Confidentiality::default(),
            plain_confidentiality: Confidentiality::Always,
            mechanisms: MECHANISMS.map(str::to_owned).into(),
            bind_by_name: true,
            names: IdentityMapper::default(),
            certificates: CertificateMapper::SubjectEqualsDn,
            tokens: TokenOptions::default(),
        }
    }
}

/// Where passwords and tokens need a connection that nobody can listen to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Confidentiality {
    /// Everywhere but on Unix sockets.
    Always,
    /// On connections that come from another machine.
    #[default]
    Remote,
    /// Nowhere.
    Never,
}

/// Finds the entry of a user's name: the one whose attribute equals it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IdentityMapper {
    /// Attribute types, asked in this order; the first that any entry answers decides.
    pub attributes: Vec<String>,
    /// DNs at or below which entries are looked for; empty: everywhere.
    pub bases: Vec<String>,
}

impl Default for IdentityMapper {
    fn default() -> Self {
        Self { attributes: vec!["uid".to_owned()], bases: Vec::new() }
    }
}

/// How a client certificate names an entry; the four ways and their names are OpenDJ's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CertificateMapper {
    /// The subject is the DN of the entry.
    SubjectEqualsDn,
    /// The subject is a value of this attribute type of the entry.
    SubjectDnToUserAttribute(String),
    /// Each of these attribute types of the subject has the value of the entry's: (subject, entry).
    SubjectAttributeToUserAttribute(Vec<(String, String)>),
    /// The fingerprint is a value of this attribute type of the entry.
    Fingerprint {
        /// Attribute type of the entry.
        attribute: String,
        /// What the fingerprint is made with.
        digest: FingerprintDigest,
    },
}

/// Digests of certificates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FingerprintDigest {
    /// SHA-1: what older directories hold. The certificate was verified by its issuer before.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl AuthenticationOptions {
    /// Refuses what can never work: an unknown attribute type or base.
    pub(crate) fn check(&self, schema: &Schema) -> Result<(), DirectoryError> {
        let bad = |text: &str, reason: String| {
            Err(DirectoryError::Authentication { text: text.to_owned(), reason })
        };
        for base in &self.names.bases {
            if let Err(error) = schema::DnKey::from_text(schema, base) {
                return bad(base, error.to_string());
            }
        }
        for name in self.attribute_types() {
            match schema.describe(name) {
                Ok(description) if description.is_password() => {
                    return bad(name, "a password names nobody".to_owned());
                }
                Ok(_) => {}
                Err(error) => return bad(name, error.to_string()),
            }
        }
        Ok(())
    }

    /// Whether a mechanism may be offered.
    pub(crate) fn allows(&self, mechanism: &str) -> bool {
        self.mechanisms.iter().any(|name| name == mechanism)
    }

    /// Whether values of a type are names of users: who signs in by one is the entry that has it.
    pub(crate) fn names_users(&self, kind: &AttributeType) -> bool {
        self.names.attributes.iter().any(|name| is_kind_of(kind, name))
    }

    /// Whether values of a type say which certificate signs in as the entry.
    pub(crate) fn signs_in(&self, kind: &AttributeType) -> bool {
        let is_one = |name: &str| is_kind_of(kind, name);
        OF_CERTIFICATES.iter().any(|name| is_one(name))
            || match &self.certificates {
                CertificateMapper::SubjectEqualsDn => false,
                CertificateMapper::SubjectDnToUserAttribute(name)
                | CertificateMapper::Fingerprint { attribute: name, .. } => is_one(name),
                CertificateMapper::SubjectAttributeToUserAttribute(pairs) => {
                    pairs.iter().any(|(_, of_entry)| is_one(of_entry))
                }
            }
    }

    fn attribute_types(&self) -> Vec<&str> {
        let mut all: Vec<&str> = self.names.attributes.iter().map(String::as_str).collect();
        match &self.certificates {
            CertificateMapper::SubjectEqualsDn => {}
            CertificateMapper::SubjectDnToUserAttribute(name)
            | CertificateMapper::Fingerprint { attribute: name, .. } => all.push(name),
            CertificateMapper::SubjectAttributeToUserAttribute(pairs) => {
                all.extend(pairs.iter().flat_map(|(subject, entry)| [&**subject, &**entry]));
            }
        }
        all
    }
}

/// Whether a type is the one of this name, or derived from it.
fn is_kind_of(kind: &AttributeType, name: &str) -> bool {
    let mut kinds = std::iter::successors(Some(kind), |kind| kind.superior.as_deref());
    kinds.any(|kind| kind.is_named(name))
}

/// What mappers of certificates look at by their defaults: protected whether or not one is set.
const OF_CERTIFICATES: [&str; 2] = ["ds-certificate-fingerprint", "ds-certificate-subject-dn"];

/// The SASL mechanism by which the connection itself says who the client is (RFC 4422).
pub(crate) const EXTERNAL: &str = "EXTERNAL";

/// The one that needs no proof (RFC 4505).
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

/// Kerberos (RFC 4752), where it is built in.
pub(crate) const GSSAPI: &str = "GSSAPI";

/// The mechanisms that are offered by default, the strongest first.
const MECHANISMS: [&str; 7] = [
    EXTERNAL,
    "SCRAM-SHA-512-PLUS",
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-512",
    "SCRAM-SHA-256",
    "OAUTHBEARER",
    PLAIN,
];
