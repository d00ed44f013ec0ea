//! Imports and exports of whole directories, and every reason to refuse a file.

use std::path::PathBuf;
use std::sync::Arc;

use aci::GlobalAcis;
use directory::Directory;
use directory::enforcement::modes::{MODES, ModeLine};
use environment::{ManualClock, Timestamp};
use ldap::dn::Dn;

use super::*;
use crate::export::{ExportOptions, export};

const SUFFIX: &str = "dc=example,dc=com";

/// A data directory as `init` makes it.
fn fresh() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    Directory::init(
        &data,
        &[Dn::parse(SUFFIX).unwrap()],
        None,
        GlobalAcis::default(),
        Arc::new(clock()),
    )
    .unwrap();
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
fn an_export_with_replication_state_is_the_same_but_for_its_comments() {
    let (_one, data) = fresh();
    load(&data, &[PEOPLE, &person(1), &person(2)].concat()).unwrap();
    let options = ExportOptions { has_replication_state: true, ..ExportOptions::default() };
    let first = dump(&data, &options);
    let (_other, data) = fresh();
    assert_eq!(load(&data, &first).unwrap().imported, 4);
    let second = dump(&data, &options);
    let entries = |text: &str| {
        let lines = text.split_inclusive('\n').filter(|line| !line.starts_with('#'));
        lines.collect::<String>()
    };
    assert_eq!(entries(&first), entries(&second));
    // Its history is its own.
    let store = |text: &str| text.lines().nth(1).unwrap().to_owned();
    assert_ne!(store(&first), store(&second));
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
        let error = load(&data, &ldif).unwrap_err();
        let ImportError::Refused { report, first } = &error else { panic!("{error}") };
        assert_eq!(first, want);
        assert_eq!((report.rejected, report.processed, report.imported), (2, 403, 0));
        assert_eq!(error.to_string(), format!("{want} (and 1 more)"));
        assert_eq!(dump_all(&data), before);
    }
    check(
        &person(7),
        "test:2804: entry 'uid=user.7,ou=People,dc=example,dc=com' exists already, from line 53",
    );
    check(
        "dn: cn=x,dc=example,dc=com\nobjectClass: person\n",
        "test:2804: entry 'cn=x,dc=example,dc=com': object class 'person' requires attribute 'sn'",
    );
    check(
        "dn: cn=x,dc=org\nobjectClass: person\nsn: x\n",
        "test:2804: entry 'cn=x,dc=org' is in no naming context",
    );
    check(
        "dn: x\nobjectClass: person\n",
        "test:2804: 'x' is not a distinguished name: an attribute type is not \
         followed by '=' (at byte 1)",
    );
    check("dn:\nobjectClass: person\n", "test:2804: the zero-length name is that of the root DSE");
    check(
        "dn: cn=x,dc=example,dc=com\nobjectClass: person\nsn: x\nshoeSize: 9\n",
        "test:2804: entry 'cn=x,dc=example,dc=com': attribute type 'shoeSize' is not defined",
    );
    check(
        "dn: cn=x\nchangetype: delete\n",
        "test:2804: 'changetype: delete' changes what is there, and only entries can be read here: \
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
        (PEOPLE.to_owned(), "test:1: an entry 'ou=People,dc=example,dc=com' exists already"),
        (
            format!("{}{}", person(200), person(7)),
            "test:8: an entry 'uid=user.7,ou=People,dc=example,dc=com' exists already",
        ),
        (
            "dn: cn=x,ou=None,dc=example,dc=com\nobjectClass: person\nsn: x\n".to_owned(),
            "test:1: entry 'cn=x,ou=None,dc=example,dc=com': its superior \
             'ou=None,dc=example,dc=com' does not exist",
        ),
        (
            "dn: cn=x,dc=org\nobjectClass: person\nsn: x\n".to_owned(),
            "test:1: entry 'cn=x,dc=org' is in no naming context",
        ),
    ] {
        let error = load(&data, &ldif).unwrap_err();
        let ImportError::Refused { first, .. } = &error else { panic!("{error}") };
        assert_eq!(first, want);
        assert!(dump_all(&data) == all, "{want}");
    }
}

