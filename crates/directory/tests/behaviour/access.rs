//! ACIs at work: where they are kept, when they are in force, what privileges and groups do.

use environment::Clock as _;
use ldap::message::{Control, ControlsBuf, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served, add_attributes, modifications};

pub(crate) const ACCESS_CONFIG: &str = "cn=Access Control Handler,cn=config";
const ANNA: &str = "uid=anna,dc=example,dc=org";
const BERT: &str = "uid=bert,dc=example,dc=org";

/// Anna and bert, each with a password.
fn served() -> Served {
    let served = Served::new();
    let mut root = served.root();
    for (name, uid) in [(ANNA, "anna"), (BERT, "bert")] {
        add_person(&mut root, name, uid, &[]);
    }
    served
}

fn add_person(root: &mut Client, name: &str, uid: &str, more: &[(&str, &[&str])]) {
    let uid = [uid];
    let mut all: Vec<(&str, &[&str])> = vec![
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &uid),
        ("sn", &["Berg"]),
        ("telephoneNumber", &["+49 1"]),
        ("userPassword", &["secret"]),
    ];
    all.extend_from_slice(more);
    let answer = root.try_add(name, &all);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

fn bound(served: &Served, name: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(name, "secret"), ResultCode::Success);
    client
}

#[track_caller]
fn put(root: &mut Client, holder: &str, aci: &str) {
    let attribute = if holder == ACCESS_CONFIG { "ds-cfg-global-aci" } else { "aci" };
    let answer = root.try_modify(holder, &[(ModifyOperation::Add, attribute, &[aci])]);
    assert_eq!(answer.code(), ResultCode::Success, "{aci}: {}", answer.diagnostic);
}

fn phones(client: &mut Client) -> usize {
    let attributes: &[&str] = &["telephoneNumber"];
    let answer = client.search(&Asked { attributes, ..Asked::default() });
    answer.entries.iter().filter(|entry| !entry.texts("telephoneNumber").is_empty()).count()
}

const DENY_PHONES: &str = concat!(
    r#"(targetattr="telephoneNumber")(version 3.0; acl "no phones"; deny (all) "#,
    r#"userdn="ldap:///anyone";)"#,
);
const WRITE_PHONES: &str = concat!(
    r#"(targetattr="telephoneNumber")(version 3.0; acl "phones"; allow (write) "#,
    r#"userdn="ldap:///all";)"#,
);

#[test]
fn an_aci_is_in_force_when_it_is_acknowledged_and_after_a_restart() {
    let served = served();
    let (mut root, mut client) = (served.root(), served.client());
    assert_eq!(phones(&mut client), 2);
    put(&mut root, ANNA, DENY_PHONES);
    assert_eq!(phones(&mut client), 1);
    assert_eq!(phones(&mut root), 2);
    drop((root, client));
    let served = served.reopen();
    let (mut root, mut client) = (served.root(), served.client());
    assert_eq!(phones(&mut client), 1);
    let taken = root.modify(ANNA, &[(ModifyOperation::Delete, "aci", &[DENY_PHONES])]);
    assert_eq!(taken, ResultCode::Success);
    assert_eq!(phones(&mut client), 2);
}

#[test]
fn an_aci_comes_goes_and_moves_with_its_entry() {
    let served = served();
    let (mut root, mut client) = (served.root(), served.client());
    let unit = "ou=unit,dc=example,dc=org";
    let classes: &[&str] = &["organizationalUnit"];
    assert_eq!(
        root.add(unit, &[("objectClass", classes), ("aci", &[DENY_PHONES])]),
        ResultCode::Success
    );
    add_person(&mut root, &format!("uid=carla,{unit}"), "carla", &[]);
    assert_eq!((phones(&mut root), phones(&mut client)), (3, 2));
    assert_eq!(root.rename(unit, "ou=other", true, None), ResultCode::Success);
    assert_eq!((phones(&mut root), phones(&mut client)), (3, 2));
    let carla = "uid=carla,ou=other,dc=example,dc=org";
    assert_eq!(root.rename(carla, "uid=carla", false, Some(SUFFIX)), ResultCode::Success);
    assert_eq!((phones(&mut root), phones(&mut client)), (3, 3));
    let carla = "uid=carla,dc=example,dc=org";
    assert_eq!(
        root.rename(carla, "uid=carla", false, Some("ou=other,dc=example,dc=org")),
        ResultCode::Success
    );
    assert_eq!((phones(&mut root), phones(&mut client)), (3, 2));
    // A tree that is deleted takes its rules with it.
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
    let delete = ldap::message::DeleteRequest { name: "ou=other,dc=example,dc=org" };
    let answer = root.request(Request::Delete(delete), controls.as_ref());
    assert_eq!(answer.code(), ResultCode::Success);
    assert_eq!(root.add(unit, &[("objectClass", classes)]), ResultCode::Success);
    add_person(&mut root, &format!("uid=carla,{unit}"), "carla", &[]);
    assert_eq!((phones(&mut root), phones(&mut client)), (3, 3));
}

