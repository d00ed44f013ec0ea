//! The rows of `[server]`.

use std::time::Duration;

use crate::settings::row::{Kind, Place, Row, THREADS_MAX, TIMEOUT_MAX_S, size};

/// `[server]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "server",
        key: "data",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.server.data = path },
        default: "/var/lib/roster",
        sentence: "The data directory.",
    },
    Row {
        section: "server",
        key: "workers",
        place: Place::Start,
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| s.server.workers = size(n)),
        default: "0",
        sentence: "Threads that serve connections; 0 means one per core.",
    },
    Row {
        section: "server",
        key: "scan_threads",
        place: Place::Start,
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| s.server.scan_threads = size(n)),
        default: "0",
        sentence: "Threads for large searches; 0 means one more than there are cores. If there \
                   are several, one identity, or the anonymous clients of one address, use at \
                   most all but one.",
    },
    Row {
        section: "server",
        key: "scan_threads_reserved",
        place: Place::Start,
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| {
            s.server.scan_threads_reserved = size(n)
        }),
        default: "0",
        sentence: "Scan threads that serve only authenticated clients; 0 means a quarter of them, \
                   at least one. One thread always serves everybody, so a single thread is never \
                   reserved.",
    },
    Row {
        section: "server",
        key: "scan_queue_max",
        place: Place::Start,
        kind: Kind::number(1..=QUEUE_MAX, "requests", |s, n| s.server.scan_queue_max = size(n)),
        default: "1000",
        sentence: "Requests that may wait for a scan thread; the next one gets busy.",
    },
    Row {
        section: "server",
        key: "scan_queue_reserved",
        place: Place::Start,
        kind: Kind::number(0..=QUEUE_MAX, "requests", |s, n| {
            s.server.scan_queue_reserved = size(n)
        }),
        default: "250",
        sentence: "Places in this queue for authenticated clients; at most half of them.",
    },
    Row {
        section: "server",
        key: "scan_queue_asker_max",
        place: Place::Start,
        kind: Kind::number(1..=QUEUE_MAX, "requests", |s, n| {
            s.server.scan_queue_asker_max = size(n)
        }),
        default: "250",
        sentence: "Requests of one identity that may wait for a scan thread, or of the anonymous \
                   clients of one address.",
    },
    Row {
        section: "server",
        key: "shutdown_timeout_s",
        place: Place::Reload,
        kind: Kind::number(0..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.server.shutdown_timeout = Duration::from_secs(n)
        }),
        default: "10",
        sentence: "How long operations in progress may take to end when the server stops.",
    },
    Row {
        section: "server",
        key: "core_dumps",
        place: Place::Start,
        kind: Kind::word(super::passwords::ON_OFF, |s, word| s.server.core_dumps = word == "on"),
        default: "off",
        sentence: "Whether core files may be written and debuggers attached: both expose \
                   passwords.",
    },
];

const QUEUE_MAX: u64 = 1_000_000;
