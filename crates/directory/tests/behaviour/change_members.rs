//! Changing the members of a cluster over LDAP, with a cluster that a test makes up.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use directory::ClusterTeller;
use history::log::{MemberChange, MembersChanged, MembersError};
use ldap::result::ResultCode;

use crate::support::{Answer, Client, Served};

const CHANGE: &str = "2.25.240622864993748405525653984067480598434.3.2";

/// What was asked of the cluster.
type Seen = Arc<Mutex<Vec<MemberChange>>>;

/// A directory of a cluster that answers each change so.
fn served(outcome: Result<MembersChanged, MembersError>) -> (Served, Seen) {
    let (served, seen) = (Served::new(), Seen::default());
    let noted = Arc::clone(&seen);
    served.directory.show_cluster(ClusterTeller {
        own: Box::new(|| None),
        members: Box::new(Vec::new),
        change: Box::new(move |change, done| {
            noted.lock().unwrap().push(change);
            done(outcome.clone());
        }),
        verify: Box::new(|_| Err("no comparison".to_owned())),
        can_admit: Box::new(|_| Err("no key".to_owned())),
        admit: Box::new(|_, _| Err("no key".to_owned())),
    });
    (served, seen)
}

fn ask(session: &mut Client, value: &str) -> Answer {
    session.extended(CHANGE, Some(value.as_bytes()))
}

#[test]
fn a_change_is_carried_out_by_the_cluster() {
    let (served, seen) = served(Ok(MembersChanged::Done));
    let mut root = served.root();
    let answer = ask(&mut root, r#"{"change": "promote", "members": [4, 5]}"#);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    assert_eq!(answer.value.as_deref(), Some(&br#"{"outcome":"done"}"#[..]));
    let ids = BTreeSet::from([4, 5]);
    assert_eq!(*seen.lock().unwrap(), [MemberChange::Promote { ids }]);
}

#[test]
fn what_came_of_a_change_is_told() {
    let outcomes = [
        (Ok(MembersChanged::AlreadySo), ResultCode::Success, ""),
        (
            Err(MembersError::Refused("there are too few".to_owned())),
            ResultCode::UnwillingToPerform,
            "there are too few",
        ),
        (Err(MembersError::NotDeciding), ResultCode::Unavailable, "no member leads"),
        (
            Err(MembersError::Unknown("it was lost".to_owned())),
            ResultCode::Other,
            "the outcome is not known: it was lost",
        ),
    ];
    for (outcome, code, says) in outcomes {
        let (served, _) = served(outcome);
        let answer = ask(&mut served.root(), r#"{"change": "transfer", "to": 2}"#);
        assert_eq!(answer.code(), code);
        assert!(answer.diagnostic.starts_with(says), "{}", answer.diagnostic);
    }
}

#[test]
fn nobody_without_the_privilege_and_no_server_that_is_alone_changes_members() {
    let (served, seen) = served(Ok(MembersChanged::Done));
    let change = r#"{"change": "transfer", "to": 2}"#;
    let mut anonymous = served.client();
    assert_eq!(ask(&mut anonymous, change).code(), ResultCode::InsufficientAccessRights);
    let mut root = served.root();
    assert_eq!(ask(&mut root, r#"{"change": "join"}"#).code(), ResultCode::ProtocolError);
    assert_eq!(root.extended(CHANGE, None).code(), ResultCode::ProtocolError);
    assert!(seen.lock().unwrap().is_empty());
    let alone = Served::new();
    let answer = ask(&mut alone.root(), change);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert_eq!(answer.diagnostic, "this server is not a member of a cluster");
}
