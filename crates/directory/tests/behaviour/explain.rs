//! Explained searches: `debugsearchindex` and `roster-explain`.

use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Asked, Client, SUFFIX, Served};

/// What the one entry of an explained search says.
fn explain(client: &mut Client, filter: &str, attribute: &str) -> String {
    let attributes = &[attribute];
    let asked = Asked { filter, attributes, scope: Scope::Subtree, ..Asked::default() };
    let answer = client.search(&asked);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert_eq!(answer.names(), ["cn=debugsearch"]);
    let values = answer.entries[0].texts(attribute);
    assert_eq!(values.len(), 1);
    values[0].clone()
}

#[test]
fn the_administrator_is_told_how_a_search_is_answered() {
    let served = Served::new();
    add_devices(&served, 20, "dull");
    let mut root = served.root();
    let line = explain(&mut root, "(cn=device 7)", "debugsearchindex");
    assert!(line.starts_with("filter=(cn=device 7)"), "{line}");
    assert!(line.ends_with(" final=[COUNT:1]"), "{line}");
    let json = explain(&mut root, "(cn=device 7)", "roster-explain");
    for part in [
        r#""filter":"(cn=device 7)""#,
        r#""scope":"sub""#,
        r#""candidates":1"#,
        r#""indexed":true"#,
        r#""killed_by":null"#,
        r#""entries":21"#,
        r#""matching":1"#,
    ] {
        assert!(json.contains(part), "{json}\nlacks\n{part}");
    }
}

#[test]
fn what_leaves_nothing_is_named() {
    let served = Served::new();
    add_devices(&served, 20, "dull");
    let mut root = served.root();
    let filter = "(&(objectClass=device)(!(description=dull)))";
    let json = explain(&mut root, filter, "roster-explain");
    assert!(json.contains(r#""matching":0"#), "{json}");
    assert!(json.contains(r#""killed_by":"(!(description=dull))""#), "{json}");
    let json = explain(&mut root, "(cn=nobody)", "roster-explain");
    assert!(json.contains(r#""killed_by":"(cn=nobody)""#), "{json}");
}

#[test]
fn everybody_else_gets_entries() {
    let served = Served::new();
    add_devices(&served, 3, "dull");
    let mut anybody = served.client();
    let attributes = &["debugsearchindex", "roster-explain"];
    let asked = Asked { filter: "(cn=device 1)", attributes, ..Asked::default() };
    let answer = anybody.search(&asked);
    assert_eq!(answer.names(), [format!("cn=device 1,{SUFFIX}")]);
    // Nor does the administrator get more than was asked for by name.
    let all = Asked { attributes: &["*", "+"], ..asked };
    assert_eq!(served.root().search(&all).names(), [format!("cn=device 1,{SUFFIX}")]);
}

const SORT: &str = "1.2.840.113556.1.4.473";
const SUBENTRIES: &str = "1.3.6.1.4.1.4203.1.10.1";

/// What an explained search says in JSON.
fn json(client: &mut Client, asked: &Asked<'_>) -> serde_json::Value {
    let answer = client.search(&Asked { attributes: &["roster-explain"], ..*asked });
    assert_eq!(answer.names(), ["cn=debugsearch"], "{:?} {}", answer.code, answer.diagnostic);
    serde_json::from_str(&answer.entries[0].texts("roster-explain")[0]).unwrap()
}

#[test]
fn the_order_is_told_with_the_way_to_it() {
    let served = Served::new();
    add_devices(&served, 20, "dull");
    let mut root = served.root();
    let mut order = |attribute: &str, reverse: bool, size_limit_entries: u32| {
        let value = write_sort_keys(&[SortKey { attribute, rule: None, reverse }]);
        let controls = [(SORT, false, Some(value.as_slice()))];
        let asked = Asked { size_limit_entries, controls: &controls, ..Asked::default() };
        let line = Asked { attributes: &["debugsearchindex"], ..asked };
        let line = root.search(&line).entries[0].texts("debugsearchindex")[0].clone();
        (json(&mut root, &asked)["order"].clone(), line)
    };
    let (told, line) = order("cn", true, 1);
    assert_eq!((&told["by"], &told["index"]), (&"index".into(), &"cn.equality".into()), "{told}");
    assert_eq!(told["keys"], "-cn");
    assert!(line.ends_with(" sort=-cn[INDEX:cn.equality]"), "{line}");
    // All of them are sooner sorted than walked to.
    let (told, line) = order("cn", false, 0);
    assert_eq!((&told["by"], &told["would_help"]), (&"memory".into(), &().into()), "{told}");
    assert!(line.ends_with(" sort=cn[NOT-INDEXED]"), "{line}");
    let (told, _) = order("description", false, 1);
    assert_eq!(told["by"], "memory");
    assert_eq!(told["would_help"], "equality description");
    let (told, _) = order("member", false, 1);
    assert_eq!(told["by"], "none");
    assert!(told["reason"].as_str().unwrap().contains("has no order"), "{told}");
    assert_eq!(json(&mut root, &Asked::default())["order"], serde_json::Value::Null);
}

#[test]
fn the_plan_is_that_of_a_search_for_subentries() {
    let served = Served::new();
    add_devices(&served, 20, "dull");
    let mut root = served.root();
    let name = format!("cn=policy,{SUFFIX}");
    let attributes: [(&str, &[&str]); 3] =
        [("objectClass", &["subentry"]), ("cn", &["policy"]), ("subtreeSpecification", &["{}"])];
    let added = root.try_add(&name, &attributes);
    assert_eq!(added.code(), ResultCode::Success, "{}", added.diagnostic);
    let mut told = |only: u8| {
        let value = [1, 1, only];
        let controls = [(SUBENTRIES, true, Some(value.as_slice()))];
        let asked = Asked { controls: &controls, ..Asked::default() };
        let found = root.search(&asked).names().len();
        let told = json(&mut root, &asked);
        assert_eq!(told["tested"]["matching"], found, "{told}");
        told
    };
    let only = told(0xff);
    assert_eq!(only["subentries"], true);
    assert_eq!((&only["candidates"], &only["indexed"]), (&1.into(), &true.into()), "{only}");
    let none = told(0);
    assert_eq!((&none["subentries"], &none["candidates"]), (&false.into(), &().into()), "{none}");
}

#[test]
fn the_plan_is_that_of_a_search_that_follows_aliases() {
    let served = Served::new();
    add_devices(&served, 3, "dull");
    let mut root = served.root();
    let target = format!("cn=device 0,{SUFFIX}");
    let name = format!("cn=alias,cn=device 1,{SUFFIX}");
    let attributes: [(&str, &[&str]); 2] =
        [("objectClass", &["alias", "extensibleObject"]), ("aliasedObjectName", &[&target])];
    assert_eq!(root.try_add(&name, &attributes).code(), ResultCode::Success);
    let base = format!("cn=device 1,{SUFFIX}");
    for (deref, followed, found) in [
        (DerefAliases::Always, "always", 2),
        (DerefAliases::InSearching, "search", 2),
        (DerefAliases::FindingBase, "find", 2),
    ] {
        let asked = Asked { base: &base, deref, ..Asked::default() };
        assert_eq!(root.search(&asked).names().len(), found);
        let told = json(&mut root, &asked);
        assert_eq!(told["aliases"]["followed"], followed);
        assert_eq!(told["aliases"]["regions"].is_null(), followed == "find", "{told}");
        assert_eq!(told["tested"]["matching"], found, "{told}");
    }
    assert_eq!(json(&mut root, &Asked::default())["aliases"], serde_json::Value::Null);
}
