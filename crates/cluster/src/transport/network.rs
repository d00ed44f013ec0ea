//! The engine's requests to one node.
//!
//! Invariant: appends of one stream are written in order, many at a time, and their outcomes are
//! given in that order.
//! Invariant: heartbeats and votes never wait behind entries.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use openraft::alias::SnapshotOf;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{RPCOption, RPCTypes};
use openraft::raft::{SnapshotResponse, StreamAppendError, StreamAppendResult};
use openraft::{OptionalSend, RaftNetworkV2};
use tokio::time::Instant;

use super::claim;
use super::confirmed::Confirmed;
use super::connection::{CONNECT_MAX_MS, Call, CallError};
use super::frame::{APPEND_MAX_BYTES, Kind, Purpose, SMALL_MAX_BYTES};
use super::link::Link;
use super::peers::Links;
use super::snapshot::{Sending, Wire};
use super::{
    AppendRequest, AppendResponse, TransferRequest, TransferResponse, VoteRequest, VoteResponse,
    codec,
};
use crate::asks::ASK_STATUS;
use crate::copies::{Copies, DiskRoom};
use crate::entry::Malformed;
use crate::report::MemberReport;
use crate::types::{LogId, SnapshotFile, Types, Vote};

/// The most appends that wait for their responses on one connection.
pub const APPENDS_IN_FLIGHT_MAX: usize = 32;
/// The most octets in them, in bytes, if more than one.
pub const APPENDS_IN_FLIGHT_MAX_BYTES: usize = 16 << 20;
/// How long entries may wait for the disk of the other node, in milliseconds; heartbeats, votes
/// and connecting have the engine's deadlines, which are much shorter.
pub const LOG_RESPONSE_MAX_MS: u64 = 10_000;
/// How long a node may take to say what room its disk has, before a copy is made for it, in
/// milliseconds.
const ROOM_ASK_MAX_MS: u64 = 2_000;

type RecordOutcome = Result<StreamAppendResult<Types>, RPCError<Types>>;

/// The engine's requests to one node.
pub struct PeerNetwork {
    wanted: Wanted,
    appends: Arc<Link>,
    votes: Arc<Link>,
    copying: Arc<Link>,
    asks: Arc<Link>,
    confirmed: Arc<Confirmed>,
    copies: Option<Arc<Copies>>,
}

/// For errors, who asked whom.
#[derive(Clone, Copy)]
struct Wanted {
    own: u64,
    node: u64,
}

impl PeerNetwork {
    /// Appends go by `appends`, all else as `links` say.
    pub(crate) fn new(own: u64, node: u64, appends: Arc<Link>, links: Links) -> Self {
        let Links { votes, copying, asks, confirmed, .. } = links;
        let wanted = Wanted { own, node };
        Self { wanted, appends, votes, copying, asks, confirmed, copies: None }
    }

    /// Copies of the data are these.
    pub(crate) fn with_copies(self, copies: Option<Arc<Copies>>) -> Self {
        Self { copies, ..self }
    }

    /// What the node says of its disk; none where it does not say.
    async fn room(&self) -> Option<DiskRoom> {
        let deadline = Instant::now() + Duration::from_millis(ROOM_ASK_MAX_MS);
        let connection = self.asks.connection(deadline).await.ok()?;
        let mut call = connection.begin(Kind::Ask, vec![ASK_STATUS], deadline).await.ok()?;
        let octets = call.response(deadline).await.ok()?;
        DiskRoom::of(&MemberReport::decode(&octets)?)
    }

    /// Sends a small request, and waits for its response.
    async fn call(
        &self,
        kind: Kind,
        body: Vec<u8>,
        option: &RPCOption,
    ) -> Result<Vec<u8>, RPCError<Types>> {
        let limit = option.soft_ttl();
        let deadline = Instant::now() + limit;
        let action = match kind {
            Kind::Transfer => RPCTypes::TransferLeader,
            _ => RPCTypes::Vote,
        };
        let connection = self.votes.connection(deadline).await.map_err(unreachable)?;
        let failed = |error| self.wanted.failed(action, limit, error);
        let mut call = connection.begin(kind, body, deadline).await.map_err(failed)?;
        call.response(deadline).await.map_err(failed)
    }
}

