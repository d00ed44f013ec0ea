//! SASL over real TLS: client certificates, and SCRAM bound to the channel.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use rcgen::{
    CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::StreamOwned;
use rustls::pki_types::PrivateKeyDer;
use sha2::{Digest as _, Sha256};

use super::tls::{BOTH, Shown, Version, connection};
use super::*;

const ANNA: &str = "uid=anna,dc=example,dc=org";

/// Who issues client certificates.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(parameters, key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.as_ref().pem()).unwrap();
        Self { issuer, folder }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for `uid=NAME,dc=example,dc=org` with this serial number.
    fn certify(&self, name: &str, serial: u64) -> Shown {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.serial_number = Some(SerialNumber::from(serial));
        let subject = &mut parameters.distinguished_name;
        *subject = rcgen::DistinguishedName::new();
        subject.push(DnType::CustomDnType(DC.to_vec()), "org");
        // One type twice would be one RDN to rcgen: "example" goes by its other name.
        subject.push(DnType::OrganizationName, "example");
        subject.push(DnType::CustomDnType(UID.to_vec()), name);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// A list of what was revoked.
    fn revoke(&self, serials: &[u64]) -> PathBuf {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.folder.path().join("crl.pem");
        fs::write(&path, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        path
    }
}

const DC: &[u64] = &[0, 9, 2342, 19200300, 100, 1, 25];
const UID: &[u64] = &[0, 9, 2342, 19200300, 100, 1, 1];

/// What the server says to this certificate: of the handshake, and of SASL EXTERNAL.
fn external(running: &Running, shown: Option<Shown>) -> Vec<String> {
    let socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut client =
        Client::over(StreamOwned::new(connection(running, "localhost", BOTH, shown), socket));
    let authentication = Authentication::Sasl { mechanism: "EXTERNAL", credentials: Some(b"") };
    let bind = BindRequest { version: 3, name: "", authentication };
    let mut requests = request(1, Request::Bind(bind));
    requests.extend(extended(2, WHO_AM_I));
    if client.transport.write_all(&requests).is_err() {
        return vec!["refused".to_owned()];
    }
    let _ = client.transport.flush();
    let mut buffer = [0; 1_000];
    match client.transport.read(&mut buffer) {
        Ok(count) if count > 0 => client.received.extend_from_slice(&buffer[..count]),
        Ok(_) | Err(_) => return vec!["refused".to_owned()],
    }
    (0..2).map(|_| client.receive()).collect()
}

fn add_anna(running: &Running, more: &[(&str, &str)]) {
    let base = [("objectClass", "inetOrgPerson"), ("cn", "A"), ("sn", "A"), ("uid", "anna")];
    let mut client = running.connect_root();
    let extensible = [("objectClass", "extensibleObject")];
    let classes = if more.is_empty() { &[][..] } else { &extensible[..] };
    // One value to an attribute: the class that allows all comes by a change.
    client.send(&add_entry(2, ANNA, &base));
    assert_eq!(client.receive(), "2 add success");
    for (id, (name, value)) in (3..).zip(classes.iter().chain(more)) {
        client.send(&add_value(id, ANNA, name, value));
        assert_eq!(client.receive(), format!("{id} modify success"));
    }
}

fn add_value(id: i32, name: &str, description: &str, value: &str) -> Vec<u8> {
    use ldap::message::{Modification, ModificationsBuf, ModifyOperation, ModifyRequest};
    let mut values = ValuesBuf::new();
    values.push(value.as_bytes());
    let mut changes = ModificationsBuf::new();
    changes.push(Modification {
        operation: ModifyOperation::Add,
        attribute: PartialAttribute { description, values: values.as_ref() },
    });
    request(id, Request::Modify(ModifyRequest { name, changes: changes.as_ref() }))
}

#[test]
fn a_client_certificate_lets_its_entry_in() {
    let authority = Authority::new();
    let (ca, crl) = (authority.ca(), authority.revoke(&[7]));
    for (required, versions) in [(false, &["1.2"]), (true, &["1.3"])] {
        let (ca, crl) = (ca.clone(), crl.clone());
        let running = Running::with(|settings| {
            settings.tls.client_certificates = if required { "required" } else { "optional" };
            settings.tls.versions = versions.to_vec();
            settings.tls.client_ca = ca;
            settings.tls.client_crl = crl;
            settings.authentication.certificate_mapper = "subject-attribute-to-user-attribute";
            settings.authentication.certificate_attributes = vec!["uid:uid".to_owned()];
        });
        add_anna(&running, &[]);
        let anna = format!("2 extended success dn:{ANNA}");
        let good = external(&running, Some(authority.certify("anna", 1)));
        assert_eq!(good, ["1 bind success".to_owned(), anna]);
        let unknown = external(&running, Some(authority.certify("ben", 2)));
        assert_eq!(unknown, ["1 bind invalidCredentials", "2 extended success"]);
        // Revoked; of another authority; none.
        assert_eq!(external(&running, Some(authority.certify("anna", 7))), ["refused"]);
        let stranger = Authority::new().certify("anna", 1);
        assert_eq!(external(&running, Some(stranger)), ["refused"]);
        let none = external(&running, None);
        if required {
            assert_eq!(none, ["refused"]);
        } else {
            assert_eq!(none, ["1 bind inappropriateAuthentication", "2 extended success"]);
        }
        running.check_alive();
    }
}

#[test]
fn a_changed_revocation_list_takes_effect() {
    let authority = Authority::new();
    let (ca, crl) = (authority.ca(), authority.revoke(&[]));
    let running = Running::with(|settings| {
        settings.tls.client_certificates = "optional";
        settings.tls.client_ca = ca;
        settings.tls.client_crl = crl;
        settings.tls.reload_interval = Duration::from_secs(1);
    });
    let shown = || Some(authority.certify("anna", 9));
    assert_eq!(external(&running, shown())[0], "1 bind invalidCredentials");
    authority.revoke(&[9]);
    while external(&running, shown()) != ["refused"] {
        std::thread::yield_now();
    }
}

fn hmac(key: &[u8], octets: &[u8]) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(octets).finalize().into_bytes().to_vec()
}

