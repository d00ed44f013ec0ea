//! `[authentication]`, and what the directory gets of it.

use std::path::PathBuf;

use auth::jwt::TokenOptions;
use directory::{
    AuthenticationOptions, CertificateMapper, Confidentiality, FingerprintDigest, IdentityMapper,
};

/// `[authentication]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationSettings {
    /// Where passwords need TLS: `always`, `remote` or `never`.
    pub confidentiality: &'static str,
    /// Where the mechanism PLAIN needs TLS: `always`, `remote` or `never`.
    pub plain_confidentiality: &'static str,
    /// SASL mechanisms.
    pub mechanisms: Vec<&'static str>,
    /// Whether a simple bind may give a user's name.
    pub bind_by_name: bool,
    /// Attribute types that have users' names.
    pub name_attributes: Vec<String>,
    /// DNs below which users are; empty = everywhere.
    pub name_bases: Vec<String>,
    /// How the entry of a client certificate is found.
    pub certificate_mapper: &'static str,
    /// Attribute type that has the subject.
    pub certificate_subject_attribute: String,
    /// Pairs of attribute types, `SUBJECT:ENTRY`.
    pub certificate_attributes: Vec<String>,
    /// Attribute type that has the fingerprint.
    pub certificate_fingerprint_attribute: String,
    /// `sha256` or `sha1`.
    pub certificate_fingerprint_digest: &'static str,
    /// Keys of the service for Kerberos; relative to the data directory; empty = as the system has
    /// it.
    pub keytab: PathBuf,
    /// JSON Web Key Set; relative to the data directory; empty = none.
    pub token_keys: PathBuf,
    /// `iss`.
    pub token_issuer: String,
    /// `aud`.
    pub token_audience: String,
    /// The claim with the user's name.
    pub token_claim: String,
    /// Seconds by which clocks may differ.
    pub token_clock_skew_s: u32,
}

impl AuthenticationSettings {
    /// What the directory is opened with.
    #[must_use]
    pub fn options(&self) -> AuthenticationOptions {
        AuthenticationOptions {
            confidentiality: confidentiality(self.confidentiality),
            plain_confidentiality: confidentiality(self.plain_confidentiality),
            mechanisms: self.mechanisms.iter().map(|name| (*name).to_owned()).collect(),
            bind_by_name: self.bind_by_name,
            names: IdentityMapper {
                attributes: self.name_attributes.clone(),
                bases: self.name_bases.clone(),
            },
            certificates: self.certificates(),
            tokens: TokenOptions {
                issuer: self.token_issuer.clone(),
                audience: self.token_audience.clone(),
                claim: self.token_claim.clone(),
                clock_skew_s: self.token_clock_skew_s,
            },
        }
    }

    fn certificates(&self) -> CertificateMapper {
        match self.certificate_mapper {
            "subject-dn-to-user-attribute" => CertificateMapper::SubjectDnToUserAttribute(
                self.certificate_subject_attribute.clone(),
            ),
            "subject-attribute-to-user-attribute" => {
                let pairs = self.certificate_attributes.iter().filter_map(|pair| {
                    let (subject, entry) = pair.split_once(':')?;
                    Some((subject.trim().to_owned(), entry.trim().to_owned()))
                });
                CertificateMapper::SubjectAttributeToUserAttribute(pairs.collect())
            }
            "fingerprint" => CertificateMapper::Fingerprint {
                attribute: self.certificate_fingerprint_attribute.clone(),
                digest: match self.certificate_fingerprint_digest {
                    "sha1" => FingerprintDigest::Sha1,
                    _ => FingerprintDigest::Sha256,
                },
            },
            _ => CertificateMapper::SubjectEqualsDn,
        }
    }
}

fn confidentiality(word: &str) -> Confidentiality {
    match word {
        "always" => Confidentiality::Always,
        "never" => Confidentiality::Never,
        _ => Confidentiality::Remote,
    }
}

/// The names of OpenDJ's mappers.
pub(super) const CERTIFICATE_MAPPERS: &[&str] = &[
    "subject-equals-dn",
    "subject-dn-to-user-attribute",
    "subject-attribute-to-user-attribute",
    "fingerprint",
];

/// The names of the mechanisms, the strongest first.
pub(super) const MECHANISMS: &[&str] = &[
    "EXTERNAL",
    "SCRAM-SHA-512-PLUS",
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-512",
    "SCRAM-SHA-256",
    "GSSAPI",
    "OAUTHBEARER",
    "PLAIN",
    "ANONYMOUS",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_defaults_are_those_of_the_directory() {
        let settings = Settings::default();
        let (ours, theirs) = (settings.authentication.options(), AuthenticationOptions::default());
        assert_eq!(ours.confidentiality, theirs.confidentiality);
        assert_eq!(ours.plain_confidentiality, theirs.plain_confidentiality);
        assert_eq!(ours.mechanisms, theirs.mechanisms);
        assert_eq!(ours.bind_by_name, theirs.bind_by_name);
        assert_eq!(ours.names, theirs.names);
        assert_eq!(ours.certificates, theirs.certificates);
        assert_eq!(MECHANISMS.len(), theirs.mechanisms.len() + 2, "all but GSSAPI, ANONYMOUS");
    }
}