const ALIAS: &str = "dn: ou=Alias,dc=example,dc=com\nobjectClass: alias\n\
    objectClass: extensibleObject\nou: Alias\naliasedObjectName: dc=example,dc=com\n\n";
const BELOW_ALIAS: &str = "dn: cn=below,ou=alias,dc=example,dc=com\nobjectClass: person\nsn: x\n\n";

#[test]
fn nothing_is_imported_below_an_alias() {
    let want = "entry 'cn=below,ou=alias,dc=example,dc=com': its superior \
                'ou=alias,dc=example,dc=com' is an alias: nothing is below one";
    #[track_caller]
    fn check(data: &Path, ldif: &str, want: &str) {
        let before = dump_all(data);
        let error = load(data, ldif).unwrap_err();
        let ImportError::Refused { report, first } = &error else { panic!("{error}") };
        assert_eq!((first.as_str(), report.rejected), (want, 1));
        assert_eq!(dump_all(data), before);
        let options = ImportOptions {
            on_refusal: OnRefusal::Continue,
            keep_text: true,
            ..ImportOptions::default()
        };
        let (result, heard) = load_with(data, &[("test", ldif.as_bytes())], &options);
        assert_eq!(result.unwrap().rejected, 1);
        let [line] = heard.lines.as_slice() else { panic!("{:?}", heard.lines) };
        assert!(line.ends_with(&format!("({})", BELOW_ALIAS.len())), "{line}");
        assert!(!dump_all(data).contains("cn=below"));
    }
    // Behind it, before it, and below one that is there.
    let (_dir, data) = fresh();
    check(&data, &format!("{ALIAS}{BELOW_ALIAS}"), &format!("test:7: {want}"));
    check(&data, BELOW_ALIAS, &format!("test:1: {want}"));
    let (_dir, data) = fresh();
    check(&data, &format!("{BELOW_ALIAS}{ALIAS}"), &format!("test:1: {want}"));
    // What takes the place of one is none.
    let options = ImportOptions { held: Held::Replace, ..ImportOptions::default() };
    let unit = "dn: ou=Alias,dc=example,dc=com\nobjectClass: organizationalUnit\n\n";
    let ldif = format!("{unit}{BELOW_ALIAS}");
    let (result, _) = load_with(&data, &[("test", ldif.as_bytes())], &options);
    assert_eq!(result.unwrap().imported, 2);
}

#[test]
fn an_import_that_stops_early_ends_its_threads() {
    // More than may be read ahead, after a first record that is refused.
    let mut ldif = person(0);
    (0..8000).for_each(|number| ldif.push_str(&person(number)));
    let (_dir, data) = fresh();
    let error = load(&data, &ldif).unwrap_err().to_string();
    assert!(error.starts_with("test:1: "), "{error}");
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

/// Hears everything, in one line each.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    phases: Vec<ImportPhase>,
    /// How far it was: phase, records and what is done.
    done: Vec<(ImportPhase, u64, u64)>,
    /// How much of the last phase is done.
    share: f64,
}

impl ImportObserver for Heard {
    fn progress(&mut self, progress: &Progress) {
        if self.phases.last() != Some(&progress.phase) {
            self.phases.push(progress.phase);
            self.share = 0.0;
        }
        self.done.push((progress.phase, progress.records, progress.done));
        let Some(total) = progress.total else { return };
        let share = progress.done as f64 / total as f64;
        assert!((self.share..=1.0).contains(&share), "{progress:?} after {}", self.share);
        self.share = share;
    }

    fn refused(&mut self, refused: &Refused<'_>) {
        let Refused { source, line, dn, reason, ldif } = refused;
        let length = ldif.map_or(0, <[u8]>::len);
        self.lines.push(format!("{source}:{line} [{dn}] {reason} ({length})"));
    }

    fn skipped(&mut self, skipped: &Skipped<'_>) {
        let Skipped { source, line, dn, reason, ldif } = skipped;
        let length = ldif.map_or(0, <[u8]>::len);
        self.lines.push(format!("{source}:{line} [{dn}] {reason} ({length})"));
    }
}

