//! Which requests have records: what is tried again in a cluster happens once, also when the log
//! does not have the record any more.
//!
//! Rows of `meta`: `request` and the number of the first record in them, in 20 digits; each holds
//! up to [`REQUESTS_PER_ROW`] requests of 32 octets: the request's own name, the number of its
//! record, and when that was decided. They are written with the records' effects, in the same
//! transaction, and removed when all that is in them is too old.
//!
//! Invariant: which requests are known follows from the records alone, by their own numbers and
//! times: all servers of a cluster agree in it, and a restart changes nothing.

use std::time::Duration;

use heed::{AnyTls, RoTxn, RwTxn};

use crate::base::lmdb::{META, Table};
use crate::base::meta::Mark;
use crate::base::position::Lsn;
use crate::error::StoreError;

/// How long it is known that a request has a record, before the time of the last record.
pub const REQUESTS_KEPT_FOR: Duration = Duration::from_mins(10);

/// Of so many records before the last one it is known which requests they are of; 32 MiB.
pub const REQUESTS_KEPT_MAX: u64 = 1 << 20;

/// A request that has a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeptRequest {
    /// What names it, also when it is sent again.
    pub id: [u8; 16],
    /// The number of the record.
    pub lsn: Lsn,
    /// When the record was decided, in microseconds since 1970.
    pub time_us: u64,
}

impl KeptRequest {
    /// Whether it is still to be known after the record `last`.
    #[must_use]
    pub fn is_kept(&self, last: Lsn, time_us: u64) -> bool {
        let kept_us = u64::try_from(REQUESTS_KEPT_FOR.as_micros()).unwrap_or(u64::MAX);
        last.0.saturating_sub(self.lsn.0) < REQUESTS_KEPT_MAX
            && time_us.saturating_sub(self.time_us) <= kept_us
    }

    fn to_octets(self) -> [u8; REQUEST_BYTES] {
        let mut octets = [0; REQUEST_BYTES];
        let numbers = [self.lsn.0, self.time_us].map(u64::to_be_bytes);
        let parts = self.id.iter().chain(numbers.as_flattened());
        octets.iter_mut().zip(parts).for_each(|(octet, part)| *octet = *part);
        octets
    }

    fn of_octets(octets: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let (id, rest) = octets.split_first_chunk()?;
        let (lsn, rest) = rest.split_first_chunk()?;
        let time_us = u64::from_be_bytes(*rest.first_chunk()?);
        Some(Self { id: *id, lsn: Lsn(u64::from_be_bytes(*lsn)), time_us })
    }
}

/// Writes requests in the order of their records, and removes rows that are too old after `last`.
pub(crate) fn write(
    meta: Table,
    txn: &mut RwTxn<'_>,
    requests: &[KeptRequest],
    last: &Mark,
) -> Result<(), StoreError> {
    for some in requests.chunks(REQUESTS_PER_ROW) {
        let Some(first) = some.first() else { continue };
        let row: Vec<u8> = some.iter().flat_map(|request| request.to_octets()).collect();
        meta.put(txn, row_key(first.lsn).as_bytes(), &row)?;
    }
    let mut old = Vec::new();
    for row in meta.prefix_iter(txn, REQUEST.as_bytes())? {
        let (key, row) = row?;
        let newest = row.last_chunk().and_then(KeptRequest::of_octets);
        if newest.is_some_and(|newest| newest.is_kept(last.lsn, last.time_us)) {
            break;
        }
        old.push(key.to_vec());
    }
    for key in old {
        meta.delete(txn, &key)?;
    }
    Ok(())
}

/// All that are stored, in the order of their records; the first of them may be too old.
pub(crate) fn read(meta: Table, txn: &RoTxn<'_, AnyTls>) -> Result<Vec<KeptRequest>, StoreError> {
    let mut all = Vec::new();
    for row in meta.prefix_iter(txn, REQUEST.as_bytes())? {
        let (key, row) = row?;
        let damaged =
            |reason| StoreError::corrupt(META, String::from_utf8_lossy(key).into_owned(), reason);
        let (requests, []) = row.as_chunks() else { return Err(damaged(FAULT)) };
        all.extend(requests.iter().filter_map(KeptRequest::of_octets));
    }
    Ok(all)
}

/// Why a row with this key cannot be read; nothing when it can, or is that of something else.
pub(crate) fn fault(key: &[u8], row: &[u8]) -> Option<&'static str> {
    let is_whole = !row.is_empty() && row.len().is_multiple_of(REQUEST_BYTES);
    (key.starts_with(REQUEST.as_bytes()) && !is_whole).then_some(FAULT)
}

fn row_key(first: Lsn) -> String {
    format!("{REQUEST}{:020}", first.0)
}

const FAULT: &str = "is no list of requests";

/// What the keys of the rows start with.
pub(crate) const REQUEST: &str = "request ";

const REQUEST_BYTES: usize = 32;

/// With these a row takes one page of the database, not several that follow each other.
const REQUESTS_PER_ROW: usize = 127;
