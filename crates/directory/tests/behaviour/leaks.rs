//! No leak by any path: a small tree is crawled as several identities, through every operation
//! and control, and the answers are compared with what a naive evaluator allows, and with the
//! answers about what is not there.

mod controls;
mod interleaved;
mod limits;
mod negations;
mod plainly;
mod random;
mod streams;
mod ways;
mod whole_entries;

use std::collections::BTreeMap;

use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::message::{
    CompareRequest, Control, ControlsBuf, DeleteRequest, ModifyDnRequest, ModifyOperation,
    ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::counting::{Says, count};
use crate::support::{Answer, Asked, Client, SUFFIX, Served, modifications};

const ACCESS_CONFIG: &str = "cn=Access Control Handler,cn=config";
const PEOPLE: &str = "ou=people,dc=example,dc=org";
const SECRET: &str = "ou=secret,dc=example,dc=org";
const ADMINS: &str = "cn=admins,ou=groups,dc=example,dc=org";

/// The ACIs: who holds them, and their texts.
const ACIS: &[(&str, &str)] = &[
    (
        PEOPLE,
        concat!(
            r#"(targetattr="objectClass || cn || uid || sn")(version 3.0; acl "names"; "#,
            r#"allow (read, search, compare) userdn="ldap:///anyone";)"#,
        ),
    ),
    (
        PEOPLE,
        concat!(
            r#"(targetattr="telephoneNumber")(version 3.0; acl "read alone"; allow (read) "#,
            r#"userdn="ldap:///all";)"#,
        ),
    ),
    (
        PEOPLE,
        concat!(
            r#"(targetattr="mail")(version 3.0; acl "search alone"; allow (search) "#,
            r#"userdn="ldap:///all";)"#,
        ),
    ),
    (
        PEOPLE,
        concat!(
            r#"(targetattr="employeeNumber")(version 3.0; acl "compare alone"; allow "#,
            r#"(compare) userdn="ldap:///all";)"#,
        ),
    ),
    (
        PEOPLE,
        concat!(
            r#"(targetattr="sn")(targetfilter="(uid=carla)")(version 3.0; acl "not to "#,
            r#"bert"; deny (all) userdn="ldap:///uid=bert,ou=people,dc=example,dc=org";)"#,
        ),
    ),
    (
        PEOPLE,
        concat!(
            r#"(targetattr="description")(version 3.0; acl "own"; allow (read, search, "#,
            r#"write) userdn="ldap:///self";)"#,
        ),
    ),
    (
        SECRET,
        concat!(
            r#"(targetattr="*")(version 3.0; acl "admins"; allow (read, search, compare) "#,
            r#"groupdn="ldap:///cn=admins,ou=groups,dc=example,dc=org";)"#,
        ),
    ),
];

const ATTRIBUTES: &[&str] =
    &["objectClass", "cn", "uid", "sn", "telephoneNumber", "mail", "employeeNumber", "description"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Right {
    Read,
    Search,
    Compare,
    Write,
}

type Tree = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn person(uid: &str) -> String {
    format!("uid={uid},{PEOPLE}")
}

/// What is allowed, read off the ACIs by hand.
fn allows(who: &str, dn: &str, attribute: &str, right: Right) -> bool {
    if who == "root" {
        return true;
    }
    let is_bound = who != "anonymous";
    if dn == SECRET || dn.ends_with(&format!(",{SECRET}")) {
        return who == "anna" && right != Right::Write;
    }
    if dn != PEOPLE && !dn.ends_with(&format!(",{PEOPLE}")) {
        return false;
    }
    match attribute {
        "sn" if who == "bert" && dn == person("carla") => false,
        "objectClass" | "cn" | "uid" | "sn" => right != Right::Write,
        "telephoneNumber" => is_bound && right == Right::Read,
        "mail" => is_bound && right == Right::Search,
        "employeeNumber" => is_bound && right == Right::Compare,
        "description" => is_bound && dn == person(who) && right != Right::Compare,
        _ => false,
    }
}

fn is_known(who: &str, dn: &str) -> bool {
    let rights = [Right::Read, Right::Search, Right::Compare];
    // All attributes there are count, not those of the entry alone.
    rights.into_iter().any(|right| ATTRIBUTES.iter().any(|one| allows(who, dn, one, right)))
}

fn is_visible(who: &str, dn: &str) -> bool {
    ATTRIBUTES.iter().any(|one| allows(who, dn, one, Right::Read))
}

/// The nearest superior of a name that `who` may know of.
fn nearest<'t>(tree: &'t Tree, who: &str, dn: &str) -> &'t str {
    let mut rest = dn;
    while let Some((_, above)) = rest.split_once(',') {
        if let Some((known, _)) = tree.get_key_value(above)
            && is_known(who, known)
        {
            return known;
        }
        rest = above;
    }
    ""
}

