//! Changing who takes part: what a change comes to, why it is refused, and carrying it out.
//!
//! Invariant: voters change by joint consensus, all that are named at once. A member that is
//! removed is a learner before, so that what is left of a change that was cut short is always
//! finished in the same way, by whoever leads.
//! Invariant: a member gets a number that none ever had: where the log has the entry that was made
//! for it, above all numbers that are chosen by hand.

use std::collections::{BTreeMap, BTreeSet};

use history::log::{MemberChange, MembersChanged, MembersError};
use openraft::ChangeMembers;
use openraft::errors::{ChangeMembershipError, ClientWriteError, RaftError};
use openraft::raft::Precondition;

use crate::entry::{self, check_members};
use crate::listing::numbers;
use crate::machine::Engine;
use crate::options::VOTERS_MAX;
use crate::types::{LogId, Membership, Node};

/// What the leader knows when a change is asked of it.
pub(super) struct Known<'k> {
    /// Its number.
    pub(super) id: u64,
    pub(super) membership: &'k Membership,
    /// Who answered lately, the leader included.
    pub(super) heard: BTreeSet<u64>,
    /// How many entries each learner lacks that has not caught up.
    pub(super) lacking: BTreeMap<u64, u64>,
}

/// What is to be done.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Plan {
    AlreadySo,
    /// One with that key has joined, under this number.
    Joined(u64),
    /// A learner is added.
    Join(Node),
    /// These are the voters, and those take part no more.
    Members {
        voters: BTreeSet<u64>,
        removed: BTreeSet<u64>,
    },
    /// A member has another address or URL.
    Rename(u64, Node),
    Transfer(u64),
}

/// What a change comes to.
///
/// # Errors
/// Why it is refused.
pub(super) fn plan(known: &Known<'_>, change: MemberChange) -> Result<Plan, MembersError> {
    if known.membership.get_joint_config().len() > 1 {
        return refused(UNDER_WAY);
    }
    match change {
        MemberChange::Join { address, url, key, replaces } => {
            known.join(Node { address, url, key }, replaces)
        }
        MemberChange::Rename { id, address, url } => known.rename(id, address, url),
        MemberChange::Promote { ids } => {
            known.all_listed(&ids)?;
            let new: BTreeSet<u64> = ids.difference(&known.voters()).copied().collect();
            known.all_caught_up(&new)?;
            known.members(&(&known.voters() | &new), BTreeSet::new())
        }
        MemberChange::Demote { ids } => {
            known.all_listed(&ids)?;
            known.members(&(&known.voters() - &ids), BTreeSet::new())
        }
        MemberChange::Remove { ids } => {
            known.all_listed(&ids)?;
            known.members(&(&known.voters() - &ids), ids)
        }
        MemberChange::Replace { old, new } => known.replace(old, new),
        MemberChange::Transfer { id } => known.transfer(id),
    }
}

