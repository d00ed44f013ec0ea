//! Attribute descriptions: options, certificates, subtypes, language ranges.

use super::*;

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(
        Schema::builtin().describe(text).map(|found| found.text().to_owned()).as_deref(),
        Ok(want)
    );
}

#[test]
fn options_are_sorted_lower_case_and_once() {
    check("CN", "cn");
    check("2.5.4.3", "cn");
    check("commonName;LANG-de", "cn;lang-de");
    check("cn;x-2;lang-de;x-1;X-2", "cn;lang-de;x-1;x-2");
    check("cn;lang-", "cn;lang-");
}

#[test]
fn certificates_always_travel_as_binary() {
    check("userCertificate", "userCertificate;binary");
    check("usercertificate;BINARY", "userCertificate;binary");
    check("2.5.4.36;x-1;binary", "userCertificate;binary;x-1");
    check("certificateRevocationList", "certificateRevocationList;binary");
    check("userSMIMECertificate", "userSMIMECertificate;binary");
    check("jpegPhoto", "jpegPhoto");
    let schema = Schema::builtin();
    assert_eq!(schema.describe("userCertificate"), schema.describe("userCertificate;binary"));
}

#[test]
fn what_describes_nothing_is_refused() {
    let refuse = |text: &str, want: DescriptionError| {
        assert_eq!(Schema::builtin().describe(text).err(), Some(want), "{text}");
    };
    for text in ["", ";", "cn;", "cn;;x", "c n", "cn;a_b", ";binary", "1", "cn ", "*", "1.1.", "ü"]
    {
        refuse(text, DescriptionError::Malformed);
    }
    refuse("nonesuch", DescriptionError::UnknownType("nonesuch".to_owned()));
    refuse("nonesuch;lang-de", DescriptionError::UnknownType("nonesuch".to_owned()));
    refuse("1.2.3.4", DescriptionError::UnknownType("1.2.3.4".to_owned()));
    refuse("cn;binary", DescriptionError::BinaryNotAllowed("cn".to_owned()));
    refuse("jpegPhoto;binary", DescriptionError::BinaryNotAllowed("jpegPhoto".to_owned()));
    let many: String = (0..17).map(|number| format!(";x-{number}")).collect();
    refuse(&format!("cn{many}"), DescriptionError::TooManyOptions);
    refuse(&format!("cn{}", ";x".repeat(600)), DescriptionError::Malformed);
}

#[track_caller]
fn covers(asked: &str, had: &str, want: bool) {
    let schema = Schema::builtin();
    let (asked, had) = (schema.describe(asked).unwrap(), schema.describe(had).unwrap());
    assert_eq!(asked.covers(&had), want, "{asked} covers {had}");
}

#[test]
fn a_description_covers_its_subtypes() {
    covers("cn", "cn", true);
    covers("name", "cn", true);
    covers("cn", "name", false);
    covers("cn", "sn", false);
    covers("cn", "cn;lang-de", true);
    covers("name", "cn;lang-de;x-1", true);
    covers("cn;lang-de", "cn", false);
    covers("cn;lang-de", "cn;lang-de", true);
    covers("cn;lang-de", "cn;lang-de;x-1", true);
    covers("cn;lang-de;x-1", "cn;lang-de", false);
    covers("cn;lang-de", "cn;lang-en", false);
    covers("name;lang-de", "cn;lang-de", true);
    covers("userCertificate", "userCertificate;binary", true);
    covers("userCertificate;binary", "userCertificate", true);
}

#[test]
fn a_language_range_covers_its_languages() {
    covers("cn;lang-", "cn;lang-de", true);
    covers("cn;lang-", "cn", false);
    covers("cn;lang-en-", "cn;lang-en", true);
    covers("cn;lang-en-", "cn;lang-en-us", true);
    covers("cn;lang-en-", "cn;lang-eng", false);
    covers("cn;lang-en", "cn;lang-en-us", false);
    let schema = Schema::builtin();
    assert!(schema.describe("cn;lang-en-").unwrap().is_range());
    assert!(!schema.describe("cn;lang-en").unwrap().is_range());
}

#[test]
fn passwords_are_known_as_such() {
    let schema = Schema::builtin();
    assert!(schema.describe("userPassword").unwrap().is_password());
    assert!(schema.describe("userPassword;x-1").unwrap().is_password());
    assert!(schema.describe("authPassword").unwrap().is_password());
    assert!(!schema.describe("pwdAttribute").unwrap().is_password());
    let derived = attribute("( 1.2.3 NAME 'oldPassword' SUP userPassword )");
    let schema = schema.with_change(&[derived], &[]).unwrap();
    assert!(schema.describe("oldPassword").unwrap().is_password());
}

#[test]
fn descriptions_of_two_versions_are_equal() {
    let old = Schema::builtin();
    let new = old.with_change(&[attribute("( 1.2.3 NAME 'a' SUP name )")], &[]).unwrap();
    assert_eq!(old.describe("cn;lang-de"), new.describe("cn;lang-de"));
    assert!(old.describe("name").unwrap().covers(&new.describe("a").unwrap()));
    assert_eq!(new.generation(), old.generation() + 1);
}