fn load_with(
    data: &Path,
    sources: &[(&str, &[u8])],
    options: &ImportOptions,
) -> (Result<ImportReport, ImportError>, Heard) {
    let sources = sources.iter().map(|(name, octets)| Source::new(*name, *octets)).collect();
    let mut heard = Heard::default();
    let result = import(data, sources, options, &clock(), &mut heard);
    (result, heard)
}

fn compressed(text: &str) -> (Vec<u8>, Vec<u8>) {
    use std::io::Write as _;
    let mut gzip = Vec::new();
    let mut zstd = Vec::new();
    // Several members and frames, and a border of records within none of them.
    for piece in text.as_bytes().chunks(7_001) {
        let mut encoder = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::fast());
        encoder.write_all(piece).unwrap();
        encoder.finish().unwrap();
        zstd.extend(zstd::encode_all(piece, 1).unwrap());
    }
    (gzip, zstd)
}

#[test]
fn sources_are_read_one_after_the_other_plain_or_compressed() {
    let people = |range: std::ops::Range<u32>| range.map(person).collect::<String>();
    let (gzip, zstd) = (compressed(&people(0..300)).0, compressed(&people(300..600)).1);
    let sources: [(&str, &[u8]); 5] = [
        ("a", PEOPLE.as_bytes()),
        ("b.gz", &gzip),
        ("empty", b""),
        ("c.zst", &zstd),
        ("d", &people(600..601).into_bytes()),
    ];
    let (_dir, data) = fresh();
    let (result, heard) = load_with(&data, &sources, &ImportOptions::default());
    let report = result.unwrap();
    assert_eq!((report.processed, report.imported, heard.lines.len()), (602, 602, 0));
    assert_eq!(dump_all(&data).matches("dn: uid=").count(), 601);
    assert_eq!(heard.phases.first(), Some(&ImportPhase::Load));
}

#[test]
fn what_is_only_read_ahead_is_not_done() {
    let (dir, data) = fresh();
    let mut text = PEOPLE.to_owned();
    let mut people = (0..).map(person);
    while text.len() < 3 * ldap::ldif::LDIF_BLOCK_BYTES {
        text.extend(people.next());
    }
    let path = dir.path().join("people.ldif");
    std::fs::write(&path, &text).unwrap();
    let sources = vec![Source::open(&path).unwrap()];
    let mut heard = Heard::default();
    let options = ImportOptions { threads: 1, ..ImportOptions::default() };
    let report = import(&data, sources, &options, &clock(), &mut heard).unwrap();
    let loaded = heard.done.iter().filter(|(phase, ..)| *phase == ImportPhase::Load);
    let loaded: Vec<(u64, u64)> = loaded.map(|(_, records, done)| (*records, *done)).collect();
    let length = text.len() as u64;
    let (records, done) = loaded[0];
    assert!(records < report.processed && done < length, "{loaded:?}");
    assert_eq!(*loaded.last().unwrap(), (report.processed, length));
}

#[test]
fn a_source_that_breaks_off_ends_the_import_with_its_line() {
    let text: String = (0..300).map(person).collect();
    let (gzip, zstd) = compressed(&text);
    let (_dir, data) = fresh();
    let before = dump_all(&data);
    for octets in [&gzip[..gzip.len() - 20], &zstd[..zstd.len() - 20]] {
        let sources = [("p", PEOPLE.as_bytes()), ("x", octets)];
        let (result, _) = load_with(&data, &sources, &ImportOptions::default());
        let error = result.unwrap_err();
        assert!(
            matches!(&error, ImportError::Source { name, line, .. } if name == "x" && *line > 1),
            "{error}"
        );
        assert_eq!(dump_all(&data), before);
    }
}

