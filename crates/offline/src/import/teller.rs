//! What an import tells: it counts, names places and keeps the text of entries that wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use environment::Clock;
use ldap::ldif::LdifError;
use rustc_hash::FxHashMap;
use store::{Added, Phase, Refusal, RefusalReason, SourceLine};

use super::prepare::Fault;
use super::{ImportError, ImportObserver, ImportPhase, ImportReport, Progress, Refused, Skipped};

/// Counts and tells; on the caller's thread alone.
pub(super) struct Teller<'i> {
    pub(super) observer: &'i mut dyn ImportObserver,
    pub(super) clock: &'i dyn Clock,
    pub(super) begin: Duration,
    /// The names of the sources.
    pub(super) names: Vec<String>,
    /// How much of the sources was stored so far, and their length if it is known.
    pub(super) done_bytes: u64,
    pub(super) length_bytes: Option<u64>,
    pub(super) report: ImportReport,
    /// The first refusal, for those who do not listen.
    pub(super) first: Option<String>,
    pub(super) waiting: Waiting,
    /// Refusals after which nothing more is read.
    pub(super) refusals_max: u64,
}

impl Teller<'_> {
    /// The error of an import that loads nothing because of what was refused.
    pub(super) fn refusal_of_all(self) -> ImportError {
        let first = self.first.clone().unwrap_or_default();
        ImportError::Refused { report: Box::new(self.ended()), first }
    }

    /// What is reported at the end.
    pub(super) fn ended(mut self) -> ImportReport {
        self.report.elapsed = self.clock.elapsed().saturating_sub(self.begin);
        self.report
    }

    /// Whether so much is wrong that there is no point in going on.
    pub(super) fn has_enough(&self) -> bool {
        self.report.rejected >= self.refusals_max
    }

    pub(super) fn added(
        &mut self,
        place: SourceLine,
        text: Option<&[u8]>,
        added: Added,
    ) -> Result<(), ImportError> {
        match added {
            Added::Refused(refusal) => {
                self.refusal(&refusal, text);
                return Ok(());
            }
            Added::Waiting => {
                if let Some(text) = text {
                    self.waiting.keep(place, text)?;
                }
            }
            Added::Loaded | Added::Replaced => {}
        }
        self.report.processed += 1;
        Ok(())
    }

    /// An entry that the store refuses.
    fn refusal(&mut self, refusal: &Refusal, text: Option<&[u8]>) {
        let message = match &refusal.reason {
            RefusalReason::Duplicate { first: Some(first) }
                if first.source != refusal.place.source =>
            {
                let name = self.name(first.source);
                format!("entry '{}' exists already, from {name}:{}", refusal.dn, first.line)
            }
            RefusalReason::Duplicate { .. }
            | RefusalReason::Orphan { .. }
            | RefusalReason::BelowAlias { .. }
            | RefusalReason::OutsideContexts
            | RefusalReason::Name(_)
            | RefusalReason::TooLarge { .. } => refusal.to_string(),
        };
        let fault = Fault { message, kind: refusal.reason.name().to_owned() };
        self.refused(refusal.place, &refusal.dn, &fault, text);
    }

    /// An entry that waited for its superior in vain. It was counted when it began to wait.
    pub(super) fn waited_in_vain(&mut self, refusal: &Refusal) -> Result<(), ImportError> {
        let text = self.waiting.take(refusal.place)?;
        self.report.processed = self.report.processed.saturating_sub(1);
        self.refusal(refusal, text.as_deref());
        Ok(())
    }

    pub(super) fn refused(
        &mut self,
        place: SourceLine,
        dn: &str,
        fault: &Fault,
        text: Option<&[u8]>,
    ) {
        self.report.processed += 1;
        self.report.count(&fault.kind);
        let source = self.names.get(place.source as usize).map_or("", String::as_str);
        if self.first.is_none() {
            self.first = Some(format!("{source}:{}: {}", place.line, fault.message));
        }
        let (line, reason) = (place.line, fault.message.as_str());
        self.observer.refused(&Refused { source, line, dn, reason, ldif: text });
    }

    pub(super) fn skipped(
        &mut self,
        place: SourceLine,
        dn: &str,
        reason: &str,
        text: Option<&[u8]>,
    ) {
        self.report.processed += 1;
        self.report.skipped += 1;
        let source = self.names.get(place.source as usize).map_or("", String::as_str);
        self.observer.skipped(&Skipped { source, line: place.line, dn, reason, ldif: text });
    }

    /// The error of a source that cannot be read on.
    pub(super) fn broken(&self, source: u32, error: &LdifError) -> ImportError {
        ImportError::Source {
            name: self.name(source).to_owned(),
            line: error.line,
            reason: error.reason.to_string(),
        }
    }

    /// Tells how far the loading is.
    pub(super) fn tick(&mut self) {
        self.progress(ImportPhase::Load, self.done_bytes, self.length_bytes);
    }

    /// Tells what the store does.
    pub(super) fn phase(&mut self, phase: Phase, done: u64, total: u64) {
        // What the store does in two steps is one phase to who watches: it does not begin anew.
        let (phase, from, to) = match phase {
            // All was read; what waited for superiors is looked at again.
            Phase::Load => return self.tick(),
            Phase::Names => (ImportPhase::Index, 0, NAMES_PERCENT),
            Phase::Indexes => (ImportPhase::Index, NAMES_PERCENT, 100),
            Phase::Sync => (ImportPhase::Verify, 0, 50),
            Phase::Verify => (ImportPhase::Verify, 50, 100),
            Phase::References => (ImportPhase::Groups, 0, 100),
        };
        // Of a step that has nothing to do there is nothing left.
        let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of 10,000"
        )]
        let done = ((from as f64 + (to - from) as f64 * share.min(1.0)) * 100.0) as u64;
        self.progress(phase, done, Some(100 * 100));
    }

    fn progress(&mut self, phase: ImportPhase, done: u64, total: Option<u64>) {
        let ImportReport { processed, rejected, skipped, .. } = self.report;
        self.observer.progress(&Progress {
            phase,
            done,
            total,
            records: processed,
            rejected,
            skipped,
            elapsed: self.clock.elapsed().saturating_sub(self.begin),
        });
    }

    fn name(&self, source: u32) -> &str {
        self.names.get(source as usize).map_or("", String::as_str)
    }
}

