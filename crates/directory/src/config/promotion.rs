//! Machines that have joined, and are to be voters, become voters when they have caught up.
//!
//! Invariant: the number of voters stays odd; a machine waits for another one where it must.
//! Invariant: it is done once for each machine: whoever is made a learner later stays one.

use std::collections::BTreeSet;
use std::sync::Arc;

use environment::Timestamp;
use history::log::{MemberChange, VOTERS_MAX};
use ldap::message::ModifyOperation;

use super::change_members;
use super::join;
use super::join_tokens::{self, JoinPart, JoinToken, hex};
use super::monitor_sources::ClusterMemberState;
use crate::request::refusal::Refusal;
use crate::request::worker::Worker;

/// Where a server leads a cluster, has machines that joined it and have caught up be voters. To be
/// called from time to time on every member; it waits while the members change.
///
/// # Errors
/// Why those that could be voters are not; they are looked at again.
pub fn promote_joined(worker: &mut Worker) -> Result<(), String> {
    promote(worker).map_err(|refusal| refusal.diagnostic.into_owned())
}

fn promote(worker: &mut Worker) -> Result<(), Refusal> {
    let directory = Arc::clone(&worker.directory);
    let Some(teller) = directory.monitors.cluster.get() else { return Ok(()) };
    let leads = (teller.own)().is_some_and(|own| own.leader == Some(own.member));
    if !leads {
        return Ok(());
    }
    let tokens = read(worker)?;
    if tokens.is_empty() {
        return Ok(());
    }
    let members = (teller.members)();
    let Plan { change, ids, settled } = plan(&tokens, &members, directory.clock.now());
    let promoted = match change {
        None => Ok(()),
        Some(change) => {
            // A machine that was replaced must not come back with its token.
            let leaving = change_members::keys_of_leaving(&directory, &change);
            let done = change_members::carry_out(&directory, change);
            done.and_then(|_| forget_keys(worker, &leaving))
        }
    };
    // At once, or an administrator who makes a learner of one would be overruled.
    let keys: BTreeSet<&String> =
        members.iter().filter(|one| ids.contains(&one.member)).map(|one| &one.key).collect();
    let is_promoted = |token: &&JoinToken| {
        promoted.is_ok() && token.key.is_some_and(|key| keys.contains(&hex(&key)))
    };
    let promoted_ones = tokens.iter().filter(is_promoted);
    forget(worker, settled.iter().chain(promoted_ones))?;
    promoted
}

/// Deletes the tokens with which these machines joined: what an administrator made of them stays.
pub(super) fn forget_keys(worker: &mut Worker, keys: &BTreeSet<String>) -> Result<(), Refusal> {
    if keys.is_empty() {
        return Ok(());
    }
    let tokens = read(worker)?;
    let is_theirs = |token: &&JoinToken| token.key.is_some_and(|key| keys.contains(&hex(&key)));
    forget(worker, tokens.iter().filter(is_theirs))
}

fn forget<'t>(
    worker: &mut Worker,
    tokens: impl Iterator<Item = &'t JoinToken>,
) -> Result<(), Refusal> {
    let changes: Vec<_> =
        tokens.map(|token| (ModifyOperation::Delete, token.to_string())).collect();
    if changes.is_empty() { Ok(()) } else { join::change_tokens(worker, &changes) }
}

fn read(worker: &mut Worker) -> Result<Vec<JoinToken>, Refusal> {
    let mut reader = worker.directory.storage.store.reader();
    let texts = join_tokens::values(reader.view()?)?;
    Ok(texts.iter().filter_map(|text| text.parse().ok()).collect())
}

/// What is to be done.
#[derive(Debug, Default, Eq, PartialEq)]
struct Plan {
    /// How.
    change: Option<MemberChange>,
    /// They become voters.
    ids: BTreeSet<u64>,
    /// Tokens that have nothing to say any more.
    settled: Vec<JoinToken>,
}

fn plan(tokens: &[JoinToken], members: &[ClusterMemberState], now: Timestamp) -> Plan {
    let voters = members.iter().filter(|one| one.is_voter).count();
    let mut plan = Plan::default();
    let (mut ready, mut replacing) = (Vec::new(), None);
    for token in tokens {
        let key = token.key.map(|key| hex(&key));
        let member = key.and_then(|key| members.iter().find(|one| one.key == key));
        match member {
            Some(member) if member.is_voter => plan.settled.push(token.clone()),
            Some(member) if token.part != JoinPart::Learner => {
                // Others that lag keep nobody from becoming one.
                if member.lag.is_none_or(|lag| lag > LAG_MAX) || member.has_failed {
                    continue;
                }
                let old = token.part.replaces();
                match old.filter(|old| members.iter().any(|one| one.member == *old && one.is_voter))
                {
                    Some(old) => replacing = replacing.or(Some((old, member.member))),
                    // There is no place of another.
                    None => ready.push(member.member),
                }
            }
            _ if token.is_over(now) => plan.settled.push(token.clone()),
            Some(_) | None => {}
        }
    }
    // An odd number of voters takes two more, and an even one takes one.
    let even = ready.len() / 2 * 2;
    let odd = ready.len().checked_sub(1).map_or(0, |others| others / 2 * 2 + 1);
    let room = VOTERS_MAX.saturating_sub(voters);
    let count = if voters % 2 == 1 { even.min(room) } else { odd.min(room) };
    plan.ids = ready.into_iter().take(count).collect();
    // One after the other.
    if let Some((old, new)) = replacing {
        plan.ids = BTreeSet::from([new]);
        plan.change = Some(MemberChange::Replace { old, new });
    } else if !plan.ids.is_empty() {
        plan.change = Some(MemberChange::Promote { ids: plan.ids.clone() });
    }
    plan
}

