//! Cookies of the external change log: who comes back with one reads on behind the change that it
//! tells, on any server of the directory, or learns that he cannot.

use std::time::Duration;

use ldap::ber::{Reader, Tag};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::cluster::Cluster;
use crate::support::{Answer, Asked, Client, Found, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
const CHANGELOG: &str = "cn=changelog";
const COOKIE: &str = "1.3.6.1.4.1.26027.1.5.4";

fn ask(client: &mut Client, filter: &str, value: Option<&[u8]>) -> Answer {
    let controls = &[(COOKIE, true, value)][..];
    let (base, attributes) = (CHANGELOG, &["*", "+"][..]);
    client.search(&Asked { base, filter, attributes, controls, ..Asked::default() })
}

/// The changes behind a cookie.
fn behind(client: &mut Client, cookie: &str) -> Vec<Found> {
    let answer = ask(client, "(objectClass=changeLogEntry)", Some(cookie.as_bytes()));
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!(beside(&answer), answer.entries.iter().map(self::cookie).collect::<Vec<_>>());
    answer.entries
}

fn one(found: &Found, name: &str) -> String {
    let texts = found.texts(name);
    assert_eq!(texts.len(), 1, "{name} of {found:?}");
    texts[0].clone()
}

/// The cookie of a change.
fn cookie(found: &Found) -> String {
    one(found, "changeLogCookie")
}

/// The cookies that came beside the entries.
fn beside(answer: &Answer) -> Vec<String> {
    let cookies = answer.controls.iter().filter(|(oid, _)| oid == COOKIE);
    let cookie = |value: &Vec<u8>| {
        let mut reader = Reader::new(value);
        let mut inner = reader.sequence(Tag::SEQUENCE).unwrap();
        inner.string(Tag::OCTET_STRING).unwrap().to_owned()
    };
    cookies.map(|(_, value)| cookie(value)).collect()
}

fn newest(client: &mut Client) -> String {
    let (scope, attributes) = (Scope::Base, &["lastExternalChangelogCookie"][..]);
    let answer = client.search(&Asked { base: "", scope, attributes, ..Asked::default() });
    one(&answer.entries[0], "lastExternalChangelogCookie")
}

fn names(found: &[Found]) -> Vec<String> {
    found.iter().map(|entry| one(entry, "targetDN")).collect()
}

fn device(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

fn add(root: &mut Client, name: &str) {
    assert_eq!(root.add(&device(name), &[("objectClass", &["device"])]), OK);
}

#[test]
fn reading_goes_on_behind_the_change_that_a_cookie_tells() {
    let served = Served::new();
    let mut root = served.root();
    ["a", "b", "c"].into_iter().for_each(|name| add(&mut root, name));
    let all = behind(&mut root, "");
    let expected = ["a", "b", "c"].map(device);
    assert_eq!(names(&all)[all.len() - 3..], expected);
    // Without a value, and within an OCTET STRING, it is the same.
    for value in [None, Some(&b"\x04\x00"[..])] {
        assert_eq!(ask(&mut root, "(objectClass=changeLogEntry)", value).entries, all);
    }
    let [a, b, c] = &all[all.len() - 3..] else { panic!() };
    assert_eq!(names(&behind(&mut root, &cookie(a))), expected[1..]);
    let mut enclosed = vec![4, 0x81, cookie(b).len() as u8];
    enclosed.extend_from_slice(cookie(b).as_bytes());
    let answer = ask(&mut root, "(objectClass=changeLogEntry)", Some(&enclosed));
    assert_eq!(names(&answer.entries), expected[2..]);
    assert_eq!(behind(&mut root, &cookie(c)), []);
    assert_eq!(newest(&mut root), cookie(c));
    add(&mut root, "d");
    let after = behind(&mut root, &cookie(c));
    assert_eq!(names(&after), [device("d")]);
    assert_eq!(newest(&mut root), cookie(&after[0]));
    // Also after a restart.
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    assert_eq!(names(&behind(&mut root, &cookie(c))), [device("d")]);
    assert_eq!(behind(&mut root, ""), [&all[..], &after[..]].concat());
}

#[test]
fn a_change_is_called_by_its_csn_below_its_naming_context() {
    let served = Served::new();
    let mut root = served.root();
    for name in ["anna", "bert"] {
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &[name]), ("sn", &[name])];
        assert_eq!(root.add(&format!("uid={name},{SUFFIX}"), person), OK);
    }
    let members: &[&str] = &["uid=anna,dc=example,dc=org", "uid=bert,dc=example,dc=org"];
    let group: &[(&str, &[&str])] = &[("objectClass", &["groupOfNames"]), ("member", members)];
    assert_eq!(root.add(&device("group"), group), OK);
    let before = newest(&mut root);
    // Two entries change in one record, and who read one part goes on with the other.
    assert_eq!(root.delete("uid=anna,dc=example,dc=org"), OK);
    let found = behind(&mut root, &before);
    assert_eq!(names(&found), ["uid=anna,dc=example,dc=org".to_owned(), device("group")]);
    let csn = one(&found[0], "replicationCSN");
    let below = format!("{SUFFIX},{CHANGELOG}");
    assert_eq!(found[0].dn, format!("replicationCSN={csn},{below}"));
    assert_eq!(found[1].dn, format!("replicationCSN={csn}+roster-change-part=2,{below}"));
    assert_eq!(behind(&mut root, &cookie(&found[0])), found[1..]);
    assert_eq!(behind(&mut root, &cookie(&found[1])), []);
    for entry in &found {
        // There is no number in this mode.
        assert_eq!(entry.texts("changeNumber"), [""; 0]);
        let (scope, attributes) = (Scope::Base, &["*", "+"][..]);
        let asked = Asked { base: &entry.dn, scope, attributes, ..Asked::default() };
        let by_name = root.search(&asked);
        assert_eq!(by_name.entries[0].attributes, entry.attributes, "{}", entry.dn);
    }
    for name in [
        format!("replicationCSN={csn},dc=other,{CHANGELOG}"),
        format!("replicationCSN={csn}+roster-change-part=3,{below}"),
        format!("replicationCSN={},{below}", csn.replace("2026", "2027")),
    ] {
        let asked = Asked { base: &name, scope: Scope::Base, ..Asked::default() };
        assert_eq!(root.search(&asked).code(), ResultCode::NoSuchObject, "{name}");
    }
    // By its number a change tells the cookie, too.
    let attributes = &["changeLogCookie"][..];
    let asked = Asked { base: CHANGELOG, attributes, ..Asked::default() };
    let mut answer = root.search(&asked);
    assert_eq!(answer.controls, []);
    let last = answer.entries.pop().unwrap();
    assert!(last.dn.starts_with("changeNumber="), "{}", last.dn);
    assert_eq!(one(&last, "changeLogCookie"), cookie(&found[1]));
}

