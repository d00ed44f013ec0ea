//! The rows of `[admin]`.

use crate::settings::row::{Kind, Place, Row};

/// `[admin]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "admin",
        key: "listen",
        place: Place::Reload,
        kind: Kind::Addresses { set: |s, addresses| s.admin.listen = addresses },
        default: "",
        sentence: "Addresses for HTTP, such as \"127.0.0.1:9389\": /metrics, /livez, /readyz. \
                   Empty means no such listener.",
    },
    Row {
        section: "admin",
        key: "remote",
        place: Place::Reload,
        kind: Kind::word(super::passwords::ON_OFF, |s, word| s.admin.remote = word == "on"),
        default: "off",
        sentence: "Whether other machines may reach these addresses. There is neither TLS nor a \
                   password: everybody who reaches them sees the metrics.",
    },
];
