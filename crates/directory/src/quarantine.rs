//! A directory whose data are not those of its cluster serves nobody: quarantine.
//!
//! When a committed record does not follow from the data, or cannot be read, this node and the
//! others have gone apart, or a newer release wrote it. What the node would answer from then on may
//! be wrong, so it answers nothing, keeps what was found in a file, and does not start while the
//! file is there.
//!
//! Invariant: the file is there, durably, before the log hears that it failed. A member of a
//! cluster has it under another name from its start on, so that a full disk does not prevent it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use environment::Clock;
use history::QUARANTINE_FILE;
use history::log::{ApplyError, Difference, EncodedRecord};
use history::record::RecordHead;
use store::{LogPosition, Lsn, Store};

use crate::error::DirectoryError;

/// Whether the directory is in quarantine, and where that is kept.
pub(crate) struct Quarantine {
    data: PathBuf,
    clock: Arc<dyn Clock>,
    /// Why; empty until then.
    found: OnceLock<String>,
}

impl Quarantine {
    /// That of the data directory `data`.
    ///
    /// # Errors
    /// When the data directory is in quarantine since an earlier time.
    pub(crate) fn open(data: &Path, clock: &Arc<dyn Clock>) -> Result<Arc<Self>, DirectoryError> {
        let path = data.join(QUARANTINE_FILE);
        match fs::read(&path) {
            Ok(text) => {
                let kept: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
                let kept = kept.get("reason").and_then(|reason| reason.as_str());
                let reason = kept.unwrap_or("the file that says why cannot be read").to_owned();
                Err(DirectoryError::Quarantined { path, reason })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Arc::new(Self {
                data: data.to_owned(),
                clock: Arc::clone(clock),
                found: OnceLock::new(),
            })),
            Err(source) => Err(DirectoryError::io(path, source)),
        }
    }

    /// Has room for what may be found.
    ///
    /// # Errors
    /// When the data directory cannot be written.
    pub(crate) fn prepare(&self) -> Result<(), DirectoryError> {
        let path = self.data.join(NEW_FILE);
        let made = File::create(&path).and_then(|mut file| {
            file.write_all(&[b' '; EVIDENCE_BYTES])?;
            file.sync_all()
        });
        made.map_err(|source| DirectoryError::io(path, source))
    }

    /// Why nothing is served, if so.
    #[inline]
    pub(crate) fn reason(&self) -> Option<&str> {
        self.found.get().map(String::as_str)
    }

    /// From now on nothing is served.
    fn begin(&self, reason: String, evidence: &serde_json::Value) {
        tracing::error!(%reason, "nothing is served any more");
        // First: to keep the evidence takes a disk.
        let _ = self.found.set(reason);
        if let Err(error) = self.write(evidence) {
            tracing::error!(%error, %evidence, "the evidence cannot be kept");
            // Without it, too, nothing is served after a start.
            if let Err(error) = self.put() {
                let file = self.data.join(QUARANTINE_FILE);
                tracing::error!(
                    %error,
                    file = %file.display(),
                    "the file that keeps the server from starting cannot be made: make it yourself"
                );
            }
        }
    }

    fn write(&self, evidence: &serde_json::Value) -> io::Result<()> {
        let path = self.data.join(NEW_FILE);
        // Over what was prepared.
        let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
        let text = format!("{evidence:#}\n");
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        self.put()
    }

    /// Puts the file where it is looked for.
    fn put(&self) -> io::Result<()> {
        fs::rename(self.data.join(NEW_FILE), self.data.join(QUARANTINE_FILE))?;
        File::open(&self.data)?.sync_all()
    }

    /// Records cannot be applied; the last of them is at `position`. Begins where that says that
    /// the data here are not those of the cluster.
    pub(crate) fn note(
        &self,
        error: &ApplyError,
        store: &Store,
        records: &[EncodedRecord],
        position: LogPosition,
    ) {
        let lsn = match error {
            ApplyError::Store(_) | ApplyError::Copy(_) => return,
            ApplyError::Record { lsn, .. } | ApplyError::Diverged { lsn, .. } => *lsn,
        };
        let last = records.last().map_or(0, |last| last.lsn.0);
        let record = records.iter().find(|record| record.lsn == lsn).map(|record| {
            let index = position.index.saturating_sub(last - record.lsn.0);
            (record, LogPosition { index, ..position })
        });
        let (reason, evidence) = self.evidence(error, store, lsn, record);
        self.begin(reason, &evidence);
    }

