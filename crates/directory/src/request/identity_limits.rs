//! What each identity costs at the same time: connections that are bound as it, and operations of
//! theirs that are not answered.
//!
//! Only identities that have a limit are counted, from the bind on that finds the limit. The
//! administrator has none, and those who are not bound are limited by their address.
//!
//! Invariant: what is kept is bounded by the connections there are; an identity without any is
//! forgotten.
//! Invariant: a limit holds exactly: what would be one too many is refused before it is counted.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ldap::result::ResultCode;
use rustc_hash::{FxBuildHasher, FxHashMap};
use schema::DnKey;

use crate::request::refusal::Refusal;

/// What one identity may cost at the same time; 0 = any number.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct IdentityLimits {
    pub(crate) connections_max: u32,
    pub(crate) operations_max: u32,
}

/// The identities that are counted.
#[derive(Default)]
pub(crate) struct Identities {
    shards: [Mutex<FxHashMap<DnKey, Arc<Count>>>; SHARDS],
}

/// What an identity costs now.
#[derive(Debug, Default)]
struct Count {
    /// Changed only while its shard is locked.
    connections: AtomicU32,
    operations: AtomicU32,
}

/// The place of one connection in the table, as long as it is bound.
pub(crate) struct CountedConnection {
    table: Arc<Identities>,
    key: DnKey,
    count: Arc<Count>,
    operations_max: u32,
}

/// An operation that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedOperation(Arc<Count>);

impl Identities {
    /// Counts one connection more of an identity; nothing when there are too many.
    pub(crate) fn count_connection(
        self: &Arc<Self>,
        key: &DnKey,
        limits: IdentityLimits,
    ) -> Option<CountedConnection> {
        let mut shard = self.shard(key);
        let count = match shard.get(key) {
            Some(count) => Arc::clone(count),
            None => {
                let count = Arc::<Count>::default();
                shard.insert(key.clone(), Arc::clone(&count));
                count
            }
        };
        let connections = count.connections.load(Ordering::Relaxed);
        // One that was just made has none, and every limit allows one.
        if limits.connections_max > 0 && connections >= limits.connections_max {
            return None;
        }
        count.connections.store(connections.saturating_add(1), Ordering::Relaxed);
        drop(shard);
        let table = Arc::clone(self);
        Some(CountedConnection {
            table,
            key: key.clone(),
            count,
            operations_max: limits.operations_max,
        })
    }

    fn shard(&self, key: &DnKey) -> MutexGuard<'_, FxHashMap<DnKey, Arc<Count>>> {
        use std::hash::BuildHasher as _;
        // The high bits: the table itself uses the low ones.
        let index = (FxBuildHasher.hash_one(key) >> 32) as usize % SHARDS;
        let shard = self.shards.get(index).expect("the remainder is below their number");
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identities")
    }
}

impl fmt::Debug for CountedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedConnection").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut shard = self.table.shard(&self.key);
        let left = self.count.connections.load(Ordering::Relaxed).saturating_sub(1);
        self.count.connections.store(left, Ordering::Relaxed);
        // What it has under way may outlive its last connection: the count of another one, that
        // comes meanwhile, does not know of it, and nobody waits for the answers.
        if left == 0 {
            shard.remove(&self.key);
        }
    }
}

impl CountedConnection {
    /// Counts one operation more.
    pub(crate) fn count_operation(&self) -> Result<Option<CountedOperation>, Refusal> {
        if self.operations_max == 0 {
            return Ok(None);
        }
        let operation = CountedOperation(Arc::clone(&self.count));
        // Dropping it takes this back.
        let before = self.count.operations.fetch_add(1, Ordering::Relaxed);
        if before >= self.operations_max {
            let why = "too many operations of your identity are in progress; wait for an answer";
            return Err(Refusal::new(ResultCode::Busy, why));
        }
        Ok(Some(operation))
    }
}

impl Drop for CountedOperation {
    fn drop(&mut self) {
        self.0.operations.fetch_sub(1, Ordering::Relaxed);
    }
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use schema::Schema;

    use super::*;

    fn key(text: &str) -> DnKey {
        DnKey::from_text(&Schema::builtin(), text).unwrap()
    }

    fn known(table: &Identities) -> usize {
        table.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    #[test]
    fn connections_are_counted_by_identity_and_forgotten_with_the_last() {
        let table = Arc::<Identities>::default();
        let limits = IdentityLimits { connections_max: 2, operations_max: 0 };
        let (anna, ben) = (key("cn=anna"), key("cn=ben"));
        let first = table.count_connection(&anna, limits).unwrap();
        let second = table.count_connection(&anna, limits).unwrap();
        assert!(table.count_connection(&anna, limits).is_none());
        // Another limit, of another connection of hers, counts the same connections.
        let more = IdentityLimits { connections_max: 3, operations_max: 0 };
        let third = table.count_connection(&anna, more).unwrap();
        assert!(table.count_connection(&ben, limits).is_some());
        assert_eq!(known(&table), 1, "his is gone again");
        drop((first, second));
        let again = table.count_connection(&anna, limits).unwrap();
        assert!(table.count_connection(&anna, limits).is_none());
        drop((third, again));
        assert_eq!(known(&table), 0);
    }

    #[test]
    fn operations_are_counted_over_all_connections() {
        let table = Arc::<Identities>::default();
        let limits = IdentityLimits { connections_max: 0, operations_max: 2 };
        let anna = key("cn=anna");
        let (one, other) = (
            table.count_connection(&anna, limits).unwrap(),
            table.count_connection(&anna, limits).unwrap(),
        );
        let (first, second) = (one.count_operation().unwrap(), other.count_operation().unwrap());
        for seat in [&one, &other] {
            let refusal = seat.count_operation().unwrap_err();
            assert_eq!(refusal.code, ResultCode::Busy);
        }
        drop(first);
        let third = one.count_operation().unwrap();
        assert!(other.count_operation().is_err());
        drop((second, third, one, other));
        assert_eq!(known(&table), 0);
        let any = table.count_connection(&anna, IdentityLimits::default()).unwrap();
        assert!(any.count_operation().unwrap().is_none());
    }
}
