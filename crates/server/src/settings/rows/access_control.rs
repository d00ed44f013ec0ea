//! The rows of `[access_control]`.

use std::time::Duration;

use crate::settings::row::{Kind, Place, Row};

/// `[access_control]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "access_control",
        key: "host_names",
        place: Place::Start,
        kind: Kind::word(&["on", "off"], |s, word| s.access_control.host_names = word == "on"),
        default: "off",
        sentence: "Whether the name of each client's host is looked up, for ACIs with dns. A name \
                   counts only if it resolves back to the client's address.",
    },
    Row {
        section: "access_control",
        key: "host_name_wait_ms",
        place: Place::Start,
        kind: Kind::number(1..=60_000, "milliseconds", |s, n| {
            s.access_control.host_name_wait = Duration::from_millis(n)
        }),
        default: "1000",
        sentence: "How long a new connection waits for the name of its host; a later result \
                   serves the next connection.",
    },
    Row {
        section: "access_control",
        key: "administrator_privileges",
        place: Place::Start,
        kind: Kind::Texts {
            separator: ',',
            form: "names of privileges, each behind a '-'",
            is_well_formed: directory::takes_privilege,
            set: |s, texts| s.access_control.administrator_privileges = texts,
        },
        default: "",
        sentence: "Privileges that are removed from the administrator, who has all others. With \
                   \"-bypass-acl\", ACIs apply to the administrator, too.",
    },
];
