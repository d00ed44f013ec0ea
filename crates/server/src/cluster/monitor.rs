//! What `cn=cluster,cn=monitor` and the metrics say: this member by itself, and the others as they
//! answer.
//!
//! Invariant: the others are asked when somebody wants to know, once a second at most.

use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::cluster::{CopyProgress, MemberReport, MemberStatus, Service, Status};
use directory::{ClusterCopyState, ClusterMemberState, ClusterState, ClusterVerified};
use environment::{Clock, Timestamp};
use history::log::{MemberState, Role, Verification, VerificationState};

/// How long another member may take to say how it is doing.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// For so long what the others said is told again.
const REPORTS_KEPT: Duration = Duration::from_secs(1);

/// What the other members said, and when.
pub(super) struct Reports {
    clock: Arc<dyn Clock>,
    /// A leader of whom nothing was heard for longer leads nobody here.
    silence_max: Duration,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By the clock that never goes back.
    at: Option<Duration>,
    reports: Vec<(u64, Option<MemberReport>)>,
    /// When each was heard of last, by the same clock.
    heard: BTreeMap<u64, Duration>,
}

impl Reports {
    pub(super) fn new(clock: Arc<dyn Clock>, silence_max: Duration) -> Self {
        Self { clock, silence_max, kept: Mutex::default() }
    }

    /// What the others say, and how long ago each was heard of: asked, unless they just were;
    /// whoever comes meanwhile waits.
    fn get(&self, service: &Arc<Service>) -> (OfOthers, BTreeMap<u64, Duration>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let age = kept.at.map(|at| self.clock.elapsed().saturating_sub(at));
        if age.is_none_or(|age| age > REPORTS_KEPT) {
            let (told, heard) = sync_channel(1);
            // Who asked may not wait any more.
            service.ask_status(ANSWER_MAX, move |reports| drop(told.try_send(reports)));
            kept.reports = heard.recv_timeout(2 * ANSWER_MAX).unwrap_or_default();
            let now = self.clock.elapsed();
            kept.at = Some(now);
            let Kept { reports, heard, .. } = &mut *kept;
            // Those who are gone are not remembered for ever.
            heard.retain(|id, _| reports.iter().any(|(member, _)| member == id));
            let answered = reports.iter().filter(|(_, report)| report.is_some());
            heard.extend(answered.map(|(id, _)| (*id, now)));
        }
        let now = self.clock.elapsed();
        let ages = kept.heard.iter().map(|(id, at)| (*id, now.saturating_sub(*at)));
        (kept.reports.clone(), ages.collect())
    }

    /// All members, by number.
    pub(super) fn members(&self, service: &Arc<Service>) -> Vec<ClusterMemberState> {
        let (others, mut ages) = self.get(service);
        // The later the better: what is applied here must not look older than it is elsewhere.
        let status = without_silent(service.status(), self.silence_max);
        let own = MemberReport { facts: Some(service.facts()), ..MemberReport::of(&status) };
        ages.insert(status.id, Duration::ZERO);
        members(&status, &own, &others, &ages, self.clock.now())
    }
}

/// Without the leader, if it has been silent for longer than `silence_max`: a follower that no
/// majority elects another with would name it for ever.
fn without_silent(mut status: Status, silence_max: Duration) -> Status {
    let is_silent = status.heard_age.is_some_and(|age| age > silence_max);
    if is_silent && matches!(status.role, Role::Following { .. }) {
        status.role = Role::Alone;
        status.leader = None;
    }
    status
}

/// What a server knows itself.
pub(super) fn own(status: Status, silence_max: Duration) -> ClusterState {
    let status = without_silent(status, silence_max);
    let error = match &status.role {
        Role::Failed(reason) => Some(reason.clone()),
        Role::Deciding(_) | Role::Following { .. } | Role::Alone => None,
    };
    let is_voter = status.members.iter().any(|one| one.id == status.id && is_voter(one));
    let role = match &status.role {
        _ if status.is_removed => "removed",
        Role::Failed(_) => "failed",
        Role::Deciding(_) => "leader",
        Role::Following { .. } if !is_voter => "learner",
        Role::Following { .. } => "follower",
        Role::Alone => "none",
    };
    let unconfirmed = status.members.iter().filter(|one| one.id != status.id);
    let unconfirmed = unconfirmed
        .filter_map(|one| Some((one.id, status.last_index.saturating_sub(one.matched_index?))));
    ClusterState {
        member: status.id,
        role,
        leader: status.leader,
        term: status.term,
        applied_lsn: status.applied.0,
        committed_index: status.committed_index,
        last_index: status.last_index,
        unconfirmed: if role == "leader" { unconfirmed.collect() } else { Vec::new() },
        quorum_age_us: status.quorum_age.map(|age| u64::try_from(age.as_micros()).unwrap_or(0)),
        has_caught_up: status.has_caught_up,
        voids: status.voids,
        alike_lsn: status.alike.map(|lsn| lsn.0),
        difference: status.difference,
        unfit: status.unfit,
        versions: status.versions,
        listings: status.listings,
        error,
        receives: status.receives.map(copy),
        sends: status.sends.into_iter().map(copy).collect(),
        copy_hindrances: status.copy_hindrances,
        verified: None,
    }
}

