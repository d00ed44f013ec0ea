//! Which files are accepted, and what becomes of changed ones.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rcgen::KeyPair;

use super::*;
use crate::settings::file_watch::now;

fn settings(data: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.server.data = data.to_owned();
    settings
}

#[test]
fn the_key_is_readable_by_the_owner_only() {
    let data = tempfile::tempdir().unwrap();
    // A second time, over existing files of any mode.
    for _ in 0..2 {
        generate_self_signed(data.path(), &[]).unwrap();
        let key = data.path().join("tls/key.pem");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&key), 0o600);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    }
    load::load(&settings(data.path())).unwrap();
}

#[test]
fn a_certificate_is_made_only_where_the_default_ones_are_missing() {
    let data = tempfile::tempdir().unwrap();
    let mut settings = settings(data.path());
    Tls::new(&settings, now()).unwrap();
    let cert = data.path().join("tls/cert.pem");
    let first = fs::read(&cert).unwrap();
    Tls::new(&settings, now()).unwrap();
    assert_eq!(fs::read(&cert).unwrap(), first);
    settings.tls.cert = "other.pem".into();
    let error = Tls::new(&settings, now()).err().unwrap().to_string();
    assert!(error.contains("other.pem for TLS: No such file"), "{error}");
}

#[track_caller]
fn check_refused(cert: Option<&str>, key: Option<&str>, want: &str) {
    let data = tempfile::tempdir().unwrap();
    generate_self_signed(data.path(), &[]).unwrap();
    let settings = settings(data.path());
    for (path, text) in [(settings.cert_path(), cert), (settings.key_path(), key)] {
        if let Some(text) = text {
            fs::write(path, text).unwrap();
        }
    }
    let error = Tls::new(&settings, now()).err().unwrap().to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn unusable_files_are_refused_by_name() {
    let other = KeyPair::generate().unwrap().serialize_pem();
    check_refused(Some(""), None, "cert.pem for TLS: it contains no certificate");
    check_refused(None, Some("no key here"), "key.pem for TLS: it contains no private key");
    check_refused(None, Some(&other), "cert.pem for TLS: ");
    check_refused(
        Some("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
        None,
        "cert.pem for TLS: it is not PEM",
    );
}

#[test]
fn a_name_that_cannot_stand_in_a_certificate_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let names = ["b\u{e4}d".to_owned()];
    assert!(generate_self_signed(data.path(), &names).is_err());
}

#[track_caller]
fn check_settings(change: impl FnOnce(&mut Settings), want: &str) {
    let data = tempfile::tempdir().unwrap();
    let mut settings = settings(data.path());
    change(&mut settings);
    let error = Tls::new(&settings, now()).err().unwrap().to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    check_settings(
        |settings| settings.tls.client_certificates = "required",
        "tls.client_certificates needs tls.client_ca",
    );
    check_settings(
        |settings| {
            settings.tls.versions = vec!["1.3"];
            settings.tls.cipher_suites = vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"];
        },
        "tls.cipher_suites has none that belongs to a version of tls.versions",
    );
    let optional = |settings: &mut Settings| {
        settings.tls.client_certificates = "optional";
        settings.tls.client_ca = "tls/cert.pem".into();
    };
    check_settings(
        |settings| {
            optional(settings);
            settings.tls.client_crl = "tls/key.pem".into();
        },
        "key.pem for TLS: it contains no certificate revocation list",
    );
    check_settings(
        |settings| {
            optional(settings);
            settings.tls.client_ca = "missing.pem".into();
        },
        "missing.pem for TLS: No such file",
    );
}

#[test]
fn files_are_loaded_when_they_change_and_kept_when_they_are_broken() {
    let data = tempfile::tempdir().unwrap();
    let settings = settings(data.path());
    let tls = Tls::new(&settings, now()).unwrap();
    let first = tls.current();
    assert!(!tls.look(now()));
    assert!(Arc::ptr_eq(&first, &tls.current()));
    generate_self_signed(data.path(), &[]).unwrap();
    assert!(tls.look(now()));
    let second = tls.current();
    assert_ne!(first.server_end_point, second.server_end_point);
    assert!(!tls.look(now()));
    // The key of another certificate, then none, then the right ones again.
    let key = fs::read(settings.key_path()).unwrap();
    fs::write(settings.key_path(), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(!tls.look(now()));
    fs::remove_file(settings.key_path()).unwrap();
    assert!(!tls.look(now()));
    assert!(Arc::ptr_eq(&second, &tls.current()));
    let error = tls.state().error.unwrap();
    assert!(error.contains("key.pem for TLS: No such file"), "{error}");
    fs::write(settings.key_path(), key).unwrap();
    assert!(tls.look(now()));
    assert_eq!(tls.state().error, None);
    assert_eq!(tls.state().subject, second.subject);
    assert_eq!(second.server_end_point, tls.current().server_end_point);
}

#[test]
fn the_subject_is_a_dn() {
    let data = tempfile::tempdir().unwrap();
    let tls = Tls::new(&settings(data.path()), now()).unwrap();
    let current = tls.current();
    assert!(current.subject.starts_with("cn=roster on "), "{}", current.subject);
    assert!(ldap::dn::Dn::parse(&current.subject).is_ok());
    let left = current.expires - i64::try_from(now().seconds()).unwrap();
    assert!((364 * 86_400..=365 * 86_400).contains(&left));
    // ECDSA with SHA-256: 32 octets.
    assert_eq!(current.server_end_point.as_ref().map(Vec::len), Some(32));
}
