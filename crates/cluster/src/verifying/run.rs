//! The member that asks: slice after slice, at a position that all members can show.
//!
//! A position is a change that is a little ahead of what is visible: each member catches the state
//! after it when it comes there (`overlay/awaited.rs` of the store). How far ahead is learnt: who
//! was too late says so at once, and where nothing is written the last change there is will do.
//!
//! Invariant: one comparison at a time, and none goes on that nobody has asked after for
//! `LEASE`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::Clock;
use futures_util::future::join_all;
use history::log::{
    DIFFERENCES_NAMED_MAX, EntryDifference, MemberState, Verification, VerificationState,
    VerifiedMember,
};
use store::{Digest, HeldEntry, Lsn, Slice};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use super::finding::{self, Verdict, Voices};
use super::holder::Holder;
use super::message::{Answer, Asked, DESCRIBED_MAX, Question, RunId};
use super::{HOLD_WAIT_MAX, SLICE_IDS};
use crate::asks::{ASK_VERIFY, NOT_KNOWN};
use crate::engine::LogHandle;
use crate::transport::{AskError, Peers};

/// How long a comparison goes on that nobody asks after.
const LEASE: Duration = Duration::from_secs(15);
/// How long a member waits for a position, as a rule.
const HOLD_WAIT: Duration = Duration::from_millis(250);
/// How much longer than what it is to wait for a member may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often in a row a member may fail before it is compared no more, and the pauses between.
const FAILURES_MAX: u32 = 3;
const FAILURE_PAUSE: Duration = Duration::from_millis(300);
/// How often in a row a position may be in vain before the comparison ends.
const POSITIONS_IN_VAIN_MAX: u32 = 200;
/// The furthest that a position is ahead, in changes.
const AHEAD_MAX: u64 = 1 << 16;
/// How many differences are told in the log, each in a line.
const DIFFERENCES_LOGGED_MAX: u64 = 20;

/// What comparisons need of a member.
pub(crate) struct VerifierParts {
    pub(crate) id: u64,
    pub(crate) peers: Peers,
    pub(crate) log: LogHandle,
    pub(crate) holder: Holder,
    pub(crate) clock: Arc<dyn Clock>,
    /// Octets a second.
    pub(crate) rate_bytes: u64,
    pub(crate) runtime: Handle,
}

/// The comparisons that this member asks for; the last one is remembered.
pub(crate) struct Verifications {
    parts: Arc<VerifierParts>,
    last: Mutex<Option<Arc<Running>>>,
}

/// One of them.
struct Running {
    told: Mutex<Verification>,
    asked_after: Mutex<Instant>,
    is_stopped: tokio::sync::watch::Sender<bool>,
}

impl Verifications {
    pub(crate) fn new(parts: VerifierParts) -> Self {
        Self { parts: Arc::new(parts), last: Mutex::default() }
    }

    /// Begins one; its number.
    ///
    /// # Errors
    /// A sentence, when there is one already.
    pub(crate) fn start(&self) -> Result<u64, String> {
        let mut last = lock(&self.last);
        let now_us = self.parts.clock.now().0;
        let mut run = now_us;
        if let Some(running) = &*last {
            let told = lock(&running.told);
            if told.state == VerificationState::Running {
                return Err("the data are being compared already".to_owned());
            }
            // Not the same, whatever the clock does.
            run = run.max(told.run.saturating_add(1));
        }
        let (is_stopped, stopped) = tokio::sync::watch::channel(false);
        let running = Arc::new(Running {
            told: Mutex::new(Verification {
                run,
                state: VerificationState::Running,
                entries: 0,
                of_entries: 0,
                bytes: 0,
                lsns: (Lsn(0), Lsn(0)),
                positions: 0,
                members: Vec::new(),
                differing: 0,
                differences: Vec::new(),
                times_us: (now_us, 0),
            }),
            asked_after: Mutex::new(Instant::now()),
            is_stopped,
        });
        *last = Some(Arc::clone(&running));
        let task = Run::new(Arc::clone(&self.parts), running, run);
        self.parts.runtime.spawn(task.go(stopped));
        Ok(run)
    }

