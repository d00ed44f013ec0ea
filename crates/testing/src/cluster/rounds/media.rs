//! Media that forget: power that is lost, and syncs that fail.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::fault::{Part, Rest};
use crate::cluster::load::NOBODY;
use crate::cluster::medium::Loss;
use crate::cluster::{HEALTHY_MAX, LOOK_EVERY, Run};
use crate::crash::server::{now, pause};

impl Run {
    /// Has nodes lose their power in one moment, and starts them again.
    pub(super) fn cut_power(&mut self, victims: &[usize], rest: Rest) -> Result<(), String> {
        self.cluster.kill_together(victims)?;
        let loss = Loss::draw(&mut self.medium_chance);
        victims.iter().try_for_each(|which| self.lose(*which, loss))?;
        self.rest(rest);
        victims.iter().try_for_each(|which| self.cluster.start_again(*which))
    }

    /// Has a node that was killed lose some of what it has not synced.
    fn lose(&mut self, which: usize, loss: Loss) -> Result<(), String> {
        let lost = self.cluster.media()?.lose(which, loss, &mut self.medium_chance)?;
        self.totals
            .add("writes of a node that lost its power and had not synced them", lost.unsynced);
        self.totals.add("blocks of 512 octets that it lost", lost.blocks);
        self.totals.add("creations, renames and removals that it lost", lost.names);
        Ok(())
    }

    /// Has syncs of a node fail. It must notice and say so, and confirm nothing any more that it
    /// does not sync; the others go on. Started again without what it had not synced, it is well.
    pub(super) fn fail_syncs(&mut self, part: Part, which: usize) -> Result<(), String> {
        if part == Part::Journal {
            // It answers reads, and applies nothing any more.
            self.shared.stuck.store(which, Ordering::Relaxed);
        }
        self.cluster.media()?.fail(which, part)?;
        let failed = |error: String| format!("node {}, whose syncs fail: {error}", which + 1);
        match part {
            Part::Journal => {
                let error = self.wait_end_or_error(which).map_err(failed)?;
                let what = if error.contains(SYNC) { "the sync" } else { "the write" };
                self.totals.count(format!("a node that takes no part any more names {what}"));
                self.wait_writes()?;
                self.check_confirms_nothing(which).map_err(failed)?;
            }
            Part::Base => {
                self.wait_failed_flush(which).map_err(failed)?;
                self.wait_writes()?;
            }
        }
        self.cluster.kill(which)?;
        self.cluster.media()?.mend(which)?;
        // After a sync that failed, nobody knows what is on the medium.
        let loss = Loss::draw(&mut self.medium_chance);
        self.lose(which, loss)?;
        self.cluster.start_again(which)?;
        self.wait_healthy(false)?;
        self.shared.stuck.store(NOBODY, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until a node has ended or says that it cannot go on; why, which must be its log.
    fn wait_end_or_error(&mut self, which: usize) -> Result<String, String> {
        let begin = now();
        while begin.elapsed() < HEALTHY_MAX {
            let ended = self.cluster.ended(which)?;
            // It may have ended a moment ago.
            let error = || self.cluster.view(which).ok().flatten().and_then(|view| view.error);
            if let Some(error) = ended.or_else(error) {
                let is_clear = [SYNC, APPEND].iter().any(|text| error.contains(text));
                return if is_clear { Ok(error) } else { Err(error) };
            }
            self.look(&[which])?;
            pause(LOOK_EVERY);
        }
        Err(format!("it says nothing in {} s", HEALTHY_MAX.as_secs()))
    }

    /// Waits until a node says that what it flushed to its database was not synced. It may go on:
    /// its journal has all of that.
    fn wait_failed_flush(&mut self, which: usize) -> Result<(), String> {
        let begin = now();
        while begin.elapsed() < HEALTHY_MAX {
            self.look(&[])?;
            if self.cluster.failed_flushes(which)? > Some(0) {
                self.totals
                    .took("a node says that syncs of its database fail, after", begin.elapsed());
                return Ok(());
            }
            pause(LOOK_EVERY);
        }
        Err(format!("it says nothing of a flush that failed in {} s", HEALTHY_MAX.as_secs()))
    }

    /// Without others that a majority needs, nothing is acknowledged any more: it would be because
    /// this node confirms.
    fn check_confirms_nothing(&mut self, which: usize) -> Result<(), String> {
        let before = *self.gap();
        let leader = self.wait_others_lead(which)?;
        let count = self.cluster.count();
        let others = (0..count).filter(|other| ![which, leader].contains(other)).collect();
        let frozen = self.draw(others, (count - 1) / 2);
        frozen.iter().try_for_each(|other| self.cluster.freeze(*other))?;
        let stopped = self.wait_no_writes();
        frozen.iter().try_for_each(|other| self.cluster.thaw(*other))?;
        stopped?;
        self.wait_writes()?;
        // This was not the fault.
        self.gap().leave_out(before);
        Ok(())
    }

    /// Waits until another node leads, as it says itself; which.
    fn wait_others_lead(&mut self, which: usize) -> Result<usize, String> {
        let begin = now();
        while begin.elapsed() < HEALTHY_MAX {
            let views = self.look(&[which])?;
            let leads = |view: &Option<_>| view.as_ref().is_some_and(is_leader);
            if let Some(leader) = views.iter().position(leads) {
                return Ok(leader);
            }
            pause(LOOK_EVERY);
        }
        Err(format!("nobody else leads in {} s", HEALTHY_MAX.as_secs()))
    }

    /// Waits until no write has been acknowledged for a while.
    fn wait_no_writes(&self) -> Result<(), String> {
        let (begin, mut since, mut last) = (now(), now(), self.acknowledged());
        while begin.elapsed() < HEALTHY_MAX {
            let acknowledged = self.acknowledged();
            if acknowledged != last {
                (since, last) = (now(), acknowledged);
            }
            if since.elapsed() > QUIET {
                return Ok(());
            }
            pause(LOOK_EVERY);
        }
        Err(format!("writes are acknowledged without a majority, for {} s", HEALTHY_MAX.as_secs()))
    }
}

fn is_leader(view: &crate::cluster::nodes::View) -> bool {
    view.role == "leader"
}

/// What an error says that tells of a sync.
const SYNC: &str = "sync";
/// What it says of a write that came after one that was not synced.
const APPEND: &str = "an append has failed";
/// For so long nothing is acknowledged where a majority is missing.
const QUIET: Duration = Duration::from_millis(1500);