impl Known<'_> {
    fn voters(&self) -> BTreeSet<u64> {
        self.membership.voter_ids().collect()
    }

    fn lists(&self, id: u64) -> bool {
        self.membership.get_node(&id).is_some()
    }

    /// Whether all that take part answered lately.
    pub(super) fn is_all_heard(&self) -> bool {
        self.membership.nodes().all(|(id, _)| self.heard.contains(id))
    }

    fn all_listed(&self, ids: &BTreeSet<u64>) -> Result<(), MembersError> {
        match ids.iter().find(|id| !self.lists(**id)) {
            Some(id) => refused(format!("no member has the number {id}")),
            None if ids.is_empty() => refused("no member is named"),
            None => Ok(()),
        }
    }

    fn all_caught_up(&self, ids: &BTreeSet<u64>) -> Result<(), MembersError> {
        if let Some(id) = ids.iter().find(|id| !self.heard.contains(id)) {
            return refused(format!("member {id} does not answer"));
        }
        match ids.iter().find_map(|id| Some((id, self.lacking.get(id)?))) {
            Some((id, lacks)) => refused(format!(
                "member {id} lacks {lacks} entries of the log: it can be a voter when it has \
                 caught up"
            )),
            None => Ok(()),
        }
    }

    fn join(&self, node: Node, replaces: Option<u64>) -> Result<Plan, MembersError> {
        if node.address.is_empty() {
            return refused("a member without an address cannot be reached");
        }
        let mut nodes = self.membership.nodes();
        if let Some((id, one)) = nodes.find(|(_, one)| !one.key.is_empty() && one.key == node.key) {
            return match one.address == node.address {
                true => Ok(Plan::Joined(*id)),
                false => refused(format!(
                    "it has joined as member {id}, at {}: remove that one, and join from an empty \
                     directory with another token",
                    one.address
                )),
            };
        }
        if let Some(id) = replaces {
            self.all_listed(&BTreeSet::from([id]))?;
        }
        self.check_address(&node.address, replaces)?;
        self.check_with(u64::MAX, &node)?;
        Ok(Plan::Join(node))
    }

    /// Whether nobody but `own` has an address.
    fn check_address(&self, address: &str, own: Option<u64>) -> Result<(), MembersError> {
        let mut nodes = self.membership.nodes().filter(|(id, _)| Some(**id) != own);
        match nodes.find(|(_, one)| one.address == address) {
            Some((id, _)) => {
                refused(format!("member {id} has the address {address}: remove it first"))
            }
            None => Ok(()),
        }
    }

    /// Whether all could be written if `node` had the number `id`.
    fn check_with(&self, id: u64, node: &Node) -> Result<(), MembersError> {
        let mut all: BTreeMap<u64, Node> =
            self.membership.nodes().map(|(id, node)| (*id, node.clone())).collect();
        all.insert(id, node.clone());
        check_members(all.iter()).map_err(MembersError::Refused)
    }

    fn rename(&self, id: u64, address: String, url: String) -> Result<Plan, MembersError> {
        self.all_listed(&BTreeSet::from([id]))?;
        let before = self.membership.get_node(&id).cloned().unwrap_or_default();
        let mut after = before.clone();
        if !address.is_empty() {
            self.check_address(&address, Some(id))?;
            after.address = address;
        }
        if after.address != before.address {
            self.check_reach_without(id)?;
        }
        if !url.is_empty() {
            after.url = url;
        }
        if after == before {
            return Ok(Plan::AlreadySo);
        }
        self.check_with(id, &after)?;
        Ok(Plan::Rename(id, after))
    }

    fn replace(&self, old: u64, new: u64) -> Result<Plan, MembersError> {
        let voters = self.voters();
        let is_done = voters.contains(&new) && !voters.contains(&old);
        if is_done && !self.lists(old) {
            return Ok(Plan::AlreadySo);
        }
        self.all_listed(&BTreeSet::from([old, new]))?;
        if !is_done {
            if !voters.contains(&old) {
                return refused(format!("member {old} is not a voter"));
            }
            if voters.contains(&new) {
                return refused(format!("member {new} is a voter already"));
            }
            self.all_caught_up(&BTreeSet::from([new]))?;
        }
        let mut after = voters;
        after.remove(&old);
        after.insert(new);
        self.members(&after, BTreeSet::from([old]))
    }

    /// Whether the leader reaches a majority also if it does not find `id` any more.
    fn check_reach_without(&self, id: u64) -> Result<(), MembersError> {
        let voters = self.voters();
        let reached = voters
            .iter()
            .filter(|one| **one == self.id || (**one != id && self.heard.contains(one)));
        if 2 * reached.count() > voters.len() {
            return Ok(());
        }
        refused(format!(
            "if member {id} is not found there, too few of the voters would answer, and nothing \
             could be changed any more: have the others answer first"
        ))
    }

    fn transfer(&self, id: u64) -> Result<Plan, MembersError> {
        self.all_listed(&BTreeSet::from([id]))?;
        match () {
            () if id == self.id => Ok(Plan::AlreadySo),
            () if !self.voters().contains(&id) => refused(format!("member {id} is not a voter")),
            () if !self.heard.contains(&id) => refused(format!("member {id} does not answer")),
            () => Ok(Plan::Transfer(id)),
        }
    }

    /// The change to these voters, without those who are removed.
    fn members(
        &self,
        voters: &BTreeSet<u64>,
        removed: BTreeSet<u64>,
    ) -> Result<Plan, MembersError> {
        let before = self.voters();
        if *voters != before {
            self.check_voters(&before, voters)?;
        } else if removed.is_empty() {
            return Ok(Plan::AlreadySo);
        }
        Ok(Plan::Members { voters: voters.clone(), removed })
    }

    /// Whether these may be the voters.
    fn check_voters(
        &self,
        before: &BTreeSet<u64>,
        after: &BTreeSet<u64>,
    ) -> Result<(), MembersError> {
        let count = after.len();
        if count == 0 {
            return refused("no voter would be left");
        }
        if count > VOTERS_MAX {
            return refused(format!("there would be {count} voters; {VOTERS_MAX} are the most"));
        }
        if count.is_multiple_of(2) {
            let way = if count > before.len() { "promote" } else { "demote or remove" };
            return refused(format!(
                "there would be {count} voters, of which no more may fail than of {}: {way} two \
                 members at once, or replace one by another",
                count - 1
            ));
        }
        let silent: BTreeSet<u64> = after.difference(&self.heard).copied().collect();
        if 2 * silent.len() >= count {
            let silent = numbers(&silent);
            return refused(format!("of {count} voters too few would answer: not {silent}"));
        }
        Ok(())
    }
}

