//! Accounts that a Class of Service switches off, as whole roles are by 389 and Sun.

use ldap::message::ModifyOperation::{Add, Delete, Replace};
use ldap::result::ResultCode;

use crate::support::{Client, Served};
use crate::virtual_attributes::{
    add, ask, change, check, dn, found, person, served, set, template, values,
};

const OK: ResultCode = ResultCode::Success;
const PASSWORD: &str = "secret phrase 1";

fn account(root: &mut Client, name: &str, more: &[(&str, &[&str])]) {
    person(root, name, &[&[("userPassword", &[PASSWORD][..])], more].concat());
}

#[track_caller]
fn check_bind(served: &Served, name: &str, want: ResultCode) {
    assert_eq!(served.client().bind(&dn(name), PASSWORD), want, "{name}");
}

/// As 389's `ns-inactivate.pl` makes it: a nested role of all that are switched off, and a Class of
/// Service for it.
fn inactivation(root: &mut Client) {
    let subentry = ["ldapSubentry", "extensibleObject"];
    add(
        root,
        "cn=nsManagedDisabledRole",
        &[("objectClass", &["ldapSubentry", "nsManagedRoleDefinition"])],
    );
    add(
        root,
        "cn=nsDisabledRole",
        &[
            ("objectClass", &["ldapSubentry", "nsNestedRoleDefinition"]),
            ("nsRoleDN", &[&dn("cn=nsManagedDisabledRole")]),
        ],
    );
    add(root, "cn=inactivation", &[("objectClass", &["nsContainer"])]);
    let role = dn("cn=nsDisabledRole");
    add(
        root,
        &format!("cn=\"{role}\",cn=inactivation"),
        &[
            ("objectClass", &["costemplate", "extensibleObject", "ldapSubentry"]),
            ("nsAccountLock", &["true"]),
            ("cosPriority", &["0"]),
        ],
    );
    add(
        root,
        "cn=inactivation_cos",
        &[
            ("objectClass", &[&["cosClassicDefinition"], &subentry[..]].concat()),
            ("cosTemplateDn", &[&dn("cn=inactivation")]),
            ("cosSpecifier", &["nsRole"]),
            ("cosAttribute", &["nsAccountLock operational"]),
        ],
    );
}

#[test]
fn a_role_is_switched_off_by_a_class_of_service() {
    let (served, mut root) = served();
    let locked = ResultCode::InvalidCredentials;
    add(
        &mut root,
        "cn=clerks",
        &[
            ("objectClass", &["ldapSubentry", "nsFilteredRoleDefinition"]),
            ("nsRoleFilter", &["(title=clerk)"]),
        ],
    );
    account(&mut root, "uid=anna", &[("title", &["clerk"])]);
    account(&mut root, "uid=bob", &[]);
    account(&mut root, "uid=carl", &[("nsAccountLock", &["true"])]);
    inactivation(&mut root);
    check_bind(&served, "uid=anna", OK);
    check_bind(&served, "uid=carl", locked);
    let mut anna = served.client();
    assert_eq!(anna.bind(&dn("uid=anna"), PASSWORD), OK);
    // A role, and one person by the managed role for that.
    change(&mut root, "cn=nsDisabledRole", &[(Add, "nsRoleDN", &[&dn("cn=clerks")])]);
    change(&mut root, "uid=bob", &[(Add, "nsRoleDN", &[&dn("cn=nsManagedDisabledRole")])]);
    for name in ["uid=anna", "uid=bob"] {
        check_bind(&served, name, locked);
        assert_eq!(values(&mut root, name, "nsAccountLock"), set(&["true"]));
        assert!(ask(&mut root, name, &["*"]).entries[0].texts("nsAccountLock").is_empty());
    }
    let disabled = found(&mut root, "(nsAccountLock=true)");
    assert!(disabled.is_superset(&set(&["uid=anna", "uid=bob", "uid=carl"])), "{disabled:?}");
    // A session that began before does nothing more.
    let own = anna.modify(&dn("uid=anna"), &[(Replace, "userPassword", &["another phrase"])]);
    assert_eq!(own, ResultCode::InsufficientAccessRights);
    change(&mut root, "cn=nsDisabledRole", &[(Delete, "nsRoleDN", &[&dn("cn=clerks")])]);
    check_bind(&served, "uid=anna", OK);
    check_bind(&served, "uid=bob", locked);
    // What decides and cannot be read lets nobody in.
    change(&mut root, "cn=nsDisabledRole", &[(Add, "nsRoleDN", &[&dn("cn=clerks")])]);
    let template = dn(&format!("cn=\"{}\",cn=inactivation", dn("cn=nsDisabledRole")));
    let store = served.directory.store();
    let key = schema::DnKey::from_text(&store.schema(), &template).unwrap();
    let place = store.reader().view().unwrap().resolve(&key).unwrap();
    let store::Resolved::Found(id) = place else { panic!("{template} is not there") };
    store.spoil(id).unwrap();
    check_bind(&served, "uid=anna", ResultCode::Other);
    check_bind(&served, "uid=carl", locked);
}