#[test]
fn a_cookie_of_another_history_is_refused() {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, "a");
    // The same data with another change in its place.
    let (options, data) = {
        drop(root);
        served.pulled()
    };
    let other = tempfile::tempdir().unwrap();
    crate::support::cluster::copy(data.path(), other.path());
    let mut other_options = options.clone();
    other_options.data = other.path().join("data");
    let other = Served::opened(other_options, std::sync::Arc::new(other));
    add(&mut other.root(), "elsewhere");
    let (foreign, ahead) = {
        let foreign = newest(&mut other.root());
        add(&mut other.root(), "and another");
        (foreign, newest(&mut other.root()))
    };
    let served = Served::opened(options, data);
    let mut root = served.root();
    let shared = newest(&mut root);
    assert_eq!(behind(&mut root, &shared), []);
    add(&mut root, "b");
    // What both have leads on in both.
    assert_eq!(names(&behind(&mut root, &shared)), [device("b")]);
    assert_eq!(behind(&mut other.root(), &shared).len(), 2);
    for (cookie, why) in [
        (&*foreign, "is of another history of these data; begin again with an empty cookie"),
        (&*ahead, "older data were restored, or this server is behind another"),
        ("dc=example,dc=com:0000013245;", "the cookie is none of this directory"),
        (&*foreign.replace('a', "b"), "the cookie is none of this directory"),
    ] {
        let answer = ask(&mut root, "(objectClass=*)", Some(cookie.as_bytes()));
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{cookie}");
        assert!(answer.diagnostic.contains(why), "{cookie}: {}", answer.diagnostic);
        assert_eq!(answer.entries, []);
    }
    for value in [&b"\xff\xfe"[..], &[b'a'; 5_000]] {
        let answer = ask(&mut root, "(objectClass=*)", Some(value));
        assert_eq!(answer.code(), ResultCode::ProtocolError);
    }
}

