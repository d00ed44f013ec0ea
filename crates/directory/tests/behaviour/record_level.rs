//! What the records of a cluster may say, while its members run different releases. A release that
//! reads no settings (level 3) stands for the one before, and one that does for the next.

use std::sync::{Arc, Mutex};

use directory::{
    ClusterMemberState, ClusterState, ClusterTeller, JOIN_TOKEN_ATTRIBUTE, JoinPart, JoinToken,
    raise_record_level,
};
use history::log::MembersError;
use history::record::RECORD_LEVEL;
use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

use crate::support::cluster::Cluster;
use crate::support::{START, SUFFIX, Served};

const TOKENS: &str = "cn=Join Tokens,cn=config";

/// Of a machine that is to join.
fn token() -> String {
    let (part, ends_s) = (JoinPart::Learner, START.seconds() + 3600);
    JoinToken { name: [1; 16], secret: [2; 32], ends_s, part, key: None }.to_string()
}

/// Has a node say that these members read records up to these levels.
fn show(served: &Served, own: u64, levels: &Arc<Mutex<Vec<Option<u16>>>>) {
    let levels = Arc::clone(levels);
    served.directory.show_cluster(ClusterTeller {
        own: Box::new(move || {
            Some(ClusterState { member: own, leader: Some(1), ..Default::default() })
        }),
        members: Box::new(move || {
            let levels = levels.lock().unwrap().clone();
            let of = |(record_level, member)| ClusterMemberState {
                member,
                record_level,
                ..ClusterMemberState::default()
            };
            levels.into_iter().zip(1..).map(of).collect()
        }),
        change: Box::new(|_, done| done(Err(MembersError::NotDeciding))),
        verify: Box::new(|_| Err("no comparison".to_owned())),
        can_admit: Box::new(|_| Err("nobody joins".to_owned())),
        admit: Box::new(|_, _| Err("nobody joins".to_owned())),
    });
}

fn level(served: &Served) -> Option<u16> {
    served.directory.store().reader().view().unwrap().record_level().unwrap()
}

#[test]
fn a_new_kind_of_record_waits_until_all_members_can_read_it() {
    let cluster = Cluster::with(2, |options| options.record_level_first = 2);
    let levels = Arc::new(Mutex::new(vec![Some(RECORD_LEVEL), Some(2)]));
    show(cluster.leader(), 1, &levels);
    show(cluster.follower(), 2, &levels);
    let raise = |served: &Served| raise_record_level(&mut served.directory.worker()).unwrap();
    let token = token();
    let put = || {
        let change: (_, _, &[&str]) = (ModifyOperation::Add, JOIN_TOKEN_ATTRIBUTE, &[&token]);
        let answer = cluster.leader().root().try_modify(TOKENS, &[change]);
        (answer.code(), answer.diagnostic)
    };
    let add = |number: u64| {
        let name = format!("ou=unit {number},{SUFFIX}");
        cluster.leader().root().add(&name, &[("objectClass", &["organizationalUnit"])])
    };
    // The one before is there, and then it does not answer.
    for second in [Some(2), None] {
        levels.lock().unwrap()[1] = second;
        raise(cluster.leader());
        let (code, why) = put();
        assert_eq!(code, ResultCode::UnwillingToPerform);
        assert!(why.contains("records of level 3"), "{why}");
        assert_eq!(level(cluster.leader()), None);
        // What it reads is written all the while.
        assert_eq!(add(u64::from(second.unwrap_or(0))), ResultCode::Success);
    }
    levels.lock().unwrap()[1] = Some(RECORD_LEVEL + 1);
    // Only who leads says so.
    raise(cluster.follower());
    assert_eq!(put().0, ResultCode::UnwillingToPerform);
    raise(cluster.leader());
    assert_eq!(put(), (ResultCode::Success, String::new()));
    for served in &cluster.nodes {
        let answer = served.root().compare(TOKENS, JOIN_TOKEN_ATTRIBUTE, &token);
        assert_eq!((answer, level(served)), (ResultCode::CompareTrue, Some(RECORD_LEVEL)));
    }
    // Once is all, and it does not fall.
    let before = cluster.leader().directory.store().published().lsn;
    levels.lock().unwrap()[1] = Some(2);
    raise(cluster.leader());
    assert_eq!(cluster.leader().directory.store().published().lsn, before);
    assert_eq!(level(cluster.leader()), Some(RECORD_LEVEL));
}

#[test]
fn a_server_alone_writes_what_it_reads() {
    let served = Served::with(|options| options.record_level_first = 2);
    let token = token();
    let change: (_, _, &[&str]) = (ModifyOperation::Add, JOIN_TOKEN_ATTRIBUTE, &[&token]);
    assert_eq!(served.root().try_modify(TOKENS, &[change]).code(), ResultCode::Success);
}
