//! Searches that no index helps: who may do them, and what the others are told.

use directory::SearchCounts;
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};
use crate::{add_device, add_devices};

const UNINDEXED: &str = "(description=x)";
/// A sort control's value: in the order of `cn`.
const BY_CN: &[u8] = b"\x30\x06\x30\x04\x04\x02cn";
/// Matches nothing, which no index tells.
const USELESS: &str = "(description=y)";
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
        let answer = search(&mut client, USELESS, None);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
        assert!(answer.entries.is_empty());
        for part in ["(description=y)", "'equality description'", "few of", "unindexed-search"] {
            assert!(answer.diagnostic.contains(part), "{part}: {}", answer.diagnostic);
        }
        // Of several parts, the one that an index would answer; an index that finds most is none.
        for (filter, index) in [
            ("(&(objectClass=device)(description=y*))", "'substring description'"),
            ("(|(cn=device 13)(description=y))", "'equality description'"),
            ("(&(objectClass=device)(!(cn=nobody))(!(description=*)))", " description'"),
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
        let answer = search(&mut client, USELESS, Some(PERMIT));
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    }
    let counts = SearchCounts { unindexed: 10, unindexed_refused: 10 };
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
    let answer = search(&mut client, USELESS, None);
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    let answer = search(&mut client, USELESS, Some(PERMIT));
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 0));
}

/// A directory of 60 entries, of which every so many-th has the description; ten are many.
fn where_one_of(apart: usize) -> Served {
    let served = Served::with(|options| options.limits.unindexed_entries = 10);
    let mut root = served.root();
    for number in 0..60 {
        let description = if number % apart == 0 { "x" } else { "z" };
        add_device(&mut root, &format!("cn=device {number},{SUFFIX}"), description);
    }
    served
}

#[test]
fn what_returns_much_is_not_refused() {
    let served = where_one_of(5);
    let mut client = served.client();
    let answer = search(&mut client, UNINDEXED, None);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 12));
    // An order needs all of them before the first is sent.
    let answer = client.search(&Asked {
        filter: UNINDEXED,
        controls: &[("1.2.840.113556.1.4.473", true, Some(BY_CN))],
        ..Asked::default()
    });
    assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
    assert!(answer.entries.is_empty() && answer.diagnostic.contains("all 61 entries"));
    let counts = SearchCounts { unindexed: 1, unindexed_refused: 1 };
    assert_eq!(served.directory.search_counts(), counts);
}

#[test]
fn who_has_an_attribute_is_known_of_all_that_are_looked_up_by_value() {
    let served = Served::with(|options| options.limits.unindexed_entries = 10);
    add_devices(&served, 30, "x");
    for number in 0..30 {
        let name = format!("uid=person{number},{SUFFIX}");
        assert_eq!(served.root().add(&name, &[("objectClass", &["account"])]), ResultCode::Success);
    }
    let mut client = served.client();
    let sorted: &[(&str, bool, Option<&[u8]>)] =
        &[("1.2.840.113556.1.4.473", true, Some(BY_CN)), (REJECT, true, None)];
    for filter in ["(uid=*)", "(&(objectClass=account)(uid=*))", "(&(cn=*)(!(uid=*)))"] {
        let answer = client.search(&Asked { filter, controls: sorted, ..Asked::default() });
        assert_eq!(answer.code(), ResultCode::Success, "{filter}: {}", answer.diagnostic);
        assert_eq!(answer.entries.len(), 30, "{filter}");
    }
}

#[test]
fn what_finds_little_ends_and_says_so() {
    let served = where_one_of(50);
    for _ in 0..2 {
        let answer = search(&mut served.client(), UNINDEXED, None);
        assert_eq!(answer.code(), ResultCode::InsufficientAccessRights);
        assert_eq!(answer.entries.len(), 1, "ten looks for the first, ten beside");
        assert!(answer.diagnostic.contains("incomplete"), "{}", answer.diagnostic);
    }
    // One that finds enough within its size limit, and looks no further.
    let answer = served.client().search(&Asked {
        filter: UNINDEXED,
        size_limit_entries: 1,
        ..Asked::default()
    });
    assert_eq!(answer.entries.len(), 1);
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
