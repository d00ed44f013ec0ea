//! What one worker counts of what it serves: operations, results, times, octets, connections.
//!
//! Invariant: only the worker's own thread writes its meter, with plain loads and stores: no locked
//! instruction, and no cache line that two workers write. Whoever reads adds the meters up and may
//! see a request in one count and not yet in the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ldap::message::OperationKind;

use super::histogram::{Histogram, Times};
use crate::connection::presence::millis;

/// The counters of one worker. Aligned so that no line of it lies next to another worker's: the
/// processor fetches lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Meter {
    operations: [OperationMeter; OTHER + 1],
    listeners: [ListenerMeter; LISTENERS.len()],
    handshakes: [Own; HANDSHAKES.len()],
    received_bytes: Own,
    sent_bytes: Own,
    entries: Own,
    references: Own,
    /// When the worker last ran, in milliseconds of the directory's clock.
    beat_ms: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            operations: std::array::from_fn(|_| OperationMeter::default()),
            listeners: std::array::from_fn(|_| ListenerMeter::default()),
            handshakes: std::array::from_fn(|_| Own::default()),
            received_bytes: Own::default(),
            sent_bytes: Own::default(),
            entries: Own::default(),
            references: Own::default(),
            beat_ms: AtomicU64::new(0),
        }
    }
}

/// A number that one thread changes and others read.
#[derive(Debug, Default)]
pub(super) struct Own(AtomicU64);

impl Own {
    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct OperationMeter {
    /// By the number of the code; the last one is for all that are larger.
    results: [Own; CODES],
    /// The client wanted no answer any more, or was gone.
    abandoned: Own,
    /// Operations that have no answer.
    unanswered: Own,
    times: Times,
}

impl Default for OperationMeter {
    fn default() -> Self {
        Self {
            results: std::array::from_fn(|_| Own::default()),
            abandoned: Own::default(),
            unanswered: Own::default(),
            times: Times::default(),
        }
    }
}

#[derive(Debug, Default)]
struct ListenerMeter {
    accepted: Own,
    closed: Own,
    refused: Own,
}

/// An operation that is over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// None: the message was no request.
    pub(crate) kind: Option<OperationKind>,
    /// The result code of the answer, if there was one.
    pub(crate) code: Option<u32>,
    /// Nobody got a response.
    pub(crate) is_abandoned: bool,
    pub(crate) elapsed_us: u64,
    /// Octets of the request and of its answers.
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) entries: u32,
    pub(crate) references: u32,
}

impl Meter {
    /// The worker runs now.
    pub(crate) fn beat(&self, now: Duration) {
        self.beat_ms.store(millis(now), Ordering::Relaxed);
    }

    /// How long ago it had one.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        let turned = Duration::from_millis(self.beat_ms.load(Ordering::Relaxed));
        now.saturating_sub(turned)
    }

    /// Counts an operation.
    #[inline]
    pub(crate) fn count(&self, measured: &Measured) {
        let index = measured.kind.map_or(OTHER, |kind| kind as usize);
        let Some(operation) = self.operations.get(index) else { return };
        match measured.code {
            Some(code) => {
                let index = usize::try_from(code).unwrap_or(CODES).min(CODES - 1);
                if let Some(result) = operation.results.get(index) {
                    result.add(1);
                }
                operation.times.record(measured.elapsed_us);
            }
            None if measured.is_abandoned => operation.abandoned.add(1),
            None => operation.unanswered.add(1),
        }
        self.received_bytes.add(measured.received_bytes);
        self.sent_bytes.add(measured.sent_bytes);
        if measured.entries > 0 {
            self.entries.add(u64::from(measured.entries));
        }
        if measured.references > 0 {
            self.references.add(u64::from(measured.references));
        }
    }

    /// A connection was accepted.
    pub(crate) fn accepted(&self, listener: &str) {
        if let Some(listener) = self.listener(listener) {
            listener.accepted.add(1);
        }
    }

    /// One that was accepted is gone.
    pub(crate) fn closed(&self, listener: &str) {
        if let Some(listener) = self.listener(listener) {
            listener.closed.add(1);
        }
    }

    /// One was turned away: there were too many, or its proxy did not say whose it is.
    pub(crate) fn refused(&self, listener: &str) {
        if let Some(listener) = self.listener(listener) {
            listener.refused.add(1);
        }
    }

    /// A TLS handshake ended with this version, or failed.
    pub(crate) fn handshake(&self, version: Option<&str>) {
        let index = version.and_then(|version| HANDSHAKES.iter().position(|one| *one == version));
        let index = index.unwrap_or(HANDSHAKES.len() - 1);
        if let Some(handshakes) = self.handshakes.get(index) {
            handshakes.add(1);
        }
    }

    fn listener(&self, name: &str) -> Option<&ListenerMeter> {
        self.listeners.get(LISTENERS.iter().position(|one| *one == name)?)
    }
}

/// What all workers have counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// In the order of [`operation_names`].
    pub(crate) operations: Vec<OperationSum>,
    /// By [`LISTENERS`].
    pub(crate) listeners: Vec<ListenerSum>,
    /// By [`HANDSHAKES`].
    pub(crate) handshakes: Vec<u64>,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) entries: u64,
    pub(crate) references: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct OperationSum {
    /// By the number of the code.
    pub(crate) results: Vec<u64>,
    pub(crate) abandoned: u64,
    pub(crate) unanswered: u64,
    pub(crate) times: Histogram,
}