/// The keys of the password `secret`.
fn keys() -> (Vec<u8>, String) {
    let mut salted = vec![0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(b"secret", b"salt", 4_096, &mut salted);
    let stored = STANDARD.encode(Sha256::digest(hmac(&salted, b"Client Key")));
    let server = STANDARD.encode(hmac(&salted, b"Server Key"));
    let salt = STANDARD.encode("salt");
    (salted, format!("SCRAM-SHA-256$4096:{salt}${stored}:{server}"))
}

/// A SASL bind; the code's name and the server's part.
fn step(client: &mut Client, id: i32, credentials: &str) -> (String, String) {
    let mechanism = "SCRAM-SHA-256-PLUS";
    let authentication =
        Authentication::Sasl { mechanism, credentials: Some(credentials.as_bytes()) };
    let bind = BindRequest { version: 3, name: "", authentication };
    client.send(&request(id, Request::Bind(bind)));
    loop {
        if let Frame::Complete(length) = frame(&client.received, usize::MAX).unwrap() {
            let bytes = client.received.drain(..length).collect::<Vec<_>>();
            let message = Message::<Response<'_>>::decode(&bytes, &DecodeLimits::default());
            let Response::Bind { result, server_sasl_credentials } = message.unwrap().op else {
                panic!("no answer to a bind");
            };
            let part = server_sasl_credentials.unwrap_or_default();
            return (result.code.name().to_owned(), String::from_utf8(part.to_vec()).unwrap());
        }
        let mut buffer = [0; 4_096];
        let count = client.transport.read(&mut buffer).unwrap();
        assert!(count > 0, "closed");
        client.received.extend_from_slice(&buffer[..count]);
    }
}

/// SCRAM with channel binding; the code's name.
fn scram_plus(running: &Running, versions: &[Version], kind: &str, is_relayed: bool) -> String {
    let mut socket = TcpStream::connect(running.addresses.ldaps[0]).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut connection = connection(running, "localhost", versions, None);
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).unwrap();
    }
    let mut binding = match kind {
        "tls-exporter" => {
            let label = b"EXPORTER-Channel-Binding";
            connection.export_keying_material(vec![0; 32], label, Some(&[])).unwrap()
        }
        _ => Sha256::digest(&connection.peer_certificates().unwrap()[0]).to_vec(),
    };
    if is_relayed {
        binding[0] ^= 1;
    }
    let mut client = Client::over(StreamOwned::new(connection, socket));
    let header = format!("p={kind},,");
    let (code, challenge) = step(&mut client, 1, &format!("{header}n=anna,r=abc"));
    if code != "saslBindInProgress" {
        return code;
    }
    let nonce = challenge.split(',').next().unwrap();
    let (salted, _) = keys();
    let client_key = hmac(&salted, b"Client Key");
    let all = [header.as_bytes(), &binding].concat();
    let without_proof = format!("c={},{nonce}", STANDARD.encode(all));
    let message = format!("n=anna,r=abc,{challenge},{without_proof}");
    let signature = hmac(&Sha256::digest(&client_key), message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    let last = format!("{without_proof},p={}", STANDARD.encode(proof));
    let (code, verifier) = step(&mut client, 2, &last);
    if code == "success" {
        let right = hmac(&hmac(&salted, b"Server Key"), message.as_bytes());
        assert_eq!(verifier, format!("v={}", STANDARD.encode(right)));
    }
    code
}

