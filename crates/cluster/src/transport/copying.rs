//! What members say to each other about a copy of the data; `docs/cluster-protocol.md` has the
//! forms.
//!
//! Invariant: what a peer sends is checked as a whole before anything is done with it.

use store::{CopyHead, LogPosition, Lsn, Mark};

use super::claim::{Request, term_of};
use crate::copies::{COPY_PIECE_BYTES, Piece};
use crate::entry::{self, Malformed, Octets, VOTE_BYTES};
use crate::types::Vote;

/// What whoever leads sends.
pub enum CopyRequest {
    /// A copy is to come.
    Begin {
        /// As whom, and in which term.
        vote: Vote,
        /// What it is.
        head: CopyHead,
    },
    /// A piece of it.
    Piece {
        /// Of which copy.
        id: [u8; 16],
        /// Where it begins.
        offset: u64,
        /// The octets, with their sum.
        piece: Piece,
    },
    /// It is there.
    End {
        /// As whom, and in which term.
        vote: Vote,
        /// Which copy.
        id: [u8; 16],
        /// The SHA-256 of all of it.
        digest: [u8; 32],
    },
}

/// What it is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CopyResponse {
    /// So many octets are there: it goes on behind them.
    GoesOn(u64),
    /// It is in place, or not needed, or whoever sends it does not lead any more: the vote here.
    Over(Vote),
}

const BEGIN: u8 = 1;
const PIECE: u8 = 2;
const END: u8 = 3;
const GOES_ON: u8 = 1;
const OVER: u8 = 2;

impl CopyRequest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Begin { vote, head } => {
                out.push(BEGIN);
                out.extend_from_slice(&entry::encode_vote(vote));
                put_head(&mut out, head);
            }
            Self::Piece { id, offset, piece } => {
                out.reserve_exact(1 + 16 + 8 + 4 + piece.octets.len());
                out.push(PIECE);
                out.extend_from_slice(id);
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(&piece.sum.to_le_bytes());
                out.extend_from_slice(&piece.octets);
            }
            Self::End { vote, id, digest } => {
                out.push(END);
                out.extend_from_slice(&entry::encode_vote(vote));
                out.extend_from_slice(id);
                out.extend_from_slice(digest);
            }
        }
        out
    }

    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut octets = Octets(octets);
        let request = match octets.one()? {
            BEGIN => {
                let vote = agreed(&mut octets)?;
                Self::Begin { vote, head: head(&mut octets)? }
            }
            PIECE => {
                let (id, offset) = (array(&mut octets)?, octets.number()?);
                let sum = u32::from_le_bytes(array(&mut octets)?);
                let length = octets.0.len();
                if length == 0 || length > COPY_PIECE_BYTES {
                    return Err(Malformed("a piece of a copy is empty or too long"));
                }
                let piece = Piece { octets: octets.take(length)?.to_vec(), sum };
                Self::Piece { id, offset, piece }
            }
            END => {
                let vote = agreed(&mut octets)?;
                Self::End { vote, id: array(&mut octets)?, digest: array(&mut octets)? }
            }
            _ => return Err(Malformed("a message about a copy is of no known kind")),
        };
        ends(&octets)?;
        Ok(request)
    }
}

impl CopyResponse {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::GoesOn(written) => {
                out.push(GOES_ON);
                out.extend_from_slice(&written.to_le_bytes());
            }
            Self::Over(vote) => {
                out.push(OVER);
                out.extend_from_slice(&entry::encode_vote(&vote));
            }
        }
        out
    }

    pub(crate) fn decode(octets: &[u8]) -> Result<Self, Malformed> {
        let mut octets = Octets(octets);
        let response = match octets.one()? {
            GOES_ON => Self::GoesOn(octets.number()?),
            OVER => Self::Over(entry::decode_vote(octets.take(VOTE_BYTES)?)?),
            _ => return Err(Malformed("the answer about a copy is of no known kind")),
        };
        ends(&octets)?;
        Ok(response)
    }
}

/// A piece speaks as nobody: it belongs to what was begun over the same connection's member.
impl Request for CopyRequest {
    fn speaker(&self) -> Option<u64> {
        match self {
            Self::Begin { vote, .. } | Self::End { vote, .. } => Some(vote.leader_id.voted_for),
            Self::Piece { .. } => None,
        }
    }