struct World {
    served: Served,
    tree: Tree,
}

impl World {
    fn new() -> Self {
        Self::on(Served::new())
    }

    fn on(served: Served) -> Self {
        let mut root = served.root();
        let mut tree = Tree::new();
        let mut add = |dn: &str, pairs: &[(&str, &str)]| {
            let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (name, value) in pairs {
                all.entry((*name).to_owned()).or_default().push((*value).to_owned());
            }
            let lists: Vec<(&str, Vec<&str>)> = all
                .iter()
                .map(|(name, values)| (name.as_str(), values.iter().map(String::as_str).collect()))
                .collect();
            let lists: Vec<(&str, &[&str])> =
                lists.iter().map(|(name, values)| (*name, values.as_slice())).collect();
            let answer = root.try_add(dn, &lists);
            assert_eq!(answer.code(), ResultCode::Success, "{dn}: {}", answer.diagnostic);
            all.remove("userPassword");
            tree.insert(dn.to_owned(), all);
        };
        let unit = [("objectClass", "organizationalUnit"), ("objectClass", "top")];
        add(PEOPLE, &[unit[0], unit[1], ("ou", "people")]);
        add(SECRET, &[unit[0], unit[1], ("ou", "secret"), ("description", "hidden")]);
        add(&format!("ou=groups,{SUFFIX}"), &[unit[0], unit[1], ("ou", "groups")]);
        for (number, uid) in ["anna", "bert", "carla"].into_iter().enumerate() {
            let (mail, phone) = (format!("{uid}@example.org"), format!("+49 {number}"));
            let employee = number.to_string();
            add(
                &person(uid),
                &[
                    ("objectClass", "inetOrgPerson"),
                    ("objectClass", "organizationalPerson"),
                    ("objectClass", "person"),
                    ("objectClass", "top"),
                    ("uid", uid),
                    ("cn", uid),
                    ("sn", ["Berg", "Tal", "See"][number]),
                    ("mail", &mail),
                    ("telephoneNumber", &phone),
                    ("employeeNumber", &employee),
                    ("description", "a person"),
                    ("userPassword", "secret"),
                ],
            );
        }
        for plan in ["one", "two"] {
            let device = [("objectClass", "device"), ("objectClass", "top"), ("cn", plan)];
            add(&format!("cn={plan},{SECRET}"), &[device[0], device[1], device[2]]);
        }
        let group = [("objectClass", "groupOfNames"), ("objectClass", "top"), ("cn", "admins")];
        add(ADMINS, &[group[0], group[1], group[2], ("member", &person("anna"))]);
        let asked = Asked { scope: Scope::Base, attributes: &["*"], ..Asked::default() };
        let suffix = root.search(&asked);
        let names =
            ATTRIBUTES.iter().map(|name| ((*name).to_owned(), suffix.entries[0].texts(name)));
        tree.insert(SUFFIX.to_owned(), names.filter(|(_, values)| !values.is_empty()).collect());
        for (holder, aci) in ACIS {
            let change = [(ModifyOperation::Add, "aci", &[*aci][..])];
            let answer = root.try_modify(holder, &change);
            assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        }
        // Nothing is allowed by default, but for controls and operations.
        let requests = [
            concat!(
                r#"(targetcontrol="*")(version 3.0; acl "controls"; allow (read) "#,
                r#"userdn="ldap:///anyone";)"#,
            ),
            r#"(extop="*")(version 3.0; acl "operations"; allow (read) userdn="ldap:///anyone";)"#,
        ];
        let global = [(ModifyOperation::Replace, "ds-cfg-global-aci", &requests[..])];
        let answer = root.try_modify(ACCESS_CONFIG, &global);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        Self { served, tree }
    }

    fn client(&self, who: &str) -> Client {
        let mut client = self.served.client();
        match who {
            "anonymous" => {}
            "root" => return self.served.root(),
            uid => assert_eq!(client.bind(&person(uid), "secret"), ResultCode::Success),
        }
        client
    }
}

const EVERYBODY: [&str; 5] = ["anonymous", "anna", "bert", "carla", "root"];

