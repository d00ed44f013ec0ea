//! Tokens, and machines that join with them, in a cluster that a test makes up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use directory::{
    Admitted, CHANGE_MEMBERS, ClusterMemberState, ClusterState, ClusterTeller, JOIN,
    JOIN_TOKEN_ATTRIBUTE, JoinAnswer, JoinPart, JoinRequest, JoinToken, Peer, hex, promote_joined,
};
use history::log::{MemberChange, MembersChanged, MembersDone, MembersError};
use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, Asked, Client, START, Served};

const TOKENS: &str = "cn=Join Tokens,cn=config";
const SECRET: &str = "a secret that nobody guesses";
/// Octets that stand for a key, in Base64, and their SHA-256.
const KEYS: [&str; 2] = ["AAAA", "AQEB"];
/// What stands for no key.
const NO_KEY: &[u8] = &[9, 9, 9];

/// What the cluster was asked, and what it knows.
#[derive(Default)]
struct Cluster {
    changes: Vec<MemberChange>,
    members: Vec<ClusterMemberState>,
    has_no_key: bool,
    /// Changes are not answered but kept.
    keeps: bool,
    kept: Vec<MembersDone>,
}

/// A directory of a cluster whose members have numbers from 70001 on.
fn served() -> (Served, Arc<Mutex<Cluster>>) {
    let served = Served::new();
    let first = ClusterMemberState { member: 1, is_voter: true, ..Default::default() };
    let cluster = Arc::new(Mutex::new(Cluster { members: vec![first], ..Cluster::default() }));
    let [changing, listed, checked] = [(); 3].map(|()| Arc::clone(&cluster));
    served.directory.show_cluster(ClusterTeller {
        own: Box::new(|| Some(ClusterState { member: 1, leader: Some(1), ..Default::default() })),
        members: Box::new(move || listed.lock().unwrap().members.clone()),
        change: Box::new(move |change, done| {
            let mut cluster = changing.lock().unwrap();
            match cluster.keeps {
                true => cluster.kept.push(done),
                false => done(cluster.change(change)),
            }
        }),
        verify: Box::new(|_| Err("no comparison".to_owned())),
        can_admit: Box::new(move |key| match (checked.lock().unwrap().has_no_key, key) {
            (true, _) => Err("the key of the authority is elsewhere".to_owned()),
            (false, NO_KEY) => Err("it is no key".to_owned()),
            (false, _) => Ok(()),
        }),
        admit: Box::new(|member, key| {
            let certificate = format!("certificate of {member} for {}", hex(key));
            let files = BTreeMap::from([("admin-password".to_owned(), "{X}".to_owned())]);
            Ok(Admitted { cluster: [7; 16], certificate, files, ..Admitted::default() })
        }),
    });
    (served, cluster)
}

