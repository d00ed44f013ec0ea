//! Sending a copy of the data to another member.
//!
//! Invariant: never on a connection that heartbeats, votes or entries use.
//! Invariant: each wait has an end, and what is sent in a second has a limit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use openraft::OptionalSend;
use openraft::alias::SnapshotOf;
use openraft::errors::{ReplicationClosed, StreamingError, Unreachable};
use openraft::raft::SnapshotResponse;
use tokio::time::{Instant, sleep_until};

use super::connection::{Call, Connection};
use super::frame::Kind;
use super::link::Link;
use super::{CopyRequest, CopyResponse};
use crate::copies::{Copies, DiskRoom, Lease, NoCopy};
use crate::types::{SnapshotFile, Types, Vote};

/// How long a piece of a copy may take, from the queue here to the disk there, in milliseconds.
pub const COPY_PIECE_MAX_MS: u64 = 30_000;
/// How long the beginning and the end of a copy may take, in milliseconds: all that is there is
/// read once.
pub const COPY_ENDS_MAX_MS: u64 = 600_000;
/// Pieces that are on their way.
const PIECES_IN_FLIGHT: usize = 4;
/// A member that took no copy is not sent one for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(2);

/// What carries messages about a copy to one member.
pub(crate) trait Carrier: Send + Sync {
    /// A message on its way.
    type Sent: Send;

    /// Sends a message behind those before, which must have arrived by `deadline`.
    fn send(
        &self,
        request: CopyRequest,
        deadline: Instant,
    ) -> impl Future<Output = Result<Self::Sent, String>> + Send;

    /// Waits for the answer to it.
    fn response(
        &self,
        sent: Self::Sent,
        deadline: Instant,
    ) -> impl Future<Output = Result<CopyResponse, String>> + Send;
}

/// A copy to a member, over `carrier`.
pub(crate) struct Sending<'s, C> {
    pub(crate) copies: &'s Arc<Copies>,
    pub(crate) member: u64,
    pub(crate) vote: Vote,
    /// What the member says of its disk, if it does.
    pub(crate) room: Option<DiskRoom>,
    pub(crate) carrier: C,
}

impl<C: Carrier> Sending<'_, C> {
    /// Sends a copy that is no older than `snapshot`, until `cancel` says otherwise.
    pub(crate) async fn run(
        self,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sent = async {
            let sent = self.send(&snapshot).await;
            match &sent {
                Ok(_) => self.copies.got_on(self.member),
                Err(why) => {
                    self.copies.failed(self.member, why.clone());
                    sleep_until(Instant::now() + REFUSED_PAUSE).await;
                }
            }
            sent
        };
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sent => match sent {
                Ok(vote) => Ok(SnapshotResponse { vote }),
                Err(why) => {
                    Err(StreamingError::Unreachable(Unreachable::from_string(why.reason())))
                }
            },
        }
    }

    async fn send(&self, snapshot: &SnapshotOf<Types, SnapshotFile>) -> Result<Vote, NoCopy> {
        let lease = self.copies.lend(self.member, &snapshot.meta, self.room).await?;
        let head = *lease.copy.head();
        let begin = CopyRequest::Begin { vote: self.vote, head };
        let offset = match self.ask(begin).await? {
            CopyResponse::Over(vote) => {
                if vote == self.vote {
                    self.copies.was_there(self.member, &head.id);
                }
                return Ok(vote);
            }
            CopyResponse::GoesOn(written) if written <= head.bytes => written,
            CopyResponse::GoesOn(_) => return Err(NoCopy::Other(BEYOND.to_owned())),
        };
        tracing::info!(
            member = self.member,
            bytes = head.bytes,
            from = offset,
            lsn = head.mark.lsn.0,
            "a member that lacks what the log no longer has is sent a copy of the data"
        );
        self.pieces(&lease, offset).await?;
        let (vote, id, digest) = (self.vote, head.id, lease.digest().await?);
        match self.ask(CopyRequest::End { vote, id, digest }).await? {
            CopyResponse::Over(vote) => {
                tracing::info!(member = self.member, "the copy of the data is in place");
                Ok(vote)
            }
            CopyResponse::GoesOn(_) => Err(NoCopy::Other(BEYOND.to_owned())),
        }
    }

    /// Sends the pieces from `offset` on.
    async fn pieces(&self, lease: &Lease, mut offset: u64) -> Result<(), String> {
        lease.note(offset);
        let mut in_flight = VecDeque::new();
        let (limit, mut due) = (Duration::from_millis(COPY_PIECE_MAX_MS), Instant::now());
        let id = lease.copy.head().id;
        while let Some(piece) = lease.piece(offset).await? {
            sleep_until(due).await;
            let length = piece.octets.len() as u64;
            due = due.max(Instant::now()) + self.takes(length);
            let deadline = Instant::now() + limit;
            let request = CopyRequest::Piece { id, offset, piece };
            offset += length;
            let sent = self.carrier.send(request, deadline).await?;
            in_flight.push_back(InFlight { sent, end: offset, deadline });
            if in_flight.len() >= PIECES_IN_FLIGHT
                && let Some(first) = in_flight.pop_front()
            {
                self.arrived(lease, first).await?;
            }
        }
        for one in in_flight {
            self.arrived(lease, one).await?;
        }
        Ok(())
    }

    async fn arrived(&self, lease: &Lease, one: InFlight<C::Sent>) -> Result<(), String> {
        let InFlight { sent, end, deadline } = one;
        match self.carrier.response(sent, deadline).await? {
            CopyResponse::GoesOn(written) if written == end => {
                lease.note(written);
                Ok(())
            }
            CopyResponse::GoesOn(_) | CopyResponse::Over(_) => Err(BEYOND.to_owned()),
        }
    }

    async fn ask(&self, request: CopyRequest) -> Result<CopyResponse, String> {
        let deadline = Instant::now() + Duration::from_millis(COPY_ENDS_MAX_MS);
        let sent = self.carrier.send(request, deadline).await?;
        self.carrier.response(sent, deadline).await
    }

    /// How long so many octets take at the rate that is allowed.
    fn takes(&self, bytes: u64) -> Duration {
        let rate = self.copies.rate_bytes.max(1);
        Duration::from_micros(bytes.saturating_mul(1_000_000) / rate)
    }
}

/// A piece on its way.
struct InFlight<S> {
    sent: S,
    /// Where it ends.
    end: u64,
    deadline: Instant,
}

/// A connection of its own kind.
pub(crate) struct Wire(Arc<Connection>);

impl Wire {
    /// Connects within `limit`.
    pub(crate) async fn open(link: &Arc<Link>, limit: Duration) -> Result<Self, String> {
        link.connection(Instant::now() + limit).await.map(Self)
    }
}

impl Carrier for Wire {
    type Sent = Call;

    async fn send(&self, request: CopyRequest, deadline: Instant) -> Result<Call, String> {
        let call = self.0.begin(Kind::Copy, request.encode(), deadline).await;
        call.map_err(|error| error.to_string())
    }

    async fn response(&self, mut sent: Call, deadline: Instant) -> Result<CopyResponse, String> {
        let octets = sent.response(deadline).await.map_err(|error| error.to_string())?;
        CopyResponse::decode(&octets).map_err(|malformed| malformed.0.to_owned())
    }
}

const BEYOND: &str = "the other member answers something else than what it was sent";
