//! The rules one by one, the samples of each product, the offered definitions, and the reference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;

use ldap::dn::Dn;
use ldap::ldif::{LdifBody, LdifChange, LdifLimits, LdifReader};
use schema::{Entry, Mode, SchemaFile, validate};

use super::rules::Rule;
use super::*;

fn translator() -> Translator {
    Translator::new(Schema::builtin())
}

/// The records of an LDIF text, those of a `changetype: add`, too.
fn records(text: &str) -> Vec<RawRecord<'static>> {
    let mut reader = LdifReader::new(text.as_bytes(), LdifLimits::default());
    let mut found = Vec::new();
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => return found,
            Err(error) => {
                assert!(is_search_note(&error.reason), "{error}");
                continue;
            }
        };
        let attributes = match record.body {
            LdifBody::Content(attributes) | LdifBody::Change(LdifChange::Add(attributes)) => {
                attributes
            }
            LdifBody::Change(_) => panic!("no entry"),
        };
        let owned = |(name, value): (String, Vec<u8>)| (Cow::Owned(name), Cow::Owned(value));
        let attributes = attributes.into_iter().map(owned).collect();
        found.push(RawRecord { dn: Cow::Owned(record.dn), attributes });
    }
}

fn show(record: &RawRecord<'_>) -> String {
    let mut text = format!("dn: {}\n", record.dn);
    for (description, value) in &record.attributes {
        writeln!(text, "{description}: {}", String::from_utf8_lossy(value)).unwrap();
    }
    text
}

fn uses(tally: &Tally) -> BTreeMap<&'static str, u64> {
    tally.rules().map(|found| (found.name, found.times)).collect()
}

