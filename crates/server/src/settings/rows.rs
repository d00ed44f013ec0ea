//! The table of settings: one row each. Adding a setting is adding a field and a row.

use std::time::Duration;

use directory::Network;

use super::authentication::{CERTIFICATE_MAPPERS, MECHANISMS};
use super::row::{Kind, NETWORKS, Place, Row, TIMEOUT_MAX_S, number};
use crate::listen::read_levels::{FORM as LISTENER_LEVELS, ListenerLevels};
use crate::listen::tls::{CIPHER_SUITES, VERSIONS};
use crate::rows::join;

mod access_control;
mod admin;
mod cluster;
mod limits;
mod logs;
pub(super) mod passwords;
mod server;

/// The row of a setting.
pub(super) fn find(section: &str, key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.section == section && row.key == key)
}

/// The sections in the order of the sample file, each with a sentence.
pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("server", "The process."),
    ("listen", "Where clients connect. An IPv6 address does not include IPv4."),
    ("tls", "The certificate for LDAPS and StartTLS. If there is none, a self-signed one is made."),
    ("authentication", "How clients authenticate."),
    ("limits", "Limits of connections and searches."),
    ("store", "Memory and disk of the store."),
    ("archive", "Changes that are kept for those who read them later. See how-to/changes.md."),
    ("sinks", "Changes that are sent elsewhere. See how-to/sinks.md."),
    ("tasks", "What the server does by itself. See how-to/tasks.md."),
    ("log", "Diagnostics: start, stop, problems. Requests are not logged here."),
    ("admin", "HTTP for monitoring: metrics and health. See how-to/monitoring.md."),
    ("cluster", "Several servers with one directory. See how-to/cluster.md."),
    ("access_control", "Host names for ACIs, and the privileges of the administrator."),
    ("password", "How passwords are stored and verified."),
    (
        "password_policy",
        "What binds record in accounts. Policies are entries: see how-to/password-policy.md.",
    ),
    ("access_log", "A line for each operation: who requested what. See how-to/logs.md."),
    ("audit_log", "Every change without a gap, and who made it. See how-to/logs.md."),
];

/// All settings, by section.
pub(super) const ROWS: &[Row] = &join::<
    Row,
    {
        server::ROWS.len()
            + NODE_ROWS.len()
            + limits::ROWS.len()
            + STORE_ROWS.len()
            + admin::ROWS.len()
            + cluster::ROWS.len()
            + access_control::ROWS.len()
            + passwords::ROWS.len()
            + logs::ROWS.len()
    },
>(&[
    server::ROWS,
    NODE_ROWS,
    limits::ROWS,
    STORE_ROWS,
    admin::ROWS,
    cluster::ROWS,
    access_control::ROWS,
    passwords::ROWS,
    logs::ROWS,
]);

