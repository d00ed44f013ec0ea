//! How much of the log is kept for members that fall behind.
//!
//! Invariant: what is purged is in the database, and at least so many bytes were written behind it.

use std::collections::VecDeque;

/// Into so many parts what is kept is divided: so exact is the bound.
const PARTS: u64 = 64;

/// Remembers where the log was when how much had been written.
#[derive(Debug)]
pub(super) struct Retention {
    keep_bytes: u64,
    /// Indexes up to which the database was durable, and the bytes that were written then.
    points: VecDeque<(u64, u64)>,
}

impl Retention {
    /// Keeps at least `keep_bytes` that were written, or all.
    pub(super) const fn new(keep_bytes: u64) -> Self {
        Self { keep_bytes, points: VecDeque::new() }
    }

    /// Up to which index the log may be purged, now that the database is durable up to `flushed`
    /// and `written` bytes were written in all; none if no further than before.
    pub(super) fn purge_upto(&mut self, flushed: u64, written: u64) -> Option<u64> {
        let last = self.points.back().map(|(_, bytes)| *bytes);
        if last.is_none_or(|last| written >= last + self.keep_bytes / PARTS) {
            self.points.push_back((flushed, written));
        }
        let mut upto = None;
        while let Some((index, bytes)) = self.points.front().copied()
            && bytes + self.keep_bytes < written
        {
            upto = Some(index);
            self.points.pop_front();
        }
        upto
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_may_need_is_kept_and_no_more_than_a_part_beyond_it() {
        let keep = 6_400;
        let mut retention = Retention::new(keep);
        let mut purged = 0;
        for index in 1..=10_000 {
            // Ten bytes an entry.
            if let Some(upto) = retention.purge_upto(index, index * 10) {
                assert!(upto > purged, "it goes forward");
                purged = upto;
            }
            let kept = (index - purged) * 10;
            assert!(purged == 0 || kept > keep, "{kept} bytes are kept at {index}");
            assert!(kept <= keep + 2 * keep / PARTS, "{kept} bytes are kept at {index}");
            assert!(retention.points.len() as u64 <= PARTS + 2);
        }
        assert!(purged > 9_000);
    }
}