/// The one record `before` becomes `after`, by these rules.
#[track_caller]
fn check(before: &str, after: &str, rules: &[(&'static str, u64)]) {
    let translator = translator();
    let mut tally = Tally::default();
    let mut record = records(before).pop().unwrap();
    assert_eq!(translator.translate(&mut record, &mut tally), Verdict::Keep);
    assert_eq!(show(&record), after);
    assert_eq!(uses(&tally), rules.iter().copied().collect());
    // Once more changes nothing.
    assert_eq!(translator.translate(&mut record, &mut tally), Verdict::Keep);
    assert_eq!(show(&record), after);
}

#[test]
fn what_no_rule_is_about_stays() {
    let own = "dn: uid=a,dc=x\nobjectClass: inetOrgPerson\nuid: a\ncn;lang-de: A\n\
               createTimestamp: 20240131120000Z\n\
               entryUUID: 66446001-1dd2-11b2-80e8-c3ecd6e2e5c6\n\
               entryCSN: 20240131120000.000000Z#000000#000#000000\n\
               userPassword: {SSHA512}abcd\nname: x\n";
    check(own, own, &[]);
}

#[test]
fn an_identifier_is_moved_unless_there_is_one() {
    check(
        "dn: cn=x\nNSUNIQUEID: 66446001-1dd211b2-80e8c3ec-d6e2e5c6\ncn: x\n",
        "dn: cn=x\ncn: x\nentryUUID: 66446001-1dd2-11b2-80e8-c3ecd6e2e5c6\n",
        &[("389-unique-id", 1)],
    );
    check(
        "dn: cn=x\nnsUniqueId: 66446001-1dd211b2-80e8c3ec-d6e2e5c6\nentryuuid: own\n",
        "dn: cn=x\nentryuuid: own\n",
        &[("389-unique-id", 1)],
    );
    // What names the entry stays.
    check(
        "dn: orclGUID=66446001DD211B280E8C3ECD6E2E5C61,dc=x\norclguid: \
         664460011DD211B280E8C3ECD6E2E5C6\n",
        "dn: orclGUID=66446001DD211B280E8C3ECD6E2E5C61,dc=x\norclguid: \
         664460011DD211B280E8C3ECD6E2E5C6\nentryUUID: 66446001-1dd2-11b2-80e8-c3ecd6e2e5c6\n",
        &[("oid-guid", 1)],
    );
}

#[test]
fn state_of_values_is_stripped_and_the_newest_number_kept() {
    check(
        "dn: cn=x\ncn;vucsn-5df0ffd6000000010000;mdcsn-5df0ffd6000000010000: x\n\
         cn;lang-de;vucsn-5df0ffd6000200010000: y\nsn;adcsn-5df0ffd6000300010000;deleted:\n",
        "dn: cn=x\ncn: x\ncn;lang-de: y\n\
         entryCSN: 20191211144022.000000Z#000003#001#000000\n",
        &[("389-value-state", 4), ("389-deleted-value", 1)],
    );
}

#[test]
fn of_several_numbers_the_newest_is_taken_and_of_other_values_all() {
    check(
        "dn: cn=x\nds-sync-hist: cn:000001083257787b000200000001:repl:x\n\
         ds-sync-hist: sn:000001083257787b000200000009:repl:x\n\
         passwordHistory: 20240131120000Z{SSHA}a\npasswordHistory: 20240130120000Z{SSHA}b\n",
        "dn: cn=x\nentryCSN: 20051216065239.419000Z#000009#002#000000\n\
         pwdHistory: 20240131120000Z#1.3.6.1.4.1.1466.115.121.1.40#7#{SSHA}a\n\
         pwdHistory: 20240130120000Z#1.3.6.1.4.1.1466.115.121.1.40#7#{SSHA}b\n",
        &[("opendj-history", 2), ("389-password-history", 2)],
    );
}

#[test]
fn rules_of_active_directory_need_its_marks() {
    let plain = "dn: cn=x\nobjectClass: person\nname: x\nlastLogon: 7\n";
    check(plain, plain, &[]);
    check(
        "dn: cn=x\nobjectClass: person\nname: x\nlastLogon: 7\ncn: x\ninstanceType: 4\n",
        "dn: cn=x\nobjectClass: person\ncn: x\nsn: x\n",
        &[("ad-computed", 2), ("ad-logon-state", 1), ("ad-surname", 1)],
    );
}

#[test]
fn what_the_users_schema_defines_stays() {
    let file = SchemaFile {
        name: "mine".to_owned(),
        text: "attributeTypes: ( 1.2.840.113556.1.4.2 NAME 'objectGUID' \
               SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )\n"
            .to_owned(),
    };
    let schema = Arc::new(Schema::builtin().with_files(&[file]).unwrap());
    let mut record = records("dn: cn=x\nobjectGUID: 0123456789abcdef\n").pop().unwrap();
    let verdict = Translator::new(schema).translate(&mut record, &mut Tally::default());
    assert_eq!(verdict, Verdict::Keep);
    assert_eq!(
        show(&record),
        "dn: cn=x\nobjectGUID: 0123456789abcdef\n\
         entryUUID: 33323130-3534-3736-3839-616263646566\n"
    );
}

#[test]
fn entries_that_are_none_are_skipped() {
    for (text, rule) in [
        ("dn: cn=x\nobjectClass;vucsn-5df0ffd6000000010000: NSTOMBSTONE\n", "389-tombstone"),
        (
            "dn: nsuniqueid=FFFFFFFF-ffffffff-ffffffff-ffffffff,dc=x\nobjectClass: nsTombstone\n",
            "389-replica-update-vector",
        ),
        ("dn: cn=x\nnsds5ReplConflict: namingConflict cn=x\n", "389-replication-conflict"),
    ] {
        let mut tally = Tally::default();
        let mut record = records(text).pop().unwrap();
        let verdict = translator().translate(&mut record, &mut tally);
        assert!(matches!(verdict, Verdict::Skip(_)), "{text}");
        assert_eq!(uses(&tally), BTreeMap::from([(rule, 1)]));
    }
}

#[test]
fn passwords_are_recognised_and_counted() {
    let translator = translator();
    let mut tally = Tally::default();
    for value in ["secret", "{hello}world", "{SSHA}abc", "{ssha}abc", "{NT}x", "{CLEAR}x", "{AES}y"]
    {
        let text = format!("dn: cn=x\nuserPassword: {value}\n");
        translator.translate(&mut records(&text).pop().unwrap(), &mut tally);
    }
    let found: Vec<_> =
        tally.passwords().map(|used| (used.scheme, used.times, used.is_verifiable)).collect();
    assert_eq!(found, [("", 3, true), ("AES", 1, false), ("NT", 1, false), ("SSHA", 2, true)]);
    assert_eq!(uses(&tally), BTreeMap::from([("password-plain", 1), ("password-foreign", 2)]));
}

#[test]
fn passwords_under_options_and_in_names_are_told_of() {
    let translator = translator();
    let mut tally = Tally::default();
    for text in [
        "dn: cn=x\nuserPassword;x-b: {SSHA}abc\n",
        "dn: cn=x\nAUTHPASSWORD;lang-de: a$b$c\n",
        "dn: cn=x\ncn;lang-de: y\n",
        "dn: USERPASSWORD=x,cn=y\ncn: x\n",
        "dn: cn=x+2.5.4.35=y,cn=y\ncn: x\n",
        "dn: cn=x,userPassword=y\ncn: x\n",
    ] {
        let mut record = records(text).pop().unwrap();
        let before = record.attributes.clone();
        translator.translate(&mut record, &mut tally);
        assert_eq!(record.attributes, before, "{text}");
    }
    assert_eq!(uses(&tally), BTreeMap::from([("password-option", 2), ("password-name", 2)]));
}

fn sample(name: &str) -> String {
    let path = format!("{}/tests/dialects/{name}", env!("CARGO_MANIFEST_DIR"));
    let octets = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut whole = String::new();
    text(Box::new(octets.as_slice())).unwrap().read_to_string(&mut whole).unwrap();
    whole
}

/// Translates and checks all entries of a sample; returns what is wrong with them.
fn run(name: &str, schema: &Arc<Schema>) -> (Vec<String>, Tally) {
    let translator = Translator::new(Arc::clone(schema));
    let mut tally = Tally::default();
    let mut refused = Vec::new();
    for mut record in records(&sample(name)) {
        if translator.translate(&mut record, &mut tally) != Verdict::Keep {
            continue;
        }
        let pairs = record.attributes.iter().map(|(description, value)| (&**description, &**value));
        let name = Dn::parse(&record.dn).unwrap();
        let entry = Entry::from_pairs(name, pairs, schema).map_err(|error| error.to_string());
        let entry = entry.and_then(|mut entry| {
            entry.add_naming_values(schema).map_err(|error| error.to_string())?;
            validate(&entry, schema, Mode::Import).map_err(|error| error.diagnostic)
        });
        if let Err(reason) = entry {
            refused.push(format!("{}: {reason}", record.dn));
            translator.examine(&record, &mut tally);
        }
    }
    (refused, tally)
}

#[track_caller]
fn check_rules(name: &str, tally: &Tally) {
    let found = uses(tally);
    let wanted = fs::read_to_string(format!(
        "{}/tests/dialects/{}.rules",
        env!("CARGO_MANIFEST_DIR"),
        name.split('.').next().unwrap()
    ));
    let mut left = found.clone();
    for line in wanted.unwrap().lines() {
        let (rule, times) = line.split_once(' ').unwrap();
        let Some(used) = left.remove(rule) else {
            panic!("{name}: {rule} was not used: {found:?}")
        };
        assert!(times == "*" || times == used.to_string(), "{name}: {rule} {used}, not {times}");
    }
    assert_eq!(left, BTreeMap::new(), "{name}");
}

#[test]
fn samples_load_by_the_rules_alone() {
    for name in ["slapcat.ldif", "opendj.ldif", "389.ldif", "dsee.ldif", "ldapsearch.ldif"] {
        let (refused, tally) = run(name, &Schema::builtin());
        assert_eq!(refused, Vec::<String>::new(), "{name}");
        check_rules(name, &tally);
        assert_eq!((tally.schema_file(), tally.hint()), (None, None), "{name}");
    }
}

#[test]
fn samples_with_unknown_schema_load_by_what_is_offered() {
    for (name, first) in [
        ("ad.ldif", "CN=Users,DC=example,DC=com: object class 'container' is not defined"),
        ("oid.txt", "cn=Users,dc=example,dc=com: object class 'orclContainer' is not defined"),
    ] {
        let (refused, tally) = run(name, &Schema::builtin());
        assert!(refused.iter().any(|reason| reason == first), "{name}: {refused:#?}");
        check_rules(name, &tally);
        let file = SchemaFile { name: name.to_owned(), text: tally.schema_file().unwrap() };
        let schema = Arc::new(
            Schema::builtin()
                .with_files(std::slice::from_ref(&file))
                .unwrap_or_else(|error| panic!("{error}\n{}", file.text)),
        );
        let (refused, tally) = run(name, &schema);
        assert_eq!(refused, Vec::<String>::new(), "{}", file.text);
        assert_eq!(tally.schema_file(), None);
    }
}

/// Definitions offered for entries that are refused, without the head of the file.
#[track_caller]
fn check_offer(entries: &str, want: &[&str]) {
    let translator = translator();
    let mut tally = Tally::default();
    for record in records(entries) {
        // Merging parts gives what one worker would.
        let mut part = Tally::default();
        translator.examine(&record, &mut part);
        tally.merge(part);
    }
    let text = tally.schema_file().unwrap().replace("\n  ", " ");
    let lines = text.lines().skip_while(|line| *line != "cn: schema").skip(1);
    let (seen, found): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.contains("first in"));
    assert_eq!(found, want);
    assert_eq!(seen.len(), found.iter().filter(|line| !line.starts_with('#')).count());
    let file = SchemaFile { name: "offer".to_owned(), text };
    Schema::builtin().with_files(&[file]).unwrap();
}

#[test]
fn syntaxes_are_guessed_from_all_values() {
    const HEAD: &str = "dn: cn=x\nobjectClass: person\nobjectClass: mine\ncn: x\nsn: x\n";
    #[track_caller]
    fn check(values: &[&str], want: &str) {
        let lines: String = values.iter().map(|value| format!("a-b{value}\n")).collect();
        let want = format!("attributeTypes: ( a-b-oid NAME 'a-b' {want} X-ORIGIN 'import' )");
        let class = "objectClasses: ( mine-class-oid NAME 'mine' SUP top AUXILIARY MAY ( a-b ) \
                     X-ORIGIN 'import' )";
        check_offer(&format!("{HEAD}{lines}"), &[&want, class]);
    }
    let text = "EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch \
                SYNTAX 1.3.6.1.4.1.1466.115.121.1.15";
    let octets = "EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40";
    check(&[": TRUE", ": FALSE"], "EQUALITY booleanMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.7");
    check(
        &[": 12", ": -7"],
        "EQUALITY integerMatch ORDERING integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27",
    );
    check(
        &[": 20240131120000Z"],
        "EQUALITY generalizedTimeMatch ORDERING generalizedTimeOrderingMatch \
         SYNTAX 1.3.6.1.4.1.1466.115.121.1.24",
    );
    check(
        &[": cn=a,dc=x", ": dc=y"],
        "EQUALITY distinguishedNameMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.12",
    );
    check(&[": 12", ": x"], text);
    check(&[": 007"], text);
    check(&[": colour=red"], text);
    check(&[":: /wA="], octets);
    check(&[":: AQID"], octets);
    check(&[": x", ":"], octets);
}

#[test]
fn kinds_of_classes_are_guessed_from_their_company() {
    check_offer(
        "dn: cn=a\nobjectClass: top\nobjectClass: base\nobjectClass: derived\ncn: a\n\n\
         dn: cn=b\nobjectClass: base\ncn: b\n\n\
         dn: cn=c\nobjectClass: base\nobjectClass: extra\ncn: c\n\n\
         dn: cn=d\nobjectClass: person\nobjectClass: extra\ncn: d\nsn: d\nmail: d\n",
        &[
            "objectClasses: ( base-class-oid NAME 'base' SUP top STRUCTURAL MAY ( cn ) \
             X-ORIGIN 'import' )",
            "objectClasses: ( derived-class-oid NAME 'derived' SUP base STRUCTURAL MAY ( cn ) \
             X-ORIGIN 'import' )",
            "objectClasses: ( extra-class-oid NAME 'extra' SUP top AUXILIARY MAY ( cn $ mail ) \
             X-ORIGIN 'import' )",
        ],
    );
    check_offer(
        "dn: cn=a\nobjectClass: both\n\ndn: cn=d\nobjectClass: person\nobjectClass: both\n\
         cn: d\nsn: d\n",
        &[
            "# both is the only class of some entries, and beside a structural one in",
            "# others: it cannot be both, so the former stay refused.",
            "objectClasses: ( both-class-oid NAME 'both' SUP top AUXILIARY X-ORIGIN 'import' )",
        ],
    );
}

#[test]
fn types_and_classes_of_active_directory_have_their_own_oids() {
    check_offer(
        "dn: cn=a\nobjectClass: person\nobjectClass: USER\ncn: a\nsn: a\nsamaccountname: a\n",
        &[
            "attributeTypes: ( 1.2.840.113556.1.4.221 NAME 'samaccountname' EQUALITY \
             caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch SYNTAX \
             1.3.6.1.4.1.1466.115.121.1.15 X-ORIGIN 'import' )",
            "objectClasses: ( 1.2.840.113556.1.5.9 NAME 'USER' SUP top AUXILIARY MAY ( \
             samaccountname ) X-ORIGIN 'import' )",
        ],
    );
}

#[test]
fn a_type_that_no_class_could_allow_is_operational() {
    check_offer(
        "dn: cn=a\nobjectClass: person\ncn: a\nsn: a\nlastSeen: 7\n1.2.3.4: x\n",
        &[
            "attributeTypes: ( 1.2.3.4 EQUALITY caseIgnoreMatch SUBSTR caseIgnoreSubstringsMatch \
             SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 USAGE directoryOperation X-ORIGIN 'import' )",
            "attributeTypes: ( lastSeen-oid NAME 'lastSeen' EQUALITY integerMatch ORDERING \
             integerOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 USAGE directoryOperation \
             X-ORIGIN 'import' )",
        ],
    );
}

#[test]
fn damaged_samples_do_no_harm_and_translating_twice_changes_nothing() {
    use environment::{Chance as _, SeededChance};
    let mut chance = SeededChance(7);
    let mut number = |below: usize| {
        let mut octets = [0; 4];
        chance.fill(&mut octets);
        u32::from_le_bytes(octets) as usize % below
    };
    let mut done = 0;
    for name in ["slapcat.ldif", "opendj.ldif", "389.ldif", "dsee.ldif", "ad.ldif", "oid.txt"] {
        let path = format!("{}/tests/dialects/{name}", env!("CARGO_MANIFEST_DIR"));
        let whole = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        for _ in 0..60 {
            let mut damaged: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            for _ in 0..4 {
                let (one, other) = (number(damaged.len()), number(damaged.len()));
                match number(4) {
                    0 => damaged.swap(one, other),
                    1 => damaged[one].clear(),
                    2 => damaged[one] = damaged[one].replacen(": ", ": x", 1),
                    _ => damaged[one] = damaged[one].replacen(": ", ";vucsn-5df0: ", 1),
                }
            }
            let Ok((once, tally)) = translated(damaged.join("\n").as_bytes()) else { continue };
            if let Some(text) = tally.schema_file() {
                let file = SchemaFile { name: name.to_owned(), text };
                Schema::builtin().with_files(&[file]).unwrap();
            }
            let (twice, _) = translated(&once).unwrap();
            assert_eq!(String::from_utf8(twice).unwrap(), String::from_utf8(once).unwrap());
            done += 1;
        }
    }
    assert!(done > 100, "{done} of 360 could be read");
}

#[test]
fn the_tally_is_bounded() {
    let translator = translator();
    let mut tally = Tally::default();
    for number in 0..3000 {
        let text = format!(
            "dn: cn={number}{}\nobjectClass: c{number}\nobjectClass: d{number}\na{number}: x\n",
            "x".repeat(1000)
        );
        let record = records(&text).pop().unwrap();
        let mut part = Tally::default();
        translator.examine(&record, &mut part);
        tally.merge(part);
    }
    assert_eq!(tally.unknown_types().count(), tally::UNKNOWN_MAX);
    assert_eq!(tally.unknown_classes().count(), tally::UNKNOWN_MAX);
    let report = tally.to_string();
    assert!(report.contains("more than is listed") && !report.contains(&"x".repeat(300)));
}

#[test]
fn names_of_rules_are_there_once_and_plain() {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for name in names {
        assert!(name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-'), "{name}");
    }
    let builtin = Schema::builtin();
    for rule in RULES {
        if let Action::Move(into, _) | Action::Copy(into, _) = rule.action {
            let kind = builtin.attribute_type(into);
            assert!(kind.is_some_and(|kind| kind.name() == into), "{into}");
        }
    }
}

/// `ROSTER_WRITE_REFERENCE=1 cargo test -p offline reference` writes it again.
#[test]
fn the_reference_is_written_from_the_table() {
    let mut table = String::from(
        "| rule | for | applies to | action | why |\n| --- | --- | --- | --- | --- |\n",
    );
    for rule in RULES {
        let Rule { name, products, matches, action, why } = rule;
        let (about, does) = (matches.describe(), action.describe());
        writeln!(table, "| `{name}` | {products} | {about} | {does} | {why} |").unwrap();
    }
    let path = format!("{}/../../docs/how-to/migrate.md", env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- rules -->\n").unwrap();
    let (written, after) = rest.split_once("<!-- end of rules -->").unwrap();
    if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
        let page = format!("{before}<!-- rules -->\n{table}<!-- end of rules -->{after}");
        fs::write(&path, page).unwrap();
    } else {
        assert!(written == table, "write the reference again: see the comment of this test");
    }
}

/// What the rules cost a record that needs none: `cargo test --release -p offline
/// cost_of_looking -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost_of_looking() {
    use std::time::Instant;
    let translator = translator();
    let own = "entryUUID: 66446001-1dd2-11b2-80e8-c3ecd6e2e5c6\n\
               entryCSN: 20240131120000.000000Z#000000#000#000000\n\
               createTimestamp: 20240131120000Z\nmodifyTimestamp: 20240131120000Z\n\
               creatorsName: cn=x\nmodifiersName: cn=x\nstructuralObjectClass: inetOrgPerson\n";
    let person = "dn: uid=user.1,ou=People,dc=example,dc=com\nobjectClass: top\n\
                  objectClass: person\nobjectClass: organizationalPerson\n\
                  objectClass: inetOrgPerson\ngivenName: a\nsn: b\ncn: c\ninitials: d\n\
                  uid: user.1\nmail: e\ntelephoneNumber: 1\nhomePhone: 2\npager: 3\nmobile: 4\n\
                  employeeNumber: 5\nstreet: f\nl: g\nst: h\npostalCode: 6\npostalAddress: i\n\
                  description: j\nuserPassword: {SSHA512}k\n";
    for (name, text) in [("a person", person.to_owned()), ("exported", format!("{person}{own}"))] {
        let mut record = records(&text).pop().unwrap();
        let mut tally = Tally::default();
        #[allow(clippy::disallowed_methods, reason = "a measurement")]
        let started = Instant::now();
        const TIMES: u32 = 2_000_000;
        for _ in 0..TIMES {
            std::hint::black_box(translator.translate(&mut record, &mut tally));
        }
        println!("{name}: {} ns", started.elapsed().as_nanos() / u128::from(TIMES));
        assert!(tally.rules().next().is_none());
    }
}