/// Who lacks more changes than this is not asked for yet.
const LAG_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn token(key: u8, is_for_voter: bool, ends_s: u64) -> JoinToken {
        let part = if is_for_voter { JoinPart::Voter } else { JoinPart::Learner };
        let key = (key > 0).then_some([key; 32]);
        JoinToken { name: [1; 16], secret: [2; 32], ends_s, part, key }
    }

    fn member(id: u64, is_voter: bool, key: u8) -> ClusterMemberState {
        let key = if key == 0 { String::new() } else { hex(&[key; 32]) };
        ClusterMemberState { member: id, is_voter, key, lag: Some(0), ..Default::default() }
    }

    fn planned(tokens: &[JoinToken], members: &[ClusterMemberState]) -> (Vec<u64>, usize) {
        let Plan { change, ids, settled } = plan(tokens, members, NOW);
        assert_eq!(change.is_none(), ids.is_empty());
        (ids.into_iter().collect(), settled.len())
    }

    #[test]
    fn machines_become_voters_two_at_a_time() {
        let wish = |key| token(key, true, 2_000);
        let (one, two) = (member(70_001, false, 1), member(70_002, false, 2));
        let first = member(1, true, 0);
        assert_eq!(planned(&[wish(1)], &[first.clone(), one.clone()]), (vec![], 0));
        let all = [first.clone(), one.clone(), two.clone()];
        assert_eq!(planned(&[wish(1), wish(2)], &all), (vec![70_001, 70_002], 0));
        let three = [all.as_slice(), &[member(70_003, false, 3)]].concat();
        assert_eq!(planned(&[wish(1), wish(2), wish(3)], &three), (vec![70_001, 70_002], 0));
        // Two that were voters from the beginning take one.
        let even = [first.clone(), member(2, true, 0), one.clone()];
        assert_eq!(planned(&[wish(1)], &even), (vec![70_001], 0));
        assert_eq!(planned(&[], &even), (vec![], 0));
        // No more than there may be.
        let wishes: Vec<JoinToken> = (1..=8).map(wish).collect();
        let ready = (1..=8).map(|key| member(70_000 + u64::from(key), false, key));
        let eight: Vec<_> = std::iter::once(first.clone()).chain(ready).collect();
        assert_eq!(planned(&wishes, &eight).0.len(), 6);
        let late = ClusterMemberState { lag: Some(LAG_MAX + 1), ..two };
        assert_eq!(planned(&[wish(1), wish(2)], &[first, one, late]), (vec![], 0));
    }

    #[test]
    fn one_takes_the_place_that_its_token_names() {
        let wish =
            |key, old| JoinToken { part: JoinPart::InPlaceOf(old), ..token(key, true, 2_000) };
        let voters = [1, 2, 3].map(|id| member(id, true, 0));
        let new = [member(70_001, false, 1), member(70_002, false, 2)];
        let all = [&voters[..], &new].concat();
        let change = |tokens: &[JoinToken], members: &[ClusterMemberState]| {
            plan(tokens, members, NOW).change
        };
        assert_eq!(
            change(&[wish(1, 3), wish(2, 2)], &all),
            Some(MemberChange::Replace { old: 3, new: 70_001 })
        );
        // The place is gone: it is a voter like others.
        assert_eq!(change(&[wish(1, 9)], &all), None);
        let ids = BTreeSet::from([70_001, 70_002]);
        assert_eq!(
            change(&[wish(1, 9), token(2, true, 2_000)], &all),
            Some(MemberChange::Promote { ids })
        );
        let late = ClusterMemberState { lag: None, ..new[0].clone() };
        assert_eq!(change(&[wish(1, 3)], &[&voters[..], &[late]].concat()), None);
    }

    #[test]
    fn a_token_goes_when_it_has_nothing_to_say() {
        let members = [member(1, true, 0), member(70_001, false, 1), member(70_002, true, 2)];
        let settled = |token: JoinToken| planned(&[token], &members).1;
        assert_eq!(settled(token(2, true, 2_000)), 1, "it is a voter");
        assert_eq!(settled(token(1, true, 500)), 0, "it waits, however long");
        assert_eq!(settled(token(1, false, 2_000)), 0, "who has it may ask again");
        assert_eq!(settled(token(1, false, 500)), 1, "it is over");
        assert_eq!(settled(token(0, true, 2_000)), 0);
        assert_eq!(settled(token(0, true, 500)), 1);
        assert_eq!(settled(token(9, true, 500)), 1, "the member is gone");
    }
}