/// What is told of a comparison of the data.
pub(super) fn verified(told: &Verification, now: Timestamp) -> ClusterVerified {
    let is_done = told.state == VerificationState::Done;
    let not_compared = told.members.iter().filter(|member| member.not_compared.is_some());
    ClusterVerified {
        is_running: told.state == VerificationState::Running,
        entries: told.entries,
        differing: told.differing,
        not_compared: not_compared.count() as u64,
        age_us: is_done.then(|| now.0.saturating_sub(told.times_us.1)),
    }
}

fn copy(progress: CopyProgress) -> ClusterCopyState {
    let CopyProgress { member, bytes, of_bytes } = progress;
    ClusterCopyState { member, bytes, of_bytes }
}

fn is_voter(member: &MemberStatus) -> bool {
    matches!(member.state, MemberState::Voter)
}

fn members(
    status: &Status,
    own: &MemberReport,
    others: &[(u64, Option<MemberReport>)],
    ages: &BTreeMap<u64, Duration>,
    now: Timestamp,
) -> Vec<ClusterMemberState> {
    let report = |id: u64| {
        if id == status.id {
            return Some(own.clone());
        }
        others.iter().find(|(other, _)| *other == id).and_then(|(_, report)| report.clone())
    };
    let leader = status.leader.and_then(report);
    let decided = leader.as_ref().map(|report| report.applied_lsn);
    let all = status.members.iter().map(|member| {
        let report = report(member.id);
        let report = report.as_ref();
        let facts = report.and_then(|report| report.facts.as_ref());
        let role = match report {
            None => "unreachable",
            Some(_) if status.is_removed && member.id == status.id => "removed",
            Some(report) if report.is_failed => "failed",
            Some(_) if status.leader == Some(member.id) => "leader",
            Some(_) if status.leader.is_none() => "none",
            Some(_) if is_voter(member) => "follower",
            Some(_) => "learner",
        };
        ClusterMemberState {
            member: member.id,
            role,
            is_voter: is_voter(member),
            address: member.address.clone(),
            url: member.url.clone(),
            key: member.key.clone(),
            term: report.map(|report| report.term),
            applied_lsn: report.map(|report| report.applied_lsn),
            committed_index: report.map(|report| report.committed_index),
            last_index: report.map(|report| report.last_index),
            // Numbers of other data say nothing of how far it is.
            lag: report
                .filter(|report| report.diverged.is_none())
                .zip(decided)
                .map(|(report, decided)| decided.saturating_sub(report.applied_lsn)),
            lag_us: report.zip(leader.as_ref()).and_then(|(report, leader)| lag_us(report, leader)),
            heard_age_us: ages.get(&member.id).map(|age| micros(*age)),
            release: facts.map(|facts| facts.release.clone()),
            record_level: facts.map(|facts| facts.record_level),
            disk_free_bytes: facts.map(|facts| facts.disk_free_bytes),
            // Who has just begun does not know its own.
            certificate_days: facts
                .filter(|facts| facts.certificate_ends_s > 0)
                .map(|facts| days_until(facts.certificate_ends_s, now)),
            has_failed: report.is_some_and(|report| report.is_failed),
            diverged_lsn: report.and_then(|report| report.diverged).map(|lsn| lsn.0),
            copy: report.and_then(|report| report.copy),
        }
    });
    all.collect()
}

