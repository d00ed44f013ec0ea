//! Takes the messages that other members send, whatever carried them.
//!
//! Invariant: what the engine holds of them is bounded, also while its log waits for the disk: it
//! answers nothing then, and who asked asks again.
//! Invariant: the engine hears nobody who was removed from the cluster.
//! Invariant: an engine that has ended is not asked again: it would tell the log each time.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use store::CopyHead;
use tokio::time::Instant;

use crate::copies::{Arrival, Copies};
use crate::entry::place;
use crate::log_store::{LogStore, size};
use crate::machine::Engine;
use crate::shared::Shared;
use crate::transport::{CopyRequest, CopyResponse, Request};
use crate::types::{Entry, Snapshot, SnapshotFile, Types, Vote};

/// A log that has been waiting for its disk for so long stands still.
const STILL_AFTER: Duration = Duration::from_secs(1);
/// What the engine is given while its log stands still, in bytes.
pub(crate) const STILL_MAX_BYTES: usize = 32 << 20;
/// What a message takes there beside its entries, about, in bytes.
const MESSAGE_BYTES: usize = 512;

/// Takes the messages of other members; clones are the same.
#[derive(Clone)]
pub struct MemberReceiver {
    engine: Engine,
    shared: Arc<Shared>,
    log: LogStore,
    copies: Arc<Copies>,
    /// What the engine was given since its log stands still, in bytes.
    given: Arc<AtomicUsize>,
    /// Why the engine ended, once it has said so.
    ended: Arc<OnceLock<String>>,
}

impl MemberReceiver {
    pub(crate) fn new(
        engine: Engine,
        shared: Arc<Shared>,
        log: LogStore,
        copies: Arc<Copies>,
    ) -> Self {
        Self { engine, shared, log, copies, given: Arc::default(), ended: Arc::default() }
    }

    /// The term of the engine, as it told last.
    pub(crate) fn term(&self) -> u64 {
        self.engine.metrics().borrow_watched().current_term
    }

    /// Whether `id` took part once and does not any more.
    pub(crate) fn has_removed(&self, id: u64) -> bool {
        self.shared.listed().has_removed(id)
    }

    /// Whether whoever speaks is one of the cluster. One that was removed must not disturb it; one
    /// that is not known here yet may well lead.
    fn hears(&self, request: &impl Request) -> Result<(), String> {
        match request.speaker().filter(|speaker| self.has_removed(*speaker)) {
            Some(speaker) => Err(format!("member {speaker} was removed")),
            None => Ok(()),
        }
    }

