//! Sorted runs become one order of keys, by ranges of keys on several threads.
//!
//! Invariants: the rows of a range are handed on in order, and ranges in theirs; threads go ahead
//! of the writer by a bounded number of pieces.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use roaring::RoaringTreemap;
use rustc_hash::FxHashMap;

use super::BulkError;
use super::held::{HeldReader, HeldTable};
use super::run::{Ids, Run, RunReader};
use super::sort::prefix_of;
use super::steps::unite;
use super::target::Piece;
use crate::error::StoreError;
use crate::index::posting::Span;

/// Ids that are not as they were pushed.
#[derive(Debug, Default)]
pub(super) struct Fixes {
    /// Entries of the load that were refused after their keys were gathered.
    refused: RoaringTreemap,
    /// Entries of the load that took the place of others, and the ids of these.
    moved: FxHashMap<u64, u64>,
    /// Entries that the store held and that were replaced.
    replaced: RoaringTreemap,
    /// The first and the last id of `refused` and `moved`, and of `replaced`.
    of_the_load: Option<(u64, u64)>,
    of_the_store: Option<(u64, u64)>,
}

impl Fixes {
    /// An entry of the load is refused.
    pub(super) fn refuse(&mut self, id: u64) {
        self.refused.insert(id);
        widen(&mut self.of_the_load, id);
    }

    /// An entry of the load takes the place of one that the store held.
    pub(super) fn replace(&mut self, id: u64, held: u64) {
        self.moved.insert(id, held);
        self.replaced.insert(held);
        widen(&mut self.of_the_load, id);
        widen(&mut self.of_the_store, held);
    }

    fn concerns(&self, ids: Ids) -> bool {
        match ids {
            Ids::AsTheyAre => false,
            Ids::OfTheLoad => !self.refused.is_empty() || !self.moved.is_empty(),
            Ids::OfTheStore => !self.replaced.is_empty(),
        }
    }

    /// Appends the spans that are left of one.
    fn apply(&self, ids: Ids, span: Span, out: &mut Vec<Span>) {
        let bounds = match ids {
            Ids::AsTheyAre => None,
            Ids::OfTheLoad => self.of_the_load,
            Ids::OfTheStore => self.of_the_store,
        };
        // Most often few ids are concerned, and they lie together.
        if bounds.is_none_or(|(first, last)| span.last < first || last < span.first) {
            out.push(span);
            return;
        }
        for id in span.first..=span.last {
            let id = match ids {
                Ids::AsTheyAre => Some(id),
                Ids::OfTheStore => Some(id).filter(|id| !self.replaced.contains(*id)),
                Ids::OfTheLoad => match self.moved.get(&id) {
                    Some(to) => Some(*to),
                    None => Some(id).filter(|id| !self.refused.contains(*id)),
                },
            };
            if let Some(id) = id {
                match out.last_mut() {
                    Some(last) if last.last + 1 == id => last.last = id,
                    _ => out.push(Span { first: id, last: id }),
                }
            }
        }
    }
}

fn widen(bounds: &mut Option<(u64, u64)>, id: u64) {
    let (first, last) = bounds.unwrap_or((id, id));
    *bounds = Some((first.min(id), last.max(id)));
}

