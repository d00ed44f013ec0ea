//! ACIs about entries as a whole, without `targetattr`: what they hide is hidden in every way.

use ldap::ber::Writer;
use ldap::filter::Filter;
use ldap::message::{Control, DerefAliases, ModifyOperation, ModifyRequest, Request, Scope};
use ldap::result::ResultCode;

use super::controls::put;
use super::ways::{effective, read, read_beside, searched, why};
use super::{PEOPLE, SUFFIX, person, with_control};
use crate::counting::{Says, count};
use crate::support::{Answer, Asked, Client, Served, modifications};

/// Everybody reads all but secrets, as in any new directory; below the people there are three and
/// a device.
fn tree() -> Served {
    let served = Served::new();
    let mut root = served.root();
    let add = |root: &mut Client, dn: &str, attributes: &[(&str, &[&str])]| {
        let answer = root.try_add(dn, attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{dn}: {}", answer.diagnostic);
    };
    add(&mut root, PEOPLE, &[("objectClass", &["organizationalUnit"])]);
    for uid in ["anna", "bert", "carla"] {
        let attributes: [(&str, &[&str]); 5] = [
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &[uid]),
            ("sn", &["Tal"]),
            ("description", &["x"]),
            ("userPassword", &["secret"]),
        ];
        add(&mut root, &person(uid), &attributes);
    }
    let device: [(&str, &[&str]); 2] = [("objectClass", &["device"]), ("description", &["x"])];
    add(&mut root, &format!("cn=phone,{}", person("bert")), &device);
    served
}

/// Where and what is searched for: all of it, by an index, by a part of a value, by no index, and
/// by what is computed.
const SEARCHES: [(&str, Scope, &str); 9] = [
    (SUFFIX, Scope::Subtree, "(objectClass=*)"),
    (SUFFIX, Scope::Subtree, "(sn=tal)"),
    (SUFFIX, Scope::Subtree, "(|(sn=t*)(cn=*n*))"),
    (PEOPLE, Scope::Subtree, "(description=x)"),
    (PEOPLE, Scope::Subordinate, "(!(sn=see))"),
    (PEOPLE, Scope::One, "(objectClass=*)"),
    (PEOPLE, Scope::One, "(&(objectClass=inetOrgPerson)(cn=bert))"),
    (PEOPLE, Scope::One, "(hasSubordinates=TRUE)"),
    (PEOPLE, Scope::Base, "(numSubordinates=3)"),
];