#[test]
fn global_acis_are_changed_online_and_last() {
    let served = served();
    let (mut root, mut client) = (served.root(), served.client());
    let asked = Asked {
        base: ACCESS_CONFIG,
        scope: Scope::Base,
        attributes: &["ds-cfg-global-aci"],
        ..Asked::default()
    };
    let before = root.search(&asked).entries[0].texts("ds-cfg-global-aci");
    assert!(!before.is_empty(), "the defaults are shown");
    assert_eq!(client.search(&asked).code(), ResultCode::NoSuchObject);
    put(&mut root, ACCESS_CONFIG, DENY_PHONES);
    assert_eq!(phones(&mut client), 0);
    let twice =
        root.modify(ACCESS_CONFIG, &[(ModifyOperation::Add, "ds-cfg-global-aci", &[DENY_PHONES])]);
    assert_eq!(twice, ResultCode::AttributeOrValueExists);
    drop((root, client));
    let served = served.reopen();
    let (mut root, mut client) = (served.root(), served.client());
    assert_eq!(phones(&mut client), 0);
    assert_eq!(root.search(&asked).entries[0].texts("ds-cfg-global-aci").len(), before.len() + 1);
    // Without any, nothing is allowed.
    let none = root.modify(ACCESS_CONFIG, &[(ModifyOperation::Replace, "ds-cfg-global-aci", &[])]);
    assert_eq!(none, ResultCode::Success);
    let answer = client.search(&Asked::default());
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::NoSuchObject, 0));
    let answer = client.search(&Asked { base: "", scope: Scope::Base, ..Asked::default() });
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 0));
    assert_eq!(root.search(&Asked::default()).entries.len(), 3);
    drop((root, client));
    let served = served.reopen();
    assert_eq!(served.client().search(&Asked::default()).code(), ResultCode::NoSuchObject);
}

#[test]
fn a_wrong_aci_is_refused_with_its_column() {
    let served = served();
    let mut root = served.root();
    let wrong = r#"(targetattr="cn")(version 3.0; acl "x"; allow (fly) userdn="ldap:///anyone";)"#;
    let check = |answer: &Answer| {
        assert_eq!(answer.code(), ResultCode::InvalidAttributeSyntax);
        assert!(answer.diagnostic.contains("column"), "{}", answer.diagnostic);
    };
    check(&root.try_modify(ANNA, &[(ModifyOperation::Add, "aci", &[wrong])]));
    check(
        &root.try_modify(ACCESS_CONFIG, &[(ModifyOperation::Add, "ds-cfg-global-aci", &[wrong])]),
    );
    let classes: &[&str] = &["device"];
    let name = "cn=device,dc=example,dc=org";
    check(&root.try_add(name, &[("objectClass", classes), ("aci", &[wrong])]));
    let elsewhere = concat!(
        r#"(target="ldap:///dc=elsewhere")(targetattr="cn")(version 3.0; acl "x"; "#,
        r#"allow (read) userdn="ldap:///anyone";)"#,
    );
    let answer = root.try_modify(ANNA, &[(ModifyOperation::Add, "aci", &[elsewhere])]);
    assert_eq!(answer.code(), ResultCode::InvalidAttributeSyntax);
}

#[test]
fn writes_need_the_right_to_each_value() {
    let served = served();
    let mut root = served.root();
    put(&mut root, SUFFIX, WRITE_PHONES);
    let filtered = concat!(
        r#"(targattrfilters="add=title:(title=clerk), del=title:(title=*)")(version "#,
        r#"3.0; acl "titles"; allow (write) userdn="ldap:///all";)"#,
    );
    put(&mut root, SUFFIX, filtered);
    let mut anna = bound(&served, ANNA);
    let mut modify = |attribute: &str, value: &str| {
        anna.modify(BERT, &[(ModifyOperation::Replace, attribute, &[value])])
    };
    assert_eq!(modify("telephoneNumber", "+49 2"), ResultCode::Success);
    assert_eq!(modify("sn", "Tal"), ResultCode::InsufficientAccessRights);
    assert_eq!(modify("sn", "Berg"), ResultCode::InsufficientAccessRights);
    assert_eq!(modify("title", "clerk"), ResultCode::Success);
    assert_eq!(modify("title", "chief"), ResultCode::InsufficientAccessRights);
    assert_eq!(modify("aci", WRITE_PHONES), ResultCode::InsufficientAccessRights);
    // All or nothing.
    let both: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Replace, "telephoneNumber", &["+49 3"]),
        (ModifyOperation::Replace, "sn", &["Tal"]),
    ];
    assert_eq!(anna.modify(BERT, both), ResultCode::InsufficientAccessRights);
    assert_eq!(anna.compare(BERT, "telephoneNumber", "+49 2"), ResultCode::CompareTrue);
    assert_eq!(
        served.client().modify(BERT, &[(ModifyOperation::Replace, "telephoneNumber", &["1"])]),
        ResultCode::InsufficientAccessRights
    );
}