/// One of several sources of keys in order.
#[derive(Debug)]
pub(super) enum Source<'r> {
    Run(RunReader<'r>),
    Held(Box<HeldReader<'r>>),
}

impl Source<'_> {
    #[inline]
    fn advance(&mut self) -> Result<bool, StoreError> {
        match self {
            Self::Run(run) => run.advance(),
            Self::Held(held) => held.advance(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Self::Run(run) => run.key(),
            Self::Held(held) => held.key(),
        }
    }

    #[inline]
    fn take(&self, fixes: &Fixes, out: &mut Vec<Span>) -> Result<(), StoreError> {
        match self {
            Self::Run(run) => {
                let ids = run.ids();
                if fixes.concerns(ids) {
                    run.each_span(|span| fixes.apply(ids, span, out))
                } else {
                    run.each_span(|span| out.push(span))
                }
            }
            Self::Held(held) => {
                if held.source().is_some_and(|source| fixes.replaced.contains(source)) {
                    return Ok(());
                }
                if fixes.concerns(Ids::OfTheStore) && !held.is_of_tree() {
                    let spans = held.spans().iter();
                    spans.for_each(|span| fixes.apply(Ids::OfTheStore, *span, out));
                } else {
                    out.extend_from_slice(held.spans());
                }
                Ok(())
            }
        }
    }
}

/// A key, and the ids that have it.
type Merged<'m> = (&'m [u8], &'m [Span]);

/// Goes through several sources in the order of keys.
pub(super) struct Merger<'r> {
    sources: Vec<Source<'r>>,
    /// A heap of sources by their keys, the lowest first: the first octets of the key, and which.
    heap: Vec<(u64, usize)>,
    key: Vec<u8>,
    spans: Vec<Span>,
}

impl<'r> Merger<'r> {
    /// Of sources that begin at or before `from`.
    pub(super) fn new(sources: Vec<Source<'r>>, from: &[u8]) -> Result<Self, StoreError> {
        let (key, spans) = (Vec::new(), Vec::new());
        let mut made = Self { sources, heap: Vec::new(), key, spans };
        for number in 0..made.sources.len() {
            let Some(source) = made.sources.get_mut(number) else { continue };
            let is_there = loop {
                if !source.advance()? {
                    break false;
                }
                if source.key() >= from {
                    break true;
                }
            };
            if is_there {
                made.heap.push((prefix_of(source.key()), number));
            }
        }
        for place in (0..made.heap.len()).rev() {
            made.sink(place);
        }
        Ok(made)
    }

    /// The next key below `to` and the ids that have it, in order; keys without ids are left out.
    pub(super) fn next(
        &mut self,
        fixes: &Fixes,
        to: Option<&[u8]>,
    ) -> Result<Option<Merged<'_>>, StoreError> {
        loop {
            let Some(&(prefix, number)) = self.heap.first() else { return Ok(None) };
            let Some(source) = self.sources.get_mut(number) else { return Ok(None) };
            if to.is_some_and(|to| source.key() >= to) {
                return Ok(None);
            }
            self.key.clear();
            self.key.extend_from_slice(source.key());
            self.spans.clear();
            source.take(fixes, &mut self.spans)?;
            self.advance()?;
            let mut is_one = true;
            while let Some(&(next, number)) = self.heap.first()
                && next == prefix
                && let Some(source) = self.sources.get_mut(number)
                && source.key() == self.key.as_slice()
            {
                is_one = false;
                source.take(fixes, &mut self.spans)?;
                self.advance()?;
            }
            if !is_one || self.spans.len() > 1 {
                unite(&mut self.spans);
            }
            if !self.spans.is_empty() {
                break;
            }
        }
        Ok(Some((&self.key, &self.spans)))
    }

    /// The first of the heap goes to its next key.
    #[inline]
    fn advance(&mut self) -> Result<(), StoreError> {
        let Some((prefix, number)) = self.heap.first_mut() else { return Ok(()) };
        let Some(source) = self.sources.get_mut(*number) else { return Ok(()) };
        if source.advance()? {
            *prefix = prefix_of(source.key());
        } else {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    fn key_of(&self, number: usize) -> &[u8] {
        self.sources.get(number).map(Source::key).unwrap_or_default()
    }

    #[inline]
    fn is_before(&self, one: (u64, usize), other: (u64, usize)) -> bool {
        match one.0.cmp(&other.0) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.key_of(one.1) < self.key_of(other.1),
        }
    }

    /// Puts what is at a place of the heap below all that comes before it.
    #[inline]
    fn sink(&mut self, mut place: usize) {
        loop {
            let Some(&own) = self.heap.get(place) else { return };
            let child = 2 * place + 1;
            let Some(&left) = self.heap.get(child) else { return };
            let (lower, at) = match self.heap.get(child + 1) {
                Some(&right) if self.is_before(right, left) => (right, child + 1),
                _ => (left, child),
            };
            if !self.is_before(lower, own) {
                return;
            }
            self.heap.swap(place, at);
            place = at;
        }
    }
}

