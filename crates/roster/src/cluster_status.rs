//! How a cluster is doing, as `cn=cluster,cn=monitor` of one of its members tells.
//!
//! Invariant: what a member does not tell is left out, never guessed.

use client::{Connection, FoundEntry, SearchFor};
use ldap::filter::Filter;
use ldap::message::Scope;
use ldap::result::ResultCode;
use serde::Serialize;

use crate::connect::ADMINISTRATOR_HINT;
use crate::failure::Failure;
use crate::table::{Side, Table, dash, number};

/// The cluster, as one member sees it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterView {
    /// Who tells.
    pub(crate) told_by: u64,
    /// Who leads, as far as that one knows.
    leader: Option<u64>,
    /// The last change after which the one who tells found the data of members to be the same.
    alike_lsn: Option<u64>,
    /// How the data of the members differ, if they do.
    difference: Option<String>,
    /// Which members speak other versions than the one who tells, and which to upgrade.
    versions: Vec<String>,
    /// Which members list others than the one who tells.
    lists: Vec<String>,
    /// Why copies of the data do not get from the one who tells to others, or from them to it.
    copies: Vec<String>,
    /// Whether the one who tells was removed from the cluster.
    removed: bool,
    members: Vec<Member>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Member {
    member: u64,
    role: String,
    /// Whether it counts towards a majority.
    voter: bool,
    term: Option<u64>,
    applied_lsn: Option<u64>,
    /// Changes that are visible on the leader and not there.
    lag: Option<u64>,
    /// For how long those have been there, in microseconds.
    lag_us: Option<u64>,
    /// How long ago it was heard of, in microseconds; nothing if it never was.
    heard_age_us: Option<u64>,
    release: Option<String>,
    disk_free_bytes: Option<u64>,
    /// Whole days until its certificate ends.
    certificate_days: Option<i64>,
    failed: bool,
    /// The first change after which its data are known not to be those of the cluster.
    diverged_lsn: Option<u64>,
    /// Octets that are there of the copy of the data that it is sent.
    copy_bytes: Option<u64>,
    /// And how many there will be.
    copy_of_bytes: Option<u64>,
    address: String,
    url: String,
}

impl Member {
    fn of(entry: &FoundEntry) -> Option<Self> {
        let text = |name: &str| entry.text(&format!("roster-cluster-{name}")).map(str::to_owned);
        let count = |name: &str| text(name)?.parse().ok();
        Some(Self {
            member: count("member")?,
            role: text("role")?,
            // Earlier releases have no others.
            voter: text("voter").as_deref() != Some("0"),
            term: count("term"),
            applied_lsn: count("applied-lsn"),
            lag: count("lag"),
            lag_us: count("lag-us"),
            heard_age_us: count("heard-us"),
            release: text("release"),
            // 0 is what a member says that has not looked yet.
            disk_free_bytes: count("disk-free-bytes").filter(|bytes| *bytes > 0),
            certificate_days: text("certificate-days").and_then(|days| days.parse().ok()),
            failed: text("failed").as_deref() == Some("1"),
            diverged_lsn: count("diverged-lsn"),
            copy_bytes: count("copy-bytes"),
            copy_of_bytes: count("copy-of-bytes"),
            address: text("address").unwrap_or_default(),
            url: text("url").unwrap_or_default(),
        })
    }
}