/// Carries out what changes the members, of whom the log says last at `at`.
///
/// # Errors
/// When it is refused, or nobody knows how far it came.
pub(super) async fn carry_out(
    raft: &Engine,
    at: Option<LogId>,
    before: &BTreeSet<u64>,
    plan: Plan,
) -> Result<MembersChanged, MembersError> {
    match plan {
        Plan::AlreadySo => Ok(MembersChanged::AlreadySo),
        Plan::Joined(id) => Ok(MembersChanged::Joined(id)),
        Plan::Join(node) => {
            let made = change(raft, at, ChangeMembers::AddNodes(BTreeMap::new())).await?;
            let id = number_of(&made);
            let added = BTreeMap::from([(id, node)]);
            change(raft, Some(made), ChangeMembers::AddNodes(added)).await?;
            Ok(MembersChanged::Joined(id))
        }
        Plan::Rename(id, node) => {
            change(raft, at, ChangeMembers::SetNodes(BTreeMap::from([(id, node)]))).await?;
            Ok(MembersChanged::Done)
        }
        Plan::Members { voters, removed } => {
            let mut at = at;
            if voters != *before {
                let changed = change(raft, at, ChangeMembers::ReplaceAllVoters(voters)).await?;
                at = Some(changed);
            }
            if !removed.is_empty() {
                change(raft, at, ChangeMembers::RemoveNodes(removed)).await?;
            }
            Ok(MembersChanged::Done)
        }
        Plan::Transfer(id) => {
            let asked = raft.trigger().transfer_leader(id).await;
            asked.map_err(|fatal| MembersError::Unknown(fatal.to_string()))?;
            Ok(MembersChanged::Done)
        }
    }
}

/// Ends the change at `at` that was under way when the lead was lost.
pub(super) async fn finish(raft: &Engine, at: Option<LogId>) {
    // Another leader finishes it otherwise.
    let _ = change(raft, at, ChangeMembers::AddVoterIds(BTreeSet::new())).await;
}

/// Changes the members if nobody did since `at`; where the log has the last entry of the change.
async fn change(
    raft: &Engine,
    at: Option<LogId>,
    what: ChangeMembers<u64, Node>,
) -> Result<LogId, MembersError> {
    let unchanged = Precondition::LastMembershipLogId { last_membership_log_id: at };
    match raft.change_membership_if(what, true, [unchanged]).await {
        Ok(response) => Ok(response.log_id),
        Err(RaftError::APIError(error)) => match error {
            ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_))
            | ClientWriteError::PreconditionFailed(_) => refused(UNDER_WAY),
            ClientWriteError::ChangeMembershipError(error) => refused(error.to_string()),
            // What is in the log may yet be committed by whoever leads then.
            ClientWriteError::ForwardToLeader(_) | ClientWriteError::LogEntryDiscarded(_) => {
                Err(MembersError::Unknown("the lead was lost meanwhile".to_owned()))
            }
        },
        Err(RaftError::Fatal(fatal)) => Err(MembersError::Unknown(fatal.to_string())),
    }
}

/// The number of the member for which an entry of the log was made.
fn number_of(made: &LogId) -> u64 {
    CHOSEN_MAX.saturating_add(entry::place(made).index)
}

