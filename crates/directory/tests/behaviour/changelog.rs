//! `cn=changelog`: every change as an entry, to those who may read it, and no more of it than they
//! may see of what was changed.

use std::time::Duration;

use directory::{ArchiveAt, DirectoryOptions};
use history::archive::ArchiveOptions;
use ldap::ber::{Tag, Writer};
use ldap::control_value::purpose::{self, OperationPurpose};
use ldap::message::{Control, ControlsBuf, DeleteRequest, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, Found, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
const CHANGELOG: &str = "cn=changelog";
const PAGED: &str = "1.2.840.113556.1.4.319";
const ANNA: &str = "uid=anna,dc=example,dc=org";

/// All changes that a filter is true of.
fn changes(client: &mut Client, filter: &str) -> Vec<Found> {
    let answer = search(client, filter, &["*", "+"]);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    answer.entries
}

fn search(client: &mut Client, filter: &str, attributes: &[&str]) -> Answer {
    let (base, scope) = (CHANGELOG, Scope::One);
    client.search(&Asked { base, scope, filter, attributes, ..Asked::default() })
}

/// The number of the last change.
fn last(client: &mut Client) -> u64 {
    let attributes = &["lastChangeNumber"][..];
    let root = Asked { base: "", scope: Scope::Base, attributes, ..Asked::default() };
    let answer = client.search(&root);
    answer.entries[0].texts("lastChangeNumber")[0].parse().unwrap()
}

fn one(found: &Found, name: &str) -> String {
    let texts = found.texts(name);
    assert_eq!(texts.len(), 1, "{name} of {found:?}");
    texts[0].clone()
}

#[test]
fn every_change_is_an_entry() {
    let served = Served::new();
    let mut root = served.root();
    let before = last(&mut root);
    let name = "cn=a,dc=example,dc=org";
    assert_eq!(root.add(name, &[("objectClass", &["device"]), ("description", &["x"])]), OK);
    assert_eq!(root.modify(name, &[(ModifyOperation::Replace, "description", &["y", "z"])]), OK);
    assert_eq!(root.rename(name, "cn=b", true, None), OK);
    assert_eq!(
        root.add("ou=under,dc=example,dc=org", &[("objectClass", &["organizationalUnit"])]),
        OK
    );
    let renamed = "cn=b,dc=example,dc=org";
    assert_eq!(root.rename(renamed, "cn=b", false, Some("ou=under,dc=example,dc=org")), OK);
    assert_eq!(root.delete("cn=b,ou=under,dc=example,dc=org"), OK);
    assert_eq!(last(&mut root), before + 6);
    let found = changes(&mut root, &format!("(changeNumber>={})", before + 1));
    let told: Vec<_> =
        found.iter().map(|one_| (one(one_, "changeType"), one(one_, "targetDN"))).collect();
    let expected = [
        ("add", name),
        ("modify", name),
        ("modrdn", name),
        ("add", "ou=under,dc=example,dc=org"),
        ("modrdn", renamed),
        ("delete", "cn=b,ou=under,dc=example,dc=org"),
    ];
    assert_eq!(told, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
    for (number, entry) in (before + 1..).zip(&found) {
        assert_eq!(entry.dn, format!("changeNumber={number},{CHANGELOG}"));
        assert_eq!(one(entry, "changeNumber"), number.to_string());
        assert_eq!(one(entry, "changeTime"), "20260101000000Z");
        assert_eq!(one(entry, "changeInitiatorsName"), "cn=Directory Manager");
        assert_eq!(entry.texts("objectClass"), ["top", "changeLogEntry"]);
        // By its name it is the same.
        let attributes = &["*", "+"][..];
        let asked = Asked { base: &entry.dn, scope: Scope::Base, attributes, ..Asked::default() };
        assert_eq!(root.search(&asked).entries, std::slice::from_ref(entry));
    }
    assert!(one(&found[0], "changes").contains("objectClass: device\n"));
    assert!(one(&found[0], "changes").contains("description: x\n"));
    let modified = one(&found[1], "changes");
    let expected = "delete: description\ndescription: x\n-\nadd: description\ndescription: y\n\
                    description: z\n-\n";
    assert!(modified.contains(expected), "{modified}");
    assert_eq!(
        (one(&found[2], "newRDN"), one(&found[2], "deleteOldRDN")),
        ("cn=b".to_owned(), "TRUE".to_owned())
    );
    assert_eq!(found[2].texts("newSuperior"), [""; 0]);
    assert_eq!(one(&found[4], "newSuperior"), "ou=under,dc=example,dc=org");
    assert!(one(&found[5], "deletedEntryAttrs").contains("description: y\n"));
    let uuid = |entry: &Found| one(entry, "targetEntryUUID");
    assert_eq!(uuid(&found[3]).len(), 36);
    assert_eq!(uuid(&found[5]).len(), 36);
}

#[test]
fn numbers_and_times_are_looked_up_and_not_searched_for() {
    let served = Served::new();
    let mut root = served.root();
    let before = last(&mut root);
    for number in 0..40 {
        served.clock.advance(Duration::from_secs(1));
        let name = format!("cn=device {number},{SUFFIX}");
        assert_eq!(root.add(&name, &[("objectClass", &["device"])]), OK);
    }
    let names = |found: Vec<Found>| -> Vec<String> {
        found.iter().map(|entry| one(entry, "targetDN")).collect()
    };
    let numbers = |from: usize, to: usize| -> Vec<String> {
        (from..to).map(|number| format!("cn=device {number},{SUFFIX}")).collect()
    };
    let (from, to) = (before + 11, before + 20);
    let filter = format!("(&(changeNumber>={from})(changeNumber<={to}))");
    assert_eq!(names(changes(&mut root, &filter)), numbers(10, 20));
    assert_eq!(names(changes(&mut root, &format!("(changeNumber={from})"))), numbers(10, 11));
    assert_eq!(names(changes(&mut root, "(changeTime>=20260101000031Z)")), numbers(30, 40));
    assert_eq!(
        names(changes(&mut root, "(targetDN=cn=Device 7,dc=example,dc=org)")),
        numbers(7, 8)
    );
    assert_eq!(changes(&mut root, "(changeNumber>=9999)"), []);
    let all = search(&mut root, "(changeNumber>=1)", &["changeNumber"]).entries.len() as u64;
    assert!(all >= 40 && all <= before + 40, "{all}");
    // The entry above them is found, too, where it is asked for.
    let asked = Asked { base: CHANGELOG, scope: Scope::Subtree, ..Asked::default() };
    assert_eq!(root.search(&asked).entries.len() as u64, all + 1);
    let asked = Asked { base: CHANGELOG, scope: Scope::Base, attributes: &["*", "+"], ..asked };
    let found = root.search(&asked).entries;
    assert_eq!(one(&found[0], "lastChangeNumber"), (before + 40).to_string());
    assert_eq!(one(&found[0], "createTimestamp"), "20260101000001Z");
    for name in
        ["changeNumber=0", "changeNumber=9999", "cn=x", "changeNumber=7+roster-change-part=9"]
    {
        let base = &*format!("{name},{CHANGELOG}");
        let asked = Asked { base, scope: Scope::Base, ..Asked::default() };
        assert_eq!(root.search(&asked).code(), ResultCode::NoSuchObject, "{name}");
    }
    // Nobody changes it.
    let code = root.add("changeNumber=9999,cn=changelog", &[("objectClass", &["changeLogEntry"])]);
    assert_ne!(code, OK);
    assert_ne!(root.delete(&format!("changeNumber={from},{CHANGELOG}")), OK);
}

#[test]
fn what_one_change_did_to_several_entries_has_one_number() {
    let served = Served::new();
    let mut root = served.root();
    for name in ["anna", "bert"] {
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &[name]), ("sn", &[name])];
        assert_eq!(root.add(&format!("uid={name},{SUFFIX}"), person), OK);
    }
    let members: &[&str] = &["uid=anna,dc=example,dc=org", "uid=bert,dc=example,dc=org"];
    let group: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", members)];
    assert_eq!(root.add(&format!("cn=group,{SUFFIX}"), group), OK);
    assert_eq!(root.delete(ANNA), OK);
    let number = last(&mut root);
    let found = changes(&mut root, &format!("(changeNumber={number})"));
    let told: Vec<_> = found.iter().map(|entry| (&*entry.dn, one(entry, "targetDN"))).collect();
    let second = &*format!("changeNumber={number}+roster-change-part=2,{CHANGELOG}");
    let first = &*format!("changeNumber={number},{CHANGELOG}");
    let group = format!("cn=group,{SUFFIX}");
    assert_eq!(told, [(first, ANNA.to_owned()), (second, group)]);
    assert!(one(&found[1], "changes").starts_with("delete: member\nmember: uid=anna,"));
    let asked = Asked { base: second, scope: Scope::Base, ..Asked::default() };
    assert_eq!(root.search(&asked).names(), [second]);
}