fn with_control(client: &mut Client, op: Request<'_>, control: Option<Control<'_>>) -> Answer {
    let mut list = ControlsBuf::new();
    if let Some(control) = control {
        list.push(control);
    }
    client.request(op, list.as_ref())
}

/// A filter on one attribute, as it was asked: value, presence, and their negations.
fn truths(world: &World, who: &str, dn: &str, attribute: &str, value: &str) -> [Option<bool>; 4] {
    if !allows(who, dn, attribute, Right::Search) {
        return [None; 4];
    }
    let values = world.tree[dn].get(attribute);
    let has = values.is_some_and(|all| all.iter().any(|one| one.eq_ignore_ascii_case(value)));
    let present = values.is_some();
    [Some(has), Some(present), Some(!has), Some(!present)]
}

#[test]
fn searches_tell_what_the_naive_evaluator_allows() {
    let world = World::new();
    for who in EVERYBODY {
        let mut client = world.client(who);
        for attribute in ATTRIBUTES {
            let values = world.tree.values().filter_map(|entry| entry.get(*attribute));
            for value in values.flatten() {
                let filters = [
                    format!("({attribute}={value})"),
                    format!("({attribute}=*)"),
                    format!("(!({attribute}={value}))"),
                    format!("(!({attribute}=*))"),
                ];
                for (place, filter) in filters.iter().enumerate() {
                    let answer = client.search(&Asked { filter, ..Asked::default() });
                    let mut want: Vec<&str> = world
                        .tree
                        .keys()
                        .filter(|dn| is_visible(who, dn))
                        .filter(|dn| truths(&world, who, dn, attribute, value)[place] == Some(true))
                        .map(String::as_str)
                        .collect();
                    let mut found = answer.names();
                    found.sort_unstable();
                    want.sort_unstable();
                    assert_eq!(found, want, "{who}: {filter}");
                }
            }
        }
    }
}

#[test]
fn entries_have_what_the_naive_evaluator_allows() {
    let world = World::new();
    for who in EVERYBODY.into_iter().filter(|who| *who != "root") {
        let mut client = world.client(who);
        for (dn, entry) in &world.tree {
            let asked =
                Asked { base: dn, scope: Scope::Base, attributes: &["*"], ..Asked::default() };
            let answer = client.search(&asked);
            if !is_known(who, dn) {
                assert_eq!(answer.code(), ResultCode::NoSuchObject, "{who}: {dn}");
                assert_eq!(answer.matched, nearest(&world.tree, who, dn), "{who}: {dn}");
                continue;
            }
            assert_eq!(answer.code(), ResultCode::Success, "{who}: {dn}");
            assert_eq!(answer.entries.len(), 1, "{who}: {dn}");
            for attribute in ATTRIBUTES {
                let want =
                    entry.get(*attribute).filter(|_| allows(who, dn, attribute, Right::Read));
                let mut want = want.cloned().unwrap_or_default();
                let mut found = answer.entries[0].texts(attribute);
                want.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, want, "{who}: {attribute} of {dn}");
            }
            let password = answer.entries[0].texts("userPassword");
            assert!(password.is_empty(), "{who}: {dn}");
        }
    }
}

#[test]
fn compares_tell_what_the_naive_evaluator_allows() {
    let world = World::new();
    for who in EVERYBODY {
        let mut client = world.client(who);
        for (dn, entry) in &world.tree {
            for attribute in ATTRIBUTES {
                for value in ["anna", "0", "person", "nobody"] {
                    let code = client.compare(dn, attribute, value);
                    if code == ResultCode::InvalidAttributeSyntax {
                        // Whatever the entry is.
                        continue;
                    }
                    let values = entry.get(*attribute);
                    let has = |all: &Vec<String>| all.iter().any(|one| one == value);
                    let want = if !is_known(who, dn) {
                        ResultCode::NoSuchObject
                    } else if !allows(who, dn, attribute, Right::Compare) {
                        ResultCode::InsufficientAccessRights
                    } else if values.is_none() {
                        ResultCode::NoSuchAttribute
                    } else if values.is_some_and(has) {
                        ResultCode::CompareTrue
                    } else {
                        ResultCode::CompareFalse
                    };
                    assert_eq!(code, want, "{who}: {dn} {attribute}={value}");
                }
            }
        }
    }
}

