//! Bits that change in the files of a node while it is down: it refuses to start, or it catches up
//! and answers as the others do.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::cluster::fault::Flip;
use crate::cluster::flip::{self, Flipped};
use crate::cluster::{HEALTHY_MAX, LOOK_EVERY, Run, judge, tools};
use crate::crash::server::{now, pause};

/// A node that has lost the end of its journal, and does not follow for so long, is away.
const AWAY_AFTER: Duration = Duration::from_secs(20);

/// What a node says that has lost what it had confirmed.
const FORGOTTEN: &str = "what it has promised is forgotten";

/// Copies the files of a directory, in place of those that are there.
fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    let done = || {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    };
    done().map_err(|error: std::io::Error| format!("{}: {error}", from.display()))
}

/// How a node with another bit in its files, or another program, goes on.
pub(super) enum Start {
    /// It does not, and says why; or it has ended.
    Refused(String),
    /// It serves and follows.
    Follows,
    /// It serves, and the leader counts it as away: it has lost what it had confirmed.
    Away,
}

/// What nodes answer that are asked for all they have.
enum Compared {
    /// The one that may refuses.
    Refused,
    /// How the answers differ.
    Answers(Vec<String>),
}

impl Run {
    /// Flips a bit in the files of any node; the others go on.
    pub(super) fn flip(&mut self, place: Flip) -> Result<(), String> {
        self.wait_healthy(false)?;
        let nodes = (0..self.cluster.count()).collect();
        let which = self.draw(nodes, 1).first().copied().unwrap_or_default();
        self.cluster.kill(which)?;
        self.wait_writes()?;
        let data = self.cluster.data(which)?;
        let (base, saved) = (data.join(flip::BASE), data.with_extension("saved"));
        if place == Flip::Base {
            copy(&base, &saved)?;
        }
        let journal = data.join("journal");
        let saved_journal = data.with_extension("saved-journal");
        if place == Flip::Tail {
            copy_files(&journal, &saved_journal)?;
        }
        let flipped = flip::flip(&data, place, &mut self.chance)?;
        let done = self.judge_flip(place, which, &flipped);
        done.map_err(|error| format!("node {}: {error}; {flipped:?}", which + 1))?;
        if place == Flip::Base {
            // The journal is whole, and has what the database of before has not.
            self.cluster.kill(which)?;
            copy(&saved, &base)?;
            self.cluster.start_again(which)?;
        }
        Ok(())
    }

    fn judge_flip(&mut self, place: Flip, which: usize, flipped: &Flipped) -> Result<(), String> {
        self.cluster.start_again(which)?;
        let limit = if place == Flip::Tail { AWAY_AFTER } else { HEALTHY_MAX };
        let mut start = self.wait_start(which, limit)?;
        let where_ = match place {
            Flip::Middle => "in the middle of the journal",
            Flip::Tail => "in the tail of the journal",
            Flip::Vote => "in a vote",
            Flip::Base => "in the database",
        };
        if matches!(start, Start::Away) {
            if place != Flip::Tail {
                return Err("it neither refuses nor follows".to_owned());
            }
            self.totals
                .count(format!("with a bit flipped {where_}, a node is away until another leads"));
            let leader = self.wait_leader()?;
            self.cluster.kill(leader)?;
            self.cluster.start_again(leader)?;
            self.wait_healthy(false)?;
            start = Start::Follows;
        }
        match start {
            // Another led, and it follows.
            Start::Away => {}
            Start::Refused(tail) if place == Flip::Base => {
                let how = if tail.contains(REFUSAL) { "does not start" } else { "has ended" };
                self.totals.count(format!("with a bit flipped {where_}, a node {how}"));
            }
            Start::Refused(tail) if tail.contains(FORGOTTEN) => {
                let what = format!("with a bit flipped {where_}, a node leaves the cluster");
                self.totals.count(what);
                self.cluster.kill(which)?;
                // As it was before: it has its promises again.
                let data = self.cluster.data(which)?;
                copy_files(&data.with_extension("saved-journal"), &data.join("journal"))?;
                let _ = std::fs::remove_file(data.join("quarantine.json"));
                self.cluster.start_again(which)?;
            }
            Start::Refused(tail) => {
                if !tail.contains(REFUSAL) {
                    return Err(format!("it ended without saying why; {tail}"));
                }
                self.totals.count(format!("with a bit flipped {where_}, a node does not start"));
                self.cluster.kill(which)?;
                flipped.turn()?;
                self.cluster.start_again(which)?;
            }
            Start::Follows => {
                let compared = self.compare(which)?;
                let Compared::Answers(wrong) = compared else {
                    self.totals.count(format!("with a bit flipped {where_}, a node refuses reads"));
                    return Ok(());
                };
                // The data file has no checksums: what is not noticed is told.
                if place == Flip::Base && !wrong.is_empty() {
                    let what = format!("with a bit flipped {where_}, a node answers WRONGLY");
                    self.totals.count(what);
                    return Ok(());
                }
                self.totals.count(format!("with a bit flipped {where_}, a node catches up"));
                if !wrong.is_empty() {
                    return Err(format!("wrong answers: {}", wrong.join("; ")));
                }
            }
        }
        Ok(())
    }

    /// Waits until a node has ended or says that it cannot go on, or all serve and follow one.
    pub(super) fn wait_start(&mut self, which: usize, limit: Duration) -> Result<Start, String> {
        let begin = now();
        let mut goal = None;
        while begin.elapsed() < limit {
            if let Some(tail) = self.cluster.ended(which)? {
                return Ok(Start::Refused(tail));
            }
            let own = self.cluster.view(which);
            match own {
                Ok(Some(view)) if view.error.is_some() => {
                    return Ok(Start::Refused(format!(
                        "{REFUSAL}{}",
                        view.error.unwrap_or_default()
                    )));
                }
                // It may have ended a moment ago.
                Ok(_) | Err(_) => {}
            }
            let mut views = self.look(&[which])?;
            if let (Some(place), Ok(own)) = (views.get_mut(which), own) {
                *place = own;
            }
            if super::super::healthy(&views, false, &mut goal).is_some() {
                return Ok(Start::Follows);
            }
            pause(LOOK_EVERY);
        }
        Ok(Start::Away)
    }

    /// Compares what all nodes answer, while nobody writes; one of them may refuse to.
    fn compare(&mut self, may_refuse: usize) -> Result<Compared, String> {
        self.shared.hold.store(true, Ordering::Relaxed);
        self.wait_healthy(true)?;
        let mut trees = Vec::new();
        for which in 0..self.cluster.count() {
            match self.cluster.tree(which) {
                Ok(tree) => trees.push(tree),
                Err(_) if which == may_refuse => {
                    self.shared.hold.store(false, Ordering::Relaxed);
                    return Ok(Compared::Refused);
                }
                Err(error) => return Err(error),
            }
        }
        self.shared.hold.store(false, Ordering::Relaxed);
        Ok(Compared::Answers(judge::unlike(&trees)))
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let (from, to) = (from.display().to_string(), to.display().to_string());
    tools::run("cp", &["--sparse=always", &from, &to]).map(drop)
}

/// What stands before the reason why a server does not start.
const REFUSAL: &str = "roster: error: ";
