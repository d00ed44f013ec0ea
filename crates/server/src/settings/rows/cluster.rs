//! The rows of `[cluster]`.

use std::time::Duration;

use crate::settings::cluster::{FORM, JOINED_MAX, LEVEL_FORM, PREFERRED_FORM, level, member};
use crate::settings::row::{Kind, Place, Row, size};

/// `[cluster]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "cluster",
        key: "id",
        place: Place::Start,
        kind: Kind::number(0..=JOINED_MAX, "", |s, n| s.cluster.id = n),
        default: "0",
        sentence: "The number of this server among the members; 0: it is no member of a cluster. \
                   Those with which a cluster begins have numbers up to 65,535; those that join \
                   later get theirs, above that, from the cluster.",
    },
    Row {
        section: "cluster",
        key: "listen",
        place: Place::Start,
        kind: Kind::Addresses { set: |s, addresses| s.cluster.listen = addresses },
        default: "127.0.0.1:7636",
        sentence: "Where the other members connect, over TLS with certificates of the cluster.",
    },
    Row {
        section: "cluster",
        key: "members",
        place: Place::Start,
        kind: Kind::Texts {
            separator: ',',
            form: FORM,
            is_well_formed: |text| member(text).is_some(),
            set: |s, texts| {
                s.cluster.members = texts.iter().filter_map(|text| member(text)).collect();
            },
        },
        default: "",
        sentence: "All members with which the cluster begins, this server included: number, \
                   address for the others, URL for clients. The same on every server. Once the \
                   members were changed while the cluster ran, the data directory knows them, and \
                   this list counts no more.",
    },
    Row {
        section: "cluster",
        key: "preferred",
        place: Place::Start,
        kind: Kind::Texts {
            separator: ',',
            form: PREFERRED_FORM,
            is_well_formed: |text| text.trim().parse::<u64>().is_ok(),
            set: |s, texts| {
                let ids = texts.iter().filter_map(|text| text.trim().parse().ok());
                s.cluster.preferred = ids.collect();
            },
        },
        default: "",
        sentence: "Numbers of the members that should lead as long as one of them can, those of \
                   the main site for example; empty: all alike. The same on every server.",
    },
    Row {
        section: "cluster",
        key: "certificates",
        place: Place::Start,
        kind: Kind::Path { may_be_empty: false, set: |s, path| s.cluster.certificates = path },
        default: "cluster",
        sentence: "Directory with ca.pem, node.pem and node.key of this member, relative to the \
                   data directory.",
    },
    Row {
        section: "cluster",
        key: "failover_after_ms",
        place: Place::Start,
        kind: Kind::number(0..=120_000, "milliseconds", |s, n| {
            s.cluster.failover_after = Duration::from_millis(n)
        }),
        default: "0",
        sentence: "How long nobody decides, about, when the leader is lost; from 400. After half \
                   of it without a sign of the leader the others elect another one, and all other \
                   times follow from that. 0: as cluster.sites says. The same on every server.",
    },
    Row {
        section: "cluster",
        key: "sites",
        place: Place::Start,
        kind: Kind::word(&["one", "several"], |s, word| {
            s.cluster.has_several_sites = word == "several"
        }),
        default: "one",
        sentence: "Whether the members are at one site, with less than 10 ms between them, or at \
                   several, with up to 200 ms: another leader is elected within 2 seconds, or \
                   within 8. The same on every server.",
    },
    Row {
        section: "cluster",
        key: "log_keep_mib",
        place: Place::Start,
        kind: Kind::number(0..=1_048_576, "MiB", |s, n| s.cluster.log_keep_bytes = n << 20),
        default: "1024",
        sentence: "How much of the log is kept for members that fall behind: one that was away for \
                   longer is sent a copy of all data.",
    },
    Row {
        section: "cluster",
        key: "copy_mib_per_second",
        place: Place::Start,
        kind: Kind::number(1..=100_000, "MiB per second", |s, n| {
            s.cluster.copy_rate_bytes = n << 20
        }),
        default: "200",
        sentence: "The most that this server sends in a second of copies of all data to members \
                   that need one.",
    },
    Row {
        section: "cluster",
        key: "verify_mib_per_second",
        place: Place::Start,
        kind: Kind::number(1..=100_000, "MiB per second", |s, n| {
            s.cluster.verify_rate_bytes = n << 20
        }),
        default: "32",
        sentence: "The most that a comparison of the members' data which is begun on this server \
                   reads in a second on each of them.",
    },
    Row {
        section: "cluster",
        key: "write_wait_ms",
        place: Place::Start,
        kind: Kind::number(100..=60_000, "milliseconds", |s, n| {
            s.cluster.write_wait = Duration::from_millis(n)
        }),
        default: "10000",
        sentence: "How long an update waits for the member that decides before it is answered \
                   unavailable; when that one has answered an update, those that are behind it on \
                   the same connection have this time again.",
    },
    Row {
        section: "cluster",
        key: "refer_writes",
        place: Place::Start,
        kind: Kind::word(&["on", "off"], |s, word| s.cluster.refers_writes = word == "on"),
        default: "off",
        sentence: "Whether clients get a referral to the member that decides, instead of having \
                   their updates forwarded.",
    },
    Row {
        section: "cluster",
        key: "read_levels",
        place: Place::Start,
        kind: Kind::Texts {
            separator: ';',
            form: LEVEL_FORM,
            is_well_formed: |text| level(text).is_some(),
            set: |s, texts| {
                s.cluster.read_levels = texts.iter().filter_map(|text| level(text)).collect();
            },
        },
        default: "",
        sentence: "How fresh searches and compares in these naming contexts, or parts of them, \
                   are if the request does not say: local, bounded with milliseconds, or \
                   linearizable. If the listener has a level too, the stricter one applies.",
    },
    Row {
        section: "cluster",
        key: "read_wait_ms",
        place: Place::Start,
        kind: Kind::number(10..=60_000, "milliseconds", |s, n| {
            s.cluster.read_wait = Duration::from_millis(n)
        }),
        default: "5000",
        sentence: "How long a search or compare waits until the data are as fresh as they have to \
                   be, before it is answered unavailable.",
    },
    Row {
        section: "cluster",
        key: "waiting_reads_max",
        place: Place::Start,
        kind: Kind::number(1..=1_000_000, "requests", |s, n| s.cluster.waiting_reads_max = size(n)),
        default: "10000",
        sentence: "Searches and compares that may wait for that, half of them of anonymous \
                   clients, a quarter of one identity or address; the next one gets busy.",
    },
];