impl RaftNetworkV2<Types> for PeerNetwork {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendResponse, RPCError<Types>> {
        let last = last(&request);
        let mut pipeline = Pipeline::new(self, stream::iter([request]), option);
        match pipeline.next().await {
            None => Err(malformed(Malformed("an append has no outcome"))),
            Some(outcome) => Ok(match outcome? {
                Ok(reached) if reached == last => AppendResponse::Success,
                Ok(reached) => AppendResponse::PartialSuccess(reached),
                Err(StreamAppendError::Conflict(_)) => AppendResponse::Conflict,
                Err(StreamAppendError::HigherVote(vote)) => AppendResponse::HigherVote(vote),
            }),
        }
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, RecordOutcome>, RPCError<Types>>>
    where
        S: Stream<Item = AppendRequest> + OptionalSend + Unpin + 'static,
    {
        let pipeline = Pipeline::new(self, input, option);
        let outcomes = stream::unfold(pipeline, |mut pipeline| async move {
            let outcome = pipeline.next().await?;
            Some((outcome, pipeline))
        });
        let outcomes: BoxStream<'s, RecordOutcome> = Box::pin(outcomes);
        Box::pin(std::future::ready(Ok(outcomes)))
    }

    async fn vote(
        &mut self,
        request: VoteRequest,
        option: RPCOption,
    ) -> Result<VoteResponse, RPCError<Types>> {
        let octets = self.call(Kind::Vote, codec::encode_vote_request(&request), &option).await?;
        vote_response(&octets, &request.vote)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest,
        option: RPCOption,
    ) -> Result<VoteResponse, RPCError<Types>> {
        let body = codec::encode_vote_request(&request);
        let octets = self.call(Kind::PreVote, body, &option).await?;
        vote_response(&octets, &request.vote)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let failed = |reason| StreamingError::Unreachable(Unreachable::from_string(reason));
        let copies = self.copies.as_ref();
        let copies = copies.ok_or_else(|| failed("no copies are sent here".to_owned()))?;
        let limit = option.soft_ttl().max(Duration::from_millis(CONNECT_MAX_MS));
        let carrier = Wire::open(&self.copying, limit).await.map_err(failed)?;
        let (member, room) = (self.wanted.node, self.room().await);
        Sending { copies, member, vote, room, carrier }.run(snapshot, cancel).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferRequest,
        option: RPCOption,
    ) -> Result<TransferResponse, RPCError<Types>> {
        let octets = self.call(Kind::Transfer, codec::encode_transfer(&request), &option).await?;
        codec::decode_transfer_response(&octets).map_err(malformed)
    }
}

/// Appends that are on their way, oldest first.
struct Pipeline<S> {
    wanted: Wanted,
    link: Arc<Link>,
    confirmed: Arc<Confirmed>,
    input: S,
    /// For connecting.
    limit: Duration,
    /// For a response.
    response_limit: Duration,
    in_flight: VecDeque<InFlight>,
    octets: usize,
    is_input_over: bool,
    is_over: bool,
}

struct InFlight {
    call: Call,
    vote: Vote,
    prev: Option<LogId>,
    /// The last of the entries that were sent.
    last: Option<LogId>,
    octets: usize,
    deadline: Instant,
}

enum Event {
    Request(Option<AppendRequest>),
    Response(Result<Vec<u8>, CallError>),
}

impl<S: Stream<Item = AppendRequest> + Unpin> Pipeline<S> {
    fn new(network: &PeerNetwork, input: S, option: RPCOption) -> Self {
        let limit = option.soft_ttl();
        let response_limit = match network.appends.purpose() {
            Purpose::Log => limit.max(Duration::from_millis(LOG_RESPONSE_MAX_MS)),
            Purpose::Votes | Purpose::Asks | Purpose::Copies => limit,
        };
        Self {
            wanted: network.wanted,
            link: Arc::clone(&network.appends),
            confirmed: Arc::clone(&network.confirmed),
            input,
            limit,
            response_limit,
            in_flight: VecDeque::new(),
            octets: 0,
            is_input_over: false,
            is_over: false,
        }
    }