#[test]
fn why_a_change_was_made_is_told_to_who_may_know_who_made_it() {
    let served = with_anna();
    let mut root = served.root();
    let delete = |client: &mut Client, purpose: &str, is_critical: bool| {
        let purpose = Some(purpose);
        let value = OperationPurpose { purpose, ..OperationPurpose::default() }.encode();
        let mut controls = ControlsBuf::new();
        let oid = purpose::OID;
        controls.push(Control { oid, critical: is_critical, value: Some(&value) });
        client.request(Request::Delete(DeleteRequest { name: ANNA }), controls.as_ref())
    };
    for bad in ["x".repeat(1_025), "two\nlines".to_owned()] {
        let answer = delete(&mut root, &bad, false);
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{}", answer.diagnostic);
        assert!(answer.diagnostic.contains("the purpose of a request"), "{}", answer.diagnostic);
    }
    let before = last(&mut root);
    assert_eq!(delete(&mut root, " she has left ", true).code(), OK);
    let number = last(&mut root);
    assert!(number > before);
    let found = changes(&mut root, &format!("(changeNumber={number})"));
    assert_eq!(one(&found[0], "roster-change-purpose"), "she has left");
    // Only where it is asked for.
    let plain = search(&mut root, &format!("(changeNumber={number})"), &["*"]);
    assert!(plain.entries[0].texts("roster-change-purpose").is_empty());
}