#[test]
fn entries_come_go_and_move_by_rights_on_entries() {
    let served = served();
    let mut root = served.root();
    for unit in ["ou=open,dc=example,dc=org", "ou=closed,dc=example,dc=org"] {
        assert_eq!(
            root.add(unit, &[("objectClass", &["organizationalUnit"])]),
            ResultCode::Success
        );
    }
    let open = "ou=open,dc=example,dc=org";
    put(
        &mut root,
        open,
        concat!(
            r#"(targetattr="*")(version 3.0; acl "open"; allow (add, delete, write) "#,
            r#"userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
        ),
    );
    let mut anna = bound(&served, ANNA);
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"])];
    assert_eq!(anna.add(&format!("cn=a,{open}"), device), ResultCode::Success);
    let closed = "ou=closed,dc=example,dc=org";
    assert_eq!(anna.add(&format!("cn=a,{closed}"), device), ResultCode::InsufficientAccessRights);
    let with_aci: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("aci", &[WRITE_PHONES])];
    assert_eq!(anna.add(&format!("cn=b,{open}"), with_aci), ResultCode::InsufficientAccessRights);
    let name = format!("cn=a,{open}");
    assert_eq!(anna.rename(&name, "cn=c", true, None), ResultCode::Success);
    let name = format!("cn=c,{open}");
    assert_eq!(
        anna.rename(&name, "cn=c", false, Some(closed)),
        ResultCode::InsufficientAccessRights
    );
    put(
        &mut root,
        open,
        r#"(version 3.0; acl "out"; allow (export) userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
    );
    assert_eq!(
        anna.rename(&name, "cn=c", false, Some(closed)),
        ResultCode::InsufficientAccessRights
    );
    put(
        &mut root,
        closed,
        r#"(version 3.0; acl "in"; allow (import) userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
    );
    assert_eq!(anna.rename(&name, "cn=c", false, Some(closed)), ResultCode::Success);
    assert_eq!(anna.delete(&format!("cn=c,{closed}")), ResultCode::InsufficientAccessRights);
    assert_eq!(anna.add(&name, device), ResultCode::Success);
    assert_eq!(anna.delete(&name), ResultCode::Success);
}

#[test]
fn members_of_groups_static_dynamic_and_nested_have_what_the_group_has() {
    let served = served();
    let mut root = served.root();
    let group = "cn=group,dc=example,dc=org";
    let inner = "cn=inner,dc=example,dc=org";
    let dynamic = "cn=dynamic,dc=example,dc=org";
    put(
        &mut root,
        SUFFIX,
        &WRITE_PHONES
            .replace("userdn=\"ldap:///all\"", "groupdn=\"ldap:///cn=group,dc=example,dc=org\""),
    );
    let (mut anna, mut bert) = (bound(&served, ANNA), bound(&served, BERT));
    let mut check = |anna_may: bool, bert_may: bool, what: &str| {
        for (client, may) in [(&mut anna, anna_may), (&mut bert, bert_may)] {
            let code =
                client.modify(ANNA, &[(ModifyOperation::Replace, "telephoneNumber", &["+49 9"])]);
            let want = if may { ResultCode::Success } else { ResultCode::InsufficientAccessRights };
            assert_eq!(code, want, "{what}");
        }
    };
    check(false, false, "there is no group");
    let names: &[&str] = &["groupOfNames"];
    assert_eq!(
        root.add(group, &[("objectClass", names), ("member", &[BERT])]),
        ResultCode::Success
    );
    check(false, true, "a member");
    assert_eq!(
        root.add(inner, &[("objectClass", names), ("member", &[ANNA, group])]),
        ResultCode::Success
    );
    check(false, true, "a group is in another");
    assert_eq!(
        root.modify(group, &[(ModifyOperation::Replace, "member", &[inner])]),
        ResultCode::Success
    );
    check(true, false, "a circle of groups");
    let url = "ldap:///dc=example,dc=org??sub?(uid=bert)";
    let urls: &[&str] = &["groupOfURLs"];
    assert_eq!(
        root.add(dynamic, &[("objectClass", urls), ("memberURL", &[url])]),
        ResultCode::Success
    );
    check(true, false, "a dynamic group in none");
    assert_eq!(
        root.modify(inner, &[(ModifyOperation::Add, "member", &[dynamic])]),
        ResultCode::Success
    );
    check(true, true, "a dynamic group in a group in a group");
    assert_eq!(root.delete(group), ResultCode::Success);
    check(false, false, "no group any more");
    let unique: &[&str] = &["groupOfUniqueNames"];
    assert_eq!(
        root.add(group, &[("objectClass", unique), ("uniqueMember", &[ANNA])]),
        ResultCode::Success
    );
    check(true, false, "a unique member");
}

