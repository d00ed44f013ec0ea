//! What is read from an X.509 certificate: its subject as a DN, its last moment, and the value that
//! binds a channel to it.

use ldap::dn::escape_value;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_parser::asn1_rs::ToDer as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Facts of the server's certificate.
pub(super) struct Facts {
    pub(super) subject: String,
    /// Seconds since 1970.
    pub(super) expires: i64,
    /// The SHA-256 of all of it, in hexadecimal digits.
    pub(super) sha256: String,
    /// `tls-server-end-point`.
    pub(super) server_end_point: Option<Vec<u8>>,
}

pub(super) fn facts(der: &[u8]) -> Option<Facts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(Facts {
        subject: name(certificate.subject())?,
        expires: certificate.validity().not_after.timestamp(),
        sha256: Sha256::digest(der).iter().map(|octet| format!("{octet:02x}")).collect(),
        server_end_point: server_end_point(der, &certificate),
    })
}

/// The subject of a certificate as a DN (RFC 4514).
pub(super) fn subject(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    name(certificate.subject())
}

/// RFC 4514 §2.1: the last RDN of the certificate comes first.
fn name(name: &X509Name<'_>) -> Option<String> {
    let mut text = String::new();
    let rdns = name.iter_rdn().collect::<Vec<_>>();
    for rdn in rdns.into_iter().rev() {
        if !text.is_empty() {
            text.push(',');
        }
        for (position, ava) in rdn.iter().enumerate() {
            if position > 0 {
                text.push('+');
            }
            assertion(ava, &mut text)?;
        }
    }
    Some(text)
}

fn assertion(ava: &AttributeTypeAndValue<'_>, text: &mut String) -> Option<()> {
    let oid = ava.attr_type().to_id_string();
    let known = NAMES.iter().find(|(known, _)| *known == oid);
    text.push_str(known.map_or(&*oid, |(_, name)| name));
    text.push('=');
    match ava.as_str() {
        Ok(value) => escape_value(value.as_bytes(), text),
        // Of another type of string than those of our time: its encoding (RFC 4514 §2.4).
        Err(_) => {
            text.push('#');
            for octet in ava.attr_value().to_der_vec().ok()? {
                text.push_str(&format!("{octet:02x}"));
            }
        }
    }
    Some(())
}

/// RFC 5929 §4.1: the digest is that of the certificate's signature, but SHA-256 in place of what
/// is broken. Signatures without a digest of their own have no such binding.
fn server_end_point(der: &[u8], certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    let oid = certificate.signature_algorithm.algorithm.to_id_string();
    let (_, digest) = SIGNATURES.iter().find(|(known, _)| *known == oid)?;
    Some(digest(der))
}

type DigestOf = fn(&[u8]) -> Vec<u8>;

/// Signature algorithms, and what is made of their certificates.
const SIGNATURES: &[(&str, DigestOf)] = &[
    // RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
    ("1.2.840.113549.1.1.4", sha_256),
    ("1.2.840.113549.1.1.5", sha_256),
    ("1.2.840.113549.1.1.11", sha_256),
    ("1.2.840.113549.1.1.12", sha_384),
    ("1.2.840.113549.1.1.13", sha_512),
    // ECDSA with SHA-1, SHA-256, SHA-384, SHA-512.
    ("1.2.840.10045.4.1", sha_256),
    ("1.2.840.10045.4.3.2", sha_256),
    ("1.2.840.10045.4.3.3", sha_384),
    ("1.2.840.10045.4.3.4", sha_512),
];

fn sha_256(octets: &[u8]) -> Vec<u8> {
    Sha256::digest(octets).to_vec()
}

fn sha_384(octets: &[u8]) -> Vec<u8> {
    Sha384::digest(octets).to_vec()
}

fn sha_512(octets: &[u8]) -> Vec<u8> {
    Sha512::digest(octets).to_vec()
}

/// The names of RFC 4514 §3 and some more; whoever reads the DN knows the others by their OIDs.
const NAMES: &[(&str, &str)] = &[
    ("2.5.4.3", "cn"),
    ("2.5.4.4", "sn"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "c"),
    ("2.5.4.7", "l"),
    ("2.5.4.8", "st"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "o"),
    ("2.5.4.11", "ou"),
    ("2.5.4.12", "title"),
    ("2.5.4.42", "givenName"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("0.9.2342.19200300.100.1.1", "uid"),
    ("0.9.2342.19200300.100.1.3", "mail"),
    ("0.9.2342.19200300.100.1.25", "dc"),
];