/// Where the log has the entry that was made for a member, as the journal counts; 0 for one whose
/// number was chosen by hand.
pub(crate) const fn made_at(id: u64) -> u64 {
    id.saturating_sub(CHOSEN_MAX)
}

fn refused<T>(reason: impl Into<String>) -> Result<T, MembersError> {
    Err(MembersError::Refused(reason.into()))
}

/// The largest number of a member that is chosen by hand, when a cluster begins.
pub const CHOSEN_MAX: u64 = 65_535;

pub(super) const UNDER_WAY: &str = "another change of the members is under way";

#[cfg(test)]
mod tests {
    use super::*;

    /// Of members 1, 2 and 3, of whom 1 leads, and learners 4 and 5, of whom 5 has not caught up.
    fn members() -> Membership {
        let node = |id: u64| Node {
            address: format!("{id}.example:7636"),
            url: String::new(),
            key: if id == 5 { "five".to_owned() } else { String::new() },
        };
        let nodes: BTreeMap<u64, Node> = (1..=5).map(|id| (id, node(id))).collect();
        Membership::new(vec![BTreeSet::from([1, 2, 3])], nodes).unwrap()
    }

    fn ids(ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().collect()
    }

    fn planned_by(heard: &[u64], lacking: &[u64], change: MemberChange) -> Result<Plan, String> {
        let membership = members();
        let lacking = lacking.iter().map(|id| (*id, 1000)).collect();
        let known = Known { id: 1, membership: &membership, heard: ids(heard), lacking };
        plan(&known, change).map_err(|error| error.to_string())
    }

    fn planned(change: MemberChange) -> Result<Plan, String> {
        planned_by(&[1, 2, 3, 4, 5], &[5], change)
    }

    #[track_caller]
    fn check_refused(change: MemberChange, says: &str) {
        let refused = planned(change).unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }

    #[test]
    fn voters_stay_odd_few_and_alive() {
        let voters = |voters: &[u64], removed: &[u64]| {
            Ok(Plan::Members { voters: ids(voters), removed: ids(removed) })
        };
        check_refused(MemberChange::Promote { ids: ids(&[4]) }, "promote two members at once");
        check_refused(MemberChange::Promote { ids: ids(&[4, 5]) }, "member 5 lacks 1000 entries");
        let all = [1, 2, 3, 4, 5];
        let both = MemberChange::Promote { ids: ids(&[4, 5]) };
        assert_eq!(planned_by(&all, &[], both.clone()), voters(&all, &[]));
        assert!(planned_by(&[1, 2, 3, 4], &[], both).unwrap_err().contains("5 does not answer"));
        assert_eq!(planned(MemberChange::Promote { ids: ids(&[2]) }), Ok(Plan::AlreadySo));
        assert_eq!(planned(MemberChange::Demote { ids: ids(&[4]) }), Ok(Plan::AlreadySo));
        check_refused(MemberChange::Demote { ids: ids(&[3]) }, "demote or remove two members");
        assert_eq!(planned(MemberChange::Demote { ids: ids(&[2, 3]) }), voters(&[1], &[]));
        check_refused(MemberChange::Demote { ids: ids(&[1, 2, 3]) }, "no voter would be left");
        check_refused(MemberChange::Demote { ids: ids(&[9]) }, "no member has the number 9");
        check_refused(MemberChange::Demote { ids: ids(&[]) }, "no member is named");
        assert_eq!(planned(MemberChange::Remove { ids: ids(&[5]) }), voters(&[1, 2, 3], &[5]));
        let two = MemberChange::Remove { ids: ids(&[1, 2]) };
        assert_eq!(planned(two.clone()), voters(&[3], &[1, 2]));
        let dead = planned_by(&[1, 2, 4], &[], two).unwrap_err();
        assert!(dead.contains("of 1 voters too few would answer: not member 3"), "{dead}");
    }

