//! The threads of an import and what goes between them.
//!
//! One thread cuts the sources into blocks, workers make entries of their records, and the caller's
//! thread stores them in the order of the sources.
//!
//! Invariants: a block goes through [`Gate`] before it is sent and leaves it when its entries are
//! stored, so that what is in memory is bounded, whoever is slow; records are numbered in the order
//! of the sources, and a number may be left out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use ldap::ldif::{
    LDIF_BLOCK_BYTES, LdifBlock, LdifBlocks, LdifError, LdifLimits, LdifReason, SliceReader,
};
use store::{PrepareError, PreparedEntry, SourceLine, StoreError};

use super::ImportError;
use super::dialect::{self, Tally, Translator, Verdict};
use super::load::{Finisher, Load};
use super::prepare::{Completer, Fault};
use super::record::RawRecord;
use super::selection::Selection;
use super::source::Source;
use super::teller::Teller;

/// What all threads share.
pub(super) struct Shared<'i> {
    pub(super) completer: &'i Completer,
    pub(super) selection: &'i Selection,
    pub(super) translator: &'i Translator,
    /// Whether the rules of the translator are applied.
    pub(super) translates: bool,
    pub(super) cancel: &'i AtomicBool,
    pub(super) keep_text: bool,
    /// Octets of text that may be between the sources and the store.
    pub(super) ahead_max_bytes: u64,
    /// What was read of the sources so far.
    pub(super) read_bytes: Arc<AtomicU64>,
}

/// Reads, completes and stores all entries of the sources.
pub(super) fn run(
    sources: Vec<Source<'_>>,
    load: &mut Load<'_>,
    shared: &Shared<'_>,
    threads: usize,
    teller: &mut Teller<'_>,
) -> Result<(), ImportError> {
    let gate = Gate::new(shared.ahead_max_bytes);
    let (to_workers, blocks) = bounded(CHANNEL_BLOCKS);
    let (to_loader, done) = bounded(CHANNEL_BLOCKS);
    let (retire, retired) = bounded(threads);
    thread::scope(|scope| {
        let gate = &gate;
        // Whoever panics closes the gate, so that nobody waits for what does not come.
        let _closing = CloseOnPanic(gate);
        let mut running = Vec::with_capacity(threads + 1);
        for _ in 0..threads {
            let (blocks, to_loader, retire) = (blocks.clone(), to_loader.clone(), retire.clone());
            let finisher = load.finisher();
            running.push(scope.spawn(move || {
                let _closing = CloseOnPanic(gate);
                let mut worker = Worker { shared, finisher, tally: Tally::default() };
                worker.run(&blocks, &to_loader);
                // Nobody waits for it when the load has failed.
                let _ = retire.send((worker.finisher, worker.tally));
            }));
        }
        // What is left are the ends in the threads: when those are gone, the channels close.
        drop((blocks, to_loader, retire));
        running.push(scope.spawn(move || read(sources, gate, shared, &to_workers)));
        // Moved in, so that an error closes the channels and the gate, and the threads end.
        let stored = store_in_order(load, done, gate, shared, teller);
        gate.close();
        let ended: Vec<_> = running.into_iter().map(ScopedJoinHandle::join).collect();
        if ended.iter().any(Result::is_err) {
            return Err(ImportError::Panicked);
        }
        if !stored? {
            // Without a word from anybody.
            return Err(ImportError::Panicked);
        }
        for (finisher, tally) in retired {
            load.retire(finisher);
            teller.report.translation.merge(tally);
        }
        Ok(())
    })
}

/// A block on its way to a worker.
struct Work {
    /// Counts the blocks.
    position: u64,
    source: u32,
    /// What was read of the sources up to its end.
    read_bytes: u64,
    /// The number of its first record.
    first: u64,
    what: Result<LdifBlock, Interruption>,
}

/// What came in the place of a block.
enum Interruption {
    /// A record that cannot be read; others follow.
    Record(LdifError),
    /// The source cannot be read on: the import ends.
    Source(LdifError),
    /// The import was cancelled.
    Cancelled,
}

/// A block whose entries are ready to be stored.
struct Done {
    position: u64,
    source: u32,
    /// What was read of the sources up to its end.
    read_bytes: u64,
    /// What the gate counts.
    bytes: u64,
    text: Vec<u8>,
    outcomes: Result<Vec<Outcome>, ImportEnd>,
}

/// Why the import ends at a block.
enum ImportEnd {
    Source(LdifError),
    Cancelled,
    Store(StoreError),
}

/// What became of a record.
struct Outcome {
    line: u64,
    /// Where its text lies in the block.
    text: Range<usize>,
    what: Made,
}