#[test]
fn refused_entries_are_told_and_the_others_loaded() {
    let bad = "dn: cn=x,dc=example,dc=com\nobjectClass: person\n\n\
               nonsense\nmore\n\n# why\ndn: x\nsn: x\n\n";
    let one = format!("{PEOPLE}{}{bad}{}", person(1), person(2));
    let two = format!("{}{}", person(2), person(3));
    let options = ImportOptions {
        on_refusal: OnRefusal::Continue,
        keep_text: true,
        ..ImportOptions::default()
    };
    let (_dir, data) = fresh();
    let sources = [("one", one.as_bytes()), ("two", two.as_bytes())];
    let (result, heard) = load_with(&data, &sources, &options);
    let report = result.unwrap();
    assert_eq!((report.processed, report.imported, report.rejected), (8, 4, 4));
    assert_eq!(report.reasons.values().sum::<u64>(), 4);
    let person = "uid=user.2,ou=People,dc=example,dc=com";
    assert_eq!(
        heard.lines,
        [
            "one:11 [cn=x,dc=example,dc=com] entry 'cn=x,dc=example,dc=com': object class 'person' \
             requires attribute 'sn' (48)"
                .to_owned(),
            "one:14 [] ':' is missing: write 'attribute: value', and begin the continuation of a \
             long line with a space (15)"
                .to_owned(),
            "one:18 [x] 'x' is not a distinguished name: an attribute type is not followed by '=' \
             (at byte 1) (19)"
                .to_owned(),
            format!("two:1 [{person}] entry '{person}' exists already, from one:21 (122)"),
        ]
    );
    assert_eq!(dump_all(&data).matches("dn: uid=").count(), 3);
}

#[test]
fn a_check_finds_everything_and_changes_nothing() {
    let ldif = format!("{PEOPLE}{}{}{}dn: x\nsn: x\n", person(1), person(2), person(1));
    let (_dir, data) = fresh();
    let before = dump_all(&data);
    let options = ImportOptions { mode: ImportMode::Check, ..ImportOptions::default() };
    let (result, heard) = load_with(&data, &[("f", ldif.as_bytes())], &options);
    let report = result.unwrap();
    assert_eq!((report.processed, report.imported, report.rejected), (5, 3, 2));
    assert_eq!(heard.lines.len(), 2);
    assert_eq!(dump_all(&data), before);
}

#[test]
fn branches_and_filters_choose_what_is_imported() {
    #[track_caller]
    fn check(options: ImportOptions, want: &[&str], skipped: u64) {
        let (_dir, data) = fresh();
        let mut ldif = PEOPLE.to_owned();
        (0..3).for_each(|number| ldif.push_str(&person(number)));
        ldif.push_str("dn: ou=A,dc=example,dc=com\nobjectClass: organizationalUnit\n\n");
        let (result, heard) = load_with(&data, &[("f", ldif.as_bytes())], &options);
        let report = result.unwrap();
        assert_eq!(
            (report.skipped, report.rejected),
            (skipped, 0),
            "{heard:?}",
            heard = heard.lines
        );
        let text = dump_all(&data);
        let names = text.lines().filter_map(|line| line.strip_prefix("dn: "));
        let mut names: Vec<&str> =
            names.filter_map(|dn| dn.strip_suffix(",dc=example,dc=com")).collect();
        names.sort_unstable();
        assert_eq!(names, want);
    }
    let dn = |text: &str| Dn::parse(&format!("{text},dc=example,dc=com")).unwrap();
    let asked = ImportOptions::default;
    check(
        ImportOptions { include: vec![dn("OU=people")], ..asked() },
        &["ou=People", "uid=user.0,ou=People", "uid=user.1,ou=People", "uid=user.2,ou=People"],
        1,
    );
    check(ImportOptions { exclude: vec![dn("ou=people")], ..asked() }, &["ou=A"], 4);
    check(
        ImportOptions { include_filter: Some("(|(ou=*)(sn=1))".to_owned()), ..asked() },
        &["ou=A", "ou=People", "uid=user.1,ou=People"],
        2,
    );
    check(
        ImportOptions { exclude_filter: Some("(objectClass=person)".to_owned()), ..asked() },
        &["ou=A", "ou=People"],
        3,
    );
    let (_dir, data) = fresh();
    let wrong = ImportOptions { include_filter: Some("(x".to_owned()), ..asked() };
    let (result, _) = load_with(&data, &[("f", b"")], &wrong);
    assert!(matches!(result, Err(ImportError::Asked(_))));
}

#[test]
fn a_cancelled_import_leaves_the_old_data() {
    let (_dir, data) = fresh();
    let before = dump_all(&data);
    let cancel = Some(Arc::new(AtomicBool::new(true)));
    let options = ImportOptions { cancel, ..ImportOptions::default() };
    let (result, _) = load_with(&data, &[("f", PEOPLE.as_bytes())], &options);
    assert!(matches!(result, Err(ImportError::Interrupted)));
    assert_eq!(dump_all(&data), before);
}

