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

use super::mechanism::{Message, Step, authorize};
use crate::bind::authentication::{CertificateMapper, FingerprintDigest};
use crate::bind::identity_mapper;
use crate::bind::user_name::Found;
use crate::directory::State;
use crate::request::protection::ClientCertificate;
use crate::request::refusal::Refusal;
use crate::request::session::{LocalUser, Session};
use crate::request::worker::Worker;

pub(super) fn can_succeed(session: &Session) -> bool {
    session.peer().local_user.is_some() || session.client_certificate().is_some()
}

pub(super) fn step(
    worker: &mut Worker,
    session: &Session,
    message: Message<'_>,
) -> Result<Step, Refusal> {
    let asked = std::str::from_utf8(message.octets)
        .map_err(|_| super::mechanism::malformed("the authorization identity is not UTF-8"))?;
    let proven = match (session.peer().local_user, session.client_certificate()) {
        (Some(user), _) => local(worker, user)?,
        (None, Some(certificate)) => by_certificate(worker, certificate)?,
        (None, None) => {
            return Err(Refusal::new(
                ResultCode::InappropriateAuthentication,
                "EXTERNAL needs a connection that identifies the client: use ldapi:// or a \
                 client certificate",
            ));
        }
    };
    let proven = proven.from_origin(session.origin(message.mechanism));
    Ok(Step::Done { access: authorize(worker, proven, asked)?, answer: None })
}

/// A local administrator is the root identity.
fn local(worker: &Worker, user: LocalUser) -> Result<Access, Refusal> {
    let directory = &worker.directory;
    if user.uid != 0 && user.uid != directory.credentials.owner_uid {
        return Err(Refusal::new(
            ResultCode::InvalidCredentials,
            "only root and the user the server runs as are administrators here",
        ));
    }
    Ok(directory.credentials.root.access())
}

fn by_certificate(worker: &mut Worker, certificate: &ClientCertificate) -> Result<Access, Refusal> {
    let directory = Arc::clone(&worker.directory);
    let state = directory.state.load_full();
    let view = worker.snapshot.view()?;
    let is_as_written = || identity_mapper::is_dn_as_written(&state.schema, &certificate.subject);
    let found = match &directory.credentials.authentication().certificates {
        CertificateMapper::SubjectEqualsDn | CertificateMapper::SubjectDnToUserAttribute(_)
            if !is_as_written() =>
        {
            None
        }
        CertificateMapper::SubjectEqualsDn => {
            match DnKey::from_text(&state.schema, &certificate.subject) {
                Ok(key) => identity_mapper::find_dn(&directory.credentials.root, view, &key)?,
                Err(_) => None,
            }
        }
        mapper => match filter(&state, mapper, certificate)? {
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
///
/// Refuses with `invalidCredentials` when it says more than one thing. Only a mapper that looks at
/// a part of the subject can find that: the others compare all of it, or the certificate itself.
fn filter<'f>(
    state: &State,
    mapper: &'f CertificateMapper,
    certificate: &'f ClientCertificate,
) -> Result<Option<Filter<'f>>, Refusal> {
    let equality = |description: &'f str, value: Cow<'f, [u8]>| {
        Filter::Equality(AvaFilter { description, value })
    };
    let filter = match mapper {
        CertificateMapper::SubjectEqualsDn => None,
        CertificateMapper::SubjectDnToUserAttribute(attribute) => {
            Some(equality(attribute, certificate.subject.as_bytes().into()))
        }
        CertificateMapper::SubjectAttributeToUserAttribute(pairs) => {
            let Ok(subject) = Dn::parse(&certificate.subject) else { return Ok(None) };
            let part = |(of_subject, of_entry): &'f (String, String)| {
                let value = subject_value(&state.schema, &subject, of_subject)?;
                let is_as_written =
                    |value: &Vec<u8>| identity_mapper::is_value_as_written(&state.schema, value);
                let value = value.filter(is_as_written);
                Ok(value.map(|value| equality(of_entry, Cow::Owned(value))))
            };
            let parts = pairs.iter().map(part).collect::<Result<Option<Vec<_>>, Refusal>>()?;
            parts.filter(|parts| !parts.is_empty()).map(Filter::And)
        }
        CertificateMapper::Fingerprint { attribute, digest } => {
            let text = fingerprint(*digest, &certificate.der);
            Some(equality(attribute, Cow::Owned(text.into_bytes())))
        }
    };
    Ok(filter)
}

/// The value of the attribute type in the subject.
///
/// Refuses with `invalidCredentials` when there are several: an issuer vouches that they belong to
/// the subject, not that each of them is a name which nobody else has.
fn subject_value(schema: &Schema, subject: &Dn, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
    let Ok(wanted) = schema.describe(name) else { return Ok(None) };
    let mut values = subject
        .rdns()
        .iter()
        .flat_map(|rdn| rdn.avas())
        .filter(|ava| schema.describe(&ava.attribute).is_ok_and(|found| found == wanted))
        .map(|ava| ava.value.clone());
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Refusal::new(
            ResultCode::InvalidCredentials,
            format!("the subject of the client certificate has more than one {name}"),
        )),
    }
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
    fn the_only_value_of_an_attribute_type_is_taken() {
        let schema = Schema::builtin();
        let value = |subject: &str, name: &str| {
            let subject = Dn::parse(subject).unwrap();
            let value = subject_value(&schema, &subject, name)?;
            Ok::<_, Refusal>(value.map(|octets| String::from_utf8(octets).unwrap()))
        };
        let subject = "cn=anna,ou=a,ou=b,2.5.4.6=DE";
        assert_eq!(value(subject, "commonName"), Ok(Some("anna".to_owned())));
        assert_eq!(value(subject, "c"), Ok(Some("DE".to_owned())));
        assert_eq!(value(subject, "uid"), Ok(None));
        // Which of several counts, nobody can say: in one RDN or two, by any name, even the same.
        for subject in [
            "cn=anna,cn=ben,o=x",
            "cn=anna+cn=ben,o=x",
            "cn=anna,o=x,2.5.4.3=ben",
            "cn=anna,o=x,commonName=anna",
        ] {
            let refusal = value(subject, "cn").unwrap_err();
            assert_eq!(refusal.code, ResultCode::InvalidCredentials);
            let reason = "the subject of the client certificate has more than one cn";
            assert_eq!(refusal.diagnostic, reason, "{subject}");
            assert_eq!(value(subject, "o"), Ok(Some("x".to_owned())), "{subject}");
        }
    }
}
