//! The rows of `[access_log]` and `[audit_log]`.

use std::time::Duration;

use crate::rows::join;
use crate::settings::row::{Kind, Place, Row, number, size};

/// The rows of the file of one log.
macro_rules! file_rows {
    (
        $section:literal,
        $field:ident,
        $path:literal,
        $compress:literal,
        $keep_files:literal,
        $keep_free:literal
    ) => {
        [
            Row {
                section: $section,
                key: "path",
                place: Place::Start,
                kind: Kind::Path { may_be_empty: false, set: |s, path| s.$field.file.path = path },
                default: $path,
                sentence: "The file, relative to the data directory; only its owner can read it.",
            },
            Row {
                section: $section,
                key: "rotate_size_mib",
                place: Place::Reload,
                kind: Kind::number(0..=(1 << 20), "MiB", |s, n| {
                    s.$field.file.rotate_size_bytes = n << 20
                }),
                default: "100",
                sentence: "Rotates the file when it is larger; 0 means never.",
            },
            Row {
                section: $section,
                key: "rotate_every_h",
                place: Place::Reload,
                kind: Kind::number(0..=HOURS_MAX, "hours", |s, n| {
                    s.$field.file.rotate_every = Duration::from_secs(n * 3_600)
                }),
                default: "24",
                sentence: "Rotates the file when it is older; 0 means never.",
            },
            Row {
                section: $section,
                key: "rotate_at",
                place: Place::Reload,
                kind: Kind::TimeOfDay { set: |s, minutes| s.$field.file.rotate_at_min = minutes },
                default: "",
                sentence: "Rotates the file every day at this time.",
            },
            Row {
                section: $section,
                key: "compress",
                place: Place::Reload,
                kind: Kind::word(&["none", "gzip", "zstd"], |s, word| {
                    s.$field.file.compress = word
                }),
                default: $compress,
                sentence: "How rotated files are compressed; zstd takes the least CPU time.",
            },
            Row {
                section: $section,
                key: "keep_files",
                place: Place::Reload,
                kind: Kind::number(0..=100_000, "files", |s, n| s.$field.file.keep_files = size(n)),
                default: $keep_files,
                sentence: "Rotated files that are kept; the oldest are deleted first; 0 means any \
                           number.",
            },
            Row {
                section: $section,
                key: "keep_days",
                place: Place::Reload,
                kind: Kind::number(0..=36_500, "days", |s, n| {
                    s.$field.file.keep = Duration::from_secs(n * 86_400)
                }),
                default: "0",
                sentence: "How long rotated files are kept; 0 means whatever their age.",
            },
            Row {
                section: $section,
                key: "keep_free_mib",
                place: Place::Reload,
                kind: Kind::number(0..=(1 << 24), "MiB", |s, n| {
                    s.$field.file.keep_free_bytes = n << 20
                }),
                default: $keep_free,
                sentence: "Deletes rotated files, oldest first, while less of the disk is free; 0 \
                           means never.",
            },
        ]
    };
}

const ACCESS_FILE: [Row; 8] =
    file_rows!("access_log", access_log, "logs/access.log", "none", "10", "500");
const AUDIT_FILE: [Row; 8] =
    file_rows!("audit_log", audit_log, "logs/audit.log", "gzip", "100", "0");

const ACCESS: &[Row] = &[
    Row {
        section: "access_log",
        key: "format",
        place: Place::Start,
        kind: Kind::word(&["json", "text", "off"], |s, word| s.access_log.format = word),
        default: "json",
        sentence: "A JSON object for each operation, a line of text like OpenDJ's, or no log.",
    },
    Row {
        section: "access_log",
        key: "buffer_kib",
        place: Place::Start,
        kind: Kind::number(64..=(1 << 20), "KiB", |s, n| s.access_log.buffer_bytes = size(n << 10)),
        default: "1024",
        sentence: "Memory of each worker for lines that are not written yet; beyond it, lines are \
                   dropped and counted.",
    },
    Row {
        section: "access_log",
        key: "refused_per_second_max",
        place: Place::Start,
        kind: Kind::number(0..=1_000_000, "lines", |s, n| {
            s.access_log.refused_per_second_max = number(n)
        }),
        default: "10",
        sentence: "Lines per second for refused connections (too many, no TLS, no PROXY header); \
                   one line every ten seconds counts the others.",
    },
];

const AUDIT: &[Row] = &[
    Row {
        section: "audit_log",
        key: "format",
        place: Place::Start,
        kind: Kind::word(&["ldif", "json", "off"], |s, word| s.audit_log.format = word),
        default: "off",
        sentence: "LDIF with comments, a JSON object for each changed entry, or no log. It begins \
                   with the oldest change in the journal.",
    },
    Row {
        section: "audit_log",
        key: "passwords",
        place: Place::Start,
        kind: Kind::word(&["hidden", "hashed"], |s, word| s.audit_log.passwords = word),
        default: "hidden",
        sentence: "Whether values of passwords and other secrets are hidden or logged as they are \
                   stored.",
    },
];

/// All of them.
pub(super) const ROWS: &[Row] = &join::<Row, 21>(&[ACCESS, &ACCESS_FILE, AUDIT, &AUDIT_FILE]);

/// Ten years: longer is surely a mistake in the unit.
const HOURS_MAX: u64 = 87_600;
