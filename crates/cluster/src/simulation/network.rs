//! The network between the nodes: messages take their time, overtake each other, get lost, and
//! arrive when nobody waits for them any more.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use history::record::Record;
use openraft::alias::VoteOf;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::rt::AsyncRuntime;
use openraft::{EntryPayload, RaftNetworkFactory};
use store::Lsn;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::runtime::Clock;
use super::world::{Dice, Plant};
use crate::copies::Copies;
use crate::engine::RaftLog;
use crate::receiver::MemberReceiver;
use crate::transport::{Carrier, CopyRequest, CopyResponse, Request as _, Sending};
use crate::types::{Node, RecordBytes, Runtime, Snapshot, SnapshotFile, Types};

#[derive(Clone)]
pub(crate) struct Network(Arc<Mutex<Links>>);

/// A node that can be reached.
#[derive(Clone)]
struct Reached {
    receiver: MemberReceiver,
    log: Weak<RaftLog>,
}

struct Links {
    nodes: BTreeMap<u64, Reached>,
    clocks: BTreeMap<u64, Clock>,
    plant: Option<Plant>,
    /// In which of its lives each is, if it lives.
    lives: BTreeMap<u64, u64>,
    /// From whom to whom nothing gets through.
    cut: BTreeSet<(u64, u64)>,
    delay_max: Duration,
    lost_percent: u64,
    dice: Dice,
}

impl Network {
    pub(super) fn new(dice: Dice, clocks: BTreeMap<u64, Clock>, plant: Option<Plant>) -> Self {
        Self(Arc::new(Mutex::new(Links {
            nodes: BTreeMap::new(),
            clocks,
            plant,
            lives: BTreeMap::new(),
            cut: BTreeSet::new(),
            delay_max: Duration::from_millis(5),
            lost_percent: 0,
            dice,
        })))
    }

    pub(super) fn join(&self, id: u64, receiver: MemberReceiver, log: &Arc<RaftLog>) {
        let reached = Reached { receiver, log: Arc::downgrade(log) };
        self.links().nodes.insert(id, reached);
    }

    /// One more node, with its clock.
    pub(super) fn add(&self, id: u64, clock: Clock) {
        self.links().clocks.insert(id, clock);
    }

    pub(super) fn begin(&self, id: u64, life: u64) {
        self.links().lives.insert(id, life);
    }

    pub(super) fn leave(&self, id: u64) {
        let mut links = self.links();
        links.nodes.remove(&id);
        links.lives.remove(&id);
    }

    pub(super) fn cut(&self, from: u64, to: u64) {
        self.links().cut.insert((from, to));
    }

    pub(super) fn mend(&self, from: u64, to: u64) {
        self.links().cut.remove(&(from, to));
    }

    pub(super) fn worsen(&self, delay_max: Duration, lost_percent: u64) {
        let mut links = self.links();
        links.delay_max = delay_max;
        links.lost_percent = lost_percent;
    }

    pub(super) fn heal(&self) {
        self.links().cut.clear();
        self.worsen(Duration::from_millis(5), 0);
    }

    /// How long a message takes; none: it gets lost.
    fn travel(&self, from: u64, to: u64) -> Option<Duration> {
        let links = self.links();
        let lost = links.lost_percent;
        let is_lost = links.cut.contains(&(from, to)) || links.dice.percent(lost);
        let max = links.delay_max;
        let takes = links.dice.duration(Duration::from_micros(50), max);
        (!is_lost).then_some(takes)
    }

    /// Whether the node is still in that life: one that crashed runs on and reaches nobody.
    fn is_alive(&self, id: u64, life: u64) -> bool {
        self.links().lives.get(&id) == Some(&life)
    }

    fn at(&self, id: u64) -> Option<(Reached, Clock)> {
        let links = self.links();
        links.nodes.get(&id).map(|reached| (reached.clone(), links.clocks[&id]))
    }

    /// Alters what is sent to node 2, if that is to be so: the message number of a record, which
    /// the running hash does not cover.
    fn alter(&self, to: u64, request: &mut AppendEntriesRequest<Types>) {
        if to != 2 || self.links().plant != Some(Plant::AltersInTransit) {
            return;
        }
        for entry in &mut request.entries {
            if let EntryPayload::Normal(bytes) = &mut entry.payload {
                let mut record = Record::decode(&bytes.0, &schema::Schema::builtin()).unwrap();
                record.origin.message += 1;
                let mut altered = Vec::new();
                record.encode(&mut altered).unwrap();
                *bytes = RecordBytes(altered.into());
            }
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.0.lock().unwrap()
    }
}

impl RaftNetworkFactory<Types> for Link {
    type Network = Self;

