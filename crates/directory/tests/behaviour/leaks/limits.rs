//! What limits tell is the same whatever is hidden.

use std::collections::BTreeMap;

use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;

use super::controls::put;
use super::{PEOPLE, SECRET};
use crate::counting::{Says, count_of};
use crate::support::{Asked, Client, SUFFIX, Served};

/// A control's OID, criticality and value.
type AskedControl = (&'static str, bool, Option<&'static [u8]>);

const SORT: AskedControl = ("1.2.840.113556.1.4.473", true, Some(b"\x30\x06\x30\x04\x04\x02cn"));
const PAGED: AskedControl = ("1.2.840.113556.1.4.319", true, Some(b"\x30\x05\x02\x01\x04\x04\x00"));
const REJECT: AskedControl = ("1.3.6.1.4.1.30221.2.5.54", true, None);
/// The second to the fourth of a list.
const PART: AskedControl = (
    "2.16.840.1.113730.3.4.9",
    true,
    Some(b"\x30\x0e\x02\x01\x00\x02\x01\x02\xa0\x06\x02\x01\x02\x02\x01\x00"),
);

const CONTROLS: &[&[AskedControl]] =
    &[&[], &[SORT], &[PAGED], &[REJECT], &[SORT, PAGED], &[SORT, REJECT], &[SORT, PART]];

/// What no index answers, alone and beside what indexes answer: of visible entries, of hidden ones,
/// and of both.
const FILTERS: &[&str] = &[
    "(description=y)",
    "(description=x)",
    "(!(description=y))",
    "(&(objectClass=device)(description=y*))",
    "(&(objectClass=account)(description=y))",
    "(&(objectClass=account)(!(description=y)))",
    "(&(uid=*)(description=x))",
    "(uid=*)",
    "(cn=device*)",
    "(objectClass=account)",
    "(objectClass=*)",
    "(|(uid=hidden 3)(description=y))",
    "(&(|(uid=hidden 3)(cn=device 1)(cn=device 2)(cn=device 9))(description=y))",
    "(&(|(objectClass=account)(cn=device 1)(cn=device 2))(description=z))",
    "(&(|(uid=hidden*)(cn=device*))(description=*y*))",
    "(&(!(uid=hidden 3))(description=y))",
    "(&(cn=*)(!(objectClass=account))(description=y))",
    "(serialNumber=3)",
    "(cn=device 1)",
    "(manager:1.2.840.113556.1.4.1941:=cn=device 1,ou=people,dc=example,dc=org)",
    "(member:1.2.840.113556.1.4.1941:=cn=device 1,ou=people,dc=example,dc=org)",
];

/// Where a serial number may not be searched for.
const CLOSED: &str = "ou=closed,dc=example,dc=org";

