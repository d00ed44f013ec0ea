//! Loading LDIF while no server runs: `roster import` and `roster demo`.
//!
//! One thread cuts the sources into blocks, one for each core makes entries of them, and the
//! caller's stores these in the order of the sources. An entry is completed as an add would
//! complete it: naming values, superior classes, hashed passwords, and the operational attributes
//! that it does not bring.
//!
//! Invariants: all entries of an import become visible together, or none does; every record is
//! imported, skipped or refused, and the observer hears of the latter two; what is read ahead is
//! bounded.

mod access;
mod dialect;
mod load;
mod memory;
mod options;
mod pipeline;
mod policy_names;
mod prepare;
mod record;
mod schema_modes;
mod selection;
mod source;
mod teller;

use std::cell::RefCell;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use directory::enforcement::modes;
use environment::{Chance, Clock, OsChance};
use history::{HistoryError, recovery, schema_of};
use store::{BulkError, Held, LoadOptions, Store, StoreError};

use self::dialect::Translator;
#[cfg(any(test, feature = "test-support"))]
pub use self::dialect::translated;
pub use self::dialect::{EntryTranslator, PasswordUse, PlainEntry, RuleUse, Tally, UnknownUse};
use self::load::Load;
pub use self::options::{
    ImportMode, ImportObserver, ImportOptions, ImportPhase, ImportReport, OnRefusal, Progress,
    Refused, Skipped,
};
use self::pipeline::Shared;
use self::prepare::Completer;
use self::selection::Selection;
pub use self::source::Source;
use self::teller::{Teller, Waiting};

/// Why nothing was imported.
#[derive(Debug)]
pub enum ImportError {
    /// The data directory cannot be opened, or its store failed.
    Directory(HistoryError),
    /// The options are wrong, in one sentence.
    Asked(String),
    /// A source cannot be read on.
    Source {
        /// Its name.
        name: String,
        /// The line that was to be read, from 1.
        line: u64,
        /// Why, in one sentence.
        reason: String,
    },
    /// Entries were refused, and the options do not say to go on without them.
    Refused {
        /// What was found up to the end of the sources, or to so many refusals that the rest was
        /// not read.
        report: Box<ImportReport>,
        /// The first refusal, with its place.
        first: String,
    },
    /// It was cancelled.
    Interrupted,
    /// One of its threads panicked: a fault of this program.
    Panicked,
    /// It was given too little memory, in one sentence.
    NoMemory(String),
}

/// Loads the entries of LDIF sources, one after the other, into the data directory `data`.
/// `observer` hears of what is being done and of what is not imported.
///
/// Data that bring ACIs, or come from a server whose rules are no part of the data, leave a
/// directory that was empty [closed](aci::GlobalAcis::Closed), unless the options say what its
/// global ACIs are to be, or somebody has set them.
///
/// The sources may bring the entries of the naming contexts: they take the place of those that
/// were made with the directory, as long as there are no others.
///
/// # Errors
/// When the directory cannot be opened, a source cannot be read, or a record is refused and the
/// options do not say to go on; then nothing was loaded.
pub fn import(
    data: &Path,
    sources: Vec<Source<'_>>,
    options: &ImportOptions,
    clock: &dyn Clock,
    observer: &mut dyn ImportObserver,
) -> Result<ImportReport, ImportError> {
    let begin = clock.elapsed();
    let store = Store::open(data, &options.store, schema_of(data)?)?;
    // What is acknowledged and lies in the journal alone comes first; the journal begins anew when
    // the directory is opened and the data are ahead of it.
    recovery::settle(&store, data)?;
    let schema = store.schema();
    let selection = Selection::resolve(options, &schema)?;
    let translator = Translator::new(Arc::clone(&schema));
    let modes = schema_modes::of_import(&store, &options.schema_modes)?;
    let tolerated = modes::tolerated(&modes).collect();
    let completer = Completer::new(schema, options.password_storage, clock.now(), tolerated);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let memory_bytes = options.memory_bytes.unwrap_or_else(default_budget_bytes);
    let ahead_max_bytes = (threads as u64 * AHEAD_THREAD_BYTES)
        .min(memory_bytes.saturating_sub(OWN_BYTES) / AHEAD_PART);
    let is_check = options.mode == ImportMode::Check;
    let is_set = access::is_set(&store)?;
    let mut load = Load::start(
        &store,
        &LoadOptions {
            // What is read ahead takes several times its text while entries are made of it.
            memory_bytes: memory_bytes.saturating_sub(ahead_max_bytes * AHEAD_PART / 2),
            own_bytes: OWN_BYTES,
            threads,
            held: options.held,
            is_check,
            compress: options.compress,
            seed: seed(&mut OsChance),
        },
    )?;
    let never = AtomicBool::new(false);
    let cancel = options.cancel.as_deref().unwrap_or(&never);
    let goes_on = is_check || options.on_refusal == OnRefusal::Continue;
    let read_bytes = Arc::new(AtomicU64::new(0));
    let lengths = sources.iter().map(|source| source.length_bytes);
    let length_bytes = lengths.sum();
    let mut teller = Teller {
        observer,
        clock,
        begin,
        names: sources.iter().map(|source| source.name().to_owned()).collect(),
        done_bytes: 0,
        length_bytes,
        report: ImportReport::default(),
        first: None,
        waiting: Waiting::new(data),
        refusals_max: if goes_on { u64::MAX } else { REFUSALS_MAX },
    };
    let sources = sources.into_iter().map(|source| source.counted(&read_bytes)).collect();
    let shared = Shared {
        completer: &completer,
        selection: &selection,
        translator: &translator,
        translates: options.translate,
        cancel,
        keep_text: options.keep_text,
        ahead_max_bytes,
        read_bytes,
    };
    pipeline::run(sources, &mut load, &shared, threads, &mut teller)?;
    if teller.has_enough() {
        return Err(teller.refusal_of_all());
    }
    if !is_check && !options.schema_modes.is_empty() {
        schema_modes::keep(&mut load.loader, &modes)?;
    }
    teller.report.access = access::decide(&mut load, &teller.report, options, is_set)?;
    let mut report = finish(load, teller, cancel, goes_on)?;
    // What is there now, or, where nothing was loaded, what would stay.
    let stays = !is_check || options.held != Held::Clear;
    report.translation.settle_policies(stays.then_some(&store))?;
    Ok(report)
}

