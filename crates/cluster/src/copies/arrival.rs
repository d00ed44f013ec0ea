//! The copy that is being received.
//!
//! Invariant: one at a time, of whoever leads in the latest term that was heard of.
//! Invariant: a piece is written only where the last one ended, and its sum is right; what is
//! handed on is what was sent, octet by octet.

use history::log::{ApplyError, CopyIntake, StateMachine};
use sha2::{Digest as _, Sha256};
use store::{CopyHead, StoreError};
use tokio::time::Instant;

use super::{ARRIVAL_KEPT_FOR, COPY_PIECE_BYTES, CopyProgress, NoCopy, Piece};
use crate::memberships::Memberships;
use crate::types::{SnapshotMeta, Vote};

/// A copy that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Who sends it.
    pub(crate) member: u64,
    /// In which term it leads.
    pub(crate) vote: Vote,
    pub(crate) head: CopyHead,
}

/// What is received, if anything is.
pub(super) struct Arriving {
    now: Option<Open>,
    /// When something came last.
    last: Instant,
    /// Whether anything may lie on the disk.
    has_remains: bool,
}

struct Open {
    arrival: Arrival,
    intake: Box<dyn CopyIntake>,
    hash: Sha256,
    written: u64,
}

impl Arriving {
    pub(super) fn new(now: Instant) -> Self {
        Self { now: None, last: now, has_remains: true }
    }

    pub(super) fn progress(&self) -> Option<CopyProgress> {
        let open = self.now.as_ref()?;
        let Arrival { member, head, .. } = open.arrival;
        Some(CopyProgress { member, bytes: open.written, of_bytes: head.bytes })
    }

    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.has_remains && now.saturating_duration_since(self.last) >= ARRIVAL_KEPT_FOR
    }

    /// Nothing more comes.
    pub(super) fn give_up(&mut self, state: &dyn StateMachine) {
        self.now = None;
        self.has_remains = false;
        state.drop_received();
    }

    pub(super) fn begin(
        &mut self,
        receive: impl FnOnce(&CopyHead) -> Result<Box<dyn CopyIntake>, ApplyError>,
        arrival: Arrival,
        now: Instant,
    ) -> Result<u64, NoCopy> {
        self.last = now;
        if let Some(open) = &mut self.now {
            if arrival.vote < open.arrival.vote {
                return Err(other("a copy comes from whoever leads in a later term"));
            }
            if open.arrival.head == arrival.head && open.arrival.member == arrival.member {
                open.arrival.vote = arrival.vote;
                return Ok(open.written);
            }
        }
        self.now = None;
        self.has_remains = true;
        let mut intake = receive(&arrival.head).map_err(not_received)?;
        let written = intake.written();
        let hash = match hash_of(&*intake, written) {
            Ok(hash) => hash,
            Err(_) => {
                intake.clear().map_err(not_received)?;
                Sha256::new()
            }
        };
        let Arrival { member, head, .. } = arrival;
        let written = intake.written();
        tracing::info!(
            member,
            bytes = head.bytes,
            received_bytes = written,
            lsn = head.mark.lsn.0,
            "this member lacks what the log no longer has: a copy of the data comes"
        );
        self.now = Some(Open { arrival, intake, hash, written });
        Ok(written)
    }

    pub(super) fn piece(
        &mut self,
        member: u64,
        id: &[u8; 16],
        offset: u64,
        piece: &Piece,
    ) -> Result<u64, NoCopy> {
        let open = self.open(member, id)?;
        if offset != open.written || piece.octets.len() > COPY_PIECE_BYTES {
            let reason = format!("a piece does not follow: {} bytes are there", open.written);
            return Err(NoCopy::Other(reason));
        }
        if crc32c::crc32c(&piece.octets) != piece.sum {
            return Err(other("a piece was damaged on its way"));
        }
        open.intake.write(&piece.octets).map_err(not_received)?;
        open.hash.update(&piece.octets);
        open.written = open.intake.written();
        let written = open.written;
        self.last = Instant::now();
        Ok(written)
    }

    pub(super) fn finish(
        &mut self,
        member: u64,
        vote: &Vote,
        id: &[u8; 16],
        digest: &[u8; 32],
    ) -> Result<SnapshotMeta, NoCopy> {
        let open = self.open(member, id)?;
        if *vote < open.arrival.vote {
            return Err(other("it was begun in a later term"));
        }
        let head = open.arrival.head;
        if open.written != head.bytes {
            let reason = format!("{} bytes of {} are there", open.written, head.bytes);
            return Err(NoCopy::Other(reason));
        }
        let found: [u8; 32] = open.hash.clone().finalize().into();
        if found != *digest {
            // What lies there is of no use.
            open.hash = Sha256::new();
            open.intake.clear().map_err(not_received)?;
            open.written = 0;
            return Err(other("the copy is not what was sent"));
        }
        let Some(Open { intake, .. }) = self.now.take() else { return Err(other(OTHER)) };
        let membership = intake.finish().map_err(not_received)?;
        let memberships = Memberships::decode(&membership).map_err(|error| other(error.0))?;
        Ok(memberships.meta(head.mark.position))
    }

    fn open(&mut self, member: u64, id: &[u8; 16]) -> Result<&mut Open, NoCopy> {
        let is_it = |open: &&mut Open| open.arrival.member == member && open.arrival.head.id == *id;
        self.now.as_mut().filter(is_it).ok_or_else(|| other(OTHER))
    }
}

