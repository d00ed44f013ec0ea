//! Any messages about a copy, as the receiver takes them: for fuzz targets.
//!
//! Invariant: what is received is never longer than was announced, and never taken for whole unless
//! it is, octet by octet, what was sent.

use std::sync::{Arc, Mutex};

use history::log::{ApplyError, CopyIntake};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::arrival::{Arrival, Arriving};
use super::lock;
use crate::transport::CopyRequest;

/// The longest copy that there is room for, in bytes.
const ROOM_BYTES: u64 = 1 << 16;

/// Takes `octets` for messages about copies, each with its length in two octets before it, and
/// gives them to a receiver. A sum or a digest of zeros stands for the right one.
///
/// # Panics
/// When the receiver does what it must never do.
pub(crate) fn check(octets: &[u8]) {
    let disk = Arc::<Mutex<Vec<u8>>>::default();
    let mut arriving = Arriving::new(Instant::now());
    let (mut rest, mut member, mut of_bytes) = (octets, 0, 0);
    while let Some((length, more)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(more.len());
        let (message, more) = more.split_at(length);
        rest = more;
        match CopyRequest::decode(message) {
            Err(_) => {}
            Ok(CopyRequest::Begin { vote, head }) => {
                let arrival = Arrival { member: vote.leader_id.voted_for, vote, head };
                let place = Intake { disk: Arc::clone(&disk), of_bytes: head.bytes };
                let begun = arriving.begin(|_| place.begin(), arrival, Instant::now());
                if begun.is_ok() {
                    (member, of_bytes) = (arrival.member, head.bytes);
                }
            }
            Ok(CopyRequest::Piece { id, offset, mut piece }) => {
                if piece.sum == 0 {
                    piece.sum = crc32c::crc32c(&piece.octets);
                }
                let before = lock(&disk).clone();
                match arriving.piece(member, &id, offset, &piece) {
                    Ok(written) => {
                        assert_eq!(written, offset + piece.octets.len() as u64);
                        assert_eq!(*lock(&disk), [before, piece.octets].concat());
                    }
                    Err(_) => assert_eq!(*lock(&disk), before),
                }
            }
            Ok(CopyRequest::End { vote, id, mut digest }) => {
                let found: [u8; 32] = Sha256::digest(&*lock(&disk)).into();
                if digest == [0; 32] {
                    digest = found;
                }
                if arriving.finish(member, &vote, &id, &digest).is_ok() {
                    assert_eq!((lock(&disk).len() as u64, digest), (of_bytes, found));
                }
            }
        }
        let there = arriving.progress().map(|it| (it.bytes, it.bytes <= it.of_bytes));
        assert!(there.is_none_or(|it| it == (lock(&disk).len() as u64, true)));
    }
}

/// Keeps what comes in memory.
struct Intake {
    disk: Arc<Mutex<Vec<u8>>>,
    of_bytes: u64,
}

impl Intake {
    fn begin(self) -> Result<Box<dyn CopyIntake>, ApplyError> {
        if self.of_bytes > ROOM_BYTES {
            return Err(ApplyError::Store(store::StoreError::Full));
        }
        // Another one begins anew: nothing says here of which copy it is.
        lock(&self.disk).clear();
        Ok(Box::new(self))
    }
}

impl CopyIntake for Intake {
    fn written(&self) -> u64 {
        lock(&self.disk).len() as u64
    }

    fn write(&mut self, octets: &[u8]) -> Result<(), ApplyError> {
        let mut disk = lock(&self.disk);
        if (disk.len() + octets.len()) as u64 > self.of_bytes {
            return Err(ApplyError::Store(store::StoreError::Full));
        }
        disk.extend_from_slice(octets);
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), ApplyError> {
        let disk = lock(&self.disk);
        let from = usize::try_from(offset).ok().and_then(|at| disk.get(at..at + into.len()));
        into.copy_from_slice(from.ok_or(ApplyError::Store(store::StoreError::Full))?);
        Ok(())
    }

    fn clear(&mut self) -> Result<(), ApplyError> {
        lock(&self.disk).clear();
        Ok(())
    }

    /// Who takes part is read of what came.
    fn finish(self: Box<Self>) -> Result<Vec<u8>, ApplyError> {
        Ok(lock(&self.disk).clone())
    }
}

#[cfg(test)]
mod tests {
    use store::{CopyHead, Mark};

    use super::*;
    use crate::copies::Piece;
    use crate::types::Vote;

    #[test]
    fn a_copy_that_comes_to_its_end_is_looked_at() {
        let vote = Vote::new_committed(7, 2);
        let head = CopyHead { id: [3; 16], format: 3, bytes: 5, mark: Mark::default() };
        let piece = Piece { octets: vec![1, 2, 3, 4, 5], sum: 0 };
        let messages = [
            CopyRequest::Begin { vote, head },
            CopyRequest::Piece { id: head.id, offset: 0, piece },
            CopyRequest::End { vote, id: head.id, digest: [0; 32] },
        ];
        let octets = messages.iter().flat_map(|message| {
            let octets = message.encode();
            let length = u16::try_from(octets.len()).unwrap();
            length.to_le_bytes().into_iter().chain(octets)
        });
        check(&octets.collect::<Vec<_>>());
    }
}