#[test]
fn scram_is_bound_to_the_channel_of_tls() {
    let running = Running::start();
    let (_, stored) = keys();
    add_anna(&running, &[("authPassword", &stored)]);
    let (new, old): (&[Version], &[Version]) =
        (&[&rustls::version::TLS13], &[&rustls::version::TLS12]);
    assert_eq!(scram_plus(&running, new, "tls-exporter", false), "success");
    assert_eq!(scram_plus(&running, new, "tls-server-end-point", false), "success");
    assert_eq!(scram_plus(&running, old, "tls-server-end-point", false), "success");
    // Before TLS 1.3 the exporter's value need not be the connection's own.
    assert_eq!(scram_plus(&running, old, "tls-exporter", false), "invalidCredentials");
    // Somebody in between has two connections, with different values.
    assert_eq!(scram_plus(&running, new, "tls-exporter", true), "invalidCredentials");
    assert_eq!(scram_plus(&running, old, "tls-server-end-point", true), "invalidCredentials");
}

/// A key set with one shared key, and a token for Anna that is signed with it.
fn issued(key: &[u8; 32]) -> (String, String) {
    let text = |octets: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(octets);
    let keys = format!(r#"{{"keys":[{{"kty":"oct","alg":"HS256","k":"{}"}}]}}"#, text(key));
    let expires = crate::settings::file_watch::now().0 / 1_000_000 + 600;
    let claims =
        format!(r#"{{"iss":"https://idp.example","aud":"ldap","sub":"anna","exp":{}}}"#, expires);
    let signed = format!("{}.{}", text(br#"{"alg":"HS256"}"#), text(claims.as_bytes()));
    let signature = text(&hmac(key, signed.as_bytes()));
    (keys, format!("{signed}.{signature}"))
}

/// The response to a token.
fn bearer(running: &Running, token: &str) -> String {
    let message = format!("n,,\x01auth=Bearer {token}\x01\x01");
    let authentication =
        Authentication::Sasl { mechanism: "OAUTHBEARER", credentials: Some(message.as_bytes()) };
    let mut client = running.connect();
    client.send(&request(1, Request::Bind(BindRequest { version: 3, name: "", authentication })));
    client.receive()
}

#[test]
fn a_changed_key_file_for_tokens_takes_effect() {
    let ((old_keys, old), (new_keys, new)) = (issued(&[1; 32]), issued(&[2; 32]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("idp.json");
    fs::write(&path, &old_keys).unwrap();
    let running = Running::with(|settings| {
        settings.authentication.token_keys = path.clone();
        settings.authentication.token_issuer = "https://idp.example".to_owned();
        settings.authentication.token_audience = "ldap".to_owned();
        settings.tls.reload_interval = Duration::from_millis(10);
    });
    add_anna(&running, &[]);
    assert_eq!(bearer(&running, &old), "1 bind success");
    assert_eq!(bearer(&running, &new), "1 bind saslBindInProgress");
    // What is no key set is not used; the keys before it are.
    fs::write(&path, "{").unwrap();
    for _ in 0..20 {
        assert_eq!(bearer(&running, &old), "1 bind success");
    }
    fs::write(&path, &new_keys).unwrap();
    while bearer(&running, &new) != "1 bind success" {
        std::thread::yield_now();
    }
    assert_eq!(bearer(&running, &old), "1 bind saslBindInProgress");
}
