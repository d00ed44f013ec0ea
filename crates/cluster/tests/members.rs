//! Changing who takes part while the cluster runs: real members, threads and sockets.
#![allow(missing_docs, reason = "tests explain themselves by name")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};

use cluster::{CHOSEN_MAX, Service, Status};
use history::log::conformance::{Ledger, record_after};
use history::log::{
    CommitLog, MemberChange, MemberState, MembersChanged, MembersError, ReadLevel, Reign, Role,
};
use history::record::Origin;
use store::Lsn;
use support::{Cluster, PATIENCE, barrier, commit, leader, ledger, wait_for};

/// Members that run, and what was written.
struct Running {
    cluster: Cluster,
    ledgers: BTreeMap<u64, Arc<Ledger>>,
    services: BTreeMap<u64, Arc<Service>>,
    last: Lsn,
    hash: u64,
}

impl Running {
    fn new(count: u64) -> Self {
        let cluster = Cluster::new(count);
        let ledgers: BTreeMap<u64, _> = (1..=count).map(|id| (id, ledger())).collect();
        let services = cluster.start_all(|id| Arc::clone(&ledgers[&id]) as _, |_| ());
        let running = Self { cluster, ledgers, services, last: Lsn(0), hash: 0 };
        running.leader();
        running
    }

    fn leader(&self) -> (u64, Reign) {
        leader(&self.services)
    }

    /// Any that does not lead.
    fn follower(&self) -> u64 {
        let (leader, _) = self.leader();
        *self.services.keys().find(|id| **id != leader).unwrap()
    }

    /// Whoever leads commits so many records.
    fn write(&mut self, count: u64) {
        let origin = Origin::of_server([7; 16]);
        for _ in 0..count {
            let (id, reign) = self.leader();
            let line = format!("change {}", self.last.0 + 1);
            let record = record_after(self.last, self.hash, reign, &origin, line);
            (self.last, self.hash) = (record.lsn, record.hash);
            assert_eq!(commit(&*self.services[&id].log(), reign, record), Ok(self.last));
        }
    }

    /// Asks member `by` for a change, until the learners have caught up that it is about.
    fn change(&self, by: u64, change: MemberChange) -> Result<MembersChanged, MembersError> {
        wait_for("the learners have caught up", || {
            let (told, heard) = mpsc::channel();
            let done = Box::new(move |outcome| told.send(outcome).unwrap());
            self.services[&by].change_members(change.clone(), PATIENCE, done);
            let outcome = heard.recv_timeout(2 * PATIENCE).unwrap();
            (!lags(&outcome)).then_some(outcome)
        })
    }

    /// A learner joins, and is started with nothing but what it is told.
    fn join(&mut self) -> u64 {
        let (listener, node) = self.cluster.listen();
        let change = MemberChange::Join {
            address: node.address,
            url: node.url,
            key: String::new(),
            replaces: None,
        };
        let MembersChanged::Joined(id) = self.change(self.follower(), change).unwrap() else {
            panic!("it joins")
        };
        self.cluster.admit(id, listener);
        self.start(id);
        id
    }

    fn start(&mut self, id: u64) {
        let state = self.ledgers.entry(id).or_insert_with(ledger);
        let service = self.cluster.start(id, Arc::clone(state) as _);
        self.services.insert(id, service);
    }

    /// It goes away, and forgets what it does not keep.
    fn stop(&mut self, id: u64) {
        self.services.remove(&id).unwrap().log().close();
        self.ledgers.remove(&id);
    }

    fn status(&self, id: u64) -> Status {
        self.services[&id].status()
    }

    /// Waits until all say that these are the voters, and those the learners.
    fn wait_for_members(&self, voters: &[u64], learners: &[u64]) {
        let list = |status: &Status, state: MemberState| -> Vec<u64> {
            let all = status.members.iter().filter(|member| member.state == state);
            all.map(|member| member.id).collect()
        };
        for id in voters.iter().chain(learners) {
            wait_for("the members", || {
                let status = self.status(*id);
                let is_so = list(&status, MemberState::Voter) == voters
                    && list(&status, MemberState::Learner) == learners;
                is_so.then_some(())
            });
        }
    }

    fn stop_all(self) {
        self.services.values().for_each(|service| service.log().close());
    }
}

/// Whether a change was refused because the leader has not heard yet that a learner has all.
fn lags(outcome: &Result<MembersChanged, MembersError>) -> bool {
    matches!(outcome, Err(MembersError::Refused(reason)) if reason.contains("has caught up"))
}

fn promote(ids: &[u64]) -> MemberChange {
    MemberChange::Promote { ids: ids.iter().copied().collect() }
}