#[test]
fn a_group_whose_members_cannot_be_found_out_lifts_no_deny_and_gives_nothing() {
    // A deny for a dynamic group whose filter asks about a type that nobody defines denied nothing.
    let served = served();
    let mut root = served.root();
    let (group, dynamic) = ("cn=group,dc=example,dc=org", "cn=dynamic,dc=example,dc=org");
    put(&mut root, SUFFIX, WRITE_PHONES);
    let by_group = |verb: &str| {
        let rule = format!("{verb} (write) groupdn=\"ldap:///{group}\"");
        format!("(targetattr=\"telephoneNumber\")(version 3.0; acl \"group\"; {rule};)")
    };
    put(&mut root, SUFFIX, &by_group("deny"));
    let mut anna = bound(&served, ANNA);
    let mut may = || {
        let change = [(ModifyOperation::Replace, "telephoneNumber", &["+49 9"] as &[&str])];
        anna.modify(ANNA, &change) == ResultCode::Success
    };
    let of_urls = |root: &mut Client, name: &str, url: &str| {
        let urls: &[&str] = &["groupOfURLs"];
        let added = root.add(name, &[("objectClass", urls), ("memberURL", &[url])]);
        assert_eq!(added, ResultCode::Success);
    };
    let base = "ldap:///dc=example,dc=org??sub?";
    // Whether the deny holds for anna: she is in it, that is not known, she is not.
    for (url, denies) in [
        (format!("{base}(uid=anna)"), true),
        (format!("{base}(noSuchType=x)"), true),
        (format!("{base}(uidNumber=many)"), true),
        (format!("{base}(userPassword=*)"), true),
        (format!("{base}(&(uid=bert)(noSuchType=x))"), false),
        ("ldap:///ou=elsewhere,dc=example,dc=org??sub?(noSuchType=x)".to_owned(), false),
    ] {
        of_urls(&mut root, group, &url);
        assert_eq!(may(), !denies, "{url}");
        assert_eq!(root.delete(group), ResultCode::Success);
        // The same of a group in the group.
        of_urls(&mut root, dynamic, &url);
        let names: &[&str] = &["groupOfNames"];
        let added = root.add(group, &[("objectClass", names), ("member", &[dynamic])]);
        assert_eq!(added, ResultCode::Success);
        assert_eq!(may(), !denies, "{url} in a group");
        let change = [(ModifyOperation::Replace, "member", &[] as &[&str])];
        assert_eq!(root.modify(group, &change), ResultCode::Success);
        assert!(may(), "{url} is in no group");
        assert_eq!(root.delete(group), ResultCode::Success);
        assert_eq!(root.delete(dynamic), ResultCode::Success);
    }
    let replaced = [(ModifyOperation::Replace, "aci", &[&*by_group("allow")] as &[&str])];
    assert_eq!(root.modify(SUFFIX, &replaced), ResultCode::Success);
    of_urls(&mut root, group, &format!("{base}(noSuchType=x)"));
    assert!(!may(), "an allow");
}

#[test]
fn privileges_are_needed_beside_rights() {
    let served = served();
    let mut root = served.root();
    put(
        &mut root,
        SUFFIX,
        concat!(
            r#"(targetattr="*")(version 3.0; acl "all"; allow (all) "#,
            r#"userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
        ),
    );
    put(
        &mut root,
        SUFFIX,
        concat!(
            r#"(targetattr="userPassword || aci || ds-privilege-name")(version 3.0; acl "#,
            r#""all of it"; allow (all) userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
        ),
    );
    let try_all = |served: &Served| {
        let mut anna = bound(served, ANNA);
        [("aci", WRITE_PHONES), ("ds-privilege-name", "config-read"), ("userPassword", "secret")]
            .map(|(attribute, value)| {
                let code = anna.modify(BERT, &[(ModifyOperation::Replace, attribute, &[value])]);
                let again = anna.modify(BERT, &[(ModifyOperation::Replace, attribute, &[])]);
                if attribute == "userPassword" && again == ResultCode::Success {
                    anna.modify(BERT, &[(ModifyOperation::Add, attribute, &["secret"])]);
                }
                assert_eq!(code, again);
                code == ResultCode::Success
            })
    };
    assert_eq!(try_all(&served), [false, false, false]);
    let give = |root: &mut Client, names: &[&str]| {
        let code = root.modify(ANNA, &[(ModifyOperation::Replace, "ds-privilege-name", names)]);
        assert_eq!(code, ResultCode::Success);
    };
    give(&mut root, &["modify-acl"]);
    assert_eq!(try_all(&served), [true, false, false]);
    give(&mut root, &["privilege-change", "password-reset"]);
    assert_eq!(try_all(&served), [false, true, true]);
    // The own password needs no privilege.
    let mut bert = bound(&served, BERT);
    let own = bert.modify(BERT, &[(ModifyOperation::Replace, "userPassword", &["secret"])]);
    assert_eq!(own, ResultCode::Success);
    // The configuration is seen and changed by privileges.
    let config = Asked { base: "cn=config", ..Asked::default() };
    give(&mut root, &[]);
    assert_eq!(bound(&served, ANNA).search(&config).code(), ResultCode::NoSuchObject);
    give(&mut root, &["config-read"]);
    let mut anna = bound(&served, ANNA);
    assert_eq!(anna.search(&config).code(), ResultCode::Success);
    let add = |client: &mut Client| {
        client.modify(ACCESS_CONFIG, &[(ModifyOperation::Add, "ds-cfg-global-aci", &[DENY_PHONES])])
    };
    assert_eq!(add(&mut anna), ResultCode::InsufficientAccessRights);
    give(&mut root, &["config-read", "config-write", "modify-acl"]);
    assert_eq!(add(&mut bound(&served, ANNA)), ResultCode::Success);
    // Access control does not apply to whom it is given.
    assert_eq!(phones(&mut bound(&served, ANNA)), 0);
    give(&mut root, &["bypass-acl"]);
    assert_eq!(phones(&mut bound(&served, ANNA)), 2);
}