/// How much older the last change is that a member shows than that of the leader.
fn lag_us(report: &MemberReport, leader: &MemberReport) -> Option<u64> {
    let (own, decided) = (report.facts.as_ref()?.applied_us, leader.facts.as_ref()?.applied_us);
    let has_all = report.applied_lsn >= leader.applied_lsn;
    let is_known = report.diverged.is_none() && (has_all || own > 0);
    is_known.then(|| if has_all { 0 } else { decided.saturating_sub(own) })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Whole days from `now` on; negative when it is over.
fn days_until(ends_s: u64, now: Timestamp) -> i64 {
    let ends_s = i64::try_from(ends_s).unwrap_or(i64::MAX);
    (ends_s - i64::try_from(now.seconds()).unwrap_or(i64::MAX)).div_euclid(SECONDS_PER_DAY)
}

/// What the other members said.
type OfOthers = Vec<(u64, Option<MemberReport>)>;

const SECONDS_PER_DAY: i64 = 86_400;

#[cfg(test)]
mod tests {
    use cluster::MemberFacts;
    use history::log::Reign;
    use store::Lsn;

    use super::*;

    fn status(role: Role, leader: Option<u64>) -> Status {
        let member = |id, matched_index, state| MemberStatus {
            id,
            address: format!("192.0.2.{id}:7636"),
            key: String::new(),
            url: format!("ldap://192.0.2.{id}"),
            state,
            matched_index,
        };
        Status {
            id: 1,
            role,
            term: 7,
            leader,
            applied: Lsn(90),
            last_index: 102,
            committed_index: 101,
            quorum_age: Some(Duration::from_millis(3)),
            heard_age: Some(Duration::from_secs(3)),
            has_caught_up: true,
            voids: 2,
            alike: Some(Lsn(80)),
            difference: None,
            diverged: None,
            unfit: None,
            versions: vec!["member 2 speaks another".to_owned()],
            listings: vec!["member 3 lists others".to_owned()],
            members: vec![
                member(1, Some(102), MemberState::Voter),
                member(2, Some(99), MemberState::Voter),
                member(3, None, MemberState::Learner),
            ],
            listed_at: 0,
            is_settled: true,
            is_removed: false,
            copy_hindrances: Vec::new(),
            receives: Some(CopyProgress { member: 2, bytes: 5, of_bytes: 9 }),
            sends: Vec::new(),
        }
    }

    fn own(status: Status) -> ClusterState {
        super::own(status, Duration::from_secs(3))
    }

    #[test]
    fn a_follower_that_no_longer_hears_of_its_leader_has_none() {
        let mut status = status(Role::Following { leader: None }, Some(2));
        assert_eq!(own(status.clone()).leader, Some(2));
        status.heard_age = Some(Duration::from_millis(3_001));
        let alone = own(status.clone());
        assert_eq!((alone.role, alone.leader), ("none", None));
        status.heard_age = None;
        assert_eq!(own(status).role, "follower", "it has just started");
    }

    #[test]
    fn a_leader_tells_what_the_others_have_not_confirmed() {
        let leader = own(status(Role::Deciding(Reign(7)), Some(1)));
        assert_eq!((leader.role, leader.unconfirmed), ("leader", vec![(2, 3)]));
        assert_eq!((leader.applied_lsn, leader.quorum_age_us), (90, Some(3000)));
        assert_eq!((leader.has_caught_up, leader.versions.len()), (true, 1));
        assert_eq!(leader.listings, ["member 3 lists others"]);
        let follower = own(status(Role::Following { leader: None }, Some(2)));
        assert_eq!((follower.role, follower.unconfirmed), ("follower", Vec::new()));
        let failed = own(status(Role::Failed("no medium".to_owned()), None));
        assert_eq!((failed.role, failed.error.as_deref()), ("failed", Some("no medium")));
        assert_eq!(own(status(Role::Alone, None)).role, "none");
        let mut removed = status(Role::Failed("it was removed".to_owned()), None);
        removed.is_removed = true;
        let removed = own(removed);
        assert_eq!((removed.role, removed.error.as_deref()), ("removed", Some("it was removed")));
    }

    #[test]
    fn lag_is_what_the_leader_shows_and_a_member_does_not() {
        let report = |applied_lsn| MemberReport { term: 7, applied_lsn, ..MemberReport::default() };
        let status = status(Role::Following { leader: None }, Some(2));
        let members = |others: &[(u64, Option<MemberReport>)]| {
            let ages = BTreeMap::from([(2, Duration::from_millis(2)), (3, Duration::from_secs(9))]);
            let now = Timestamp(86_400_000_000);
            members(&status, &MemberReport::of(&status), others, &ages, now)
        };
        let seen = members(&[(2, Some(report(95))), (3, None)]);
        let shown: Vec<_> = seen.iter().map(|one| (one.role, one.lag)).collect();
        assert_eq!(shown, [("follower", Some(5)), ("leader", Some(0)), ("unreachable", None)]);
        let failed = MemberReport { is_failed: true, ..report(96) };
        let seen = members(&[(2, Some(report(95))), (3, Some(failed))]);
        assert_eq!((seen[2].role, seen[2].has_failed, seen[2].lag), ("failed", true, Some(0)));
        // What members tell of themselves, and who says nothing.
        let of = |applied_lsn, applied_us| {
            let (release, certificate_ends_s) = ("1.2".to_owned(), 86_400 * 3 - 1);
            let facts = MemberFacts {
                release,
                record_level: 3,
                disk_free_bytes: 7,
                certificate_ends_s,
                applied_us,
            };
            MemberReport { facts: Some(facts), ..report(applied_lsn) }
        };
        let seen = members(&[(2, Some(of(95, 5_000))), (3, Some(of(94, 4_000)))]);
        assert_eq!((seen[1].lag_us, seen[2].lag_us, seen[0].lag_us), (Some(0), Some(1_000), None));
        assert_eq!((seen[2].disk_free_bytes, seen[2].certificate_days), (Some(7), Some(1)));
        assert_eq!(seen[2].release.as_deref(), Some("1.2"));
        assert_eq!(seen[2].heard_age_us, Some(9_000_000));
    }
}