/// Makes what was loaded visible, unless something was refused.
fn finish(
    load: Load<'_>,
    teller: Teller<'_>,
    cancel: &AtomicBool,
    goes_on: bool,
) -> Result<ImportReport, ImportError> {
    let Load { loader, held } = load;
    let teller = RefCell::new(teller);
    let mut failed = None;
    let finished = loader.finish(
        &mut |phase, done, total| {
            let mut teller = teller.borrow_mut();
            teller.phase(phase, done, total);
            // The last orphan is known when entries no longer wait: then it is time to stop.
            let is_refused = !goes_on && teller.report.rejected > 0 && phase != store::Phase::Load;
            match cancel.load(Ordering::Relaxed) || is_refused {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        },
        &mut |refusal| match teller.borrow_mut().waited_in_vain(&refusal) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    let mut teller = teller.into_inner();
    if let Some(error) = failed {
        return Err(error);
    }
    if !goes_on && teller.report.rejected > 0 {
        return Err(teller.refusal_of_all());
    }
    let loaded = finished?;
    teller.report.imported = loaded.entries;
    teller.report.replaced = loaded.replaced;
    teller.report.migrated = held.saturating_sub(loaded.replaced);
    teller.report.record_bytes = loaded.record_bytes;
    Ok(teller.ended())
}

/// Of a load, so that nobody knows it before.
fn seed(chance: &mut dyn Chance) -> u64 {
    let mut octets = [0; size_of::<u64>()];
    chance.fill(&mut octets);
    u64::from_le_bytes(octets)
}

/// The memory that an import uses unless it is told: half of what the machine has left, or the
/// control group of this process.
#[must_use]
pub fn default_budget_bytes() -> u64 {
    memory::budget_bytes(Path::new("/"))
}

/// What a program takes that has nothing to import yet, and what its allocator keeps back and takes
/// in huge pages.
const OWN_BYTES: u64 = 96 << 20;
/// Text read ahead for each thread.
const AHEAD_THREAD_BYTES: u64 = 8 << 20;
/// Text that is read ahead is at most this part of the memory.
const AHEAD_PART: u64 = 16;
/// When nothing will be loaded, reading ends after so many refusals.
const REFUSALS_MAX: u64 = 1000;

impl From<HistoryError> for ImportError {
    fn from(error: HistoryError) -> Self {
        Self::Directory(error)
    }
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Directory(error.into())
    }
}

impl From<BulkError> for ImportError {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Store(error) => error.into(),
            BulkError::Stopped => Self::Interrupted,
            BulkError::Panicked => Self::Panicked,
            error @ BulkError::NoMemory { .. } => Self::NoMemory(error.to_string()),
            error @ (BulkError::NotEmpty { .. } | BulkError::Refused(_)) => {
                Self::Asked(error.to_string())
            }
        }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Asked(reason) | Self::NoMemory(reason) => f.write_str(reason),
            Self::Source { name, line, reason } => write!(f, "{name}:{line}: {reason}"),
            Self::Refused { report, first } => match report.rejected {
                0 | 1 => f.write_str(first),
                more => write!(f, "{first} (and {} more)", more - 1),
            },
            Self::Interrupted => f.write_str("interrupted"),
            Self::Panicked => f.write_str("a thread of the import has panicked"),
        }
    }
}

impl std::error::Error for ImportError {}

#[cfg(test)]
mod tests;