    #[test]
    fn one_takes_the_place_of_another_at_once() {
        let replace = |old, new| planned(MemberChange::Replace { old, new });
        let both = Plan::Members { voters: ids(&[1, 2, 4]), removed: ids(&[3]) };
        assert_eq!(replace(3, 4), Ok(both));
        // One that is dead is replaced most of all.
        assert!(planned_by(&[1, 2, 4], &[], MemberChange::Replace { old: 3, new: 4 }).is_ok());
        assert!(replace(3, 5).unwrap_err().contains("lacks 1000 entries"));
        assert!(replace(3, 2).unwrap_err().contains("member 2 is a voter already"));
        assert!(replace(5, 4).unwrap_err().contains("member 5 is not a voter"));
        assert!(replace(3, 9).unwrap_err().contains("no member has the number 9"));
        // It was cut short before the removal, or done.
        let rest = Plan::Members { voters: ids(&[1, 2, 3]), removed: ids(&[4]) };
        assert_eq!(replace(4, 3), Ok(rest));
        assert_eq!(replace(9, 3), Ok(Plan::AlreadySo));
    }

    #[test]
    fn a_member_joins_from_an_address_of_its_own() {
        let join_with = |key: &str, address: &str| {
            let (address, url, key) = (address.to_owned(), String::new(), key.to_owned());
            planned(MemberChange::Join { address, url, key, replaces: None })
        };
        let join = |address: &str| join_with("", address);
        assert_eq!(join_with("five", "5.example:7636"), Ok(Plan::Joined(5)));
        assert!(join_with("five", "6.example:7636").unwrap_err().contains("joined as member 5"));
        assert!(join_with("six", "5.example:7636").unwrap_err().contains("remove it first"));
        assert!(matches!(join_with("six", "6.example:7636"), Ok(Plan::Join(_))));
        assert!(matches!(join("6.example:7636"), Ok(Plan::Join(_))));
        assert!(join("3.example:7636").unwrap_err().contains("remove it first"));
        // Where the one was whose place it takes.
        let in_place_of = |old: u64, address: &str| {
            let (address, key) = (address.to_owned(), "six".to_owned());
            planned(MemberChange::Join { address, url: String::new(), key, replaces: Some(old) })
        };
        assert!(matches!(in_place_of(3, "3.example:7636"), Ok(Plan::Join(_))));
        assert!(in_place_of(3, "2.example:7636").unwrap_err().contains("remove it first"));
        assert!(in_place_of(9, "9.example:7636").unwrap_err().contains("no member"));
        assert!(join("").unwrap_err().contains("cannot be reached"));
        assert!(join(&"x".repeat(1025)).unwrap_err().contains("1025 bytes"));
    }

    #[test]
    fn a_member_is_found_where_nobody_else_is() {
        let rename = |id, address: &str, url: &str| {
            let (address, url) = (address.to_owned(), url.to_owned());
            planned(MemberChange::Rename { id, address, url })
        };
        let node = |address: &str, url: &str, key: &str| {
            let [address, url, key] = [address, url, key].map(str::to_owned);
            Node { address, url, key }
        };
        assert_eq!(rename(5, "x:1", ""), Ok(Plan::Rename(5, node("x:1", "", "five"))));
        let both = node("3.example:7636", "ldap://c", "");
        assert_eq!(rename(3, "", "ldap://c"), Ok(Plan::Rename(3, both)));
        assert_eq!(rename(3, "3.example:7636", ""), Ok(Plan::AlreadySo));
        assert!(rename(3, "2.example:7636", "").unwrap_err().contains("member 2 has the address"));
        // One after the other: a wrong address must not cost the majority.
        let change =
            || MemberChange::Rename { id: 3, address: "x:1".to_owned(), url: String::new() };
        assert!(planned_by(&[1, 2], &[], change()).is_ok(), "it is not heard, and is elsewhere");
        let refused = planned_by(&[1, 3], &[], change()).unwrap_err();
        assert!(refused.contains("too few of the voters would answer"), "{refused}");
        assert!(rename(9, "x:1", "").unwrap_err().contains("no member has the number 9"));
        assert!(rename(3, &"x".repeat(1025), "").unwrap_err().contains("1025 bytes"));
    }

    #[test]
    fn the_lead_goes_to_a_voter_that_answers() {
        let transfer = |id| planned_by(&[1, 2, 4, 5], &[], MemberChange::Transfer { id });
        assert_eq!(transfer(2), Ok(Plan::Transfer(2)));
        assert_eq!(transfer(1), Ok(Plan::AlreadySo));
        assert!(transfer(3).unwrap_err().contains("does not answer"));
        assert!(transfer(4).unwrap_err().contains("is not a voter"));
        assert!(transfer(9).unwrap_err().contains("no member"));
    }
}