impl Member {
    fn advice(&self, earlier_lag: Option<u64>) -> Vec<String> {
        let (id, mut advice) = (self.member, Vec::new());
        if self.role == UNREACHABLE {
            advice.push(format!(
                "member {id} does not answer at {}: start it, or look at the network between",
                self.address
            ));
        }
        if let Some(lsn) = self.diverged_lsn {
            advice.push(format!(
                "the data of member {id} are not those of the cluster, from change {} on or \
                 earlier: take clients away from it, and make it anew from a copy of another",
                number(lsn)
            ));
        }
        if let (Some(bytes), Some(of_bytes)) = (self.copy_bytes, self.copy_of_bytes) {
            advice.push(format!(
                "member {id} is sent a copy of all data, because it lacks what the log no longer \
                 has: {} of {} MiB are there; it serves what it had until the copy is complete",
                number(bytes >> 20),
                number(of_bytes >> 20)
            ));
        }
        if self.failed {
            advice.push(format!(
                "the log of member {id} has failed: its own log says why; repair that, then \
                 restart it"
            ));
        }
        if let Some(days) = self.certificate_days.filter(|days| *days < CERTIFICATE_DAYS_MIN) {
            advice.push(format!(
                "the certificate of member {id} ends in {days} days: write a new one into its \
                 directory 'cluster', or let the machine join anew"
            ));
        }
        if let Some(bytes) = self.disk_free_bytes.filter(|bytes| *bytes < DISK_FREE_MIN_BYTES) {
            advice.push(format!(
                "the disk of member {id} has {} MiB left: make room before it takes no changes",
                bytes >> 20
            ));
        }
        if let (Some(lag), Some(earlier)) = (self.lag, earlier_lag)
            && lag > earlier.max(LAG_SMALL)
        {
            advice.push(format!(
                "member {id} lags by {} changes, and the lag grows: its disk or network is slower \
                 than the updates",
                number(lag)
            ));
        }
        advice
    }
}

impl ClusterView {
    /// Asks a member.
    ///
    /// # Errors
    /// When the server does not answer, is no member, or does not tell this to whoever asks.
    pub(crate) fn read(connection: &mut Connection) -> Result<Self, Failure> {
        let asked = SearchFor {
            scope: Scope::Subtree,
            attributes: &["*"],
            ..SearchFor::below(BASE, Filter::Present("objectClass"))
        };
        let found = connection.search(&asked)?;
        if found.outcome.code == ResultCode::NoSuchObject {
            return Err(match found.outcome.matched.is_empty() {
                true => Failure::refused("the server shows its cluster only to its administrator")
                    .hint(ADMINISTRATOR_HINT),
                false => Failure::refused("the server is not a member of a cluster")
                    .hint("docs/how-to/cluster.md says how one is made"),
            });
        }
        found.outcome.into_result("search")?;
        let number = |entry: &FoundEntry, name| entry.text(name)?.parse().ok();
        let own = found.entries.iter().find(|entry| entry.dn.eq_ignore_ascii_case(BASE));
        let mut members: Vec<Member> = found
            .entries
            .iter()
            .filter(|entry| !entry.dn.eq_ignore_ascii_case(BASE))
            .filter_map(Member::of)
            .collect();
        members.sort_by_key(|member| member.member);
        Ok(Self {
            told_by: own.and_then(|own| number(own, "roster-cluster-member")).unwrap_or(0),
            leader: own.and_then(|own| number(own, "roster-cluster-leader")),
            alike_lsn: own.and_then(|own| number(own, "roster-cluster-alike-lsn")),
            difference: own
                .and_then(|own| own.text("roster-cluster-difference"))
                .map(str::to_owned),
            versions: own.map(|own| texts(own, "versions")).unwrap_or_default(),
            lists: own.map(|own| texts(own, "lists")).unwrap_or_default(),
            copies: own.map(|own| texts(own, "copy-hindered")).unwrap_or_default(),
            removed: own.and_then(|own| own.text("roster-cluster-role")) == Some("removed"),
            members,
        })
    }

