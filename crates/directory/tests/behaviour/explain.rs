//! Explained searches: `debugsearchindex` and `roster-explain`.

use ldap::message::Scope;
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
