//! What one request may cost. Every limit has a name, a unit and a default.

use std::time::Duration;

/// Limits that hold for every session; settings of the node override the defaults.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Entries one search (or one page of it) returns to anyone but the root identity; 0 = no
    /// limit.
    pub size_limit_entries: u32,
    /// Entries that all pages of one search return together to anyone but the root identity; 0 = no
    /// limit.
    pub paged_total_entries_max: u32,
    /// Seconds one search may take for anyone but the root identity; 0 = no limit.
    pub time_limit_s: u32,
    /// Entries one search looks at for anyone but the root identity; 0 = no limit.
    pub look_through_limit_entries: u32,
    /// Work of one search of anyone but the root identity, testing entries, sorting them and
    /// following chains, in millions of steps of about a nanosecond; 0 = no limit.
    pub search_work_max: u32,
    /// The same for those who have not authenticated.
    pub search_work_anonymous_max: u32,
    /// Entries that a search which no index helps may look at beside ten for each that it finds,
    /// for those without the right to search so; 0 = such searches are always refused.
    pub unindexed_entries: u32,
    /// Connections bound as one entry at the same time; 0 = any number.
    pub connections_per_identity_max: u32,
    /// Operations of one entry's connections that are not answered; 0 = any number.
    pub operations_per_identity_max: u32,
    /// How long the messages of one SASL bind may take together; it is refused later.
    pub sasl_exchange_max: Duration,
    /// Candidates up to which a search runs on the thread that read it. More go to the scan pool.
    pub inline_candidates_max: u64,
    /// Work of testing them, in steps of about a nanosecond, after which it is moved to the pool.
    pub inline_work_max: u64,
    /// Terms of a filter up to which it is looked at there at all.
    pub inline_terms_max: u64,
    /// Work of testing what is asserted of an entry that is to be changed, in steps of about a
    /// nanosecond, after which the change is refused: all writes wait for it.
    pub assertion_work_max: u64,
    /// Work of comparing the values of an entry that is modified or added, in steps of about a
    /// nanosecond: of modifications beyond a few, and always of what is not ASCII.
    pub modify_work_max: u64,
    /// Work of preparing what an add of a stranger brings, in steps of about a nanosecond: that is
    /// done where requests are read, before it is known whether strangers may add anything.
    pub add_work_anonymous_max: u64,
    /// How long deciding on the updates of one transaction may take, for which all writes wait.
    pub transaction_max: Duration,
    /// Octets of entries that one update, or one transaction, answers by pre-read and post-read
    /// (RFC 4527); one that asks for more is refused. A batch that holds so many octets of answers
    /// takes no further request.
    pub read_entry_max_bytes: usize,
    /// How long planning one search may take on the thread that read it, before the search is moved
    /// to the pool.
    pub inline_planning_max: Duration,
    /// Octets one search may answer on the thread that read it, before it is moved to the pool.
    pub inline_output_max_bytes: usize,
    /// Entries that one search sorts in memory; more are sorted only where an index has them in
    /// order, or page by page.
    pub sort_entries_max: u64,
    /// Octets that one search takes for sorting in memory.
    pub sort_bytes_max: usize,
    /// Octets that parked searches hold, over all: lists that were sorted in memory and are not
    /// sent, and requests that are decoded and resolved. A search that finds them full sorts again
    /// when it goes on, or decodes its request again.
    pub parked_max_bytes: usize,
    /// Requests that wait for the writer; one more is answered `busy`.
    pub write_queue_max: usize,
    /// Requests among them of one who asks: of all sessions of an entry, or of strangers at one
    /// address.
    pub write_queue_asker_max: usize,
    /// Octets that the large ones among them take, those of more than 4 KiB; of one who asks, and
    /// of strangers, no more than a quarter. One more is answered `busy`.
    pub write_queue_max_bytes: usize,
    /// Octets that the updates of all open transactions take, and what deletions of trees, which go
    /// on in steps, keep of their answers; of one who asks no more than a quarter.
    pub transactions_max_bytes: usize,
    /// Writes made durable by one sync at the most.
    pub write_batch_max: usize,
    /// Octets of records after which a batch takes no further write.
    pub write_batch_max_bytes: usize,
    /// How long writes are decided for one batch while the log could take it: costly ones must not
    /// keep those of others in the batch waiting.
    pub write_batch_max_time: Duration,
    /// How long a write waits for the overlay to be flushed before it is answered `busy`.
    pub write_wait_max: Duration,
    /// How long an update is tried that another node is to decide, while nobody takes it: then it
    /// is answered `unavailable`, or `other` where nobody knows whether it has happened.
    pub forward_wait_max: Duration,
    /// How long a read waits until the data of this node are fresh enough; then it is answered
    /// `unavailable`.
    pub read_wait_max: Duration,
    /// Reads that wait for that; one more is answered `busy`.
    pub waiting_reads_max: usize,
    /// Reads among them of one who asks.
    pub waiting_reads_asker_max: usize,
    /// How long the last flush may take when the directory is shut down; what is not flushed by
    /// then is in the journal.
    pub shutdown_flush_max: Duration,
    /// Octets of an answer that a scan hands over in one piece, about.
    pub chunk_bytes: usize,
    /// Searches that go on with what changes (persistent search, content synchronisation), at the
    /// same time; of one who asks, and of strangers, no more than a quarter. One more is answered
    /// `busy`.
    pub streams_max: usize,
    /// The same of one identity, or of one address that has not signed in; the administrator may
    /// have all.
    pub streams_each_max: usize,
    /// Requests of one connection that are not answered yet, at which no more of it are read: a
    /// search that goes on is begun only while less than half of them are.
    pub outstanding_max: usize,
    /// Values of a reference list, such as members of a group, from which on an entry is sent in
    /// parts: its values are never held together.
    pub large_entry_values_min: u64,
    /// Entries that are sent in parts at the same time; of one who asks, and of strangers, no more
    /// than a quarter. One more is answered `busy`; a search that has come to tell what changes
    /// waits.
    pub large_entries_max: usize,
}