    /// Whether the engine can be given a message with these entries.
    fn admit(&self, now: Instant, entries: &[Entry]) -> Result<(), String> {
        if let Some(reason) = self.ended.get() {
            return Err(reason.clone());
        }
        if self.log.waiting(now) < STILL_AFTER {
            self.given.store(0, Ordering::Relaxed);
            return Ok(());
        }
        if self.given.load(Ordering::Relaxed) >= STILL_MAX_BYTES {
            return Err("the log of this member waits for its disk".to_owned());
        }
        let bytes = MESSAGE_BYTES + entries.iter().map(size).sum::<usize>();
        self.given.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Only an engine that has ended answers with an error.
    fn ended(&self, error: &dyn Display) -> String {
        self.ended.get_or_init(|| error.to_string()).clone()
    }

    /// Entries, or a heartbeat.
    ///
    /// # Errors
    /// A sentence, when the engine ended, or holds too much because its log waits for the disk.
    pub async fn append(
        &self,
        request: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<Types>, String> {
        let began = Instant::now();
        self.hears(&request)?;
        self.admit(began, &request.entries)?;
        let response = self.engine.append_entries(request).await.map_err(|it| self.ended(&it))?;
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.shared.heard(began);
        }
        Ok(response)
    }

    /// A candidate asks for the vote.
    ///
    /// # Errors
    /// A sentence, when the engine ended, or holds too much because its log waits for the disk.
    pub async fn vote(&self, request: VoteRequest<Types>) -> Result<VoteResponse<Types>, String> {
        self.hears(&request)?;
        self.admit(Instant::now(), &[])?;
        self.engine.vote(request).await.map_err(|it| self.ended(&it))
    }

    /// A server asks whether it would get the vote.
    ///
    /// # Errors
    /// A sentence, when the engine ended, or holds too much because its log waits for the disk.
    pub async fn pre_vote(
        &self,
        request: VoteRequest<Types>,
    ) -> Result<VoteResponse<Types>, String> {
        self.hears(&request)?;
        self.admit(Instant::now(), &[])?;
        self.engine.pre_vote(request).await.map_err(|it| self.ended(&it))
    }

    /// The leader hands the lead over.
    ///
    /// # Errors
    /// A sentence, when the engine ended, or holds too much because its log waits for the disk.
    pub async fn transfer(
        &self,
        request: TransferLeaderRequest<Types>,
    ) -> Result<TransferLeaderResponse<Types>, String> {
        self.hears(&request)?;
        self.admit(Instant::now(), &[])?;
        self.engine.handle_transfer_leader(request).await.map_err(|it| self.ended(&it))
    }

    /// Whoever leads sends a copy of the data, because this member lacks what the log no longer
    /// has.
    ///
    /// # Errors
    /// A sentence, when the copy is not wanted or cannot be received, or the engine ended.
    pub async fn copy(&self, from: u64, request: CopyRequest) -> Result<CopyResponse, String> {
        self.hears(&request)?;
        self.admit(Instant::now(), &[])?;
        match request {
            CopyRequest::Begin { vote, head } => {
                if let Some(over) = self.refusal(&vote, &head)? {
                    return Ok(over);
                }
                let arrival = Arrival { member: from, vote, head };
                self.copies.begin_arrival(arrival).await.map(CopyResponse::GoesOn)
            }
            CopyRequest::Piece { id, offset, piece } => {
                let written = self.copies.piece_arrived(from, id, offset, piece).await?;
                Ok(CopyResponse::GoesOn(written))
            }
            CopyRequest::End { vote, id, digest } => {
                if let Some(over) = self.deposed(&vote) {
                    return Ok(over);
                }
                let meta = self.copies.arrived(from, vote, id, digest).await?;
                let snapshot = Snapshot { meta, snapshot: SnapshotFile::Received(id) };
                let installed = self.engine.install_full_snapshot(vote, snapshot).await;
                let installed = installed.map_err(|fatal| self.ended(&fatal))?;
                Ok(CopyResponse::Over(installed.vote))
            }
        }
    }

    /// What is to be said of a copy that is announced, if it is not to come.
    fn refusal(&self, vote: &Vote, head: &CopyHead) -> Result<Option<CopyResponse>, String> {
        if let Some(over) = self.deposed(vote) {
            return Ok(Some(over));
        }
        if let Some(lsn) = self.shared.diverged() {
            // To be looked at, not to be healed unseen.
            return Err(format!(
                "the data of this member are not those of the cluster, from change {} on or \
                 earlier: it is to be made anew",
                lsn.0
            ));
        }
        if head.mark.position.term > vote.leader_id.term {
            return Err("the copy is of a later term than whoever sends it".to_owned());
        }
        let metrics = self.engine.metrics().borrow_watched().clone();
        let applied = metrics.last_applied.map_or(0, |id| place(&id).index);
        // It came before, and its sender did not hear.
        Ok((head.mark.position.index <= applied).then_some(CopyResponse::Over(*vote)))
    }

    /// The vote here, if it is a later one.
    fn deposed(&self, vote: &Vote) -> Option<CopyResponse> {
        let own = self.engine.metrics().borrow_watched().vote;
        (own > *vote).then_some(CopyResponse::Over(own))
    }
}