fn proxied(client: &mut Client, oid: &str, value: &[u8], op: Request<'_>) -> Answer {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid, critical: true, value: Some(value) });
    client.request(op, controls.as_ref())
}

const PROXIED_V1: &str = "2.16.840.1.113730.3.4.12";
const PROXIED: &str = "2.16.840.1.113730.3.4.18";
const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

#[test]
fn a_request_is_carried_out_as_somebody_else_by_privilege_and_right() {
    let served = served();
    let mut root = served.root();
    let who = |client: &mut Client, value: &str| {
        let op = Request::Extended(ldap::message::ExtendedRequest { oid: WHO_AM_I, value: None });
        let answer = proxied(client, PROXIED, value.as_bytes(), op);
        let name = answer.value.as_deref().map(String::from_utf8_lossy).map(|one| one.into_owned());
        (answer.code(), name.unwrap_or_default())
    };
    let as_bert = format!("dn:{BERT}");
    assert_eq!(who(&mut root, &as_bert), (ResultCode::Success, as_bert.clone()));
    assert_eq!(who(&mut root, "u:bert"), (ResultCode::Success, as_bert.clone()));
    assert_eq!(who(&mut root, ""), (ResultCode::Success, String::new()));
    assert_eq!(
        who(&mut root, "dn:uid=nobody,dc=example,dc=org").0,
        ResultCode::AuthorizationDenied
    );
    assert_eq!(root.extended(WHO_AM_I, None).value.unwrap(), b"dn:cn=Directory Manager");
    // As bert, root may do what bert may.
    let list = modifications(&[(ModifyOperation::Replace, "sn", &["Tal"])]);
    let modify = ldap::message::ModifyRequest { name: ANNA, changes: list.as_ref() };
    let answer = proxied(&mut root, PROXIED, as_bert.as_bytes(), Request::Modify(modify));
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    let mut anna = bound(&served, ANNA);
    assert_eq!(who(&mut anna, &as_bert).0, ResultCode::AuthorizationDenied);
    let give = [(ModifyOperation::Replace, "ds-privilege-name", &["proxied-auth"][..])];
    assert_eq!(root.modify(ANNA, &give), ResultCode::Success);
    let mut anna = bound(&served, ANNA);
    assert_eq!(who(&mut anna, &as_bert).0, ResultCode::AuthorizationDenied);
    put(
        &mut root,
        BERT,
        r#"(version 3.0; acl "proxy"; allow (proxy) userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
    );
    assert_eq!(who(&mut anna, &as_bert), (ResultCode::Success, as_bert));
    assert_eq!(who(&mut anna, "dn:cn=Directory Manager").0, ResultCode::AuthorizationDenied);
    // The first version names the DN in a sequence.
    let mut value = vec![0x30, 2 + BERT.len() as u8, 0x04, BERT.len() as u8];
    value.extend_from_slice(BERT.as_bytes());
    put(&mut root, BERT, WRITE_PHONES);
    let list = modifications(&[(ModifyOperation::Replace, "telephoneNumber", &["+49 2"])]);
    let modify = ldap::message::ModifyRequest { name: BERT, changes: list.as_ref() };
    let answer = proxied(&mut anna, PROXIED_V1, &value, Request::Modify(modify));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    let list = add_attributes(&[("objectClass", &["device"])]);
    let add =
        ldap::message::AddRequest { name: "cn=x,dc=example,dc=org", attributes: list.as_ref() };
    let answer = proxied(&mut root, PROXIED_V1, &value, Request::Add(add));
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
}

#[test]
fn a_bind_tells_who_the_client_is() {
    let served = served();
    let bind = |client: &mut Client, name: &str, password: &str| {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "2.16.840.1.113730.3.4.16", critical: true, value: None });
        let authentication = ldap::message::Authentication::Simple(password.as_bytes());
        let bind = ldap::message::BindRequest { version: 3, name, authentication };
        client.request(Request::Bind(bind), controls.as_ref())
    };
    let mut client = served.client();
    let answer = bind(&mut client, ANNA, "secret");
    let told = ("2.16.840.1.113730.3.4.15".to_owned(), format!("dn:{ANNA}").into_bytes());
    assert_eq!((answer.code(), answer.controls), (ResultCode::Success, vec![told]));
    let answer = bind(&mut client, ANNA, "wrong");
    assert_eq!((answer.code(), answer.controls), (ResultCode::InvalidCredentials, vec![]));
    let answer = bind(&mut client, "", "");
    assert_eq!(answer.controls[0].1, b"");
}

