//! Finds out, once a second, what takes long to find out of this member and the others: whether
//! something speaks against their leading, and what time it is there.
//!
//! Invariant: nothing here blocks the engine's thread: what may wait for a disk does so elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use environment::{Clock, Timestamp};
use history::log::StateMachine;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::asks::{ASK_STATUS, ask_all};
use crate::engine::{CLOCK_SKEW_MAX, LogHandle, Status};
use crate::errands::Errands;
use crate::listing::{self, Listed, Listings};
use crate::machine::Engine;
use crate::report::MemberReport;
use crate::shared::Watched;
use crate::transport::{Credentials, Peers};
use crate::versions::{self, Heard, Versions};

/// How often the others are asked.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The certificates are looked at once in so many looks.
const RELOAD_TICKS: u64 = 10;
/// How long one may take to say how it is doing.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// So many times one after the other something must speak against this member before it counts.
const IMPEDED_LOOKS: u32 = 3;

/// So often a member must be seen to have less than it had before it counts.
const FORGETFUL_LOOKS: u32 = 2;
/// How long writing down why this member leaves may take.
const KEEP_MAX: Duration = Duration::from_secs(2);

/// Says why this server should not lead, as far as the directory knows: a full disk, say. It may
/// wait for the disk.
pub type Impediment = Arc<dyn Fn() -> Option<String> + Send + Sync>;

pub(crate) struct Watcher {
    pub(crate) own: Versions,
    pub(crate) log: LogHandle,
    pub(crate) peers: Peers,
    pub(crate) credentials: Credentials,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) impediment: Impediment,
    pub(crate) state: Arc<dyn StateMachine>,
    pub(crate) errands: Errands,
    pub(crate) engine: Engine,
}

impl Watcher {
    /// For ever.
    pub(crate) async fn run(self) {
        let mut ticks = interval(WATCH_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut looks, mut number, mut looking) = (0, 0u64, None);
        let (mut versions, mut heard, mut listings) = (Vec::new(), Listings::default(), Vec::new());
        let mut forgetful = Forgetful::default();
        loop {
            ticks.tick().await;
            number += 1;
            let impediment = self.impediment(&mut looking, number).await;
            let before = self.log.status();
            let others = self.others().await;
            if let Some((by, ..)) = others.iter().find(|(_, told, _)| told.is_asker_forgetful) {
                return self.leave(*by).await;
            }
            forgetful.look(&before, &self.log.status(), &others);
            if let Some((by, ..)) = others.iter().find(|(_, told, _)| told.has_removed_asker) {
                self.log.set_removed(*by);
            }
            let offsets: Vec<i64> = others.iter().map(|(_, _, offset)| *offset).collect();
            versions = self.versions(&others, &versions);
            listings = self.listings(&others, &mut heard, &listings);
            let fit = others.iter().filter(|(_, report, _)| !report.is_unfit).map(|(id, ..)| *id);
            let fit = Some(fit.collect::<BTreeSet<u64>>());
            let impediment = impediment.or_else(|| skew(&offsets));
            looks = if impediment.is_some() { looks + 1 } else { 0 };
            let impediment = impediment.filter(|_| looks >= IMPEDED_LOOKS);
            let (versions, listings) = (versions.clone(), listings.clone());
            let forgetful = forgetful.found.clone();
            self.log.set_watched(Watched { impediment, fit, versions, listings, forgetful });
        }
    }

    /// Nothing is answered from this state any more, and no vote is given.
    async fn leave(&self, by: u64) {
        let has = self.log.status().last_index;
        let reason = format!(
            "its log ends with entry {has}, and member {by} knows that it had more: its disk was \
             wiped, or is an older image, and what it has promised is forgotten"
        );
        tracing::error!(by, last_index = has, "this member has lost what it had confirmed");
        self.log.fail(reason.clone());
        let state = Arc::clone(&self.state);
        // What was found is kept, which takes a disk; it need not answer.
        let _ = timeout(KEEP_MAX, self.errands.run(move || state.forgot(&reason))).await;
        let _ = self.engine.shutdown().await;
    }