#[test]
fn a_cookie_is_good_on_every_member() {
    let cluster = Cluster::new();
    let (mut leader, mut follower) = (cluster.leader().root(), cluster.follower().root());
    add(&mut leader, "a");
    let from = newest(&mut leader);
    ["b", "c"].into_iter().for_each(|name| add(&mut leader, name));
    let last = newest(&mut leader);
    // The follower comes to the same place, which has the same cookie.
    for _ in 0..6_000 {
        if newest(&mut follower) == last {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(newest(&mut follower), last);
    let expected = behind(&mut leader, &from);
    assert_eq!(names(&expected), ["b", "c"].map(device));
    assert_eq!(behind(&mut follower, &from), expected);
}

#[test]
fn pages_lead_on_behind_a_cookie() {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, "before");
    let from = newest(&mut root);
    crate::add_devices(&served, 25, "x");
    let all = behind(&mut root, &from);
    assert_eq!(all.len(), 25);
    let changes = "(objectClass=changeLogEntry)";
    // A first page may hold the base alone.
    for (size, filter) in [(1_u8, changes), (7, changes), (25, changes), (1, "(objectClass=*)")] {
        let (mut page, mut found) = (Vec::new(), Vec::new());
        loop {
            let mut value = Vec::new();
            let mut writer = ldap::ber::Writer::new(&mut value);
            let whole = writer.begin(Tag::SEQUENCE);
            writer.octets(Tag::INTEGER, &[size]);
            writer.octets(Tag::OCTET_STRING, &page);
            writer.end(whole);
            let paged = ("1.2.840.113556.1.4.319", true, Some(&*value));
            let controls = &[paged, (COOKIE, true, Some(from.as_bytes()))][..];
            let (base, attributes) = (CHANGELOG, &["*", "+"][..]);
            let asked = Asked { base, filter, attributes, controls, ..Asked::default() };
            let answer = root.search(&asked);
            assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
            found.extend(answer.entries);
            let mut reader = Reader::new(&answer.controls.last().unwrap().1);
            let mut inner = reader.sequence(Tag::SEQUENCE).unwrap();
            inner.octets(Tag::INTEGER).unwrap();
            page = inner.octets(Tag::OCTET_STRING).unwrap().to_vec();
            if page.is_empty() {
                break;
            }
        }
        found.retain(|entry: &Found| entry.dn != CHANGELOG);
        assert_eq!(found, all, "{size} {filter}");
    }
}

#[test]
fn what_is_not_done_for_changes_is_refused_if_it_is_critical() {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, "a");
    let deref = b"\x30\x10\x30\x0e\x04\x06member\x30\x04\x04\x02cn";
    let count = b"\x30\x00";
    for (oid, value) in [
        ("1.3.6.1.4.1.4203.666.5.16", Some(&deref[..])),
        ("1.3.6.1.4.1.30221.2.5.36", Some(&count[..])),
        ("2.16.840.1.113730.3.4.17", None),
        ("1.3.6.1.4.1.42.2.27.9.5.8", None),
        ("1.3.6.1.4.1.42.2.27.9.5.2", None),
    ] {
        let search = |root: &mut Client, critical| {
            let controls = &[(oid, critical, value)][..];
            root.search(&Asked { base: CHANGELOG, controls, ..Asked::default() })
        };
        let refused = search(&mut root, true);
        assert_eq!(refused.code(), ResultCode::UnavailableCriticalExtension, "{oid}");
        assert!(refused.diagnostic.contains(oid), "{}", refused.diagnostic);
        assert_eq!(search(&mut root, false).code(), OK, "{oid}");
    }
    // The cookie itself leads through changes only.
    for (base, critical, code) in [
        (SUFFIX, true, ResultCode::UnavailableCriticalExtension),
        (SUFFIX, false, OK),
        ("cn=config", true, ResultCode::UnavailableCriticalExtension),
    ] {
        let controls = &[(COOKIE, critical, None)][..];
        let answer = root.search(&Asked { base, controls, ..Asked::default() });
        assert_eq!(answer.code(), code, "{base}");
        assert_eq!(answer.controls, []);
    }
    // Nobody but the server writes there.
    let number = "changeNumber=1,cn=changelog";
    let unwilling = ResultCode::UnwillingToPerform;
    let answer = root.try_add("changeNumber=9999,cn=changelog", &[("objectClass", &["device"])]);
    assert_eq!(answer.code(), unwilling);
    assert!(answer.diagnostic.contains("and cn=changelog are maintained by the server"));
    assert_eq!(root.delete(number), unwilling);
    assert_eq!(root.modify(number, &[(ModifyOperation::Add, "cn", &["x"])]), unwilling);
    assert_eq!(root.rename(number, "changeNumber=2", true, None), unwilling);
    assert_eq!(root.rename(&device("a"), "cn=a", true, Some(CHANGELOG)), unwilling);
}

