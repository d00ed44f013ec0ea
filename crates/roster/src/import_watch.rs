//! What a user sees of an import: a bar on a terminal, JSON lines elsewhere, and what was refused.
//!
//! Invariant: everything goes to standard error; of what is refused so much is shown as a person
//! can read, and all of it is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar};
use offline::{ImportObserver, ImportPhase, ImportReport, Progress, Refused, Skipped};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::progress;
use crate::rejects::Rejects;

/// Shows an import.
pub(crate) struct ImportWatch {
    bar: ProgressBar,
    /// JSON lines, and from the first moment on.
    is_json: bool,
    /// The phase that is shown, and when it began.
    phase: Option<(ImportPhase, Duration)>,
    /// When something was shown last.
    shown: Duration,
    rejects: Option<Rejects>,
    skips: Option<Rejects>,
    problems: u64,
    /// Superiors that are missing, and for how many entries more than the one that was shown.
    missing: BTreeMap<String, u64>,
    cancel: Arc<AtomicBool>,
}

impl ImportWatch {
    /// Shows JSON lines if `is_json`, or if nobody watches and it takes longer than a moment. What
    /// is refused and skipped goes to the two files, if there are any.
    pub(crate) fn new(
        is_json: bool,
        rejects: Option<Rejects>,
        skips: Option<Rejects>,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        let bar = match is_json {
            true => ProgressBar::hidden(),
            false => ProgressBar::with_draw_target(None, progress::target()),
        };
        let shown = Duration::ZERO;
        let (problems, missing) = (0, BTreeMap::new());
        Self { bar, is_json, phase: None, shown, rejects, skips, problems, missing, cancel }
    }

    /// Ends the showing; the files get their names if they are `kept`.
    pub(crate) fn finish(self, kept: bool) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        for (superior, more) in self.missing.iter().filter(|(_, more)| **more > 0) {
            output::note(format_args!(
                "roster: error: … and {more} more at and below entries that lack '{superior}'"
            ));
        }
        if self.problems > PROBLEMS_SHOWN && self.rejects.is_none() {
            let more = self.problems - PROBLEMS_SHOWN;
            output::note(format_args!("roster: error: … and {more} more"));
        }
        let mut ended = [self.rejects, self.skips].into_iter().flatten();
        ended.try_for_each(|file| file.finish(kept))
    }

    fn draw(&self, progress: &Progress, is_new: bool) {
        if is_new {
            progress::style(&self.bar, template(progress.total.is_some(), progress::is_narrow()));
            self.bar.reset();
            self.bar.set_prefix(progress.phase.name());
        }
        if let Some(total) = progress.total {
            self.bar.set_length(total);
        }
        self.bar.set_position(progress.done);
        self.bar.set_message(message(progress));
    }

    /// Whether it follows from a superior that is missing, as was shown already.
    fn follows(&mut self, reason: &str) -> bool {
        let Some(superior) = missing_superior(reason) else { return false };
        let is_it = |known: &str| {
            let above = superior.strip_suffix(known);
            above.is_some_and(|above| above.is_empty() || above.ends_with(','))
        };
        if let Some((_, more)) = self.missing.iter_mut().find(|(known, _)| is_it(known)) {
            *more += 1;
            return true;
        }
        if self.missing.len() < MISSING_MAX {
            self.missing.insert(superior.to_owned(), 0);
        }
        false
    }

    fn problem(&mut self, refused: &Refused<'_>) {
        // Programs want each of them.
        if !self.is_json && self.follows(refused.reason) {
            return;
        }
        self.problems += 1;
        if self.problems > PROBLEMS_SHOWN {
            return;
        }
        let Refused { source, line, dn, reason, .. } = refused;
        if self.is_json {
            let place = json!({ "source": source, "line": line, "dn": dn, "reason": reason });
            output::json_note(&json!({ "refused": place }));
        } else {
            self.bar.suspend(|| {
                output::note(format_args!("roster: error: {source}:{line}: {reason}"));
            });
        }
    }
}

