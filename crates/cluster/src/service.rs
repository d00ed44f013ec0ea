//! A member of a cluster as it runs: the engine on a thread and a runtime of its own, with its
//! connections to the others, so that nothing else of the server keeps heartbeats waiting.
//!
//! Invariant: nothing that waits or computes for long happens on that thread: applying records,
//! answering clients and what others ask of the directory have threads elsewhere.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use environment::Clock;
use history::log::{StateMachine, Verification};
use history::record::RECORD_LEVEL;
use journal::Journal;
use store::Lsn;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::asks::{
    ASK_DIGESTS, ASK_DIRECTORY, ASK_MEMBERS, ASK_READ, ASK_STATUS, ASK_VERIFY, Asks, NOT_KNOWN,
    ask_all,
};
use crate::changing;
use crate::comparing::{Comparing, encode};
use crate::copies::Copies;
use crate::engine::{self, LogHandle, Parts, RaftLog, Started, Status, caught_up};
use crate::errands::Errands;
use crate::log_store::LogStore;
use crate::options::Options;
use crate::report::{MemberFacts, MemberReport};
use crate::shared::Watched;
use crate::transport::{
    AskError, Credentials, EngineHandler, Peers, Responding, ServerLimits, serve,
};
use crate::types::Runtime;
use crate::verifying::message::Asked;
use crate::verifying::{Holder, Verifications, VerifierParts};
use crate::versions::Versions;
use crate::watcher::{Impediment, Watcher};

/// How long a start waits for what was acknowledged before it: clients are served after it. Alone,
/// or among too few, a member serves what it has, and says that it has not caught up.
const CATCH_UP_WAIT: Duration = Duration::from_secs(5);

/// Answers what other members ask of the directory: gets the octets, and what takes the answer.
/// It must not wait.
pub type AskedHere = Arc<dyn Fn(Zeroizing<Vec<u8>>, AnswerDone) + Send + Sync>;

/// Takes the octets of an answer.
pub type AnswerDone = Box<dyn FnOnce(Zeroizing<Vec<u8>>) + Send>;

/// Takes the octets of the leader's answer.
pub type LeaderAnswered = Box<dyn FnOnce(Result<Zeroizing<Vec<u8>>, AskError>) + Send>;

/// What a member is made of.
pub struct ServiceParts {
    /// What is told of the cluster.
    pub options: Options,
    /// What committed records are applied to.
    pub state: Arc<dyn StateMachine>,
    /// The log of the engine.
    pub journal: Arc<Journal>,
    /// Who it is to the others.
    pub credentials: Credentials,
    /// Where the others reach it.
    pub listener: TcpListener,
    /// What answers the others.
    pub asked_here: AskedHere,
    /// The version of the form of what they ask of it.
    pub asks_version: u16,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// What speaks against this member's leading.
    pub impediment: Impediment,
    /// What it tells of itself beside its log.
    pub facts: Facts,
}

/// Tells them, whenever it is asked; it must not wait.
pub type Facts = Arc<dyn Fn() -> MemberFacts + Send + Sync>;

/// A member that runs. It ends when its log is closed.
pub struct Service {
    log: Arc<RaftLog>,
    peers: Peers,
    runtime: Handle,
    id: u64,
    asked_here: AskedHere,
    facts: Facts,
    verifications: Verifications,
}