/// The entries in their order by an attribute, as whoever may not search it sees them: those whose
/// value is hidden come last, like those without one.
#[test]
fn an_order_tells_nothing_of_what_may_not_be_searched() {
    let world = World::new();
    for who in EVERYBODY {
        let mut client = world.client(who);
        for attribute in ["sn", "mail", "telephoneNumber", "uid"] {
            let key = SortKey { attribute, rule: None, reverse: false };
            let value = write_sort_keys(&[key]);
            let controls = [("1.2.840.113556.1.4.473", false, Some(value.as_slice()))];
            let asked = Asked { filter: "(uid=*)", controls: &controls, ..Asked::default() };
            let answer = client.search(&asked);
            let mut want: Vec<(Option<&str>, &str)> = Vec::new();
            for (dn, entry) in world.tree.iter().filter(|(_, entry)| entry.contains_key("uid")) {
                let value = entry.get(attribute).and_then(|all| all.first());
                let value = value.filter(|_| allows(who, dn, attribute, Right::Search));
                want.push((value.map(String::as_str), dn));
            }
            want.sort_by_key(|(value, _)| (value.is_none(), value.map(str::to_lowercase)));
            let is_hidden = want.iter().filter(|(value, _)| value.is_none()).count();
            let shown = want.len() - is_hidden;
            let found = answer.names();
            assert_eq!(found.len(), want.len(), "{who}: {attribute}");
            let want: Vec<&str> = want.iter().map(|(_, dn)| *dn).collect();
            assert_eq!(found[..shown], want[..shown], "{who}: {attribute}");
            // The rest is in the order of entry ids, which their values do not decide.
            let mut rest = found[shown..].to_vec();
            rest.sort_unstable();
            assert_eq!(rest, found[shown..], "{who}: {attribute}");
        }
    }
}

#[test]
fn a_count_counts_what_may_be_seen() {
    let world = World::new();
    let says = Says { examine_max: 1_000, always_examine: false, even_unindexed: true };
    for who in EVERYBODY.into_iter().filter(|who| *who != "root") {
        let mut client = world.client(who);
        for (filter, attribute) in
            [("(objectClass=*)", "objectClass"), ("(sn=*)", "sn"), ("(mail=*)", "mail")]
        {
            let (answer, told) = count(&mut client, PEOPLE, filter, says);
            assert_eq!(answer.code(), ResultCode::Success, "{who}: {}", answer.diagnostic);
            let want = world
                .tree
                .iter()
                .filter(|(dn, entry)| {
                    (*dn == PEOPLE || dn.ends_with(&format!(",{PEOPLE}")))
                        && entry.contains_key(attribute)
                        && allows(who, dn, attribute, Right::Search)
                        && is_visible(who, dn)
                })
                .count() as u64;
            let number =
                told.split(' ').nth(1).and_then(|number| number.trim_end_matches(',').parse().ok());
            assert_eq!(number, Some(want), "{who}: {filter}: {told}");
        }
        let (answer, _) = count(&mut client, SECRET, "(objectClass=*)", says);
        let want = if who == "anna" { ResultCode::Success } else { ResultCode::NoSuchObject };
        assert_eq!(answer.code(), want, "{who}");
    }
}

/// Whatever is asked about an entry that may not be known is answered as if it were not there.
#[test]
fn what_may_not_be_known_cannot_be_told_from_what_is_not_there() {
    let world = World::new();
    // (cn=one), and a list of one attribute selector.
    let assertion = b"\xa3\x09\x04\x02cn\x04\x03one".to_vec();
    let selection = b"\x30\x03\x04\x01*".to_vec();
    let sort = write_sort_keys(&[SortKey { attribute: "cn", rule: None, reverse: false }]);
    let paged = [0x30, 0x05, 0x02, 0x01, 0x02, 0x04, 0x00];
    let controls: Vec<Option<Control<'_>>> = vec![
        None,
        Some(Control { oid: "1.3.6.1.1.12", critical: true, value: Some(&assertion) }),
        Some(Control { oid: "1.3.6.1.1.13.1", critical: false, value: Some(&selection) }),
        Some(Control { oid: "1.3.6.1.1.13.2", critical: false, value: Some(&selection) }),
        Some(Control { oid: "2.16.840.1.113730.3.4.2", critical: true, value: None }),
        Some(Control { oid: "1.2.840.113556.1.4.805", critical: false, value: None }),
        Some(Control { oid: "1.2.840.113556.1.4.473", critical: false, value: Some(&sort) }),
        Some(Control { oid: "1.2.840.113556.1.4.319", critical: false, value: Some(&paged) }),
        Some(Control { oid: "1.3.6.1.4.1.4203.1.10.2", critical: false, value: None }),
        Some(Control { oid: "1.3.6.1.4.1.7628.5.101.1", critical: false, value: None }),
    ];
    let (there, not_there) = (format!("cn=one,{SECRET}"), format!("cn=six,{SECRET}"));
    let (unit, no_unit) = (SECRET.to_owned(), format!("ou=sacred,{SUFFIX}"));
    let names = [
        (there.clone(), not_there.clone()),
        (unit.clone(), no_unit.clone()),
        (format!("cn=x,{there}"), format!("cn=x,{not_there}")),
        (format!("cn=x,{unit}"), format!("cn=x,{no_unit}")),
    ];
    for who in ["anonymous", "bert", "carla"] {
        let mut client = world.client(who);
        for (known, unknown) in &names {
            for control in &controls {
                let mut ask = |name: &str| answers(&mut client, name, *control);
                let (about_one, about_other) = (ask(known), ask(unknown));
                for (one, other) in about_one.iter().zip(&about_other) {
                    let what = format!("{who}: {known}, {control:?}: {}", one.0);
                    assert_eq!(one, other, "{what}");
                }
            }
        }
    }
}

