//! The dereference control: with a group come attributes of its members.

use ldap::ber::{Reader, Tag, Writer};
use ldap::control_value::dereference::OID;
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;

/// The value of a request: attributes, and what is wanted of what they name.
fn request(asked: &[(&str, &[&str])]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    for (attribute, wanted) in asked {
        let one = writer.begin(Tag::SEQUENCE);
        writer.octets(Tag::OCTET_STRING, attribute.as_bytes());
        let list = writer.begin(Tag::SEQUENCE);
        wanted.iter().for_each(|name| writer.octets(Tag::OCTET_STRING, name.as_bytes()));
        writer.end(list);
        writer.end(one);
    }
    writer.end(whole);
    value
}

/// What a response tells, a line for each value that was followed.
fn told(value: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(value);
    let mut list = reader.sequence(Tag::SEQUENCE).unwrap();
    reader.end().unwrap();
    let mut lines = Vec::new();
    while list.peek_tag().is_some() {
        let mut one = list.sequence(Tag::SEQUENCE).unwrap();
        let attribute = one.string(Tag::OCTET_STRING).unwrap();
        let name = one.string(Tag::OCTET_STRING).unwrap();
        let mut line = format!("{attribute}: {name}");
        if one.peek_tag().is_some() {
            let mut attributes = one.sequence(Tag::context(0, true)).unwrap();
            while attributes.peek_tag().is_some() {
                let mut attribute = attributes.sequence(Tag::SEQUENCE).unwrap();
                line += &format!(" {}=", attribute.string(Tag::OCTET_STRING).unwrap());
                let mut values = attribute.sequence(Tag::SET).unwrap();
                while values.peek_tag().is_some() {
                    line += values.string(Tag::OCTET_STRING).unwrap();
                }
            }
        }
        one.end().unwrap();
        lines.push(line);
    }
    lines
}

fn search(client: &mut Client, base: &str, asked: &[(&str, &[&str])]) -> Answer {
    search_with(client, base, asked, true)
}

fn search_with(
    client: &mut Client,
    base: &str,
    asked: &[(&str, &[&str])],
    critical: bool,
) -> Answer {
    let value = request(asked);
    let controls = &[(OID, critical, Some(&*value))][..];
    let attributes = &["cn"][..];
    let asked = Asked { base, scope: Scope::Base, attributes, controls, ..Asked::default() };
    client.search(&asked)
}

#[track_caller]
fn followed(client: &mut Client, base: &str, asked: &[(&str, &[&str])]) -> Vec<String> {
    let answer = search(client, base, asked);
    assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
    assert_eq!(answer.entries.len(), 1);
    answer
        .controls
        .iter()
        .flat_map(|(oid, value)| {
            assert_eq!(oid, OID);
            told(value)
        })
        .collect()
}

fn name(uid: &str) -> String {
    format!("uid={uid},{SUFFIX}")
}

const GROUP: &str = "cn=group,dc=example,dc=org";

fn served() -> Served {
    let served = Served::new();
    let mut root = served.root();
    for uid in ["a", "b"] {
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &[uid]),
            ("sn", &["x"]),
            ("mail", &["one@example.org"]),
            ("userPassword", &["secret"]),
        ];
        assert_eq!(root.add(&name(uid), person), OK);
    }
    let members: Vec<String> = ["a", "b", "nobody"].map(name).into();
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let group: &[(&str, &[&str])] =
        &[("objectClass", &["groupOfNames"]), ("member", &members), ("owner", &[&name("b")])];
    assert_eq!(root.add(GROUP, group), OK);
    served
}

#[test]
fn members_come_with_their_group() {
    let served = served();
    let mut root = served.root();
    let (a, b, nobody) = (name("a"), name("b"), name("nobody"));
    let asked: &[(&str, &[&str])] = &[("member", &["uid", "mail", "title"]), ("OWNER", &["cn"])];
    let want = [
        format!("member: {a} uid=a mail=one@example.org"),
        format!("member: {b} uid=b mail=one@example.org"),
        format!("member: {nobody}"),
        format!("owner: {b} cn=b"),
    ];
    let mut found = followed(&mut root, GROUP, asked);
    // Attributes come in the order of the entry.
    for line in &mut found {
        *line = line.replace(" mail=one@example.org uid=a", " uid=a mail=one@example.org");
        *line = line.replace(" mail=one@example.org uid=b", " uid=b mail=one@example.org");
    }
    assert_eq!(found, want);
    // What is computed is followed, and told.
    let memberships = followed(&mut root, &a, &[("isMemberOf", &["cn", "hasSubordinates"])]);
    assert_eq!(memberships, [format!("isMemberOf: {GROUP} cn=group hasSubordinates=FALSE")]);
    // What is not there, or not known, is followed nowhere.
    assert_eq!(followed(&mut root, &a, &[("member", &["cn"]), ("nothing", &["cn"])]), [""; 0]);
    // With many entries each has its own.
    let value = request(&[("member", &["cn"]), ("owner", &["1.1"])]);
    let controls = &[(OID, false, Some(&*value))][..];
    let answer = root.search(&Asked { controls, ..Asked::default() });
    assert_eq!((answer.code(), answer.controls.len()), (OK, 1));
    assert_eq!(told(&answer.controls[0].1)[3], format!("owner: {b}"));
}

#[test]
fn what_cannot_be_followed_is_refused() {
    let served = served();
    let mut root = served.root();
    for (asked, why) in [
        (&[("cn", &["cn"][..])][..], "'cn' name no entries"),
        (&[], "not a list"),
        (&[("member", &["cn"][..]), ("MEMBER", &["sn"])], "names an attribute twice"),
    ] {
        let answer = search(&mut root, GROUP, asked);
        assert_eq!(answer.code(), ResultCode::ProtocolError);
        assert!(answer.diagnostic.contains(why), "{}", answer.diagnostic);
    }
}

