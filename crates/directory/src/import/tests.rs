//! Imports and exports of whole directories, and every reason to refuse a file.

use std::path::PathBuf;
use std::sync::Arc;

use ldap::dn::Dn;

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::directory::Directory;
use crate::export::{ExportOptions, export};

const SUFFIX: &str = "dc=example,dc=com";

/// A data directory as `init` makes it.
fn fresh() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    Directory::init(&data, &[Dn::parse(SUFFIX).unwrap()], None, Arc::new(clock())).unwrap();
    (dir, data)
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp(1_700_000_000_000_000))
}

fn load(data: &Path, ldif: &str) -> Result<ImportReport, ImportError> {
    let options = ImportOptions { threads: 3, ..ImportOptions::default() };
    let clock = clock();
    clock.advance(std::time::Duration::from_secs(1));
    import(data, vec![Source::new("test", ldif.as_bytes())], &options, &clock, &mut ())
}

fn dump(data: &Path, options: &ExportOptions<'_>) -> String {
    let mut out = Vec::new();
    export(data, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn dump_all(data: &Path) -> String {
    dump(data, &ExportOptions::default())
}

fn person(number: u32) -> String {
    format!(
        "dn: uid=user.{number},ou=People,{SUFFIX}\nobjectClass: inetOrgPerson\n\
         uid: user.{number}\ncn: User {number}\nsn: {number}\nuserPassword: secret{number}\n\n"
    )
}

const PEOPLE: &str = "dn: ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\n\n";

#[test]
fn an_export_imported_is_the_same_export() {
    let mut ldif = String::from(
        "version: 1\n\ndn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\
         description:: w6l0w6k=\nhasSubordinates: TRUE\nENTRYDN: dc=nonsense\n\n",
    );
    ldif.push_str(PEOPLE);
    (0..1000).for_each(|number| ldif.push_str(&person(number)));
    ldif.push_str("dn: cn=\\2cb+sn=x,ou=People,dc=example,dc=com\nobjectClass: person\n");
    let (_one, data) = fresh();
    assert_eq!(load(&data, &ldif).unwrap().imported, 1003);
    let first = dump_all(&data);
    let (_other, data) = fresh();
    assert_eq!(load(&data, &first).unwrap().imported, 1003);
    let second = dump_all(&data);
    assert!(first == second, "exports differ");
    assert_eq!(first.matches("\ndn: ").count(), 1002);
    assert!(!first.contains("secret1") && first.contains("userPassword: {SSHA512}"), "hashed");
    for computed in ["hasSubordinates", "numSubordinates", "entryDN", "subschemaSubentry"] {
        assert!(!first.contains(computed), "{computed}");
    }
}

#[test]
fn an_entry_is_completed_and_keeps_what_it_brings() {
    let (_dir, data) = fresh();
    let ldif = "dn: uid=a+cn=A,dc=example,dc=com\nobjectClass: inetOrgPerson\nsn: x\n\
                createTimestamp: 20010203040506Z\n\
                userPassword: {SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
    load(&data, ldif).unwrap();
    let options = ExportOptions { filter: Some("(uid=a)"), ..ExportOptions::default() };
    let text = dump(&data, &options);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("entryUUID")).collect();
    assert_eq!(
        lines,
        [
            "dn: uid=a+cn=A,dc=example,dc=com",
            "objectClass: inetOrgPerson",
            "objectClass: organizationalPerson",
            "objectClass: person",
            "objectClass: top",
            "sn: x",
            "createTimestamp: 20010203040506Z",
            "userPassword: {SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "uid: a",
            "cn: A",
            "structuralObjectClass: inetOrgPerson",
            "creatorsName: cn=Directory Manager",
            "entryCSN: 20231114221321.000000Z#000000#000#000000",
            "modifiersName: cn=Directory Manager",
            "modifyTimestamp: 20231114221321Z",
            "",
        ]
    );
}

#[test]
fn stamps_of_one_import_differ() {
    let (_dir, data) = fresh();
    let mut ldif = PEOPLE.to_owned();
    (0..300).for_each(|number| ldif.push_str(&person(number)));
    load(&data, &ldif).unwrap();
    let text = dump_all(&data);
    for attribute in ["entryCSN: ", "entryUUID: "] {
        let mut values: Vec<&str> =
            text.lines().filter(|line| line.starts_with(attribute)).collect();
        values.sort_unstable();
        let count = values.len();
        values.dedup();
        assert_eq!((values.len(), count), (302, 302), "{attribute}");
    }
}

#[test]
fn the_first_record_that_is_refused_is_named_and_nothing_is_loaded() {
    #[track_caller]
    fn check(bad: &str, want: &str) {
        let (_dir, data) = fresh();
        let before = dump_all(&data);
        let mut ldif = PEOPLE.to_owned();
        (0..400).for_each(|number| ldif.push_str(&person(number)));
        ldif.push_str(bad);
        // A later record is worse.
        ldif.push_str("\nnonsense\n");
        let error = load(&data, &ldif).unwrap_err().to_string();
        assert_eq!(error, want);
        assert_eq!(dump_all(&data), before);
    }
    check(
        &person(7),
        "line 2804: entry 'uid=user.7,ou=People,dc=example,dc=com' is there already, from line 53",
    );
    check(
        "dn: cn=x,dc=example,dc=com\nobjectClass: person\n",
        "line 2804: entry 'cn=x,dc=example,dc=com': object class 'person' requires attribute 'sn'",
    );
    check(
        "dn: cn=x,dc=org\nobjectClass: person\nsn: x\n",
        "line 2804: entry 'cn=x,dc=org' is in no naming context",
    );
    check(
        "dn: x\nobjectClass: person\n",
        "line 2804: 'x' is not a distinguished name: an attribute type is not \
         followed by '=' (at byte 1)",
    );
    check("dn:\nobjectClass: person\n", "line 2804: the zero-length name is that of the root DSE");
    check(
        "dn: cn=x,dc=example,dc=com\nobjectClass: person\nsn: x\nshoeSize: 9\n",
        "line 2804: entry 'cn=x,dc=example,dc=com': attribute type 'shoeSize' is not defined",
    );
    check(
        "dn: cn=x\nchangetype: delete\n",
        "line 2804: 'changetype: delete' changes what is there, and only entries can be read here: \
         leave it out, or send the changes to a running server with ldapmodify",
    );
}

#[test]
fn a_directory_with_entries_takes_more_but_none_again() {
    let (_dir, data) = fresh();
    load(&data, PEOPLE).unwrap();
    let mut more = String::new();
    (0..200).for_each(|number| more.push_str(&person(number)));
    assert_eq!(load(&data, &more).unwrap().imported, 200);
    let all = dump_all(&data);
    assert_eq!(all.matches("dn: uid=").count(), 200);
    for (ldif, want) in [
        (PEOPLE.to_owned(), "line 1: an entry 'ou=People,dc=example,dc=com' exists already"),
        (
            format!("{}{}", person(200), person(7)),
            "line 8: an entry 'uid=user.7,ou=People,dc=example,dc=com' exists already",
        ),
        (
            "dn: cn=x,ou=None,dc=example,dc=com\nobjectClass: person\nsn: x\n".to_owned(),
            "line 1: the superior of 'cn=x,ou=None,dc=example,dc=com' does not exist",
        ),
        (
            "dn: cn=x,dc=org\nobjectClass: person\nsn: x\n".to_owned(),
            "line 1: 'cn=x,dc=org' is in no naming context",
        ),
    ] {
        assert_eq!(load(&data, &ldif).unwrap_err().to_string(), want);
        assert!(dump_all(&data) == all, "{want}");
    }
}

#[test]
fn an_import_that_stops_early_ends_its_threads() {
    // More than may be read ahead, after a first record that is refused.
    let mut ldif = person(0);
    (0..8000).for_each(|number| ldif.push_str(&person(number)));
    let (_dir, data) = fresh();
    let error = load(&data, &ldif).unwrap_err().to_string();
    assert!(error.starts_with("line 1: "), "{error}");
}

#[test]
fn exports_begin_at_the_base_and_write_what_matches() {
    #[track_caller]
    fn check(data: &Path, base: Option<&str>, filter: Option<&str>, want: &[&str]) {
        let options = ExportOptions { base, filter, is_by_name: true, ..ExportOptions::default() };
        let text = dump(data, &options);
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("dn: ")).collect();
        assert_eq!(names, want);
    }
    let (_dir, data) = fresh();
    let mut ldif = PEOPLE.to_owned();
    (0..3).rev().for_each(|number| ldif.push_str(&person(number)));
    ldif.push_str("dn: ou=A,ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\n\n");
    ldif.push_str("dn: ou=B,ou=A,ou=People,dc=example,dc=com\nobjectClass: organizationalUnit\n");
    load(&data, &ldif).unwrap();
    let below = [
        "ou=People,dc=example,dc=com",
        "ou=A,ou=People,dc=example,dc=com",
        "ou=B,ou=A,ou=People,dc=example,dc=com",
        "uid=user.0,ou=People,dc=example,dc=com",
        "uid=user.1,ou=People,dc=example,dc=com",
        "uid=user.2,ou=People,dc=example,dc=com",
    ];
    check(&data, Some("OU=people, dc=example,dc=com"), None, &below);
    check(&data, None, Some("(&(uid=*)(!(sn=1)))"), &[below[3], below[5]]);
    check(&data, Some(below[1]), Some("(ou=B)"), &[below[2]]);
    check(&data, None, Some("(numSubordinates=1)"), &["dc=example,dc=com", below[1]]);
}
