//! The rows of `[access_control]`.

use std::time::Duration;

use crate::settings::row::{Kind, Row};

/// `[access_control]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "access_control",
        key: "host_names",
        kind: Kind::word(&["on", "off"], |s, word| s.access_control.host_names = word == "on"),
        default: "off",
        sentence: "Whether the name of each client's host is looked up, for ACIs with dns. While \
                   it is off, or a name does not lead back to its address, no name is known.",
    },
    Row {
        section: "access_control",
        key: "host_name_wait_ms",
        kind: Kind::number(1..=60_000, "milliseconds", |s, n| {
            s.access_control.host_name_wait = Duration::from_millis(n)
        }),
        default: "1000",
        sentence: "How long a new connection waits for the name of its host; what comes later is \
                   for the next one.",
    },
    Row {
        section: "access_control",
        key: "administrator_privileges",
        kind: Kind::Texts {
            separator: ',',
            form: "names of privileges, each behind a '-'",
            is_well_formed: directory::takes_privilege,
            set: |s, texts| s.access_control.administrator_privileges = texts,
        },
        default: "",
        sentence: "What the administrator lacks of all privileges. With \"-bypass-acl\" ACIs bind \
                   the administrator as well.",
    },
];
