//! Comparing the states of the members: each asks the others for the digests of theirs, now and
//! then, and compares those after the same record.
//!
//! A member whose state is not that of a majority is out: its state machine is told, and its
//! engine ends. Where no majority agrees, nobody knows who is right, and all of them say so.
//!
//! Invariant: a member compares what it has itself with what it hears; it believes nobody who says
//! that it is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use history::log::{Difference, MemberState, StateMachine};
use store::{DIGESTS_KEPT_MAX, Digest, DigestPoint, Lsn};
use tokio::time::{sleep, timeout};

use crate::asks::{ASK_DIGESTS, ask_all};
use crate::engine::LogHandle;
use crate::errands::Errands;
use crate::machine::Engine;
use crate::transport::Peers;

/// How long another member may take to tell its digests.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long the engine is not ended for the sake of what is to be kept of a difference.
const KEEP_MAX: Duration = Duration::from_secs(5);

/// What compares.
pub(crate) struct Comparing {
    pub(crate) id: u64,
    pub(crate) every: Duration,
    pub(crate) peers: Peers,
    pub(crate) state: Arc<dyn StateMachine>,
    pub(crate) errands: Errands,
    pub(crate) log: LogHandle,
    pub(crate) engine: Engine,
}

impl Comparing {
    /// Until this member is found to differ, or its future is dropped.
    pub(crate) async fn run(self) {
        let mut told = None;
        loop {
            sleep(self.every).await;
            let members = self.log.status().members;
            let is_voter = |state: &MemberState| matches!(state, MemberState::Voter);
            let voters = members.iter().filter(|one| is_voter(&one.state)).map(|one| one.id);
            let voters: BTreeSet<u64> = voters.collect();
            let read = |octets: &[u8]| Some(decode(octets));
            let said = ask_all(&self.peers, &members, ASK_DIGESTS, ANSWER_MAX, read).await;
            let said =
                said.into_iter().filter_map(|(id, points)| points.map(|points| (id, points)));
            let mut heard: BTreeMap<u64, Vec<DigestPoint>> = said.collect();
            heard.insert(self.id, self.state.digests());
            match judge(self.id, &voters, &heard) {
                Judgement::Unknown => {}
                Judgement::Alike(lsn) => {
                    self.log.found_alike(lsn);
                    told = None;
                }
                Judgement::Apart { difference, odd: Odd::Here } => {
                    self.log.found_apart(&difference);
                    return self.leave(difference).await;
                }
                Judgement::Apart { difference, odd } => {
                    self.log.found_apart(&difference);
                    // Once, until something else is found.
                    if told.as_ref() != Some(&difference) {
                        say(&difference, &odd);
                        told = Some(difference);
                    }
                }
            }
        }
    }

    /// Nothing is answered from this state any more, nor is it part of a majority.
    async fn leave(&self, difference: Difference) {
        let reason = format!("the data of this member are not those of the others: {difference}");
        let state = Arc::clone(&self.state);
        self.log.found_diverged(difference.lsn);
        self.log.fail(reason);
        // What was found is kept, which takes a disk; it need not answer.
        let _ = timeout(KEEP_MAX, self.errands.run(move || state.differs(&difference))).await;
        let _ = self.engine.shutdown().await;
    }
}

fn say(difference: &Difference, odd: &Odd) {
    match odd {
        Odd::Elsewhere(members) => {
            tracing::error!(?members, %difference, "the data of other members are others");
        }
        Odd::Here | Odd::Unclear => {
            tracing::error!(
                %difference,
                "the members have different data, and no majority agrees: stop the cluster, and \
                 compare them"
            );
        }
    }
}

/// What follows from the digests of all that were heard.
#[derive(Debug, Eq, PartialEq)]
enum Judgement {
    /// No two of them tell of the same record.
    Unknown,
    /// Wherever several tell of the same record, they have the same; the last such record.
    Alike(Lsn),
    Apart {
        difference: Difference,
        odd: Odd,
    },
}