/// The ranges of keys that are merged one by one: where each begins, and about how many octets of
/// runs are in it.
pub(super) fn ranges(runs: &[Run], bytes: u64) -> Vec<(Vec<u8>, u64)> {
    let mut blocks: Vec<(&[u8], u64)> = runs.iter().flat_map(Run::first_keys).collect();
    blocks.sort_unstable();
    let mut ranges = vec![(Vec::new(), 0)];
    for (first, length) in blocks {
        let Some((from, sum)) = ranges.last_mut() else { break };
        if *sum >= bytes && *first != **from {
            ranges.push((first.to_vec(), length));
        } else {
            *sum += length;
        }
    }
    ranges
}

/// What a merge does with each key.
pub(super) trait Rows: Send {
    /// Appends the rows of a key. The ids are in order.
    fn push(&mut self, key: &[u8], spans: &[Span], out: &mut Piece) -> Result<(), StoreError>;
}

/// What is merged.
pub(super) struct Merge<'m> {
    pub(super) runs: &'m [Run],
    pub(super) fixes: &'m Fixes,
    /// About so many octets of runs are a range.
    pub(super) range_bytes: u64,
    /// So many pieces of each range may wait to be written.
    pub(super) pieces_ahead: usize,
}

/// What a thread of a merge has of its own.
pub(super) struct Worker<R> {
    /// Makes the rows.
    pub(super) rows: R,
    /// What the store held is merged with the runs.
    pub(super) held: Option<HeldTable>,
    /// Of the sort that it makes.
    pub(super) piece: Piece,
}

type Sender = SyncSender<Result<Piece, StoreError>>;
type Senders = [Mutex<Option<Sender>>];

impl Merge<'_> {
    /// Merges on as many threads as there are workers. `write` gets the pieces in order, and
    /// `progress` hears how much of the runs was merged, and how much there is.
    pub(super) fn run<R: Rows>(
        &self,
        workers: &mut [Worker<R>],
        write: &mut dyn FnMut(Piece) -> Result<(), StoreError>,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<(), BulkError> {
        let ranges = ranges(self.runs, self.range_bytes);
        let (senders, receivers): (Vec<_>, Vec<_>) =
            ranges.iter().map(|_| sync_channel(self.pieces_ahead)).unzip();
        let senders: Vec<_> = senders.into_iter().map(|sender| Mutex::new(Some(sender))).collect();
        let begun_max = workers.len() * RANGES_AHEAD;
        let (begin, begun) = sync_channel(ranges.len());
        let begun = Mutex::new(begun);
        std::thread::scope(|scope| {
            let (ranges, senders, begun) = (ranges.as_slice(), senders.as_slice(), &begun);
            let work = |worker| scope.spawn(move || self.work(worker, ranges, senders, begun));
            let running: Vec<_> = workers.iter_mut().map(work).collect();
            // With its end, which comes before anybody is waited for, the threads begin no more.
            let begin = Begin { begin, begun_max };
            let collected = collect(receivers, ranges, begin, write, progress);
            let ended: Vec<_> = running.into_iter().map(ScopedJoinHandle::join).collect();
            // What a thread that panicked has left out is not missed by anybody else.
            if ended.iter().any(Result::is_err) { Err(BulkError::Panicked) } else { collected }
        })
    }

    fn work<R: Rows>(
        &self,
        worker: &mut Worker<R>,
        ranges: &[(Vec<u8>, u64)],
        senders: &Senders,
        begun: &Mutex<Receiver<usize>>,
    ) {
        let _end = EndAll(senders);
        let next = || begun.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(number) = next() {
            let Some((from, _)) = ranges.get(number) else { return };
            let to = ranges.get(number + 1).map(|(to, _)| to.as_slice());
            // So that the channel ends with the range.
            let Some(sender) = senders.get(number).and_then(take_sender) else { return };
            if let Err(error) = self.range(from, to, worker, &sender) {
                // Where nobody listens any more, there was an error before it.
                let _ = sender.send(Err(error));
            }
        }
    }

    fn range<R: Rows>(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        worker: &mut Worker<R>,
        sender: &Sender,
    ) -> Result<(), StoreError> {
        let mut sources = Vec::with_capacity(self.runs.len() + 1);
        for run in self.runs {
            sources.push(Source::Run(RunReader::new(run, from)));
        }
        if let Some(held) = &worker.held {
            sources.push(Source::Held(Box::new(held.reader(from)?)));
        }
        let mut merger = Merger::new(sources, from)?;
        while let Some((key, spans)) = merger.next(self.fixes, to)? {
            worker.rows.push(key, spans, &mut worker.piece)?;
            if worker.piece.is_full() && sender.send(Ok(worker.piece.take())).is_err() {
                // Nobody wants it any more.
                return Ok(());
            }
        }
        let _ = sender.send(Ok(worker.piece.take()));
        Ok(())
    }
}

