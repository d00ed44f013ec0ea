//! What a run tells in the end: sums, and for each fault the times without a write, as a table for
//! `docs/performance.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fault::Fault;

/// Sums over all rounds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Rounds that went well.
    pub rounds: u64,
    /// Writes acknowledged, all of which were found.
    pub acknowledged: u64,
    /// Writes without an answer, or with one that does not tell what became of them.
    pub unknown: u64,
    /// Writes that were answered with unavailable or busy, or that there is no room.
    pub unavailable: u64,
    /// Writes that were refused for another reason, all on purpose.
    pub refused: u64,
    /// Entries that each node has of the clients.
    pub entries: u64,
    /// Entries that the clients have deleted again.
    pub deleted: u64,
    /// The longest times without an acknowledged write, one of each round.
    pub gaps: BTreeMap<Fault, Vec<Duration>>,
    /// Writes acknowledged in the rounds of each fault.
    pub written: BTreeMap<Fault, u64>,
    /// How long other things took.
    pub times: BTreeMap<String, Vec<Duration>>,
    /// How often something happened that is right either way.
    pub counts: BTreeMap<String, u64>,
    /// How much of something there was.
    pub sums: BTreeMap<String, u64>,
}

impl Totals {
    pub(super) fn took(&mut self, what: &str, time: Duration) {
        self.times.entry(what.to_owned()).or_default().push(time);
    }

    pub(super) fn count(&mut self, what: String) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, what: &str, count: u64) {
        *self.sums.entry(what.to_owned()).or_default() += count;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, unknown, unavailable, refused, entries, deleted, .. } =
            self;
        writeln!(
            f,
            "{rounds} rounds: {acknowledged} writes acknowledged and all on every node, {unknown} \
             unknown, {unavailable} unavailable or busy, {refused} refused, {entries} \
             entries, {deleted} deleted again\n"
        )?;
        writeln!(f, "| fault | rounds | acknowledged | lost | median | p99 | longest |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|---:|")?;
        for (fault, gaps) in &self.gaps {
            let written = self.written.get(fault).copied().unwrap_or_default();
            // With one that is lost there is no table.
            writeln!(f, "| {fault} | {} | {written} | 0 | {} |", gaps.len(), Spread::of(gaps))?;
        }
        for (what, times) in &self.times {
            writeln!(f, "| {what} | {} | | | {} |", times.len(), Spread::of(times))?;
        }
        writeln!(f, "\nThe times are those without an acknowledged write, but where it is said.")?;
        for (what, count) in &self.counts {
            writeln!(f, "{what}: {count} times")?;
        }
        for (what, sum) in &self.sums {
            writeln!(f, "{what}: {sum}")?;
        }
        Ok(())
    }
}

/// Median, 99th percentile and the longest of times.
struct Spread([Duration; 3]);

impl Spread {
    fn of(times: &[Duration]) -> Self {
        let mut sorted = times.to_vec();
        sorted.sort();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(rank).copied().unwrap_or_default()
        };
        Self([at(50), at(99), at(100)])
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([median, p99, longest]) = self;
        let ms = Duration::as_millis;
        write!(f, "{} ms | {} ms | {} ms", ms(median), ms(p99), ms(longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::fault::Victim;

    #[test]
    fn each_fault_has_a_row() {
        let mut totals = Totals::default();
        let fault = Fault::Pause(Victim::Leader);
        totals.gaps.insert(fault, (1..=200).rev().map(Duration::from_millis).collect());
        totals.written.insert(fault, 7);
        totals.took("a start", Duration::from_millis(5));
        let text = totals.to_string();
        let row = "| pause leader | 200 | 7 | 0 | 100 ms | 198 ms | 200 ms |";
        assert!(text.lines().any(|line| line == row), "{text}");
        assert!(text.contains("| a start | 1 | | | 5 ms | 5 ms | 5 ms |"), "{text}");
    }
}
