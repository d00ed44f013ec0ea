//! Nodes are stopped in order and go on with the program of another release.

use std::path::{Path, PathBuf};

use super::flips::Start;
use crate::cluster::fault::Upgrade;
use crate::cluster::{HEALTHY_MAX, Run};

/// The programs of two releases; the same one where there is no other.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Programs {
    pub(in crate::cluster) this: PathBuf,
    pub(in crate::cluster) before: PathBuf,
    /// All nodes have run `this` at one time: what only that one reads may be in the data.
    pub(in crate::cluster) were_all_new: bool,
}

impl Run {
    pub(super) fn upgrade(&mut self, upgrade: Upgrade) -> Result<(), String> {
        let Programs { this, before, .. } = self.programs.clone();
        match upgrade {
            Upgrade::Forward => self.roll(&this),
            Upgrade::Back => self.roll(&before),
            Upgrade::Mixed => {
                let all: Vec<usize> = (0..self.cluster.count()).collect();
                let which = self.draw(all, 1).first().copied().unwrap_or_default();
                let other = if self.cluster.program(which)? == this { before } else { this };
                self.restart(which, &other)
            }
        }
    }

    /// Brings all nodes to a program as the documentation says: followers first, then the lead goes
    /// to one of them, and last the one that had it.
    fn roll(&mut self, program: &Path) -> Result<(), String> {
        let last = self.wait_healthy(false)?;
        for which in (0..self.cluster.count()).filter(|which| *which != last) {
            self.restart(which, program)?;
        }
        if self.wait_healthy(false)? == last {
            let to = self.draw_other(last);
            self.transfer(to)?;
        }
        self.restart(last, program)
    }

    fn restart(&mut self, which: usize, program: &Path) -> Result<(), String> {
        self.programs.were_all_new |= self.are_all_new()?;
        let newer = self.cluster.program(which)?.to_owned();
        self.cluster.end(which)?;
        self.cluster.give_program(which, program)?;
        self.cluster.start_again(which)?;
        if let Start::Refused(tail) = self.wait_start(which, HEALTHY_MAX)? {
            self.judge_refusal(which, &tail)?;
            self.totals
                .count("the release before did not start, for it cannot read the data".into());
            self.cluster.kill(which)?;
            self.cluster.give_program(which, &newer)?;
            self.cluster.start_again(which)?;
        }
        self.wait_healthy(false)?;
        self.wait_writes()
    }

    /// Whether the release before may refuse to start: when records have come that it cannot read,
    /// which is when all nodes have run this one.
    fn judge_refusal(&self, which: usize, tail: &str) -> Result<(), String> {
        let is_before = self.cluster.program(which)? == self.programs.before;
        match is_before && self.programs.were_all_new && tail.contains(NEWER) {
            true => Ok(()),
            false => Err(format!("node {} does not start: {tail}", which + 1)),
        }
    }

    fn are_all_new(&self) -> Result<bool, String> {
        for which in 0..self.cluster.count() {
            if self.cluster.program(which)? != self.programs.this {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a release says of change records that came after it.
const NEWER: &str = "the data are of a cluster with change records of level";