impl Service {
    /// Starts a member, and waits until it has caught up with the others, if it reaches them. It
    /// votes and follows from now on; what it applies is visible as it comes.
    ///
    /// # Errors
    /// A sentence, when the options are not possible, or what is stored cannot be read.
    pub fn start(parts: ServiceParts) -> Result<Arc<Self>, String> {
        let (told, started) = sync_channel(1);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(told.send(Err(error.to_string()))),
            };
            let handle = runtime.handle().clone();
            let seed = parts.options.seed;
            runtime.block_on(Runtime::scope(seed, async move {
                match Self::open(parts, handle).await {
                    Err(reason) => drop(told.send(Err(reason))),
                    Ok((service, until_closed)) => {
                        // Who started it waits.
                        let _ = told.send(Ok(service));
                        until_closed.await;
                    }
                }
            }));
            // What still reads the journal ends by itself.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("raft".to_owned()).spawn(run);
        thread.map_err(|error| error.to_string())?;
        started.recv().unwrap_or_else(|_| Err("the thread of the cluster ended".to_owned()))
    }

    async fn open(
        parts: ServiceParts,
        runtime: Handle,
    ) -> Result<(Arc<Self>, impl Future<Output = ()>), String> {
        let ServiceParts { options, state, journal, credentials, listener, .. } = parts;
        let ServiceParts { asked_here, asks_version, clock, impediment, facts, .. } = parts;
        // What it reads is no matter of who tells the rest.
        let facts: Facts = Arc::new(move || MemberFacts { record_level: RECORD_LEVEL, ..facts() });
        let (errands, _) = Errands::on_thread("raft-apply").map_err(|error| error.to_string())?;
        let id = options.id;
        let (copying, _) = Errands::on_thread("raft-copy").map_err(|error| error.to_string())?;
        let copies = Copies::new(Arc::clone(&state), copying, options.copy_rate_bytes);
        let holder = Holder::start(Arc::clone(&state)).map_err(|error| error.to_string())?;
        let rate_bytes = options.verify_rate_bytes;
        let peers = Peers::new(credentials.clone()).sending(Arc::clone(&copies));
        for (member, node) in options.members.iter().filter(|(member, _)| **member != id) {
            peers.know(*member, &node.address);
        }
        let asks = Asks::Peers(peers.clone());
        let (every, again) = (options.compare_every, options.heartbeat());
        let (digests, kept) = (Arc::clone(&state), errands.clone());
        let (watched_state, watching) = (Arc::clone(&state), errands.clone());
        let log = LogStore::new(journal);
        let parts = Parts { state, log, options, errands, copies, asks };
        let started = engine::start(parts, peers.clone()).await?;
        let Started { log, receiver, driver, engine } = started;
        let log = Arc::new(log);
        // Nobody has said yet that he can lead.
        log.0.set_watched(Watched { fit: Some(BTreeSet::new()), ..Watched::default() });
        let comparing = Comparing {
            id,
            every,
            peers: peers.clone(),
            state: Arc::clone(&digests),
            errands: kept,
            log: log.0.clone(),
            engine: engine.clone(),
        };
        let asks = MemberAsks {
            log: log.0.clone(),
            state: digests,
            asked_here: Arc::clone(&asked_here),
            asks_version,
            clock: Arc::clone(&clock),
            facts: Arc::clone(&facts),
            holder: holder.clone(),
        };
        let verifications = Verifications::new(VerifierParts {
            id,
            peers: peers.clone(),
            log: log.0.clone(),
            holder,
            clock: Arc::clone(&clock),
            rate_bytes,
            runtime: runtime.clone(),
        });
        let watcher = Watcher {
            own: Versions { id, asks: asks_version, level: RECORD_LEVEL },
            log: log.0.clone(),
            peers: peers.clone(),
            credentials: credentials.clone(),
            clock,
            impediment,
            state: watched_state,
            errands: watching,
            engine: engine.clone(),
        };
        let handler =
            EngineHandler::new(receiver, Box::new(move |from, octets| asks.ask(from, octets)));
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let listener =
            tokio::net::TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        let server =
            serve(listener, credentials, Arc::new(handler), ServerLimits::default(), &peers);
        let mut catching_up = tokio::spawn(caught_up(log.0.clone(), again));
        match timeout(CATCH_UP_WAIT, &mut catching_up).await {
            Ok(caught_up) => caught_up.map_err(|error| error.to_string())??,
            Err(_) => tracing::warn!(
                "this member reaches no majority, or is far behind: it serves what it has"
            ),
        }
        let watcher = tokio::spawn(watcher.run());
        let comparing = tokio::spawn(comparing.run());
        let until_closed = async move {
            let _ = driver.await;
            catching_up.abort();
            watcher.abort();
            comparing.abort();
            drop(server);
        };
        let service = Arc::new(Self { log, peers, runtime, id, asked_here, facts, verifications });
        Ok((service, until_closed))
    }

    /// The commit log of this member.
    #[must_use]
    pub fn log(&self) -> Arc<RaftLog> {
        Arc::clone(&self.log)
    }

    /// How the cluster is doing, as far as it is known here.
    #[must_use]
    pub fn status(&self) -> Status {
        self.log.status()
    }

    /// What this member tells of itself beside its log.
    #[must_use]
    pub fn facts(&self) -> MemberFacts {
        (self.facts)()
    }

    /// Begins to compare what all members have stored, as [`Self::verification`] tells; the number
    /// of the comparison. It goes on as long as somebody asks after it with
    /// [`Self::ask_after_verification`], every few seconds.
    ///
    /// # Errors
    /// A sentence, when a comparison that was begun here is under way.
    pub fn verify(&self) -> Result<u64, String> {
        self.verifications.start()
    }

    /// The last comparison that was begun here, as far as it is.
    #[must_use]
    pub fn verification(&self) -> Option<Verification> {
        self.verifications.last()
    }

    /// Comparison `run`, which goes on; none when another was begun since.
    #[must_use]
    pub fn ask_after_verification(&self, run: u64) -> Option<Verification> {
        self.verifications.ask_after(run)
    }

    /// Ends comparison `run`, if it is under way.
    pub fn stop_verification(&self, run: u64) {
        self.verifications.stop(run);
    }

    /// Who leads, as far as is known.
    pub(crate) fn leader(&self) -> Option<u64> {
        *self.log.0.leader.borrow()
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Has something done on the engine's thread; it must not wait there.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Has whoever leads answer octets, no longer than `limit` and no longer than it leads; where
    /// that is this member, they are answered here. `done` must not wait.
    pub fn ask_leader(
        self: &Arc<Self>,
        octets: Zeroizing<Vec<u8>>,
        limit: Duration,
        done: LeaderAnswered,
    ) {
        match self.leader() {
            None => done(Err(AskError::NotSent("nobody leads".to_owned()))),
            Some(leader) if leader == self.id => {
                (self.asked_here)(octets, Box::new(|answer| done(Ok(answer))));
            }
            Some(leader) => {
                // At once: no other copy is left behind.
                let mut asked = Vec::with_capacity(1 + octets.len());
                asked.push(ASK_DIRECTORY);
                asked.extend_from_slice(&octets);
                let asking = self.asking(leader, asked, limit);
                self.spawn(async move { done(asking.await.map(Zeroizing::new)) });
            }
        }
    }

    /// Asks member `leader`, no longer than `limit` and no longer than it leads.
    pub(crate) fn asking(
        &self,
        leader: u64,
        octets: Vec<u8>,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<u8>, AskError>> + Send + use<> {
        let peers = self.peers.clone();
        let replaced = another_leads(self.log.0.leader.clone(), leader);
        async move {
            tokio::select! {
                answer = peers.ask(leader, octets, limit) => answer,
                () = replaced => Err(AskError::Unknown(REPLACED.to_owned())),
            }
        }
    }

    /// Asks each other member how it is doing, each no longer than `limit`; `done` gets what they
    /// said, and must not wait.
    pub fn ask_status(
        self: &Arc<Self>,
        limit: Duration,
        done: impl FnOnce(Vec<(u64, Option<MemberReport>)>) + Send + 'static,
    ) {
        let (peers, members) = (self.peers.clone(), self.status().members);
        self.runtime.spawn(async move {
            done(ask_all(&peers, &members, ASK_STATUS, limit, MemberReport::decode).await);
        });
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("id", &self.id).field("log", &self.log).finish()
    }
}

/// Waits until another member than `leader` leads.
async fn another_leads(mut leaders: watch::Receiver<Option<u64>>, leader: u64) {
    // The log may end.
    let _ = leaders.wait_for(|now| now.is_some_and(|now| now != leader)).await;
}

const REPLACED: &str = "another member leads";

impl MemberReport {
    /// Of a member, by what its log says.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        Self {
            term: status.term,
            applied_lsn: status.applied.0,
            last_index: status.last_index,
            committed_index: status.committed_index,
            is_failed: matches!(status.role, history::log::Role::Failed(_)),
            is_unfit: status.unfit.is_some(),
            clock_us: 0,
            asks_version: 0,
            members: status.members.iter().map(|member| member.id).collect(),
            diverged: status.diverged,
            listed_at: status.listed_at,
            has_removed_asker: false,
            is_asker_forgetful: false,
            copy: status.receives.map(|copy| (copy.bytes, copy.of_bytes)),
            facts: None,
        }
    }
}