    /// The last one, as far as it is.
    pub(crate) fn last(&self) -> Option<Verification> {
        let last = lock(&self.last);
        last.as_ref().map(|running| lock(&running.told).clone())
    }

    /// Somebody asks after comparison `run`: it goes on. None when it is not the last one.
    pub(crate) fn ask_after(&self, run: u64) -> Option<Verification> {
        let last = lock(&self.last);
        let running = last.as_ref().filter(|running| lock(&running.told).run == run)?;
        *lock(&running.asked_after) = Instant::now();
        let told = lock(&running.told).clone();
        Some(told)
    }

    /// Ends comparison `run`, if it is under way.
    pub(crate) fn stop(&self, run: u64) {
        let last = lock(&self.last);
        if let Some(running) = last.as_ref().filter(|running| lock(&running.told).run == run) {
            running.is_stopped.send_replace(true);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A comparison on its way.
struct Run {
    parts: Arc<VerifierParts>,
    running: Arc<Running>,
    id: RunId,
    /// Those that are compared, and how often each has failed in a row.
    members: BTreeMap<u64, u32>,
    /// How far the next position is ahead, in changes.
    ahead: u64,
    /// Before this nothing is read.
    next_at: Instant,
}

/// Why it ends before its end.
struct Ends(String);

/// Why a step is to be made again.
enum Again {
    /// At another position.
    Later,
    Never(Ends),
}

impl From<Ends> for Again {
    fn from(ends: Ends) -> Self {
        Self::Never(ends)
    }
}

impl Run {
    fn new(parts: Arc<VerifierParts>, running: Arc<Running>, number: u64) -> Self {
        let mut id = [0; 16];
        let (member, rest) = id.split_at_mut(8);
        member.copy_from_slice(&parts.id.to_le_bytes());
        rest.copy_from_slice(&number.to_le_bytes());
        let (members, next_at) = (BTreeMap::new(), Instant::now());
        Self { parts, running, id, members, ahead: 0, next_at }
    }

    /// Until it is over.
    async fn go(mut self, mut stopped: tokio::sync::watch::Receiver<bool>) {
        let members = self.parts.log.status().members;
        self.members = members.iter().map(|member| (member.id, 0)).collect();
        let told = members.iter().map(|member| VerifiedMember {
            member: member.id,
            differing: 0,
            not_compared: None,
        });
        self.told().members = told.collect();
        tracing::info!(members = ?self.members.keys().collect::<Vec<_>>(),
            "comparing what the members have stored");
        let asked = async {
            // Whoever could stop it may be gone.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        let ended = tokio::select! {
            ended = self.compare_all() => ended,
            () = asked => Err(Ends("it was stopped".to_owned())),
        };
        // Also those that failed: they may have heard.
        let all: Vec<u64> = members.iter().map(|member| member.id).collect();
        let over = all.iter().map(|member| self.ask(*member, Question::End, HOLD_WAIT));
        join_all(over).await;
        self.finish(ended);
    }

    fn finish(&self, ended: Result<(), Ends>) {
        let mut told = self.told();
        told.times_us.1 = self.parts.clock.now().0;
        told.state = match ended {
            Ok(()) => VerificationState::Done,
            Err(Ends(why)) => VerificationState::Stopped(why),
        };
        let Verification { entries, bytes, differing, lsns, .. } = *told;
        let not_compared = told.members.iter().filter_map(|member| {
            Some(format!("member {}: {}", member.member, member.not_compared.as_deref()?))
        });
        let not_compared: Vec<String> = not_compared.collect();
        let (first, last) = (lsns.0.0, lsns.1.0);
        match (&told.state, differing) {
            (VerificationState::Stopped(why), _) => {
                tracing::warn!(why, entries, differing, "the members were not compared to the end");
            }
            (_, 0) => tracing::info!(
                entries,
                bytes,
                first,
                last,
                ?not_compared,
                "the members that were compared have stored the same"
            ),
            (_, _) => tracing::error!(
                entries,
                bytes,
                first,
                last,
                differing,
                ?not_compared,
                "the members have not stored the same"
            ),
        }
    }

    async fn compare_all(&mut self) -> Result<(), Ends> {
        if self.members.len() < 2 {
            return Err(Ends("this member is the only one".to_owned()));
        }
        self.again(None).await?;
        let mut from = Some(1);
        while let Some(next) = from {
            from = self.again(Some(next)).await?;
        }
        Ok(())
    }

    /// Compares a slice of the entries, or all other rows, at whatever position that works; where
    /// the next slice begins.
    async fn again(&mut self, from: Option<u64>) -> Result<Option<u64>, Ends> {
        loop {
            while self.next_at > Instant::now() {
                self.check_lease()?;
                sleep_until(self.next_at.min(Instant::now() + LOOK_EVERY)).await;
            }
            let lsn = self.agree().await?;
            let compared = match from {
                None => self.compare_rows().await.map(|()| None),
                Some(from) => self.compare_slice(from).await,
            };
            match compared {
                Ok(next) => {
                    self.let_go().await;
                    let mut told = self.told();
                    if told.lsns.0 == Lsn(0) {
                        told.lsns.0 = lsn;
                    }
                    told.lsns.1 = lsn;
                    return Ok(next);
                }
                Err(Again::Later) => self.let_go().await,
                Err(Again::Never(ends)) => return Err(ends),
            }
        }
    }

    /// Has all members that are compared hold the state after one change; which.
    async fn agree(&mut self) -> Result<Lsn, Ends> {
        let mut goal = Lsn(self.applied().0 + self.ahead);
        for _ in 0..POSITIONS_IN_VAIN_MAX {
            self.check_lease()?;
            let before = self.applied();
            self.told().positions += 1;
            let said = self.hold(goal, HOLD_WAIT).await?;
            let of = |held: &Held| said.values().filter(|said| *said == held).count();
            let at = said.values().filter_map(Held::at).max().unwrap_or(before);
            if said.len() == self.members.len() && of(&Held::Yes) == said.len() {
                return Ok(goal);
            }
            if said.values().any(|held| matches!(held, Held::Passed(_))) {
                let late = at.0.saturating_sub(goal.0);
                self.ahead = (2 * self.ahead).max(late).clamp(1, AHEAD_MAX);
            } else if of(&Held::Yes) > 0 && said.len() == self.members.len() {
                // The others came there.
                if self.wait_for_late(goal, &said).await? {
                    return Ok(goal);
                }
            } else if said.len() == self.members.len() {
                // So far the data have come while it was waited for.
                self.ahead = (self.ahead / 2).min(at.0.saturating_sub(before.0));
            }
            goal = Lsn(at.max(before).0 + self.ahead);
        }
        Err(Ends("no change was found after which all members can be compared".to_owned()))
    }

    /// Waits for those who have not come to `goal`; whoever does not come is not compared. Whether
    /// all others hold it then.
    async fn wait_for_late(&mut self, goal: Lsn, said: &BTreeMap<u64, Held>) -> Result<bool, Ends> {
        let late: Vec<u64> = said
            .iter()
            .filter(|(_, held)| matches!(held, Held::NotReached(_)))
            .map(|(member, _)| *member)
            .collect();
        let wait_ms = u32::try_from(HOLD_WAIT_MAX.as_millis()).unwrap_or(u32::MAX);
        let limit = HOLD_WAIT_MAX + ANSWER_MAX;
        let question = |_| Question::Hold { lsn: goal, wait_ms };
        let answers = self.ask_all(&late, question, limit).await;
        let mut all = true;
        for (member, answer) in answers {
            match self.held(member, answer)? {
                Some(Held::Yes) => {}
                Some(Held::NotReached(at)) => {
                    let why = format!("it is behind, at change {} of {}", at.0, goal.0);
                    self.leave_out(member, why)?;
                }
                Some(Held::Passed(_)) | None => all = false,
            }
        }
        Ok(all)
    }

    /// Asks all to hold the state after `lsn`; what those said who did not fail.
    async fn hold(&mut self, lsn: Lsn, wait: Duration) -> Result<BTreeMap<u64, Held>, Ends> {
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let members: Vec<u64> = self.members.keys().copied().collect();
        let question = |_| Question::Hold { lsn, wait_ms };
        let answers = self.ask_all(&members, question, wait + ANSWER_MAX).await;
        let mut said = BTreeMap::new();
        for (member, answer) in answers {
            if let Some(held) = self.held(member, answer)? {
                said.insert(member, held);
            }
        }
        if said.len() < self.members.len() {
            sleep(FAILURE_PAUSE).await;
        }
        Ok(said)
    }

    /// What a member says of a state that it is to hold; none when it failed.
    fn held(&mut self, member: u64, answer: Result<Answer, Fault>) -> Result<Option<Held>, Ends> {
        let held = match self.heard(member, answer)? {
            Some(Answer::Held { entries }) => {
                let mut told = self.told();
                told.of_entries = told.of_entries.max(entries);
                Held::Yes
            }
            Some(Answer::Passed(at)) => Held::Passed(at),
            Some(Answer::NotReached(at)) => Held::NotReached(at),
            Some(Answer::Busy(by)) => {
                let why =
                    format!("member {by} compares the data already (seen on member {member})");
                return Err(Ends(why));
            }
            Some(other) => {
                self.unexpected(member, &other)?;
                return Ok(None);
            }
            None => return Ok(None),
        };
        Ok(Some(held))
    }

    /// Compares the entries from `from` on; where the next slice begins.
    async fn compare_slice(&mut self, from: u64) -> Result<Option<u64>, Again> {
        let mut through = from.saturating_add(SLICE_IDS - 1);
        // Slices of the same entries are as long: only where they differ is one asked for again.
        let slices = loop {
            let question = Question::Slice { from, through };
            let slices = self.all_say(question, |answer| match answer {
                Answer::Slice(slice) => Ok(slice),
                other => Err(other),
            });
            let slices: BTreeMap<u64, Slice> = slices.await?;
            let shortest = slices.values().map(|slice| slice.through).min().unwrap_or(through);
            if slices.values().all(|slice| slice.through == shortest) {
                break slices;
            }
            if shortest >= through {
                return Err(Again::Later);
            }
            through = shortest;
        };
        through = slices.values().map(|slice| slice.through).min().unwrap_or(through);
        let mut all = slices.values().map(|slice| (slice.entries, slice.digest));
        let first = all.next();
        if !all.all(|one| Some(one) == first) {
            self.find_entries(from, through).await?;
        }
        let bytes = slices.values().map(|slice| slice.bytes).max().unwrap_or(0);
        let entries = slices.values().map(|slice| slice.entries).max().unwrap_or(0);
        self.pace(bytes);
        {
            let mut told = self.told();
            told.entries += entries;
            told.bytes += bytes;
        }
        let next = slices.values().filter_map(|slice| slice.next).min();
        Ok(next.filter(|next| *next > through))
    }

    /// Names the entries of a slice that differ.
    async fn find_entries(&mut self, from: u64, through: u64) -> Result<(), Again> {
        let question = Question::Entries { from, through };
        let said = self.all_say(question, |answer| match answer {
            Answer::Entries(all) => Ok(all),
            other => Err(other),
        });
        let said = said.await?;
        let found = finding::differing(&said, &self.voters());
        let mut all = Vec::new();
        for some in found.chunks(DESCRIBED_MAX) {
            if self.named_left(all.len()) == 0 {
                all.extend(some.iter().map(|(_, _, verdict)| (verdict.odd.clone(), None)));
                continue;
            }
            all.extend(self.describe(some).await?);
        }
        self.tell(all);
        Ok(())
    }

    /// What entries are that differ.
    async fn describe(&mut self, some: &[(u64, Voices, Verdict)]) -> Result<Vec<Found>, Again> {
        let ids: Vec<u64> = some.iter().map(|(id, _, _)| *id).collect();
        let said = self.all_say(Question::Describe(ids), |answer| match answer {
            Answer::Described(all) => Ok(all),
            other => Err(other),
        });
        let said: BTreeMap<u64, Vec<HeldEntry>> = said.await?;
        let described = some.iter().enumerate().map(|(number, (id, _, verdict))| {
            let of_each =
                said.iter().filter_map(|(member, all)| Some((*member, all.get(number)?.clone())));
            let difference = finding::of_entry(*id, verdict, &of_each.collect());
            (verdict.odd.clone(), Some(difference))
        });
        Ok(described.collect())
    }

    /// Compares what else the members have in common.
    async fn compare_rows(&mut self) -> Result<(), Again> {
        let rows = |answer| match answer {
            Answer::Rows(all) => Ok(all),
            other => Err(other),
        };
        let said: BTreeMap<u64, Vec<(String, Digest)>> =
            self.all_say(Question::Common, rows).await?;
        let mut all = said.values();
        let first = all.next();
        if all.all(|one| Some(one) == first) {
            return Ok(());
        }
        let said = self.all_say(Question::CommonRows, rows).await?;
        let found = finding::differing(&said, &self.voters());
        let all = found.into_iter().map(|(name, voices, verdict)| {
            let difference = finding::of_row(name, &voices, &verdict);
            (verdict.odd, Some(difference))
        });
        self.tell(all.collect());
        Ok(())
    }

    /// Tells what was found; it counts.
    fn tell(&self, found: Vec<Found>) {
        let mut told = self.told();
        for (odd, difference) in found {
            told.differing += 1;
            for member in &mut told.members {
                member.differing += u64::from(odd.contains(&member.member));
            }
            let Some(difference) = difference else { continue };
            if told.differing <= DIFFERENCES_LOGGED_MAX {
                let EntryDifference { id, name, odd, is_clear, .. } = &difference;
                tracing::error!(
                    entry = id,
                    name,
                    ?odd,
                    is_clear,
                    "what members have stored differs"
                );
            }
            if told.differences.len() < DIFFERENCES_NAMED_MAX {
                told.differences.push(difference);
            }
        }
    }

    /// How many more differences are named, when so many are about to be.
    fn named_left(&self, about: usize) -> usize {
        let named = self.told().differences.len() + about;
        DIFFERENCES_NAMED_MAX.saturating_sub(named)
    }

    /// What all members that are compared answer, each as it should.
    async fn all_say<T>(
        &mut self,
        question: Question,
        read: impl Fn(Answer) -> Result<T, Answer>,
    ) -> Result<BTreeMap<u64, T>, Again> {
        let members: Vec<u64> = self.members.keys().copied().collect();
        let answers = self.ask_all(&members, |_| question.clone(), ANSWER_MAX).await;
        let mut said = BTreeMap::new();
        for (member, answer) in answers {
            match self.heard(member, answer)?.map(&read) {
                Some(Ok(one)) => drop(said.insert(member, one)),
                Some(Err(other)) => self.unexpected(member, &other)?,
                None => {}
            }
        }
        match said.len() == members.len() {
            true => Ok(said),
            false => Err(Again::Later),
        }
    }

    async fn let_go(&self) {
        let members: Vec<u64> = self.members.keys().copied().collect();
        self.ask_all(&members, |_| Question::LetGo, HOLD_WAIT).await;
    }

    async fn ask_all(
        &self,
        members: &[u64],
        question: impl Fn(u64) -> Question,
        limit: Duration,
    ) -> Vec<(u64, Result<Answer, Fault>)> {
        let asked = members.iter().map(|member| {
            let asking = self.ask(*member, question(*member), limit);
            async move { (*member, asking.await) }
        });
        join_all(asked).await
    }

    async fn ask(&self, member: u64, what: Question, limit: Duration) -> Result<Answer, Fault> {
        let VerifierParts { id, peers, holder, .. } = &*self.parts;
        let asked = Asked { run: self.id, what };
        if member == *id {
            let answer = tokio::time::timeout(limit, holder.ask(*id, asked)).await;
            return answer
                .ok()
                .flatten()
                .ok_or_else(|| Fault::Away("it takes too long".to_owned()));
        }
        let mut octets = vec![ASK_VERIFY];
        asked.encode(&mut octets);
        match peers.ask(member, octets, limit).await {
            Ok(octets) => Answer::decode(&octets).map_err(|error| Fault::Other(error.0.to_owned())),
            Err(error) => Err(Fault::from(error)),
        }
    }

    /// Takes note of whether a member answers; its answer, if it does. One that fails again and
    /// again is compared no more.
    fn heard(
        &mut self,
        member: u64,
        answer: Result<Answer, Fault>,
    ) -> Result<Option<Answer>, Ends> {
        match answer {
            Ok(Answer::Refused(reason)) => self.leave_out(member, reason)?,
            Ok(answer) => {
                self.members.entry(member).and_modify(|failures| *failures = 0);
                return Ok(Some(answer));
            }
            Err(Fault::Other(reason)) => self.leave_out(member, reason)?,
            Err(Fault::Away(reason)) => self.failed(member, reason)?,
        }
        Ok(None)
    }

    /// A member answers what it was not asked, or holds nothing any more.
    fn unexpected(&mut self, member: u64, answer: &Answer) -> Result<(), Ends> {
        let why = match answer {
            Answer::NotHeld => "it does not hold its state for long enough",
            _ => "it answers something else than it is asked",
        };
        self.failed(member, why.to_owned())
    }

    fn failed(&mut self, member: u64, reason: String) -> Result<(), Ends> {
        let Some(failures) = self.members.get_mut(&member) else { return Ok(()) };
        *failures += 1;
        match *failures >= FAILURES_MAX {
            true => self.leave_out(member, reason),
            false => Ok(()),
        }
    }

    /// A member is compared no more.
    fn leave_out(&mut self, member: u64, reason: String) -> Result<(), Ends> {
        if self.members.remove(&member).is_none() {
            return Ok(());
        }
        tracing::warn!(member, reason, "a member is not compared");
        {
            let mut told = self.told();
            if let Some(one) = told.members.iter_mut().find(|one| one.member == member) {
                one.not_compared = Some(reason);
            }
        }
        match self.members.len() < 2 {
            true => Err(Ends("fewer than two members can be compared".to_owned())),
            false => Ok(()),
        }
    }

    fn check_lease(&self) -> Result<(), Ends> {
        match lock(&self.running.asked_after).elapsed() > LEASE {
            true => Err(Ends("nobody asked after it any more".to_owned())),
            false => Ok(()),
        }
    }

    /// So many octets were read: for so long nothing is.
    fn pace(&mut self, bytes: u64) {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.parts.rate_bytes.max(1));
        let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        // What it took counts.
        let now = Instant::now();
        self.next_at = self.next_at.max(now.checked_sub(PACE_SLACK).unwrap_or(now)) + pause;
    }

    fn applied(&self) -> Lsn {
        self.parts.log.applied()
    }

    fn voters(&self) -> BTreeSet<u64> {
        let members = self.parts.log.status().members;
        let voters = members.iter().filter(|one| matches!(one.state, MemberState::Voter));
        voters.map(|one| one.id).collect()
    }

    fn told(&self) -> MutexGuard<'_, Verification> {
        lock(&self.running.told)
    }
}

/// What a member says of a state that it is to hold.
#[derive(Debug, Eq, PartialEq)]
enum Held {
    Yes,
    Passed(Lsn),
    NotReached(Lsn),
}

impl Held {
    const fn at(&self) -> Option<Lsn> {
        match self {
            Self::Yes => None,
            Self::Passed(at) | Self::NotReached(at) => Some(*at),
        }
    }
}

/// Why a member has no answer.
#[derive(Debug, Eq, PartialEq)]
enum Fault {
    /// It does not answer now.
    Away(String),
    /// Asking again is of no use.
    Other(String),
}

impl From<AskError> for Fault {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Unknown(reason) if reason == NOT_KNOWN => {
                Self::Other("it runs a release that cannot compare its data".to_owned())
            }
            AskError::NotSent(_) | AskError::Unknown(_) => Self::Away(error.to_string()),
        }
    }
}

/// Which members have something else, and what it is if that is told.
type Found = (Vec<u64>, Option<EntryDifference>);

/// How often it is looked whether somebody still asks after it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How much of what reading took is made up for.
const PACE_SLACK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_an_earlier_release_is_not_asked_again() {
        // As they answer what they do not know.
        let earlier = AskError::Unknown("nobody knows that".to_owned());
        let why = "it runs a release that cannot compare its data".to_owned();
        assert_eq!(Fault::from(earlier), Fault::Other(why));
        let away = AskError::Unknown("no response in time".to_owned());
        assert!(matches!(Fault::from(away), Fault::Away(_)));
        assert!(matches!(Fault::from(AskError::NotSent(String::new())), Fault::Away(_)));
    }
}