/// Who has not what a majority has.
#[derive(Debug, Eq, PartialEq)]
enum Odd {
    Here,
    Elsewhere(Vec<u64>),
    /// No majority has the same.
    Unclear,
}

fn judge(id: u64, voters: &BTreeSet<u64>, heard: &BTreeMap<u64, Vec<DigestPoint>>) -> Judgement {
    let mut after: BTreeMap<Lsn, Vec<(u64, DigestPoint)>> = BTreeMap::new();
    for (member, points) in heard {
        for point in points {
            after.entry(point.lsn).or_default().push((*member, *point));
        }
    }
    let (mut same, mut unclear) = (None, None);
    for (lsn, points) in after.into_iter().filter(|(_, points)| points.len() > 1) {
        let mut rest = points.iter().map(|(_, point)| *point);
        let first = rest.next();
        if rest.all(|point| Some(point) == first) {
            same = Some(lsn);
            continue;
        }
        let odd = odd(id, voters, &points);
        let difference = Difference { same: same.unwrap_or_default(), lsn, points };
        if odd != Odd::Unclear {
            return Judgement::Apart { difference, odd };
        }
        // A majority may speak of a later record.
        unclear.get_or_insert(Judgement::Apart { difference, odd });
    }
    if let Some(unclear) = unclear {
        return unclear;
    }
    same.map_or(Judgement::Unknown, Judgement::Alike)
}

/// Who is not of the majority that has the same.
fn odd(id: u64, voters: &BTreeSet<u64>, points: &[(u64, DigestPoint)]) -> Odd {
    let is_most = |point: &DigestPoint| {
        let alike =
            points.iter().filter(|(member, other)| voters.contains(member) && other == point);
        2 * alike.count() > voters.len()
    };
    let others: Vec<u64> =
        points.iter().filter(|(_, point)| !is_most(point)).map(|(member, _)| *member).collect();
    if others.len() == points.len() {
        Odd::Unclear
    } else if others.contains(&id) {
        Odd::Here
    } else {
        Odd::Elsewhere(others)
    }
}

/// The octets of digests: the number of the record, the running hash and the digest of each.
pub(crate) fn encode(points: &[DigestPoint]) -> Vec<u8> {
    let mut out = Vec::with_capacity(points.len() * POINT_BYTES);
    for DigestPoint { lsn, hash, digest } in points {
        out.extend_from_slice(&lsn.0.to_le_bytes());
        out.extend_from_slice(&hash.to_le_bytes());
        out.extend_from_slice(&digest.number().to_le_bytes());
    }
    out
}

/// Reads them; of more than there can be, the first, and only as long as they are of ever later
/// records: a member has one voice for each.
fn decode(octets: &[u8]) -> Vec<DigestPoint> {
    let (points, _) = octets.as_chunks::<POINT_BYTES>();
    let mut last = None;
    let points = points.iter().take(DIGESTS_KEPT_MAX + 1).filter_map(point);
    points.take_while(|point| last.replace(point.lsn).is_none_or(|last| last < point.lsn)).collect()
}

fn point(octets: &[u8; POINT_BYTES]) -> Option<DigestPoint> {
    let (lsn, rest) = octets.split_first_chunk()?;
    let (hash, rest) = rest.split_first_chunk()?;
    let digest = Digest::from_number(u128::from_le_bytes(*rest.first_chunk()?));
    Some(DigestPoint {
        lsn: Lsn(u64::from_le_bytes(*lsn)),
        hash: u64::from_le_bytes(*hash),
        digest,
    })
}