#[test]
fn changes_of_schema_and_settings_are_told_to_those_who_may_read_them() {
    let served = Served::new();
    let mut root = served.root();
    let before = newest(&mut root);
    let colour = "( 1.3.6.1.4.1.99999.1 NAME 'badgeColour' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    assert_eq!(
        root.modify("cn=schema", &[(ModifyOperation::Add, "attributeTypes", &[colour])]),
        OK
    );
    served.clock.advance(Duration::from_secs(1));
    let found = behind(&mut root, &before);
    assert_eq!(names(&found), ["cn=schema"]);
    assert_eq!(one(&found[0], "changeType"), "modify");
    assert!(found[0].dn.ends_with(",cn=schema,cn=changelog"), "{}", found[0].dn);
    let changes = one(&found[0], "changes").replace("\n ", "");
    assert!(changes.starts_with("add: attributeTypes\nattributeTypes: ( 1.3.6.1.4.1.99999.1"));
    // By the name that has it.
    let asked = Asked { base: &found[0].dn, scope: Scope::Base, ..Asked::default() };
    assert_eq!(root.search(&asked).names(), [&*found[0].dn]);
    // Who may read changes, but not the schema, learns nothing of it.
    let person: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["anna"]),
        ("userPassword", &["secret"]),
        ("ds-privilege-name", &["changelog-read"]),
    ];
    let name = "uid=anna,dc=example,dc=org";
    assert_eq!(root.add(name, person), OK);
    let rules: &[&str] = &[
        concat!(
            r#"(target="ldap:///cn=changelog")(targetattr="* || +")(version 3.0; acl "c"; "#,
            r#"allow (read, search) userdn="ldap:///uid=anna,dc=example,dc=org";)"#
        ),
        concat!(
            r#"(target="ldap:///cn=schema")(targetattr="attributeTypes")(version 3.0; acl "s"; "#,
            r#"deny (read) userdn="ldap:///uid=anna,dc=example,dc=org";)"#
        ),
    ];
    let handler = "cn=Access Control Handler,cn=config";
    for (rules, is_told) in [(&rules[..1], true), (rules, false)] {
        let replace = (ModifyOperation::Add, "ds-cfg-global-aci", &rules[rules.len() - 1..]);
        assert_eq!(root.modify(handler, &[replace]), OK);
        let mut anna = served.client();
        assert_eq!(anna.bind(name, "secret"), OK);
        let told = names(&behind(&mut anna, &before));
        assert_eq!(told.contains(&"cn=schema".to_owned()), is_told, "{told:?}");
        // Settings are for those who may read the configuration.
        assert!(!told.contains(&handler.to_owned()), "{told:?}");
    }
    let found = behind(&mut root, &before);
    let of_setting = found.iter().filter(|found| one(found, "targetDN") == handler);
    let told: Vec<String> = of_setting.map(|found| one(found, "changes")).collect();
    assert_eq!(told.len(), 2);
    assert!(told[1].starts_with("add: ds-cfg-global-aci\nds-cfg-global-aci: "), "{}", told[1]);
    assert!(told[1].replace("\n ", "").contains(rules[1]), "{}", told[1]);
    let privileges = ["changelog-read", "config-read"];
    let replace = (ModifyOperation::Replace, "ds-privilege-name", &privileges[..]);
    assert_eq!(root.modify(name, &[replace]), OK);
    let config = concat!(
        r#"(target="ldap:///cn=config")(targetattr="* || +")(version 3.0; acl "r"; "#,
        r#"allow (read, search) userdn="ldap:///uid=anna,dc=example,dc=org";)"#
    );
    let add = (ModifyOperation::Add, "ds-cfg-global-aci", &[config][..]);
    assert_eq!(root.modify(handler, &[add]), OK);
    let mut anna = served.client();
    assert_eq!(anna.bind(name, "secret"), OK);
    let told = names(&behind(&mut anna, &before));
    assert_eq!(told.iter().filter(|told| *told == handler).count(), 3, "{told:?}");
}

