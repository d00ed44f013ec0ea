//! Frames: what goes over a connection between nodes after the greeting.
//!
//! A frame is the length of its body (four octets), its kind (one), the number of the request
//! (four) and the body; everything is little-endian.
//!
//! Invariant: the length is compared with the limit of the kind before anything is allocated.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};

use crate::copies::COPY_PIECE_BYTES;

/// The longest append, in bytes: more than one read of the log returns with its longest record.
pub const APPEND_MAX_BYTES: usize = 32 << 20;
/// The longest ask and the longest response to one, in bytes: more than an LDAP message may have.
pub const ASK_MAX_BYTES: usize = 20 << 20;
/// The longest message about a copy, in bytes: a piece of it and what precedes that.
pub const COPY_MAX_BYTES: usize = COPY_PIECE_BYTES + 64;
/// The longest frame of another kind, in bytes.
pub const SMALL_MAX_BYTES: usize = 4 << 10;
/// The longest text of a failure, in bytes.
pub(crate) const FAILURE_MAX_BYTES: usize = 1 << 10;
/// Octets before the body.
pub(crate) const HEAD_BYTES: usize = 9;
/// What is read from the stream at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// What a connection is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Purpose {
    /// Heartbeats, votes and transfers of the lead, which must not wait behind anything.
    Votes = 1,
    /// Entries of the log.
    Log = 2,
    /// Octets for the handler of requests.
    Asks = 3,
    /// Copies of the data.
    Copies = 4,
}

impl Purpose {
    pub(crate) const ALL: &[Self] = &[Self::Votes, Self::Log, Self::Asks, Self::Copies];

    pub(crate) fn numbered(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|purpose| *purpose as u8 == number)
    }
}

/// What a frame is; a response has the highest bit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    Append = 0x01,
    Vote = 0x02,
    PreVote = 0x03,
    Transfer = 0x04,
    Ask = 0x05,
    Copy = 0x06,
    AppendResponse = 0x81,
    VoteResponse = 0x82,
    PreVoteResponse = 0x83,
    TransferResponse = 0x84,
    AskResponse = 0x85,
    CopyResponse = 0x86,
    /// The response to a request that could not be answered: UTF-8 text.
    Failure = 0xff,
}

impl Kind {
    const ALL: &[Self] = &[
        Self::Append,
        Self::Vote,
        Self::PreVote,
        Self::Transfer,
        Self::Ask,
        Self::Copy,
        Self::AppendResponse,
        Self::VoteResponse,
        Self::PreVoteResponse,
        Self::TransferResponse,
        Self::AskResponse,
        Self::CopyResponse,
        Self::Failure,
    ];

    fn numbered(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == number)
    }

    pub(crate) fn is_request(self) -> bool {
        (self as u8) < 0x80
    }

    /// What answers a request of this kind, if it is answered as asked.
    pub(crate) fn response(self) -> Self {
        match self {
            Self::Append | Self::AppendResponse => Self::AppendResponse,
            Self::Vote | Self::VoteResponse => Self::VoteResponse,
            Self::PreVote | Self::PreVoteResponse => Self::PreVoteResponse,
            Self::Transfer | Self::TransferResponse => Self::TransferResponse,
            Self::Ask | Self::AskResponse => Self::AskResponse,
            Self::Copy | Self::CopyResponse => Self::CopyResponse,
            Self::Failure => Self::Failure,
        }
    }

    /// The longest body on a connection for `purpose`, in bytes; none when the kind has no
    /// business there.
    pub(crate) fn max_bytes(self, purpose: Purpose) -> Option<usize> {
        match (self, purpose) {
            (Self::Failure, _) => Some(FAILURE_MAX_BYTES),
            (Self::Append, Purpose::Log) => Some(APPEND_MAX_BYTES),
            (Self::AppendResponse, Purpose::Log) => Some(SMALL_MAX_BYTES),
            (Self::Ask | Self::AskResponse, Purpose::Asks) => Some(ASK_MAX_BYTES),
            (Self::Copy, Purpose::Copies) => Some(COPY_MAX_BYTES),
            (Self::CopyResponse, Purpose::Copies) => Some(SMALL_MAX_BYTES),
            (
                Self::Ask | Self::AskResponse | Self::Copy | Self::CopyResponse,
                Purpose::Votes | Purpose::Log | Purpose::Asks | Purpose::Copies,
            ) => None,
            // An append without entries is a heartbeat.
            (_, Purpose::Votes) => Some(SMALL_MAX_BYTES),
            (_, Purpose::Log | Purpose::Asks | Purpose::Copies) => None,
        }
    }
}

