//! Virtual attributes: collective ones, Class of Service, and those of the configuration.

use std::collections::BTreeSet;

use environment::{Chance as _, SeededChance};
use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::message::{Control, ControlsBuf, DeleteRequest, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const OK: ResultCode = ResultCode::Success;
const CONFIG: &str = "cn=Virtual Attributes,cn=config";
const SUBTREE_DELETE: &str = "1.2.840.113556.1.4.805";
const REAL_ONLY: &str = "2.16.840.1.113730.3.4.17";
const VIRTUAL_ONLY: &str = "2.16.840.1.113730.3.4.19";

pub(crate) fn dn(name: &str) -> String {
    format!("{name},{SUFFIX}")
}

#[track_caller]
pub(crate) fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(&dn(name), attributes);
    assert_eq!(answer.code(), OK, "{name}: {}", answer.diagnostic);
}

#[track_caller]
pub(crate) fn person(root: &mut Client, name: &str, more: &[(&str, &[&str])]) {
    let all: [(&str, &[&str]); 3] =
        [("objectClass", &["inetOrgPerson"]), ("sn", &["Ek"]), ("cn", &["Anna"])];
    add(root, name, &[&all[..], more].concat());
}

/// Two units with a person each.
pub(crate) fn served() -> (Served, Client) {
    let served = Served::new();
    let mut root = served.root();
    for unit in ["a", "b"] {
        add(&mut root, &format!("ou={unit}"), &[("objectClass", &["organizationalUnit"])]);
        person(&mut root, &format!("uid=x,ou={unit}"), &[]);
    }
    (served, root)
}

#[track_caller]
pub(crate) fn change(root: &mut Client, name: &str, changes: &[(ModifyOperation, &str, &[&str])]) {
    let name = if name.contains("cn=config") { name.to_owned() } else { dn(name) };
    let answer = root.try_modify(&name, changes);
    assert_eq!(answer.code(), OK, "{name}: {}", answer.diagnostic);
}

#[track_caller]
fn define(root: &mut Client, line: &str) {
    change(root, CONFIG, &[(Add, "roster-virtual-attribute", &[line])]);
}

pub(crate) fn ask(client: &mut Client, name: &str, attributes: &[&str]) -> Answer {
    let base = &dn(name);
    client.search(&Asked { base, scope: Scope::Base, attributes, ..Asked::default() })
}

/// The values of an attribute that is asked for by name.
#[track_caller]
pub(crate) fn values(client: &mut Client, name: &str, attribute: &str) -> BTreeSet<String> {
    let answer = ask(client, name, &[attribute]);
    assert_eq!(answer.code(), OK, "{name}: {}", answer.diagnostic);
    answer.entries[0].texts(attribute).into_iter().collect()
}

#[track_caller]
pub(crate) fn check(client: &mut Client, name: &str, attribute: &str, want: &[&str]) {
    let want: BTreeSet<String> = want.iter().map(|value| (*value).to_owned()).collect();
    assert_eq!(values(client, name, attribute), want, "{attribute} of {name}");
    // With all others, too.
    let answer = ask(client, name, &["*"]);
    let all: BTreeSet<String> = answer.entries[0].texts(attribute).into_iter().collect();
    assert_eq!(all, want, "{attribute} of {name} with all");
    for value in &want {
        let compared = client.compare(&dn(name), attribute, value);
        assert_eq!(compared, ResultCode::CompareTrue, "{attribute}={value} of {name}");
    }
}