    fn highest_term(&self) -> u64 {
        match self {
            Self::Begin { vote, head } => vote.leader_id.term.max(head.mark.position.term),
            Self::End { vote, .. } => vote.leader_id.term,
            Self::Piece { .. } => term_of(None),
        }
    }
}

fn put_head(out: &mut Vec<u8>, head: &CopyHead) {
    let CopyHead { id, format, bytes, mark } = head;
    out.extend_from_slice(id);
    out.extend_from_slice(&format.to_le_bytes());
    let Mark { lsn, hash, time_us, position } = mark;
    for number in [*bytes, lsn.0, *hash, *time_us, position.term, position.index] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn head(octets: &mut Octets<'_>) -> Result<CopyHead, Malformed> {
    let (id, format) = (array(octets)?, u32::from_le_bytes(array(octets)?));
    let (bytes, lsn) = (octets.number()?, Lsn(octets.number()?));
    let (hash, time_us) = (octets.number()?, octets.number()?);
    let position = LogPosition { term: octets.number()?, index: octets.number()? };
    Ok(CopyHead { id, format, bytes, mark: Mark { lsn, hash, time_us, position } })
}

/// The vote of one who leads, and not of one who would.
fn agreed(octets: &mut Octets<'_>) -> Result<Vote, Malformed> {
    let vote = entry::decode_vote(octets.take(VOTE_BYTES)?)?;
    match vote.committed {
        true => Ok(vote),
        false => Err(Malformed("whoever sends a copy does not lead")),
    }
}

fn array<const N: usize>(octets: &mut Octets<'_>) -> Result<[u8; N], Malformed> {
    octets.take(N)?.try_into().map_err(|_| Octets::SHORT)
}

fn ends(octets: &Octets<'_>) -> Result<(), Malformed> {
    match octets.0 {
        [] => Ok(()),
        _ => Err(Malformed("octets follow a message about a copy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote() -> Vote {
        Vote::new_committed(7, 2)
    }

    fn head() -> CopyHead {
        let position = LogPosition { term: 6, index: 99 };
        let mark = Mark { lsn: Lsn(90), hash: 5, time_us: 8, position };
        CopyHead { id: [3; 16], format: 3, bytes: 1 << 33, mark }
    }

    fn requests() -> Vec<CopyRequest> {
        let piece = Piece { octets: vec![1, 2, 3], sum: 77 };
        vec![
            CopyRequest::Begin { vote: vote(), head: head() },
            CopyRequest::Piece { id: [3; 16], offset: 1 << 20, piece },
            CopyRequest::End { vote: vote(), id: [3; 16], digest: [4; 32] },
        ]
    }

    #[test]
    fn messages_read_back_the_same_and_are_whole() {
        for request in requests() {
            let octets = request.encode();
            assert_eq!(CopyRequest::decode(&octets).unwrap().encode(), octets);
            let is_piece = matches!(request, CopyRequest::Piece { .. });
            for end in 0..octets.len() {
                let is_read = CopyRequest::decode(&octets[..end]).is_ok();
                // What a piece holds is as long as the frame is.
                assert_eq!(is_read, is_piece && end > 29, "{end}");
            }
            if !is_piece {
                let longer: Vec<u8> = octets.iter().copied().chain([0]).collect();
                assert!(CopyRequest::decode(&longer).is_err());
            }
        }
        for response in [CopyResponse::GoesOn(4), CopyResponse::Over(vote())] {
            let octets = response.encode();
            assert_eq!(CopyResponse::decode(&octets), Ok(response));
            assert!(CopyResponse::decode(&octets[1..]).is_err());
        }
    }

    #[test]
    fn who_does_not_lead_sends_no_copy() {
        let vote = Vote::new(7, 2);
        let begin = CopyRequest::Begin { vote, head: head() }.encode();
        assert!(CopyRequest::decode(&begin).is_err());
        let end = CopyRequest::End { vote, id: [3; 16], digest: [4; 32] }.encode();
        assert!(CopyRequest::decode(&end).is_err());
    }
}