#[test]
fn a_deletion_tells_of_the_large_groups_that_it_ended_in() {
    let served = with_anna();
    let mut root = served.root();
    let device = |number: usize| format!("cn=device-with-a-long-name-{number},ou=open,{SUFFIX}");
    let names: Vec<String> = (0..300).map(device).collect();
    for name in &names {
        assert_eq!(root.add(name, &[("objectClass", &["device"])]), OK);
    }
    let members: Vec<&str> = names.iter().map(String::as_str).collect();
    let add = |root: &mut Client, name: &str, members: &[&str]| {
        let group: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", members)];
        assert_eq!(root.add(name, group), OK);
    };
    let groups = ["open", "hidden"].map(|place| format!("cn=many,ou={place},{SUFFIX}"));
    groups.iter().for_each(|group| add(&mut root, group, &members));
    let inner = format!("cn=inner,ou=open,{SUFFIX}");
    add(&mut root, &inner, &[members[0]]);
    assert_eq!(root.modify(&inner, &[(ModifyOperation::Add, "member", &members[1..])]), OK);
    assert_eq!(root.delete(&names[7]), OK);
    let filter = format!("(changeNumber={})", last(&mut root));
    let told = |client: &mut Client| -> Vec<(String, String)> {
        let all = changes(client, &filter);
        all.iter().map(|found| (one(found, "changeType"), one(found, "targetDN"))).collect()
    };
    let (modify, delete) = ("modify".to_owned(), "delete".to_owned());
    let [open, hidden] = groups.clone();
    let expected = [
        (modify.clone(), open.clone()),
        (modify.clone(), hidden),
        (modify.clone(), inner.clone()),
        (delete.clone(), names[7].clone()),
    ];
    assert_eq!(told(&mut root), expected);
    for found in &changes(&mut root, &filter)[..3] {
        let text = one(found, "changes");
        let end = format!("delete: member\nmember: {}\n-\n", names[7]);
        assert!(text.starts_with(&end), "{text}");
        assert!(text.contains("\nadd: entryCSN\n"), "{text}");
    }
    // Of a group that one may not see one learns no more than that there is one, by the numbers
    // of the parts behind it.
    let mut anna = anna(&served, &["changelog-read"]);
    let expected = [(modify.clone(), open), (modify, inner), (delete, names[7].clone())];
    assert_eq!(told(&mut anna), expected);
    // In one step what goes with its groups is not told of twice.
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    let tree = format!("ou=open,{SUFFIX}");
    let request = Request::Delete(DeleteRequest { name: &tree });
    assert_eq!(root.request(request, controls.as_ref()).code(), OK);
    let number = last(&mut root);
    let all = changes(&mut root, &format!("(changeNumber={number})"));
    assert!(all.len() > 100, "{}", all.len());
    for group in &groups {
        let asked = Asked { base: group, scope: Scope::Base, ..Asked::default() };
        assert_eq!(root.search(&asked).entries.len(), usize::from(group.contains("hidden")));
    }
    let filter = "(&(cn=many)(member=*))";
    let attributes = &["member"][..];
    let left = root.search(&Asked { filter, attributes, ..Asked::default() });
    assert_eq!(left.entries.len(), 0, "{left:?}");
}

