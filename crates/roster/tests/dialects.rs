//! Files as other directory servers export them, imported by the built program as they are: what
//! is in the directory afterwards, and what is offered for what the schema lacks.
//!
//! The samples were written for these tests. A `.want` file lists each entry with the attributes it
//! must have; those that an import makes may be left out there.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Run, roster};
use ldap::ldif::{LdifBody, LdifLimits, LdifReader};

fn sample(name: &str) -> String {
    format!("{}/../offline/tests/dialects/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A data directory for dc=example,dc=com in a folder of its own.
fn init(folder: &Path) -> String {
    let data = folder.join("data").display().to_string();
    let run = roster(&["init", "--public", "--data", &data, "--suffix", "dc=example,dc=com"]);
    assert_eq!((run.code, run.errors.as_str()), (0, ""));
    data
}

/// Entries by name; attributes and values sorted, as `attribute: value`.
type Entries = BTreeMap<String, Vec<String>>;

fn entries(text: &str) -> Entries {
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let mut found = Entries::new();
    while let Some(record) = reader.next_record().expect("the program writes LDIF") {
        let LdifBody::Content(attributes) = record.body else { panic!("no entry") };
        let line = |(name, value): &(String, Vec<u8>)| {
            let value = String::from_utf8(value.clone()).unwrap_or_else(|_| format!("{value:?}"));
            // The case of names of classes may be that of the file or of the schema.
            let is_class = name.eq_ignore_ascii_case("objectClass");
            format!("{name}: {}", if is_class { value.to_ascii_lowercase() } else { value })
        };
        let mut lines: Vec<String> = attributes.iter().map(line).collect();
        lines.sort();
        let name = record.dn.replace(", ", ",").to_lowercase();
        assert!(found.insert(name, lines).is_none(), "{} occurs twice", record.dn);
    }
    found
}

/// What an import makes for an entry that does not bring it.
const MADE: &[&str] = &[
    "structuralObjectClass",
    "entryUUID",
    "entryCSN",
    "creatorsName",
    "createTimestamp",
    "modifiersName",
    "modifyTimestamp",
];

/// The directory holds what `want` says and nothing else.
#[track_caller]
fn check_export(data: &str, want: &str) {
    let Run { code, output, errors } = roster(&["export", "--data", data]);
    assert_eq!(code, 0, "{errors}");
    let mut found = entries(&output);
    let wanted = entries(&fs::read_to_string(sample(want)).expect("the sample is there"));
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    for (dn, lines) in &wanted {
        let has = found.remove(dn).unwrap_or_else(|| panic!("{want}: {dn} is missing"));
        let is_made = |line: &&String| {
            let name = name(line);
            MADE.contains(&name.as_str()) && !lines.iter().any(|line| name_is(line, &name))
        };
        let has: Vec<&String> = has.iter().filter(|line| !is_made(line)).collect();
        let fits = has.len() == lines.len()
            && has.iter().zip(lines).all(|(has, line)| match line.strip_suffix('*') {
                Some(start) => has.starts_with(start),
                None => *has == line,
            });
        assert!(fits, "{want}: {dn} is\n{has:#?}\nnot\n{lines:#?}");
    }
    assert_eq!(found, Entries::new(), "{want}");
}

fn name_is(line: &str, name: &str) -> bool {
    line.split(':').next() == Some(name)
}

/// What the report says of the rules is what the `.rules` file says.
#[track_caller]
fn check_report(report: &str, rules: &str) {
    for line in fs::read_to_string(sample(rules)).expect("the sample is there").lines() {
        let (rule, times) = line.split_once(' ').expect("a rule and how often");
        let start = format!("  {rule}: {}", times.trim_end_matches('*'));
        assert!(report.contains(&start), "{rules}: {rule} is missing:\n{report}");
    }
}

#[test]
fn exports_of_other_servers_load_as_they_are() {
    for name in ["slapcat.ldif", "opendj.ldif", "389.ldif", "dsee.ldif", "ldapsearch.ldif"] {
        let folder = tempfile::tempdir().unwrap();
        let data = init(folder.path());
        let file = sample(name);
        let run = roster(&["import", "--data", &data, "--report", &file]);
        assert_eq!(run.code, 0, "{name}: {run:?}");
        let stem = name.trim_end_matches(".ldif");
        check_report(&run.output, &format!("{stem}.rules"));
        check_export(&data, &format!("{stem}.want"));
    }
}

/// Imports a file whose schema is unknown, puts what is offered where it belongs, and again.
#[track_caller]
fn check_offer(file: &str, stem: &str) {
    let folder = tempfile::tempdir().expect("temporary files can be written");
    let data = init(folder.path());
    let offer = folder.path().join("offer.ldif").display().to_string();
    let before = roster(&["export", "--data", &data]).output;
    let run = roster(&["import", "--data", &data, "--schema-file", &offer, file]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.errors.contains("roster: hint: ") && run.errors.contains("is not defined"),
        "{run:?}"
    );
    assert_eq!(roster(&["export", "--data", &data]).output, before, "nothing was loaded");

    let folder = Path::new(&data).join("schema");
    fs::create_dir_all(&folder).expect("the data directory can be written");
    fs::copy(&offer, folder.join("90-offer.ldif")).expect("definitions were offered");
    let run = roster(&["import", "--data", &data, "--report", file]);
    assert_eq!(run.code, 0, "{run:?}");
    check_report(&run.output, &format!("{stem}.rules"));
    check_export(&data, &format!("{stem}.want"));
}

#[test]
fn what_ldifde_writes_loads_with_the_offered_schema() {
    check_offer(&sample("ad.ldif"), "ad");
}

#[test]
fn utf16_of_windows_loads_likewise() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ad.ldif");
    let text = fs::read_to_string(sample("ad.ldif")).unwrap().replace('\n', "\r\n");
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    fs::write(&file, units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    check_offer(file.to_str().unwrap(), "ad");
}

#[test]
fn what_oracles_ldapsearch_writes_loads_with_the_offered_schema() {
    check_offer(&sample("oid.txt"), "oid");
}

#[test]
fn without_translation_rules_do_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = init(folder.path());
    let run = roster(&["import", "--data", &data, "--no-translate", &sample("389.ldif")]);
    assert_eq!(run.code, 2, "{run:?}");
}
