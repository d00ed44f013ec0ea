//! A proof holds for whoever it was asked of, as they are when it is complete; and a name that
//! somebody outside vouches for is taken as it is written.

use std::time::Duration;

use auth::jwt::TokenOptions;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use directory::{CertificateMapper, Next, Peer};
use ldap::message::{Controls, ModifyDnRequest, ModifyOperation, Request};
use ldap::result::ResultCode;

use crate::authentication::{
    ANNA, BEN, SHARED_KEY, SLOW, Scram, add, add_anna_with_keys, bearer, certified, connect,
    from_afar, sasl, scram_value, token, who,
};
use crate::passwords::{bind_request, hashed};
use crate::support::{Client, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;

fn rename(served: &Served, from: &str, new_rdn: &str) {
    let rename = ModifyDnRequest { name: from, new_rdn, delete_old_rdn: true, new_superior: None };
    let answer = served.root().request(Request::ModifyDn(rename), Controls::EMPTY);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
}

/// Begins an exchange as Anna, has `meanwhile` done, and ends it.
fn exchange(served: &Served, authzid: &str, meanwhile: impl FnOnce()) -> (ResultCode, Client) {
    let mut client = served.client();
    let header = format!("n,{authzid},");
    let scram = Scram { header: &header, ..Scram::default() };
    let challenge = scram.begin(&mut client).unwrap();
    meanwhile();
    (scram.finish(&mut client, &challenge), client)
}

#[test]
fn keys_that_were_replaced_during_an_exchange_prove_nothing() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let keys = scram_value("new");
    for values in [&[keys.as_str()][..], &[]] {
        let change = (ModifyOperation::Replace, "authPassword", values);
        let reset = || assert_eq!(served.root().modify(ANNA, &[change]), OK);
        let (code, mut client) = exchange(&served, "", reset);
        assert_eq!((code, who(&mut client).as_str()), (NO, ""), "{values:?}");
        let back = scram_value("secret");
        let back = (ModifyOperation::Replace, "authPassword", &[back.as_str()][..]);
        assert_eq!(served.root().modify(ANNA, &[back]), OK);
    }
    // What has nothing to do with the keys does not matter.
    let title = (ModifyOperation::Replace, "title", &["x"][..]);
    let (code, _) = exchange(&served, "", || assert_eq!(served.root().modify(ANNA, &[title]), OK));
    assert_eq!(code, OK);
    let (code, _) = exchange(&served, "", || assert_eq!(served.root().delete(ANNA), OK));
    assert_eq!(code, NO);
}

#[test]
fn a_privilege_that_was_taken_during_an_exchange_is_gone() {
    let served = Served::new();
    add_anna_with_keys(&served);
    add(&served, BEN, "ben", "secret", &[]);
    let give = (ModifyOperation::Replace, "ds-privilege-name", &["bypass-acl"][..]);
    assert_eq!(served.root().modify(ANNA, &[give]), OK);
    let take = (ModifyOperation::Replace, "ds-privilege-name", &[][..]);
    let (code, mut client) =
        exchange(&served, "", || assert_eq!(served.root().modify(ANNA, &[take]), OK));
    assert_eq!(code, OK);
    let denied = ResultCode::InsufficientAccessRights;
    assert_eq!(client.compare(BEN, "userPassword", "secret"), denied);

    let aci = format!("(version 3.0; acl \"p\"; allow (proxy) userdn=\"ldap:///{ANNA}\";)");
    let aci = (ModifyOperation::Add, "aci", &[aci.as_str()][..]);
    assert_eq!(served.root().modify(BEN, &[aci]), OK);
    let give = (ModifyOperation::Replace, "ds-privilege-name", &["proxied-auth"][..]);
    assert_eq!(served.root().modify(ANNA, &[give]), OK);
    assert_eq!(exchange(&served, "a=u:ben", || ()).0, OK);
    let (code, mut client) =
        exchange(&served, "a=u:ben", || assert_eq!(served.root().modify(ANNA, &[take]), OK));
    assert_eq!((code, who(&mut client).as_str()), (ResultCode::AuthorizationDenied, ""));
}