#[test]
fn a_control_that_is_not_allowed_is_refused_when_critical_and_ignored_otherwise() {
    let served = served();
    let mut root = served.root();
    put(
        &mut root,
        ACCESS_CONFIG,
        concat!(
            r#"(targetcontrol="1.3.6.1.1.12")(version 3.0; acl "no assertions"; deny "#,
            r#"(read) userdn="ldap:///uid=anna,dc=example,dc=org";)"#,
        ),
    );
    let mut anna = bound(&served, ANNA);
    // (cn=nobody)
    let value = b"\xa3\x0c\x04\x02cn\x04\x06nobody";
    let mut ask = |critical| {
        let controls = [("1.3.6.1.1.12", critical, Some(&value[..]))];
        anna.search(&Asked { controls: &controls, ..Asked::default() }).code()
    };
    assert_eq!(ask(true), ResultCode::UnavailableCriticalExtension);
    assert_eq!(ask(false), ResultCode::Success);
    let controls = [("1.3.6.1.1.12", true, Some(&value[..]))];
    let mut bert = bound(&served, BERT);
    let code = bert.search(&Asked { controls: &controls, ..Asked::default() }).code();
    assert_eq!(code, ResultCode::AssertionFailed);
}

#[test]
fn why_names_the_aci_that_decides_and_what_the_others_are_about() {
    const WHY: &str = "2.25.240622864993748405525653984067480598434.3.1";
    let served = served();
    let mut root = served.root();
    put(&mut root, SUFFIX, WRITE_PHONES);
    put(&mut root, BERT, DENY_PHONES);
    let mut ask = |identity: &str, entry: &str, right: &str, attribute: &str| {
        let asked = format!(
            "{{\"identity\": \"{identity}\", \"entry\": \"{entry}\", \
              \"right\": \"{right}\", \"attribute\": \"{attribute}\"}}"
        );
        let answer = root.extended(WHY, Some(asked.as_bytes()));
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        serde_json::from_slice::<serde_json::Value>(&answer.value.unwrap()).unwrap()
    };
    let told = ask(ANNA, ANNA, "write", "telephoneNumber");
    assert_eq!(told["allowed"], true, "{told}");
    let decided = told["decided_by"].as_u64().unwrap();
    let decides = &told["considered"][decided as usize];
    assert_eq!((&decides["holder"], &decides["name"]), (&SUFFIX.into(), &"phones".into()));
    let told = ask(ANNA, BERT, "write", "telephoneNumber");
    assert_eq!(told["allowed"], false, "{told}");
    let decided = told["decided_by"].as_u64().unwrap();
    assert_eq!(told["considered"][decided as usize]["holder"], BERT);
    let told = ask("", ANNA, "write", "sn");
    assert_eq!((&told["allowed"], &told["decided_by"]), (&false.into(), &serde_json::Value::Null));
    let told = ask("cn=Directory Manager", ANNA, "write", "sn");
    assert_eq!(told["allowed"], true);
    assert!(told["bypass"].is_string());
    let mut anna = bound(&served, ANNA);
    assert_eq!(anna.extended(WHY, Some(b"{}")).code(), ResultCode::InsufficientAccessRights);
}

// Whatever `why` says of privileges, the writer says the same.
#[test]
fn what_why_says_of_a_password_is_what_a_modify_gets() {
    const WHY: &str = "2.25.240622864993748405525653984067480598434.3.1";
    const WRITE_ALL: &str =
        "(targetattr=\"* || +\")(version 3.0; acl \"all\"; allow (all) userdn=\"ldap:///all\";)";
    let served = served();
    let mut root = served.root();
    put(&mut root, SUFFIX, WRITE_ALL);
    let mut check = |target: &str, attribute: &str, value: &str, want: bool| {
        let asked = format!(
            "{{\"identity\": \"{ANNA}\", \"entry\": \"{target}\", \"right\": \"write\", \
              \"attribute\": \"{attribute}\"}}"
        );
        let answer = root.extended(WHY, Some(asked.as_bytes()));
        let told: serde_json::Value = serde_json::from_slice(&answer.value.unwrap()).unwrap();
        assert_eq!(told["allowed"], want, "{told}");
        let change = [(ModifyOperation::Replace, attribute, &[value][..])];
        let code = bound(&served, ANNA).modify(target, &change);
        let expected = match want {
            true => ResultCode::Success,
            false => ResultCode::InsufficientAccessRights,
        };
        assert_eq!(code, expected, "{target} {attribute}");
    };
    check(BERT, "userPassword", "other", false);
    check(BERT, "description", "x", true);
    check(BERT, "aci", WRITE_ALL, false);
    check(BERT, "ds-privilege-name", "bypass-acl", false);
    check(BERT, "nsAccountLock", "true", false);
    let give = |root: &mut Client, name: &str, privilege: &str| {
        let change = [(ModifyOperation::Replace, "ds-privilege-name", &[privilege][..])];
        assert_eq!(root.modify(name, &change), ResultCode::Success);
    };
    give(&mut served.root(), ANNA, "password-reset");
    check(BERT, "userPassword", "other", true);
    check(BERT, "nsAccountLock", "false", true);
    check(ANNA, "nsAccountLock", "false", false);
    give(&mut served.root(), BERT, "config-read");
    check(BERT, "userPassword", "third", false);
    check(BERT, "description", "y", true);
}