/// How much of the time of both it takes to write names, before indexes.
const NAMES_PERCENT: u64 = 20;

/// The text of entries whose superiors have not come yet, in a file without a name: it is gone with
/// the process, however that ends.
pub(super) struct Waiting {
    folder: PathBuf,
    file: Option<File>,
    length_bytes: u64,
    /// Where each text lies in the file.
    places: FxHashMap<(u32, u64), (u64, usize)>,
}

impl Waiting {
    /// Keeps its file in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        let places = FxHashMap::default();
        Self { folder: folder.to_path_buf(), file: None, length_bytes: 0, places }
    }

    fn keep(&mut self, place: SourceLine, text: &[u8]) -> Result<(), ImportError> {
        let kept = self.write(text).map_err(|source| self.failed(source))?;
        self.places.insert((place.source, place.line), (kept, text.len()));
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> io::Result<u64> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let path = self.path();
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true);
                // There are passwords in it.
                let file = options.mode(0o600).open(&path)?;
                std::fs::remove_file(&path)?;
                self.file.insert(file)
            }
        };
        let at = self.length_bytes;
        file.write_all_at(text, at)?;
        self.length_bytes += text.len() as u64;
        Ok(at)
    }

    fn take(&mut self, place: SourceLine) -> Result<Option<Vec<u8>>, ImportError> {
        let Some((at, length)) = self.places.remove(&(place.source, place.line)) else {
            return Ok(None);
        };
        let mut text = vec![0; length];
        match &self.file {
            Some(file) => file.read_exact_at(&mut text, at).map_err(|error| self.failed(error))?,
            None => return Ok(None),
        }
        Ok(Some(text))
    }

    fn path(&self) -> PathBuf {
        self.folder.join("import-waiting.tmp")
    }

    fn failed(&self, source: io::Error) -> ImportError {
        ImportError::Directory(history::HistoryError::Io { path: self.path(), source })
    }
}