#[test]
fn an_exchange_follows_its_entry_to_another_name() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let (code, mut client) = exchange(&served, "", || {
        rename(&served, ANNA, "uid=former");
        add(&served, ANNA, "anna", "successor", &[]);
    });
    assert_eq!(code, OK);
    assert_eq!(who(&mut client), format!("dn:uid=former,{SUFFIX}"));
}

/// The same for a password that is looked at on the hash pool.
#[test]
fn who_was_renamed_while_the_password_was_hashed_has_the_new_name() {
    let served = Served::with(|options| options.passwords.rehash_on_bind = false);
    let give: &[(&str, &[&str])] = &[("ds-privilege-name", &["bypass-acl"])];
    add(&served, ANNA, "anna", SLOW, give);
    add(&served, BEN, "ben", "secret", &[]);
    let mut client = served.client();
    let (job, _) = hashed(&mut client, bind_request("anna", "secret"));
    let former = format!("cn=former,{SUFFIX}");
    rename(&served, ANNA, "cn=former");
    let change = [
        (ModifyOperation::Add, "uid", &["anna"][..]),
        (ModifyOperation::Delete, "ds-privilege-name", &[]),
    ];
    assert_eq!(served.root().modify(&former, &change), OK);
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.resume(&mut connection.session, job.run(), &mut out);
    assert!(matches!(next, Next::Answered(_)));
    assert_eq!(who(&mut client), format!("dn:{former}"));
    let denied = ResultCode::InsufficientAccessRights;
    assert_eq!(client.compare(BEN, "userPassword", "secret"), denied);
}

#[test]
fn an_exchange_has_a_time_limit() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let after =
        |seconds| exchange(&served, "", || served.clock.advance(Duration::from_secs(seconds))).0;
    assert_eq!(after(60), OK);
    assert_eq!(after(61), NO);
    assert_eq!(after(0), OK);
    // The time counts from the first challenge, also from an empty one.
    let mut client = served.client();
    let asked = sasl(&mut client, "SCRAM-SHA-256", None);
    assert_eq!(asked.code(), ResultCode::SaslBindInProgress);
    served.clock.advance(Duration::from_secs(40));
    let challenge = Scram::default().begin(&mut client).unwrap();
    served.clock.advance(Duration::from_secs(40));
    assert_eq!(Scram::default().finish(&mut client, &challenge), NO);
}

#[test]
fn the_salt_of_nobody_is_the_same_for_all_spellings() {
    let served = Served::new();
    add_anna_with_keys(&served);
    let salt = |name: &str| {
        let challenge = Scram { name, ..Scram::default() }.begin(&mut served.client()).unwrap();
        challenge.split_once(",s=").unwrap().1.to_owned()
    };
    for uid in ["anna", "nobody"] {
        let user = salt(uid);
        for other in ["u:UID", "UID", "u: UID "] {
            let other = other.replace("UID", &uid.to_uppercase());
            assert_eq!(salt(&other), user, "{other}");
        }
        let spelled = |name: &str| name.replace("UID", uid).replace('=', "=3D").replace(',', "=2C");
        let named = salt(&spelled("uid=UID,dc=example,dc=org"));
        for other in [
            "dn:uid=UID,dc=example,dc=org",
            "uid=UID, dc=example, DC=org",
            "userid= UID,domainComponent=EXAMPLE,dc=org",
            "0.9.2342.19200300.100.1.1=UID,dc=example,dc=org",
        ] {
            assert_eq!(salt(&spelled(other)), named, "{other}");
        }
    }
}

/// Who is at the other end after a token of this name.
fn by_token(served: &Served, name: &str) -> Option<String> {
    let name = name.replace('\\', "\\\\");
    let token = token(&format!(
        "{{\"iss\":\"https://idp.example\",\"aud\":\"ldap\",\"sub\":\"{name}\",\
         \"exp\":1767225600}}"
    ));
    let mut client = connect(served, Peer { secure: true, ..from_afar() });
    let code = bearer(&mut client, "", &token).code();
    (code == OK).then(|| who(&mut client))
}