#[test]
fn effective_rights_are_told_beside_the_entries() {
    const EFFECTIVE: &str = "1.3.6.1.4.1.42.2.27.9.5.2";
    let served = served();
    let mut root = served.root();
    put(&mut root, SUFFIX, WRITE_PHONES);
    let of = |client: &mut Client, value: Option<&[u8]>, attributes: &[&str]| {
        let controls = [(EFFECTIVE, true, value)];
        let base = ANNA;
        client.search(&Asked { base, attributes, controls: &controls, ..Asked::default() })
    };
    let mut value = vec![0x30, 5 + BERT.len() as u8, 0x04, 3 + BERT.len() as u8];
    value.extend_from_slice(format!("dn:{BERT}").as_bytes());
    let answer = of(&mut root, Some(&value), &["aclRights", "cn"]);
    let entry = &answer.entries[0];
    assert_eq!(entry.texts("cn"), ["anna"]);
    let entry_level = ["add:0,delete:0,read:1,write:1,proxy:0"];
    assert_eq!(entry.texts("aclRights;entryLevel"), entry_level, "{entry:?}");
    let may_write = "search:1,read:1,compare:1,write:1,selfwrite_add:1,selfwrite_delete:1,proxy:0";
    assert_eq!(entry.texts("aclRights;attributeLevel;telephoneNumber"), [may_write], "{entry:?}");
    let nothing = "search:0,read:0,compare:0,write:0,selfwrite_add:0,selfwrite_delete:0,proxy:0";
    assert_eq!(entry.texts("aclRights;attributeLevel;userPassword"), [nothing]);
    // Why, in the words of Sun's servers.
    let answer = of(&mut root, Some(&value), &["aclRightsInfo"]);
    let why = |name: &str| answer.entries[0].texts(&format!("aclRightsInfo;logs;{name}"));
    let line = |verdict: &str, attribute: &str, reason: &str| {
        [format!(
            "acl_summary(main): access {verdict} on entry/attr({ANNA}, {attribute}) to ({BERT}) \
             (not proxied) (reason: {reason} )"
        )]
    };
    assert_eq!(
        why("entryLevel;add"),
        line("not allowed(add)", "NULL", "no acis matched the resource")
    );
    let phones = "evaluated allow , deciding_aci: \"phones\"";
    let phones = line("allowed(write)", "telephoneNumber", phones);
    assert_eq!(why("attributeLevel;write;telephoneNumber"), phones);
    let own = "no acis matched the subject";
    let own = line("not allowed(write)", "userPassword", own);
    assert_eq!(why("attributeLevel;write;userPassword"), own);
    assert_eq!(answer.entries[0].texts("aclRights;entryLevel"), [""; 0]);
    // Who asks for nothing of it is told nothing of it.
    assert_eq!(of(&mut root, Some(&value), &["cn"]).entries[0].attributes.len(), 1);
    let mut bert = bound(&served, BERT);
    let own = of(&mut bert, None, &["aclRights", "aclRightsInfo"]);
    assert_eq!(own.entries[0].texts("aclRights;entryLevel"), entry_level);
    let is_why = |name: &String| name.starts_with("aclRightsInfo");
    assert!(!own.entries[0].attributes.keys().any(is_why), "ACIs are not for everybody");
    let of_other = of(&mut bert, Some(b"\x30\x05\x04\x03dn:"), &["aclRights"]);
    assert_eq!(of_other.code(), ResultCode::InsufficientAccessRights);
}

