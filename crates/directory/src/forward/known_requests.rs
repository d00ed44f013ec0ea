//! Which requests were carried out not long ago, and which are being carried out for other nodes:
//! what is sent twice happens once.
//!
//! Invariant: the request of a record is known before the record is answered, on each node alike,
//! also after a restart: the database keeps which requests have records, as long as they are known.
//! Invariant: what is kept is bounded in time, number and octets, by the constants below and by
//! `REQUESTS_KEPT_FOR` and `REQUESTS_KEPT_MAX` of the store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::Clock;
use history::log::EncodedRecord;
use history::record::RecordHead;
use ldap::result::ResultCode;
use rustc_hash::FxHashMap;
use store::{KeptRequest, Lsn, REQUESTS_KEPT_FOR, Store, StoreError};
use zeroize::Zeroizing;

use super::answer::ForwardedAnswer;
use super::request::RequestId;

/// Takes the octets of the answer to a request of another node; called once, from a thread that
/// must not wait.
pub type ForwardedDone = Box<dyn FnOnce(Zeroizing<Vec<u8>>) + Send>;

/// The requests.
pub(crate) struct KnownRequests {
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Those that have a record, with the last one they have.
    applied: FxHashMap<RequestId, Lsn>,
    /// In the order of the records.
    applied_order: VecDeque<KeptRequest>,
    /// Those of other nodes that are being carried out, with all who wait for the answer.
    underway: FxHashMap<RequestId, Vec<ForwardedDone>>,
    /// What was answered to other nodes.
    answered: FxHashMap<RequestId, Arc<Zeroizing<Vec<u8>>>>,
    answered_order: VecDeque<(Duration, RequestId)>,
    answered_bytes: usize,
}

/// What is known of a request that comes.
pub(crate) enum Begun {
    /// Nothing: it is to be carried out.
    New(Ticket),
    /// It has a record at least, the last of which is this one.
    Applied(Ticket, Lsn),
    /// It is being carried out, or was answered; whoever asked is told.
    Known,
}

/// A request of another node that is being carried out. When it is dropped without an answer,
/// nothing has happened.
pub(crate) struct Ticket {
    known: Arc<KnownRequests>,
    id: RequestId,
    is_answered: bool,
}