enum Made {
    Ready(PreparedEntry),
    Refused { dn: String, fault: Fault },
    Skipped { dn: String, reason: &'static str },
}

fn read(sources: Vec<Source<'_>>, gate: &Gate, shared: &Shared<'_>, to_workers: &Sender<Work>) {
    let (mut position, mut first) = (0, 0);
    let mut send = |source, what: Result<LdifBlock, Interruption>| {
        let (bytes, records) = match &what {
            Ok(block) => (block.text.len() as u64, block.record_count_max),
            Err(_) => (0, 1),
        };
        let read_bytes = shared.read_bytes.load(Ordering::Relaxed);
        let work = Work { position, source, read_bytes, first, what };
        position += 1;
        first += records;
        gate.enter(bytes) && to_workers.send(work).is_ok()
    };
    for (source, number) in sources.into_iter().zip(0..) {
        let text = match source.plain() {
            Ok((_, text)) => text,
            Err(error) => {
                let reason = LdifReason::Io(error.to_string());
                send(number, Err(Interruption::Source(LdifError { line: 1, reason })));
                return;
            }
        };
        let mut blocks = LdifBlocks::new(text, LDIF_BLOCK_BYTES, LdifLimits::default());
        loop {
            let goes_on = match blocks.next_block() {
                _ if shared.cancel.load(Ordering::Relaxed) => {
                    send(number, Err(Interruption::Cancelled));
                    false
                }
                Ok(None) => break,
                Ok(Some(block)) => send(number, Ok(block)),
                Err(error) if matches!(error.reason, LdifReason::RecordTooLong { .. }) => {
                    send(number, Err(Interruption::Record(error)))
                }
                Err(error) => {
                    send(number, Err(Interruption::Source(error)));
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }
}

struct Worker<'i> {
    shared: &'i Shared<'i>,
    finisher: Finisher,
    tally: Tally,
}

impl Worker<'_> {
    fn run(&mut self, blocks: &Receiver<Work>, to_loader: &Sender<Done>) {
        let mut completion = self.shared.completer.worker();
        for Work { position, source, read_bytes, first, what } in blocks {
            let (outcomes, text) = match what {
                Ok(block) => {
                    let outcomes = self.block(&mut completion, &block, source, first);
                    (outcomes.map_err(ImportEnd::Store), block.text)
                }
                Err(Interruption::Record(error)) => (Ok(vec![unreadable(error, 0..0)]), Vec::new()),
                Err(Interruption::Source(error)) => (Err(ImportEnd::Source(error)), Vec::new()),
                Err(Interruption::Cancelled) => (Err(ImportEnd::Cancelled), Vec::new()),
            };
            let bytes = text.len() as u64;
            let text = if self.shared.keep_text { text } else { Vec::new() };
            let done = Done { position, source, read_bytes, bytes, text, outcomes };
            if to_loader.send(done).is_err() {
                return;
            }
        }
    }

    /// Makes the entries of a block ready.
    fn block(
        &mut self,
        completion: &mut super::prepare::Worker<'_>,
        block: &LdifBlock,
        source: u32,
        first: u64,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(RECORDS_USUAL);
        let mut reader = SliceReader::new(block, LdifLimits::default());
        for number in first.. {
            let entry = match reader.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(error) => {
                    reader.skip_record();
                    if self.shared.translates && dialect::is_search_note(&error.reason) {
                        continue;
                    }
                    outcomes.push(unreadable(error, reader.record_range()));
                    continue;
                }
            };
            if let Err(error) = entry.check_without_controls() {
                outcomes.push(unreadable(error, reader.record_range()));
                continue;
            }
            self.tally.count_controls(entry.controls.len());
            let place = SourceLine { source, line: entry.line };
            let record = RawRecord::borrowed(entry.dn, entry.attributes());
            let what = self.record(completion, record, place, number)?;
            outcomes.push(Outcome { line: place.line, text: reader.record_range(), what });
        }
        Ok(outcomes)
    }

    fn record(
        &mut self,
        completion: &mut super::prepare::Worker<'_>,
        mut record: RawRecord<'_>,
        place: SourceLine,
        number: u64,
    ) -> Result<Made, StoreError> {
        #[cfg(test)]
        assert!(record.dn != PANICKING_DN, "a test asked for it");
        // What is left out may have said who reads what is loaded.
        self.tally.look_for_rules(&record);
        let selection = self.shared.selection;
        let schema = completion.schema();
        let named = |record: RawRecord<'_>| record.dn.into_owned();
        if let Some(reason) = selection.skips_name(schema, &record.dn) {
            return Ok(Made::Skipped { dn: named(record), reason });
        }
        let translator = self.shared.translator;
        if self.shared.translates
            && let Verdict::Skip(reason) = translator.translate(&mut record, &mut self.tally)
        {
            return Ok(Made::Skipped { dn: named(record), reason });
        }
        let (entry, broken) = match completion.entry(&record, number) {
            Ok(entry) => entry,
            Err(fault) => {
                translator.examine(&record, &mut self.tally);
                return Ok(Made::Refused { dn: named(record), fault });
            }
        };
        if let Some(reason) = selection.skips_entry(completion.schema(), &entry) {
            return Ok(Made::Skipped { dn: named(record), reason });
        }
        self.tally.count_acis(&entry, completion.schema());
        self.tally.count_policies(&entry, completion.schema());
        self.tally.count_broken(&entry, &broken);
        let finished = self.finisher.finish(&entry, place, number);
        completion.recycle(entry);
        match finished {
            Ok(ready) => Ok(Made::Ready(ready)),
            Err(PrepareError::Refused(refusal)) => {
                let kind = refusal.reason.name().to_owned();
                let fault = Fault { message: refusal.to_string(), kind };
                Ok(Made::Refused { dn: refusal.dn, fault })
            }
            Err(PrepareError::Store(error)) => Err(error),
        }
    }
}

fn unreadable(error: LdifError, text: Range<usize>) -> Outcome {
    let message = error.reason.to_string();
    let fault = Fault { kind: message.clone(), message };
    Outcome { line: error.line, text, what: Made::Refused { dn: String::new(), fault } }
}

/// Stores blocks in the order of the sources; false when one is missing.
fn store_in_order(
    load: &mut Load<'_>,
    done: Receiver<Done>,
    gate: &Gate,
    shared: &Shared<'_>,
    teller: &mut Teller<'_>,
) -> Result<bool, ImportError> {
    let mut early: BTreeMap<u64, Done> = BTreeMap::new();
    let mut next = 0;
    for block in &done {
        early.insert(block.position, block);
        while let Some(block) = early.remove(&next) {
            next += 1;
            store_block(load, block, gate, teller)?;
            if shared.cancel.load(Ordering::Relaxed) {
                return Err(ImportError::Interrupted);
            }
            if teller.has_enough() {
                return Ok(true);
            }
        }
    }
    Ok(early.is_empty())
}

fn store_block(
    load: &mut Load<'_>,
    block: Done,
    gate: &Gate,
    teller: &mut Teller<'_>,
) -> Result<(), ImportError> {
    let Done { source, read_bytes, bytes, text, outcomes, .. } = block;
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(ImportEnd::Cancelled) => return Err(ImportError::Interrupted),
        Err(ImportEnd::Store(error)) => return Err(error.into()),
        Err(ImportEnd::Source(error)) => return Err(teller.broken(source, &error)),
    };
    for Outcome { line, text: range, what } in outcomes {
        let place = SourceLine { source, line };
        let text = text.get(range).filter(|text| !text.is_empty());
        match what {
            Made::Ready(ready) => {
                let added = load.add(ready)?;
                teller.added(place, text, added)?;
            }
            Made::Refused { dn, fault } => teller.refused(place, &dn, &fault, text),
            Made::Skipped { dn, reason } => teller.skipped(place, &dn, reason, text),
        }
    }
    gate.leave(bytes);
    teller.done_bytes = read_bytes;
    teller.tick();
    Ok(())
}

