//! What may stand between the target of a sink and `as`: `NAME=VALUE`, a row each.

use std::sync::Arc;
use std::time::Duration;

use schema::{AttributeDescription, Schema};

use super::text::WhenGone;
use crate::lines::scanner::{LineError, Parsed, Scanner, attributes, wrong};

/// What was said.
#[derive(Debug)]
pub(super) struct SinkOptions {
    names: Vec<&'static str>,
    pub(super) attributes: Vec<Arc<AttributeDescription>>,
    pub(super) is_from_first: bool,
    pub(super) when_gone: WhenGone,
    pub(super) tries: u32,
    pub(super) timeout: Duration,
    pub(super) key: Option<String>,
    pub(super) ca: Option<String>,
    pub(super) is_cleartext: bool,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) token: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) mechanism: Option<String>,
    pub(super) max_mib: u64,
    pub(super) keep: u32,
}

impl Default for SinkOptions {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            attributes: Vec::new(),
            is_from_first: false,
            when_gone: WhenGone::GoOn,
            tries: 5,
            timeout: Duration::from_secs(10),
            key: None,
            ca: None,
            is_cleartext: false,
            user: None,
            password: None,
            token: None,
            subject: None,
            topic: None,
            mechanism: None,
            max_mib: 64,
            keep: 4,
        }
    }
}

/// An option.
pub(super) struct SinkOption {
    pub(super) name: &'static str,
    /// For these kinds; for all if there are none.
    pub(super) kinds: &'static [&'static str],
    /// Its value, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference is made by a test"))]
    pub(super) form: &'static str,
    /// What it does, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference is made by a test"))]
    pub(super) about: &'static str,
    set: fn(&mut SinkOptions, &str, &Schema) -> Parsed<()>,
}

/// Every option.
pub(super) static OPTIONS: [SinkOption; 16] = [
    SinkOption {
        name: "attributes",
        kinds: &[],
        form: "NAMES",
        about: "Only these attributes are told, with commas between; a modification of none of \
                them is not told. Without it all are, but for secret ones (passwords, keys), which \
                no sink is told.",
        set: |given, value, schema| {
            given.attributes = attributes(value.split(','), schema, "sink")?;
            match given.attributes.len() > ATTRIBUTES_MAX {
                true => wrong(format!("a sink names at most {ATTRIBUTES_MAX} attributes")),
                false => Ok(()),
            }
        },
    },
    SinkOption {
        name: "from",
        kinds: &[],
        form: "now, first",
        about: "Where it begins: behind the change that sets it up, or with the first change that \
                is kept. Default: now.",
        set: |given, value, _| {
            given.is_from_first = one_of(value, [("now", false), ("first", true)])?;
            Ok(())
        },
    },
    SinkOption {
        name: "gone",
        kinds: &[],
        form: "continue, stop",
        about: "Where changes are not kept any more that it was not told: it goes on with the \
                first one that is kept, and counts what is missing; or it stops, until it is \
                dropped and set up anew. Default: continue.",
        set: |given, value, _| {
            let both = [("continue", WhenGone::GoOn), ("stop", WhenGone::Stop)];
            given.when_gone = one_of(value, both)?;
            Ok(())
        },
    },
    SinkOption {
        name: "tries",
        kinds: &["webhook", "nats", "kafka"],
        form: "1..100",
        about: "A message that the target refuses for good so many times is a dead letter: it is \
                counted, logged with its number, and left out. Default: 5.",
        set: |given, value, _| {
            given.tries = number(value, 1, 100)?;
            Ok(())
        },
    },
    SinkOption {
        name: "timeout",
        kinds: &["webhook", "nats", "kafka"],
        form: "1..300",
        about: "Seconds that a target may take to answer. Default: 10.",
        set: |given, value, _| {
            given.timeout = Duration::from_secs(number(value, 1, 300)?.into());
            Ok(())
        },
    },
    SinkOption {
        name: "key",
        kinds: &["webhook"],
        form: "FILE",
        about: "The file with the key that signs, of at least 16 bytes. It has to be there.",
        set: |given, value, _| file(value, &mut given.key),
    },
    SinkOption {
        name: "ca",
        kinds: &["webhook", "nats", "kafka"],
        form: "FILE",
        about: "The file with the certificates (PEM) that vouch for the target. Default: those of \
                the system.",
        set: |given, value, _| file(value, &mut given.ca),
    },
    SinkOption {
        name: "cleartext",
        kinds: &["webhook", "nats", "kafka"],
        form: "yes",
        about: "Sends without TLS to another machine: whoever is on the way reads all. Targets on \
                this machine need no such word, but for Kafka, where brokers name others.",
        set: |given, value, _| {
            given.is_cleartext = one_of(value, [("yes", true), ("no", false)])?;
            Ok(())
        },
    },
    SinkOption {
        name: "user",
        kinds: &["nats", "kafka"],
        form: "NAME",
        about: "Who the server is there, with `password`.",
        set: |given, value, _| text(value, &mut given.user),
    },
    SinkOption {
        name: "password",
        kinds: &["nats", "kafka"],
        form: "FILE",
        about: "The file with the password of `user`.",
        set: |given, value, _| file(value, &mut given.password),
    },
    SinkOption {
        name: "mechanism",
        kinds: &["kafka"],
        form: "plain, scram-sha-256, scram-sha-512",
        about: "How `user` signs in. Default: scram-sha-512. `plain` takes TLS, or a broker on \
                this machine.",
        set: |given, value, _| {
            let all = ["plain", "scram-sha-256", "scram-sha-512"].map(|name| (name, name));
            given.mechanism = Some(one_of(value, all)?.to_owned());
            Ok(())
        },
    },
    SinkOption {
        name: "token",
        kinds: &["nats"],
        form: "FILE",
        about: "The file with a token that lets the server in, instead of `user`.",
        set: |given, value, _| file(value, &mut given.token),
    },
    SinkOption {
        name: "subject",
        kinds: &["nats"],
        form: "SUBJECT",
        about: "The subject, which a stream has to take. It has to be there.",
        set: |given, value, _| {
            let words = value.split('.');
            let is_one = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
            let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_one);
            match value.len() <= 255 && words.clone().all(is_word) {
                true => text(value, &mut given.subject),
                false => wrong(format!(
                    "'{value}' is no subject: words of letters, digits, '-' and '_', with dots \
                     between"
                )),
            }
        },
    },
    SinkOption {
        name: "topic",
        kinds: &["kafka"],
        form: "TOPIC",
        about: "The topic, which has to exist. It has to be there.",
        set: |given, value, _| {
            let is_one = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
            let is_dots = matches!(value, "." | "..");
            match !is_dots && (1..=249).contains(&value.len()) && value.bytes().all(is_one) {
                true => text(value, &mut given.topic),
                false => wrong(format!("'{value}' is no name of a topic")),
            }
        },
    },
    SinkOption {
        name: "max_mib",
        kinds: &["file"],
        form: "1..65536",
        about: "Size of the file in MiB with which it is renamed to NAME.1, NAME.1 to NAME.2 and \
                so on, and a new one is begun. Default: 64.",
        set: |given, value, _| {
            given.max_mib = number(value, 1, 65_536)?.into();
            Ok(())
        },
    },
    SinkOption {
        name: "keep",
        kinds: &["file"],
        form: "1..1000",
        about: "So many renamed files are kept; the oldest is deleted, read or not. Default: 4.",
        set: |given, value, _| {
            given.keep = number(value, 1, 1_000)?;
            Ok(())
        },
    },
];