/// One frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Chosen by who asks; the response bears it, too.
    pub(crate) number: u32,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// A failure with its reason, cut to what a frame may hold.
    pub(crate) fn failure(number: u32, reason: &str) -> Self {
        let end = reason.floor_char_boundary(FAILURE_MAX_BYTES);
        let body = reason.get(..end).unwrap_or_default().as_bytes().to_vec();
        Self { kind: Kind::Failure, number, body }
    }

    /// What precedes the body; none when the body is too long for `purpose`.
    pub(crate) fn head(&self, purpose: Purpose) -> Option<[u8; HEAD_BYTES]> {
        let is_short = self.kind.max_bytes(purpose).is_some_and(|max| self.body.len() <= max);
        let length = u32::try_from(self.body.len()).ok().filter(|_| is_short)?;
        let mut head = [0; HEAD_BYTES];
        let (first, rest) = head.split_at_mut(4);
        let (kind, number) = rest.split_at_mut(1);
        first.copy_from_slice(&length.to_le_bytes());
        kind.fill(self.kind as u8);
        number.copy_from_slice(&self.number.to_le_bytes());
        Some(head)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) length: usize,
}

/// Reads the head of a frame that comes over a connection for `purpose`.
pub(crate) fn read_head(octets: [u8; HEAD_BYTES], purpose: Purpose) -> Result<Head, &'static str> {
    let [l0, l1, l2, l3, kind, n0, n1, n2, n3] = octets;
    let kind = Kind::numbered(kind).ok_or("a frame is of no known kind")?;
    let max = kind.max_bytes(purpose).ok_or("a frame has no business on this connection")?;
    let length = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    if length > max {
        return Err("a frame is longer than its kind may be");
    }
    Ok(Head { kind, number: u32::from_le_bytes([n0, n1, n2, n3]), length })
}

/// Reads frames from a stream.
pub(crate) struct FrameReader<R> {
    stream: BufReader<R>,
    purpose: Purpose,
    head: Vec<u8>,
    body: Option<(Head, Vec<u8>)>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(stream: R, purpose: Purpose) -> Self {
        let stream = BufReader::with_capacity(READ_BYTES, stream);
        Self { stream, purpose, head: Vec::with_capacity(HEAD_BYTES), body: None }
    }

    /// The next frame, none at the end of the stream. Nothing is lost when the future is dropped
    /// and made anew.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some((head, mut body)) =
                self.body.take_if(|(head, body)| body.len() == head.length)
            {
                body.shrink_to(head.length);
                return Ok(Some(Frame { kind: head.kind, number: head.number, body }));
            }
            let (missing, into) = match &mut self.body {
                None => (HEAD_BYTES - self.head.len(), &mut self.head),
                Some((head, body)) => (head.length - body.len(), body),
            };
            let limit = u64::try_from(missing).unwrap_or(u64::MAX);
            if (&mut self.stream).take(limit).read_buf(into).await? == 0 {
                let is_between = self.body.is_none() && self.head.is_empty();
                return if is_between {
                    Ok(None)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
            self.begin_body()?;
        }
    }

    fn begin_body(&mut self) -> io::Result<()> {
        if self.body.is_none()
            && let Ok(head) = <[u8; HEAD_BYTES]>::try_from(&*self.head)
        {
            let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
            let head = read_head(head, self.purpose).map_err(invalid)?;
            self.head.clear();
            self.body = Some((head, Vec::with_capacity(head.length)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
