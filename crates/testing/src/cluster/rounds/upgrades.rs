//! Nodes are stopped in order and go on with the program of another release.

use std::path::{Path, PathBuf};

use crate::cluster::Run;
use crate::cluster::fault::Upgrade;

/// The programs of two releases; the same one where there is no other.
#[derive(Clone, Debug)]
pub(in crate::cluster) struct Programs {
    pub(in crate::cluster) this: PathBuf,
    pub(in crate::cluster) before: PathBuf,
}

impl Run {
    pub(super) fn upgrade(&mut self, upgrade: Upgrade) -> Result<(), String> {
        let Programs { this, before } = self.programs.clone();
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
        self.cluster.end(which)?;
        self.cluster.give_program(which, program)?;
        self.cluster.start_again(which)?;
        self.wait_healthy(false)?;
        self.wait_writes()
    }
}
