//! Who takes part and who leads changes by commands, as an administrator gives them, under load.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::fault::{Members, Rest};
use crate::cluster::tools::{Said, Tool};
use crate::cluster::{HEALTHY_MAX, LOOK_EVERY, Run};
use crate::crash::server::{now, pause};

impl Run {
    /// Changes who takes part, or who leads; in the end the members are those that run.
    pub(super) fn change_members(&mut self, change: Members) -> Result<(), String> {
        let leader = self.wait_healthy(false)?;
        match change {
            Members::Transfer => {
                let to = self.draw_other(leader);
                self.transfer(to)?;
            }
            Members::Demote => {
                let learners = self.draw_others(leader, 2);
                self.demote(&learners)?;
                self.wait_writes()?;
                self.promote(&learners)?;
            }
            Members::RejoinEmpty | Members::RejoinOlder => {
                let which = self.draw_any();
                self.lose_data(which, change == Members::RejoinOlder)?;
                self.join(which, Place::Own)?;
            }
            Members::Replace => {
                let which = self.draw_any();
                self.cluster.kill(which)?;
                self.wait_writes()?;
                self.join(which, Place::Another)?;
            }
            Members::Remove => self.remove(leader)?,
            Members::Away => {
                let which = self.draw_any();
                self.be_away(which)?;
            }
        }
        self.wait_healthy(false)?;
        self.wait_members()
    }

    /// Has another voter lead.
    pub(super) fn transfer(&mut self, to: usize) -> Result<(), String> {
        let id = self.cluster.id(to)?.to_string();
        self.ask(&["transfer", &id], &[])?;
        let leads = self.wait_leader()? == to;
        // It may have lost the lead again on a machine that is too busy.
        let what = if leads { "leads" } else { "has led, and another leads" };
        self.totals.count(format!("a member to which the lead was transferred {what}"));
        Ok(())
    }

    fn demote(&mut self, nodes: &[usize]) -> Result<(), String> {
        self.change(&["demote"], nodes, &[])
    }

    fn promote(&mut self, nodes: &[usize]) -> Result<(), String> {
        self.change(&["promote"], nodes, &[])
    }

    /// A command with the numbers of nodes, that asks all but some.
    fn change(&mut self, words: &[&str], of: &[usize], unasked: &[usize]) -> Result<(), String> {
        let ids: Result<Vec<String>, String> =
            of.iter().map(|which| self.cluster.id(*which).map(|id| id.to_string())).collect();
        let ids = ids?;
        let words: Vec<&str> =
            words.iter().copied().chain(ids.iter().map(String::as_str)).collect();
        self.ask(&words, unasked).map(drop)
    }

    /// Removes a follower, which runs or not, and lets a machine join.
    fn remove(&mut self, leader: usize) -> Result<(), String> {
        let learners = self.draw_others(leader, 2);
        let which = learners.first().copied().unwrap_or_default();
        self.demote(&learners)?;
        let is_dead = self.chance.once_in(2);
        if is_dead {
            self.cluster.kill(which)?;
        }
        self.change(&["remove", "--yes"], &[which], &[which])?;
        if !is_dead {
            self.wait_removed(which)?;
            self.cluster.kill(which)?;
        }
        self.wait_writes()?;
        self.join(which, Place::Nobodys)?;
        self.promote(&learners)
    }

    /// Waits until a node that was removed says so.
    fn wait_removed(&mut self, which: usize) -> Result<(), String> {
        let begin = now();
        while begin.elapsed() < HEALTHY_MAX {
            self.look(&[which])?;
            let view = self.cluster.view(which)?;
            if view.as_ref().is_some_and(|view| view.role == "removed") {
                return Ok(());
            }
            pause(LOOK_EVERY);
        }
        Err(format!("node {} was removed, and does not say so", which + 1))
    }

    /// Kills a node, and takes its data or puts older ones in their place.
    fn lose_data(&mut self, which: usize, is_older: bool) -> Result<(), String> {
        if is_older {
            self.cluster.kill(which)?;
            self.cluster.keep_image(which)?;
            self.cluster.start_again(which)?;
            self.wait_healthy(false)?;
            self.wait_acknowledged(OLDER_WRITES)?;
        }
        self.cluster.kill(which)?;
        match is_older {
            true => self.cluster.restore_image(which)?,
            false => self.cluster.lose_data(which)?,
        }
        self.wait_writes()
    }

