//! Where the values of metrics come from: the server at one moment. What nobody asks for is not
//! looked at.

use std::cell::OnceCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Duration;

use directory::{ClusterState, Directory, JournalStatus, LogState};
use environment::Timestamp;
use history::archive::ArchiveStatus;
use store::{BaseStatus, OverlayStatus};

use super::meter::{Meter, Sum, micros};
use super::process::{Process, Spent};
use crate::sinks::SinkFigures;
use crate::worker::Shared;

/// The metrics of a server as long as it runs.
pub(crate) struct Metrics {
    pub(super) shared: Weak<Shared>,
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) process: Process,
    /// By the wall clock, and by the one that never goes back.
    started: (Timestamp, Duration),
    pub(super) is_stopping: AtomicBool,
}

/// The server at one moment.
pub(crate) struct Scrape<'m> {
    pub(super) shared: Arc<Shared>,
    metrics: &'m Metrics,
    sum: OnceCell<Sum>,
    overlay: OnceCell<OverlayStatus>,
    base: OnceCell<Option<BaseStatus>>,
    journal: OnceCell<JournalStatus>,
    archive: OnceCell<Option<ArchiveStatus>>,
    cluster: OnceCell<Option<ClusterState>>,
    logs: OnceCell<Vec<LogState>>,
    spent: OnceCell<Spent>,
}

impl Metrics {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        meters: Vec<Arc<Meter>>,
        process: Process,
    ) -> Arc<Self> {
        let clock = shared.directory.clock();
        let started = (clock.now(), clock.elapsed());
        meters.iter().for_each(|meter| meter.beat(started.1));
        let (shared, is_stopping) = (Arc::downgrade(shared), AtomicBool::new(false));
        Arc::new(Self { shared, meters, process, started, is_stopping })
    }

    /// The server now; nothing when it has ended.
    pub(crate) fn scrape(&self) -> Option<Scrape<'_>> {
        Some(Scrape {
            shared: self.shared.upgrade()?,
            metrics: self,
            sum: OnceCell::new(),
            overlay: OnceCell::new(),
            base: OnceCell::new(),
            journal: OnceCell::new(),
            archive: OnceCell::new(),
            cluster: OnceCell::new(),
            logs: OnceCell::new(),
            spent: OnceCell::new(),
        })
    }
}

impl Scrape<'_> {
    pub(super) fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    pub(super) fn sum(&self) -> &Sum {
        self.sum.get_or_init(|| Sum::of(self.metrics.meters.iter().map(|meter| &**meter)))
    }

    pub(super) fn overlay(&self) -> &OverlayStatus {
        self.overlay.get_or_init(|| self.directory().store().overlay())
    }

    /// None when the database cannot be read.
    pub(super) fn base(&self) -> Option<&BaseStatus> {
        self.base.get_or_init(|| self.directory().store().base_status().ok()).as_ref()
    }

    pub(super) fn journal(&self) -> &JournalStatus {
        self.journal.get_or_init(|| self.directory().journal().status())
    }

    /// None where there is no archive.
    pub(super) fn archive(&self) -> Option<&ArchiveStatus> {
        self.archive.get_or_init(|| self.directory().archive_status()).as_ref()
    }

    /// None where the server is alone.
    pub(super) fn cluster(&self) -> Option<&ClusterState> {
        self.cluster.get_or_init(|| self.directory().cluster_state()).as_ref()
    }

    pub(super) fn logs(&self) -> &[LogState] {
        self.logs.get_or_init(|| self.directory().log_states())
    }

    pub(super) fn sinks(&self) -> Vec<(String, Arc<SinkFigures>)> {
        self.shared.sinks.all()
    }

    pub(super) fn spent(&self) -> &Spent {
        self.spent.get_or_init(|| self.metrics.process.spent())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.directory().clock().now()
    }

    pub(super) fn started(&self) -> Timestamp {
        self.metrics.started.0
    }

    pub(super) fn uptime_us(&self) -> u64 {
        micros(self.directory().clock().elapsed().saturating_sub(self.metrics.started.1))
    }
}