#[test]
fn pages_lead_through_all_changes() {
    let served = Served::new();
    let mut root = served.root();
    crate::add_devices(&served, 25, "x");
    let all = changes(&mut root, "(changeType=add)");
    for size in [1_u8, 2, 7, 100] {
        let (mut cookie, mut found) = (Vec::new(), Vec::new());
        loop {
            let mut value = Vec::new();
            let mut writer = Writer::new(&mut value);
            let whole = writer.begin(Tag::SEQUENCE);
            writer.octets(Tag::INTEGER, &[size]);
            writer.octets(Tag::OCTET_STRING, &cookie);
            writer.end(whole);
            let controls = &[(PAGED, true, Some(&*value))][..];
            let (base, scope, filter) = (CHANGELOG, Scope::Subtree, "(changeType=add)");
            let attributes = &["*", "+"][..];
            let asked = Asked { base, scope, filter, attributes, controls, ..Asked::default() };
            let answer = root.search(&asked);
            assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
            assert!(answer.entries.len() <= usize::from(size));
            found.extend(answer.entries);
            let (_, value) = &answer.controls[0];
            let mut reader = ldap::ber::Reader::new(value);
            let mut inner = reader.sequence(Tag::SEQUENCE).unwrap();
            inner.octets(Tag::INTEGER).unwrap();
            cookie = inner.octets(Tag::OCTET_STRING).unwrap().to_vec();
            if cookie.is_empty() {
                break;
            }
        }
        assert_eq!(found, all, "{size}");
    }
}

/// Anna may read the change log and all but descriptions and what is below `ou=hidden`.
fn with_anna() -> Served {
    let served = Served::new();
    let mut root = served.root();
    let person: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["anna"]),
        ("userPassword", &["secret"]),
    ];
    assert_eq!(root.add(ANNA, person), OK);
    for name in ["hidden", "open"] {
        let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
        assert_eq!(root.add(&format!("ou={name},{SUFFIX}"), unit), OK);
    }
    let rules: &[&str] = &[
        r#"(targetattr="description")(version 3.0; acl "d"; deny (all) userdn="ldap:///anyone";)"#,
        concat!(
            r#"(target="ldap:///ou=hidden,dc=example,dc=org")(targetattr="* || +")(version 3.0; "#,
            r#"acl "h"; deny (all) userdn="ldap:///anyone";)"#
        ),
        concat!(
            r#"(targetfilter="(l=Nowhere)")(targetattr="* || +")(version 3.0; acl "f"; "#,
            r#"deny (all) userdn="ldap:///anyone";)"#
        ),
    ];
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", rules)]), OK);
    let global: &[&str] = &[concat!(
        r#"(target="ldap:///cn=changelog")(targetattr="* || +")(version 3.0; acl "c"; "#,
        r#"allow (read, search) userdn="ldap:///uid=anna,dc=example,dc=org";)"#
    )];
    let add = (ModifyOperation::Add, "ds-cfg-global-aci", global);
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", &[add]), OK);
    served
}

fn anna(served: &Served, privileges: &[&str]) -> Client {
    let mut root = served.root();
    let given = (ModifyOperation::Replace, "ds-privilege-name", privileges);
    assert_eq!(root.modify(ANNA, &[given]), OK);
    let mut anna = served.client();
    assert_eq!(anna.bind(ANNA, "secret"), OK);
    anna
}

