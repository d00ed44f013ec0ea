//! Making a directory a compressed one while it is in use.

use std::sync::Arc;

use heed::RwTxn;

use crate::base::compress::{Compression, SAMPLE_ROWS_MAX, Trainer};
use crate::base::lmdb::Environment;
use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Whether records are compressed as they are written.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.versions.with(|version| version.dictionary.compression().is_some())
    }

    /// Makes the directory a compressed one: trains a dictionary from its entries, and compresses
    /// records from now on as they are flushed. What is stored stays as it is. False when it is
    /// compressed already, or has too few entries for a dictionary.
    ///
    /// # Errors
    /// When LMDB fails; then nothing happened.
    pub fn begin_compression(&self) -> Result<bool, StoreError> {
        self.flush()?;
        // A batch has the dictionary it began with, so there must be none.
        let _both = self.seat_and_flushing();
        let version = self.versions.load();
        if version.dictionary.compression().is_some() {
            return Ok(false);
        }
        let environment = &version.environment;
        let tables = environment.tables;
        let txn = environment.write()?;
        let mut trainer = Trainer::new();
        let step = (tables.entries.len(&txn)? as usize / SAMPLE_ROWS_MAX).max(1);
        for row in tables.entries.iter(&txn)?.step_by(step) {
            trainer.sample(row?.1);
        }
        let Some(compression) = trainer.train() else { return Ok(false) };
        self.put_compression(environment, txn, &compression)?;
        Ok(true)
    }

    fn put_compression(
        &self,
        environment: &Environment,
        mut txn: RwTxn<'_>,
        compression: &Arc<Compression>,
    ) -> Result<(), StoreError> {
        compression.write(environment.tables.meta, &mut txn)?;
        txn.commit().map_err(|error| environment.commit_failed(error))?;
        self.versions.translate(None, |dictionary| {
            Ok(dictionary.clone().with_compression(Some(Arc::clone(compression))))
        })
    }

    /// Compresses with these dictionaries from now on.
    pub(crate) fn adopt_compression(
        &self,
        compression: &Arc<Compression>,
    ) -> Result<(), StoreError> {
        let environment = self.base_environment();
        let txn = environment.write()?;
        self.put_compression(&environment, txn, compression)
    }
}