/// Bounds the octets that are on their way.
struct Gate {
    within: Mutex<Within>,
    left: Condvar,
    max_bytes: u64,
}

struct Within {
    bytes: u64,
    is_closed: bool,
}

impl Gate {
    fn new(max_bytes: u64) -> Self {
        let within = Mutex::new(Within { bytes: 0, is_closed: false });
        Self { within, left: Condvar::new(), max_bytes }
    }

    /// Waits until there is room, or nothing else is on its way; false when the gate is closed.
    fn enter(&self, bytes: u64) -> bool {
        let within = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |within: &mut Within| {
            !within.is_closed && within.bytes > 0 && within.bytes + bytes > self.max_bytes
        };
        let within = self.left.wait_while(within, is_full);
        let mut within = within.unwrap_or_else(PoisonError::into_inner);
        within.bytes += bytes;
        !within.is_closed
    }

    fn leave(&self, bytes: u64) {
        self.within.lock().unwrap_or_else(PoisonError::into_inner).bytes -= bytes;
        self.left.notify_one();
    }

    fn close(&self) {
        self.within.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.left.notify_one();
    }
}

/// Ends the reading when the thread that has it panics.
struct CloseOnPanic<'g>(&'g Gate);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

/// The records of a usual block.
const RECORDS_USUAL: usize = 1024;
/// The worker that meets this name panics.
#[cfg(test)]
pub(super) const PANICKING_DN: &str = "cn=panic,dc=example,dc=com";
/// The most blocks that wait in a channel; the gate is what bounds them.
const CHANNEL_BLOCKS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_lets_one_in_however_large_and_waits_for_room() {
        let gate = Gate::new(10);
        assert!(gate.enter(50));
        thread::scope(|scope| {
            let second = scope.spawn(|| gate.enter(4));
            gate.leave(50);
            assert!(second.join().unwrap());
            assert!(gate.enter(6));
            let third = scope.spawn(|| gate.enter(1));
            gate.close();
            assert!(!third.join().unwrap());
        });
    }
}
