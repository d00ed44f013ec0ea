//! What is told while one follows: a line that moves on a terminal, notes elsewhere.

use std::fmt;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::apply::Applier;
use super::goal::Counts;
use super::source::Lag;
use crate::online::now;
use crate::output;
use crate::progress;
use crate::table::number;

/// Tells how it goes.
pub(super) struct Teller {
    bar: ProgressBar,
    begun: Instant,
    /// What was done over connections before.
    before: Counts,
    last: (Instant, u64),
    noted: Instant,
    left_out: u64,
    is_whole: bool,
}

impl Teller {
    pub(super) fn new() -> Self {
        let bar = match output::is_watched() {
            true => ProgressBar::with_draw_target(None, progress::target()),
            false => ProgressBar::hidden(),
        };
        progress::style(&bar, "{spinner} {wide_msg}");
        Self {
            bar,
            begun: now(),
            before: Counts::default(),
            last: (now(), 0),
            noted: now(),
            left_out: 0,
            is_whole: false,
        }
    }

    /// Says something that stays.
    pub(super) fn note(&self, text: fmt::Arguments<'_>) {
        // What the source says is in it, and must not look like lines of this program.
        let text = text.to_string();
        let text = output::within_line(&text);
        self.bar.suspend(|| output::note(format_args!("roster: note: {text}")));
    }

    /// A connection to each side is there.
    pub(super) fn begin(&mut self, is_whole: bool) {
        self.begun = now();
        self.last = (now(), 0);
        self.is_whole = is_whole;
        let text = if is_whole { "comparing everything" } else { "going on where it was" };
        self.note(format_args!("connected, {text}"));
    }

    /// An entry is left out by a rule of the translation.
    pub(super) fn left_out(&mut self, dn: &str) {
        self.left_out += 1;
        if self.left_out <= LEFT_OUT_TOLD_MAX {
            self.note(format_args!("left out: {dn}"));
        }
    }

    /// All that the source had is here.
    pub(super) fn complete(&mut self, applier: &Applier) {
        let Counts { added, modified, renamed, deleted, unchanged } = applier.counts;
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = applier.counts.all() as f64 / seconds.max(0.001);
        self.note(format_args!(
            "all is here after {seconds:.1} s ({rate:.0} entries/s): {} added, {} modified, {} \
             renamed, {} deleted, {} as they were, {} refused; following changes",
            number(added),
            number(modified),
            number(renamed),
            number(deleted),
            number(unchanged),
            number(applier.refused.count),
        ));
        self.is_whole = false;
    }

    /// How far it is.
    pub(super) fn show(&mut self, applier: &Applier, lag: &Lag) {
        let all = applier.counts.all();
        let (at, before) = self.last;
        let rate = (all - before) as f64 / at.elapsed().as_secs_f64().max(0.001);
        self.last = (now(), all);
        let behind = match lag {
            Lag { is_none: true, .. } => "lag 0".to_owned(),
            Lag { changes: Some(changes), .. } => format!("lag {} changes", number(*changes)),
            Lag { seconds: Some(seconds), .. } => format!("lag {seconds:.1} s"),
            Lag { .. } => "lag not known".to_owned(),
        };
        let what = if self.is_whole { "copying" } else { "following" };
        let behind = if self.is_whole { String::new() } else { format!(", {behind}") };
        let done = number(all);
        let refused = number(applier.refused.count);
        let text = format!("{what}: {done} entries, {rate:.0}/s{behind}, {refused} refused");
        self.bar.set_message(text.clone());
        self.bar.tick();
        if !output::is_watched() && self.noted.elapsed() >= NOTE_EVERY {
            self.noted = now();
            output::note(format_args!("{text}"));
        }
    }

    /// Counts what was done over connections that are lost.
    pub(super) fn add(&mut self, counts: &Counts) {
        self.before.added += counts.added;
        self.before.modified += counts.modified;
        self.before.renamed += counts.renamed;
        self.before.deleted += counts.deleted;
    }

    /// One has switched over.
    pub(super) fn switched(&mut self, without: Duration, refused: u64) {
        self.bar.finish_and_clear();
        output::note(format_args!(
            "switched over: changes are made here now; nobody took them for {:.3} s, readers had \
             no break; {} entries were refused",
            without.as_secs_f64(),
            number(refused),
        ));
    }

    /// It is over.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
        if self.left_out > LEFT_OUT_TOLD_MAX {
            let count = number(self.left_out);
            output::note(format_args!("roster: note: {count} entries were left out"));
        }
    }
}

const LEFT_OUT_TOLD_MAX: u64 = 20;
/// Where no terminal is, it is told that often how far it is.
const NOTE_EVERY: Duration = Duration::from_secs(60);
