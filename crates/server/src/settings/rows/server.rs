//! The rows of `[server]`.

use std::time::Duration;

use crate::settings::row::{Kind, Row, THREADS_MAX, TIMEOUT_MAX_S, size};

/// `[server]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "server",
        key: "data",
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.server.data = path },
        default: "/var/lib/roster",
        sentence: "The data directory.",
    },
    Row {
        section: "server",
        key: "workers",
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| s.server.workers = size(n)),
        default: "0",
        sentence: "Threads that serve connections; 0 means one per core.",
    },
    Row {
        section: "server",
        key: "scan_threads",
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| s.server.scan_threads = size(n)),
        default: "0",
        sentence: "Threads for large searches; 0 means one more than there are cores. Of several, \
                   one identity, or the strangers of one address, have all but one at the most.",
    },
    Row {
        section: "server",
        key: "scan_threads_reserved",
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| {
            s.server.scan_threads_reserved = size(n)
        }),
        default: "0",
        sentence: "Threads among them that serve only clients that have signed in; 0 means a \
                   quarter of them, at least one. One thread is always left for everybody, so of \
                   a single one none is reserved.",
    },
    Row {
        section: "server",
        key: "scan_queue_max",
        kind: Kind::number(1..=QUEUE_MAX, "requests", |s, n| s.server.scan_queue_max = size(n)),
        default: "1000",
        sentence: "Requests that may wait for such a thread; one more is answered busy.",
    },
    Row {
        section: "server",
        key: "scan_queue_reserved",
        kind: Kind::number(0..=QUEUE_MAX, "requests", |s, n| {
            s.server.scan_queue_reserved = size(n)
        }),
        default: "250",
        sentence: "Places among them for clients that have signed in; half of them at the most.",
    },
    Row {
        section: "server",
        key: "scan_queue_asker_max",
        kind: Kind::number(1..=QUEUE_MAX, "requests", |s, n| {
            s.server.scan_queue_asker_max = size(n)
        }),
        default: "250",
        sentence: "Requests of one identity that may wait for such a thread, or of the clients of \
                   one address that have not signed in.",
    },
    Row {
        section: "server",
        key: "shutdown_timeout_s",
        kind: Kind::number(0..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.server.shutdown_timeout = Duration::from_secs(n)
        }),
        default: "10",
        sentence: "How long operations in progress may take to end when the server stops.",
    },
    Row {
        section: "server",
        key: "core_dumps",
        kind: Kind::word(super::passwords::ON_OFF, |s, word| s.server.core_dumps = word == "on"),
        default: "off",
        sentence: "Whether core files may be written and debuggers attached: both show passwords.",
    },
];

const QUEUE_MAX: u64 = 1_000_000;