impl KnownRequests {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock: Arc::clone(clock), known: Mutex::default() })
    }

    /// Fills the table with what the store knows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn fill(&self, store: &Store) -> Result<(), StoreError> {
        let stored = store.requests()?;
        let mut known = self.lock();
        // What was applied since the start was noted, and may be in the store as well.
        let noted = std::mem::take(&mut known.applied_order);
        let last = stored.last().map_or(Lsn(0), |last| last.lsn);
        let later = noted.into_iter().filter(|request| request.lsn > last);
        known.applied.clear();
        for request in stored.into_iter().chain(later) {
            known.note(request);
        }
        Ok(())
    }

    /// The last record of a request, if it has any.
    pub(crate) fn applied(&self, id: &RequestId) -> Option<Lsn> {
        self.lock().applied.get(id).copied()
    }

    /// A request of another node comes; `done` gets the answer.
    pub(crate) fn begin(self: &Arc<Self>, id: RequestId, done: ForwardedDone) -> Begun {
        let mut known = self.lock();
        if let Some(waiting) = known.underway.get_mut(&id) {
            waiting.push(done);
            return Begun::Known;
        }
        if let Some(answer) = known.answered.get(&id).map(Arc::clone) {
            drop(known);
            done(Zeroizing::clone(&answer));
            return Begun::Known;
        }
        known.underway.insert(id, vec![done]);
        let ticket = Ticket { known: Arc::clone(self), id, is_answered: false };
        match known.applied.get(&id) {
            Some(last) => Begun::Applied(ticket, *last),
            None => Begun::New(ticket),
        }
    }

    /// Records became visible.
    pub(crate) fn note(&self, records: &[EncodedRecord]) {
        let mut known = self.lock();
        for record in records {
            if let Ok(head) = RecordHead::read(&record.bytes) {
                let (id, lsn, time_us) = (head.request, head.lsn, head.time_us());
                known.note(KeptRequest { id, lsn, time_us });
            }
        }
    }

    fn end(&self, id: &RequestId, answer: &ForwardedAnswer) {
        let octets = answer.encode();
        let mut known = self.lock();
        let waiting = known.underway.remove(id).unwrap_or_default();
        if is_final(answer) && octets.len() <= ANSWER_KEPT_MAX_BYTES {
            known.keep(self.clock.elapsed(), *id, octets.clone());
        }
        drop(known);
        waiting.into_iter().for_each(|done| done(octets.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for KnownRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.lock();
        f.debug_struct("KnownRequests")
            .field("applied", &known.applied.len())
            .field("underway", &known.underway.len())
            .finish_non_exhaustive()
    }
}

impl Known {
    /// The next record is there. What is too old is forgotten, by the time of the record and not of
    /// the clock: all nodes know the same.
    fn note(&mut self, request: KeptRequest) {
        let KeptRequest { id, lsn, time_us } = request;
        while let Some(oldest) = self.applied_order.front().copied()
            && !oldest.is_kept(lsn, time_us)
        {
            self.applied_order.pop_front();
            // A request of many records is as old as the last of them.
            if self.applied.get(&oldest.id) == Some(&oldest.lsn) {
                self.applied.remove(&oldest.id);
            }
        }
        self.applied.insert(id, lsn);
        self.applied_order.push_back(request);
        // What was answered in an earlier reign is not true any more.
        if let Some(answer) = self.answered.remove(&id) {
            self.answered_bytes -= answer.len();
        }
    }

    fn keep(&mut self, now: Duration, id: RequestId, answer: Zeroizing<Vec<u8>>) {
        let is_old = |at: Duration| now.saturating_sub(at) > REQUESTS_KEPT_FOR;
        while let Some((at, oldest)) = self.answered_order.front().copied()
            && (is_old(at)
                || self.answered_order.len() >= ANSWERED_MAX
                || self.answered_bytes >= ANSWERED_MAX_BYTES)
        {
            self.answered_order.pop_front();
            if let Some(answer) = self.answered.remove(&oldest) {
                self.answered_bytes -= answer.len();
            }
        }
        self.answered_bytes += answer.len();
        if let Some(before) = self.answered.insert(id, Arc::new(answer)) {
            self.answered_bytes -= before.len();
        }
        self.answered_order.push_back((now, id));
    }
}

impl Ticket {
    /// Which request it is.
    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    /// Answers all who have asked.
    pub(crate) fn answer(mut self, answer: &ForwardedAnswer) {
        self.is_answered = true;
        self.known.end(&self.id, answer);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_answered {
            let diagnostic = "the server that takes the writes could not handle it".to_owned();
            let code = ResultCode::Unavailable;
            self.known.end(&self.id, &ForwardedAnswer::Refused { code, diagnostic });
        }
    }
}

/// Whether it is all that will ever be said of the request: what there was no room or nobody for
/// may be carried out when it comes again.
const fn is_final(answer: &ForwardedAnswer) -> bool {
    match answer {
        ForwardedAnswer::Answered(answered) => {
            !matches!(answered.code, Some(ResultCode::Busy | ResultCode::Unavailable))
        }
        ForwardedAnswer::NotDeciding { .. }
        | ForwardedAnswer::Unknown
        | ForwardedAnswer::Refused { .. } => false,
    }
}

/// Answers that are kept, in number and octets, and of one.
const ANSWERED_MAX: usize = 100_000;
const ANSWERED_MAX_BYTES: usize = 8 << 20;
const ANSWER_KEPT_MAX_BYTES: usize = 64 * 1024;