    /// Who speaks other versions; the log is told what is new since `before`.
    fn versions(&self, others: &[(u64, MemberReport, i64)], before: &[String]) -> Vec<String> {
        let asks = others.iter().map(|(id, report, _)| (*id, report.asks_version)).collect();
        let level = |(id, report, _): &(u64, MemberReport, i64)| {
            Some((*id, report.facts.as_ref()?.record_level))
        };
        let levels = others.iter().filter_map(level).collect();
        let protocols = self.peers.other_protocols();
        let now = self.own.differing(&Heard { protocols, asks, levels });
        versions::tell(before, &now);
        now
    }

    /// Who lists others; the log is told what is new since `before`.
    fn listings(
        &self,
        others: &[(u64, MemberReport, i64)],
        heard: &mut Listings,
        before: &[String],
    ) -> Vec<String> {
        let (status, listed) = (self.log.status(), |report: &MemberReport| Listed {
            at: report.listed_at,
            members: report.members.iter().copied().collect(),
        });
        others.iter().for_each(|(id, report, _)| heard.hear(*id, listed(report)));
        let members = status.members.iter().map(|member| member.id).collect();
        let own = Listed { at: status.listed_at, members };
        let now = heard.differing(self.own.id, &own, &self.log.unlisted());
        listing::tell(before, &now);
        now
    }

    /// What the directory says, and what the file system does; a look that has not ended yet goes
    /// on.
    async fn impediment(
        &self,
        looking: &mut Option<JoinHandle<Option<String>>>,
        number: u64,
    ) -> Option<String> {
        let mut look = looking.take().unwrap_or_else(|| {
            let (impediment, credentials) =
                (Arc::clone(&self.impediment), self.credentials.clone());
            let now = self.clock.now();
            spawn_blocking(move || {
                if number.is_multiple_of(RELOAD_TICKS) {
                    reload(&credentials, now);
                }
                impediment()
            })
        });
        match timeout(ANSWER_MAX, &mut look).await {
            // It does not panic.
            Ok(told) => told.unwrap_or_default(),
            Err(_) => {
                *looking = Some(look);
                Some("its file system does not answer".to_owned())
            }
        }
    }

    /// What the others say, and how far their clocks are ahead, in microseconds.
    async fn others(&self) -> Vec<(u64, MemberReport, i64)> {
        let (members, before) = (self.log.status().members, self.clock.now().0);
        let read = |octets: &[u8]| {
            let middle = before.midpoint(self.clock.now().0);
            let report = MemberReport::decode(octets)?;
            let ahead = i128::from(report.clock_us) - i128::from(middle);
            Some((report, i64::try_from(ahead).unwrap_or(i64::MAX)))
        };
        let said = ask_all(&self.peers, &members, ASK_STATUS, ANSWER_MAX, read).await;
        let heard = |(id, said): (u64, Option<_>)| said.map(|(report, ahead)| (id, report, ahead));
        said.into_iter().filter_map(heard).collect()
    }
}

/// The members that have lost what they had confirmed: their disks were wiped, or are older images.
///
/// A leader knows what each has confirmed, which is on the disk of that one. As long as the leader
/// leads nobody voids it; so a log that ends before it, in a term that is not later, has lost it.
#[derive(Default)]
struct Forgetful {
    /// How often each was seen so, one time after the other.
    looks: BTreeMap<u64, u32>,
    found: BTreeSet<u64>,
}

impl Forgetful {
    /// Looks at what the others said, for which they were asked between two looks at this member.
    fn look(&mut self, before: &Status, after: &Status, others: &[(u64, MemberReport, i64)]) {
        let leads = |status: &Status| status.leader == Some(status.id);
        if !leads(before) || !leads(after) || before.term != after.term {
            return self.looks.clear();
        }
        for (id, report, _) in others {
            let member = before.members.iter().find(|member| member.id == *id);
            let confirmed = member.and_then(|member| member.matched_index).unwrap_or(0);
            // One that has just been started may not say yet what it has.
            let is_told = !report.members.is_empty();
            if is_told && report.term <= before.term && report.last_index < confirmed {
                let looks = self.looks.entry(*id).or_default();
                *looks += 1;
                if *looks >= FORGETFUL_LOOKS && self.found.insert(*id) {
                    let has = report.last_index;
                    tracing::error!(
                        member = id,
                        confirmed,
                        has,
                        "a member has lost what it had confirmed: make it anew"
                    );
                }
            } else {
                self.looks.remove(id);
            }
        }
    }
}