impl Cluster {
    fn change(&mut self, change: MemberChange) -> Result<MembersChanged, MembersError> {
        self.changes.push(change.clone());
        match change {
            MemberChange::Join { address, key, .. } => {
                if let Some(known) = self.members.iter().find(|one| one.key == key) {
                    return Ok(MembersChanged::Joined(known.member));
                }
                let member = 70_000 + self.members.len() as u64;
                let lag = Some(0);
                let new = ClusterMemberState { member, address, key, lag, ..Default::default() };
                self.members.push(new);
                Ok(MembersChanged::Joined(member))
            }
            MemberChange::Promote { ids } => {
                let named = self.members.iter_mut().filter(|one| ids.contains(&one.member));
                named.for_each(|one| one.is_voter = true);
                Ok(MembersChanged::Done)
            }
            MemberChange::Demote { ids } => {
                let named = self.members.iter_mut().filter(|one| ids.contains(&one.member));
                named.for_each(|one| one.is_voter = false);
                Ok(MembersChanged::AlreadySo)
            }
            MemberChange::Remove { ids } => {
                self.members.retain(|one| !ids.contains(&one.member));
                Ok(MembersChanged::Done)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn token(number: u8, is_for_voter: bool) -> JoinToken {
    let part = if is_for_voter { JoinPart::Voter } else { JoinPart::Learner };
    JoinToken {
        name: [number; 16],
        secret: Sha256::digest(SECRET).into(),
        ends_s: START.seconds() + 3600,
        part,
        key: None,
    }
}

fn put(client: &mut Client, token: &str) -> ResultCode {
    client.modify(TOKENS, &[(ModifyOperation::Add, JOIN_TOKEN_ATTRIBUTE, &[token])])
}

fn tokens(served: &Served) -> Vec<String> {
    let (scope, attributes) = (Scope::Base, &["*"][..]);
    let asked = Asked { base: TOKENS, scope, attributes, ..Asked::default() };
    let answer = served.root().search(&asked);
    answer.entries[0].texts(JOIN_TOKEN_ATTRIBUTE)
}

fn request(number: u8, key: &str) -> JoinRequest {
    JoinRequest {
        token: hex(&[number; 16]),
        secret: SECRET.to_owned(),
        key: key.to_owned(),
        address: format!("192.0.2.{number}:7636"),
        url: String::new(),
    }
}

fn ask(served: &Served, request: &JoinRequest) -> Answer {
    let secure = Peer { secure: true, ..Peer::default() };
    let value = serde_json::to_vec(request).unwrap();
    served.client_from(secure).extended(JOIN, Some(&value))
}

#[track_caller]
fn joined(served: &Served, number: u8, key: &str) -> JoinAnswer {
    let answer = ask(served, &request(number, key));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    serde_json::from_slice(answer.value.as_deref().unwrap()).unwrap()
}

#[track_caller]
fn refused(served: &Served, request: &JoinRequest, code: ResultCode) {
    let answer = ask(served, request);
    assert_eq!(answer.code(), code, "{}", answer.diagnostic);
    assert!(answer.value.is_none());
}

#[test]
fn a_machine_joins_once_with_a_token() {
    let (served, cluster) = served();
    assert_eq!(put(&mut served.root(), &token(1, true).to_string()), ResultCode::Success);
    let answer = joined(&served, 1, KEYS[0]);
    assert_eq!((answer.member, answer.cluster.as_str()), (70_001, &*hex(&[7; 16])));
    assert_eq!(answer.certificate, "certificate of 70001 for 000000");
    assert_eq!(answer.files["admin-password"], "{X}");
    assert!(answer.is_for_voter);
    // It asks again when it was interrupted, and nobody else gets anything.
    assert_eq!(joined(&served, 1, KEYS[0]).member, 70_001);
    refused(&served, &request(1, KEYS[1]), ResultCode::InvalidCredentials);
    assert_eq!(cluster.lock().unwrap().members.len(), 2);
    let key = Sha256::digest([0; 3]);
    assert!(tokens(&served)[0].ends_with(&hex(&key)), "{:?}", tokens(&served));
}

#[test]
fn nobody_joins_without_a_token() {
    let (served, cluster) = served();
    assert_eq!(put(&mut served.root(), &token(1, true).to_string()), ResultCode::Success);
    refused(&served, &request(2, KEYS[0]), ResultCode::InvalidCredentials);
    let guessed = JoinRequest { secret: format!("{SECRET}."), ..request(1, KEYS[0]) };
    refused(&served, &guessed, ResultCode::InvalidCredentials);
    // Who listens would have it.
    let value = serde_json::to_vec(&request(1, KEYS[0])).unwrap();
    let open = served.client().extended(JOIN, Some(&value));
    assert_eq!(open.code(), ResultCode::ConfidentialityRequired);
    let nowhere = JoinRequest { address: "nowhere".to_owned(), ..request(1, KEYS[0]) };
    refused(&served, &nowhere, ResultCode::ProtocolError);
    // Where nothing would come of it the token is not used.
    cluster.lock().unwrap().has_no_key = true;
    refused(&served, &request(1, KEYS[0]), ResultCode::UnwillingToPerform);
    cluster.lock().unwrap().has_no_key = false;
    refused(&served, &request(1, "CQkJ"), ResultCode::UnwillingToPerform);
    served.clock.advance(std::time::Duration::from_secs(3601));
    refused(&served, &request(1, KEYS[0]), ResultCode::InvalidCredentials);
    assert!(cluster.lock().unwrap().changes.is_empty());
    assert_eq!(tokens(&served), [token(1, true).to_string()]);
}

/// Who asks on many connections has one thread wait.
#[test]
fn one_join_waits_at_a_time() {
    let (served, cluster) = served();
    assert_eq!(put(&mut served.root(), &token(1, false).to_string()), ResultCode::Success);
    cluster.lock().unwrap().keeps = true;
    std::thread::scope(|scope| {
        let change = br#"{"change": "transfer", "to": 1}"#;
        let ask = || served.root().extended(CHANGE_MEMBERS, Some(change)).code();
        let waiting = scope.spawn(ask);
        while cluster.lock().unwrap().kept.is_empty() {
            std::thread::yield_now();
        }
        refused(&served, &request(1, KEYS[0]), ResultCode::Busy);
        assert_eq!(tokens(&served), [token(1, false).to_string()], "nobody has taken it");
        let done = cluster.lock().unwrap().kept.pop().unwrap();
        done(Ok(MembersChanged::Done));
        assert_eq!(waiting.join().unwrap(), ResultCode::Success);
    });
    cluster.lock().unwrap().keeps = false;
    assert_eq!(joined(&served, 1, KEYS[0]).member, 70_001);
}

#[test]
fn a_server_that_is_alone_lets_nobody_in() {
    let served = Served::new();
    assert_eq!(put(&mut served.root(), &token(1, true).to_string()), ResultCode::Success);
    refused(&served, &request(1, KEYS[0]), ResultCode::UnwillingToPerform);
}

#[test]
fn tokens_are_made_and_taken_back_by_who_may_change_the_configuration() {
    let (served, _) = served();
    let mut root = served.root();
    let good = token(1, false).to_string();
    let late = JoinToken { ends_s: START.seconds() + 8 * 86_400, ..token(1, false) }.to_string();
    let over = JoinToken { ends_s: START.seconds() - 1, ..token(1, false) }.to_string();
    assert_eq!(put(&mut served.client(), &good), ResultCode::InsufficientAccessRights);
    assert_eq!(put(&mut root, "a token"), ResultCode::InvalidAttributeSyntax);
    assert_eq!(put(&mut root, &late), ResultCode::ConstraintViolation);
    assert_eq!(put(&mut root, &over), ResultCode::ConstraintViolation);
    assert_eq!(put(&mut root, &good), ResultCode::Success);
    assert_eq!(put(&mut root, &good), ResultCode::AttributeOrValueExists);
    for number in 2..=64 {
        assert_eq!(put(&mut root, &token(number, false).to_string()), ResultCode::Success);
    }
    assert_eq!(put(&mut root, &token(65, false).to_string()), ResultCode::AdminLimitExceeded);
    // Those that are over make room.
    served.clock.advance(std::time::Duration::from_secs(3601));
    let next = JoinToken { ends_s: START.seconds() + 7200, ..token(66, false) }.to_string();
    assert_eq!(put(&mut root, &next), ResultCode::Success);
    assert_eq!(tokens(&served), [next.as_str()]);
    let take = [(ModifyOperation::Delete, JOIN_TOKEN_ATTRIBUTE, &[next.as_str()][..])];
    assert_eq!(root.modify(TOKENS, &take), ResultCode::Success);
    assert_eq!(root.modify(TOKENS, &take), ResultCode::NoSuchAttribute);
    assert!(tokens(&served).is_empty());
    // They survive a restart.
    let last = JoinToken { ends_s: START.seconds() + 7200, ..token(67, false) }.to_string();
    assert_eq!(put(&mut root, &last), ResultCode::Success);
    drop(root);
    assert_eq!(tokens(&served.reopen()), [last]);
}

#[test]
fn two_machines_become_voters_together() {
    let (served, cluster) = served();
    let voters = || {
        let cluster = cluster.lock().unwrap();
        cluster.members.iter().filter(|one| one.is_voter).map(|one| one.member).collect::<Vec<_>>()
    };
    for number in [1, 2, 3] {
        let is_for_voter = number != 2;
        let text = token(number, is_for_voter).to_string();
        assert_eq!(put(&mut served.root(), &text), ResultCode::Success);
    }
    assert_eq!(joined(&served, 1, KEYS[0]).member, 70_001);
    assert!(!joined(&served, 2, KEYS[1]).is_for_voter);
    assert_eq!(promote_joined(&mut served.directory.worker()), Ok(()));
    assert_eq!(voters(), [1], "two are worse than one");
    assert_eq!(joined(&served, 3, "AgIC").member, 70_003);
    assert_eq!(promote_joined(&mut served.directory.worker()), Ok(()));
    assert_eq!(voters(), [1, 70_001, 70_003]);
    // Once is all: what an administrator makes of them later stays.
    assert_eq!(promote_joined(&mut served.directory.worker()), Ok(()));
    let left: Vec<JoinToken> = tokens(&served).iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(left.iter().map(|token| token.name[0]).collect::<Vec<_>>(), [2]);
    cluster.lock().unwrap().members[1].is_voter = false;
    assert_eq!(promote_joined(&mut served.directory.worker()), Ok(()));
    assert_eq!(voters(), [1, 70_003]);
}

fn change(served: &Served, change: &str) {
    let answer = served.root().extended(CHANGE_MEMBERS, Some(change.as_bytes()));
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

/// A removed machine joined again with the token that it had used, and one that was to stay a
/// learner became a voter.
#[test]
fn what_an_administrator_makes_of_a_machine_stays() {
    let (served, cluster) = served();
    for number in [1, 2, 3] {
        let text = token(number, number != 3).to_string();
        assert_eq!(put(&mut served.root(), &text), ResultCode::Success);
    }
    assert_eq!(joined(&served, 1, KEYS[0]).member, 70_001);
    change(&served, r#"{"change": "demote", "members": [70001]}"#);
    assert_eq!(joined(&served, 2, KEYS[1]).member, 70_002);
    assert_eq!(promote_joined(&mut served.directory.worker()), Ok(()));
    assert!(cluster.lock().unwrap().members[1..].iter().all(|one| !one.is_voter));
    assert_eq!(joined(&served, 3, "AgIC").member, 70_003);
    change(&served, r#"{"change": "remove", "members": [70003]}"#);
    refused(&served, &request(3, "AgIC"), ResultCode::InvalidCredentials);
    let left: Vec<JoinToken> = tokens(&served).iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(left.iter().map(|token| token.name[0]).collect::<Vec<_>>(), [2]);
}
