//! The threads of an import and what goes between them.
//!
//! Records travel in batches with numbers. A batch needs a ticket from the reader on until its
//! entries are stored, so at most [`BATCHES_AHEAD`] of them are in memory, whoever is slow.

use std::collections::BTreeMap;
use std::io::BufRead;

use crossbeam_channel::{Receiver, Sender, bounded};
use ldap::ldif::{LdifEntry, LdifLimits, LdifReader};

use super::ImportError;
use super::load::{Finisher, Load, Ready};
use super::prepare::Completer;
use super::record::RawRecord;

/// Reads, completes and loads all entries of `source`; returns how many.
pub(super) fn run(
    source: impl BufRead + Send,
    load: &mut Load<'_>,
    completer: &Completer,
    threads: usize,
) -> Result<u64, ImportError> {
    let (tickets, used_tickets) = bounded(BATCHES_AHEAD);
    // No send waits: tickets keep the batches to fewer than fit.
    let (to_workers, batches) = bounded(BATCHES_AHEAD);
    let (to_loader, prepared) = bounded(BATCHES_AHEAD);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (batches, to_loader) = (batches.clone(), to_loader.clone());
            let finisher = load.finisher();
            scope.spawn(move || work(&batches, &to_loader, completer, finisher));
        }
        // What is left are the ends in the threads: when those are gone, the channels close.
        drop((batches, to_loader));
        scope.spawn(move || read(source, &tickets, &to_workers));
        // Moved in, so that an error closes the channels and the threads end.
        store_in_order(load, prepared, used_tickets)
    })
}

/// Records of a file, their octets in one buffer.
#[derive(Debug, Default)]
struct Batch {
    /// Counts the batches.
    position: u64,
    /// The number of the first record.
    first: u64,
    octets: Vec<u8>,
    records: Vec<Record>,
    /// Lengths of description and value, of all records.
    fields: Vec<(usize, usize)>,
    /// Why the file ends here.
    error: Option<ImportError>,
}

#[derive(Debug)]
struct Record {
    line: u64,
    dn_length: usize,
    field_count: usize,
}

/// A batch when it is ready to be stored.
#[derive(Debug)]
struct Prepared {
    position: u64,
    entries: Vec<Ready>,
    error: Option<ImportError>,
}

impl Batch {
    fn push(&mut self, entry: &LdifEntry<'_>) {
        self.octets.extend_from_slice(entry.dn.as_bytes());
        let before = self.fields.len();
        for (description, value) in entry.attributes() {
            self.fields.push((description.len(), value.len()));
            self.octets.extend_from_slice(description.as_bytes());
            self.octets.extend_from_slice(value);
        }
        let field_count = self.fields.len() - before;
        self.records.push(Record { line: entry.line, dn_length: entry.dn.len(), field_count });
    }

    fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS || self.octets.len() >= BATCH_BYTES
    }
}

fn read(source: impl BufRead, tickets: &Sender<()>, to_workers: &Sender<Batch>) {
    let mut reader = LdifReader::new(source, LdifLimits::default());
    let (mut position, mut first) = (0, 0);
    loop {
        let mut batch = Batch { position, first, ..Batch::default() };
        let is_last = loop {
            match reader.next_entry() {
                Ok(Some(entry)) => batch.push(&entry),
                Ok(None) => break true,
                Err(error) => {
                    batch.error = Some(error.into());
                    break true;
                }
            }
            if batch.is_full() {
                break false;
            }
        };
        position += 1;
        first += batch.records.len() as u64;
        if tickets.send(()).is_err() || to_workers.send(batch).is_err() || is_last {
            return;
        }
    }
}

fn work(
    batches: &Receiver<Batch>,
    to_loader: &Sender<Prepared>,
    completer: &Completer,
    mut finisher: Finisher,
) {
    for batch in batches {
        if to_loader.send(prepare(batch, completer, &mut finisher)).is_err() {
            return;
        }
    }
}

/// Makes the entries of a batch ready, up to the first that is refused.
fn prepare(mut batch: Batch, completer: &Completer, finisher: &mut Finisher) -> Prepared {
    let mut entries = Vec::with_capacity(batch.records.len());
    let mut rest = batch.octets.as_slice();
    let mut fields = batch.fields.as_slice();
    for (record, number) in batch.records.iter().zip(batch.first..) {
        let dn = take(&mut rest, record.dn_length);
        let (own, others) = fields.split_at(record.field_count.min(fields.len()));
        fields = others;
        let pairs = own.iter().map(|&(description, value)| {
            let description = text(take(&mut rest, description));
            (description, take(&mut rest, value))
        });
        let record_read = RawRecord::borrowed(text(dn), pairs);
        let entry = completer.entry(&record_read, number);
        let entry = entry.map_err(|reason| ImportError::File { line: record.line, reason });
        let entry = entry.and_then(|entry| finisher.finish(entry, record.line, number));
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                batch.error = Some(error);
                break;
            }
        }
    }
    Prepared { position: batch.position, entries, error: batch.error }
}

/// Stores batches in the order of the file.
fn store_in_order(
    load: &mut Load<'_>,
    prepared: Receiver<Prepared>,
    used_tickets: Receiver<()>,
) -> Result<u64, ImportError> {
    let mut early: BTreeMap<u64, Prepared> = BTreeMap::new();
    let (mut next, mut done) = (0, 0_u64);
    for batch in &prepared {
        early.insert(batch.position, batch);
        while let Some(batch) = early.remove(&next) {
            next += 1;
            done += batch.entries.len() as u64;
            for entry in batch.entries {
                load.add(entry)?;
            }
            if let Some(error) = batch.error {
                return Err(error);
            }
            used_tickets.recv().expect("each batch came with a ticket");
        }
    }
    assert!(early.is_empty(), "a thread of the import ended before its work");
    Ok(done)
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> &'b [u8] {
    let (taken, after) = rest.split_at(length.min(rest.len()));
    *rest = after;
    taken
}

fn text(octets: &[u8]) -> &str {
    std::str::from_utf8(octets).expect("the reader hands names out as text")
}

/// A batch is sent when it has this many records …
const BATCH_RECORDS: usize = 128;
/// … or this many octets.
const BATCH_BYTES: usize = 256 << 10;
/// The most batches between the file and the store.
const BATCHES_AHEAD: usize = 32;