/// Neither with more roles than are looked at, nor with more parts of one, nor by a circle.
#[test]
fn no_number_of_roles_switches_anybody_on() {
    let (served, mut root) = served();
    let locked = ResultCode::InvalidCredentials;
    let filtered = ["ldapSubentry", "nsFilteredRoleDefinition"];
    let clerks: [(&str, &[&str]); 2] =
        [("objectClass", &filtered), ("nsRoleFilter", &["(title=clerk)"])];
    add(&mut root, "cn=clerks", &clerks);
    account(&mut root, "uid=anna", &[("title", &["clerk"])]);
    account(&mut root, "uid=bob", &[]);
    inactivation(&mut root);
    let parts: Vec<String> = (0..20).map(|number| dn(&format!("cn=no{number}"))).collect();
    let mut parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (own, clerks_name) = (dn("cn=nsDisabledRole"), dn("cn=clerks"));
    parts.extend([&*own, &*clerks_name]);
    change(&mut root, "cn=nsDisabledRole", &[(Add, "nsRoleDN", &parts)]);
    check_bind(&served, "uid=anna", locked);
    check_bind(&served, "uid=bob", OK);
    let other: [(&str, &[&str]); 2] =
        [("objectClass", &filtered), ("nsRoleFilter", &["(objectClass=*)"])];
    for number in 0..1_001 {
        add(&mut root, &format!("cn=r{number}"), &other);
    }
    check_bind(&served, "uid=anna", locked);
    check_bind(&served, "uid=bob", OK);
}

#[test]
fn what_is_given_switches_accounts_off_as_if_it_were_stored() {
    let (served, mut root) = served();
    let locked = ResultCode::InvalidCredentials;
    account(&mut root, "uid=anna,ou=a", &[]);
    account(&mut root, "uid=bob,ou=a", &[("nsAccountLock", &["false"])]);
    account(&mut root, "uid=carl,ou=a", &[("nsAccountLock", &["true"])]);
    account(&mut root, "uid=dora,ou=b", &[]);
    template(&mut root, "cn=t", &[("nsAccountLock", &["true"])]);
    let template = dn("cn=t");
    for (how, given, bound) in [
        ("nsAccountLock", "true", [locked, OK, locked]),
        ("nsAccountLock operational-default", "true", [locked, OK, locked]),
        ("nsAccountLock override", "true", [locked, locked, locked]),
        ("nsAccountLock operational", "true", [locked, locked, locked]),
        ("nsAccountLock operational", "false", [OK, OK, OK]),
        ("nsAccountLock", "false", [OK, OK, locked]),
    ] {
        change(&mut root, "cn=t", &[(Replace, "nsAccountLock", &[given])]);
        add(
            &mut root,
            "cn=d,ou=a",
            &[
                ("objectClass", &["cosPointerDefinition"]),
                ("cosAttribute", &[how]),
                ("cosTemplateDn", &[&template]),
            ],
        );
        for (name, want) in ["uid=anna,ou=a", "uid=bob,ou=a", "uid=carl,ou=a"].iter().zip(bound) {
            assert_eq!(served.client().bind(&dn(name), PASSWORD), want, "{name}: {how} {given}");
        }
        check_bind(&served, "uid=dora,ou=b", OK);
        assert_eq!(root.delete(&dn("cn=d,ou=a")), OK);
    }
    check_bind(&served, "uid=anna,ou=a", OK);
    // Nothing else that the server acts on is given.
    template_of_policy(&mut root, &served);
}

fn template_of_policy(root: &mut Client, served: &Served) {
    template(root, "cn=p", &[("pwdAccountLockedTime", &["000001010000Z"])]);
    add(
        root,
        "cn=d,ou=a",
        &[
            ("objectClass", &["cosPointerDefinition"]),
            ("cosAttribute", &["pwdAccountLockedTime operational"]),
            ("cosTemplateDn", &[&dn("cn=p")]),
        ],
    );
    check_bind(served, "uid=anna,ou=a", OK);
    check(root, "uid=anna,ou=a", "pwdAccountLockedTime", &[]);
}
