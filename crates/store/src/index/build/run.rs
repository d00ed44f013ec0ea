//! The thread that works on indexes: when, how much at a time, and how much of the time.
//!
//! Invariant: between two steps it rests, so that flushes come in between and the disk is free for
//! those that somebody waits for.

use std::time::Duration;

use super::IndexStep;
use crate::overlay::flush::{BACKGROUND_NICE, FlushOptions, now};
use crate::store::Store;

/// Works on indexes until it is to stop.
pub(crate) fn build_when_due(store: &Store, options: &FlushOptions) {
    // Of this thread alone. Where the system does not allow it, it runs like the others.
    let _ = rustix::process::setpriority_process(None, BACKGROUND_NICE);
    let pace = &store.pace;
    let mut size = STEP_ENTRIES_FIRST;
    while !pace.is_stopping() {
        let begin = now();
        let step = store.index_step(size);
        let took = begin.elapsed();
        pace.index_step_ended(step.as_ref().err());
        match step {
            Ok(IndexStep::Idle) => pace.wait_for_index_work(|| store.has_index_work()),
            Ok(IndexStep::AfterFlush) => pace.flush_soon(FLUSH_WAIT),
            Ok(IndexStep::Filled(_) | IndexStep::Removed(_) | IndexStep::Valid(_)) => {
                size = next_size(size, took);
                pace.rest(rest_after(took, options.index_build_percent));
            }
            Err(_) => pace.rest(options.retry_after),
        }
    }
}

/// The size of the next step, so that it takes about [`STEP_TIME`].
fn next_size(size: u64, took: Duration) -> u64 {
    let ratio = STEP_TIME.as_secs_f64() / took.as_secs_f64().max(1e-6);
    let next = size as f64 * ratio.clamp(0.5, 2.0);
    (next as u64).clamp(STEP_ENTRIES_MIN, STEP_ENTRIES_MAX)
}

/// How long to rest after a step, so that the work takes no more than so much of the time.
fn rest_after(took: Duration, percent: u8) -> Duration {
    let percent = u32::from(percent.clamp(1, 100));
    took * (100 - percent) / percent
}

const STEP_ENTRIES_FIRST: u64 = 1000;
const STEP_ENTRIES_MIN: u64 = 50;
const STEP_ENTRIES_MAX: u64 = 100_000;

/// A step takes about so long: a flush may have to wait for its end.
const STEP_TIME: Duration = Duration::from_millis(100);

/// A flush that is wanted is looked for so often.
const FLUSH_WAIT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_time_is_kept() {
        let took = Duration::from_millis(100);
        assert_eq!(rest_after(took, 100), Duration::ZERO);
        assert_eq!(rest_after(took, 50), took);
        assert_eq!(rest_after(took, 10), took * 9);
        assert_eq!(rest_after(took, 0), took * 99);
    }

    #[test]
    fn steps_become_as_long_as_they_should_be() {
        assert_eq!(next_size(1000, STEP_TIME), 1000);
        assert_eq!(next_size(1000, STEP_TIME * 10), 500);
        assert_eq!(next_size(1000, STEP_TIME / 10), 2000);
        assert_eq!(next_size(60, STEP_TIME * 10), STEP_ENTRIES_MIN);
        assert_eq!(next_size(90_000, Duration::ZERO), STEP_ENTRIES_MAX);
    }
}
