//! Stopping what takes long: whoever asks hands in a question, and loops ask it now and then.
//!
//! Invariant: what was interrupted is [`StoreError::Interrupted`], never part of an answer.

use crate::error::StoreError;

/// True when the work is to stop.
pub(crate) type Interrupt<'i> = &'i dyn Fn() -> bool;

/// For work that nobody stops.
pub(crate) const NEVER: Interrupt<'static> = &|| false;

/// So many rows are read between two questions: about a tenth of a millisecond.
const ROWS_BETWEEN: u64 = 1024;

/// Asks the question every [`ROWS_BETWEEN`] rows.
pub(crate) struct Watch<'i> {
    interrupt: Interrupt<'i>,
    rows: u64,
}

impl<'i> Watch<'i> {
    pub(crate) const fn new(interrupt: Interrupt<'i>) -> Self {
        Self { interrupt, rows: 0 }
    }

    /// Counts a row.
    #[inline]
    pub(crate) fn row(&mut self) -> Result<(), StoreError> {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_BETWEEN) && (self.interrupt)() {
            return Err(StoreError::Interrupted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_question_is_asked_now_and_then() {
        let asked = Cell::new(0);
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let mut watch = Watch::new(&interrupt);
        let rows = (1..).find(|_| watch.row().is_err());
        assert_eq!(rows, Some(3 * ROWS_BETWEEN));
        let mut watch = Watch::new(NEVER);
        assert!((0..10 * ROWS_BETWEEN).all(|_| watch.row().is_ok()));
    }
}
