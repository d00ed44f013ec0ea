//! A data directory leaves its cluster: it goes on alone, as another store.
//!
//! Invariant: whatever interrupts it, the directory is that of the member it was, or of a server
//! that is alone, as a whole: who takes part goes in one commit with where the log is.

use std::path::Path;
use std::sync::Arc;

use crate::base::digest::DigestKey;
use crate::base::format::DataDirectory;
use crate::base::meta;
use crate::base::position::LogPosition;
use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Has nobody else take part, and the log of one server in `term` follow the last change;
    /// `settings`, by name, are those of the cluster, and go. The journal that is there belongs to
    /// what was before. Waits until there is no batch and no flush.
    ///
    /// # Errors
    /// When LMDB fails.
    pub fn leave_cluster(&self, term: u64, settings: &[&str]) -> Result<(), StoreError> {
        self.flush()?;
        let (mut seat, _flushing) = self.seat_and_flushing();
        seat.release();
        let version = self.versions.load();
        if !version.layers.is_empty() {
            return Err(StoreError::Lmdb("changes came while the cluster was left".to_owned()));
        }
        let environment = &version.environment;
        let meta = environment.tables.meta;
        let mut txn = environment.write()?;
        let mut counters = version.counters;
        counters.position = LogPosition { term, index: counters.lsn };
        for name in settings {
            let key = meta::setting_key(name)?;
            let row = meta.get(&txn, key.as_bytes())?.map(<[u8]>::to_vec);
            let Some(row) = row else { continue };
            if let Some(digest) = counters.digest {
                let hash = DigestKey::read(meta, &txn)?.meta(key.as_bytes(), &row);
                counters.digest = Some(digest.without(hash));
            }
            meta.delete(&mut txn, key.as_bytes())?;
        }
        meta::remove_membership(meta, &mut txn)?;
        counters.write(meta, &mut txn)?;
        txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.pace.forget_membership();
        self.versions.settle(counters, Arc::clone(&version.dictionary));
        Ok(())
    }
}

/// Gives the data directory `path` the id of another store, by chance; there need be no journal.
///
/// # Errors
/// When a process has it open, or it cannot be written.
pub fn renew_identity(path: &Path) -> Result<(), StoreError> {
    DataDirectory::open(path)?.renewed()?.write_format()
}

#[cfg(test)]
mod tests {
    use schema::{Change, Schema, SettingChange};

    use super::*;
    use crate::base::lmdb::StoreOptions;
    use crate::testing::create;

    fn set(store: &Store, name: &str, values: &[&str]) {
        let mut batch = store.begin().unwrap();
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        batch.apply(&Change::Setting(SettingChange { name: name.to_owned(), values })).unwrap();
        batch.publish();
    }

    #[test]
    fn what_is_of_the_cluster_goes_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let store = create(&data);
        let id = store.id();
        store.keep_digest().unwrap();
        set(&store, "other", &["stays"]);
        store.flush().unwrap();
        let without = store.digests().last().copied();
        set(&store, "join-tokens", &["one", "two"]);
        store.set_membership(b"members".to_vec());
        store.flush().unwrap();
        for _ in 0..2 {
            store.leave_cluster(1, &["join-tokens", "none"]).unwrap();
            let base = store.base();
            assert_eq!(base.position, LogPosition { term: 1, index: base.lsn.0 });
            assert!(store.membership().unwrap().is_empty());
        }
        drop(store);
        renew_identity(&data).unwrap();
        let store = Store::open(&data, &StoreOptions::default(), Schema::builtin()).unwrap();
        let store = Arc::new(store);
        assert_ne!(store.id(), id);
        assert!(!store.has_journal());
        let mut reader = store.reader();
        let view = reader.view().unwrap();
        assert_eq!(view.setting("other").unwrap(), ["stays"]);
        assert!(view.setting("join-tokens").unwrap().is_empty());
        let left = store.digests().last().copied();
        assert_eq!(left.map(|one| one.digest), without.map(|one| one.digest));
    }
}