/// 24 entries that may be seen, and, among them in the order of ids, so many for each that may not.
fn world(hidden_for_each: usize, adjust: fn(&mut directory::Limits)) -> Served {
    let served = Served::with(|options| {
        adjust(&mut options.limits);
        options.limits.size_limit_entries = 12;
    });
    let mut root = served.root();
    let mut add = |name: &str, attributes: &[(&str, &[&str])]| {
        assert_eq!(root.add(name, attributes), ResultCode::Success, "{name}");
    };
    for unit in [PEOPLE, SECRET, CLOSED] {
        add(unit, &[("objectClass", &["organizationalUnit"])]);
    }
    let referral: &[&str] = &["referral", "extensibleObject"];
    for number in 0..3 {
        let name = format!("cn=elsewhere {number},{PEOPLE}");
        add(&name, &[("objectClass", referral), ("ref", &["ldap://elsewhere.example.org"])]);
        let device: [(&str, &[&str]); 2] = [("objectClass", &["device"]), ("serialNumber", &["3"])];
        add(&format!("cn=device {number},{CLOSED}"), &device);
    }
    let mut hidden = 0;
    if hidden_for_each > 0 {
        let alias: &[&str] = &["alias", "extensibleObject"];
        let name = format!("cn=alias,{SECRET}");
        add(&name, &[("objectClass", alias), ("aliasedObjectName", &[PEOPLE])]);
        for number in 0..12 {
            let name = format!("cn=elsewhere {number},{SECRET}");
            add(&name, &[("objectClass", referral), ("ref", &["ldap://elsewhere.example.org"])]);
        }
    }
    for number in 0..24 {
        let description = if number % 8 == 0 { "x" } else { "z" };
        let attributes: [(&str, &[&str]); 2] =
            [("objectClass", &["device"]), ("description", &[description])];
        add(&format!("cn=device {number},{PEOPLE}"), &attributes);
        for _ in 0..hidden_for_each {
            let attributes: [(&str, &[&str]); 2] =
                [("objectClass", &["account"]), ("description", &["y"])];
            add(&format!("uid=hidden {hidden},{SECRET}"), &attributes);
            hidden += 1;
        }
    }
    let deny = r#"(version 3.0; acl "hidden"; deny (all) userdn="ldap:///anyone";)"#;
    put(&mut root, SECRET, deny);
    let deny = concat!(
        r#"(targetattr="serialNumber")(version 3.0; acl "not to be asked for"; "#,
        r#"deny (search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, CLOSED, deny);
    served
}

/// Everything that is told of one search; the order of answers tells whether later requests can
/// overtake it.
fn told_of(client: &mut Client, asked: &Asked<'_>) -> String {
    let before = client.connection.overtaken;
    let answer = client.search(asked);
    let overtaken = client.connection.overtaken - before;
    let (code, why, names) = (answer.code(), &answer.diagnostic, answer.names());
    format!("{code:?} {why} {names:?} {overtaken}")
}

/// Everything that is told of one search in every form.
fn told(client: &mut Client, base: &str, filter: &str) -> Vec<String> {
    let mut all = Vec::new();
    let ways = [
        (Scope::Subtree, DerefAliases::Never),
        (Scope::One, DerefAliases::Never),
        (Scope::Subtree, DerefAliases::Always),
    ];
    // Aliases lead to all of it, which takes its time.
    let ways = &ways[..if base == CLOSED { 3 } else { 2 }];
    for &(scope, deref) in ways {
        let asked = Asked { base, scope, deref, filter, ..Asked::default() };
        for controls in CONTROLS {
            for size_limit_entries in [0, 2] {
                let asked = Asked { controls, size_limit_entries, ..asked.clone() };
                let which: Vec<&str> = controls.iter().map(|(oid, ..)| *oid).collect();
                let what = format!("{scope:?} {which:?} {size_limit_entries}");
                all.push(format!("{what}: {}", told_of(client, &asked)));
            }
        }
        for even_unindexed in [false, true] {
            for examine_max in [0, 6, 1_000] {
                let says = Says { examine_max, always_examine: false, even_unindexed };
                let before = client.connection.overtaken;
                let (answer, told) = count_of(client, &asked, says);
                let overtaken = client.connection.overtaken - before;
                all.push(format!("{scope:?} {says:?}: {:?} {told} {overtaken}", answer.code()));
            }
        }
    }
    all
}

/// A filter with a part for a hidden entry was refused as unindexed or not, by whether that entry
/// was there; the look-through limit counted entries that may not be seen; an order or a chain that
/// no index helps was refused by how many entries there were, hidden ones too.
#[test]
fn limits_are_the_same_whatever_is_hidden() {
    let adjusts: [fn(&mut directory::Limits); 4] = [
        |limits| limits.unindexed_entries = 5,
        |limits| limits.look_through_limit_entries = 7,
        |limits| (limits.unindexed_entries, limits.look_through_limit_entries) = (4, 20),
        |limits| limits.unindexed_entries = 100,
    ];
    for adjust in adjusts {
        let worlds = [0, 60].map(|hidden| world(hidden, adjust));
        for base in [SUFFIX, PEOPLE, CLOSED, SECRET] {
            for filter in FILTERS {
                let mut all = worlds.iter().map(|served| told(&mut served.client(), base, filter));
                let first = all.next().unwrap();
                for other in all {
                    for (one, other) in first.iter().zip(&other) {
                        assert_eq!(one, other, "{base} {filter}");
                    }
                }
            }
        }
    }
}

/// How many candidates there were, hidden ones too, decided whether a search was answered where
/// requests are read; the order of two answers told which it was.
#[test]
fn whether_later_requests_overtake_a_search_is_the_same_whatever_is_hidden() {
    let adjusts: [fn(&mut directory::Limits); 3] = [
        |limits| limits.inline_candidates_max = 30,
        |limits| limits.inline_candidates_max = 12,
        |limits| limits.inline_work_max = 3_000,
    ];
    let mut overtaken = [0, 0];
    for adjust in adjusts {
        let worlds = [0, 1, 8].map(|hidden| world(hidden, adjust));
        for base in [SUFFIX, PEOPLE, CLOSED] {
            for filter in FILTERS {
                let mut all = worlds.iter().map(|served| told(&mut served.client(), base, filter));
                let first = all.next().unwrap();
                for one in &first {
                    overtaken[usize::from(one.ends_with(" 1"))] += 1;
                }
                for other in all {
                    for (one, other) in first.iter().zip(&other) {
                        assert_eq!(one, other, "{base} {filter}");
                    }
                }
            }
        }
    }
    assert!(overtaken.iter().all(|&count| count > 100), "{overtaken:?}");
}

/// A hidden candidate was work like any other: whether the limit of work was exceeded told whether
/// there was one.
#[test]
fn the_limit_of_work_counts_nothing_that_is_hidden() {
    let worlds = [0, 1, 8].map(|hidden| {
        world(hidden, |limits| {
            limits.search_work_anonymous_max = 1;
            limits.inline_work_max = 100_000;
        })
    });
    let costly = (0..700).map(|term| format!("(description~=nobody{term})")).collect::<String>();
    let mut codes = BTreeMap::new();
    for hidden in ["(uid=hidden 3)", "(objectClass=account)", "(serialNumber=3)"] {
        for count in 0..24 {
            let seen = (0..count).map(|one| format!("(cn=device {one})")).collect::<String>();
            let filter = format!("(&(|{hidden}{seen})(|{costly}))");
            for controls in [&[][..], &[SORT], &[SORT, PART]] {
                let asked = Asked { filter: &filter, controls, ..Asked::default() };
                let mut all = worlds.iter().map(|served| told_of(&mut served.client(), &asked));
                let first = all.next().unwrap();
                for other in all {
                    assert_eq!(first, other, "{hidden} {count} {controls:?}");
                }
                let code = first.split(' ').next().unwrap().to_owned();
                *codes.entry(code).or_insert(0) += 1;
            }
        }
    }
    assert!(codes["Success"] > 20 && codes["AdminLimitExceeded"] > 20, "{codes:?}");
}

/// The refusal of an unindexed sort told how many entries there were, to whoever may see them all:
/// how many of them have a value that may not be searched for, in some of them alone.
#[test]
fn a_refusal_counts_nothing_by_values_that_may_not_be_searched() {
    let served = Served::with(|options| options.limits.unindexed_entries = 0);
    let mut root = served.root();
    for (number, description) in ["x", "z"].into_iter().enumerate() {
        let attributes: [(&str, &[&str]); 3] = [
            ("objectClass", &["device"]),
            ("serialNumber", &["3"]),
            ("description", &[description]),
        ];
        let name = format!("cn=device {number},{SUFFIX}");
        assert_eq!(root.add(&name, &attributes), ResultCode::Success);
    }
    let deny = concat!(
        r#"(targetattr="serialNumber")(targetfilter="(description=x)")(version 3.0; acl "some"; "#,
        r#"deny (search) userdn="ldap:///anyone";)"#,
    );
    put(&mut root, SUFFIX, deny);
    let mut client = served.client();
    for filter in ["(&(|(serialNumber=3)(objectClass=domain))(description=y))", "(description=y)"] {
        let asked = Asked { filter, controls: &[SORT], ..Asked::default() };
        let answer = client.search(&asked);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{filter}");
        let is_told = !filter.contains("serialNumber");
        let tells = answer.diagnostic.contains("all entries");
        assert_eq!(tells, !is_told, "{filter}: {}", answer.diagnostic);
    }
}