    /// Lets the machine of a node that was killed join, and starts it.
    fn join(&mut self, which: usize, place: Place) -> Result<(), String> {
        let begin = now();
        if self.cluster.media().is_ok() {
            // What a join of the release before writes is not synced: its power must stay on.
            let this = self.programs.this.clone();
            self.cluster.give_program(which, &this)?;
        }
        let old = self.cluster.id(which)?.to_string();
        let words: &[&str] = match place {
            Place::Nobodys => &["token"],
            Place::Own | Place::Another => &["token", "--replaces", &old],
        };
        let token = self.ask(words, &[which])?.trim().to_owned();
        let address = match place {
            Place::Own => self.cluster.address(which)?,
            Place::Another | Place::Nobodys => {
                let address = self.cluster.move_elsewhere(which, &mut self.chance)?;
                self.cluster.empty(which)?;
                address
            }
        };
        self.cluster.prepare_settings(which)?;
        let verb = if matches!(place, Place::Own) { "rejoin" } else { "join" };
        let command = self.cluster.join_command(which, verb, &token, &address)?;
        if self.chance.once_in(3) {
            self.interrupt(command, which)?;
        }
        let again = |run: &Self| run.cluster.join_command(which, verb, &token, &address);
        self.repeat(verb, &[which], again)?;
        self.cluster.delete_old(which)?;
        let new = self.cluster.take_number(which)?.to_string();
        if new == old {
            return Err(format!("a machine that joins has the number of a former member: {new}"));
        }
        self.shared.move_to(self.cluster.doors());
        self.cluster.start_again(which)?;
        if matches!(place, Place::Nobodys) {
            self.wait_role(which, "learner")?;
        } else {
            self.wait_healthy(false)?;
        }
        self.totals.took("a machine has joined and caught up, after", begin.elapsed());
        Ok(())
    }

    /// Begins what is to be run again, and kills it after a moment.
    fn interrupt(&mut self, command: Command, which: usize) -> Result<(), String> {
        let mut tool = Tool::start(command, self.cluster.folder())?;
        let time = Duration::from_millis(self.chance.below(INTERRUPT_MAX_MS));
        self.watch(time, &[which])?;
        let has_ended = tool.ended()?.is_some();
        if !has_ended {
            tool.kill()?;
            self.totals.count("a machine that joined was killed meanwhile".to_owned());
        }
        Ok(())
    }

    /// Has a node be down until what it lacks of the log is given up.
    fn be_away(&mut self, which: usize) -> Result<(), String> {
        let before = self.cluster.log_count(which, COPIED)?;
        self.cluster.kill(which)?;
        self.wait_writes()?;
        self.shared.padding.store(super::PADDING_BYTES, Ordering::Relaxed);
        let padded = self.wait_acknowledged(AWAY_WRITES);
        self.shared.padding.store(0, Ordering::Relaxed);
        padded?;
        self.watch(FLUSHED_AFTER, &[which])?;
        self.rest(Rest::Short);
        let begin = now();
        self.cluster.start_again(which)?;
        self.wait_healthy(false)?;
        let is_copied = self.cluster.log_count(which, COPIED)? > before;
        let how = if is_copied { "gets a copy" } else { "catches up from the log" };
        self.totals.count(format!("a node that was away {how}"));
        self.totals.took("a node that was away has caught up, after", begin.elapsed());
        Ok(())
    }

    /// Waits until the members that the nodes tell of are those that run, all of them voters.
    fn wait_members(&mut self) -> Result<(), String> {
        let begin = now();
        let want: Result<BTreeSet<u64>, String> =
            (0..self.cluster.count()).map(|which| self.cluster.id(which)).collect();
        let want = want?;
        loop {
            self.look(&[])?;
            let told: Vec<_> =
                (0..self.cluster.count()).map(|which| self.cluster.members(which)).collect();
            let is_right = |members: &Vec<crate::cluster::nodes::Member>| {
                members.iter().all(|member| member.is_voter)
                    && members.iter().map(|member| member.id).collect::<BTreeSet<u64>>() == want
            };
            if told.iter().all(|told| told.as_ref().is_ok_and(is_right)) {
                return Ok(());
            }
            if begin.elapsed() > HEALTHY_MAX {
                return Err(format!("the members are not {want:?}: {told:?}"));
            }
            pause(LOOK_EVERY);
        }
    }

