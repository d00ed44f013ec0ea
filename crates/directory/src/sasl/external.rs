//! EXTERNAL (RFC 4422 Appendix A): the transport knows who the client is, by the user of a Unix
//! socket or by the certificate of TLS.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use aci::Access;
use ldap::dn::Dn;
use ldap::filter::{AvaFilter, Filter};
use ldap::result::ResultCode;
use schema::{DnKey, Schema};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Message, Step, authorize};
use crate::authentication::{CertificateMapper, FingerprintDigest};
use crate::directory::State;
use crate::identity_mapper::{self, Found};
use crate::protection::ClientCertificate;
use crate::refusal::Refusal;
use crate::session::{LocalUser, Session};
use crate::worker::Worker;

/// The name of the mechanism.
pub(crate) const EXTERNAL: &str = "EXTERNAL";

pub(super) fn can_succeed(session: &Session) -> bool {
    session.peer().local_user.is_some() || session.client_certificate().is_some()
}

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    let asked = std::str::from_utf8(message.octets)
        .map_err(|_| super::malformed("the authorization identity is not UTF-8"))?;
    let proven = match (session.peer().local_user, session.client_certificate()) {
        (Some(user), _) => local(worker, user)?,
        (None, Some(certificate)) => by_certificate(worker, certificate)?,
        (None, None) => {
            return Err(Refusal::new(
                ResultCode::InappropriateAuthentication,
                "EXTERNAL needs a transport that knows who you are: \
                 connect with ldapi:// or show a client certificate",
            ));
        }
    };
    let proven = proven.from_origin(session.origin(message.mechanism));
    Ok(Step::Done { access: authorize(worker, proven, asked)?, answer: None })
}

/// A local administrator is the root identity.
fn local(worker: &Worker, user: LocalUser) -> Result<Access, Refusal> {
    let directory = &worker.directory;
    if user.uid != 0 && user.uid != directory.owner_uid {
        return Err(Refusal::new(
            ResultCode::InvalidCredentials,
            "only root and the user the server runs as are administrators here",
        ));
    }
    Ok(directory.root.access())
}

fn by_certificate(worker: &mut Worker, certificate: &ClientCertificate) -> Result<Access, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    let found = match &directory.authentication.certificates {
        CertificateMapper::SubjectEqualsDn => {
            match DnKey::from_text(&state.schema, &certificate.subject) {
                Ok(key) => identity_mapper::find_dn(&directory, view, &key)?,
                Err(_) => None,
            }
        }
        mapper => match filter(&state, mapper, certificate) {
            Some(filter) => identity_mapper::find_one(&directory, &state, view, &filter)?,
            None => None,
        },
    };
    let access = match found {
        Some(found @ Found::Entry(_)) => {
            identity_mapper::access_without_password(&directory, &state, view, found)?
        }
        // The administrator has no certificate that anybody could have configured.
        Some(Found::Root) | None => None,
    };
    access.ok_or_else(|| {
        Refusal::new(ResultCode::InvalidCredentials, "no entry belongs to the client certificate")
    })
}

/// What the entry of a certificate matches; `None` when the certificate lacks what is needed.
fn filter<'f>(
    state: &State,
    mapper: &'f CertificateMapper,
    certificate: &'f ClientCertificate,
) -> Option<Filter<'f>> {
    let equality = |description: &'f str, value: Cow<'f, [u8]>| {
        Filter::Equality(AvaFilter { description, value })
    };
    match mapper {
        CertificateMapper::SubjectEqualsDn => None,
        CertificateMapper::SubjectDnToUserAttribute(attribute) => {
            Some(equality(attribute, certificate.subject.as_bytes().into()))
        }
        CertificateMapper::SubjectAttributeToUserAttribute(pairs) => {
            let subject = Dn::parse(&certificate.subject).ok()?;
            let parts = pairs
                .iter()
                .map(|(of_subject, of_entry)| {
                    let value = subject_value(&state.schema, &subject, of_subject)?;
                    Some(equality(of_entry, Cow::Owned(value)))
                })
                .collect::<Option<Vec<_>>>()?;
            (!parts.is_empty()).then_some(Filter::And(parts))
        }
        CertificateMapper::Fingerprint { attribute, digest } => {
            let text = fingerprint(*digest, &certificate.der);
            Some(equality(attribute, Cow::Owned(text.into_bytes())))
        }
    }
}

/// The value of the attribute type that stands nearest to the leaf of the subject.
fn subject_value(schema: &Schema, subject: &Dn, name: &str) -> Option<Vec<u8>> {
    let wanted = schema.describe(name).ok()?;
    subject
        .rdns()
        .iter()
        .flat_map(|rdn| rdn.avas())
        .find(|ava| schema.describe(&ava.attribute).is_ok_and(|found| found == wanted))
        .map(|ava| ava.value.clone())
}

/// `aa:bb:…`, as OpenDJ and `openssl x509 -fingerprint` write it but for the case of the digits.
fn fingerprint(digest: FingerprintDigest, der: &[u8]) -> String {
    let octets = match digest {
        FingerprintDigest::Sha1 => Sha1::digest(der).to_vec(),
        FingerprintDigest::Sha256 => Sha256::digest(der).to_vec(),
    };
    let mut text = String::with_capacity(octets.len() * 3);
    for (index, octet) in octets.iter().enumerate() {
        let _ = write!(text, "{}{octet:02x}", if index > 0 { ":" } else { "" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_written_as_openssl_does() {
        assert_eq!(
            fingerprint(FingerprintDigest::Sha1, b"abc"),
            "a9:99:3e:36:47:06:81:6a:ba:3e:25:71:78:50:c2:6c:9c:d0:d8:9d"
        );
        assert!(fingerprint(FingerprintDigest::Sha256, b"abc").starts_with("ba:78:16:bf:"));
    }

    #[test]
    fn the_value_next_to_the_leaf_is_taken() {
        let schema = Schema::builtin();
        let subject = Dn::parse("cn=anna,ou=a,ou=b,2.5.4.6=DE").unwrap();
        let value = |name: &str| subject_value(&schema, &subject, name);
        assert_eq!(value("commonName").as_deref(), Some(&b"anna"[..]));
        assert_eq!(value("ou").as_deref(), Some(&b"a"[..]));
        assert_eq!(value("c").as_deref(), Some(&b"DE"[..]));
        assert_eq!(value("uid"), None);
    }
}