/// The digest of what is there of a copy.
fn hash_of(intake: &dyn CopyIntake, written: u64) -> Result<Sha256, ApplyError> {
    let (mut hash, mut at) = (Sha256::new(), 0);
    let mut octets = vec![0; COPY_PIECE_BYTES];
    while at < written {
        let length =
            usize::try_from(written - at).map_or(COPY_PIECE_BYTES, |it| it.min(COPY_PIECE_BYTES));
        let part = octets.get_mut(..length).unwrap_or_default();
        intake.read_at(at, part)?;
        hash.update(&*part);
        at += part.len() as u64;
    }
    Ok(hash)
}

/// Why what was to be received is not there.
fn not_received(error: ApplyError) -> NoCopy {
    match error {
        ApplyError::Store(StoreError::NoRoom { .. } | StoreError::Full) => {
            NoCopy::NoRoom(format!("on the disk of whoever receives it, {error}"))
        }
        error => NoCopy::Other(error.to_string()),
    }
}

fn other(reason: &str) -> NoCopy {
    NoCopy::Other(reason.to_owned())
}

const OTHER: &str = "no such copy is being received";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use history::log::StateCopy;
    use history::recovery::StoreMachine;
    use schema::Schema;
    use store::{IndexConfig, Store, StoreOptions};

    use super::*;

    fn machine(directory: &std::path::Path) -> StoreMachine {
        let (options, schema) = (StoreOptions::default(), Schema::builtin());
        let store = Store::create(directory, &options, schema, IndexConfig::none(), &[]).unwrap();
        StoreMachine::new(Arc::new(store))
    }

    fn piece(octets: &[u8]) -> Piece {
        Piece { octets: octets.to_vec(), sum: crc32c::crc32c(octets) }
    }

    fn octets(copy: &dyn StateCopy) -> Vec<u8> {
        let mut octets = vec![0; usize::try_from(copy.head().bytes).unwrap()];
        copy.read_at(0, &mut octets).unwrap();
        octets
    }

    #[test]
    fn what_does_not_belong_to_the_copy_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (machine(&dir.path().join("from")), machine(&dir.path().join("to")));
        let copy = from.copy().unwrap();
        let (head, octets) = (*copy.head(), octets(&*copy));
        let digest: [u8; 32] = Sha256::digest(&octets).into();
        let mut arriving = Arriving::new(Instant::now());
        let vote = Vote::new_committed(7, 2);
        let arrival = Arrival { member: 2, vote, head };
        let now = Instant::now();
        assert!(arriving.piece(2, &head.id, 0, &piece(b"x")).is_err(), "nothing is to come");
        assert_eq!(arriving.begin(|head| to.receive(head), arrival, now), Ok(0));
        let first = piece(&octets[..4096]);
        // Another member, another copy, another place, other octets.
        assert!(arriving.piece(3, &head.id, 0, &first).is_err());
        assert!(arriving.piece(2, &[0; 16], 0, &first).is_err());
        assert!(arriving.piece(2, &head.id, 1, &first).is_err());
        assert!(arriving.piece(2, &head.id, 0, &Piece { sum: 1, ..piece(&octets) }).is_err());
        assert_eq!(arriving.piece(2, &head.id, 0, &first), Ok(4096));
        assert!(arriving.piece(2, &head.id, 0, &first).is_err(), "it comes twice");
        // Begun ten thousand times it is the same.
        for _ in 0..10_000 {
            assert_eq!(arriving.begin(|head| to.receive(head), arrival, now), Ok(4096));
        }
        assert!(arriving.finish(2, &vote, &head.id, &digest).is_err(), "it is not whole");
        let older = Arrival { member: 3, vote: Vote::new_committed(6, 3), head };
        assert!(arriving.begin(|head| to.receive(head), older, now).is_err());
        assert_eq!(arriving.progress().map(|it| (it.member, it.bytes)), Some((2, 4096)));
        assert_eq!(arriving.piece(2, &head.id, 4096, &piece(&octets[4096..])), Ok(head.bytes));
        let more = arriving.piece(2, &head.id, head.bytes, &piece(b"x"));
        assert!(more.is_err(), "more than was announced");
        // A wrong digest: all of it comes again.
        assert!(arriving.finish(2, &vote, &head.id, &[0; 32]).is_err());
        assert_eq!(arriving.begin(|head| to.receive(head), arrival, now), Ok(0));
        // It is gone on with by whoever knows what is there, after a restart of this side.
        assert_eq!(arriving.piece(2, &head.id, 0, &first), Ok(4096));
        let mut arriving = Arriving::new(Instant::now());
        assert_eq!(arriving.begin(|head| to.receive(head), arrival, now), Ok(4096));
        assert_eq!(arriving.piece(2, &head.id, 4096, &piece(&octets[4096..])), Ok(head.bytes));
        let meta = arriving.finish(2, &vote, &head.id, &digest).unwrap();
        assert_eq!(meta.last_log_id, None);
        assert!(arriving.progress().is_none());
        to.install(&head.id).unwrap();
    }

    #[test]
    fn an_endless_copy_has_no_room_and_a_forgotten_one_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (machine(&dir.path().join("from")), machine(&dir.path().join("to")));
        let head = CopyHead { bytes: 1 << 60, ..*from.copy().unwrap().head() };
        let vote = Vote::new_committed(7, 2);
        let (now, mut arriving) = (Instant::now(), Arriving::new(Instant::now()));
        let begun = arriving.begin(|head| to.receive(head), Arrival { member: 2, vote, head }, now);
        assert!(begun.is_err() && arriving.progress().is_none());
        let head = *from.copy().unwrap().head();
        assert_eq!(
            arriving.begin(|head| to.receive(head), Arrival { member: 2, vote, head }, now),
            Ok(0)
        );
        assert!(!arriving.is_stale(now + ARRIVAL_KEPT_FOR - Duration::from_secs(1)));
        assert!(arriving.is_stale(now + ARRIVAL_KEPT_FOR));
        arriving.give_up(&to);
        assert!(!arriving.is_stale(now + 2 * ARRIVAL_KEPT_FOR));
        assert_eq!(std::fs::read_dir(dir.path().join("to/copy")).unwrap().count(), 0);
    }
}