impl SinkOptions {
    /// Reads the options of a kind, and the `as` behind them.
    pub(super) fn read(scanner: &mut Scanner<'_>, kind: &str, schema: &Schema) -> Parsed<Self> {
        let mut given = Self::default();
        while !scanner.takes("as") {
            let word = scanner.word();
            if word.is_empty() || word == "as" {
                return wrong(
                    "'as' and the name of an entry are expected: a sink is told what that identity \
                     may read",
                );
            }
            given.take(word, kind, schema)?;
        }
        Ok(given)
    }

    fn take(&mut self, word: &str, kind: &str, schema: &Schema) -> Parsed<()> {
        let is_for = |one: &&SinkOption| one.kinds.is_empty() || one.kinds.contains(&kind);
        let Some((name, value)) = word.split_once('=') else {
            return wrong(format!("'{word}' is no option such as from=first, nor 'as DN'"));
        };
        let Some(option) = OPTIONS.iter().filter(is_for).find(|one| one.name == name) else {
            let all = OPTIONS.iter().filter(is_for).map(|one| one.name).collect::<Vec<_>>();
            let all = all.join(", ");
            return wrong(format!("'{name}' is no option of a {kind} sink; there are: {all}"));
        };
        if self.names.contains(&option.name) {
            return wrong(format!("'{name}' is there twice"));
        }
        self.names.push(option.name);
        (option.set)(self, value, schema)
            .map_err(|LineError(why)| LineError(format!("{name}: {why}")))
    }
}

/// Whether it names a file in a directory, and nothing else.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_one = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    !name.starts_with('.') && (1..=64).contains(&name.len()) && name.bytes().all(is_one)
}

fn file(value: &str, into: &mut Option<String>) -> Parsed<()> {
    if !is_file_name(value) {
        return wrong(format!(
            "'{value}' is no name of a file in the directory of the sinks: up to 64 letters, \
             digits, '-', '_' and '.'"
        ));
    }
    *into = Some(value.to_owned());
    Ok(())
}

fn text(value: &str, into: &mut Option<String>) -> Parsed<()> {
    if value.is_empty() || value.chars().any(char::is_control) {
        return wrong("a value is expected behind '='");
    }
    *into = Some(value.to_owned());
    Ok(())
}

fn number(value: &str, first: u32, last: u32) -> Parsed<u32> {
    let is_digits = !value.is_empty() && value.bytes().all(|octet| octet.is_ascii_digit());
    let number = value.parse().ok().filter(|number| (first..=last).contains(number));
    match number.filter(|_| is_digits) {
        Some(number) => Ok(number),
        None => wrong(format!("'{value}' is no number from {first} to {last}")),
    }
}

fn one_of<T: Copy, const N: usize>(value: &str, all: [(&str, T); N]) -> Parsed<T> {
    match all.iter().find(|(name, _)| *name == value) {
        Some((_, meant)) => Ok(*meant),
        None => {
            let names = all.map(|(name, _)| name).join(", ");
            wrong(format!("'{value}' is none of: {names}"))
        }
    }
}

/// The most attributes that a sink names.
const ATTRIBUTES_MAX: usize = 64;