/// Other sections of the node itself.
const NODE_ROWS: &[Row] = &[
    Row {
        section: "listen",
        key: "ldap",
        place: Place::Reload,
        kind: Kind::Addresses { set: |s, addresses| s.listen.ldap = addresses },
        default: "127.0.0.1:1389",
        sentence: "Addresses for LDAP; StartTLS is offered there.",
    },
    Row {
        section: "listen",
        key: "ldaps",
        place: Place::Reload,
        kind: Kind::Addresses { set: |s, addresses| s.listen.ldaps = addresses },
        default: "127.0.0.1:1636",
        sentence: "Addresses for LDAP over TLS (LDAPS).",
    },
    Row {
        section: "listen",
        key: "ldapi",
        place: Place::Reload,
        kind: Kind::Path { may_be_empty: true, set: |s, path| s.listen.ldapi = path },
        default: "ldapi",
        sentence: "Unix socket for local clients, relative to the data directory; empty for none.",
    },
    Row {
        section: "listen",
        key: "ldapi_mode",
        place: Place::Reload,
        kind: Kind::Mode { set: |s, mode| s.listen.ldapi_mode = mode },
        default: "0660",
        sentence: "Permission bits of the Unix socket, which decide who may connect.",
    },
    Row {
        section: "listen",
        key: "proxies",
        place: Place::Reload,
        kind: Kind::Texts {
            separator: ',',
            form: NETWORKS,
            is_well_formed: |text| text.parse::<Network>().is_ok(),
            set: |s, texts| {
                s.listen.proxies = texts.iter().filter_map(|text| text.parse().ok()).collect();
            },
        },
        default: "",
        sentence: "Proxies that report the address of their client with the PROXY protocol, \
                   version 1 or 2; every TCP connection from these networks must begin with its \
                   header.",
    },
    Row {
        section: "listen",
        key: "read_levels",
        place: Place::Reload,
        kind: Kind::Texts {
            separator: ';',
            form: LISTENER_LEVELS,
            is_well_formed: |text| ListenerLevels::level(text).is_some(),
            set: |s, texts| {
                let levels = texts.iter().filter_map(|text| ListenerLevels::level(text));
                s.listen.read_levels = ListenerLevels::new(levels);
            },
        },
        default: "",
        sentence: "In a cluster: how fresh searches and compares on these listeners are if the \
                   request does not say: local, bounded with milliseconds, or linearizable. A \
                   listener is named by its address, or all of a kind by ldap, ldaps, ldapi.",
    },
    Row {
        section: "tls",
        key: "cert",
        place: Place::Reload,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.tls.cert = path },
        default: "tls/cert.pem",
        sentence: "Certificates (PEM), the server's own first; relative to the data directory.",
    },
    Row {
        section: "tls",
        key: "key",
        place: Place::Reload,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.tls.key = path },
        default: "tls/key.pem",
        sentence: "Private key (PEM) of the certificate; relative to the data directory.",
    },
    Row {
        section: "tls",
        key: "versions",
        place: Place::Reload,
        kind: Kind::Words { words: VERSIONS, set: |s, words| s.tls.versions = words },
        default: "1.2,1.3",
        sentence: "Protocol versions that are allowed.",
    },
    Row {
        section: "tls",
        key: "cipher_suites",
        place: Place::Reload,
        kind: Kind::Words { words: CIPHER_SUITES, set: |s, words| s.tls.cipher_suites = words },
        default: "",
        sentence: "Cipher suites that are allowed; empty means all of them.",
    },
    Row {
        section: "tls",
        key: "client_certificates",
        place: Place::Reload,
        kind: Kind::word(&["none", "optional", "required"], |s, word| {
            s.tls.client_certificates = word
        }),
        default: "none",
        sentence: "Whether the server requests a client certificate (optional) or refuses clients \
                   without one (required); a certificate that a client presents must be valid.",
    },
    Row {
        section: "tls",
        key: "client_ca",
        place: Place::Reload,
        kind: Kind::Path { may_be_empty: true, set: |s, path| s.tls.client_ca = path },
        default: "",
        sentence: "Certificates (PEM) of the authorities that may issue client certificates; \
                   relative to the data directory.",
    },
    Row {
        section: "tls",
        key: "client_crl",
        place: Place::Reload,
        kind: Kind::Path { may_be_empty: true, set: |s, path| s.tls.client_crl = path },
        default: "",
        sentence: "Certificate revocation lists (PEM), one for each issuer; relative to the data \
                   directory.",
    },
    Row {
        section: "tls",
        key: "reload_interval_s",
        place: Place::Reload,
        kind: Kind::number(0..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.tls.reload_interval = Duration::from_secs(n)
        }),
        default: "10",
        sentence: "How often the files of this section, and the keys for tokens, are checked for \
                   changes; 0 means never.",
    },
    Row {
        section: "tls",
        key: "handshake_timeout_s",
        place: Place::Reload,
        kind: Kind::number(1..=TIMEOUT_MAX_S, "seconds", |s, n| {
            s.tls.handshake_timeout = Duration::from_secs(n)
        }),
        default: "10",
        sentence: "How long a TLS handshake may take before the connection is closed.",
    },
    Row {
        section: "authentication",
        key: "confidentiality",
        place: Place::Directory(41),
        kind: Kind::word(&["always", "remote", "never"], |s, word| {
            s.authentication.confidentiality = word
        }),
        default: "remote",
        sentence: "Where passwords and tokens need TLS: everywhere except on the Unix socket, on \
                   connections from other machines, or nowhere.",
    },
    Row {
        section: "authentication",
        key: "plain_confidentiality",
        place: Place::Directory(42),
        kind: Kind::word(&["always", "remote", "never"], |s, word| {
            s.authentication.plain_confidentiality = word
        }),
        default: "always",
        sentence: "Where the SASL mechanism PLAIN is offered and accepted only over TLS, as \
                   above; confidentiality applies in addition.",
    },
    Row {
        section: "authentication",
        key: "mechanisms",
        place: Place::Directory(43),
        kind: Kind::Words {
            words: MECHANISMS,
            set: |s, words| s.authentication.mechanisms = words,
        },
        default: "EXTERNAL,SCRAM-SHA-512-PLUS,SCRAM-SHA-256-PLUS,SCRAM-SHA-512,SCRAM-SHA-256,\
                  OAUTHBEARER,PLAIN",
        sentence: "SASL mechanisms that are offered if they can succeed; GSSAPI and ANONYMOUS \
                   must be listed explicitly.",
    },
    Row {
        section: "authentication",
        key: "bind_by_name",
        place: Place::Directory(44),
        kind: Kind::word(&["on", "off"], |s, word| s.authentication.bind_by_name = word == "on"),
        default: "on",
        sentence: "Whether a simple bind may use a user name instead of a DN.",
    },
    Row {
        section: "authentication",
        key: "name_attributes",
        place: Place::Directory(45),
        kind: Kind::Texts {
            separator: ',',
            form: "attribute types",
            is_well_formed: |text| !text.is_empty(),
            set: |s, texts| s.authentication.name_attributes = texts,
        },
        default: "uid",
        sentence: "Attribute types that contain user names; the first one for which an entry has \
                   the name decides. Each needs an equality index.",
    },
    Row {
        section: "authentication",
        key: "name_bases",
        place: Place::Directory(46),
        kind: Kind::Texts {
            separator: ';',
            form: "DNs",
            is_well_formed: |text| ldap::dn::Dn::parse(text).is_ok(),
            set: |s, texts| s.authentication.name_bases = texts,
        },
        default: "",
        sentence: "Subtrees that contain the entries of users; empty means everywhere.",
    },
    Row {
        section: "authentication",
        key: "certificate_mapper",
        place: Place::Directory(47),
        kind: Kind::word(CERTIFICATE_MAPPERS, |s, word| s.authentication.certificate_mapper = word),
        default: "subject-equals-dn",
        sentence: "How SASL EXTERNAL finds the entry of a client certificate.",
    },
    Row {
        section: "authentication",
        key: "certificate_subject_attribute",
        place: Place::Directory(48),
        kind: Kind::Text { set: |s, text| s.authentication.certificate_subject_attribute = text },
        default: "ds-certificate-subject-dn",
        sentence: "For subject-dn-to-user-attribute: the attribute type of the entry that \
                   contains the subject.",
    },
    Row {
        section: "authentication",
        key: "certificate_attributes",
        place: Place::Directory(49),
        kind: Kind::Texts {
            separator: ',',
            form: "pairs SUBJECT:ENTRY of attribute types",
            is_well_formed: |text| text.split_once(':').is_some(),
            set: |s, texts| s.authentication.certificate_attributes = texts,
        },
        default: "cn:cn,emailAddress:mail",
        sentence: "For subject-attribute-to-user-attribute: which attribute of the subject must \
                   equal which attribute of the entry; all pairs must match.",
    },
    Row {
        section: "authentication",
        key: "certificate_fingerprint_attribute",
        place: Place::Directory(50),
        kind: Kind::Text {
            set: |s, text| s.authentication.certificate_fingerprint_attribute = text,
        },
        default: "ds-certificate-fingerprint",
        sentence: "For fingerprint: the attribute type of the entry that contains the fingerprint.",
    },
    Row {
        section: "authentication",
        key: "certificate_fingerprint_digest",
        place: Place::Directory(51),
        kind: Kind::word(&["sha256", "sha1"], |s, word| {
            s.authentication.certificate_fingerprint_digest = word
        }),
        default: "sha256",
        sentence: "For fingerprint: the digest algorithm.",
    },
    Row {
        section: "authentication",
        key: "keytab",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: true, set: |s, path| s.authentication.keytab = path },
        default: "",
        sentence: "Keys of the service ldap/HOST for Kerberos (GSSAPI), if it is built in and \
                   listed in mechanisms; relative to the data directory. Empty: the keytab of \
                   KRB5_KTNAME, or of the system.",
    },
    Row {
        section: "authentication",
        key: "token_keys",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: true, set: |s, path| s.authentication.token_keys = path },
        default: "",
        sentence: "Keys (a JSON Web Key Set) of the issuer of tokens for OAUTHBEARER; relative to \
                   the data directory. Without keys, issuer and audience, no token is accepted.",
    },
    Row {
        section: "authentication",
        key: "token_issuer",
        place: Place::Directory(52),
        kind: Kind::Text { set: |s, text| s.authentication.token_issuer = text },
        default: "",
        sentence: "The issuer that a token must name (iss).",
    },
    Row {
        section: "authentication",
        key: "token_audience",
        place: Place::Directory(53),
        kind: Kind::Text { set: |s, text| s.authentication.token_audience = text },
        default: "",
        sentence: "The audience that a token must name (aud): this directory.",
    },
    Row {
        section: "authentication",
        key: "token_claim",
        place: Place::Directory(54),
        kind: Kind::Text { set: |s, text| s.authentication.token_claim = text },
        default: "sub",
        sentence: "The claim of a token that contains the user name or DN.",
    },
    Row {
        section: "authentication",
        key: "token_clock_skew_s",
        place: Place::Directory(55),
        kind: Kind::number(0..=3_600, "seconds", |s, n| {
            s.authentication.token_clock_skew_s = number(n)
        }),
        default: "60",
        sentence: "How far the clocks of the issuer and the directory may differ.",
    },
];