/// Fails as no source should.
struct PanickingSource;

impl std::io::Read for PanickingSource {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("a test asked for it");
    }
}

#[test]
fn an_import_whose_names_do_not_fit_changes_nothing() {
    let (_dir, data) = fresh();
    load(&data, PEOPLE).unwrap();
    let before = dump_all(&data);
    let entry = |number| {
        format!("dn: ou={number},{SUFFIX}\nobjectClass: organizationalUnit\nou: {number}\n\n")
    };
    let ldif: String = (0..90_000).map(entry).collect();
    let options = ImportOptions { memory_bytes: Some(0), ..ImportOptions::default() };
    let (ended, _) = load_with(&data, &[("all", ldif.as_bytes())], &options);
    let Err(ImportError::NoMemory(reason)) = ended else { panic!("{ended:?}") };
    assert!(reason.contains("MiB is what they may take"), "{reason}");
    assert_eq!(dump_all(&data), before);
}

#[test]
fn a_thread_that_panics_ends_the_import_and_the_old_data_stay() {
    let (_dir, data) = fresh();
    let before = dump_all(&data);
    // Of this, more than may be read ahead, so that the reader waits for what does not come.
    let mut ldif =
        format!("{PEOPLE}dn: {}\nobjectClass: person\nsn: x\n\n", pipeline::PANICKING_DN);
    let long = "x".repeat(100_000);
    for number in 0..120 {
        ldif.push_str(person(number).trim_end());
        ldif.push_str(&format!("\ndescription: {long}\n\n"));
    }
    for threads in [1, 2, 4] {
        let options =
            ImportOptions { threads, memory_bytes: Some(64 << 20), ..ImportOptions::default() };
        let (result, _) = load_with(&data, &[("f", ldif.as_bytes())], &options);
        assert!(matches!(result, Err(ImportError::Panicked)), "{result:?}");
        assert_eq!(dump_all(&data), before);
        let sources = vec![Source::new("p", PEOPLE.as_bytes()), Source::new("x", PanickingSource)];
        let result = import(&data, sources, &options, &clock(), &mut ());
        assert!(matches!(result, Err(ImportError::Panicked)), "{result:?}");
        assert_eq!(dump_all(&data), before);
    }
}

#[test]
fn what_is_hopeless_is_not_read_to_its_end() {
    let (_dir, data) = fresh();
    let ldif = "dn: x\nsn: x\n\n".repeat(200_000);
    let (result, heard) = load_with(&data, &[("f", ldif.as_bytes())], &ImportOptions::default());
    let Err(ImportError::Refused { report, .. }) = result else { panic!("{result:?}") };
    assert!((1_000..200_000).contains(&report.rejected), "{}", report.rejected);
    assert_eq!(heard.lines.len() as u64, report.rejected);
}

#[test]
fn the_summary_is_the_line_that_users_know() {
    let report = ImportReport {
        processed: 20_001,
        imported: 19_990,
        skipped: 5,
        rejected: 6,
        migrated: 2,
        elapsed: std::time::Duration::from_millis(2_500),
        ..ImportReport::default()
    };
    assert_eq!(
        report.to_string(),
        "Processed 20001 entries, imported 19990, skipped 5, rejected 6 and migrated 2 in 2 \
         seconds (average rate 8000.4/sec)"
    );
}

#[test]
fn an_entry_with_a_wrong_aci_is_refused_with_its_column() {
    let (_dir, data) = fresh();
    let aci = "(targetattr=\"cn\")(version 3.0; acl \"x\"; allow (fly) userdn=\"ldap:///anyone\";)";
    let ldif = format!(
        "{PEOPLE}dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\naci: {aci}\n"
    );
    let error = load(&data, &ldif).unwrap_err().to_string();
    assert!(error.contains("entry 'ou=x,dc=example,dc=com': aci: "), "{error}");
    assert!(error.contains("column"), "{error}");
}

