//! `cn=Sessions,cn=monitor`, with connections that a test makes up.

use std::sync::{Arc, Mutex};

use directory::{SessionState, SessionTeller};
use environment::Timestamp;
use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::support::{Asked, Served};

const SESSIONS: &str = "cn=Sessions,cn=monitor";

fn state(number: u64) -> SessionState {
    SessionState {
        number,
        address: format!("192.0.2.1:{number}"),
        listener: "ldap",
        tls: number.is_multiple_of(2).then_some("TLSv1.3"),
        bind_dn: format!("uid={number},dc=example"),
        mechanism: "simple".to_owned(),
        since: Timestamp(1_767_225_600_000_000),
        last_activity: Timestamp(1_767_225_600_000_000 + number * 1_000_000),
        operations: number,
        outstanding: 0,
        waiting_bytes: 0,
    }
}

/// Numbers of sessions that were to be closed, and why.
type Closed = Arc<Mutex<Vec<(u64, String)>>>;

/// A directory with so many connections, and those that were closed.
fn served(count: u64) -> (Served, Closed) {
    let served = Served::new();
    let closed = Closed::default();
    let noted = Arc::clone(&closed);
    served.directory.show_sessions(SessionTeller {
        count: Box::new(move || count as usize),
        list: Box::new(move || (1..=count).map(state).collect()),
        close: Box::new(move |number, reason| {
            noted.lock().unwrap().push((number, reason.to_owned()));
            number <= count
        }),
    });
    (served, closed)
}

#[test]
fn ten_thousand_sessions_are_listed_on_a_thread_of_the_pool() {
    let (served, _) = served(10_000);
    let mut root = served.root();
    let asked = Asked { base: SESSIONS, scope: Scope::One, ..Asked::default() };
    let answer = root.search(&asked);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 10_000));
    assert_eq!(root.connection.jobs, 1);
    let name = format!("cn=7777,{SESSIONS}");
    let filter = "(&(roster-session-bind-dn=UID=7777,DC=example)(roster-session-operations=7777))";
    let answer = root.search(&Asked { filter, ..asked });
    assert_eq!(answer.names(), [&name]);
    // One alone costs no such thread.
    let jobs = root.connection.jobs;
    let attributes = &["*", "+"][..];
    let one = Asked { base: &name, scope: Scope::Base, attributes, ..Asked::default() };
    let answer = root.search(&one);
    assert_eq!(root.connection.jobs, jobs);
    let last = answer.entries[0].texts("roster-session-last-activity");
    assert_eq!(last, ["20260101020937Z"]);
    let missing = format!("cn=10001,{SESSIONS}");
    let answer = root.search(&Asked { base: &missing, ..one });
    assert_eq!((answer.code(), &*answer.matched), (ResultCode::NoSuchObject, SESSIONS));
    // The entry above them says how many there are.
    let answer = root.search(&Asked { base: SESSIONS, ..one });
    assert_eq!(answer.entries[0].texts("numSubordinates"), ["10000"]);
}

#[test]
fn a_delete_closes_the_session_it_names_and_says_who_asked() {
    let (served, closed) = served(5);
    let mut root = served.root();
    assert_eq!(root.delete(&format!("cn=3,{SESSIONS}")), ResultCode::Success);
    assert_eq!(root.delete(&format!("cn=6,{SESSIONS}")), ResultCode::NoSuchObject);
    let mut anybody = served.client();
    let refused = ResultCode::InsufficientAccessRights;
    assert_eq!(anybody.delete(&format!("cn=3,{SESSIONS}")), refused);
    let closed = closed.lock().unwrap();
    let numbers = closed.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!(numbers, [3, 6]);
    assert!(closed[0].1.starts_with("closed by cn=Directory Manager, connection "), "{closed:?}");
}

#[test]
fn without_connections_there_are_none() {
    let served = Served::new();
    let mut root = served.root();
    let asked = Asked { base: SESSIONS, scope: Scope::Base, ..Asked::default() };
    assert_eq!(root.search(&asked).code(), ResultCode::NoSuchObject);
    assert_eq!(root.delete(&format!("cn=3,{SESSIONS}")), ResultCode::NoSuchObject);
}
