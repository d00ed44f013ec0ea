//! Lines of the log that others cause: counted, and a line a minute at most.

use std::time::Duration;

use tokio::time::Instant;

/// The log says it at most once in this time.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// How often something has happened since the log spoke of it.
#[derive(Default)]
pub(crate) struct Unsaid {
    count: u64,
    said: Option<Instant>,
}

impl Unsaid {
    /// One more; how many the log is to speak of now.
    pub(crate) fn due(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < LOG_EVERY) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_gets_a_line_a_minute_that_counts_all() {
        let mut unsaid = Unsaid::default();
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        assert_eq!(unsaid.due(start), Some(1));
        assert_eq!(unsaid.due(start), None);
        assert_eq!(unsaid.due(after(59)), None);
        assert_eq!(unsaid.due(after(60)), Some(3));
        assert_eq!(unsaid.due(after(61)), None);
    }
}