/// Both targets beside each other load as they are, and open what they did not where they come
/// from: whoever moves here is told.
#[test]
fn an_aci_that_means_something_else_here_is_warned_of() {
    let (_dir, data) = fresh();
    let aci = |targets: &str| {
        let says = "(version 3.0; acl \"x\"; allow (write) userdn=\"ldap:///all\";)";
        format!("aci: {targets}{says}\n")
    };
    let (list, filters) = ("(targetattr=\"cn\")", "(targattrfilters=\"add=l:(l=rome)\")");
    let unit = |name: &str, acis: &[String]| {
        let acis = acis.concat();
        format!("dn: ou={name},dc=example,dc=com\nobjectClass: organizationalUnit\n{acis}\n")
    };
    let both = format!("{list}{filters}");
    let ldif = [
        PEOPLE.to_owned(),
        unit("x", &[aci(list), aci(filters)]),
        unit("y", &[aci(list), aci(&both)]),
        unit("z", &[aci(&both)]),
    ];
    let report = load(&data, &ldif.concat()).unwrap();
    let warnings: Vec<String> = report.translation.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("2 ACIs have targattrfilters beside targetattr"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("'ou=y,dc=example,dc=com'"), "{warnings:?}");
    let (_dir, data) = fresh();
    let ldif = [PEOPLE.to_owned(), unit("x", &[aci(list), aci(filters)])];
    let report = load(&data, &ldif.concat()).unwrap();
    assert_eq!(report.translation.warnings().count(), 0);
}

/// By what nobody can answer a deny denies: that may be more than where it comes from.
#[test]
fn an_aci_that_asks_what_the_schema_cannot_answer_is_warned_of() {
    let (_dir, data) = fresh();
    let unit = |name: &str, filter: &str| {
        format!(
            "dn: ou={name},dc=example,dc=com\nobjectClass: organizationalUnit\n\
             aci: (targetattr=\"cn\")(targetfilter=\"{filter}\")(version 3.0; acl \"x\"; \
             deny (read) userdn=\"ldap:///all\";)\n\n"
        )
    };
    let ldif = [
        PEOPLE.to_owned(),
        unit("x", "(uidNumber=1)"),
        unit("y", "(uidNumber=many)"),
        unit("z", "(noSuchType=x)"),
    ];
    let report = load(&data, &ldif.concat()).unwrap();
    let warnings: Vec<String> = report.translation.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let want = "2 ACIs ask what the schema cannot answer, the first in 'ou=y,dc=example,dc=com'";
    assert!(warnings[0].starts_with(want), "{warnings:?}");
}

/// Whoever moves here is told that accounts lose their policy, as long as it is nowhere.
#[test]
fn a_policy_that_is_not_there_is_warned_of() {
    let (_dir, data) = fresh();
    let policy = |name: &str| {
        format!(
            "dn: cn={name},{SUFFIX}\nobjectClass: device\nobjectClass: pwdPolicy\ncn: {name}\n\
             pwdAttribute: userPassword\n\n"
        )
    };
    let user = |number: u32, policy: &str| {
        format!("{}pwdPolicySubentry: cn={policy},{SUFFIX}\n\n", person(number).trim_end())
            .replace(&format!("secret{number}"), &format!("secret{number}\n"))
    };
    let first = [PEOPLE.to_owned(), user(1, "Here"), policy("here"), user(2, "gone")].concat();
    let report = load(&data, &first).unwrap();
    let warnings: Vec<String> = report.translation.warnings().collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let want = "1 entry names a password policy that is not there, \
                'uid=user.2,ou=People,dc=example,dc=com' for one the policy \
                'cn=gone,dc=example,dc=com'";
    assert!(warnings[0].starts_with(want), "{warnings:?}");
    // What was there before counts, too.
    let second = load(&data, &[user(3, "here"), user(4, "here")].concat()).unwrap();
    assert_eq!(second.translation.warnings().count(), 0);
}

/// The global ACIs of a data directory.
fn global_acis(data: &Path) -> Vec<String> {
    let store = Store::open(data, &Default::default(), schema_of(data).unwrap()).unwrap();
    let batch = store.begin().unwrap();
    directory::loading::global_acis(&batch.view()).unwrap()
}

