//! Whether a member has room for a copy of the data, and why one does not get there.
//!
//! Invariant: the log speaks once of a disk without room, until a copy goes on; of other reasons it
//! speaks once a minute, since it is tried again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use store::{COPY_LEAVES_BYTES, Gib};
use tokio::time::Instant;

use crate::report::MemberReport;
use crate::unsaid::Unsaid;

/// For so long the last reason is told, if no other comes: it is tried again much sooner.
const REASON_KEPT_FOR: Duration = Duration::from_secs(60);

/// What a member says of the disk that a copy is to come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DiskRoom {
    free_bytes: u64,
    /// Octets of a copy that are there: the next one goes on behind them, or takes their place.
    received_bytes: u64,
}

impl DiskRoom {
    /// None where it does not say, or has not looked yet.
    pub(crate) fn of(report: &MemberReport) -> Option<Self> {
        let free_bytes = report.facts.as_ref()?.disk_free_bytes;
        let received_bytes = report.copy.map_or(0, |(bytes, _)| bytes);
        (free_bytes > 0).then_some(Self { free_bytes, received_bytes })
    }

    /// Whether there is room for a copy that is so long.
    pub(super) fn take(self, member: u64, copy_bytes: u64) -> Result<(), NoCopy> {
        let needed = copy_bytes.saturating_add(COPY_LEAVES_BYTES);
        let free = self.free_bytes.saturating_add(self.received_bytes);
        if free >= needed {
            return Ok(());
        }
        Err(NoCopy::NoRoom(format!(
            "the disk of member {member} has {} left, and a copy of the data takes {}, of which a \
             little stays free: make room there, and it goes on by itself",
            Gib(free),
            Gib(needed)
        )))
    }
}

/// Why there is no copy for a member for the moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NoCopy {
    /// A disk has no room for it, here or there: a sentence for the operator.
    NoRoom(String),
    /// Anything else that may pass.
    Other(String),
}

impl NoCopy {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::NoRoom(reason) | Self::Other(reason) => reason,
        }
    }
}

impl From<String> for NoCopy {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

/// Why copies do not get where they should, for each other member.
#[derive(Default)]
pub(super) struct Hindrances {
    by_member: BTreeMap<u64, (NoCopy, Instant)>,
    unsaid: Unsaid,
}

impl Hindrances {
    /// A copy did not get to `member`, or none from it.
    pub(super) fn note(&mut self, member: u64, why: NoCopy, now: Instant) {
        let before = self.by_member.get(&member);
        let is_told = before
            .is_some_and(|(before, at)| matches!(before, NoCopy::NoRoom(_)) && is_recent(*at, now));
        match &why {
            NoCopy::NoRoom(reason) => {
                if !is_told {
                    tracing::warn!(member, reason, "a copy of the data has no room");
                }
            }
            // What follows from it says less.
            NoCopy::Other(_) if is_told => return,
            NoCopy::Other(reason) => {
                if let Some(count) = self.unsaid.due(now) {
                    tracing::warn!(member, count, reason, "a copy of the data did not get there");
                }
            }
        }
        self.by_member.insert(member, (why, now));
    }

    /// A copy gets on.
    pub(super) fn clear(&mut self, member: u64) {
        self.by_member.remove(&member);
    }

    /// A sentence for each member of whom there is a reason now.
    pub(super) fn sentences(&self, now: Instant) -> Vec<String> {
        let recent = self.by_member.iter().filter(|(_, (_, at))| is_recent(*at, now));
        let tell = |(member, (why, _)): (&u64, &(NoCopy, Instant))| {
            format!(
                "no copy of the data gets between this member and member {member}: {}",
                why.reason()
            )
        };
        recent.map(tell).collect()
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < REASON_KEPT_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MemberFacts;

    fn room(free_bytes: u64, copy: Option<(u64, u64)>) -> Option<DiskRoom> {
        let facts = Some(MemberFacts { disk_free_bytes: free_bytes, ..MemberFacts::default() });
        DiskRoom::of(&MemberReport { facts, copy, ..MemberReport::default() })
    }

    #[test]
    fn a_copy_takes_its_length_and_leaves_some() {
        const MIB: u64 = 1 << 20;
        assert_eq!(DiskRoom::of(&MemberReport::default()), None, "an earlier release");
        assert_eq!(room(0, None), None, "it has not looked yet");
        let copy_bytes = 1000 * MIB;
        let takes = |room: Option<DiskRoom>| room.unwrap().take(3, copy_bytes).is_ok();
        assert!(takes(room(1064 * MIB, None)));
        assert!(!takes(room(1063 * MIB, None)));
        assert!(takes(room(64 * MIB, Some((copy_bytes, copy_bytes)))), "most of it is there");
        let refused = room(512 * MIB, None).unwrap().take(3, copy_bytes).unwrap_err();
        assert!(
            refused.reason().starts_with(
                "the disk of member 3 has 0.50 GiB left, and a copy of the data takes 1.03 GiB"
            ),
            "{refused:?}"
        );
    }

    #[test]
    fn a_reason_is_told_until_a_copy_gets_on_or_nobody_asks_for_one() {
        let (mut hindrances, now) = (Hindrances::default(), Instant::now());
        hindrances.note(3, NoCopy::NoRoom("no room".to_owned()), now);
        hindrances.note(2, NoCopy::Other("away".to_owned()), now);
        assert_eq!(hindrances.sentences(now).len(), 2);
        hindrances.note(3, NoCopy::Other("a piece does not follow".to_owned()), now);
        hindrances.clear(2);
        assert!(hindrances.sentences(now)[0].contains("member 3: no room"));
        assert!(hindrances.sentences(now + REASON_KEPT_FOR).is_empty());
    }
}
