//! What one connection and one search may cost.

use std::time::Duration;

use directory::Network;

use super::{
    Kind, MESSAGE_SIZE_MAX_BYTES, MESSAGE_SIZE_MIN_BYTES, NETWORKS, Row, SORT_BYTES_MAX,
    TIMEOUT_MAX_S, number, size,
};

/// `[limits]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "limits",
        key: "connections_max",
        kind: Kind::Number {
            min: 1,
            max: 1_000_000,
            unit: "connections",
            set: |s, n| s.limits.connections_max = size(n),
        },
        default: "50000",
        sentence: "Connections at the same time, or as many as the open files of the process \
                   allow; one more takes the place of one that has not authenticated, or, where \
                   there is none, is told busy and closed.",
    },
    Row {
        section: "limits",
        key: "connections_reserved",
        kind: Kind::Number {
            min: 0,
            max: 10_000,
            unit: "connections",
            set: |s, n| s.limits.connections_reserved = size(n),
        },
        default: "32",
        sentence: "Connections beyond connections_max that the Unix socket may have: when others \
                   hold all, the administrator of this machine gets in.",
    },
    Row {
        section: "limits",
        key: "connections_per_address_max",
        kind: Kind::Number {
            min: 0,
            max: 1_000_000,
            unit: "connections",
            set: |s, n| s.limits.connections_per_address_max = size(n),
        },
        default: "10000",
        sentence: "Connections of one IPv4 address or IPv6 network of 64 bits at the same time; 0 \
                   means any number.",
    },
    Row {
        section: "limits",
        key: "connections_per_identity_max",
        kind: Kind::Number {
            min: 0,
            max: 1_000_000,
            unit: "connections",
            set: |s, n| s.limits.connections_per_identity_max = number(n),
        },
        default: "0",
        sentence: "Connections that are bound as one entry at the same time, whose next bind is \
                   answered busy; 0 means any number; an entry may be given its own limit by \
                   ds-rlim-connection-limit. Not for the administrator.",
    },
    Row {
        section: "limits",
        key: "operations_per_identity_max",
        kind: Kind::Number {
            min: 0,
            max: 1_000_000,
            unit: "operations",
            set: |s, n| s.limits.operations_per_identity_max = number(n),
        },
        default: "0",
        sentence: "Unanswered operations of all connections that are bound as one entry; one more \
                   is answered busy; 0 means any number; an entry may be given its own limit by \
                   ds-rlim-operation-limit. Not for the administrator.",
    },
    Row {
        section: "limits",
        key: "connections_anonymous_percent",
        kind: Kind::Number {
            min: 1,
            max: 100,
            unit: "percent",
            set: |s, n| s.limits.connections_anonymous_percent = size(n),
        },
        default: "90",
        sentence: "Share of connections_max that connections which have not authenticated may \
                   have; one more takes the place of the one that was silent for longest, of the \
                   address that has most.",
    },
    Row {
        section: "limits",
        key: "bind_failures_max",
        kind: Kind::Number {
            min: 0,
            max: 1_000_000,
            unit: "binds",
            set: |s, n| s.limits.bind_failures_max = number(n),
        },
        default: "20",
        sentence: "Binds of one address that may fail before its next ones have to wait, longer \
                   with each that fails; they are forgotten by half every minute; 0 means any \
                   number. No more wait for their hashes at a time, the next ones for these. A \
                   client that is gone before its answer counts as well, where a right password \
                   would have been answered at once. A change of a password that sends the old \
                   one counts and waits as a bind does.",
    },
    Row {
        section: "limits",
        key: "bind_delay_max_ms",
        kind: Kind::Number {
            min: 1,
            max: 60_000,
            unit: "milliseconds",
            set: |s, n| s.limits.bind_delay_max = Duration::from_millis(n),
        },
        default: "5000",
        sentence: "The longest delay between two binds of such an address. They wait in line, each \
                   for four of these delays at the most; one that would have to wait longer is \
                   answered busy.",
    },
    Row {
        section: "limits",
        key: "bind_gateways",
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
        sentence: "Hosts that bind for many people, such as a web application or a gateway of \
                   PAM: binds that fail there are counted by the account that they are about, \
                   by whatever name, so that others do not wait; what names nobody by the \
                   address, as elsewhere. A stranger behind the same host can so keep one \
                   account out, its owner too, there and nowhere else, and learn whether two \
                   names are of one account. Such a host has to limit guesses at many names \
                   itself.",
    },
    Row {
        section: "limits",
        key: "message_size_max_bytes",
        kind: Kind::Number {
            min: MESSAGE_SIZE_MIN_BYTES,
            max: MESSAGE_SIZE_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.message_size_max_bytes = size(n),
        },
        default: "16777216",
        sentence: "Size of one request; a larger one ends the session.",
    },
    Row {
        section: "limits",
        key: "message_size_anonymous_max_bytes",
        kind: Kind::Number {
            min: MESSAGE_SIZE_MIN_BYTES,
            max: MESSAGE_SIZE_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.message_size_anonymous_max_bytes = size(n),
        },
        default: "65536",
        sentence: "Size of one request of a client that has not authenticated.",
    },
    Row {
        section: "limits",
        key: "outstanding_max",
        kind: Kind::Number {
            min: 1,
            max: 10_000,
            unit: "operations",
            set: |s, n| s.limits.outstanding_max = size(n),
        },
        default: "64",
        sentence: "Unanswered operations of one connection; at the limit nothing more is read.",
    },
    Row {
        section: "limits",
        key: "output_buffer_max_bytes",
        kind: Kind::Number {
            min: MESSAGE_SIZE_MIN_BYTES,
            max: MESSAGE_SIZE_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.output_buffer_max_bytes = size(n),
        },
        default: "1048576",
        sentence: "Answers waiting to be read by a client; beyond, its requests have to wait.",
    },
    Row {
        section: "limits",
        key: "undelivered_max_bytes",
        kind: Kind::Number {
            min: MEMORY_MIN_BYTES,
            max: MEMORY_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.undelivered_max_bytes = size(n),
        },
        default: "1073741824",
        sentence: "Memory for answers that clients have not taken, and for requests that have not \
                   arrived in full or wait, of all connections; beyond, the connection that has \
                   taken nothing for longest is closed, of the address that has most.",
    },
    Row {
        section: "limits",
        key: "undelivered_anonymous_max_bytes",
        kind: Kind::Number {
            min: MEMORY_MIN_BYTES,
            max: MEMORY_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.undelivered_anonymous_max_bytes = size(n),
        },
        default: "67108864",
        sentence: "As much of it as all connections that have not authenticated may take.",
    },
    Row {
        section: "limits",
        key: "undelivered_per_address_max_bytes",
        kind: Kind::Number {
            min: MEMORY_MIN_BYTES,
            max: MEMORY_MAX_BYTES,
            unit: "bytes",
            set: |s, n| s.limits.undelivered_per_address_max_bytes = size(n),
        },
        default: "16777216",
        sentence: "As much of that as those of one IPv4 address or IPv6 network of 64 bits may \
                   take.",
    },
    Row {
        section: "limits",
        key: "first_request_timeout_s",
        kind: Kind::Number {
            min: 0,
            max: TIMEOUT_MAX_S,
            unit: "seconds",
            set: |s, n| s.limits.first_request_timeout = Duration::from_secs(n),
        },
        default: "30",
        sentence: "How long a connection may last before its first whole request, however many \
                   octets come; 0 means for ever.",
    },
    Row {
        section: "limits",
        key: "idle_timeout_s",
        kind: Kind::Number {
            min: 0,
            max: TIMEOUT_MAX_S,
            unit: "seconds",
            set: |s, n| s.limits.idle_timeout = Duration::from_secs(n),
        },
        default: "0",
        sentence: "How long a connection may stay silent; 0 means for ever.",
    },
    Row {
        section: "limits",
        key: "write_timeout_s",
        kind: Kind::Number {
            min: 1,
            max: TIMEOUT_MAX_S,
            unit: "seconds",
            set: |s, n| s.limits.write_timeout = Duration::from_secs(n),
        },
        default: "60",
        sentence: "How long a client may refuse to read its answers before it is closed.",
    },
    Row {
        section: "limits",
        key: "half_closed_timeout_ms",
        kind: Kind::Number {
            min: 0,
            max: TIMEOUT_MAX_S * 1000,
            unit: "milliseconds; 0 = to their end",
            set: |s, n| s.limits.half_closed_timeout = Duration::from_millis(n),
        },
        default: "1000",
        sentence: "How long searches go on for a client that has ended its side of the connection, \
                   as one that was killed has, while they find nothing to send to it; and how long \
                   a request of it may wait for a password to be hashed, or in line for its \
                   address.",
    },
    Row {
        section: "limits",
        key: "size_limit_entries",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "entries; 0 = no limit",
            set: |s, n| s.limits.size_limit_entries = number(n),
        },
        default: "1000",
        sentence: "Entries one search (or one page of it) returns; an entry may be given its own \
                   limit by ds-rlim-size-limit or nsSizeLimit.",
    },
    Row {
        section: "limits",
        key: "paged_total_entries_max",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "entries; 0 = no limit",
            set: |s, n| s.limits.paged_total_entries_max = number(n),
        },
        default: "0",
        sentence: "Entries that all pages of one search return together; the page that would go \
                   beyond ends with sizeLimitExceeded; an entry may be given its own limit by \
                   ds-rlim-paged-total-limit.",
    },
    Row {
        section: "limits",
        key: "time_limit_s",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "seconds; 0 = no limit",
            set: |s, n| s.limits.time_limit_s = number(n),
        },
        default: "60",
        sentence: "How long one search may take; an entry may be given its own limit by \
                   ds-rlim-time-limit or nsTimeLimit.",
    },
    Row {
        section: "limits",
        key: "look_through_limit_entries",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "entries; 0 = no limit",
            set: |s, n| s.limits.look_through_limit_entries = number(n),
        },
        default: "0",
        sentence: "Entries one search may look at; an entry may be given its own limit by \
                   ds-rlim-lookthrough-limit or nsLookThroughLimit.",
    },
    Row {
        section: "limits",
        key: "search_work_max_millions",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "million steps; 0 = no limit",
            set: |s, n| s.limits.search_work_max = number(n),
        },
        default: "60000",
        sentence: "Work that one search may do, testing entries, sorting them and following \
                   chains; a million steps are about a millisecond of a processor; an entry may be \
                   given its own limit by ds-rlim-search-work-limit.",
    },
    Row {
        section: "limits",
        key: "search_work_anonymous_max_millions",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "million steps; 0 = no limit",
            set: |s, n| s.limits.search_work_anonymous_max = number(n),
        },
        default: "1000",
        sentence: "The same for a search of a client that has not authenticated.",
    },
    Row {
        section: "limits",
        key: "unindexed_entries",
        kind: Kind::Number {
            min: 0,
            max: u32::MAX as u64,
            unit: "entries; 0 = always refused",
            set: |s, n| s.limits.unindexed_entries = number(n),
        },
        default: "5000",
        sentence: "Entries that a search which no index helps may look at beside ten for each that \
                   it finds; beyond, it ends for those without the privilege unindexed-search.",
    },
    Row {
        section: "limits",
        key: "sort_entries_max",
        kind: Kind::Number {
            min: 1,
            max: u32::MAX as u64,
            unit: "entries",
            set: |s, n| s.limits.sort_entries_max = n,
        },
        default: "250000",
        sentence: "Entries that one search sorts in memory; more are sorted only where an index \
                   has them in order, or page by page.",
    },
    Row {
        section: "limits",
        key: "sort_bytes_max",
        kind: Kind::Number {
            min: 1_024,
            max: SORT_BYTES_MAX,
            unit: "bytes",
            set: |s, n| s.limits.sort_bytes_max = usize::try_from(n).unwrap_or(usize::MAX),
        },
        default: "67108864",
        sentence: "Memory that one search takes for sorting.",
    },
];

/// Less than one large answer would close connections that do nothing wrong.
const MEMORY_MIN_BYTES: u64 = 1 << 20;

/// A terabyte: more is surely a mistake in the unit.
const MEMORY_MAX_BYTES: u64 = 1 << 40;