/// Data whose ACIs hid something were opened by the global ACI, which adds to them.
#[test]
fn data_with_access_rules_of_their_own_leave_the_directory_closed() {
    use GlobalAcis::{Closed, Public, SignedIn};
    let unit = |more: &str| {
        format!("{PEOPLE}dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\n{more}\n")
    };
    let aci = "aci: (targetattr=\"cn\")(version 3.0; acl \"x\"; allow (read) \
               userdn=\"ldap:///self\";)\n";
    let stamps = "entryCSN: 20231114221321.000000Z#000000#000#000000\n\
                  structuralObjectClass: organizationalUnit\n";
    let check = |ldif: &str, asked: Option<GlobalAcis>, want: (GlobalAcis, Option<&str>)| {
        let (_dir, data) = fresh();
        let options = ImportOptions { global_acis: asked, ..ImportOptions::default() };
        let sources = vec![Source::new("test", ldif.as_bytes())];
        let report = import(&data, sources, &options, &clock(), &mut ()).unwrap();
        let told = report.access.as_deref();
        assert_eq!(told.is_some(), want.1.is_some(), "{told:?}");
        assert!(told.unwrap_or_default().contains(want.1.unwrap_or_default()), "{told:?}");
        assert_eq!(
            global_acis(&data),
            directory::loading::global_aci_texts(want.0),
            "{ldif} {asked:?}"
        );
    };
    check(&unit(""), None, (SignedIn, None));
    check(&unit(aci), None, (Closed, Some("the data contain an ACI, so only")));
    // A dialect's state of a value is no option of an ACI.
    let stated = aci.replace("aci:", "aci;vucsn-65b3f1d2000000010000:");
    check(&unit(&stated), None, (Closed, Some("the data contain an ACI, so only")));
    let elsewhere = "rules are not part of them, so only";
    check(&unit(stamps), None, (Closed, Some(elsewhere)));
    let numbers = stamps.replace("entryCSN", "1.3.6.1.4.1.4203.666.1.7");
    let numbers = numbers.replace("structuralObjectClass", "2.5.21.9");
    check(&unit(&numbers), None, (Closed, Some(elsewhere)));
    // One alone is no stamp of OpenLDAP, and OpenDJ keeps all its rules with its data.
    for own in ["structuralObjectClass: organizationalUnit\n", "ds-sync-generation-id: 7\n"] {
        check(&unit(own), None, (SignedIn, None));
    }
    for foreign in [
        "orclACI: access to entry by * (none)\n",
        "orclentrylevelaci: access to attr=(*) by * (none)\n",
        "orclGUID: 0B0E1C2D3E4F5061728394A5B6C7D8E9\n",
        "nTSecurityDescriptor:: AQAEgA==\nobjectGUID:: AAECAwQFBgcICQoLDA0ODw==\n",
        "objectGUID:: AAECAwQFBgcICQoLDA0ODw==\n",
        "nsUniqueId: 1a2b3c04-b90f11ee-8a5fc01e-77f00001\n",
        "nsuniqueid;vucsn-65b3f1d2000000010000: 1a2b3c04-b90f11ee-8a5fc01e-77f00001\n",
    ] {
        check(&unit(foreign), None, (Closed, Some(elsewhere)));
    }
    check(&unit(aci), Some(SignedIn), (SignedIn, None));
    check(&unit(aci), Some(Public), (Public, None));
    check(&unit(""), Some(Closed), (Closed, None));
    // An ACI that is left out hid something, too.
    let (_dir, data) = fresh();
    let exclude = vec![Dn::parse("ou=x,dc=example,dc=com").unwrap()];
    let options = ImportOptions { exclude, ..ImportOptions::default() };
    let ldif = unit(aci);
    let sources = vec![Source::new("test", ldif.as_bytes())];
    let report = import(&data, sources, &options, &clock(), &mut ()).unwrap();
    assert!(report.access.unwrap().contains(elsewhere));
    assert_eq!(global_acis(&data), directory::loading::global_aci_texts(Closed));
    // An import that only checks changes nothing, and tells what it would do.
    let (_dir, data) = fresh();
    let options = ImportOptions { mode: ImportMode::Check, ..ImportOptions::default() };
    let ldif = unit(aci);
    let sources = || vec![Source::new("test", ldif.as_bytes())];
    let report = import(&data, sources(), &options, &clock(), &mut ()).unwrap();
    assert!(report.access.is_some());
    assert_eq!(global_acis(&data), directory::loading::global_aci_texts(SignedIn));
    // Whoever has entries already keeps the rules they have, and is told.
    load(&data, &unit("")).unwrap();
    let more = format!("dn: ou=y,{SUFFIX}\nobjectClass: organizationalUnit\n{aci}\n");
    let report = load(&data, &more).unwrap();
    assert!(report.access.unwrap().contains("stay as they are"));
    assert_eq!(global_acis(&data), directory::loading::global_aci_texts(SignedIn));
    let more = format!("dn: ou=z,{SUFFIX}\nobjectClass: organizationalUnit\n{stamps}\n");
    let report = load(&data, &more).unwrap();
    assert!(report.access.unwrap().contains("are not part of them; the global ACIs"));
}