/// The names of what a filter finds, without the suffix.
#[track_caller]
pub(crate) fn found(client: &mut Client, filter: &str) -> BTreeSet<String> {
    let answer = client.search(&Asked { filter, attributes: &["1.1"], ..Asked::default() });
    assert_eq!(answer.code(), OK, "{filter}: {}", answer.diagnostic);
    let suffix = format!(",{SUFFIX}");
    answer.names().iter().map(|name| name.trim_end_matches(&suffix).to_owned()).collect()
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[track_caller]
fn share(root: &mut Client, name: &str, specification: &str, more: &[(&str, &[&str])]) {
    let all: [(&str, &[&str]); 2] = [
        ("objectClass", &["subentry", "collectiveAttributeSubentry", "extensibleObject"]),
        ("subtreeSpecification", &[specification]),
    ];
    add(root, name, &[&all[..], more].concat());
}

#[test]
fn entries_share_what_a_subentry_holds() {
    let (served, mut root) = served();
    share(&mut root, "cn=place", "{ base \"ou=a\", minimum 1 }", &[("c-l", &["Paris"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &["Paris"]);
    check(&mut root, "uid=x,ou=b", "c-l", &[]);
    check(&mut root, "ou=a", "c-l", &[]);
    // Asking for the supertype gets it; searching does.
    let answer = ask(&mut root, "uid=x,ou=a", &["l"]);
    assert_eq!(answer.entries[0].texts("c-l"), ["Paris"]);
    let people = set(&["uid=x,ou=a"]);
    for filter in ["(c-l=paris)", "(l=PARIS)", "(c-l=*)", "(l=Par*)", "(&(uid=x)(l=Paris))"] {
        assert_eq!(found(&mut root, filter), people, "{filter}");
    }
    assert_eq!(found(&mut root, "(&(uid=x)(!(l=Paris)))"), set(&["uid=x,ou=b"]));
    assert_eq!(found(&mut root, "(l=Rome)"), set(&[]));
    // It tells where it comes from.
    let from = values(&mut root, "uid=x,ou=a", "collectiveAttributeSubentries");
    assert_eq!(from, set(&[&dn("cn=place")]));
    assert_eq!(values(&mut root, "uid=x,ou=b", "collectiveAttributeSubentries"), set(&[]));
    // Several subentries share together; what one changes is seen at once.
    share(&mut root, "cn=more", "{ base \"ou=a\" }", &[("c-l", &["Rome", "Paris"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &["Paris", "Rome"]);
    check(&mut root, "ou=a", "c-l", &["Paris", "Rome"]);
    change(&mut root, "cn=more", &[(Replace, "c-l", &["Oslo"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &["Oslo", "Paris"]);
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    check(&mut root, "uid=x,ou=a", "c-l", &["Oslo", "Paris"]);
    // An entry may leave some out, or all.
    change(&mut root, "uid=x,ou=a", &[(Add, "collectiveExclusions", &["c-ou"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &["Oslo", "Paris"]);
    change(&mut root, "uid=x,ou=a", &[(Add, "collectiveExclusions", &["c-l"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &[]);
    assert_eq!(found(&mut root, "(l=Paris)"), set(&[]));
    change(&mut root, "uid=x,ou=a", &[(Replace, "collectiveExclusions", &["2.5.18.0"])]);
    check(&mut root, "uid=x,ou=a", "c-l", &[]);
    change(&mut root, "uid=x,ou=a", &[(Delete, "collectiveExclusions", &[])]);
    // The subtree is named relative to the place of the subentry, which moves.
    assert_eq!(root.delete(&dn("cn=more")), OK);
    check(&mut root, "uid=x,ou=a", "c-l", &["Paris"]);
    assert_eq!(root.rename(&dn("ou=a"), "ou=c", true, None), OK);
    check(&mut root, "uid=x,ou=c", "c-l", &[]);
    change(&mut root, "cn=place", &[(Replace, "subtreeSpecification", &["{ base \"ou=c\" }"])]);
    check(&mut root, "uid=x,ou=c", "c-l", &["Paris"]);
    assert_eq!(root.delete(&dn("cn=place")), OK);
    check(&mut root, "uid=x,ou=c", "c-l", &[]);
}

#[test]
fn what_is_shared_wrongly_is_refused() {
    let (_served, mut root) = served();
    let wrong = root.try_add(
        &dn("cn=w"),
        &[
            ("objectClass", &["subentry", "collectiveAttributeSubentry"]),
            ("subtreeSpecification", &["{ base }"]),
            ("c-l", &["x"]),
        ],
    );
    assert_eq!(wrong.code(), ResultCode::InvalidAttributeSyntax, "{}", wrong.diagnostic);
    // What can be read need not be understood.
    let wrong = root.try_add(
        &dn("cn=w"),
        &[
            ("objectClass", &["subentry", "collectiveAttributeSubentry"]),
            ("subtreeSpecification", &["{ specificationFilter item:nothing }"]),
            ("c-l", &["x"]),
        ],
    );
    assert_eq!(wrong.code(), ResultCode::ConstraintViolation, "{}", wrong.diagnostic);
    assert!(wrong.diagnostic.contains("at octet"), "{}", wrong.diagnostic);
    let stored = root.try_modify(&dn("uid=x,ou=a"), &[(Add, "c-l", &["x"])]);
    assert_eq!(stored.code(), ResultCode::ObjectClassViolation, "{}", stored.diagnostic);
}

#[test]
fn other_types_are_shared_by_an_option() {
    let (_served, mut root) = served();
    person(&mut root, "uid=y,ou=a", &[("l", &["Rome"])]);
    let shared: [(&str, &[&str]); 1] = [("l;collective", &["Paris"])];
    share(&mut root, "cn=place", "{}", &shared);
    check(&mut root, "uid=x,ou=a", "l", &["Paris"]);
    check(&mut root, "uid=y,ou=a", "l", &["Rome"]);
    for (behavior, want) in [
        ("virtual-overrides-real", &["Paris"][..]),
        ("merge-real-and-virtual", &["Paris", "Rome"]),
        ("real-overrides-virtual", &["Rome"]),
    ] {
        change(&mut root, "cn=place", &[(Replace, "collectiveConflictBehavior", &[behavior])]);
        check(&mut root, "uid=y,ou=a", "l", want);
        let is_rome = want.contains(&"Rome");
        assert_eq!(
            found(&mut root, "(&(uid=y)(l=Rome))").len(),
            usize::from(is_rome),
            "{behavior}"
        );
        assert_eq!(found(&mut root, "(&(uid=y)(!(l=Rome)))").len(), usize::from(!is_rome));
    }
    // What the server acts on is never shared.
    let class: [(&str, &[&str]); 1] = [("nsRoleDN;collective", &["cn=r,dc=x"])];
    share(&mut root, "cn=role", "{}", &class);
    assert_eq!(values(&mut root, "uid=x,ou=a", "nsRoleDN"), set(&[]));
}

pub(crate) fn template(root: &mut Client, name: &str, more: &[(&str, &[&str])]) {
    let all: [(&str, &[&str]); 1] = [("objectClass", &["cosTemplate", "extensibleObject"])];
    add(root, name, &[&all[..], more].concat());
}

#[test]
fn a_class_of_service_points_to_its_template() {
    let (_served, mut root) = served();
    template(&mut root, "cn=t", &[("postalCode", &["75001"]), ("street", &["Rue"])]);
    add(
        &mut root,
        "cn=post,ou=a",
        &[
            ("objectClass", &["cosPointerDefinition"]),
            ("cosTemplateDn", &[&dn("cn=t")]),
            ("cosAttribute", &["postalCode", "street override"]),
        ],
    );
    person(&mut root, "uid=y,ou=a", &[("postalCode", &["1"]), ("street", &["Via"])]);
    check(&mut root, "uid=x,ou=a", "postalCode", &["75001"]);
    check(&mut root, "uid=y,ou=a", "postalCode", &["1"]);
    check(&mut root, "uid=y,ou=a", "street", &["Rue"]);
    check(&mut root, "uid=x,ou=b", "street", &[]);
    assert_eq!(found(&mut root, "(street=Via)"), set(&[]));
    assert_eq!(found(&mut root, "(&(uid=*)(street=Rue))"), set(&["uid=x,ou=a", "uid=y,ou=a"]));
    // A template is read when an entry is: what it says is seen at once.
    change(&mut root, "cn=t", &[(Replace, "street", &["Quai"])]);
    check(&mut root, "uid=y,ou=a", "street", &["Quai"]);
    // What is no template gives nothing: its writer did not mean it to be shown.
    person(&mut root, "uid=z,ou=b", &[("street", &["Secret"])]);
    change(&mut root, "cn=post,ou=a", &[(Replace, "cosTemplateDn", &[&dn("uid=z,ou=b")])]);
    check(&mut root, "uid=y,ou=a", "street", &["Via"]);
}

#[test]
fn a_class_of_service_finds_its_template_by_a_value() {
    let (_served, mut root) = served();
    add(&mut root, "ou=templates", &[("objectClass", &["organizationalUnit"])]);
    for (name, priority, phone, note) in
        [("sales", "1", "11", "s"), ("staff", "0", "22", "t"), ("\"cn=r,dc=x\"", "5", "33", "r")]
    {
        let name = name.replace('"', "").replace('=', "\\3d").replace(',', "\\2c");
        template(
            &mut root,
            &format!("cn={name},ou=templates"),
            &[
                ("cosPriority", &[priority]),
                ("telephoneNumber", &[phone]),
                ("description", &[note]),
            ],
        );
    }
    add(
        &mut root,
        "cn=classic",
        &[
            ("objectClass", &["cosClassicDefinition"]),
            ("cosTemplateDn", &[&dn("ou=templates")]),
            ("cosSpecifier", &["employeeType"]),
            ("cosAttribute", &["telephoneNumber", "description default merge-schemes"]),
        ],
    );
    person(&mut root, "uid=1,ou=a", &[("employeeType", &["sales"])]);
    person(&mut root, "uid=2,ou=a", &[("employeeType", &["SALES", "staff"])]);
    person(&mut root, "uid=3,ou=a", &[("employeeType", &["nobody"])]);
    check(&mut root, "uid=1,ou=a", "telephoneNumber", &["11"]);
    check(&mut root, "uid=2,ou=a", "telephoneNumber", &["22"]);
    check(&mut root, "uid=2,ou=a", "description", &["s", "t"]);
    check(&mut root, "uid=3,ou=a", "telephoneNumber", &[]);
    assert_eq!(found(&mut root, "(&(uid=*)(telephoneNumber=11))"), set(&["uid=1,ou=a"]));
    // By a role.
    add(
        &mut root,
        "cn=r",
        &[
            ("objectClass", &["nsFilteredRoleDefinition"]),
            ("nsRoleFilter", &["(employeeType=nobody)"]),
        ],
    );
    let role = dn("cn=r").replace('=', "\\3d").replace(',', "\\2c");
    template(&mut root, &format!("cn={role},ou=templates"), &[("telephoneNumber", &["44"])]);
    change(&mut root, "cn=classic", &[(Replace, "cosSpecifier", &["nsRole"])]);
    check(&mut root, "uid=3,ou=a", "telephoneNumber", &["44"]);
    check(&mut root, "uid=1,ou=a", "telephoneNumber", &[]);
}

#[test]
fn what_administrators_define_is_given() {
    let (served, mut root) = served();
    change(&mut root, "ou=a", &[(Add, "l", &["Paris"])]);
    person(
        &mut root,
        "uid=y,ou=a",
        &[("manager", &[&dn("uid=x,ou=a")]), ("givenName", &["Ann", "Zed"])],
    );
    change(&mut root, "uid=x,ou=a", &[(Add, "departmentNumber", &["7"])]);
    let people = "where (objectClass=person)";
    define(&mut root, &format!("o: constant o (Example|Beispiel) {people}"));
    define(&mut root, &format!("l: superior l from l below ou=a,{SUFFIX} {people}"));
    define(
        &mut root,
        &format!("d: reference departmentNumber from departmentNumber of manager {people}"),
    );
    define(&mut root, &format!("n: template displayName \"{{givenName}} {{sn}}\" {people}"));
    check(&mut root, "uid=y,ou=a", "o", &["Beispiel", "Example"]);
    check(&mut root, "uid=y,ou=a", "l", &["Paris"]);
    check(&mut root, "uid=x,ou=b", "l", &[]);
    check(&mut root, "uid=y,ou=a", "departmentNumber", &["7"]);
    check(&mut root, "uid=y,ou=a", "displayName", &["Ann Ek"]);
    check(&mut root, "uid=x,ou=a", "displayName", &[]);
    assert_eq!(found(&mut root, "(displayName=ann*)"), set(&["uid=y,ou=a"]));
    assert_eq!(found(&mut root, "(&(objectClass=person)(departmentNumber=7))").len(), 2);
    // A search in an order has it, too.
    let twice = root.try_modify(
        CONFIG,
        &[(Add, "roster-virtual-attribute", &["O: constant l (x) below dc=x"])],
    );
    assert_eq!(twice.code(), ResultCode::AttributeOrValueExists, "{}", twice.diagnostic);
    let wrong = root.try_modify(
        CONFIG,
        &[(Add, "roster-virtual-attribute", &["q: constant userPassword (x) below dc=x"])],
    );
    assert_eq!(wrong.code(), ResultCode::InvalidAttributeSyntax);
    assert!(wrong.diagnostic.contains("secret"), "{}", wrong.diagnostic);
    drop(root);
    let served = served.reopen();
    let mut root = served.root();
    check(&mut root, "uid=y,ou=a", "displayName", &["Ann Ek"]);
    let lines = &["roster-virtual-attribute"][..];
    let shown = root.search(&Asked {
        base: CONFIG,
        scope: Scope::Base,
        attributes: lines,
        ..Asked::default()
    });
    let o = format!("o: constant o (Example|Beispiel) {people}");
    assert!(shown.entries[0].texts("roster-virtual-attribute").contains(&o));
    change(&mut root, CONFIG, &[(Delete, "roster-virtual-attribute", &[&o])]);
    check(&mut root, "uid=y,ou=a", "o", &[]);
}

/// No entry has that name, and yet all are below it.
#[test]
fn what_is_given_below_a_name_above_the_suffix_is_found() {
    let (_served, mut root) = served();
    let (_, above) = SUFFIX.split_once(',').unwrap();
    define(&mut root, &format!("o: constant o (Example) below {above}"));
    check(&mut root, "uid=x,ou=a", "o", &["Example"]);
    let all = found(&mut root, "(o=Example)");
    assert!(all.is_superset(&set(&["uid=x,ou=a", "uid=x,ou=b"])), "{all:?}");
    assert_eq!(found(&mut root, "(&(uid=x)(o=Example))"), set(&["uid=x,ou=a", "uid=x,ou=b"]));
    assert_eq!(found(&mut root, "(o=Other)"), set(&[]));
}

#[test]
fn only_what_is_stored_is_sent_or_only_the_rest() {
    let (_served, mut root) = served();
    define(&mut root, &format!("o: constant o (Example) override below ou=a,{SUFFIX}"));
    change(&mut root, "uid=x,ou=a", &[(Add, "o", &["Own"])]);
    let mut sent = |oid: &'static str, attributes: &[&str]| {
        let base = &dn("uid=x,ou=a");
        let (scope, controls) = (Scope::Base, &[(oid, true, None)][..]);
        let answer = root.search(&Asked { base, scope, attributes, controls, ..Asked::default() });
        assert_eq!(answer.code(), OK, "{}", answer.diagnostic);
        let entry = &answer.entries[0];
        (entry.texts("o"), entry.texts("sn"), entry.texts("entryDN").len())
    };
    let own = vec!["Own".to_owned()];
    let sn = vec!["Ek".to_owned()];
    assert_eq!(sent(REAL_ONLY, &["*", "+"]), (own, sn, 0));
    assert_eq!(sent(VIRTUAL_ONLY, &["*", "+"]), (vec!["Example".to_owned()], vec![], 1));
    assert_eq!(sent(VIRTUAL_ONLY, &["sn", "o"]), (vec!["Example".to_owned()], vec![], 0));
}

#[test]
fn nobody_reads_by_them_what_he_may_not_read_where_it_is() {
    let (_served, mut root) = served();
    person(&mut root, "uid=u", &[("userPassword", &["secret phrase 1"])]);
    change(&mut root, "ou=a", &[(Add, "l", &["Paris"]), (Add, "description", &["hidden"])]);
    change(&mut root, "uid=x,ou=a", &[(Add, "employeeNumber", &["4711"])]);
    let people = "where (objectClass=person)";
    define(&mut root, &format!("l: superior l from l {people}"));
    define(&mut root, &format!("s: superior st from description {people}"));
    define(&mut root, &format!("n: template displayName \"No. {{employeeNumber}}\" {people}"));
    let allow = "(targetattr=\"l || st || displayName || uid || objectClass\")\
                 (version 3.0; acl \"x\"; allow (read, search, compare) userdn=\"ldap:///all\";)";
    root.try_modify("cn=Access Control Handler,cn=config", &[(Replace, "ds-cfg-global-aci", &[])]);
    change(&mut root, "ou=a", &[(Add, "aci", &[allow])]);
    let mut user = _served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    let mut seen = |attribute: &str| values(&mut user, "uid=x,ou=a", attribute);
    assert_eq!(seen("l"), set(&["Paris"]));
    assert_eq!(seen("st"), set(&[]));
    assert_eq!(seen("displayName"), set(&[]));
    check(&mut root, "uid=x,ou=a", "displayName", &["No. 4711"]);
    let base = &dn("ou=a");
    let mut found = |filter: &str| {
        let answer = user.search(&Asked { base, filter, ..Asked::default() });
        answer.names().len()
    };
    assert_eq!(found("(&(uid=x)(l=Paris))"), 1);
    assert_eq!(found("(&(uid=x)(st=hidden))"), 0);
    assert_eq!(found("(&(uid=x)(displayName=No. 4711))"), 0);
}

#[test]
fn who_may_not_change_access_rules_says_not_what_others_have() {
    let (served, mut root) = served();
    person(&mut root, "uid=u", &[("userPassword", &["secret phrase 1"])]);
    let allow = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) \
                 userdn=\"ldap:///all\";)";
    change(&mut root, "ou=a", &[(Add, "aci", &[allow])]);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    let mut shared = |class: &'static str| {
        user.try_add(
            &dn("cn=d,ou=a"),
            &[
                ("objectClass", &[class, "extensibleObject"][..]),
                ("cosAttribute", &["l override"]),
                ("cosTemplateDn", &[&dn("cn=t,ou=a")]),
            ],
        )
    };
    for class in ["cosPointerDefinition", "2.16.840.1.113730.3.2.101"] {
        let refused = shared(class);
        assert_eq!(refused.code(), ResultCode::InsufficientAccessRights, "{class}");
        assert!(refused.diagnostic.contains("modify-acl"), "{}", refused.diagnostic);
    }
    // The same by its OID, from somebody who may.
    template(&mut root, "cn=t,ou=a", &[("l", &["Paris"])]);
    add(
        &mut root,
        "cn=d,ou=a",
        &[
            ("objectClass", &["2.16.840.1.113730.3.2.101"]),
            ("cosAttribute", &["l override"]),
            ("cosTemplateDn", &[&dn("cn=t,ou=a")]),
        ],
    );
    check(&mut root, "uid=x,ou=a", "l", &["Paris"]);
}

fn delete_tree(client: &mut Client, name: &str) -> Answer {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: SUBTREE_DELETE, critical: true, value: None });
    client.request(Request::Delete(DeleteRequest { name: &dn(name) }), controls.as_ref())
}

/// Who may delete and rename everything, and has no privilege, takes nothing away that others have
/// by a definition, and gives them nothing.
#[test]
fn who_may_not_change_access_rules_deletes_and_renames_no_definition() {
    let (served, mut root) = served();
    person(&mut root, "uid=u", &[("userPassword", &["secret phrase 1"])]);
    add(&mut root, "ou=t", &[("objectClass", &["organizationalUnit"])]);
    add(&mut root, "ou=s,ou=a", &[("objectClass", &["organizationalUnit"])]);
    add(&mut root, "ou=s2,ou=a", &[("objectClass", &["organizationalUnit"])]);
    share(&mut root, "cn=c,ou=a", "{ base \"ou=s\" }", &[("c-l", &["Paris"])]);
    template(&mut root, "cn=t,ou=t", &[("st", &["France"])]);
    add(
        &mut root,
        "cn=d,ou=a",
        &[
            ("objectClass", &["cosPointerDefinition"]),
            ("cosAttribute", &["st"]),
            ("cosTemplateDn", &[&dn("cn=t,ou=t")]),
        ],
    );
    define(&mut root, &format!("line: constant o (Example Ltd.) below {}", dn("ou=b")));
    let allow = "(targetattr=\"*\")(version 3.0; acl \"x\"; allow (all) \
                 userdn=\"ldap:///all\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[allow])]), OK);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    let refused = ResultCode::InsufficientAccessRights;
    for name in ["cn=c,ou=a", "cn=d,ou=a"] {
        assert_eq!(user.delete(&dn(name)), refused, "{name}");
        assert_eq!(user.rename(&dn(name), "cn=other", true, None), refused, "{name}");
    }
    assert_eq!(delete_tree(&mut user, "ou=a").code(), refused);
    // What is above one, what one is about, and what it would be about then.
    for (name, new) in [("ou=a", "ou=z"), ("ou=s,ou=a", "ou=z"), ("ou=b", "ou=z")] {
        let answer = user.try_rename(&dn(name), new, true, None);
        assert_eq!(answer.code(), refused, "{name}");
        assert!(answer.diagnostic.contains("modify-acl"), "{}", answer.diagnostic);
    }
    assert_eq!(root.rename(&dn("ou=s,ou=a"), "ou=away", true, None), OK);
    assert_eq!(user.rename(&dn("ou=s2,ou=a"), "ou=s", true, None), refused);
    // Who may not delete the entry learns nothing of what is below it.
    let deny = "(targetattr=\"*\")(version 3.0; acl \"y\"; deny (delete, write) \
                userdn=\"ldap:///all\";)";
    change(&mut root, "ou=a", &[(Add, "aci", &[deny])]);
    for answer in [delete_tree(&mut user, "ou=a"), user.try_rename(&dn("ou=a"), "ou=z", true, None)]
    {
        assert_eq!(answer.code(), refused);
        assert!(!answer.diagnostic.contains("modify-acl"), "{}", answer.diagnostic);
    }
    change(&mut root, "ou=a", &[(Delete, "aci", &[])]);
    check(&mut root, "uid=x,ou=a", "st", &["France"]);
    // Anything else may go, a template as well, and an heir of the privilege does the rest.
    assert_eq!(user.delete(&dn("cn=t,ou=t")), OK);
    assert_eq!(user.rename(&dn("ou=t"), "ou=t2", true, None), OK);
    change(&mut root, "uid=u", &[(Replace, "ds-privilege-name", &["modify-acl"])]);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    assert_eq!(user.rename(&dn("ou=a"), "ou=z", true, None), OK);
    assert_eq!(user.delete(&dn("cn=d,ou=z")), OK);
    assert_eq!(delete_tree(&mut user, "ou=z").code(), OK);
}

#[test]
fn what_may_not_be_read_takes_the_place_of_what_is_stored_all_the_same() {
    let (served, mut root) = served();
    person(&mut root, "uid=u", &[("userPassword", &["secret phrase 1"])]);
    change(&mut root, "ou=a", &[(Add, "l", &["Paris"]), (Add, "street", &["Rue"])]);
    change(&mut root, "uid=x,ou=a", &[(Add, "l", &["Own"]), (Add, "st", &["Own"])]);
    change(&mut root, "uid=x,ou=a", &[(Add, "manager", &[&dn("ou=a")])]);
    let people = "where (objectClass=person)";
    define(&mut root, &format!("s: superior st from street override {people}"));
    define(&mut root, &format!("r: reference l from l of manager override {people}"));
    let allow = "(targetattr=\"l || st || uid || objectClass\")(version 3.0; acl \"x\"; \
                 allow (read, search, compare) userdn=\"ldap:///all\";)";
    root.try_modify("cn=Access Control Handler,cn=config", &[(Replace, "ds-cfg-global-aci", &[])]);
    change(&mut root, "ou=a", &[(Add, "aci", &[allow])]);
    check(&mut root, "uid=x,ou=a", "st", &["Rue"]);
    check(&mut root, "uid=x,ou=a", "l", &["Paris"]);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    // Neither is shown where it comes from: not the street, and not who the manager is.
    for attribute in ["st", "l"] {
        assert_eq!(values(&mut user, "uid=x,ou=a", attribute), set(&[]), "{attribute}");
        let answer = ask(&mut user, "uid=x,ou=a", &["*"]);
        assert!(!answer.entries[0].attributes.contains_key(attribute), "{attribute}");
    }
    // Of parts of an attribute the same.
    let part = ask(&mut root, "uid=x,ou=a", &["l;range=0-5"]);
    let told: Vec<&String> = part.entries[0].attributes.keys().collect();
    assert!(told.iter().all(|one| one.starts_with("l")), "{told:?}");
    let values: Vec<&Vec<u8>> = part.entries[0].attributes.values().flatten().collect();
    assert_eq!(values, [b"Paris"]);
}

#[test]
fn a_hidden_subentry_is_not_named_and_no_index_hides_those_that_share() {
    let (served, mut root) = served();
    person(&mut root, "uid=u", &[("userPassword", &["secret phrase 1"])]);
    share(&mut root, "cn=place", "{ base \"ou=a\" }", &[("c-l", &["Paris"])]);
    let index = "ds-cfg-attribute=collectiveAttributeSubentries,cn=Index,cn=config";
    let refused = root.try_add(
        index,
        &[
            ("objectClass", &["top", "ds-cfg-backend-index"]),
            ("ds-cfg-attribute", &["collectiveAttributeSubentries"]),
            ("ds-cfg-index-type", &["equality"]),
        ],
    );
    assert_ne!(refused.code(), OK);
    let filter = format!("(collectiveAttributeSubentries={})", dn("cn=place"));
    assert_eq!(found(&mut root, &filter), set(&["ou=a", "uid=x,ou=a"]));
    let allow = "(targetattr=\"* || +\")(version 3.0; acl \"x\"; \
                 allow (read, search, compare) userdn=\"ldap:///all\";)";
    root.try_modify("cn=Access Control Handler,cn=config", &[(Replace, "ds-cfg-global-aci", &[])]);
    change(&mut root, "ou=a", &[(Add, "aci", &[allow])]);
    let mut user = served.client();
    assert_eq!(user.bind(&dn("uid=u"), "secret phrase 1"), OK);
    assert_eq!(values(&mut user, "uid=x,ou=a", "c-l"), set(&["Paris"]));
    assert_eq!(values(&mut user, "uid=x,ou=a", "collectiveAttributeSubentries"), set(&[]));
    let base = &dn("ou=a");
    let answer = user.search(&Asked { base, filter: &filter, ..Asked::default() });
    assert_eq!(answer.names().len(), 0);
}

/// Filters over an attribute that has an index, and is stored in some entries and given to others,
/// against what reading the entries tells.
#[test]
fn filters_find_what_reading_tells() {
    let (_served, mut root) = served();
    let mut chance = SeededChance(22);
    let mut below = |most: usize| {
        let mut octets = [0; 2];
        chance.fill(&mut octets);
        usize::from(u16::from_le_bytes(octets)) % most
    };
    let places = ["Paris", "Rome", "Oslo", "Bern"];
    for number in 0..60 {
        let unit = if below(2) == 0 { "a" } else { "b" };
        let place = places[below(4)];
        let stored: [(&str, &[&str]); 1] = [("l", &[place])];
        let more = if below(2) == 0 { &stored[..] } else { &[] };
        person(&mut root, &format!("uid={number},ou={unit}"), more);
    }
    let lines = [
        format!("a: constant l (Paris|Rome) default below ou=a,{SUFFIX}"),
        format!("b: constant l (Oslo) override below ou=a,{SUFFIX} where (uid=1*)"),
        "c: constant l (Bern) merge where (uid=2*)".to_owned(),
        "d: template l \"{uid}\" where (uid=3*)".to_owned(),
        format!("e: superior l from l below ou=b,{SUFFIX} where (objectClass=person)"),
    ];
    let mut on: Vec<&str> = Vec::new();
    for round in 0..40 {
        let line = &lines[below(5)];
        match on.iter().position(|one| one == line) {
            Some(at) => {
                on.remove(at);
                change(&mut root, CONFIG, &[(Delete, "roster-virtual-attribute", &[line])]);
            }
            None => {
                on.push(line);
                define(&mut root, line);
            }
        }
        change(&mut root, "ou=b", &[(Replace, "l", &[places[round % 4]])]);
        let filter = "(uid=*)";
        let all = root.search(&Asked { filter, attributes: &["l", "uid"], ..Asked::default() });
        let of = |wants: &dyn Fn(&[String]) -> bool| {
            let mut names: Vec<&str> = Vec::new();
            for entry in &all.entries {
                if wants(&entry.texts("l")) {
                    names.push(&entry.dn);
                }
            }
            names.into_iter().map(str::to_owned).collect::<BTreeSet<String>>()
        };
        let place = places[round % 4];
        let has = |values: &[String]| values.iter().any(|one| one == place);
        let starts = |values: &[String]| values.iter().any(|one| one.starts_with(&place[..1]));
        for (filter, want) in [
            (format!("(l={place})"), of(&has)),
            (format!("(!(l={place}))"), of(&|values| !has(values))),
            ("(l=*)".to_owned(), of(&|values| !values.is_empty())),
            ("(!(l=*))".to_owned(), of(&<[String]>::is_empty)),
            (format!("(l={}*)", &place[..1]), of(&starts)),
            (format!("(|(l={place})(l=Nowhere))"), of(&has)),
        ] {
            let filter = &format!("(&(uid=*){filter})");
            let answer = root.search(&Asked { filter, attributes: &["1.1"], ..Asked::default() });
            let found: BTreeSet<String> =
                answer.names().iter().map(|&one| one.to_owned()).collect();
            assert_eq!(found, want, "{filter} with {on:?}");
        }
    }
}

/// What of the values of `l`, `c-l` and `st` makes an entry one.
type Wants<'w> = &'w dyn Fn(&[String], &[String], &[String]) -> bool;

/// What subentries and templates give is found as reading tells it, and among few entries.
#[test]
fn filters_find_what_is_given_in_subtrees() {
    let (_served, mut root) = served();
    let mut chance = SeededChance(54);
    let mut below = |most: usize| {
        let mut octets = [0; 2];
        chance.fill(&mut octets);
        usize::from(u16::from_le_bytes(octets)) % most
    };
    let units = ["ou=a", "ou=b", "ou=c,ou=a", "ou=d,ou=c,ou=a"];
    for unit in &units[2..] {
        add(&mut root, unit, &[("objectClass", &["organizationalUnit"])]);
    }
    let places = ["Paris", "Rome", "Oslo"];
    for number in 0..50 {
        let stored: [(&str, &[&str]); 2] = [("l", &[places[below(3)]]), ("st", &["Rome"])];
        let more = &stored[..below(3)];
        person(&mut root, &format!("uid={number},{}", units[below(4)]), more);
    }
    template(&mut root, "cn=t", &[("st", &["Paris", "Oslo"])]);
    let (target, pointed) = (dn("ou=c,ou=a"), dn("cn=t"));
    let subtrees = ["{ base \"ou=a\" }", "{ base \"ou=c,ou=a\", minimum 1 }", "{ base \"ou=b\" }"];
    let mut on: Vec<usize> = Vec::new();
    for round in 0..40 {
        let which = below(5);
        let name = format!("cn=s{which}");
        if let Some(at) = on.iter().position(|one| *one == which) {
            on.remove(at);
            assert_eq!(root.delete(&dn(&name)), OK);
        } else {
            on.push(which);
            match subtrees.get(which) {
                Some(subtree) => share(&mut root, &name, subtree, &[("c-l", &[places[which]])]),
                None => {
                    let mut definition: Vec<(&str, &[&str])> = vec![
                        ("objectClass", &["cosPointerDefinition", "extensibleObject"]),
                        ("cosAttribute", if which == 3 { &["st"] } else { &["st override"] }),
                    ];
                    let (target, pointed) = ([&*target], [&*pointed]);
                    definition.push(("cosTemplateDn", &pointed));
                    if which == 4 {
                        definition.push(("cosTargetTree", &target));
                    }
                    add(&mut root, &name, &definition);
                }
            }
        }
        let attributes = &["l", "c-l", "st"][..];
        let all = root.search(&Asked { filter: "(uid=*)", attributes, ..Asked::default() });
        let named = |wants: Wants<'_>| {
            let entries = all
                .entries
                .iter()
                .filter(|entry| wants(&entry.texts("l"), &entry.texts("c-l"), &entry.texts("st")));
            entries.map(|entry| entry.dn.clone()).collect::<BTreeSet<String>>()
        };
        let place = places[round % 3];
        let is = |values: &[String]| values.iter().any(|one| one == place);
        let starts = |values: &[String]| values.iter().any(|one| one.starts_with(&place[..1]));
        for (filter, want) in [
            (format!("(c-l={place})"), named(&|_, shared, _| is(shared))),
            (format!("(l={place})"), named(&|own, shared, _| is(own) || is(shared))),
            (format!("(!(c-l={place}))"), named(&|_, shared, _| !is(shared))),
            ("(c-l=*)".to_owned(), named(&|_, shared, _| !shared.is_empty())),
            ("(!(c-l=*))".to_owned(), named(&|_, shared, _| shared.is_empty())),
            (format!("(c-l={}*)", &place[..1]), named(&|_, shared, _| starts(shared))),
            (format!("(st={place})"), named(&|_, _, given| is(given))),
            (format!("(!(st={place}))"), named(&|_, _, given| !is(given))),
            (format!("(|(c-l={place})(st={place}))"), named(&|_, one, two| is(one) || is(two))),
            (format!("(&(c-l={place})(st={place}))"), named(&|_, one, two| is(one) && is(two))),
        ] {
            let asked = Asked { filter: &filter, attributes: &["1.1"], ..Asked::default() };
            let answer = root.search(&asked);
            let names = answer.names();
            let found: BTreeSet<String> = names
                .iter()
                .filter(|name| name.starts_with("uid="))
                .map(|&one| one.to_owned())
                .collect();
            assert_eq!(found, want, "{filter} with {on:?}");
        }
    }
}

/// Only the entries of the subtree were candidates that the filter had to be tested on.
#[test]
fn a_shared_value_is_looked_for_where_it_is_shared() {
    let (_served, mut root) = served();
    for number in 0..300 {
        person(&mut root, &format!("uid={number},ou=b"), &[]);
    }
    share(&mut root, "cn=s", "{ base \"ou=a\" }", &[("c-l", &["Paris"])]);
    let mut candidates = |filter: &str| {
        let answer = root.search(&Asked { filter, attributes: &["1.1"], ..Asked::default() });
        assert_eq!(answer.code(), OK);
        let completion = root.connection.completion.as_ref().unwrap();
        (answer.entries.len(), completion.candidates)
    };
    for filter in ["(c-l=Paris)", "(c-l=*)", "(c-l=P*)", "(&(sn=Ek)(c-l=Paris))"] {
        let (found, looked) = candidates(filter);
        assert!((1..=2).contains(&found) && looked <= 3, "{filter}: {found} of {looked}");
    }
    assert_eq!(candidates("(l=Rome)"), (0, 0));
    let (found, looked) = candidates("(l=Paris)");
    assert!(found == 2 && looked <= 3, "{found} of {looked}");
}

#[test]
fn what_is_operational_is_sent_to_those_who_name_it() {
    let (_served, mut root) = served();
    template(&mut root, "cn=t", &[("l", &["Paris"]), ("st", &["France"])]);
    add(
        &mut root,
        "cn=d,ou=a",
        &[
            ("objectClass", &["cosPointerDefinition"]),
            ("cosAttribute", &["l operational", "st operational-default"]),
            ("cosTemplateDn", &[&dn("cn=t")]),
        ],
    );
    let mut texts = |name: &str, attributes: &[&str]| {
        let answer = ask(&mut root, name, attributes);
        (answer.entries[0].texts("l").concat(), answer.entries[0].texts("st").concat())
    };
    for attributes in [&["*"][..], &[], &["*", "+"], &["cn"]] {
        assert_eq!(texts("uid=x,ou=a", attributes), (String::new(), String::new()));
    }
    assert_eq!(texts("uid=x,ou=a", &["l", "st"]), ("Paris".into(), "France".into()));
    assert_eq!(texts("uid=x,ou=a", &["*", "st"]), (String::new(), "France".into()));
    assert_eq!(found(&mut root, "(&(uid=x)(l=Paris))"), set(&["uid=x,ou=a"]));
    // One that is stored is asked for with all others.
    change(&mut root, "uid=x,ou=a", &[(Add, "l", &["Rome"]), (Add, "st", &["Italy"])]);
    let mut texts = |attributes: &[&str]| {
        let answer = ask(&mut root, "uid=x,ou=a", attributes);
        (answer.entries[0].texts("l").concat(), answer.entries[0].texts("st").concat())
    };
    assert_eq!(texts(&["*"]), ("Paris".into(), "Italy".into()));
    assert_eq!(texts(&["l", "st"]), ("Paris".into(), "Italy".into()));
}