#[test]
fn who_may_not_read_it_learns_nothing_of_it() {
    let served = with_anna();
    for privileges in [&[][..], &["config-read"]] {
        let mut anna = anna(&served, privileges);
        for (base, scope) in [
            (CHANGELOG, Scope::Base),
            (CHANGELOG, Scope::Subtree),
            ("changeNumber=1,cn=changelog", Scope::Base),
            ("cn=x,cn=changelog", Scope::Base),
        ] {
            let answer = anna.search(&Asked { base, scope, ..Asked::default() });
            let nowhere = anna.search(&Asked { base: "cn=nowhere", scope, ..Asked::default() });
            assert_eq!(answer, nowhere, "{base}");
        }
        let attributes = &["changelog", "firstChangeNumber", "lastChangeNumber"][..];
        let root = Asked { base: "", scope: Scope::Base, attributes, ..Asked::default() };
        assert_eq!(anna.search(&root).entries[0].attributes.len(), 0);
    }
}

#[test]
fn no_more_is_told_of_a_change_than_of_the_entry() {
    let served = with_anna();
    let mut root = served.root();
    let device = |place: &str, name: &str| format!("cn={name},ou={place},{SUFFIX}");
    let add = |root: &mut Client, name: &str, l: &str| {
        let device: &[(&str, &[&str])] =
            &[("objectClass", &["device"]), ("description", &["told"]), ("l", &[l])];
        assert_eq!(root.add(name, device), OK);
    };
    let before = last(&mut root);
    add(&mut root, &device("open", "plain"), "Bern");
    add(&mut root, &device("hidden", "never"), "Bern");
    add(&mut root, &device("open", "by filter"), "Nowhere");
    add(&mut root, &device("hidden", "moved"), "Bern");
    add(&mut root, &device("open", "gone"), "Bern");
    add(&mut root, &device("open", "gone by filter"), "Nowhere");
    add(&mut root, &device("hidden", "gone hidden"), "Bern");
    let change = |root: &mut Client, name: &str| {
        let both: &[(ModifyOperation, &str, &[&str])] = &[
            (ModifyOperation::Replace, "description", &["new"]),
            (ModifyOperation::Replace, "serialNumber", &["7"]),
        ];
        assert_eq!(root.modify(name, both), OK);
    };
    for name in [
        device("open", "plain"),
        device("hidden", "never"),
        device("open", "by filter"),
        device("hidden", "moved"),
        device("open", "gone"),
    ] {
        change(&mut root, &name);
    }
    let open = format!("ou=open,{SUFFIX}");
    assert_eq!(root.rename(&device("hidden", "moved"), "cn=moved", false, Some(&open)), OK);
    for name in
        [device("open", "gone"), device("open", "gone by filter"), device("hidden", "gone hidden")]
    {
        assert_eq!(root.delete(&name), OK);
    }
    let filter = format!("(changeNumber>={})", before + 1);
    assert_eq!(changes(&mut root, &filter).len(), 16);
    let mut anna = anna(&served, &["changelog-read"]);
    let found = changes(&mut anna, &filter);
    let told: Vec<_> =
        found.iter().map(|entry| (one(entry, "changeType"), one(entry, "targetDN"))).collect();
    // What was hidden then or is now is not told; of what is gone only its deletion can be judged.
    let expected = [
        ("add", device("open", "plain")),
        ("modify", device("open", "plain")),
        ("delete", device("open", "gone")),
        ("modify", ANNA.to_owned()),
    ];
    assert_eq!(told, expected.map(|(kind, name)| (kind.to_owned(), name)));
    let all = format!("{found:?}");
    let changes_of = |number: usize, name: &str| one(&found[number], name);
    assert!(changes_of(0, "changes").contains("l: Bern\n"));
    assert!(changes_of(1, "changes").contains("add: serialNumber\nserialNumber: 7\n-\n"));
    assert!(changes_of(2, "deletedEntryAttrs").contains("serialNumber: 7\n"));
    for text in
        found.iter().flat_map(|entry| ["changes", "deletedEntryAttrs"].map(|one| entry.texts(one)))
    {
        assert!(!format!("{text:?}").contains("description"), "{text:?}");
    }
    assert!(!all.contains("Nowhere") && !all.contains("hidden"), "{all}");
    // A search by name is no other way to it.
    let secret = found_number(&mut root, &device("hidden", "never"));
    let base = &*format!("changeNumber={secret},{CHANGELOG}");
    let asked = Asked { base, scope: Scope::Base, ..Asked::default() };
    let nowhere = Asked { base: "changeNumber=9999,cn=changelog", ..asked.clone() };
    assert_eq!(anna.search(&asked), anna.search(&nowhere));
}

/// The number of the addition of an entry.
fn found_number(root: &mut Client, name: &str) -> String {
    one(&changes(root, &format!("(&(changeType=add)(targetDN={name}))"))[0], "changeNumber")
}

