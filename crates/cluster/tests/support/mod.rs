//! Members as they run, for tests: threads, sockets, certificates, and a journal on a disk that
//! fails.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cluster::transport::{Authority, Credentials, NodeIdentity};
use cluster::{Node, Options, RaftLog, Service, ServiceParts};
use environment::{SystemClock, Timestamp};
use history::log::conformance::Ledger;
use history::log::{
    CommitError, CommitLog, Durability, EncodedRecord, LogBatch, ReadLevel, Reign, Role,
    StateMachine,
};
use journal::simulated::SimDisk;
use journal::{Disk, Journal, JournalError, JournalOptions, JournalPosition};
use store::{LogPosition, Lsn};
use tempfile::TempDir;

pub(crate) const CLUSTER: [u8; 16] = [7; 16];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// When the certificates of the members were made.
pub(crate) const ISSUED_AT: Timestamp = Timestamp(1_790_000_000_000_000);
/// What all members have from the beginning.
pub(crate) const BEGINNING: LogPosition = LogPosition { term: 1, index: 1 };

pub(crate) fn open_journal(disk: &SimDisk) -> Arc<Journal> {
    let disk = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let options = JournalOptions { segment_bytes: 16 * 4096, ..JournalOptions::new(CLUSTER) };
    Arc::new(match Journal::open(Arc::clone(&disk), options.clone()) {
        Ok((journal, _)) => journal,
        Err(JournalError::Missing) => {
            let journal = Journal::create(disk, options, 2).unwrap();
            let LogPosition { term, index } = BEGINNING;
            journal.reset_after(JournalPosition { term, index }).unwrap();
            journal
        }
        Err(error) => panic!("{error}"),
    })
}

/// The state that a member begins with.
#[allow(dead_code, reason = "some tests have stores")]
pub(crate) fn ledger() -> Arc<Ledger> {
    let ledger = Ledger::default();
    ledger.begin_at(BEGINNING);
    Arc::new(ledger)
}

/// Members with their disks, addresses and certificates.
pub(crate) struct Cluster {
    pub(crate) certificates: TempDir,
    authority: Authority,
    pub(crate) disks: BTreeMap<u64, SimDisk>,
    pub(crate) nodes: BTreeMap<u64, Node>,
    pub(crate) listeners: BTreeMap<u64, TcpListener>,
}

impl Cluster {
    pub(crate) fn new(count: u64) -> Self {
        let certificates = tempfile::tempdir().unwrap();
        let authority = Authority::new(CLUSTER, ISSUED_AT).unwrap();
        let (mut nodes, mut listeners) = (BTreeMap::new(), BTreeMap::new());
        for id in 1..=count {
            let directory = certificates.path().join(id.to_string());
            authority.issue(id, ISSUED_AT).unwrap().write(&directory).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            nodes.insert(id, Node { address, url: format!("ldap://node{id}"), ..Node::default() });
            listeners.insert(id, listener);
        }
        let disks = (1..=count).map(|id| (id, SimDisk::new(id))).collect();
        Self { certificates, authority, disks, nodes, listeners }
    }

    /// Where one that is to join is found; it listens there from now on.
    #[allow(dead_code, reason = "not all tests have members join")]
    pub(crate) fn listen(&self) -> (TcpListener, Node) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, Node { address, url: "ldap://joined".to_owned(), ..Node::default() })
    }

    /// One that joined under a number gets what it starts with: a certificate and a disk.
    #[allow(dead_code, reason = "not all tests have members join")]
    pub(crate) fn admit(&mut self, id: u64, listener: TcpListener) {
        let directory = self.certificates.path().join(id.to_string());
        self.authority.issue(id, ISSUED_AT).unwrap().write(&directory).unwrap();
        self.listeners.insert(id, listener);
        self.disks.insert(id, SimDisk::new(id));
    }

    #[allow(dead_code, reason = "some tests start members otherwise")]
    pub(crate) fn start(&self, id: u64, state: Arc<dyn StateMachine>) -> Arc<Service> {
        Service::start(self.parts(id, state)).unwrap()
    }

    /// Starts all of them, on the state that each is given, with their parts as `change` makes
    /// them: each waits a while for the others.
    pub(crate) fn start_all(
        &self,
        state: impl Fn(u64) -> Arc<dyn StateMachine>,
        change: impl Fn(&mut ServiceParts),
    ) -> BTreeMap<u64, Arc<Service>> {
        std::thread::scope(|scope| {
            let start = |id: u64| {
                let mut parts = self.parts(id, state(id));
                change(&mut parts);
                (id, scope.spawn(|| Service::start(parts).unwrap()))
            };
            let started: Vec<_> = self.nodes.keys().map(|id| start(*id)).collect();
            started.into_iter().map(|(id, start)| (id, start.join().unwrap())).collect()
        })
    }

    pub(crate) fn parts(&self, id: u64, state: Arc<dyn StateMachine>) -> ServiceParts {
        let identity = NodeIdentity { cluster: CLUSTER, node: id };
        let directory = self.certificates.path().join(id.to_string());
        // A copy: the others keep knocking while the member is not there.
        let listener = self.listeners[&id].try_clone().unwrap();
        let mut options = Options::new(id, self.nodes.clone(), id);
        options.outcome_wait = Duration::from_millis(500);
        ServiceParts {
            options,
            state,
            journal: open_journal(&self.disks[&id]),
            credentials: Credentials::load(&directory, identity, ISSUED_AT).unwrap(),
            listener,
            asked_here: Arc::new(|octets, done| done(octets)),
            asks_version: 1,
            clock: Arc::new(SystemClock::new()),
            facts: Arc::new(cluster::MemberFacts::default),
            impediment: Arc::new(|| None),
        }
    }
}

/// Waits until one of them decides; which, and in which reign.
pub(crate) fn deciding(logs: &[(u64, &Arc<RaftLog>)]) -> (u64, Reign) {
    let (told, heard) = mpsc::channel();
    for (id, log) in logs {
        let (id, told) = (*id, told.clone());
        log.watch(Box::new(move |role| {
            if let Role::Deciding(reign) = role {
                // Nobody listens any more after the first.
                let _ = told.send((id, *reign));
            }
        }));
    }
    heard.recv_timeout(PATIENCE).unwrap()
}

pub(crate) fn leader(services: &BTreeMap<u64, Arc<Service>>) -> (u64, Reign) {
    let logs: Vec<_> = services.iter().map(|(id, service)| (*id, service.log())).collect();
    deciding(&logs.iter().map(|(id, log)| (*id, log)).collect::<Vec<_>>())
}

#[allow(dead_code, reason = "some tests commit batches")]
pub(crate) fn commit(
    log: &dyn CommitLog,
    reign: Reign,
    record: EncodedRecord,
) -> Result<Lsn, CommitError> {
    let (told, heard) = mpsc::channel();
    let batch = LogBatch { records: vec![record], durability: Durability::Synced };
    log.commit(reign, batch, Box::new(move |outcome| told.send(outcome).unwrap()));
    heard.recv_timeout(PATIENCE).unwrap()
}

pub(crate) fn barrier(log: &dyn CommitLog, level: ReadLevel) -> Lsn {
    let (told, heard) = mpsc::channel();
    log.barrier(level, Box::new(move |answer| told.send(answer).unwrap()));
    heard.recv_timeout(PATIENCE).unwrap().unwrap()
}

/// Waits until `look` finds something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let step = Duration::from_millis(5);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        std::thread::park_timeout(step);
    }
    panic!("waited in vain: {what}");
}