    /// The member that leads and says so itself.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.members.iter().find(|member| member.role == "leader").map(|member| member.member)
    }

    /// Whether a member counts towards a majority.
    pub(crate) fn has_voter(&self, id: u64) -> bool {
        self.members.iter().any(|member| member.member == id && member.voter)
    }

    /// What a member is.
    pub(crate) fn role_of(&self, id: u64) -> Option<&str> {
        let member = self.members.iter().find(|member| member.member == id);
        member.map(|member| member.role.as_str())
    }

    /// Whether a member lags.
    pub(crate) fn has_lag(&self) -> bool {
        self.members.iter().any(|member| member.lag > Some(0))
    }

    /// A line for each member.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new(&[
            ("member", Side::Right),
            ("role", Side::Left),
            ("term", Side::Right),
            ("applied", Side::Right),
            ("lag", Side::Right),
            ("behind", Side::Right),
            ("heard", Side::Right),
            ("disk free", Side::Right),
            ("cert. days", Side::Right),
            ("release", Side::Left),
            ("address", Side::Left),
            ("URL", Side::Left),
        ]);
        for member in &self.members {
            let known = |value: Option<u64>| value.map_or_else(dash, number);
            let mut cells = vec![
                member.member.to_string(),
                member.role.clone(),
                known(member.term),
                known(member.applied_lsn),
                known(member.lag),
                member.lag_us.map_or_else(dash, duration),
                member.heard_age_us.map_or_else(dash, duration),
                member
                    .disk_free_bytes
                    .map_or_else(dash, |bytes| format!("{} MiB", number(bytes >> 20))),
                member.certificate_days.map_or_else(dash, |days| days.to_string()),
                member.release.clone().unwrap_or_else(dash),
            ];
            cells.extend([member.address.clone(), member.url.clone()]);
            table.row(cells);
        }
        table.to_string().trim_end().to_owned()
    }

    /// What somebody should do, in sentences. `before` is what was seen a moment earlier: a lag
    /// that has grown since then grows.
    pub(crate) fn advice(&self, before: Option<&Self>) -> Vec<String> {
        if self.removed {
            return vec![format!(
                "member {} was removed from the cluster: stop it; its machine can join again, as a \
                 new member",
                self.told_by
            )];
        }
        let earlier = |id| before.and_then(|before| before.lag_of(id));
        let of_members = self.members.iter().flat_map(|one| one.advice(earlier(one.member)));
        let told = self.lists.iter().chain(&self.versions).chain(&self.copies).cloned();
        let all = self.differing().into_iter().chain(told).chain(self.advice_of_all());
        all.chain(of_members).collect()
    }

    fn differing(&self) -> Option<String> {
        let difference = self.difference.as_ref()?;
        Some(format!(
            "{difference}; a member in quarantine is made anew from a copy of another, and where \
             none is, stop all of them and compare"
        ))
    }

    fn advice_of_all(&self) -> Option<String> {
        let voters: Vec<&Member> = self.members.iter().filter(|member| member.voter).collect();
        let reachable = voters.iter().filter(|member| member.role != UNREACHABLE).count();
        let majority = voters.len() / 2 + 1;
        if reachable < majority {
            return Some(format!(
                "no majority: {reachable} of {} members answer and {majority} are needed; reads \
                 and binds go on, updates are answered unavailable until one more is started",
                voters.len()
            ));
        }
        let what = "no leader: an election takes a second or two; if it lasts, the members do not \
                    reach each other at the addresses above";
        self.leader().is_none().then(|| what.to_owned())
    }

    fn lag_of(&self, id: u64) -> Option<u64> {
        self.members.iter().find(|member| member.member == id)?.lag
    }
}

fn texts(own: &FoundEntry, name: &str) -> Vec<String> {
    own.texts(&format!("roster-cluster-{name}")).map(str::to_owned).collect()
}

/// A time for a table: `0 ms`, `12 ms`, `3.5 s`, `4 min`, `2 h`.
fn duration(us: u64) -> String {
    match us / 1_000 {
        ms @ ..1_000 => format!("{ms} ms"),
        ms @ ..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms @ ..3_600_000 => format!("{} min", ms / 60_000),
        ms => format!("{} h", ms / 3_600_000),
    }
}