/// With an archive that is filled at once, and a log that keeps nothing.
fn archived(options: &mut DirectoryOptions) {
    options.journal_segment_bytes = 4 * 4_096;
    options.journal_keep_bytes = 0;
    let archive = ArchiveOptions {
        keep_age: Duration::MAX,
        file_bytes: 100_000,
        block_bytes: 10_000,
        delay: Duration::ZERO,
        ..ArchiveOptions::new(u64::MAX)
    };
    options.archive = Some(ArchiveAt { directory: None, options: archive });
}

#[test]
fn changes_are_read_after_the_log_gave_them_up() {
    let served = Served::with(archived).under(std::sync::Arc::new(environment::SystemClock::new()));
    crate::add_devices(&served, 600, "something to keep");
    let all = changes(&mut served.root(), "(objectClass=*)");
    for _ in 0..3_000 {
        let status = served.directory.archive_status().unwrap();
        if status.last == served.directory.log().applied() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let served = served.under(std::sync::Arc::new(environment::SystemClock::new()));
    let first = served.directory.journal().first();
    assert!(first > 300, "the log has them from {first} on only");
    let mut root = served.root();
    let now = changes(&mut root, "(objectClass=*)");
    assert_eq!(now.len(), all.len());
    assert!(now == all);
    let asked = Asked { base: "", scope: Scope::Base, attributes: &["+"], ..Asked::default() };
    let begin = one(&all[0], "changeNumber");
    assert_eq!(root.search(&asked).entries[0].texts("firstChangeNumber"), [begin]);
    // Those that nobody has any more are said to be gone, by the first number that is there.
    drop(root);
    let (mut options, data) = served.pulled();
    options.archive = None;
    let served = Served::opened(options, data);
    let found = changes(&mut served.root(), "(objectClass=*)");
    assert!(found.len() < 300 && found[..] == all[all.len() - found.len()..]);
}

#[test]
fn limits_hold() {
    let served = with_anna();
    crate::add_devices(&served, 20, "x");
    let mut root = served.root();
    let limits: &[(ModifyOperation, &str, &[&str])] =
        &[(ModifyOperation::Replace, "ds-rlim-size-limit", &["5"])];
    assert_eq!(root.modify(ANNA, limits), OK);
    let mut anna = anna(&served, &["changelog-read"]);
    let (base, scope) = (CHANGELOG, Scope::One);
    for (asked_limit, expected) in [(3, 3), (0, 5)] {
        let asked = Asked { base, scope, size_limit_entries: asked_limit, ..Asked::default() };
        let answer = anna.search(&asked);
        assert_eq!(answer.code(), ResultCode::SizeLimitExceeded);
        assert_eq!(answer.entries.len(), expected);
    }
    let limits: &[(ModifyOperation, &str, &[&str])] =
        &[(ModifyOperation::Replace, "ds-rlim-lookthrough-limit", &["4"])];
    assert_eq!(root.modify(ANNA, limits), OK);
    let answer =
        self::anna(&served, &["changelog-read"]).search(&Asked { base, scope, ..Asked::default() });
    assert_eq!(answer.code(), ResultCode::AdminLimitExceeded);
    let sorted = [("1.2.840.113556.1.4.473", true, Some(&b"\x30\x04\x30\x02\x04\x00"[..]))];
    let answer = root.search(&Asked { base, scope, controls: &sorted, ..Asked::default() });
    assert_ne!(answer.code(), OK);
}

#[test]
fn rules_that_were_deleted_with_what_they_hid_hide_it_still() {
    let served = with_anna();
    let mut root = served.root();
    let before = last(&mut root);
    let rule =
        r#"(targetattr="* || +")(version 3.0; acl "h"; deny (all) userdn="ldap:///anyone";)"#;
    let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"]), ("aci", &[rule])];
    let secret = format!("ou=secret,{SUFFIX}");
    let below = format!("cn=below,{secret}");
    assert_eq!(root.add(&secret, unit), OK);
    assert_eq!(root.add(&below, &[("objectClass", &["device"])]), OK);
    assert_eq!(root.delete(&below), OK);
    assert_eq!(root.delete(&secret), OK);
    let mut anna = anna(&served, &["changelog-read"]);
    let filter = format!("(changeNumber>={})", before + 1);
    let told = |client: &mut Client| {
        let found = changes(client, &filter);
        found.iter().filter(|entry| one(entry, "targetDN").contains("secret")).count()
    };
    assert_eq!((told(&mut anna), told(&mut root)), (0, 4));
    // Nor when another takes its place.
    let unit: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
    assert_eq!(root.add(&secret, unit), OK);
    let found = changes(&mut anna, &filter);
    let of_secret: Vec<_> = found
        .iter()
        .filter(|entry| one(entry, "targetDN").contains("secret"))
        .map(|entry| (one(entry, "changeType"), one(entry, "targetDN")))
        .collect();
    assert_eq!(of_secret, [("add".to_owned(), secret)]);
}

#[test]
fn what_was_hidden_in_a_naming_context_stays_so_when_that_is_renamed_or_gone() {
    let served = with_anna();
    let mut root = served.root();
    let before = last(&mut root);
    let context = |root: &mut Client, operation: ModifyOperation, name: &str| {
        let change = (operation, "roster-naming-context", &[name][..]);
        assert_eq!(root.modify("cn=Naming Contexts,cn=config", &[change]), OK);
    };
    let rule =
        r#"(targetattr="* || +")(version 3.0; acl "h"; deny (all) userdn="ldap:///anyone";)"#;
    context(&mut root, ModifyOperation::Add, "o=veiled");
    let top: &[(&str, &[&str])] = &[("objectClass", &["organization"]), ("aci", &[rule])];
    assert_eq!(root.add("o=veiled", top), OK);
    let name = "cn=gone,o=veiled";
    assert_eq!(root.add(name, &[("objectClass", &["device"])]), OK);
    assert_eq!(root.delete(name), OK);
    let mut anna = anna(&served, &["changelog-read"]);
    let filter = format!("(changeNumber>={})", before + 1);
    let told = |client: &mut Client| {
        let found = changes(client, &filter);
        found.iter().filter(|entry| one(entry, "targetDN").contains("veiled")).count()
    };
    assert_eq!((told(&mut anna), told(&mut root)), (0, 3));
    assert_eq!(root.rename("o=veiled", "o=away", false, Some("")), OK);
    assert_eq!((told(&mut anna), told(&mut root)), (0, 4));
    assert_eq!(root.delete("o=away"), OK);
    context(&mut root, ModifyOperation::Delete, "o=away");
    assert_eq!(told(&mut anna), 0);
}

#[test]
fn what_was_hidden_by_its_place_stays_so_when_another_takes_the_place() {
    let served = with_anna();
    let mut root = served.root();
    let before = last(&mut root);
    let (hidden, open) = (format!("ou=veiled,{SUFFIX}"), format!("ou=plain,{SUFFIX}"));
    let rule =
        r#"(targetattr="* || +")(version 3.0; acl "h"; deny (all) userdn="ldap:///anyone";)"#;
    let unit = ("objectClass", &["organizationalUnit"][..]);
    assert_eq!(root.add(&open, &[unit]), OK);
    assert_eq!(root.add(&hidden, &[unit, ("aci", &[rule])]), OK);
    for name in ["gone", "moved"] {
        assert_eq!(root.add(&format!("cn={name},{hidden}"), &[("objectClass", &["device"])]), OK);
    }
    assert_eq!(root.rename(&format!("cn=moved,{hidden}"), "cn=moved", false, Some(&open)), OK);
    assert_eq!(root.delete(&format!("cn=gone,{hidden}")), OK);
    let mut anna = anna(&served, &["changelog-read"]);
    let filter = format!("(changeNumber>={})", before + 1);
    let told = |client: &mut Client| -> Vec<String> {
        let of_veiled = |entry: &Found| {
            let name = one(entry, "targetDN");
            name.contains("ou=veiled").then_some(name)
        };
        changes(client, &filter).iter().filter_map(of_veiled).collect()
    };
    assert!(told(&mut anna).is_empty(), "{:?}", told(&mut anna));
    assert_eq!(root.rename(&hidden, "ou=away", true, None), OK);
    assert_eq!(root.rename(&open, "ou=veiled", true, None), OK);
    // What may be seen now is told by the name that it has now, which it had before by chance.
    let moved = format!("cn=moved,{hidden}");
    let now = told(&mut anna);
    assert!(now.iter().all(|name| *name == hidden || *name == moved), "{now:?}");
}