fn with_tokens(bases: &[&str]) -> Served {
    let served = Served::with(|options| {
        let authentication = &mut options.authentication;
        authentication.names.bases = bases.iter().map(|&base| base.to_owned()).collect();
        authentication.tokens = TokenOptions {
            issuer: "https://idp.example".to_owned(),
            audience: "ldap".to_owned(),
            clock_skew_s: 10,
            ..TokenOptions::default()
        };
    });
    let key = URL_SAFE_NO_PAD.encode(SHARED_KEY);
    let keys = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{key}\"}}]}}");
    served.directory.set_token_keys(&keys).unwrap();
    let people: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
    assert_eq!(served.root().add(&format!("ou=people,{SUFFIX}"), people), OK);
    served
}

#[test]
fn a_token_names_users_below_the_bases_only() {
    let served = with_tokens(&["ou=people,dc=example,dc=org"]);
    add(&served, "uid=anna,ou=people,dc=example,dc=org", "anna", "secret", &[]);
    add(&served, BEN, "ben", "secret", &[]);
    let anna = Some("dn:uid=anna,ou=people,dc=example,dc=org".to_owned());
    assert_eq!(by_token(&served, "anna"), anna);
    assert_eq!(by_token(&served, "UID=Anna,  ou=people,dc=example,dc=org"), anna);
    assert_eq!(by_token(&served, "ben"), None);
    assert_eq!(by_token(&served, BEN), None);
}

#[test]
fn a_name_from_outside_is_taken_as_it_is_written() {
    let served = with_tokens(&[]);
    add(&served, ANNA, "anna", "secret", &[]);
    add(&served, "uid=jörg  straße,dc=example,dc=org", "jörg straße", "secret", &[]);
    let anna = Some(format!("dn:{ANNA}"));
    for name in ["anna", "ANNA", ANNA, "uid= Anna,dc=Example,dc=org"] {
        assert_eq!(by_token(&served, name), anna, "{name:?}");
    }
    let jorg = Some("dn:uid=jörg  straße,dc=example,dc=org".to_owned());
    assert_eq!(by_token(&served, "JÖRG STRASSE"), jorg);
    assert_eq!(by_token(&served, "uid=Jörg Straße,dc=example,dc=org"), jorg);
    for name in [
        "an\u{ad}na",
        "\u{ff41}nna",
        " anna",
        "anna ",
        "jo\u{308}rg straße",
        "jörg  straße",
        "uid=an\u{ad}na,dc=example,dc=org",
        "uid=an\\C2\\ADna,dc=example,dc=org",
        "uid=\u{ff41}nna,dc=example,dc=org",
        "uid=anna,dc=exam\u{ad}ple,dc=org",
    ] {
        assert_eq!(by_token(&served, name), None, "{name:?}");
    }
}

#[test]
fn a_certificate_names_nobody_by_another_spelling() {
    let attributes = vec![("cn".to_owned(), "uid".to_owned())];
    let subject = CertificateMapper::SubjectDnToUserAttribute("ds-certificate-subject-dn".into());
    for (mapper, good, bad) in [
        (
            CertificateMapper::SubjectEqualsDn,
            "UID=Anna, dc=example,dc=org",
            "uid=an\u{ad}na,dc=example,dc=org",
        ),
        (subject, "CN=Anna,  o=x", "cn=\u{ff41}nna,o=x"),
        (
            CertificateMapper::SubjectAttributeToUserAttribute(attributes),
            "cn=Anna,o=x\u{ad}",
            "cn=an\u{ad}na,o=x",
        ),
    ] {
        let served = Served::with(|options| options.authentication.certificates = mapper.clone());
        add(&served, ANNA, "anna", "secret", &[("ds-certificate-subject-dn", &["cn=anna,o=x"])]);
        let sign_in = |subject| sasl(&mut certified(&served, subject), "EXTERNAL", None).code();
        assert_eq!((sign_in(good), sign_in(bad)), (OK, NO), "{mapper:?}");
    }
}
