//! A negation tells nothing of values that may not be searched, of an attribute of which others
//! may: an index of the attribute holds them, too.

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use super::PEOPLE;
use super::ways::searched;
use crate::support::{Asked, SUFFIX, Served};

const ACI: &str =
    r#"(targetattr="cn;x-hidden")(version 3.0; acl "x"; deny (all) userdn="ldap:///anyone";)"#;
const BADGE: &str = concat!(
    "( 1.3.6.1.4.1.99999.1.1 NAME 'badge' SUP mail EQUALITY caseIgnoreIA5Match ",
    "X-SECRET 'TRUE' )"
);
const FILTERS: &[&str] = &[
    "(!(cn=4711))",
    "(!(cn;x-hidden=4711))",
    "(!(cn=47*))",
    "(!(cn=*71*))",
    "(!(name=4711))",
    "(!(cn~=4711))",
    "(!(cn:caseIgnoreMatch:=4711))",
    "(!(&(cn=4711)(uid=*)))",
    "(!(|(cn=4711)(uid=b)))",
    "(&(uid=*)(!(cn=4711)))",
    "(&(sn=s)(!(cn=4711)))",
    "(|(cn=4711)(!(uid=*)))",
    "(|(!(cn=4711))(uid=b))",
    "(!(mail=4711))",
    "(!(mail=47*))",
    "(!(mail=*))",
    "(!(badge=4711))",
    "(!(badge=*))",
    "(&(sn=s)(!(mail=*)))",
    "(&(employeeType=e)(!(cn=4711)))",
    "(&(departmentNumber=l)(title=t)(!(mail=*)))",
    "(cn=4711)",
    "(mail=*)",
];

/// People, one of whom has hidden values.
fn world(hidden: &str) -> Served {
    let served = Served::new();
    let mut root = served.root();
    let added = root.modify("cn=schema", &[(ModifyOperation::Add, "attributeTypes", &[BADGE])]);
    assert_eq!(added, ResultCode::Success);
    for index in ["equality mail", "substring mail", "presence mail", "presence cn"] {
        let (kind, attribute) = index.split_once(' ').unwrap();
        let name = format!("ds-cfg-attribute={attribute},cn=Index,cn=config");
        let changed = root.modify(&name, &[(ModifyOperation::Add, "ds-cfg-index-type", &[kind])]);
        assert!(
            matches!(changed, ResultCode::Success | ResultCode::AttributeOrValueExists),
            "{index}: {changed:?}"
        );
    }
    for index in [
        "equality employeeType where (!(cn=4711))",
        "equality departmentNumber with title where (!(mail=*))",
    ] {
        let attribute = index.split(' ').nth(1).unwrap();
        let name = format!("ds-cfg-attribute={attribute},cn=Index,cn=config");
        let added = root.add(&name, &[("roster-index-definition", &[index])]);
        assert_eq!(added, ResultCode::Success, "{index}");
    }
    let class: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
    assert_eq!(root.add(PEOPLE, &[class]), ResultCode::Success);
    for uid in ["a", "b", "c"] {
        let name = format!("uid={uid},{PEOPLE}");
        let other = if uid == "b" { hidden } else { "other" };
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson", "extensibleObject"]),
            ("uid", &[uid]),
            ("cn", &["person"]),
            ("sn", &["s"]),
            ("employeeType", &["e"]),
            ("departmentNumber", &["l"]),
            ("title", &["t"]),
            ("cn;x-hidden", &[other]),
        ];
        assert_eq!(root.add(&name, attributes), ResultCode::Success, "{uid}");
        if uid == "b" && hidden == "4711" {
            let badge = root.modify(&name, &[(ModifyOperation::Add, "badge", &[hidden])]);
            assert_eq!(badge, ResultCode::Success);
        }
    }
    assert_eq!(root.modify(SUFFIX, &[(ModifyOperation::Add, "aci", &[ACI])]), ResultCode::Success);
    served
}

#[test]
fn a_negation_tells_nothing_of_values_that_may_not_be_searched() {
    let worlds = ["4711", "0815"].map(world);
    for filter in FILTERS {
        for (base, scope) in [
            (PEOPLE, Scope::Subtree),
            (PEOPLE, Scope::One),
            ("uid=b,ou=people,dc=example,dc=org", Scope::Base),
        ] {
            let asked = Asked { base, scope, filter, attributes: &["1.1"], ..Asked::default() };
            let [one, other] = [0, 1].map(|at| {
                let mut client = worlds[at].client();
                format!("{:#?}", searched(&mut client, &asked, ["cn", "description"]))
            });
            assert_eq!(one, other, "{filter} {base} {scope:?}");
        }
    }
}