/// Whose certificate ends earlier is told.
const CERTIFICATE_DAYS_MIN: i64 = 30;
/// Whose disk has less left is told.
const DISK_FREE_MIN_BYTES: u64 = 1 << 30;
const BASE: &str = "cn=cluster,cn=monitor";
const UNREACHABLE: &str = "unreachable";
/// Fewer changes are on their way at any time.
const LAG_SMALL: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn view(members: &[(&str, Option<u64>)]) -> ClusterView {
        let members = members.iter().zip(1..).map(|((role, lag), member)| Member {
            member,
            role: (*role).to_owned(),
            lag: *lag,
            address: format!("192.0.2.{member}:7636"),
            failed: *role == "failed",
            voter: *role != "learner",
            ..Member::default()
        });
        ClusterView {
            told_by: 1,
            leader: None,
            alike_lsn: None,
            difference: None,
            versions: Vec::new(),
            lists: Vec::new(),
            copies: Vec::new(),
            removed: false,
            members: members.collect(),
        }
    }

    #[test]
    fn nothing_is_advised_while_all_is_well() {
        let well = view(&[("leader", Some(0)), ("follower", Some(3)), ("follower", Some(0))]);
        assert!(well.advice(Some(&well)).is_empty());
        assert_eq!((well.leader(), well.role_of(3)), (Some(1), Some("follower")));
        assert!(well.table().lines().count() == 4, "{}", well.table());
    }

    #[test]
    fn what_members_tell_of_themselves_is_shown_and_judged() {
        let mut view = view(&[("leader", Some(0)), ("follower", Some(2)), (UNREACHABLE, None)]);
        for (member, days) in view.members.iter_mut().zip([300, 29]) {
            member.certificate_days = Some(days);
            member.disk_free_bytes = Some(u64::try_from(days).unwrap() << 26);
            member.release = Some("1.2".to_owned());
            member.heard_age_us = Some(0);
        }
        (view.members[1].lag_us, view.members[2].heard_age_us) =
            (Some(3_540_000), Some(7_200_000_000));
        let table = view.table();
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
        assert!(rows[2].join(" ").contains("2 3.5 s 0 ms 1,856 MiB 29 1.2"), "{table}");
        assert!(rows[3].join(" ").contains("2 h"), "{table}");
        let advice = view.advice(None);
        assert!(advice.iter().any(|line| line.contains("certificate of member 2 ends in 29 days")));
        view.members[0].disk_free_bytes = Some(1 << 20);
        assert!(view.advice(None).iter().any(|line| line.contains("member 1 has 1 MiB left")));
        assert_eq!([12_000, 90_000_000].map(duration), ["12 ms", "1 min"]);
    }

    #[test]
    fn what_members_speak_is_passed_on() {
        let mut view = view(&[("leader", Some(0)), ("follower", Some(0)), ("follower", Some(0))]);
        view.versions = vec!["upgrade member 3".to_owned()];
        view.lists = vec!["member 3 lists others".to_owned()];
        assert_eq!(view.advice(None), ["member 3 lists others", "upgrade member 3"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let none = view(&[("none", None), ("none", None), (UNREACHABLE, None)]);
        let advice = none.advice(None);
        assert!(advice[0].starts_with("no leader") && advice[1].contains("192.0.2.3:7636"));
        let few = view(&[("none", None), (UNREACHABLE, None), (UNREACHABLE, None)]);
        assert!(few.advice(None)[0].contains("1 of 3 members answer and 2 are needed"));
        // Learners do not count.
        let learners = view(&[("leader", Some(0)), ("learner", Some(0)), ("learner", Some(0))]);
        assert!(learners.advice(None).is_empty());
        let removed = ClusterView { removed: true, ..few.clone() };
        assert!(removed.advice(None)[0].starts_with("member 1 was removed from the cluster: "));
        let failed = view(&[("leader", Some(0)), ("failed", Some(0)), ("follower", Some(0))]);
        assert!(failed.advice(None)[0].contains("the log of member 2 has failed"));
        let mut diverged = view(&[("leader", Some(0)), ("follower", None), ("follower", Some(0))]);
        diverged.members[1].diverged_lsn = Some(1_234);
        let advice = diverged.advice(None);
        assert!(advice[0].contains("member 2 are not those of the cluster, from change 1,234 on"));
        let mut copied = view(&[("leader", Some(0)), ("follower", Some(9)), ("follower", Some(0))]);
        copied.members[1].copy_bytes = Some(3 << 20);
        copied.members[1].copy_of_bytes = Some(2_000 << 20);
        assert!(copied.advice(None)[0].contains("member 2 is sent a copy of all data"));
        assert!(copied.advice(None)[0].contains("3 of 2,000 MiB are there"));
        let differ = "the data differ after change record 9".to_owned();
        let well = view(&[("leader", Some(0)), ("follower", Some(3)), ("follower", Some(0))]);
        let differ = ClusterView { difference: Some(differ), ..well };
        assert!(differ.advice(None)[0].starts_with("the data differ after change record 9; "));
        let [early, late] = [2_000, 3_000].map(|lag| {
            view(&[("leader", Some(0)), ("follower", Some(lag)), ("follower", Some(0))])
        });
        assert!(early.advice(Some(&late)).is_empty(), "it shrinks");
        assert!(late.advice(Some(&early))[0].contains("member 2 lags by 3,000 changes"));
    }
}