impl Limits {
    /// What decoded and resolved requests of waiting searches may take of `parked_max_bytes`: not
    /// all, so that whoever sends large ones leaves room for sorted lists.
    pub(crate) const fn parked_requests_max_bytes(&self) -> usize {
        self.parked_max_bytes / 2
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size_limit_entries: 1_000,
            paged_total_entries_max: 0,
            time_limit_s: 60,
            look_through_limit_entries: 0,
            search_work_max: 60_000,
            search_work_anonymous_max: 1_000,
            unindexed_entries: 5_000,
            connections_per_identity_max: 0,
            operations_per_identity_max: 0,
            sasl_exchange_max: Duration::from_secs(60),
            inline_candidates_max: 256,
            inline_work_max: 1_000_000,
            inline_terms_max: 300,
            assertion_work_max: 32_000_000,
            modify_work_max: 300_000_000,
            add_work_anonymous_max: 6_000_000,
            transaction_max: Duration::from_secs(2),
            read_entry_max_bytes: 16 << 20,
            inline_planning_max: Duration::from_millis(2),
            inline_output_max_bytes: 256 * 1024,
            sort_entries_max: 250_000,
            sort_bytes_max: 64 << 20,
            parked_max_bytes: 64 << 20,
            write_queue_max: 10_000,
            write_queue_asker_max: 2_500,
            write_queue_max_bytes: 256 << 20,
            transactions_max_bytes: 128 << 20,
            write_batch_max: 1_000,
            write_batch_max_bytes: 4 << 20,
            write_batch_max_time: Duration::from_millis(50),
            write_wait_max: Duration::from_secs(5),
            forward_wait_max: Duration::from_secs(10),
            read_wait_max: Duration::from_secs(5),
            waiting_reads_max: 10_000,
            waiting_reads_asker_max: 2_500,
            shutdown_flush_max: Duration::from_secs(60),
            chunk_bytes: 64 * 1024,
            streams_max: 10_000,
            streams_each_max: 500,
            outstanding_max: 64,
            large_entry_values_min: 40_000,
            large_entries_max: 64,
        }
    }
}
