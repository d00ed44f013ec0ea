//! The last change records, decoded once for all who read them.
//!
//! Invariant: they follow each other without a gap, and take no more room than is said here.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use history::changes::{ChangeReader, Changes};
use history::log::{Gone, Tail as _};
use history::record::{Decoder, Record};
use schema::{Attribute, Change, DnKey, Schema};
use store::Lsn;

/// A record that was decoded.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) record: Record,
    /// The running hash after it.
    pub(crate) hash: u64,
    /// Octets that it has in the log.
    pub(crate) bytes: usize,
    /// The entries that it deleted and that held no rules: found once, for all who read it.
    plain: OnceLock<BTreeSet<DnKey>>,
}

impl Told {
    /// Reads the next record there is.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn next(
        reader: &mut ChangeReader,
        decoder: &mut Decoder,
        first: Lsn,
    ) -> Result<Option<Self>, Gone> {
        let Some(encoded) = reader.next_within(Duration::ZERO)? else { return Ok(None) };
        let record = decoder.decode(&encoded.bytes).map_err(|error| {
            tracing::error!(lsn = encoded.lsn.0, %error, "a change record cannot be read");
            let reason = format!("change {} cannot be read", encoded.lsn.0);
            Gone { first, reason, may_pass: false }
        })?;
        let (hash, bytes) = (encoded.hash, encoded.bytes.len());
        Ok(Some(Self { record, hash, bytes, plain: OnceLock::new() }))
    }

    /// Whether it deleted an entry, and no rules went with that.
    pub(crate) fn took_plain(&self, key: &DnKey, schema: &Schema) -> bool {
        let found = || {
            let aci = schema.describe("aci").ok();
            let is_aci =
                |one: &Attribute| aci.as_ref().is_some_and(|aci| aci.covers(&one.description));
            let deletions = self.record.changes.iter().filter_map(Change::as_delete);
            let plain = deletions
                .filter(|one| !one.attributes.is_empty() && !one.attributes.iter().any(is_aci));
            plain.filter_map(|one| DnKey::from_dn(schema, &one.dn).ok()).collect()
        };
        self.plain.get_or_init(found).contains(key)
    }
}

/// The last ones.
#[derive(Default)]
pub(super) struct Records {
    kept: Mutex<Kept>,
    decoded: AtomicU64,
}

#[derive(Default)]
struct Kept {
    all: VecDeque<Arc<Told>>,
    bytes: usize,
    /// Behind the last of them.
    source: Option<(ChangeReader, Decoder)>,
}

impl Records {
    /// Lets go of them, and of where they are read from.
    pub(super) fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }

    pub(super) fn decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// A record, if it is one of the last.
    pub(super) fn get(
        &self,
        changes: &Changes,
        schema: &Arc<Schema>,
        lsn: Lsn,
    ) -> Result<Option<Arc<Told>>, Gone> {
        let last = changes.last();
        if lsn > last || last.0 - lsn.0 >= RECORDS_MAX as u64 {
            return Ok(None);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.find(lsn) {
            return Ok(Some(found));
        }
        if kept.all.back().is_some_and(|newest| newest.record.lsn > lsn) {
            return Ok(None);
        }
        let read = kept.read_to(changes, schema, lsn, &self.decoded);
        if read.is_err() {
            *kept = Kept::default();
        }
        read
    }
}

impl Kept {
    fn find(&self, lsn: Lsn) -> Option<Arc<Told>> {
        let first = self.all.front()?.record.lsn;
        let place = usize::try_from(lsn.0.checked_sub(first.0)?).ok()?;
        self.all.get(place).map(Arc::clone)
    }

    /// Reads on up to this record.
    fn read_to(
        &mut self,
        changes: &Changes,
        schema: &Arc<Schema>,
        lsn: Lsn,
        decoded: &AtomicU64,
    ) -> Result<Option<Arc<Told>>, Gone> {
        let follows = |(reader, _): &(ChangeReader, Decoder)| {
            reader.position() <= lsn && lsn.0 - reader.position().0 < RECORDS_MAX as u64
        };
        let (mut reader, mut decoder) = match self.source.take().filter(follows) {
            Some(source) => source,
            None => {
                *self = Self::default();
                (changes.read(lsn)?, Decoder::new(Arc::clone(schema)))
            }
        };
        decoder.follow(Arc::clone(schema));
        let mut found = None;
        while reader.position() <= lsn {
            let Some(told) = Told::next(&mut reader, &mut decoder, lsn)? else { break };
            decoded.fetch_add(1, Ordering::Relaxed);
            self.keep(Arc::new(told));
            found = self.find(lsn);
        }
        self.source = Some((reader, decoder));
        Ok(found)
    }

    fn keep(&mut self, told: Arc<Told>) {
        self.bytes += told.bytes;
        self.all.push_back(told);
        while self.all.len() > 1 && (self.all.len() > RECORDS_MAX || self.bytes > BYTES_MAX) {
            if let Some(oldest) = self.all.pop_front() {
                self.bytes -= oldest.bytes;
            }
        }
    }
}

/// So many of the last records are shared.
pub(crate) const RECORDS_MAX: usize = 256;
/// Octets that they have, as they are in the log: decoded they take a few times that.
const BYTES_MAX: usize = 8 << 20;