#[test]
fn a_cookie_gives_no_right_and_tells_nothing_to_who_has_none() {
    let served = Served::new();
    let mut root = served.root();
    add(&mut root, "a");
    let good = newest(&mut root);
    let person: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["anna"]),
        ("userPassword", &["secret"]),
    ];
    let name = "uid=anna,dc=example,dc=org";
    assert_eq!(root.add(name, person), OK);
    let altered = |at: usize| {
        let other = if good.as_bytes()[at] == b'0' { "1" } else { "0" };
        format!("{}{other}{}", &good[..at], &good[at + 1..])
    };
    let mut bad = vec![good.repeat(2), format!("{good}{}", "0".repeat(3_000))];
    bad.extend([format!(" {good}"), format!("{good};"), "0".repeat(good.len())]);
    bad.extend((0..good.len()).step_by(11).map(altered));
    bad.extend((1..good.len()).step_by(11).map(|length| good[..length].to_owned()));
    bad.push("dc=example,dc=org:0000013245;".repeat(100));
    for cookie in &bad {
        let answer = ask(&mut root, "(objectClass=*)", Some(cookie.as_bytes()));
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{cookie}");
        assert!(answer.diagnostic.contains("none of this directory"), "{}", answer.diagnostic);
        assert_eq!(answer.entries, []);
    }
    let mut anna = served.client();
    assert_eq!(anna.bind(name, "secret"), OK);
    for client in [&mut anna, &mut served.client()] {
        let mut told = |cookie: &str| {
            let answer = ask(client, "(objectClass=*)", Some(cookie.as_bytes()));
            (answer.code(), answer.diagnostic.clone(), answer.entries, answer.controls)
        };
        let expected = told(&good);
        assert_ne!(expected.0, OK);
        assert!(expected.2.is_empty() && expected.3.is_empty());
        for cookie in bad.iter().map(String::as_str).chain([""]) {
            assert_eq!(told(cookie), expected, "{cookie}");
        }
    }
    // Of any size, before it is looked at.
    for length in [4_097, 1 << 20] {
        let answer = ask(&mut root, "(objectClass=*)", Some(&vec![b'0'; length]));
        assert_eq!(answer.code(), ResultCode::ProtocolError, "{length}");
    }
}
