//! Takes the messages that other members send, whatever carried them.

use std::sync::Arc;

use openraft::errors::{Fatal, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use tokio::time::Instant;

use crate::machine::Engine;
use crate::shared::Shared;
use crate::types::Types;

/// Takes the messages of other members; clones are the same.
#[derive(Clone)]
pub struct MemberReceiver {
    engine: Engine,
    shared: Arc<Shared>,
}

impl MemberReceiver {
    pub(crate) const fn new(engine: Engine, shared: Arc<Shared>) -> Self {
        Self { engine, shared }
    }

    /// Entries, or a heartbeat.
    ///
    /// # Errors
    /// When the engine ended.
    pub async fn append(
        &self,
        request: AppendEntriesRequest<Types>,
    ) -> Result<AppendEntriesResponse<Types>, RaftError<Types>> {
        let began = Instant::now();
        let response = self.engine.append_entries(request).await?;
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.shared.heard(began);
        }
        Ok(response)
    }

    /// A candidate asks for the vote.
    ///
    /// # Errors
    /// When the engine ended.
    pub async fn vote(
        &self,
        request: VoteRequest<Types>,
    ) -> Result<VoteResponse<Types>, RaftError<Types>> {
        self.engine.vote(request).await
    }

    /// A server asks whether it would get the vote.
    ///
    /// # Errors
    /// When the engine ended.
    pub async fn pre_vote(
        &self,
        request: VoteRequest<Types>,
    ) -> Result<VoteResponse<Types>, RaftError<Types>> {
        self.engine.pre_vote(request).await
    }

    /// The leader hands the lead over.
    ///
    /// # Errors
    /// When the engine ended.
    pub async fn transfer(
        &self,
        request: TransferLeaderRequest<Types>,
    ) -> Result<TransferLeaderResponse<Types>, Fatal<Types>> {
        self.engine.handle_transfer_leader(request).await
    }
}
