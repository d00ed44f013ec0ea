//! The trees the server makes itself: `cn=config` and `cn=monitor`.

use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

fn search(client: &mut Client, base: &str, scope: Scope, filter: &str) -> Answer {
    client.search(&Asked { base, scope, filter, ..Asked::default() })
}

#[track_caller]
fn check(client: &mut Client, base: &str, scope: Scope, filter: &str, names: &[&str]) {
    let answer = search(client, base, scope, filter);
    assert_eq!(answer.code(), ResultCode::Success, "{base}: {}", answer.diagnostic);
    let found: Vec<_> = answer.entries.iter().map(|entry| entry.dn.as_str()).collect();
    for name in names {
        assert!(found.contains(name), "{name} is not below {base} in {scope:?}: {found:?}");
    }
    if names.is_empty() {
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn the_administrator_searches_them_by_scope_and_filter() {
    let served = Served::new();
    let mut root = served.root();
    for tree in ["cn=monitor", "cn=config"] {
        check(&mut root, tree, Scope::Base, "(objectClass=*)", &[tree]);
        check(&mut root, tree, Scope::Subtree, "(objectClass=*)", &[tree]);
        check(&mut root, &tree.to_uppercase(), Scope::Base, "(entryDN=*)", &[tree]);
        check(&mut root, tree, Scope::Base, "(cn=somewhere else)", &[]);
    }
    check(&mut root, "cn=monitor", Scope::Base, "(structuralObjectClass=top)", &["cn=monitor"]);
}

#[test]
fn a_name_that_is_not_there_is_answered_with_the_nearest_superior() {
    let served = Served::new();
    let mut root = served.root();
    let answer = search(&mut root, "cn=a,cn=b,cn=monitor", Scope::Base, "(objectClass=*)");
    assert_eq!(answer.code(), ResultCode::NoSuchObject);
    assert_eq!(answer.matched, "cn=monitor");
}

#[test]
fn nobody_else_finds_them() {
    let served = Served::new();
    let mut anybody = served.client();
    let known = search(&mut anybody, "cn=monitor", Scope::Base, "(objectClass=*)");
    let unknown = search(&mut anybody, "cn=unknown", Scope::Base, "(objectClass=*)");
    assert_eq!(known.code(), ResultCode::NoSuchObject);
    assert_eq!((known.matched, known.diagnostic), (unknown.matched, unknown.diagnostic));
    // They are not below the root DSE either.
    let answer = search(&mut served.root(), "", Scope::Subtree, "(objectClass=*)");
    assert_eq!(answer.entries.len(), 1, "{:?}", answer.entries);
    assert_eq!(answer.entries[0].dn, SUFFIX);
}

#[test]
fn nobody_writes_into_what_the_server_makes() {
    let served = Served::new();
    let mut root = served.root();
    let device: &[(&str, &[&str])] = &[("objectClass", &["device"])];
    for tree in ["cn=monitor", "cn=config"] {
        let name = format!("cn=mine,{tree}");
        assert_eq!(root.add(&name, device), ResultCode::UnwillingToPerform);
        assert_eq!(root.delete(tree), ResultCode::UnwillingToPerform);
    }
}

#[test]
fn filters_that_cost_much_are_shown_and_an_index_is_advised() {
    let served = Served::new();
    crate::add_devices(&served, 300, "somewhere in the house");
    let mut root = served.root();
    for _ in 0..320 {
        let answer = search(&mut root, SUFFIX, Scope::Subtree, "(description=*secret*)");
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 0));
    }
    let base = "cn=filters,cn=monitor";
    let attributes = &["*", "+"][..];
    let asked = Asked { base, attributes, ..Asked::default() };
    let answer = root.search(&Asked { scope: Scope::Base, ..asked });
    let entry = &answer.entries[0];
    for count in ["roster-unindexed-searches", "roster-unindexed-refused"] {
        assert_eq!(entry.texts(count).len(), 1, "{count}");
    }
    let uses = entry.texts("filter-use");
    let shape = uses.iter().find(|line| line.starts_with("(description=*?*) "));
    let shape = shape.unwrap_or_else(|| panic!("{uses:?}"));
    assert!(shape.contains(" maxmatches:-1 ") && shape.contains(" unindexed"), "{shape}");
    // Sampled: about 320.
    let hits = shape.split("hits:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!((64..2_000).contains(&hits.parse::<u32>().unwrap()), "{shape}");
    assert!(!uses.concat().contains("secret"), "no value is kept: {uses:?}");
    let advice = entry.texts("roster-index-advice");
    let wanted = "add substring description: ";
    assert!(advice.iter().any(|line| line.starts_with(wanted)), "{advice:?}");
}