/// Answers what the other members ask.
struct MemberAsks {
    log: LogHandle,
    state: Arc<dyn StateMachine>,
    asked_here: AskedHere,
    asks_version: u16,
    clock: Arc<dyn Clock>,
    facts: Facts,
    holder: Holder,
}

impl MemberAsks {
    fn ask(&self, from: u64, mut octets: Vec<u8>) -> Responding<Vec<u8>> {
        let (answer, heard) = oneshot::channel();
        let is_removed = self.log.has_removed(from);
        match octets.first().copied() {
            // It is told that it was removed; nothing else is heard of it.
            Some(what) if is_removed && what != ASK_STATUS => {
                return Box::pin(async move { Err(format!("member {from} was removed")) });
            }
            Some(ASK_DIRECTORY) => {
                octets.remove(0);
                // Who asked may have gone.
                let answered = |mut octets: Zeroizing<Vec<u8>>| {
                    drop(answer.send(std::mem::take(&mut *octets)));
                };
                (self.asked_here)(Zeroizing::new(octets), Box::new(answered));
            }
            Some(ASK_READ) => {
                let done = move |read: Result<Lsn, _>| {
                    let lsn = read.map_or(0, |lsn| lsn.0 + 1);
                    drop(answer.send(lsn.to_le_bytes().to_vec()));
                };
                self.log.read_index(Box::new(done));
            }
            Some(ASK_DIGESTS) => drop(answer.send(encode(&self.state.digests()))),
            Some(ASK_STATUS) => {
                self.log.note_asker(from);
                let report = MemberReport::of(&self.log.status());
                let (clock_us, asks_version) = (self.clock.now().0, self.asks_version);
                let report = MemberReport {
                    clock_us,
                    asks_version,
                    has_removed_asker: is_removed,
                    is_asker_forgetful: self.log.is_forgetful(from),
                    facts: Some((self.facts)()),
                    ..report
                };
                drop(answer.send(report.encode()));
            }
            Some(ASK_MEMBERS) => {
                let change = octets.get(1..).map(changing::decode);
                let Some(Ok(change)) = change else {
                    return Box::pin(async { Err("it asks for no change".to_owned()) });
                };
                let done = move |outcome| drop(answer.send(changing::encode_outcome(&outcome)));
                self.log.change(change, Box::new(done));
            }
            Some(ASK_VERIFY) => return self.verify(from, octets.get(1..).unwrap_or_default()),
            Some(_) | None => return Box::pin(async { Err(NOT_KNOWN.to_owned()) }),
        }
        Box::pin(async move { heard.await.map_err(|_| "it was not answered".to_owned()) })
    }

    /// What a comparison of the data asks.
    fn verify(&self, from: u64, octets: &[u8]) -> Responding<Vec<u8>> {
        let (asked, holder) = (Asked::decode(octets), self.holder.clone());
        Box::pin(async move {
            let asked = asked.map_err(|error| error.0.to_owned())?;
            let answer = holder.ask(from, asked).await;
            let answer = answer.ok_or_else(|| "the server is shutting down".to_owned())?;
            Ok(answer.encode())
        })
    }
}