fn reload(credentials: &Credentials, now: Timestamp) {
    match credentials.reload(now) {
        Ok(true) => tracing::info!("the certificate of this member was read anew"),
        Ok(false) => {}
        Err(error) => {
            tracing::error!(%error, "the changed files cannot be used; the previous ones stay");
        }
    }
}

/// Whether the own clock is wrong, by how far those of the others are ahead, in microseconds: more
/// of them agree with each other than with it. Of two nobody can tell which is wrong.
fn skew(others: &[i64]) -> Option<String> {
    let mut all: Vec<i64> = others.iter().copied().chain([0]).collect();
    all.sort_unstable();
    let median = *all.get(all.len() / 2)?;
    // With an even number, the one that is nearer.
    let other = *all.get((all.len() - 1) / 2)?;
    let median = if other.unsigned_abs() < median.unsigned_abs() { other } else { median };
    let off = Duration::from_micros(median.unsigned_abs());
    let way = if median > 0 { "behind" } else { "ahead of" };
    (others.len() >= 2 && off > CLOCK_SKEW_MAX)
        .then(|| format!("its clock is {} s {way} that of the other members", off.as_secs()))
}

#[cfg(test)]
mod tests {
    use history::log::MemberState;

    use super::*;
    use crate::engine::MemberStatus;

    #[test]
    fn who_has_less_than_it_confirmed_has_forgotten() {
        let member = |id, matched_index| MemberStatus {
            id,
            address: String::new(),
            url: String::new(),
            key: String::new(),
            state: MemberState::Voter,
            matched_index,
        };
        let status = |term, leader| Status {
            members: vec![member(1, None), member(2, Some(50)), member(3, Some(50))],
            ..Status::of_test(1, term, leader)
        };
        let report = |last_index, term| MemberReport {
            term,
            last_index,
            members: vec![1, 2, 3],
            ..MemberReport::default()
        };
        let found = |before: &Status, after: &Status, reports: &[MemberReport]| {
            let mut forgetful = Forgetful::default();
            for report in reports {
                forgetful.look(before, after, &[(2, report.clone(), 0)]);
            }
            forgetful.found.contains(&2)
        };
        let leads = status(7, Some(1));
        let (less, enough) = (report(49, 7), report(50, 7));
        assert!(found(&leads, &leads, &[less.clone(), less.clone()]));
        assert!(found(&leads, &leads, &[report(49, 3), report(49, 3)]), "nor its vote");
        assert!(!found(&leads, &leads, std::slice::from_ref(&less)));
        assert!(!found(&leads, &leads, &[less.clone(), enough.clone(), less.clone()]));
        assert!(!found(&leads, &leads, &[enough.clone(), enough]));
        // It follows another leader by now, who may void what this one has had confirmed.
        assert!(!found(&leads, &leads, &[report(49, 8), report(49, 8)]));
        for other in [status(7, Some(2)), status(8, Some(1)), status(7, None)] {
            assert!(!found(&leads, &other, &[less.clone(), less.clone()]));
            assert!(!found(&other, &leads, &[less.clone(), less.clone()]) || other.term == 7);
        }
        // One that was just started has not said yet what it has.
        let silent = MemberReport { members: Vec::new(), ..less };
        assert!(!found(&leads, &leads, &[silent.clone(), silent]));
    }

    #[test]
    fn a_clock_is_wrong_when_most_others_say_so() {
        const S: i64 = 1_000_000;
        for (others, want) in [
            (&[][..], None),
            (&[3600 * S], None),
            (&[3600 * S, 5], None),
            (&[10 * S, 10 * S], None),
            (&[11 * S, 12 * S], Some("its clock is 11 s behind that of the other members")),
            (&[-3600 * S, -12 * S], Some("its clock is 12 s ahead of that of the other members")),
            (&[3600 * S, 3600 * S, 0], None),
            (
                &[3600 * S, 3600 * S, 3600 * S],
                Some("its clock is 3600 s behind that of the other members"),
            ),
            (&[3600 * S, -3600 * S, 1, 2], None),
        ] {
            assert_eq!(skew(others).as_deref(), want, "{others:?}");
        }
    }
}