/// A thread that panics ends all channels, so that nobody waits for what does not come.
struct EndAll<'s>(&'s Senders);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|sender| drop(take_sender(sender)));
        }
    }
}

fn take_sender(sender: &Mutex<Option<Sender>>) -> Option<Sender> {
    sender.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Says which ranges may be begun.
struct Begin {
    begin: SyncSender<usize>,
    begun_max: usize,
}

/// Hands the pieces of one range after the other on.
fn collect(
    receivers: Vec<Receiver<Result<Piece, StoreError>>>,
    ranges: &[(Vec<u8>, u64)],
    Begin { begin, begun_max }: Begin,
    write: &mut dyn FnMut(Piece) -> Result<(), StoreError>,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<(), BulkError> {
    let total = ranges.iter().map(|(_, bytes)| bytes).sum();
    let mut done = 0;
    let mut next = 0..ranges.len();
    next.by_ref().take(begun_max).for_each(|number| begin_range(&begin, number));
    for (pieces, (_, bytes)) in receivers.into_iter().zip(ranges) {
        for piece in pieces {
            write(piece?)?;
        }
        if let Some(number) = next.next() {
            begin_range(&begin, number);
        }
        done += bytes;
        if progress(done, total).is_break() {
            return Err(BulkError::Stopped);
        }
    }
    Ok(())
}

fn begin_range(begin: &SyncSender<usize>, number: usize) {
    // Whoever does not listen has panicked, and that is told elsewhere.
    let _ = begin.send(number);
}

/// So many ranges for each thread may be begun before the first of them is written.
const RANGES_AHEAD: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::run::RunWriter;
    use super::super::target::To;
    use super::*;

    struct Panicking;

    impl Rows for Panicking {
        fn push(&mut self, key: &[u8], _: &[Span], _: &mut Piece) -> Result<(), StoreError> {
            assert!(key != [0, 0, b'x'], "a test asked for it");
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_panics_ends_the_merge_with_an_error() {
        let mut writer = RunWriter::new(1 << 10);
        let mut list = Vec::new();
        let mut steps = super::super::steps::StepWriter::default();
        steps.push(1, &mut list);
        steps.close(&mut list);
        for value in [b"a", b"x", b"y"] {
            writer.push(0, value, &list);
        }
        let runs = [writer.finish(Ids::AsTheyAre)];
        let worker = || Worker { rows: Panicking, held: None, piece: Piece::appended(To::Names) };
        let merge =
            Merge { runs: &runs, fixes: &Fixes::default(), range_bytes: 1, pieces_ahead: 2 };
        let ended = merge
            .run(&mut [worker(), worker()], &mut |_| Ok(()), &mut |_, _| ControlFlow::Continue(()));
        assert!(matches!(ended, Err(BulkError::Panicked)), "{ended:?}");
    }
}
