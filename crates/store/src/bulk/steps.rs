//! The ids of one key as octets, while they are gathered and sorted.
//!
//! A span of ids is the step from the last id before it to its first, doubled, and one more where
//! it has more than one id; then the number of the others follows. So a list of ids that many
//! entries have costs about an octet an id, and one that all entries have almost nothing.
//!
//! Invariant: spans ascend and do not touch each other, so each set of ids has one form.

use crate::index::posting::Span;
use crate::rows::varint;

/// Writes spans that ascend.
#[derive(Debug, Default)]
pub(super) struct StepWriter {
    /// The last id that was written.
    at: u64,
    /// The span that may still grow.
    open: Option<Span>,
}

impl StepWriter {
    /// Appends an id that is not below the last one.
    #[inline]
    pub(super) fn push(&mut self, id: u64, out: &mut Vec<u8>) {
        match &mut self.open {
            Some(open) if id == open.last => {}
            Some(open) if id == open.last + 1 => open.last = id,
            _ => {
                self.close(out);
                self.open = Some(Span { first: id, last: id });
            }
        }
    }

    /// Appends a span that begins behind the last id.
    pub(super) fn push_span(&mut self, span: Span, out: &mut Vec<u8>) {
        match &mut self.open {
            Some(open) if span.first == open.last + 1 => open.last = span.last,
            _ => {
                self.close(out);
                self.open = Some(span);
            }
        }
    }

    /// Writes what is open.
    #[inline]
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        let Some(Span { first, last }) = self.open.take() else { return };
        debug_assert!(self.at < first, "ids ascend");
        let others = last - first;
        varint::write((first - self.at) << 1 | u64::from(others > 0), out);
        if others > 0 {
            varint::write(others, out);
        }
        self.at = last;
    }
}

/// A growing list.
#[derive(Debug, Default)]
pub(super) struct Steps {
    writer: StepWriter,
    octets: Vec<u8>,
}

impl Steps {
    /// Adds an id; false, and nothing, when it is below the last one.
    #[inline]
    pub(super) fn push(&mut self, id: u64) -> bool {
        let last = self.writer.open.map_or(self.writer.at, |open| open.last);
        if id < last {
            return false;
        }
        self.writer.push(id, &mut self.octets);
        true
    }

    /// The memory that its octets take.
    pub(super) fn bytes(&self) -> usize {
        self.octets.capacity()
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.writer.close(&mut self.octets);
        self.octets
    }
}

/// Calls `visit` with each span of a list; false when it is not well formed.
#[inline]
pub(super) fn each_span(mut octets: &[u8], mut visit: impl FnMut(Span)) -> bool {
    let mut at = 0_u64;
    while !octets.is_empty() {
        let Some(step) = varint::read(&mut octets) else { return false };
        let first = at + (step >> 1);
        let mut last = first;
        if step & 1 != 0 {
            let Some(others) = varint::read(&mut octets) else { return false };
            last += others;
        }
        visit(Span { first, last });
        at = last;
    }
    true
}

/// Brings spans of several lists into order, and makes one of those that touch each other.
pub(super) fn unite(spans: &mut Vec<Span>) {
    if !spans.is_sorted() {
        spans.sort();
    }
    spans.dedup_by(|next, before| {
        let joins = next.first <= before.last.saturating_add(1);
        if joins {
            before.last = before.last.max(next.last);
        }
        joins
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_hold_what_was_pushed(
            ids in prop::collection::vec((1_u64..1 << 40, 1_u64..40), 1..60),
        ) {
            let want: BTreeSet<u64> =
                ids.iter().flat_map(|&(first, count)| first..first + count).collect();
            let mut steps = Steps::default();
            for &id in &want {
                prop_assert!(steps.push(id) && steps.push(id));
            }
            let mut found = Vec::new();
            let octets = steps.finish();
            prop_assert!(each_span(&octets, |span| found.extend(span.first..=span.last)));
            prop_assert_eq!(found, want.iter().copied().collect::<Vec<_>>());
            let mut spans: Vec<Span> = ids
                .iter()
                .map(|&(first, count)| Span { first, last: first + count - 1 })
                .collect();
            unite(&mut spans);
            let mut again = (StepWriter::default(), Vec::new());
            spans.iter().for_each(|span| again.0.push_span(*span, &mut again.1));
            again.0.close(&mut again.1);
            prop_assert_eq!(again.1, octets);
        }
    }
}