    async fn new_client(&mut self, target: u64, _: &Node) -> Self {
        Self { to: target, ..self.clone() }
    }
}

/// The way from one node to another.
#[derive(Clone)]
pub(crate) struct Link {
    pub(super) network: Network,
    pub(super) from: u64,
    pub(super) life: u64,
    pub(super) to: u64,
    /// Those of the sender.
    pub(super) copies: Option<Arc<Copies>>,
}

impl Link {
    /// Sends something and waits for the answer, no longer than `limit`; none if there was none.
    async fn send<T, F>(
        &self,
        limit: Duration,
        ask: impl FnOnce(Reached) -> F + Send + 'static,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send,
    {
        let (answer, heard) = oneshot::channel();
        let link = self.clone();
        // It arrives whether or not somebody still waits for the answer.
        Runtime::spawn(async move {
            if !link.network.is_alive(link.from, link.life) {
                return;
            }
            let Some(takes) = link.network.travel(link.from, link.to) else { return };
            sleep(takes).await;
            let Some((reached, clock)) = link.network.at(link.to) else { return };
            let Some(answered) = clock.scope(ask(reached)).await else { return };
            let Some(takes) = link.network.travel(link.to, link.from) else { return };
            sleep(takes).await;
            let _ = answer.send(answered);
        });
        timeout(limit, heard).await.ok()?.ok()
    }

    async fn call<T, F>(
        &self,
        option: RPCOption,
        ask: impl FnOnce(MemberReceiver) -> F + Send + 'static,
    ) -> Result<T, RPCError<Types>>
    where
        T: Send + 'static,
        F: Future<Output = Option<T>> + Send,
    {
        let ends = Instant::now() + option.hard_ttl();
        if let Some(answered) = self.send(option.hard_ttl(), |to| ask(to.receiver)).await {
            return Ok(answered);
        }
        sleep_until(ends).await;
        Err(RPCError::Unreachable(Unreachable::from_string("no answer came")))
    }

    /// Asks whoever leads what one must have to see everything that was acknowledged.
    pub(crate) async fn ask_read(&self, leader: u64, limit: Duration) -> Option<Lsn> {
        let asked = |to: Reached| async move {
            let (answer, heard) = oneshot::channel();
            let log = to.log.upgrade()?;
            let done = move |read: Result<Lsn, _>| {
                // Who asked may have gone.
                let _ = answer.send(read.ok());
            };
            log.0.read_index(Box::new(done));
            drop(log);
            heard.await.ok().flatten()
        };
        Self { to: leader, ..self.clone() }.send(limit, asked).await
    }
}

/// A message is sent when its answer is waited for: one after the other.
impl Carrier for Link {
    type Sent = CopyRequest;

    async fn send(&self, request: CopyRequest, _: Instant) -> Result<CopyRequest, String> {
        Ok(request)
    }

    async fn response(&self, sent: CopyRequest, _: Instant) -> Result<CopyResponse, String> {
        let from = self.from;
        let ask = move |to: Reached| async move { Some(to.receiver.copy(from, sent).await) };
        let answered = Self::send(self, COPY_LIMIT, ask).await;
        answered.unwrap_or_else(|| Err("no answer came".to_owned()))
    }
}

/// How long an answer about a copy may take.
const COPY_LIMIT: Duration = Duration::from_secs(5);

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        mut request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        assert_eq!(request.speaker(), Some(self.from));
        self.network.alter(self.to, &mut request);
        self.call(option, |to| async move { to.append(request).await.ok() }).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        assert_eq!(request.speaker(), Some(self.from));
        self.call(option, |to| async move { to.vote(request).await.ok() }).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        assert_eq!(request.speaker(), Some(self.from));
        self.call(option, |to| async move { to.pre_vote(request).await.ok() }).await
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<Types>,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        assert_eq!(vote.leader_id.voted_for, self.from);
        let copies = self.copies.clone().unwrap();
        let sending =
            Sending { copies: &copies, member: self.to, vote, room: None, carrier: self.clone() };
        sending.run(snapshot, cancel).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        assert_eq!(request.speaker(), Some(self.from));
        self.call(option, |to| async move { to.transfer(request).await.ok() }).await
    }
}
