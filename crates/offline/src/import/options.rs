//! What is asked of an import, and what it tells while it runs and at its end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aci::GlobalAcis;
use auth::password::{PasswordStorage, Scheme};
use directory::enforcement::modes::ModeLine;
use ldap::dn::Dn;
use store::{Held, StoreOptions};

use super::dialect::Tally;

/// How sources are imported.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// How clear-text passwords are stored.
    pub password_storage: PasswordStorage,
    /// How the store is opened.
    pub store: StoreOptions,
    /// Threads that make entries; 0 means one for each core.
    pub threads: usize,
    /// The memory to use; without it half of what the machine has to give.
    pub memory_bytes: Option<u64>,
    /// What becomes of the entries that the directory holds.
    pub held: Held,
    /// Whether anything is stored.
    pub mode: ImportMode,
    /// What a refused entry means for the others.
    pub on_refusal: OnRefusal,
    /// Only entries in these subtrees, when there are any.
    pub include: Vec<Dn>,
    /// No entries in these subtrees.
    pub exclude: Vec<Dn>,
    /// Only entries that match this filter (RFC 4515).
    pub include_filter: Option<String>,
    /// No entries that match this filter.
    pub exclude_filter: Option<String>,
    /// Whether what other servers write is translated.
    pub translate: bool,
    /// What the global ACIs are afterwards; without it, [`import`](super::import) decides.
    pub global_acis: Option<GlobalAcis>,
    /// What becomes of entries that break rules of the schema, from now on, beside what the
    /// directory says of other rules.
    pub schema_modes: Vec<ModeLine>,
    /// Whether records are compressed from now on.
    pub compress: bool,
    /// Whether observers are told the text of entries that are refused or skipped.
    pub keep_text: bool,
    /// Ends the import when it is set, before anything is replaced.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            // A load of many must not take an hour for each thousand.
            password_storage: Scheme::Ssha512.into(),
            store: StoreOptions::default(),
            threads: 0,
            memory_bytes: None,
            held: Held::default(),
            mode: ImportMode::default(),
            on_refusal: OnRefusal::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            include_filter: None,
            exclude_filter: None,
            translate: true,
            global_acis: None,
            schema_modes: Vec::new(),
            compress: false,
            keep_text: false,
            cancel: None,
        }
    }
}

/// Whether anything is stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ImportMode {
    /// The entries are loaded.
    #[default]
    Load,
    /// The entries are checked only.
    Check,
}

/// What a refused entry means for the others.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnRefusal {
    /// Nothing is loaded; all other refusals are found, too.
    #[default]
    Stop,
    /// The others are loaded.
    Continue,
}

/// What hears of an import while it runs, on the thread that called it.
pub trait ImportObserver {
    /// Hears how far it is, many times a second.
    fn progress(&mut self, _progress: &Progress) {}

    /// Hears of an entry that was refused: in the order of the file, entries without a superior
    /// last.
    fn refused(&mut self, _refused: &Refused<'_>) {}

    /// Hears of an entry that was left out as it was asked for.
    fn skipped(&mut self, _skipped: &Skipped<'_>) {}
}

/// Nobody listens.
impl ImportObserver for () {}

/// How far an import is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub phase: ImportPhase,
    /// How much of the phase is done: octets of the sources while loading, then hundredths of a
    /// percent.
    pub done: u64,
    /// How much there is to do; not known of a pipe.
    pub total: Option<u64>,
    /// Records read so far.
    pub records: u64,
    /// Of them refused.
    pub rejected: u64,
    /// Of them left out.
    pub skipped: u64,
    /// Time since the import began.
    pub elapsed: Duration,
}

/// The phases of an import, in their order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ImportPhase {
    /// Entries are read, checked and stored.
    Load,
    /// Names and posting lists are written in the order of their keys.
    Index,
    /// What was written is made durable and looked over.
    Verify,
    /// Members of large groups are put down by number.
    Groups,
}

impl ImportPhase {
    /// Its name, as users see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Index => "index",
            Self::Verify => "verify",
            Self::Groups => "groups",
        }
    }
}

/// An entry that is not imported because something is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'r> {
    /// The name of the source.
    pub source: &'r str,
    /// The line at fault, from 1.
    pub line: u64,
    /// The name, as far as the record says it.
    pub dn: &'r str,
    /// What is wrong, in one sentence.
    pub reason: &'r str,
    /// The record as it was read, if the options ask to keep it.
    pub ldif: Option<&'r [u8]>,
}

/// An entry that is left out as it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Skipped<'r> {
    /// The name of the source.
    pub source: &'r str,
    /// The line of its `dn:`, from 1.
    pub line: u64,
    /// The name.
    pub dn: &'r str,
    /// Why.
    pub reason: &'r str,
    /// The record as it was read, if the options ask to keep it.
    pub ldif: Option<&'r [u8]>,
}

/// What was imported.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// Records read.
    pub processed: u64,
    /// Entries of the sources that are in the directory now, or would be.
    pub imported: u64,
    /// Entries that were left out as it was asked for.
    pub skipped: u64,
    /// Entries that were refused.
    pub rejected: u64,
    /// Entries of the directory that were kept and written anew.
    pub migrated: u64,
    /// Entries of the directory whose place was taken by imported ones.
    pub replaced: u64,
    /// The pages that the records take, in bytes; not known when entries were added one by one.
    pub record_bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What was translated, and what the schema lacks.
    pub translation: Tally,
    /// What was done about who may read what, in a sentence with what to do; none when the data
    /// say nothing about it.
    pub access: Option<String>,
    /// How often each reason refused an entry.
    pub reasons: BTreeMap<String, u64>,
}

impl ImportReport {
    /// Counts a refusal.
    pub(super) fn count(&mut self, reason: &str) {
        self.rejected += 1;
        if let Some(times) = self.reasons.get_mut(reason) {
            *times += 1;
            return;
        }
        let reason = if self.reasons.len() < REASONS_MAX { reason } else { OTHER_REASONS };
        *self.reasons.entry(reason.to_owned()).or_default() += 1;
    }
}

/// The most reasons that are counted each on its own.
const REASONS_MAX: usize = 1000;
/// What all others are counted as.
const OTHER_REASONS: &str = "other reasons";

impl fmt::Display for ImportReport {
    /// The line that users of OpenDJ's import-ldif know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processed, imported, skipped, rejected, migrated, elapsed, .. } = self;
        let seconds = elapsed.as_secs_f64();
        let rate = if seconds > 0.0 { *processed as f64 / seconds } else { 0.0 };
        write!(
            f,
            "Processed {processed} entries, imported {imported}, skipped {skipped}, rejected \
             {rejected} and migrated {migrated} in {} seconds (average rate {rate:.1}/sec)",
            elapsed.as_secs()
        )
    }
}
