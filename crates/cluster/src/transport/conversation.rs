//! One connection of another node, as the accepting side has it.
//!
//! Invariant: requests are handed over in order; each is answered as soon as its response is there.
//! Invariant: the handler gets no request that a member makes in the name of another one.
//! Invariant: nothing is read while too many requests wait, or the peer does not read responses.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufWriter};

use super::connection::{REQUESTS_MAX, within_limit, write_frame};
use super::door::Peer;
use super::frame::{Frame, FrameReader, Kind};
use super::handler::{Handler, Responding};
use super::{CopyRequest, CopyResponse, claim, codec};
use crate::entry::Malformed;

/// The most octets of requests of one connection that wait for the handler, in bytes, if more than
/// one.
pub const UNANSWERED_MAX_BYTES: usize = 32 << 20;
/// What is gathered for one write, in bytes.
const WRITE_BYTES: usize = 16 << 10;

/// A response, and the octets of its request.
type Done = (Frame, usize);

pub(crate) struct Conversation<R, W> {
    reader: FrameReader<R>,
    writer: BufWriter<W>,
    handler: Arc<dyn Handler>,
    peer: Peer,
    waiting: FuturesUnordered<BoxFuture<'static, Done>>,
    octets: usize,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Conversation<R, W> {
    pub(crate) fn new(read: R, write: W, handler: Arc<dyn Handler>, peer: Peer) -> Self {
        Self {
            reader: FrameReader::new(read, peer.purpose),
            writer: BufWriter::with_capacity(WRITE_BYTES, write),
            handler,
            peer,
            waiting: FuturesUnordered::new(),
            octets: 0,
        }
    }

    /// Answers until the peer closes the connection.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        loop {
            let has_room = self.waiting.is_empty()
                || (self.waiting.len() < REQUESTS_MAX && self.octets < UNANSWERED_MAX_BYTES);
            tokio::select! {
                biased;
                Some(done) = self.waiting.next(), if !self.waiting.is_empty() => {
                    self.respond(done).await?;
                }
                frame = self.reader.next(), if has_room => match frame? {
                    None => return Ok(()),
                    Some(frame) => self.begin(frame).await?,
                },
            }
        }
    }

    /// Hands a request over.
    async fn begin(&mut self, frame: Frame) -> io::Result<()> {
        let octets = frame.body.len();
        let invalid = |error: Malformed| io::Error::new(io::ErrorKind::InvalidData, error.0);
        let mut response = self.response(frame, octets).map_err(invalid)?;
        self.octets += octets;
        // Polled here and now: the handler sees requests in the order in which they came.
        let polled = poll_fn(|context| Poll::Ready(response.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(done) => self.respond(done).await,
            Poll::Pending => {
                self.waiting.push(response);
                Ok(())
            }
        }
    }

    /// Writes a response, and those that are there by now.
    async fn respond(&mut self, first: Done) -> io::Result<()> {
        let mut next = Some(first);
        while let Some((mut frame, octets)) = next {
            self.octets -= octets;
            if frame.head(self.peer.purpose).is_none() {
                frame = Frame::failure(frame.number, "the response is too long");
            }
            write_frame(&mut self.writer, &frame, self.peer.purpose).await?;
            next = self.waiting.next().now_or_never().flatten();
        }
        within_limit(self.writer.flush()).await
    }

    fn response(&self, frame: Frame, octets: usize) -> Result<BoxFuture<'static, Done>, Malformed> {
        let (handler, from) = (&self.handler, self.peer.node);
        let term = handler.term();
        let Frame { kind, number, body } = frame;
        Ok(match kind {
            Kind::Append => {
                let request = claim::checked(from, term, codec::decode_append(&body)?)?;
                let response = handler.append(from, request);
                framed(kind, number, octets, response, |it| codec::encode_append_response(&it))
            }
            Kind::Vote => {
                let request = claim::checked(from, term, codec::decode_vote_request(&body)?)?;
                let response = handler.vote(from, request);
                framed(kind, number, octets, response, |it| codec::encode_vote_response(&it))
            }
            Kind::PreVote => {
                let request = claim::checked(from, term, codec::decode_vote_request(&body)?)?;
                let response = handler.pre_vote(from, request);
                framed(kind, number, octets, response, |it| codec::encode_vote_response(&it))
            }
            Kind::Transfer => {
                let request = claim::checked(from, term, codec::decode_transfer(&body)?)?;
                let response = handler.transfer(from, request);
                framed(kind, number, octets, response, |it| codec::encode_transfer_response(&it))
            }
            Kind::Copy => {
                let request = claim::checked(from, term, CopyRequest::decode(&body)?)?;
                let response = handler.copy(from, request);
                framed(kind, number, octets, response, CopyResponse::encode)
            }
            Kind::Ask => framed(kind, number, octets, handler.ask(from, body), |it| it),
            Kind::AppendResponse
            | Kind::VoteResponse
            | Kind::PreVoteResponse
            | Kind::TransferResponse
            | Kind::AskResponse
            | Kind::CopyResponse
            | Kind::Failure => return Err(Malformed("a response came where requests come")),
        })
    }
}

fn framed<T: 'static>(
    kind: Kind,
    number: u32,
    octets: usize,
    response: Responding<T>,
    encode: impl FnOnce(T) -> Vec<u8> + Send + 'static,
) -> BoxFuture<'static, Done> {
    Box::pin(async move {
        let frame = match response.await {
            Ok(response) => Frame { kind: kind.response(), number, body: encode(response) },
            Err(reason) => Frame::failure(number, &reason),
        };
        (frame, octets)
    })
}