const POINT_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(lsn: u64, digest: u128) -> DigestPoint {
        DigestPoint { lsn: Lsn(lsn), hash: lsn, digest: Digest::from_number(digest) }
    }

    fn judged(id: u64, voters: u64, heard: &[(u64, &[DigestPoint])]) -> Judgement {
        let heard = heard.iter().map(|(member, points)| (*member, points.to_vec())).collect();
        judge(id, &(1..=voters).collect(), &heard)
    }

    #[test]
    fn what_is_after_the_same_record_is_compared() {
        let (early, late) = (point(4096, 1), point(8192, 2));
        assert_eq!(judged(1, 3, &[(1, &[early])]), Judgement::Unknown);
        assert_eq!(judged(1, 3, &[(1, &[early]), (2, &[late])]), Judgement::Unknown);
        let alike = judged(1, 3, &[(1, &[early, late, point(9000, 3)]), (2, &[early, late])]);
        assert_eq!(alike, Judgement::Alike(Lsn(8192)));
    }

    #[test]
    fn who_has_not_what_a_majority_has_is_out() {
        let (early, mine, theirs) = (point(4096, 1), point(8192, 2), point(8192, 3));
        let heard: [(u64, &[_]); 3] = [(1, &[early, mine]), (2, &[early, theirs]), (3, &[theirs])];
        let points = vec![(1, mine), (2, theirs), (3, theirs)];
        let difference = Difference { same: Lsn(4096), lsn: Lsn(8192), points };
        let apart = |odd| Judgement::Apart { difference: difference.clone(), odd };
        assert_eq!(judged(1, 3, &heard), apart(Odd::Here));
        assert_eq!(judged(2, 3, &heard), apart(Odd::Elsewhere(vec![1])));
        // Two of five are no majority.
        assert_eq!(judged(1, 5, &heard), apart(Odd::Unclear));
        // Nor are a voter and a learner of three voters and it.
        let heard: [(u64, &[_]); 3] = [(1, &[mine]), (2, &[theirs]), (4, &[theirs])];
        assert!(matches!(judged(1, 3, &heard), Judgement::Apart { odd: Odd::Unclear, .. }));
    }

    #[test]
    fn another_running_hash_is_a_difference_too() {
        let other = DigestPoint { hash: 7, ..point(4096, 1) };
        let judged = judged(3, 3, &[(1, &[point(4096, 1)]), (2, &[point(4096, 1)]), (3, &[other])]);
        assert!(matches!(judged, Judgement::Apart { odd: Odd::Here, .. }));
    }

    #[test]
    fn the_first_record_with_a_difference_counts() {
        let one = [point(4096, 1), point(8192, 2), point(12_288, 3)];
        let other = [point(4096, 1), point(8192, 9), point(12_288, 3)];
        let Judgement::Apart { difference, odd } = judged(1, 2, &[(1, &one), (2, &other)]) else {
            panic!("they differ");
        };
        assert_eq!((difference.same, difference.lsn, odd), (Lsn(4096), Lsn(8192), Odd::Unclear));
    }

    #[test]
    fn a_difference_that_is_clear_later_counts() {
        let (early, late) = (point(4096, 1), point(8192, 2));
        let (odd_early, odd_late) = (point(4096, 8), point(8192, 9));
        // Member 3 was not there at the first.
        let heard: [(u64, &[_]); 3] =
            [(1, &[odd_early, odd_late]), (2, &[early, late]), (3, &[late])];
        let Judgement::Apart { difference, odd } = judged(1, 3, &heard) else {
            panic!("they differ");
        };
        assert_eq!((difference.lsn, odd), (Lsn(8192), Odd::Here));
    }

    #[test]
    fn digests_are_read_as_they_were_written() {
        let points = [point(4096, u128::MAX - 5), point(u64::MAX, 7)];
        let octets = encode(&points);
        assert_eq!(decode(&octets), points);
        assert_eq!(decode(&octets[..63]), points[..1]);
        let many: Vec<DigestPoint> = (1..=500).map(|lsn| point(lsn, 1)).collect();
        assert_eq!(decode(&encode(&many)).len(), DIGESTS_KEPT_MAX + 1);
        // A member that says something twice does not count twice.
        assert_eq!(decode(&encode(&[point(7, 1), point(7, 1), point(9, 1)])), [point(7, 1)]);
        assert_eq!(decode(&encode(&[point(7, 1), point(6, 1)])), [point(7, 1)]);
    }
}