/// They are in force as others are, so nothing may let them in unseen.
#[test]
fn an_aci_with_options_is_refused() {
    for name in ["aci;x-a", "ACI;lang-de", "2.16.840.1.113730.3.1.55;x-a"] {
        for value in [
            "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (write) userdn=\"ldap:///anyone\";)",
            "garbage",
        ] {
            let (_dir, data) = fresh();
            let unit = "dn: ou=x,dc=example,dc=com\nobjectClass: organizationalUnit\n";
            let error = load(&data, &format!("{PEOPLE}{unit}{name}: {value}\n")).unwrap_err();
            assert!(error.to_string().contains("an ACI has no options"), "{error}");
        }
    }
}

/// Data of a server that was less strict are loaded as the options say, and counted.
#[test]
fn modes_let_entries_break_rules_of_the_schema() {
    let ldif = format!(
        "{PEOPLE}dn: cn=a,{SUFFIX}\nobjectClass: inetOrgPerson\nsn: a\nmail:: w6lAeA==\n\n\
         dn: cn=b,{SUFFIX}\nobjectClass: person\nmail: b@x\n\n\
         dn: cn=c,{SUFFIX}\nobjectClass: person\nmail: c@x\nsn: c\n\n\
         dn: cn=d,{SUFFIX}\nobjectClass: inetOrgPerson\nsn: d\nmail: d@x\n"
    );
    let modes = |texts: &[&str]| texts.iter().map(|text| ModeLine::parse(text).unwrap()).collect();
    let try_load = |data: &Path, schema_modes: Vec<ModeLine>| {
        let options = ImportOptions { schema_modes, threads: 2, ..ImportOptions::default() };
        let sources = vec![Source::new("test", ldif.as_bytes())];
        import(data, sources, &options, &clock(), &mut ())
    };
    let kept = |data: &Path| {
        let store = Store::open(data, &Default::default(), schema_of(data).unwrap()).unwrap();
        let batch = store.begin().unwrap();
        batch.view().setting(MODES).unwrap()
    };
    let (_dir, data) = fresh();
    for (texts, refused) in [
        (&[][..], 3),
        (&["syntax: warn"], 2),
        (&["syntax: warn", "allowed: accept"], 1),
        (&["syntax: warn", "allowed: reject", "required: accept"], 2),
    ] {
        let Err(ImportError::Refused { report, .. }) = try_load(&data, modes(texts)) else {
            panic!("{texts:?} let all of them in");
        };
        assert_eq!(report.rejected, refused, "{texts:?}");
        assert!(kept(&data).is_empty(), "what is not loaded says nothing");
    }
    let all = ["syntax: warn", "allowed: accept", "required: accept"];
    let report = try_load(&data, modes(&all)).unwrap();
    assert_eq!(report.imported, 5);
    let warnings: Vec<String> = report.translation.warnings().collect();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings[0].starts_with("2 entries break the rule 'allowed'"), "{warnings:?}");
    assert!(warnings[2].contains("1 entry breaks the rule 'syntax' of the schema"), "{warnings:?}");
    assert_eq!(kept(&data), all);
    // What the directory says holds for the next import.
    let again = ImportOptions { held: Held::Replace, ..ImportOptions::default() };
    let sources = vec![Source::new("test", ldif.as_bytes())];
    assert_eq!(import(&data, sources, &again, &clock(), &mut ()).unwrap().imported, 5);
}
