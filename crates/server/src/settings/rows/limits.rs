//! What one connection and one search may cost.

use std::time::Duration;

use directory::Network;

use crate::settings::row::{Kind, NETWORKS, Place, Row, TIMEOUT_MAX_S, number, size};

/// `[limits]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "limits",
        key: "connections_max",
        place: Place::Reload,
        kind: Kind::number(1..=1_000_000, "connections", |s, n| s.limits.connections_max = size(n)),
        default: "50000",
        sentence: "Connections at the same time, or as many as the open-file limit of the process \
                   allows. At the limit, a new connection replaces one that has not \
                   authenticated; if there is none, it gets busy and is closed.",
    },
    Row {
        section: "limits",
        key: "connections_reserved",
        place: Place::Reload,
        kind: Kind::number(0..=10_000, "connections", |s, n| {
            s.limits.connections_reserved = size(n)
        }),
        default: "32",
        sentence: "Additional connections for the Unix socket: the local administrator can \
                   connect even if all others are taken.",
    },
    Row {
        section: "limits",
        key: "connections_per_address_max",
        place: Place::Directory(23),
        kind: Kind::number(0..=1_000_000, "connections", |s, n| {
            s.limits.connections_per_address_max = size(n)
        }),
        default: "10000",
        sentence: "Connections of one IPv4 address or IPv6 network of 64 bits at the same time; 0 \
                   means any number.",
    },
    Row {
        section: "limits",
        key: "connections_per_identity_max",
        place: Place::Directory(24),
        kind: Kind::number(0..=1_000_000, "connections", |s, n| {
            s.limits.connections_per_identity_max = number(n)
        }),
        default: "0",
        sentence: "Connections bound as one entry at the same time; the next bind gets busy; 0 \
                   means any number. ds-rlim-connection-limit of an entry overrides it. It does \
                   not apply to the administrator.",
    },
    Row {
        section: "limits",
        key: "operations_per_identity_max",
        place: Place::Directory(25),
        kind: Kind::number(0..=1_000_000, "operations", |s, n| {
            s.limits.operations_per_identity_max = number(n)
        }),
        default: "0",
        sentence: "Unanswered operations of all connections bound as one entry; the next one gets \
                   busy; 0 means any number. ds-rlim-operation-limit of an entry overrides it. It \
                   does not apply to the administrator.",
    },
    Row {
        section: "limits",
        key: "connections_anonymous_percent",
        place: Place::Reload,
        kind: Kind::number(1..=100, "percent", |s, n| {
            s.limits.connections_anonymous_percent = size(n)
        }),
        default: "90",
        sentence: "Share of connections_max for connections that have not authenticated. At the \
                   limit, a new one replaces the one that was idle for longest, of the address \
                   that has most.",
    },
    Row {
        section: "limits",
        key: "bind_failures_max",
        place: Place::Directory(26),
        kind: Kind::number(0..=1_000_000, "binds", |s, n| s.limits.bind_failures_max = number(n)),
        default: "20",
        sentence: "Failed binds of one address before its next binds are delayed, longer with \
                   each failure; the count halves every minute; 0 means any number. At most this \
                   many binds of the address wait for their hashes at a time; further ones wait \
                   for these. A client that disconnects before its response counts as a failure \
                   as well, if a correct password would have been answered at once. A password \
                   change that sends the old password counts and waits like a bind. One that \
                   another server of a cluster looks at counts as a failure until it is answered; \
                   8 of one address at a time, and half of this number, are the most, and further \
                   ones get busy.",
    },
    Row {
        section: "limits",
        key: "bind_delay_max_ms",
        place: Place::Directory(27),
        kind: Kind::number(1..=60_000, "milliseconds", |s, n| {
            s.limits.bind_delay_max = Duration::from_millis(n)
        }),
        default: "5000",
        sentence: "The longest delay between two binds of such an address. They wait in a queue, \
                   each for at most four of these delays; one that would wait longer gets busy.",
    },
    Row {
        section: "limits",
        key: "bind_gateways",
        place: Place::Directory(28),
        kind: Kind::Texts {
            separator: ',',
            form: NETWORKS,
            is_well_formed: |text| text.parse::<Network>().is_ok(),
            set: |s, texts| {
                s.limits.bind_gateways =
                    texts.iter().filter_map(|text| text.parse().ok()).collect();
            },
        },
        default: "",
        sentence: "Hosts that bind for many users, such as a web application or a PAM gateway. \
                   Failed binds from there are counted by account, under whatever name, so that \
                   other users do not wait; names of no account are counted by address, as usual. \
                   An anonymous client behind such a host can lock one account, its owner \
                   included, out there and nowhere else, and can learn whether two names belong \
                   to one account. Such a host must limit guesses at many names itself.",
    },
    Row {
        section: "limits",
        key: "message_size_max_bytes",
        place: Place::Directory(1),
        kind: Kind::number(MESSAGE_SIZE_MIN_BYTES..=MESSAGE_SIZE_MAX_BYTES, "bytes", |s, n| {
            s.limits.message_size_max_bytes = size(n)
        }),
        default: "16777216",
        sentence: "Size of one request; a larger one ends the session.",
    },
    Row {
        section: "limits",
        key: "message_size_anonymous_max_bytes",
        place: Place::Directory(2),
        kind: Kind::number(MESSAGE_SIZE_MIN_BYTES..=MESSAGE_SIZE_MAX_BYTES, "bytes", |s, n| {
            s.limits.message_size_anonymous_max_bytes = size(n)
        }),
        default: "65536",
        sentence: "Size of one request of a client that has not authenticated.",
    },
    Row {
        section: "limits",
        key: "outstanding_max",
        place: Place::Directory(3),
        kind: Kind::number(1..=10_000, "operations", |s, n| s.limits.outstanding_max = size(n)),
        default: "64",
        sentence: "Unanswered operations of one connection; at the limit, the server stops \
                   reading from it.",
    },
    Row {
        section: "limits",
        key: "output_buffer_max_bytes",
        place: Place::Directory(4),
        kind: Kind::number(MESSAGE_SIZE_MIN_BYTES..=MESSAGE_SIZE_MAX_BYTES, "bytes", |s, n| {
            s.limits.output_buffer_max_bytes = size(n)
        }),
        default: "1048576",
        sentence: "Responses that wait for a client to read them; at the limit, its requests wait.",
    },
    Row {
        section: "limits",
        key: "undelivered_max_bytes",
        place: Place::Directory(5),
        kind: Kind::number(MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES, "bytes", |s, n| {
            s.limits.undelivered_max_bytes = size(n)
        }),
        default: "1073741824",
        sentence: "Memory for responses that clients have not read, and for requests that are \
                   incomplete or waiting, of all connections; at the limit, the connection that \
                   has read nothing for longest is closed, of the address that has most.",
    },
    Row {
        section: "limits",
        key: "undelivered_anonymous_max_bytes",
        place: Place::Directory(6),
        kind: Kind::number(MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES, "bytes", |s, n| {
            s.limits.undelivered_anonymous_max_bytes = size(n)
        }),
        default: "67108864",
        sentence: "Part of undelivered_max_bytes for all connections that have not authenticated.",
    },
    Row {
        section: "limits",
        key: "undelivered_per_address_max_bytes",
        place: Place::Directory(7),
        kind: Kind::number(MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES, "bytes", |s, n| {
            s.limits.undelivered_per_address_max_bytes = size(n)
        }),
        default: "16777216",
        sentence: "Part of undelivered_anonymous_max_bytes for the connections of one IPv4 \
                   address or IPv6 network of 64 bits.",
    },
    Row {
        section: "limits",
        key: "first_request_timeout_s",
        place: Place::Directory(8),
        kind: Kind::number(0..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.limits.first_request_timeout = Duration::from_secs(n)
        }),
        default: "30",
        sentence: "How long a connection may last before its first complete request, however many \
                   bytes arrive; 0 means no limit.",
    },
    Row {
        section: "limits",
        key: "idle_timeout_s",
        place: Place::Directory(9),
        kind: Kind::number(0..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.limits.idle_timeout = Duration::from_secs(n)
        }),
        default: "0",
        sentence: "How long a connection may be idle; 0 means no limit.",
    },
    Row {
        section: "limits",
        key: "write_timeout_s",
        place: Place::Directory(10),
        kind: Kind::number(1..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.limits.write_timeout = Duration::from_secs(n)
        }),
        default: "60",
        sentence: "How long a client may leave its responses unread before its connection is \
                   closed.",
    },
    Row {
        section: "limits",
        key: "half_closed_timeout_ms",
        place: Place::Directory(11),
        kind: Kind::number(0..=TIMEOUT_MAX_S * 1000, "milliseconds; 0 = to their end", |s, n| {
            s.limits.half_closed_timeout = Duration::from_millis(n)
        }),
        default: "1000",
        sentence: "How long searches continue for a client that has closed its side of the \
                   connection (for example because it was killed) while they find nothing to \
                   send; and how long a request of such a client may wait for a password hash, or \
                   in the queue of its address.",
    },
    Row {
        section: "limits",
        key: "size_limit_entries",
        place: Place::Directory(12),
        kind: Kind::number(0..=u32::MAX as u64, "entries; 0 = no limit", |s, n| {
            s.limits.size_limit_entries = number(n)
        }),
        default: "1000",
        sentence: "Entries that one search (or one page of it) returns; ds-rlim-size-limit or \
                   nsSizeLimit of an entry overrides it.",
    },
    Row {
        section: "limits",
        key: "paged_total_entries_max",
        place: Place::Directory(13),
        kind: Kind::number(0..=u32::MAX as u64, "entries; 0 = no limit", |s, n| {
            s.limits.paged_total_entries_max = number(n)
        }),
        default: "0",
        sentence: "Entries that all pages of one search return together; the page that would \
                   exceed it ends with sizeLimitExceeded; ds-rlim-paged-total-limit of an entry \
                   overrides it.",
    },
    Row {
        section: "limits",
        key: "time_limit_s",
        place: Place::Directory(14),
        kind: Kind::number(0..=u32::MAX as u64, "seconds; 0 = no limit", |s, n| {
            s.limits.time_limit_s = number(n)
        }),
        default: "60",
        sentence: "How long one search may take; ds-rlim-time-limit or nsTimeLimit of an entry \
                   overrides it.",
    },
    Row {
        section: "limits",
        key: "look_through_limit_entries",
        place: Place::Directory(15),
        kind: Kind::number(0..=u32::MAX as u64, "entries; 0 = no limit", |s, n| {
            s.limits.look_through_limit_entries = number(n)
        }),
        default: "0",
        sentence: "Entries that one search may examine; ds-rlim-lookthrough-limit or \
                   nsLookThroughLimit of an entry overrides it.",
    },
    Row {
        section: "limits",
        key: "search_work_max_millions",
        place: Place::Directory(16),
        kind: Kind::number(0..=u32::MAX as u64, "million steps; 0 = no limit", |s, n| {
            s.limits.search_work_max = number(n)
        }),
        default: "60000",
        sentence: "Work of one search: testing entries, sorting them and following chains; a \
                   million steps are about a millisecond of CPU time; ds-rlim-search-work-limit \
                   of an entry overrides it.",
    },
    Row {
        section: "limits",
        key: "search_work_anonymous_max_millions",
        place: Place::Directory(17),
        kind: Kind::number(0..=u32::MAX as u64, "million steps; 0 = no limit", |s, n| {
            s.limits.search_work_anonymous_max = number(n)
        }),
        default: "1000",
        sentence: "The same for a search of a client that has not authenticated.",
    },
    Row {
        section: "limits",
        key: "unindexed_entries",
        place: Place::Directory(18),
        kind: Kind::number(0..=u32::MAX as u64, "entries; 0 = always refused", |s, n| {
            s.limits.unindexed_entries = number(n)
        }),
        default: "5000",
        sentence: "Entries that an unindexed search may examine, in addition to ten for each \
                   entry that it finds; beyond that, it ends for users without the privilege \
                   unindexed-search.",
    },
    Row {
        section: "limits",
        key: "streams_max",
        place: Place::Directory(19),
        kind: Kind::number(0..=1_000_000, "searches", |s, n| s.limits.streams_max = size(n)),
        default: "10000",
        sentence: "Searches that go on with what changes (persistent search, content \
                   synchronization) at the same time; one user and all who have not \
                   authenticated may have a quarter of them. One more is answered busy.",
    },
    Row {
        section: "limits",
        key: "streams_each_max",
        place: Place::Directory(20),
        kind: Kind::number(0..=1_000_000, "searches", |s, n| s.limits.streams_each_max = size(n)),
        default: "500",
        sentence: "The same of one user, or of one address that has not authenticated. The \
                   administrator may have all.",
    },
    Row {
        section: "limits",
        key: "sort_entries_max",
        place: Place::Directory(21),
        kind: Kind::number(1..=u32::MAX as u64, "entries", |s, n| s.limits.sort_entries_max = n),
        default: "250000",
        sentence: "Entries that one search sorts in memory; more are sorted only if an index has \
                   them in order, or page by page.",
    },
    Row {
        section: "limits",
        key: "sort_bytes_max",
        place: Place::Directory(22),
        kind: Kind::number(1_024..=SORT_BYTES_MAX, "bytes", |s, n| {
            s.limits.sort_bytes_max = usize::try_from(n).unwrap_or(usize::MAX)
        }),
        default: "67108864",
        sentence: "Memory that one search uses for sorting.",
    },
];

/// Less than one large answer would close connections that do nothing wrong.
const MEMORY_MIN_BYTES: u64 = 1 << 20;

/// A terabyte: more is surely a mistake in the unit.
const MEMORY_MAX_BYTES: u64 = 1 << 40;

/// Below this not even a bind with a long name gets through.
const MESSAGE_SIZE_MIN_BYTES: u64 = 1_024;

/// Half of what a BER length of four octets can say.
const MESSAGE_SIZE_MAX_BYTES: u64 = 1 << 30;

/// A terabyte: more is surely a mistake in the unit.
const SORT_BYTES_MAX: u64 = 1 << 40;
