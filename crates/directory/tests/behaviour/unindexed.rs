//! Searches that no index helps: who may do them, and what the others are told.

use directory::SearchCounts;
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const UNINDEXED: &str = "(description=x)";
const REJECT: &str = "1.3.6.1.4.1.30221.2.5.54";
const PERMIT: &str = "1.3.6.1.4.1.30221.2.5.55";

fn search(client: &mut Client, filter: &str, control: Option<&str>) -> Answer {
    let controls: Vec<(&str, bool, Option<&[u8]>)> =
        control.iter().map(|oid| (*oid, true, None)).collect();
    client.search(&Asked { filter, controls: &controls, ..Asked::default() })
}

/// A directory where ten entries are many, and somebody with these privileges.
fn with_reader(privileges: &[&str]) -> (Served, String) {
    let served = Served::with(|options| options.limits.unindexed_entries = 10);
    add_devices(&served, 12, "x");
    let name = format!("uid=reader,{SUFFIX}");
    let mut attributes: Vec<(&str, &[&str])> =
        vec![("objectClass", &["account", "simpleSecurityObject"]), ("userPassword", &["secret"])];
    if !privileges.is_empty() {
        attributes.push(("ds-privilege-name", privileges));
    }
    assert_eq!(served.root().add(&name, &attributes), ResultCode::Success);
    (served, name)
}

fn reader(served: &Served, name: &str) -> Client {
    let mut client = served.client();
    assert_eq!(client.bind(name, "secret"), ResultCode::Success);
    client
}

#[test]
fn an_unindexed_search_is_refused_and_says_what_to_do() {
    let (served, name) = with_reader(&[]);
    for mut client in [served.client(), reader(&served, &name)] {
        let answer = search(&mut client, UNINDEXED, None);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
        assert!(answer.entries.is_empty());
        for part in
            ["(description=x)", "'equality description'", "all 14 entries", "unindexed-search"]
        {
            assert!(answer.diagnostic.contains(part), "{part}: {}", answer.diagnostic);
        }
        // Of several parts, the one that an index would answer; an index that finds most is none.
        for (filter, index) in [
            ("(&(objectClass=device)(description=x*))", "'substring description'"),
            ("(|(cn=device 1)(description=x))", "'equality description'"),
            ("(&(objectClass=device)(!(cn=nobody))(description=*))", " description'"),
        ] {
            let answer = search(&mut client, filter, None);
            assert_eq!(answer.code(), ResultCode::InsufficientAccessRights, "{filter}");
            assert!(answer.diagnostic.contains(index), "{filter}: {}", answer.diagnostic);
        }
        let answer = search(&mut client, "(&(cn=device 1)(description=x))", None);
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 1));
        let answer = search(&mut client, "(objectClass=*)", None);
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 14));
        // To say that it is meant is no right.
        let answer = search(&mut client, UNINDEXED, Some(PERMIT));
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    }
    let counts = SearchCounts { unindexed: 0, unindexed_refused: 10 };
    assert_eq!(served.directory.search_counts(), counts);
}

#[test]
fn whoever_has_the_right_searches_unindexed_and_is_counted() {
    let (served, name) = with_reader(&["unindexed-search"]);
    for (at, mut client) in [served.root(), reader(&served, &name)].into_iter().enumerate() {
        let answer = search(&mut client, UNINDEXED, None);
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 12));
        let unindexed = u64::try_from(at).unwrap() + 1;
        assert_eq!(served.directory.search_counts().unindexed, unindexed);
    }
}

#[test]
fn a_right_may_hold_with_the_control_only() {
    let (served, name) = with_reader(&["unindexed-search-with-control"]);
    let mut client = reader(&served, &name);
    let answer = search(&mut client, UNINDEXED, None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    let answer = search(&mut client, UNINDEXED, Some(PERMIT));
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 12));
}

#[test]
fn a_client_may_have_its_unindexed_searches_refused() {
    let served = Served::new();
    add_devices(&served, 3, "x");
    for mut client in [served.root(), served.client()] {
        let answer = search(&mut client, UNINDEXED, Some(REJECT));
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
        assert!(answer.diagnostic.contains("(description=x)"), "{}", answer.diagnostic);
        for filter in ["(cn=device 1)", "(objectClass=*)", "(objectClass=device)"] {
            let answer = search(&mut client, filter, Some(REJECT));
            assert_eq!(answer.code(), ResultCode::Success, "{filter}: {}", answer.diagnostic);
        }
    }
}

#[test]
fn a_job_is_counted_once() {
    let served = Served::with(|options| {
        options.limits.unindexed_entries = 10;
        options.limits.inline_candidates_max = 0;
    });
    add_devices(&served, 12, "x");
    let mut root = served.root();
    assert_eq!(search(&mut root, UNINDEXED, None).entries.len(), 12);
    assert_eq!(root.connection.jobs, 1);
    assert_eq!(served.directory.search_counts().unindexed, 1);
}