    /// What is to be known of a record that does not follow.
    fn evidence(
        &self,
        error: &ApplyError,
        store: &Store,
        lsn: Lsn,
        record: Option<(&EncodedRecord, LogPosition)>,
    ) -> (String, serde_json::Value) {
        let reason = format!("{IN_QUARANTINE}: {error}");
        let here = store.published();
        let head = record.and_then(|(record, _)| RecordHead::read(&record.bytes).ok());
        let position = record.map_or(here.position, |(_, position)| position);
        let hash = |hash: u64| format!("{hash:016x}");
        let evidence = serde_json::json!({
            "reason": reason,
            "record": lsn.0,
            "term": position.term,
            "index": position.index,
            "hash_before_in_record": head.map(|head| hash(head.prev_hash)),
            "hash_after_in_record": head.map(|head| hash(head.hash)),
            "hash_here": hash(here.hash),
            "last_record_here": here.lsn.0,
            "store": id_text(store),
            "time": self.clock.now().generalized_time(),
        });
        (reason, evidence)
    }

    /// The data of `store` are not those of the other members. The first reason stays.
    pub(crate) fn note_difference(&self, difference: &Difference, store: &Store) {
        if self.reason().is_some() {
            return;
        }
        let reason = format!("{IN_QUARANTINE}: {difference}");
        let points = difference.points.iter().map(|(member, point)| {
            serde_json::json!({
                "member": member,
                "digest": point.digest.to_string(),
                "hash": format!("{:016x}", point.hash),
            })
        });
        let here = store.published();
        let evidence = serde_json::json!({
            "reason": reason,
            "record": difference.lsn.0,
            "last_record_alike": difference.same.0,
            "members": points.collect::<Vec<_>>(),
            "hash_here": format!("{:016x}", here.hash),
            "last_record_here": here.lsn.0,
            "store": id_text(store),
            "time": self.clock.now().generalized_time(),
        });
        self.begin(reason, &evidence);
    }
}

/// A store's id, as text.
fn id_text(store: &Store) -> String {
    store.id().map(|octet| format!("{octet:02x}")).concat()
}

/// What every reason begins with.
const IN_QUARANTINE: &str =
    "this server is in quarantine, because its data are not those of the cluster";

/// Until it is whole.
const NEW_FILE: &str = "quarantine.new";

/// Room for what is found, in bytes: a page of the disk.
const EVIDENCE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use environment::{ManualClock, Timestamp};

    use super::*;

    #[test]
    fn it_lasts_also_when_what_was_found_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp(0)));
        let quarantine = Quarantine::open(data, &clock).unwrap();
        quarantine.prepare().unwrap();
        // A file that cannot be written.
        fs::remove_file(data.join(NEW_FILE)).unwrap();
        fs::create_dir(data.join(NEW_FILE)).unwrap();
        quarantine.begin("because".to_owned(), &serde_json::json!({ "reason": "because" }));
        assert_eq!(quarantine.reason(), Some("because"));
        assert!(Quarantine::open(data, &clock).is_err());
    }

    #[test]
    fn what_was_prepared_becomes_what_was_found() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp(0)));
        let quarantine = Quarantine::open(data, &clock).unwrap();
        quarantine.prepare().unwrap();
        assert!(Quarantine::open(data, &clock).is_ok());
        quarantine.begin("because".to_owned(), &serde_json::json!({ "reason": "because" }));
        let Err(DirectoryError::Quarantined { reason, .. }) = Quarantine::open(data, &clock) else {
            panic!("it is in quarantine");
        };
        assert_eq!(reason, "because");
        assert!(!data.join(NEW_FILE).exists());
    }
}