/// What each operation answers about a name.
fn answers(
    client: &mut Client,
    name: &str,
    control: Option<Control<'_>>,
) -> Vec<(&'static str, Answer)> {
    let mut all = Vec::new();
    let sent: Vec<(&str, bool, Option<&[u8]>)> =
        control.iter().map(|one| (one.oid, one.critical, one.value)).collect();
    for (what, scope) in [
        ("search base", Scope::Base),
        ("search one", Scope::One),
        ("search sub", Scope::Subtree),
        ("search subordinate", Scope::Subordinate),
    ] {
        let asked = Asked { base: name, scope, controls: &sent, ..Asked::default() };
        all.push((what, client.search(&asked)));
    }
    let compare = CompareRequest { name, description: "cn", value: b"one" };
    all.push(("compare", with_control(client, Request::Compare(compare), control)));
    for (what, operation, values) in [
        ("add a value", ModifyOperation::Add, &["x"][..]),
        ("delete a value", ModifyOperation::Delete, &["x"][..]),
        ("delete an attribute", ModifyOperation::Delete, &[]),
        ("replace", ModifyOperation::Replace, &["one"][..]),
    ] {
        let list = modifications(&[(operation, "cn", values)]);
        let modify = ModifyRequest { name, changes: list.as_ref() };
        all.push((what, with_control(client, Request::Modify(modify), control)));
    }
    let delete = DeleteRequest { name };
    all.push(("delete", with_control(client, Request::Delete(delete), control)));
    for (what, new_superior) in [("rename", None), ("move", Some(PEOPLE))] {
        let rename =
            ModifyDnRequest { name, new_rdn: "cn=new", delete_old_rdn: true, new_superior };
        all.push((what, with_control(client, Request::ModifyDn(rename), control)));
    }
    let own = person("bert");
    let below = ModifyDnRequest {
        name: &own,
        new_rdn: "uid=bert",
        delete_old_rdn: false,
        new_superior: Some(name),
    };
    all.push(("move below", with_control(client, Request::ModifyDn(below), control)));
    all.push(("add", client.try_add(name, &[("objectClass", &["device"])])));
    all.push((
        "add below",
        client.try_add(&format!("cn=y,{name}"), &[("objectClass", &["device"])]),
    ));
    all
}

#[test]
fn updates_are_refused_alike_whatever_the_values_are() {
    let world = World::new();
    let mut bert = world.client("bert");
    let anna = person("anna");
    for value in ["anna", "nobody"] {
        for operation in [ModifyOperation::Add, ModifyOperation::Delete, ModifyOperation::Replace] {
            for attribute in ["cn", "mail", "employeeNumber", "description"] {
                let answer = bert.try_modify(&anna, &[(operation, attribute, &[value])]);
                assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{attribute}");
            }
        }
    }
    let own = person("bert");
    let change = [(ModifyOperation::Replace, "description", &["me"][..])];
    assert_eq!(bert.modify(&own, &change), ResultCode::Success);
    let change = [(ModifyOperation::Replace, "sn", &["Tal"][..])];
    assert_eq!(bert.modify(&own, &change), ResultCode::InsufficientAccessRights);
}