    /// The outcome of the next append; after one that is not a success there is none.
    async fn next(&mut self) -> Option<RecordOutcome> {
        while !self.is_over {
            let outcome = match self.event().await? {
                Event::Request(None) => {
                    self.is_input_over = true;
                    continue;
                }
                Event::Request(Some(request)) => match self.send(request).await {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Event::Response(response) => self.outcome(response),
            };
            self.is_over |= !matches!(outcome, Ok(Ok(_)));
            return Some(outcome);
        }
        None
    }

    /// What happens next, none when nothing more will. Loses nothing when it is dropped.
    async fn event(&mut self) -> Option<Event> {
        let is_full = self.in_flight.len() >= APPENDS_IN_FLIGHT_MAX
            || self.octets >= APPENDS_IN_FLIGHT_MAX_BYTES;
        let wants_more = !self.is_input_over && (self.in_flight.is_empty() || !is_full);
        match (self.in_flight.front_mut(), wants_more) {
            (None, false) => None,
            (None, true) => Some(Event::Request(self.input.next().await)),
            (Some(first), false) => {
                Some(Event::Response(first.call.response(first.deadline).await))
            }
            (Some(first), true) => tokio::select! {
                biased;
                response = first.call.response(first.deadline) => Some(Event::Response(response)),
                request = self.input.next() => Some(Event::Request(request)),
            },
        }
    }

    async fn send(&mut self, request: AppendRequest) -> Result<(), RPCError<Types>> {
        let now = Instant::now();
        let max_bytes = match self.link.purpose() {
            Purpose::Log => APPEND_MAX_BYTES,
            Purpose::Votes | Purpose::Asks | Purpose::Copies => SMALL_MAX_BYTES,
        };
        let encoded = codec::encode_append(&request, max_bytes);
        if encoded.entries == 0 && !request.entries.is_empty() {
            return Err(malformed(Malformed("an entry is longer than a frame may be")));
        }
        let kept = request.entries.get(..encoded.entries).unwrap_or_default();
        let last = kept.last().map(|entry| entry.log_id).or(request.prev_log_id);
        // What was left out comes again, in another stream.
        self.is_input_over |= kept.len() < request.entries.len();
        let octets = encoded.octets.len();
        let connecting = self.link.connection(now + self.limit).await;
        let connection = connecting.map_err(unreachable)?;
        let deadline = Instant::now() + self.response_limit;
        let call = connection.begin(Kind::Append, encoded.octets, deadline).await;
        let call = call.map_err(|error| self.failed(error))?;
        self.octets += octets;
        let (vote, prev) = (request.vote, request.prev_log_id);
        self.in_flight.push_back(InFlight { call, vote, prev, last, octets, deadline });
        Ok(())
    }

    fn outcome(&mut self, response: Result<Vec<u8>, CallError>) -> RecordOutcome {
        let first = self.in_flight.pop_front();
        let first = first.ok_or_else(|| malformed(Malformed("a response to no append")))?;
        self.octets -= first.octets;
        if self.link.purpose() == Purpose::Log
            && matches!(response, Err(CallError::TimedOut { .. }))
        {
            // What comes behind it would wait as long.
            first.call.close("no response to an append in time");
        }
        let octets = response.map_err(|error| self.failed(error))?;
        match codec::decode_append_response(&octets).map_err(malformed)? {
            AppendResponse::Success => {
                self.confirmed.note(&first.vote, first.last);
                Ok(Ok(first.last))
            }
            AppendResponse::PartialSuccess(reached) => {
                self.is_over |= reached != first.last;
                self.confirmed.note(&first.vote, reached);
                Ok(Ok(reached))
            }
            AppendResponse::Conflict => match first.prev {
                Some(prev) if self.confirmed.has_lost(&first.vote, prev, self.wanted.node) => {
                    Err(unreachable("it has lost what it had confirmed".to_owned()))
                }
                Some(prev) => Ok(Err(StreamAppendError::Conflict(prev))),
                None => Err(malformed(Malformed("a conflict with what is before everything"))),
            },
            AppendResponse::HigherVote(vote) => {
                claim::check_answer(&first.vote, &vote).map_err(malformed)?;
                Ok(Err(StreamAppendError::HigherVote(vote)))
            }
        }
    }

    fn failed(&self, error: CallError) -> RPCError<Types> {
        self.wanted.failed(RPCTypes::AppendEntries, self.response_limit, error)
    }
}

impl Wanted {
    fn failed(self, action: RPCTypes, timeout: Duration, error: CallError) -> RPCError<Types> {
        match error {
            CallError::TimedOut { .. } => {
                RPCError::Timeout(Timeout { action, id: self.own, target: self.node, timeout })
            }
            CallError::Broken { reason, .. } => {
                RPCError::Network(NetworkError::from_string(reason))
            }
            // The engine there has stopped: trying again at once would not help.
            CallError::Failed(reason) => unreachable(reason),
        }
    }
}

/// Reads what a request with the vote `own` was answered.
fn vote_response(octets: &[u8], own: &Vote) -> Result<VoteResponse, RPCError<Types>> {
    let response = codec::decode_vote_response(octets).map_err(malformed)?;
    claim::check_answer(own, &response.vote).map_err(malformed)?;
    Ok(response)
}

fn last(request: &AppendRequest) -> Option<LogId> {
    request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id)
}

fn unreachable(reason: String) -> RPCError<Types> {
    RPCError::Unreachable(Unreachable::from_string(reason))
}

fn malformed(error: Malformed) -> RPCError<Types> {
    RPCError::Unreachable(Unreachable::from_string(error.0))
}