/// Whether an entry has what the asker may not read is not told by a line about it.
#[test]
fn effective_rights_do_not_tell_that_something_hidden_is_there() {
    const EFFECTIVE: &str = "1.3.6.1.4.1.42.2.27.9.5.2";
    let served = served();
    let mut root = served.root();
    let hide = concat!(
        r#"(targetattr="description")(version 3.0; acl "hide"; deny (all) "#,
        r#"userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SUFFIX, hide);
    let note: (_, _, &[&str]) = (ModifyOperation::Replace, "description", &["pregnant"]);
    assert_eq!(root.modify(ANNA, &[note]), ResultCode::Success);
    let told = |client: &mut Client, base: &str, value: Option<&[u8]>, attributes: &[&str]| {
        let controls = [(EFFECTIVE, true, value)];
        let scope = Scope::Base;
        let asked = Asked { base, scope, attributes, controls: &controls, ..Asked::default() };
        let answer = client.search(&asked);
        let names = answer.entries[0].attributes.keys();
        let of = |name: &String| name.strip_prefix("aclRights;attributeLevel;").map(str::to_owned);
        names.filter_map(of).collect::<Vec<_>>()
    };
    let has = |names: &[String], name: &str| names.iter().any(|one| one == name);
    let give: (_, _, &[&str]) = (ModifyOperation::Add, "ds-privilege-name", &["modify-acl"]);
    assert_eq!(root.modify(BERT, &[give]), ResultCode::Success);
    let mut bert = bound(&served, BERT);
    // Anna has both hidden attributes, bert no description.
    for base in [ANNA, BERT] {
        let names = told(&mut bert, base, None, &["aclRights"]);
        assert!(has(&names, "cn") && !has(&names, "description"), "{base}: {names:?}");
        assert!(!has(&names, "userPassword") && !has(&names, "mail"), "{base}: {names:?}");
        // What is named has its line, there or not: in the value, which is about bert ...
        let dn = format!("dn:{BERT}");
        let list = [&[0x30, 13, 0x04, 11][..], b"description"].concat();
        let value = [&[0x04, dn.len() as u8][..], dn.as_bytes(), &list].concat();
        let value = [&[0x30, value.len() as u8][..], &value].concat();
        let names = told(&mut bert, base, Some(&value), &["aclRights"]);
        assert!(has(&names, "description"), "{base}: {names:?}");
        // ... and in the list of the search.
        let names = told(&mut bert, base, None, &["aclRights", "description", "userPassword"]);
        assert!(has(&names, "description") && has(&names, "userPassword"), "{base}: {names:?}");
    }
    // Who may read all is told of what is there.
    let names = told(&mut root, ANNA, None, &["aclRights"]);
    assert!(has(&names, "description") && has(&names, "userPassword"), "{names:?}");
    let names = told(&mut root, BERT, None, &["aclRights", "description"]);
    assert!(!has(&names, "description") && has(&names, "userPassword"), "{names:?}");
}

/// The administrator without `bypass-acl` is bound by ACIs, and mends them all the same.
#[test]
fn acis_bind_the_administrator_who_may_not_bypass_them() {
    let served = Served::with(|options| options.root_privileges = vec!["-bypass-acl".to_owned()]);
    let mut root = served.root();
    let entry = |client: &mut Client| {
        client.search(&Asked { scope: Scope::Base, attributes: &["*"], ..Asked::default() })
    };
    let device = format!("cn=device,{SUFFIX}");
    let attributes: [(&str, &[&str]); 1] = [("objectClass", &["device"])];
    assert_eq!(root.add(&device, &attributes), ResultCode::InsufficientAccessRights);
    assert_eq!(entry(&mut root).entries.len(), 1, "by the ACI for everybody");
    // What changes rules takes privileges alone.
    let all = concat!(
        r#"(targetattr="* || +")(version 3.0; acl "administrator"; allow (all) "#,
        r#"userdn="ldap:///cn=Directory Manager";)"#,
    );
    let change = [(ModifyOperation::Add, "ds-cfg-global-aci", &[all][..])];
    assert_eq!(root.modify("cn=Access Control Handler,cn=config", &change), ResultCode::Success);
    assert_eq!(root.add(&device, &attributes), ResultCode::Success);
    put(
        &mut root,
        SUFFIX,
        r#"(targetattr="*")(version 3.0; acl "nobody"; deny (read) userdn="ldap:///anyone";)"#,
    );
    assert!(entry(&mut root).entries.iter().all(|one| one.attributes.is_empty()));
}

/// Times and days are those of the clocks on the wall.
#[test]
fn rules_ask_for_the_local_time() {
    let served = served();
    let mut root = served.root();
    put(
        &mut root,
        ANNA,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "hours"; allow (write) "#,
            r#"timeofday >= "0900" and timeofday < "1700" and userdn = "ldap:///all";)"#,
        ),
    );
    put(
        &mut root,
        BERT,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "week"; allow (write) "#,
            r#"dayofweek = "mon,tue,wed,thu,fri" and userdn = "ldap:///all";)"#,
        ),
    );
    let mut bert = bound(&served, BERT);
    let change = [(ModifyOperation::Replace, "description", &["x"][..])];
    let second = i32::try_from(served.clock.now().seconds() % 86_400).unwrap();
    let day = (served.clock.now().seconds() / 86_400 + 4) % 7;
    for (hour, may) in [(8, false), (9, true), (16, true), (17, false), (23, false)] {
        served.clock.set_offset_s(hour * 3_600 + 1_800 - second);
        assert_eq!(bert.modify(ANNA, &change) == ResultCode::Success, may, "at {hour}:30");
    }
    for ahead in 0..7 {
        served.clock.set_offset_s(i32::try_from(ahead).unwrap() * 86_400);
        let may = ![0, 6].contains(&((day + ahead) % 7));
        assert_eq!(bert.modify(BERT, &change) == ResultCode::Success, may, "{ahead} days on");
    }
}

/// A name gives rights and takes denies away; without one neither happens.
#[test]
fn rules_ask_for_the_name_of_the_clients_host() {
    let served = served();
    let mut root = served.root();
    put(
        &mut root,
        ANNA,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "ours"; allow (write) "#,
            r#"dns = "*.example.org" and userdn = "ldap:///all";)"#,
        ),
    );
    put(
        &mut root,
        BERT,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "all"; allow (write) "#,
            r#"userdn = "ldap:///all";)"#,
        ),
    );
    put(
        &mut root,
        BERT,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "not theirs"; deny (write) "#,
            r#"dns = "*.example.com";)"#,
        ),
    );
    let change = [(ModifyOperation::Replace, "description", &["x"][..])];
    for (name, anna, bert) in [
        (None, false, false),
        (Some("www.example.org"), true, true),
        (Some("www.example.com"), false, false),
        (Some("www.example.net"), false, true),
    ] {
        let mut client = served.client();
        client.connection.session.set_host_name(name.map(Into::into));
        assert_eq!(client.bind(BERT, "secret"), ResultCode::Success);
        assert_eq!(client.modify(ANNA, &change) == ResultCode::Success, anna, "{name:?}");
        assert_eq!(client.modify(BERT, &change) == ResultCode::Success, bert, "{name:?}");
    }
}
