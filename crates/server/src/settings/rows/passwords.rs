//! The rows of `[password]` and `[password_policy]`.

use std::time::Duration;

use auth::password::Scheme;

use crate::settings::row::{Kind, Place, Row, THREADS_MAX, number, size};

/// `[password]` and `[password_policy]`.
pub(super) const ROWS: &[Row] = &[
    Row {
        section: "password",
        key: "scheme",
        place: Place::Directory(29),
        kind: Kind::word(SCHEMES, |s, word| {
            s.password.options.storage.scheme = Scheme::of_word(word).unwrap_or_default();
        }),
        default: "ARGON2",
        sentence: "How new passwords are stored; SSHA512 is the fast one. Imports have their own \
                   option.",
    },
    Row {
        section: "password",
        key: "argon2_memory_kib",
        place: Place::Start,
        kind: Kind::number(8..=1048576, "KiB", |s, n| {
            s.password.options.storage.costs.argon2.memory_kib = number(n)
        }),
        default: "19456",
        sentence: "Memory for one Argon2id hash; each hash thread uses it while it computes.",
    },
    Row {
        section: "password",
        key: "argon2_passes",
        place: Place::Start,
        kind: Kind::number(1..=1000, "passes", |s, n| {
            s.password.options.storage.costs.argon2.passes = number(n)
        }),
        default: "2",
        sentence: "Passes of Argon2id over its memory.",
    },
    Row {
        section: "password",
        key: "argon2_lanes",
        place: Place::Start,
        kind: Kind::number(1..=64, "lanes", |s, n| {
            s.password.options.storage.costs.argon2.lanes = number(n)
        }),
        default: "1",
        sentence: "Lanes of Argon2id; they are computed one after the other.",
    },
    Row {
        section: "password",
        key: "pbkdf2_iterations",
        place: Place::Start,
        kind: Kind::number(1000..=10000000, "iterations", |s, n| {
            s.password.options.storage.costs.pbkdf2_iterations = number(n)
        }),
        default: "600000",
        sentence: "Iterations of new PBKDF2 hashes.",
    },
    Row {
        section: "password",
        key: "scram_iterations",
        place: Place::Start,
        kind: Kind::number(4096..=10000000, "iterations", |s, n| {
            s.password.options.storage.costs.scram_iterations = number(n)
        }),
        default: "50000",
        sentence: "Iterations of new SCRAM keys; each client computes as many when it binds, and \
                   Cyrus SASL refuses more than 65536.",
    },
    Row {
        section: "password",
        key: "bcrypt_cost",
        place: Place::Start,
        kind: Kind::number(4..=18, "", |s, n| {
            s.password.options.storage.costs.bcrypt_cost = number(n)
        }),
        default: "12",
        sentence: "Cost of new bcrypt hashes: 2 to this power is the number of steps.",
    },
    Row {
        section: "password",
        key: "rehash_on_bind",
        place: Place::Directory(36),
        kind: Kind::word(ON_OFF, |s, word| s.password.options.rehash_on_bind = word == "on"),
        default: "on",
        sentence: "Whether a password in a different scheme than new ones is hashed again after a \
                   successful bind.",
    },
    Row {
        section: "password",
        key: "check_own",
        place: Place::Directory(37),
        kind: Kind::word(ON_OFF, |s, word| s.password.options.check_own = word == "on"),
        default: "on",
        sentence: "Whether a password that users set for themselves must have at least 8 \
                   characters and must not be a common one, if no password policy says what it \
                   must be like.",
    },
    Row {
        section: "password",
        key: "cache_age_s",
        place: Place::Start,
        kind: Kind::number(0..=86_400, "seconds", |s, n| {
            s.password.options.cache.age_max = Duration::from_secs(n)
        }),
        default: "600",
        sentence: "How long a verified password with a slow hash (Argon2, bcrypt, PBKDF2 …) is \
                   accepted for further binds without computing the hash again; it is kept as a \
                   keyed digest in memory. Not used for the administrator and users with a \
                   privilege. 0 means never.",
    },
    Row {
        section: "password",
        key: "cache_max",
        place: Place::Start,
        kind: Kind::number(1..=10_000_000, "passwords", |s, n| {
            s.password.options.cache.passwords_max = size(n)
        }),
        default: "100000",
        sentence: "Passwords in this cache, at about 140 bytes each; a new one replaces one that \
                   was not used recently.",
    },
    Row {
        section: "password",
        key: "verify_blocks_max",
        place: Place::Start,
        kind: Kind::number(1000..=1_000_000_000, "blocks", |s, n| {
            s.password.options.cost_max.blocks = n
        }),
        default: "5000000",
        sentence: "Maximum cost of verifying one stored hash, roughly in microseconds of a core: \
                   iterations, rounds, KiB times passes, N times r times p, 128 times 2^cost of \
                   bcrypt.",
    },
    Row {
        section: "password",
        key: "verify_memory_max_mib",
        place: Place::Start,
        kind: Kind::number(1..=65536, "MiB", |s, n| {
            s.password.options.cost_max.memory_bytes = n << 20
        }),
        default: "256",
        sentence: "Maximum memory for verifying one stored hash; each of hash_threads may use it.",
    },
    Row {
        section: "password",
        key: "verify_lanes_max",
        place: Place::Start,
        kind: Kind::number(1..=1024, "lanes", |s, n| s.password.options.cost_max.lanes = number(n)),
        default: "16",
        sentence: "Maximum number of lanes of a stored hash.",
    },
    Row {
        section: "password",
        key: "hash_threads",
        place: Place::Start,
        kind: Kind::number(0..=THREADS_MAX, "threads", |s, n| s.password.hash_threads = size(n)),
        default: "0",
        sentence: "Threads that hash passwords; 0 means one for each two cores.",
    },
    Row {
        section: "password",
        key: "hash_queue_max",
        place: Place::Start,
        kind: Kind::number(1..=1_000_000, "requests", |s, n| s.password.hash_queue_max = size(n)),
        default: "4000",
        sentence: "Requests that may wait for a hash thread; a quarter of the places is for \
                   authenticated clients only. At the limit, the new request gets busy, or one of \
                   the client that has most.",
    },
    Row {
        section: "password",
        key: "hash_queue_address_max",
        place: Place::Start,
        kind: Kind::number(1..=1_000_000, "requests", |s, n| {
            s.password.hash_queue_address_max = size(n)
        }),
        default: "1500",
        sentence: "Requests of one identity that may wait for a hash thread, or of the anonymous \
                   clients of one address: a thread computes about as many within 30 s. \
                   Identities and addresses take turns; when hash_queue_max is reached, the one \
                   that has most gives up a place.",
    },
    Row {
        section: "password_policy",
        key: "default_dn",
        place: Place::Start,
        kind: Kind::Text { set: |s, text| s.password_policy.options.default_dn = text },
        default: "",
        sentence: "Name of the policy for accounts without a policy of their own; empty means \
                   none.",
    },
    Row {
        section: "password_policy",
        key: "state_delay_ms",
        place: Place::Start,
        kind: Kind::number(10..=60_000, "milliseconds", |s, n| {
            s.password_policy.options.state_delay = Duration::from_millis(n)
        }),
        default: "1000",
        sentence: "How long the account state that binds record waits in memory before it is \
                   written; it is lost if the process is killed. Locks are written at once.",
    },
    Row {
        section: "password_policy",
        key: "accounts_max",
        place: Place::Start,
        kind: Kind::number(1000..=100_000_000, "accounts", |s, n| {
            s.password_policy.options.accounts_max = size(n)
        }),
        default: "100000",
        sentence: "Accounts that may wait to be written, at 200 bytes or more each; binds whose \
                   failures could not be recorded get busy. The leader of a cluster keeps as many \
                   for the other members.",
    },
    Row {
        section: "password_policy",
        key: "last_login",
        place: Place::Start,
        kind: Kind::word(ON_OFF, |s, word| s.password_policy.options.last_login = word == "on"),
        default: "off",
        sentence: "Whether pwdLastSuccess is recorded for all accounts, or only if a policy needs \
                   it.",
    },
    Row {
        section: "password_policy",
        key: "last_login_precision_s",
        place: Place::Start,
        kind: Kind::number(0..=31_536_000, "seconds", |s, n| {
            s.password_policy.options.last_login_precision = Duration::from_secs(n);
        }),
        default: "86400",
        sentence: "How old pwdLastSuccess may be: it is written at most this often.",
    },
];

/// What a switch takes.
pub(super) const ON_OFF: &[&str] = &["on", "off"];

/// What `password.scheme` takes; a test compares it with what there is.
pub(in crate::settings) const SCHEMES: &[&str] = &[
    "ARGON2",
    "SSHA512",
    "SSHA384",
    "SSHA256",
    "SSHA",
    "PBKDF2-SHA1",
    "PBKDF2-SHA256",
    "PBKDF2-SHA512",
    "PBKDF2_SHA256",
    "PBKDF2",
    "PBKDF2-HMAC-SHA256",
    "PBKDF2-HMAC-SHA512",
    "PKCS5S2",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "BCRYPT",
    "SCRYPT",
    "CRYPT-SHA256",
    "CRYPT-SHA512",
    "CRYPT-YESCRYPT",
];