fn refused(outcome: Result<MembersChanged, MembersError>) -> String {
    match outcome {
        Err(MembersError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_learners_join_and_become_voters_at_once() {
    let mut all = Running::new(3);
    all.write(20);
    let (one, other) = (all.join(), all.join());
    // No number is given twice, nor one that was chosen.
    assert!(CHOSEN_MAX < one && one < other, "{one}, {other}");
    all.wait_for_members(&[1, 2, 3], &[one, other]);
    assert_eq!(barrier(&*all.services[&one].log(), ReadLevel::AtLeast(all.last)), all.last);
    let reason = refused(all.change(all.follower(), promote(&[one])));
    assert!(reason.contains("promote two members at once"), "{reason}");
    // By one that is no voter itself.
    assert_eq!(all.change(one, promote(&[one, other])), Ok(MembersChanged::Done));
    all.wait_for_members(&[1, 2, 3, one, other], &[]);
    assert_eq!(all.change(other, promote(&[one, other])), Ok(MembersChanged::AlreadySo));
    // They count: two of the first may go, and one of them leads.
    let followers: Vec<u64> = [1, 2, 3].into_iter().filter(|id| *id != all.leader().0).collect();
    followers.iter().for_each(|id| all.stop(*id));
    all.write(1);
    let transfer = MemberChange::Transfer { id: one };
    assert_eq!(all.change(other, transfer), Ok(MembersChanged::Done));
    wait_for("the joined member decides", || (all.leader().0 == one).then_some(()));
    all.write(1);
    // All go back to learners but those that are left.
    let back = MemberChange::Demote { ids: followers.iter().copied().collect() };
    assert_eq!(all.change(other, back), Ok(MembersChanged::Done));
    all.stop_all();
}

#[test]
fn a_member_takes_the_place_of_a_dead_one_which_is_not_heard_when_it_comes_back() {
    let mut all = Running::new(3);
    all.write(5);
    let new = all.join();
    let old = all.follower();
    all.stop(old);
    let replace = MemberChange::Replace { old, new };
    let (leader, _) = all.leader();
    // Until its silence is noticed, too few would answer for something else, not for this.
    assert_eq!(all.change(new, replace.clone()), Ok(MembersChanged::Done));
    assert_eq!(all.change(new, replace), Ok(MembersChanged::AlreadySo));
    let voters: Vec<u64> = all.services.keys().copied().collect();
    all.wait_for_members(&voters, &[]);
    all.start(old);
    let status = wait_for("it knows", || {
        let status = all.status(old);
        status.is_removed.then_some(status)
    });
    assert!(
        matches!(&status.role, Role::Failed(reason) if reason.contains("was removed")),
        "{status:?}"
    );
    // It has come in, and nobody listens.
    let (told, heard) = mpsc::channel();
    let done = Box::new(move |outcome| told.send(outcome).unwrap());
    all.services[&old].ask_leader(b"x".to_vec().into(), PATIENCE, done);
    assert!(heard.recv_timeout(PATIENCE).unwrap().is_err());
    // Whoever stands for election is in a term of its own.
    assert!(all.status(old).term <= all.status(leader).term, "it disturbs nobody");
    all.stop(old);
    all.write(5);
    let unlisted = all.services.values().map(|service| service.status().listings);
    assert!(unlisted.flatten().next().is_none());
    // Its number is gone.
    let back = promote(&[old]);
    assert!(refused(all.change(new, back)).contains("no member has the number"));
    all.stop_all();
}

#[test]
fn a_leader_that_is_removed_hands_the_lead_over_first() {
    let mut all = Running::new(3);
    all.write(5);
    let new = all.join();
    let (old, before) = all.leader();
    let by = all.follower();
    let replace = MemberChange::Replace { old, new };
    assert!(matches!(
        all.change(by, replace),
        Ok(MembersChanged::Done | MembersChanged::AlreadySo)
    ));
    wait_for("it knows", || all.status(old).is_removed.then_some(()));
    all.stop(old);
    let voters: Vec<u64> = all.services.keys().copied().collect();
    all.wait_for_members(&voters, &[]);
    assert!(all.leader().1 > before);
    all.write(5);
    all.stop_all();
}

#[test]
fn a_cluster_of_one_grows_and_shrinks_to_another_one() {
    let mut all = Running::new(1);
    all.write(5);
    // Nobody else is heard, nor needs to be.
    let log = all.services[&1].log();
    for _ in 0..100 {
        std::thread::park_timeout(2 * cluster::SILENCE_MAX / 100);
        assert!(matches!(log.role(), Role::Deciding(_)), "{:?}", log.role());
    }
    let (listener, node) = all.cluster.listen();
    let change = |key: &str| MemberChange::Join {
        address: node.address.clone(),
        url: node.url.clone(),
        key: key.to_owned(),
        replaces: None,
    };
    let Ok(MembersChanged::Joined(new)) = all.change(1, change("one")) else { panic!() };
    // It is the one that did, whatever it was answered.
    assert_eq!(all.change(1, change("one")), Ok(MembersChanged::Joined(new)));
    let again = refused(all.change(1, change("another")));
    assert!(again.contains(&format!("member {new} has the address {}", node.address)), "{again}");
    // One that was never there is no voter.
    assert!(refused(all.change(1, MemberChange::Replace { old: 1, new })).contains("not answer"));
    let none = MemberChange::Remove { ids: BTreeSet::from([1]) };
    assert!(refused(all.change(1, none)).contains("no voter would be left"));
    all.cluster.admit(new, listener);
    all.start(new);
    barrier(&*all.services[&new].log(), ReadLevel::AtLeast(all.last));
    // Nobody else could lead: it steps down when it is done.
    let replaced = all.change(new, MemberChange::Replace { old: 1, new });
    assert!(
        matches!(replaced, Ok(MembersChanged::Done | MembersChanged::AlreadySo)),
        "{replaced:?}"
    );
    wait_for("the other one decides", || {
        matches!(all.services[&new].log().role(), Role::Deciding(_)).then_some(())
    });
    wait_for("it knows", || all.status(1).is_removed.then_some(()));
    all.stop(1);
    all.wait_for_members(&[new], &[]);
    all.write(5);
    all.stop_all();
}

#[test]
fn one_change_is_under_way_at_a_time() {
    let mut all = Running::new(3);
    let (one, other) = (all.join(), all.join());
    all.wait_for_members(&[1, 2, 3], &[one, other]);
    let (leader, _) = all.leader();
    let log = all.services[&leader].log();
    let ask = |change: MemberChange| {
        let (told, heard) = mpsc::channel();
        log.members().change(change, Box::new(move |outcome| told.send(outcome).unwrap()));
        heard
    };
    for id in [one, other] {
        wait_for("the learners have caught up", || {
            let reason = refused(ask(promote(&[id])).recv_timeout(PATIENCE).unwrap());
            reason.contains("two members at once").then_some(())
        });
    }
    let first = ask(promote(&[one, other]));
    let second = ask(MemberChange::Remove { ids: BTreeSet::from([one]) });
    assert_eq!(first.recv_timeout(PATIENCE).unwrap(), Ok(MembersChanged::Done));
    let reason = refused(second.recv_timeout(PATIENCE).unwrap());
    // The first may have been done already.
    let is_refused = reason.contains("another change of the members is under way")
        || reason.contains("there would be 4 voters");
    assert!(is_refused, "{reason}");
    // By one that does not lead, nothing happens.
    let follower = all.services[&all.follower()].log();
    let (told, heard) = mpsc::channel();
    let done = Box::new(move |outcome| told.send(outcome).unwrap());
    follower.members().change(promote(&[one]), done);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), Err(MembersError::NotDeciding));
    all.stop_all();
}

#[test]
fn a_change_whose_leader_goes_is_ended_by_the_next() {
    let mut all = Running::new(3);
    let (one, other) = (all.join(), all.join());
    all.wait_for_members(&[1, 2, 3], &[one, other]);
    for id in [one, other] {
        barrier(&*all.services[&id].log(), ReadLevel::Linearizable);
    }
    let (leader, _) = all.leader();
    // Nobody waits for what it says.
    let both = promote(&[one, other]);
    all.services[&leader].log().members().change(both.clone(), Box::new(drop));
    all.stop(leader);
    let by = all.follower();
    assert!(all.change(by, both).is_ok());
    // Whatever it was, there is one set of voters in the end.
    let voters = [1, 2, 3, one, other];
    for service in all.services.values() {
        wait_for("the members", || {
            let members = service.status().members;
            let all = members.iter().filter(|member| member.state == MemberState::Voter);
            (all.map(|member| member.id).collect::<Vec<_>>() == voters).then_some(())
        });
    }
    all.write(3);
    all.stop_all();
}

#[test]
fn what_the_settings_say_of_the_members_counts_until_they_are_changed() {
    let mut all = Running::new(3);
    let new = all.join();
    let old = all.follower();
    assert!(all.change(old, MemberChange::Replace { old, new }).is_ok());
    all.stop(old);
    let other = all.follower();
    barrier(&*all.services[&other].log(), ReadLevel::Linearizable);
    all.wait_for_members(&all.services.keys().copied().collect::<Vec<_>>(), &[]);
    // It keeps who takes part, and its settings still list those of the beginning, elsewhere.
    let ledger = Arc::clone(&all.ledgers[&other]);
    all.services.remove(&other).unwrap().log().close();
    let mut parts = all.cluster.parts(other, ledger as _);
    parts.options.members.values_mut().for_each(|node| node.address = "nowhere:1".to_owned());
    let service = Service::start(parts).unwrap();
    let status = service.status();
    assert!(status.has_caught_up, "{status:?}");
    let ids: Vec<u64> = status.members.iter().map(|member| member.id).collect();
    assert!(ids.contains(&new) && !ids.contains(&old), "{ids:?}");
    assert!(status.members.iter().all(|member| member.address != "nowhere:1"));
    assert!(status.listed_at > 0);
    service.log().close();
    all.stop_all();
}
