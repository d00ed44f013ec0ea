//! What a release has written, each later one reads as the same: backups that are kept for ever,
//! with a base and the records of a cluster's log after it, one for each format.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::roster;
use machine::{Machine, first, wait_for};
use sha2::{Digest as _, Sha256};
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD};

/// All that was kept.
fn kept() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut all: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn sha256(octets: &[u8]) -> String {
    Sha256::digest(octets).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// What a data directory holds, in one order.
fn entries(data: &str) -> String {
    let run = roster(&["export", "--data", data, "--sort"]);
    assert_eq!(run.code, 0, "{run:?}");
    run.output
}

#[test]
fn what_was_written_once_is_the_same_for_ever() {
    assert!(!kept().is_empty());
    for golden in kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (from, data) = (path("backup"), path("data"));
        fs::create_dir(&from).unwrap();
        for entry in fs::read_dir(&golden).unwrap() {
            let file = entry.unwrap().path();
            let Some(name) = file.file_name().unwrap().to_str().unwrap().strip_suffix(".zst")
            else {
                continue;
            };
            let octets = zstd::decode_all(fs::File::open(&file).unwrap()).unwrap();
            fs::write(Path::new(&from).join(name), octets).unwrap();
        }
        let run = roster(&["restore", "--from", &from, "--data", &data]);
        assert_eq!(run.code, 0, "{}: {run:?}", golden.display());
        // The digest that the records lead to is that of the entries.
        let run = roster(&["check", "--data", &data]);
        assert_eq!(run.code, 0, "{}: {run:?}", golden.display());
        let expected = fs::read_to_string(golden.join("expected")).unwrap();
        let found = entries(&data);
        assert_eq!(sha256(found.as_bytes()), expected.trim(), "{}\n{found}", golden.display());
    }
}

fn modify(machine: &Machine, ldif: &str) {
    let mut child = Command::new("ldapmodify")
        .args(["-x", "-ZZ", "-H", &machine.url(), "-D", ADMIN_DN, "-w", ADMIN_PASSWORD])
        .env("LDAPTLS_REQCERT", "never")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(ldif.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn back_up(machine: &Machine, to: &Path) {
    // Nothing that looks like somebody's key is kept.
    let _ = fs::remove_dir_all(machine.data.join("tls"));
    let run = roster(&["backup", "--data", machine.data(), "--to", to.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{run:?}");
}

/// Every kind of record, and two terms.
const BEFORE: &str = "\
dn: cn=schema
changetype: modify
add: attributeTypes
attributeTypes: ( 1.3.6.1.4.1.99999.1 NAME 'badgeNumber' EQUALITY integerMatch
   SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )
-
add: objectClasses
objectClasses: ( 1.3.6.1.4.1.99999.2 NAME 'badgeHolder' SUP top AUXILIARY MAY badgeNumber )

dn: ds-cfg-attribute=badgeNumber,cn=Index,cn=config
changetype: add
objectClass: top
objectClass: ds-cfg-local-db-index
ds-cfg-attribute: badgeNumber
ds-cfg-index-type: equality

dn: uid=new,ou=people,dc=example,dc=com
changetype: add
objectClass: inetOrgPerson
objectClass: badgeHolder
uid: new
cn: N\u{e9}w Person
sn;lang-fr: Personne
sn: Person
badgeNumber: 41
jpegPhoto:: AAECAwQF
userPassword: secret-enough-for-anybody

dn: uid=new,ou=people,dc=example,dc=com
changetype: modify
increment: badgeNumber
badgeNumber: 1
-
add: description
description: first
description: second
-
delete: description
description: first
-
replace: sn
sn: Human

dn: ou=teams,dc=example,dc=com
changetype: add
objectClass: organizationalUnit
ou: teams

dn: cn=all,ou=teams,dc=example,dc=com
changetype: add
objectClass: groupOfNames
cn: all
member: uid=new,ou=people,dc=example,dc=com
member: uid=anna,ou=people,dc=example,dc=com
";
const AFTER: &str = "\
dn: uid=new,ou=people,dc=example,dc=com
changetype: modrdn
newrdn: uid=newer
deleteoldrdn: 1
newsuperior: ou=teams,dc=example,dc=com

dn: ou=teams,dc=example,dc=com
changetype: modrdn
newrdn: ou=crews
deleteoldrdn: 0

dn: cn=all,ou=crews,dc=example,dc=com
changetype: delete

dn: cn=schema
changetype: modify
add: attributeTypes
attributeTypes: ( 1.3.6.1.4.1.99999.3 NAME 'lockerNumber' SUP badgeNumber )
";

/// Writes what is to be kept of the formats of this release: run it with a directory in
/// `KEPT_FORMATS`, before a release whose formats are others than those of the last.
#[test]
#[ignore = "writes the files that are kept"]
fn keep_the_formats_of_this_release() {
    let to = PathBuf::from(std::env::var("KEPT_FORMATS").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut one = first(folder.path());
    let backup = folder.path().join("backup");
    wait_for("it decides", || (one.roles().first()?.1 == "leader").then_some(()));
    back_up(&one, &backup);
    modify(&one, BEFORE);
    // A failed bind is a record, too.
    let mut wrong = client::Connection::open(client::ConnectOptions::new(one.url())).unwrap();
    let _ = wrong.bind("uid=anna,ou=people,dc=example,dc=com", b"wrong");
    one.kill();
    one.serve();
    wait_for("it decides", || (one.roles().first()?.1 == "leader").then_some(()));
    modify(&one, AFTER);
    one.set_title("the last change");
    let want = entries(one.data());
    wait_for("all is in the backup", || {
        let restored = folder.path().join("restored");
        let _ = fs::remove_dir_all(&restored);
        back_up(&one, &backup);
        let (from, restored) = (backup.to_str().unwrap(), restored.to_str().unwrap());
        let run = roster(&["restore", "--from", from, "--data", restored]);
        assert_eq!(run.code, 0, "{run:?}");
        (entries(restored) == want).then_some(())
    });
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(&backup).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "lock" {
            continue;
        }
        let packed = zstd::encode_all(fs::File::open(&file).unwrap(), 19).unwrap();
        fs::write(to.join(format!("{name}.zst")), packed).unwrap();
    }
    fs::write(to.join("expected"), format!("{}\n", sha256(want.as_bytes()))).unwrap();
}