impl ImportObserver for ImportWatch {
    fn progress(&mut self, progress: &Progress) {
        let is_new = self.phase.is_none_or(|(phase, _)| phase != progress.phase);
        if is_new {
            self.phase = Some((progress.phase, progress.elapsed));
        }
        let is_due = progress.elapsed.saturating_sub(self.shown) >= LINE_INTERVAL;
        if output::is_watched() && !self.is_json {
            self.draw(progress, is_new);
        } else if is_due || (is_new && self.is_json) {
            self.shown = progress.elapsed;
            let begin = self.phase.map_or(Duration::ZERO, |(_, begin)| begin);
            output::json_note(&line(progress, begin));
        }
    }

    fn refused(&mut self, refused: &Refused<'_>) {
        match &mut self.rejects {
            Some(rejects) => {
                self.problems += 1;
                rejects.write(refused.source, refused.line, refused.reason, refused.ldif);
                // What could not be kept must not be lost: nothing is loaded.
                if !rejects.is_whole() {
                    self.cancel.store(true, Ordering::Relaxed);
                }
            }
            None => self.problem(refused),
        }
    }

    fn skipped(&mut self, skipped: &Skipped<'_>) {
        if let Some(skips) = &mut self.skips {
            skips.write(skipped.source, skipped.line, skipped.reason, skipped.ldif);
        }
    }
}

/// The superior that an entry lacks, if that is why it was refused.
fn missing_superior(reason: &str) -> Option<&str> {
    let (_, rest) = reason.split_once("': its superior '")?;
    rest.strip_suffix("' does not exist")
}

/// The last JSON line.
pub(crate) fn summary(report: &ImportReport) -> Value {
    let seconds = report.elapsed.as_secs_f64();
    json!({
        "phase": "done",
        "seconds": seconds,
        "processed": report.processed,
        "imported": report.imported,
        "skipped": report.skipped,
        "rejected": report.rejected,
        "migrated": report.migrated,
        "replaced": report.replaced,
        "record_bytes": report.record_bytes,
        "rate": report.processed as f64 / seconds.max(1e-6),
        "reasons": report.reasons,
    })
}

const fn template(has_total: bool, is_narrow: bool) -> &'static str {
    match (has_total, is_narrow) {
        (true, false) => "{prefix:6} {wide_bar} {percent:>3}%, {msg}, {eta} left",
        (true, true) => "{prefix} {percent}%, {eta} left, {wide_msg}",
        (false, false) => "{prefix:6} {spinner} {bytes}, {msg}",
        (false, true) => "{prefix} {spinner} {wide_msg}",
    }
}

/// How many entries there are by now, and, while they are read, how fast they come.
fn message(progress: &Progress) -> String {
    let entries = HumanCount(progress.records);
    match progress.phase {
        ImportPhase::Load => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate is shown without digits after the point"
            )]
            let rate = HumanCount(rate(progress) as u64);
            format!("{entries} entries, {rate}/s")
        }
        ImportPhase::Index | ImportPhase::Verify | ImportPhase::Groups => {
            format!("{entries} entries")
        }
    }
}

fn line(progress: &Progress, begin: Duration) -> Value {
    let Progress { phase, done, total, records, rejected, skipped, elapsed } = *progress;
    let spent = elapsed.saturating_sub(begin).as_secs_f64();
    let remaining = total.filter(|_| done > 0).map(|total| {
        let share = total.saturating_sub(done) as f64 / done as f64;
        (spent * share * 10.0).round() / 10.0
    });
    json!({
        "phase": phase.name(),
        "seconds": (elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
        "entries": records,
        "rejected": rejected,
        "skipped": skipped,
        "rate": rate(progress).round(),
        "done": done,
        "total": total,
        "remaining_seconds": remaining,
    })
}

/// Entries a second since the beginning.
fn rate(progress: &Progress) -> f64 {
    progress.records as f64 / progress.elapsed.as_secs_f64().max(0.001)
}

/// So many missing superiors are told apart.
const MISSING_MAX: usize = 200;
/// So many refused entries are shown.
const PROBLEMS_SHOWN: u64 = 1000;
/// The time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