/// A search returned what `deny (all)` without `targetattr` hides: its short cut asked whether
/// `objectClass` may be read, which such a deny says nothing about.
#[test]
fn a_deny_without_attributes_hides_an_entry_in_every_way() {
    let served = tree();
    let mut root = served.root();
    let (bert, phone) = (person("bert"), format!("cn=phone,{}", person("bert")));
    let write = concat!(
        r#"(targetattr="description")(version 3.0; acl "write"; allow (write) "#,
        r#"userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SUFFIX, write);
    for rights in ["all", "read", "read,search,compare"] {
        let deny = format!(
            r#"(version 3.0; acl "hide"; deny ({rights}) userdn!="ldap:///{}";)"#,
            person("carla")
        );
        put(&mut root, &bert, &deny);
        let is_known = rights == "read";
        for who in ["anonymous", "anna"] {
            let name = if who == "anna" { person(who) } else { String::new() };
            let what = format!("{rights}, {who}");
            let mut client = served.client();
            if who == "anna" {
                assert_eq!(client.bind(&name, "secret"), ResultCode::Success);
            }
            for (base, scope, filter) in SEARCHES {
                let asked = Asked { base, scope, filter, ..Asked::default() };
                let mut of_root = root.search(&asked);
                of_root.entries.retain(|one| ![&bert, &phone].contains(&&one.dn));
                let mut want: Vec<&str> = match filter {
                    // As many as are seen.
                    "(numSubordinates=3)" | "(hasSubordinates=TRUE)" => Vec::new(),
                    _ => of_root.names(),
                };
                want.sort_unstable();
                for told in searched(&mut client, &asked, ["cn", "description"]) {
                    let what = format!("{what}: {scope:?} {base} {filter}, {}: {told:?}", told.way);
                    assert_eq!(told.code, ResultCode::Success, "{what}");
                    assert!(told.names.is_none_or(|names| names == want), "{what}");
                    assert!(told.count.is_none_or(|count| count == want.len() as u64), "{what}");
                    assert!(told.most.is_none(), "{what}");
                }
            }
            for dn in [&bert, &phone] {
                let asked = Asked { base: dn, scope: Scope::Base, ..Asked::default() };
                for told in searched(&mut client, &asked, ["cn", "description"]) {
                    let code = match is_known {
                        true => ResultCode::Success,
                        false => ResultCode::NoSuchObject,
                    };
                    assert_eq!(told.code, code, "{what}: {told:?}");
                    assert!(told.names.is_none_or(|names| names.is_empty()), "{what}");
                    assert!(told.count.is_none_or(|count| count == 0), "{what}");
                }
                let code = client.compare(dn, "description", "x");
                let want = match is_known {
                    true => ResultCode::CompareTrue,
                    false => ResultCode::NoSuchObject,
                };
                assert_eq!(code, want, "{what}");
                let beside = read_beside(&mut client, dn, ("description", "x"));
                assert!(beside.unwrap().iter().all(|seen| seen.is_empty()), "{what}");
                assert!(!why(&mut root, &name, (dn, "read"), None), "{what}");
                let told = effective(&mut root, &name, dn, "");
                assert!(told.contains("read:0"), "{what}: {told}");
            }
            let seen = read(&mut client, PEOPLE, &["numSubordinates", "hasSubordinates"]).unwrap();
            assert_eq!(seen["numSubordinates"], ["2"], "{what}");
            assert_eq!(seen["hasSubordinates"], ["TRUE"], "{what}");
        }
        let mut carla = served.client();
        assert_eq!(carla.bind(&person("carla"), "secret"), ResultCode::Success);
        assert!(read(&mut carla, &bert, &["1.1"]).is_some(), "{rights}");
        let remove = [(ModifyOperation::Delete, "aci", &[&*deny][..])];
        assert_eq!(root.modify(&bert, &remove), ResultCode::Success);
    }
}

/// What such a deny hides led on all the same: groups to their members, referral objects to other
/// servers, aliases to what they name; and an assertion told what it holds.
#[test]
fn what_a_deny_without_attributes_hides_leads_nowhere() {
    let served = tree();
    let mut root = served.root();
    let (hidden, group) = (format!("ou=hidden,{SUFFIX}"), format!("cn=G,{SUFFIX}"));
    let (inner, away) = (format!("cn=H,{hidden}"), format!("ou=away,{hidden}"));
    let alias = format!("cn=alias,{hidden}");
    let (anna, url) = (person("anna"), "ldap://other.example/dc=other");
    let mut add = |dn: &str, attributes: &[(&str, &[&str])]| {
        let answer = root.try_add(dn, attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{dn}: {}", answer.diagnostic);
    };
    add(&hidden, &[("objectClass", &["organizationalUnit"]), ("description", &["x"])]);
    add(&inner, &[("objectClass", &["groupOfNames"]), ("member", &[&anna])]);
    add(&group, &[("objectClass", &["groupOfNames"]), ("member", &[&inner])]);
    add(&away, &[("objectClass", &["referral", "extensibleObject"]), ("ref", &[url])]);
    let aliased = ("aliasedObjectName", &[&*anna][..]);
    add(&alias, &[("objectClass", &["alias", "extensibleObject"]), ("cn", &["alias"]), aliased]);
    let write = concat!(
        r#"(targetattr="description")(version 3.0; acl "write"; allow (write) "#,
        r#"userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SUFFIX, write);
    let chain = format!("(member:1.2.840.113556.1.4.1941:={anna})");
    // In the chain; references; behind the alias; the assertion holds; below the referral object.
    let told = |client: &mut Client| {
        let names = |answer: &Answer| answer.entries.len();
        let of_chain = names(&client.search(&Asked { filter: &chain, ..Asked::default() }));
        let references = client.search(&Asked::default()).references.len();
        let through = client.search(&Asked {
            base: &hidden,
            deref: DerefAliases::Always,
            filter: "(sn=tal)",
            ..Asked::default()
        });
        let changes = [(ModifyOperation::Replace, "description", &["x"][..])];
        let is_held = ["x", "y"].map(|value| asserted(client, &hidden, &changes, value));
        let below = client.search(&Asked { base: &format!("cn=z,{away}"), ..Asked::default() });
        (of_chain, references, names(&through), is_held, below.code())
    };
    let (held, failed) = (ResultCode::Success, ResultCode::AssertionFailed);
    let open = (2, 1, 1, [held, failed], ResultCode::Referral);
    assert_eq!(told(&mut served.client()), open);
    let hide = r#"(version 3.0; acl "hide"; deny (all) userdn="ldap:///anyone";)"#;
    put(&mut root, &hidden, hide);
    let closed = (0, 0, 0, [failed, failed], ResultCode::NoSuchObject);
    assert_eq!(told(&mut served.client()), closed);
    assert_eq!(told(&mut root), open);
}

/// The answer to a change if `description` has this value (RFC 4528).
fn asserted(
    client: &mut Client,
    name: &str,
    changes: &[(ModifyOperation, &str, &[&str])],
    value: &str,
) -> ResultCode {
    let mut filter = Vec::new();
    let text = format!("(description={value})");
    Filter::parse(&text).unwrap().encode(&mut Writer::new(&mut filter));
    let changes = modifications(changes);
    let request = Request::Modify(ModifyRequest { name, changes: changes.as_ref() });
    let control = Control { oid: "1.3.6.1.1.12", critical: true, value: Some(&filter) };
    with_control(client, request, Some(control)).code()
}

/// A count without a look told of entries elsewhere: candidates come from an index of the whole
/// directory, and only below the base was it asked whether all may be seen.
#[test]
fn a_count_at_the_most_tells_of_no_hidden_entry_elsewhere() {
    let served = tree();
    let mut root = served.root();
    let other = format!("ou=other,{SUFFIX}");
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    assert_eq!(root.add(&other, &unit), ResultCode::Success);
    let told = |client: &mut Client| {
        let says = Says { examine_max: 0, always_examine: false, even_unindexed: false };
        count(client, &other, "(&(sn=tal)(objectClass=*))", says).1
    };
    let mut anonymous = served.client();
    assert_eq!(told(&mut anonymous), "at most 3");
    let hide = r#"(version 3.0; acl "hide"; deny (all) userdn="ldap:///anyone";)"#;
    put(&mut root, &person("bert"), hide);
    assert_eq!(told(&mut anonymous), "unknown 0, unindexed");
    assert_eq!(told(&mut root), "at most 3");
}

/// What was found out in a search of a part of the tree was taken for true of all of it, on the
/// same connection, when the first ACI below both was the same: the second search was not denied.
#[test]
fn a_search_of_a_part_opens_nothing_to_a_search_of_the_whole() {
    let served = tree();
    let mut root = served.root();
    let zone = format!("ou=zone,{SUFFIX}");
    let unit: [(&str, &[&str]); 1] = [("objectClass", &["organizationalUnit"])];
    assert_eq!(root.add(&zone, &unit), ResultCode::Success);
    let own = concat!(
        r#"(targetattr="cn || objectClass")(version 3.0; acl "own"; allow (read,search) "#,
        r#"userdn="ldap:///self";)"#,
    );
    put(&mut root, &format!("cn=phone,{}", person("bert")), own);
    let hide =
        r#"(targetattr="* || +")(version 3.0; acl "hide"; deny (all) userdn="ldap:///anyone";)"#;
    put(&mut root, &zone, hide);
    let mut client = served.client();
    for _ in 0..2 {
        let of_people = client.search(&Asked { base: PEOPLE, ..Asked::default() });
        assert_eq!(of_people.entries.len(), 5);
        let of_all = client.search(&Asked::default());
        assert_eq!(of_all.entries.len(), 6, "{:?}", of_all.names());
    }
}
