//! What one request may cost. Every limit has a name, a unit and a default.

/// Limits that hold for every session; settings of the node override the defaults.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Entries one search (or one page of it) returns to anyone but the root identity; 0 = no
    /// limit.
    pub size_limit_entries: u32,
    /// Seconds one search may take for anyone but the root identity; 0 = no limit.
    pub time_limit_s: u32,
    /// Candidates up to which a search runs on the thread that read it. More go to the scan pool.
    pub inline_candidates_max: u64,
    /// Octets one search may answer on the thread that read it, before it is moved to the pool.
    pub inline_output_max_bytes: usize,
    /// Requests that wait for the writer; one more is answered `busy`.
    pub write_queue_max: usize,
    /// Writes made durable by one sync at the most.
    pub write_batch_max: usize,
    /// Octets of an answer that a scan hands over in one piece, about.
    pub chunk_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size_limit_entries: 1_000,
            time_limit_s: 60,
            inline_candidates_max: 256,
            inline_output_max_bytes: 256 * 1024,
            write_queue_max: 10_000,
            write_batch_max: 1_000,
            chunk_bytes: 64 * 1024,
        }
    }
}
