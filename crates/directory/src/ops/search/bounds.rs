//! What a search may cost: the limits of the client, the server and the identity.

use std::time::Duration;

use super::Search;

/// What ends a search before its candidates do.
pub(crate) struct Bounds {
    /// The client's size limit, over all pages; 0 = none.
    pub(crate) asked_entries: u32,
    /// The server's size limit, for each page; 0 = none.
    pub(crate) entries: u32,
    pub(crate) page: Option<u32>,
    pub(crate) deadline: Option<Duration>,
}

impl Search<'_> {
    /// The smaller of what was asked for and what is allowed; the root identity is allowed all.
    pub(crate) fn bounds(&self) -> Bounds {
        let limits = &self.directory.limits;
        let (entries, seconds) = if self.access.is_root() {
            (0, 0)
        } else {
            (limits.size_limit_entries, limits.time_limit_s)
        };
        let time = [self.request.time_limit_s, seconds].into_iter().filter(|&s| s > 0).min();
        Bounds {
            asked_entries: self.request.size_limit_entries,
            entries,
            page: self.controls.paged.as_ref().map(|paged| paged.size_entries),
            deadline: time
                .map(|time| self.directory.clock.elapsed() + Duration::from_secs(time.into())),
        }
    }
}