#[test]
fn nothing_is_told_that_may_not_be_read() {
    const SEES: &str = concat!(
        r#"(targetattr="cn || member || owner || mail")"#,
        r#"(version 3.0; acl "sees"; allow (read,search) userdn="ldap:///all";)"#,
    );
    const HIDES: &str =
        r#"(targetattr="*")(version 3.0; acl "hides"; deny (all) userdn="ldap:///all";)"#;
    const NO_OWNERS: &str =
        r#"(targetattr="owner")(version 3.0; acl "owners"; deny (all) userdn="ldap:///all";)"#;
    let served = served();
    let mut root = served.root();
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[SEES])]), OK);
    assert_eq!(root.modify(&name("b"), &[(ModifyOperation::Add, "aci", &[HIDES])]), OK);
    assert_eq!(root.modify(GROUP, &[(ModifyOperation::Add, "aci", &[NO_OWNERS])]), OK);
    let mut reader = served.client();
    assert_eq!(reader.bind(&name("a"), "secret"), OK);
    let asked: &[(&str, &[&str])] =
        &[("member", &["cn", "sn", "userPassword"]), ("owner", &["cn"])];
    let want = [
        format!("member: {} cn=a sn=x", name("a")),
        format!("member: {}", name("b")),
        format!("member: {}", name("nobody")),
    ];
    assert_eq!(followed(&mut reader, GROUP, asked), want);
}

#[test]
fn of_very_many_a_part_is_followed() {
    let served = served();
    let mut root = served.root();
    let names: Vec<String> = (0..5_001).map(|number| name(&format!("x{number}"))).collect();
    let values: Vec<&str> = names.iter().map(String::as_str).collect();
    let group = format!("cn=many,{SUFFIX}");
    let added = &[("objectClass", &["groupOfNames"][..]), ("member", &values[..5_000])];
    assert_eq!(root.add(&group, added), OK);
    assert_eq!(followed(&mut root, &group, &[("member", &["cn"])]).len(), 5_000);
    assert_eq!(root.modify(&group, &[(ModifyOperation::Add, "member", &values[5_000..])]), OK);
    // SSSD took the code of a limit for the end of the members, and showed a group without any.
    for (critical, code) in
        [(true, ResultCode::UnavailableCriticalExtension), (false, ResultCode::AdminLimitExceeded)]
    {
        let answer = search_with(&mut root, &group, &[("member", &["cn"])], critical);
        assert_eq!(answer.code(), code);
        assert!(answer.entries.is_empty());
        assert!(answer.diagnostic.contains("range=0-999"), "{}", answer.diagnostic);
    }
    let part = followed(&mut root, &group, &[("member;range=0-999", &["cn"])]);
    assert!(part.len() == 1_000 && part[0].starts_with("member;range=0-999: uid=x"), "{}", part[0]);
}

/// Names of entries that there are, so many that they are kept by number.
#[test]
fn of_lists_that_may_not_be_read_not_even_the_length_is_told() {
    const HIDES: &str = concat!(
        r#"(targetattr="member")(version 3.0; acl "hides"; deny (all) "#,
        r#"userdn="ldap:///all";)"#,
    );
    let served = served();
    let mut root = served.root();
    let many: Vec<String> = (0..6_100).map(|number| name(&format!("x{number}"))).collect();
    for name in &many {
        let device = [("objectClass", &["account"][..])];
        assert_eq!(root.add(name, &device), OK);
    }
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (full, fan) = (format!("cn=full,{SUFFIX}"), format!("cn=fan,{SUFFIX}"));
    let class = ("objectClass", &["groupOfNames"][..]);
    assert_eq!(root.add(&full, &[class, ("member", &many)]), OK);
    assert_eq!(root.add(&fan, &[class, ("seeAlso", &[&full])]), OK);
    let mut reader = served.client();
    assert_eq!(reader.bind(&name("a"), "secret"), OK);
    let own: &[(&str, &[&str])] = &[("member", &["cn"])];
    let other: &[(&str, &[&str])] = &[("seeAlso", &["cn", "member"])];
    for asked in [(&full, own), (&fan, other)] {
        let answer = search(&mut reader, asked.0, asked.1);
        let code = ResultCode::UnavailableCriticalExtension;
        assert_eq!(answer.code(), code, "{}", answer.diagnostic);
    }
    assert_eq!(root.modify(&full, &[(ModifyOperation::Add, "aci", &[HIDES])]), OK);
    assert_eq!(followed(&mut reader, &full, own), [""; 0]);
    assert_eq!(followed(&mut reader, &fan, other), [format!("seeAlso: {full} cn=full")]);
}

#[test]
fn a_referral_is_not_followed() {
    let served = served();
    let mut root = served.root();
    let referral = format!("cn=elsewhere,{SUFFIX}");
    let object: &[(&str, &[&str])] = &[
        ("objectClass", &["referral", "extensibleObject"]),
        ("ref", &["ldap://other.example.org/cn=elsewhere"]),
    ];
    assert_eq!(root.add(&referral, object), OK);
    assert_eq!(root.modify(GROUP, &[(ModifyOperation::Add, "seeAlso", &[&referral])]), OK);
    let told = followed(&mut root, GROUP, &[("seeAlso", &["cn", "ref"])]);
    assert_eq!(told, [format!("seeAlso: {referral}")]);
}