    /// Waits until a node has a role, and all others serve.
    fn wait_role(&mut self, which: usize, role: &str) -> Result<(), String> {
        let begin = now();
        loop {
            let views = self.look(&[])?;
            let has = |view: &Option<_>| view.as_ref().is_some_and(|view| is(view, role));
            if views.get(which).is_some_and(has) {
                return Ok(());
            }
            if begin.elapsed() > HEALTHY_MAX {
                return Err(format!("node {} is no {role}: {views:?}", which + 1));
            }
            pause(LOOK_EVERY);
        }
    }

    /// Waits until so many writes more are acknowledged.
    fn wait_acknowledged(&mut self, count: u64) -> Result<(), String> {
        let (begin, before) = (now(), self.acknowledged());
        while begin.elapsed() < HEALTHY_MAX && self.acknowledged() < before + count {
            pause(LOOK_EVERY);
        }
        // A slow machine has fewer.
        self.wait_writes()
    }

    /// Gives a command of `roster cluster` to all nodes but some, until it is carried out; what it
    /// prints.
    pub(in crate::cluster) fn ask(
        &mut self,
        words: &[&str],
        unasked: &[usize],
    ) -> Result<String, String> {
        let all: Vec<usize> =
            (0..self.cluster.count()).filter(|which| !unasked.contains(which)).collect();
        // A token is made by the first that answers.
        let count = all.len();
        let asked = self.draw(all, count);
        let verb = words.first().copied().unwrap_or_default().to_owned();
        self.repeat(&verb, unasked, |run| run.cluster.command(words, &asked))
    }

    /// Runs a command again until it ends well: each of them can be run again. What it prints.
    fn repeat(
        &mut self,
        what: &str,
        unasked: &[usize],
        command: impl Fn(&Self) -> Result<Command, String>,
    ) -> Result<String, String> {
        let begin = now();
        loop {
            let said = self.run_tool(command(self)?, unasked)?;
            if said.is_success() || said.is_done_before() {
                self.totals.took(&format!("'{what}' was carried out, after"), begin.elapsed());
                return Ok(said.output);
            }
            if begin.elapsed() > HEALTHY_MAX {
                return Err(format!("'{what}' was never carried out: {said:?}"));
            }
            self.totals.count(format!("'{what}' was given again: {}", said.reason()));
            self.watch(AGAIN_AFTER, unasked)?;
        }
    }

    /// Runs a command to its end, and looks at the nodes meanwhile.
    pub(in crate::cluster) fn run_tool(
        &mut self,
        command: Command,
        unasked: &[usize],
    ) -> Result<Said, String> {
        let begin = now();
        let mut tool = Tool::start(command, self.cluster.folder())?;
        loop {
            if let Some(said) = tool.ended()? {
                return Ok(said);
            }
            if begin.elapsed() > TOOL_MAX {
                tool.give_up()?;
                return Err(format!("{tool:?} has not ended after {} s", TOOL_MAX.as_secs()));
            }
            self.look(unasked)?;
            pause(LOOK_EVERY);
        }
    }

    fn draw_any(&mut self) -> usize {
        let all = (0..self.cluster.count()).collect();
        self.draw(all, 1).first().copied().unwrap_or_default()
    }

    pub(super) fn draw_other(&mut self, than: usize) -> usize {
        self.draw_others(than, 1).first().copied().unwrap_or_default()
    }

    fn draw_others(&mut self, than: usize, count: usize) -> Vec<usize> {
        let others = (0..self.cluster.count()).filter(|which| *which != than).collect();
        self.draw(others, count)
    }
}

fn is(view: &crate::cluster::nodes::View, role: &str) -> bool {
    view.role == role
}

/// Whose place a machine takes that joins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// The one that it had, with its settings, under another number.
    Own,
    /// That of a dead member.
    Another,
    /// Nobody's.
    Nobodys,
}

/// What a member says whose data are a copy now.
const COPIED: &str = "a copy of another member's data has taken the place";
/// How many writes later an image is older.
const OLDER_WRITES: u64 = 300;
/// So many writes, about half of them with much in them, take more than what is kept of the log.
const AWAY_WRITES: u64 = 2000;
/// What is in the log is in the database after so long, and can be given up.
const FLUSHED_AFTER: Duration = Duration::from_secs(12);
/// After how long a join is interrupted, at most.
const INTERRUPT_MAX_MS: u64 = 800;
/// How soon a command is given again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How long a command may take.
const TOOL_MAX: Duration = Duration::from_secs(150);
