//! What searches share that go on with what changes: the last records, decoded once, and who waits
//! for the next.
//!
//! Invariant: who waits holds no thread, and nothing of the store or of the log; while nothing
//! changes nothing is done.
//! Invariant: nobody who applies or reads changes waits for one that waits here.

mod interest;
mod records;
mod waiting;

use std::fmt;
use std::sync::Arc;

use history::changes::Changes;
use history::log::{CommitLog, Gone};
use schema::Schema;
use store::Lsn;

pub(crate) use self::interest::{
    Found, Ground, Interest, Place, changes_referral, is_in_scope, look,
};
use self::records::Records;
pub(crate) use self::records::{RECORDS_MAX, Told};
pub use self::waiting::Passed;
use self::waiting::Waiting;
pub(crate) use self::waiting::{Look, Waiter, Wake};

/// What such searches share.
pub(crate) struct Streams {
    records: Records,
    waiting: Arc<Waiting>,
}

impl Streams {
    /// Nobody waits yet.
    pub(crate) fn new(log: &Arc<dyn CommitLog>) -> Self {
        Self { records: Records::default(), waiting: Waiting::new(log) }
    }

    /// A record; none when it is not there yet, or too old to be shared.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn record(
        &self,
        changes: &Changes,
        schema: &Arc<Schema>,
        lsn: Lsn,
    ) -> Result<Option<Arc<Told>>, Gone> {
        self.records.get(changes, schema, lsn)
    }

    /// How many records were decoded here.
    pub(crate) fn decoded(&self) -> u64 {
        self.records.decoded()
    }

    /// Has `wake` called when there is a record behind this place that is of interest, or none will
    /// come; `make_look` is what tells, for who is the first to wait.
    pub(crate) fn wait(
        &self,
        after: Place,
        interest: Option<Arc<Interest>>,
        wake: Wake,
        make_look: impl FnOnce() -> Look + Send + 'static,
    ) -> Waiter {
        self.waiting.enter(after, interest, wake, make_look)
    }

    /// Whether the server is about to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.waiting.is_closed()
    }

    /// The server is about to end: all that wait are woken, and whoever comes is at once.
    pub(crate) fn close(&self) {
        self.waiting.close();
        self.records.forget();
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("decoded", &self.decoded()).finish_non_exhaustive()
    }
}
