//! The rows of `[admin]`.

use crate::settings::row::{Kind, Row};

/// `[admin]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "admin",
        key: "listen",
        kind: Kind::Addresses { set: |s, addresses| s.admin.listen = addresses },
        default: "",
        sentence: "Addresses for HTTP, such as \"127.0.0.1:9389\": /metrics, /livez, /readyz. \
                   Without any there is no such listener.",
    },
    Row {
        section: "admin",
        key: "remote",
        kind: Kind::word(super::passwords::ON_OFF, |s, word| s.admin.remote = word == "on"),
        default: "off",
        sentence: "Whether these addresses may be reached from other machines. There is neither \
                   TLS nor a password: who reaches them sees the figures.",
    },
];