impl OperationSum {
    /// All of the kind, however they ended.
    #[cfg(test)]
    pub(crate) fn total(&self) -> u64 {
        self.results.iter().sum::<u64>() + self.abandoned + self.unanswered
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListenerSum {
    pub(crate) accepted: u64,
    pub(crate) closed: u64,
    pub(crate) refused: u64,
}

impl Sum {
    /// Adds the meters up.
    pub(crate) fn of<'m>(meters: impl Iterator<Item = &'m Meter> + Clone) -> Self {
        let sum = |one: &dyn Fn(&'m Meter) -> u64| meters.clone().map(one).sum::<u64>();
        let operation = |index: usize| {
            let each = || meters.clone().filter_map(move |meter| meter.operations.get(index));
            let mut times = Histogram::default();
            each().for_each(|operation| times.add(&operation.times));
            OperationSum {
                results: (0..CODES)
                    .map(|code| {
                        each().filter_map(|one| one.results.get(code)).map(Own::value).sum()
                    })
                    .collect(),
                abandoned: each().map(|one| one.abandoned.value()).sum(),
                unanswered: each().map(|one| one.unanswered.value()).sum(),
                times,
            }
        };
        let listener = |index: usize| {
            let each = || meters.clone().filter_map(move |meter| meter.listeners.get(index));
            // In this order, so that no connection is closed that was not accepted.
            let closed = each().map(|one| one.closed.value()).sum();
            ListenerSum {
                closed,
                accepted: each().map(|one| one.accepted.value()).sum(),
                refused: each().map(|one| one.refused.value()).sum(),
            }
        };
        let handshake = |index: usize| {
            let each = meters.clone().filter_map(move |meter| meter.handshakes.get(index));
            each.map(Own::value).sum()
        };
        Self {
            operations: (0..=OTHER).map(operation).collect(),
            listeners: (0..LISTENERS.len()).map(listener).collect(),
            handshakes: (0..HANDSHAKES.len()).map(handshake).collect(),
            received_bytes: sum(&|meter| meter.received_bytes.value()),
            sent_bytes: sum(&|meter| meter.sent_bytes.value()),
            entries: sum(&|meter| meter.entries.value()),
            references: sum(&|meter| meter.references.value()),
        }
    }
}

/// Microseconds of a duration.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The names of operations in metrics, in the order of [`OperationKind`]; the last is for what is
/// none.
pub(crate) fn operation_names() -> impl Iterator<Item = &'static str> {
    OperationKind::ALL.into_iter().map(OperationKind::name).chain(["other"])
}

/// The index of what is no operation; the others have theirs in [`OperationKind::ALL`].
const OTHER: usize = OperationKind::ALL.len();

/// Result codes that have an index of their own, and one for all others.
pub(crate) const CODES: usize = 128;

/// The listeners by their names in the access log.
pub(crate) const LISTENERS: [&str; 3] = ["ldap", "ldaps", "ldapi"];

/// How handshakes end.
pub(crate) const HANDSHAKES: [&str; 3] = ["TLSv1.2", "TLSv1.3", "failed"];

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: Option<OperationKind>, code: Option<u32>) -> Measured {
        Measured { kind, code, elapsed_us: 10, sent_bytes: 7, ..Measured::default() }
    }

    #[test]
    fn operations_are_counted_by_kind_and_result() {
        let (one, two) = (Meter::default(), Meter::default());
        let of = |kind, code| measured(Some(kind), code);
        one.count(&of(OperationKind::Search, Some(0)));
        two.count(&of(OperationKind::Search, Some(0)));
        two.count(&of(OperationKind::Search, Some(32)));
        two.count(&of(OperationKind::Bind, Some(49)));
        two.count(&of(OperationKind::Unbind, None));
        two.count(&Measured { is_abandoned: true, ..of(OperationKind::Search, None) });
        // Cancelled is 118; what is larger than every index is in the last.
        two.count(&of(OperationKind::Extended, Some(118)));
        two.count(&of(OperationKind::Extended, Some(16_654)));
        // What is no request.
        two.count(&measured(None, Some(2)));
        let sum = Sum::of([&one, &two].into_iter());
        let of = |name: &str| {
            let index = operation_names().position(|one| one == name).unwrap();
            sum.operations[index].clone()
        };
        let search = of("search");
        assert_eq!((search.results[0], search.results[32], search.abandoned), (2, 1, 1));
        assert_eq!((search.total(), search.times.count()), (4, 3));
        assert_eq!(of("bind").results[49], 1);
        assert_eq!(of("unbind").unanswered, 1);
        assert_eq!((of("extended").results[118], of("extended").results[CODES - 1]), (1, 1));
        assert_eq!(of("other").results[2], 1);
        assert_eq!(sum.sent_bytes, 9 * 7);
    }

    #[test]
    fn connections_are_counted_by_listener() {
        let meter = Meter::default();
        meter.accepted("ldap");
        meter.accepted("ldaps");
        meter.closed("ldap");
        meter.refused("ldapi");
        meter.handshake(Some("TLSv1.3"));
        meter.handshake(None);
        let sum = Sum::of([&meter].into_iter());
        let opened = sum.listeners.iter().map(|one| one.accepted).collect::<Vec<_>>();
        assert_eq!(opened, [1, 1, 0]);
        assert_eq!((sum.listeners[0].closed, sum.listeners[2].refused), (1, 1));
        assert_eq!(sum.handshakes, [0, 1, 1]);
    }

    #[test]
    fn a_meter_shares_no_line_with_another() {
        assert_eq!(align_of::<Meter>() % 128, 0);
    }
}