/// What it keeps, and what it says.
const STORE_ROWS: &[Row] = &[
    Row {
        section: "store",
        key: "map_size_gib",
        place: Place::Start,
        kind: Kind::number(1..=65_536, "GiB", |s, n| s.store.map_size_bytes = n << 30),
        default: "1024",
        sentence: "Address space reserved for the database; it uses neither memory nor disk.",
    },
    Row {
        section: "store",
        key: "overlay_max_mib",
        place: Place::Start,
        kind: Kind::number(1..=65_536, "MiB", |s, n| s.store.overlay_max_bytes = n << 20),
        default: "256",
        sentence: "Memory for changes that are not in the database yet; at the limit, writes wait.",
    },
    Row {
        section: "store",
        key: "preload",
        place: Place::Start,
        kind: Kind::word(&["auto", "on", "off"], |s, word| s.store.preload = word),
        default: "auto",
        sentence: "Whether 'roster serve' reads the data file into memory while it serves \
                   clients: auto, if the file fits into half of the free memory; on, also a \
                   larger file, as far as memory allows, names and indexes first; off, never.",
    },
    Row {
        section: "store",
        key: "index_build_percent",
        place: Place::Start,
        kind: Kind::number(1..=100, "percent", |s, n| {
            s.store.index_build_percent = u8::try_from(n).unwrap_or(100)
        }),
        default: "50",
        sentence: "Share of one core's time that building and removing indexes may take.",
    },
    Row {
        section: "store",
        key: "journal_keep_mib",
        place: Place::Start,
        kind: Kind::number(0..=(1 << 24), "MiB", |s, n| s.store.journal_keep_bytes = n << 20),
        default: "1024",
        sentence: "Size of the journal that is kept after its changes are in the database, for \
                   incremental backups.",
    },
    Row {
        section: "store",
        key: "disk_low_mib",
        place: Place::Start,
        kind: Kind::number(0..=(1 << 24), "MiB", |s, n| s.store.disk_low_bytes = n << 20),
        default: "200",
        sentence: "Free disk space below which only the administrator may write.",
    },
    Row {
        section: "store",
        key: "disk_full_mib",
        place: Place::Start,
        kind: Kind::number(0..=(1 << 24), "MiB", |s, n| s.store.disk_full_bytes = n << 20),
        default: "100",
        sentence: "Free disk space, less what must still be written to the data file, below which \
                   nobody may write, nor file sinks; at most disk_low_mib.",
    },
    Row {
        section: "archive",
        key: "keep_days",
        place: Place::Start,
        kind: Kind::number(0..=36_500, "days", |s, n| {
            s.archive.keep = Duration::from_secs(n * 86_400);
        }),
        default: "7",
        sentence: "How long changes are kept; 0 means no archive.",
    },
    Row {
        section: "archive",
        key: "max_percent",
        place: Place::Start,
        kind: Kind::number(1..=100, "percent", |s, n| {
            s.archive.max_percent = u8::try_from(n).unwrap_or(100);
        }),
        default: "10",
        sentence: "Share of the disk that the archive may take; the oldest changes go first. It \
                   also gives way when the disk gets full (store.disk_low_mib).",
    },
    Row {
        section: "archive",
        key: "max_mib",
        place: Place::Start,
        kind: Kind::number(0..=(1 << 24), "MiB", |s, n| s.archive.max_bytes = n << 20),
        default: "0",
        sentence: "Size that the archive may take, if that is less; 0 means that max_percent alone \
                   counts.",
    },
    Row {
        section: "archive",
        key: "directory",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.archive.directory = path },
        default: "archive",
        sentence: "Where it is, relative to the data directory; it may be on another disk.",
    },
    Row {
        section: "sinks",
        key: "run",
        place: Place::Start,
        kind: Kind::word(passwords::ON_OFF, |s, word| s.sinks.run = word == "on"),
        default: "on",
        sentence: "Whether this server sends changes where cn=Sinks,cn=config says; off for a copy \
                   that is tried out.",
    },
    Row {
        section: "sinks",
        key: "directory",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.sinks.directory = path },
        default: "sinks",
        sentence: "Where the files of sinks are, and those with their keys and passwords, relative \
                   to the data directory.",
    },
    Row {
        section: "tasks",
        key: "directory",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.tasks.directory = path },
        default: "task-files",
        sentence: "Where the files are that tasks read and write, backups among them, relative to \
                   the data directory; it may be on another disk, and backups should.",
    },
    Row {
        section: "tasks",
        key: "running_max",
        place: Place::Directory(70),
        kind: Kind::number(1..=16, "tasks", |s, n| {
            s.tasks.running_max = usize::try_from(n).unwrap_or(usize::MAX)
        }),
        default: "2",
        sentence: "The most tasks that are at work at a time; others wait.",
    },
    Row {
        section: "tasks",
        key: "keep_days",
        place: Place::Directory(71),
        kind: Kind::number(1..=3_650, "days", |s, n| {
            s.tasks.keep = Duration::from_secs(n * 86_400)
        }),
        default: "30",
        sentence: "How long tasks that have ended are shown. At most 1,000 are known.",
    },
    Row {
        section: "tasks",
        key: "mail_server",
        place: Place::Directory(72),
        kind: Kind::Text { set: |s, text| s.tasks.mail_server = text },
        default: "",
        sentence: "HOST:PORT of the server that takes e-mail about tasks (SMTP, without a \
                   password; with TLS if it offers that).",
    },
    Row {
        section: "tasks",
        key: "mail_from",
        place: Place::Directory(73),
        kind: Kind::Text { set: |s, text| s.tasks.mail_from = text },
        default: "",
        sentence: "The address that such e-mail is from.",
    },
    Row {
        section: "log",
        key: "level",
        place: Place::Directory(56),
        kind: Kind::word(&["error", "warn", "info", "debug", "trace"], |s, word| {
            s.log.level = word
        }),
        default: "info",
        sentence: "How much is logged.",
    },
    Row {
        section: "log",
        key: "format",
        place: Place::Start,
        kind: Kind::word(&["text", "json"], |s, word| s.log.format = word),
        default: "text",
        sentence: "One line of text or one JSON object for each record.",
    },
];
