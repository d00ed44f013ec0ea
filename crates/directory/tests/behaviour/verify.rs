//! Comparing the data of a cluster over LDAP, with a cluster that a test makes up.

use std::sync::{Arc, Mutex};

use directory::{ClusterTeller, VERIFY, VerifyAnswer, VerifyAsked};
use history::log::{
    EntryDifference, OddMember, Oddity, Verification, VerificationState, VerifiedMember,
};
use ldap::result::ResultCode;
use store::Lsn;

use crate::support::{Answer, Client, Served};

/// What was asked of the cluster.
type Seen = Arc<Mutex<Vec<VerifyAsked>>>;

/// A directory of a cluster that has found so many differences.
fn served(differing: u64) -> (Served, Seen) {
    let (served, seen) = (Served::new(), Seen::default());
    let noted = Arc::clone(&seen);
    served.directory.show_cluster(ClusterTeller {
        own: Box::new(|| None),
        members: Box::new(Vec::new),
        change: Box::new(|_, _| panic!("no member changes")),
        verify: Box::new(move |asked| {
            noted.lock().unwrap().push(asked);
            match asked {
                VerifyAsked::Start if differing == 0 => Err("it is compared already".to_owned()),
                VerifyAsked::Look(run) | VerifyAsked::Stop(run) if run != 7 => Ok(None),
                VerifyAsked::Start | VerifyAsked::Look(_) | VerifyAsked::Stop(_) => {
                    Ok(Some(told(differing)))
                }
            }
        }),
        can_admit: Box::new(|_| Err("no key".to_owned())),
        admit: Box::new(|_, _| Err("no key".to_owned())),
    });
    (served, seen)
}

fn told(differing: u64) -> Verification {
    let how = Oddity::Differs { is_name: true, attributes: vec!["userPassword".to_owned()] };
    let differences = (0..differing).map(|id| EntryDifference {
        id: id + 1,
        name: format!("cn={id}"),
        uuid: "u".to_owned(),
        odd: vec![OddMember { member: 3, how: how.clone() }],
        is_clear: true,
    });
    let not_compared = Some("it is behind".to_owned());
    Verification {
        run: 7,
        state: VerificationState::Done,
        entries: 9,
        of_entries: 9,
        bytes: 100,
        lsns: (Lsn(4), Lsn(6)),
        positions: 2,
        members: vec![VerifiedMember { member: 2, differing: 0, not_compared }],
        differing,
        differences: differences.collect(),
        times_us: (1, 2),
    }
}

fn ask(session: &mut Client, value: &str) -> Answer {
    session.extended(VERIFY, Some(value.as_bytes()))
}

#[test]
fn what_was_found_is_told_in_parts() {
    let (served, seen) = served(250);
    let mut root = served.root();
    let mut told = 0;
    for want in [100, 100, 50, 0] {
        let answer = ask(&mut root, &format!(r#"{{"verify": "look", "run": 7, "told": {told}}}"#));
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        let answer: VerifyAnswer = serde_json::from_slice(&answer.value.unwrap()).unwrap();
        assert_eq!((answer.differing, answer.named, answer.differences.len()), (250, 250, want));
        assert_eq!((answer.first_lsn, answer.last_lsn, &*answer.state), (4, 6, "done"));
        assert_eq!(answer.members[0].not_compared.as_deref(), Some("it is behind"));
        for (number, one) in answer.differences.iter().enumerate() {
            assert_eq!(one.name, format!("cn={}", told + number));
            let odd = &one.members[0];
            assert_eq!((odd.member, &*odd.how, odd.name), (3, "differs", true));
            assert_eq!(odd.attributes, ["userPassword"]);
        }
        told += want;
    }
    let answer = ask(&mut root, r#"{"verify": "stop", "run": 7}"#);
    assert_eq!(answer.code(), ResultCode::Success);
    let unknown = ask(&mut root, r#"{"verify": "look", "run": 8, "told": 0}"#);
    assert_eq!(unknown.code(), ResultCode::NoSuchOperation);
    let last = seen.lock().unwrap().split_off(4);
    assert_eq!(last, [VerifyAsked::Stop(7), VerifyAsked::Look(8)]);
}

#[test]
fn nobody_without_the_privilege_and_no_server_that_is_alone_compares_anything() {
    let (served, seen) = served(0);
    let start = r#"{"verify": "start"}"#;
    let mut anonymous = served.client();
    for value in [start, r#"{"verify": "look", "run": 7, "told": 0}"#, "{}"] {
        assert_eq!(ask(&mut anonymous, value).code(), ResultCode::InsufficientAccessRights);
    }
    let mut root = served.root();
    assert_eq!(ask(&mut root, r#"{"verify": "repair"}"#).code(), ResultCode::ProtocolError);
    assert_eq!(root.extended(VERIFY, None).code(), ResultCode::ProtocolError);
    assert!(seen.lock().unwrap().is_empty());
    let busy = ask(&mut root, start);
    assert_eq!((busy.code(), &*busy.diagnostic), (ResultCode::Busy, "it is compared already"));
    let alone = Served::new();
    let answer = ask(&mut alone.root(), start);
    assert_eq!(answer.code(), ResultCode::UnwillingToPerform);
    assert_eq!(answer.diagnostic, "this server is not a member of a cluster");
}
