//! How a sink is written: `NAME: KIND TARGET [OPTION=VALUE …] as DN [below DN] [where FILTER]`, in
//! a line.
//!
//! A kind plugs in by one row of `KINDS`, an option by one of `options.rs`.

use std::sync::Arc;

use schema::{AttributeDescription, DnKey, Schema};

use super::endpoint::SinkEndpoint;
use super::options::{SinkOptions, is_file_name};
use super::targets::{FileTarget, KafkaTarget, NatsTarget, SignIn, SinkTarget, WebhookTarget};
use crate::lines::Line;
use crate::lines::kind::Kind;
use crate::lines::place::Place;
use crate::lines::scanner::{LineError, Parsed, Scanner, wrong};

/// What the server sends where, as an administrator says it.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Its name.
    pub name: String,
    /// The line.
    pub text: String,
    /// Where to.
    pub target: SinkTarget,
    /// What it does where changes are gone.
    pub when_gone: WhenGone,
    /// How often a message is refused before it is left out.
    pub tries: u32,
    /// Whether it begins with the first change that is kept.
    pub(crate) is_from_first: bool,
    /// By whose rights.
    pub(crate) identity: DnKey,
    /// The attributes that it is told; all if there are none.
    pub(crate) attributes: Vec<Arc<AttributeDescription>>,
    /// The entries that it is about.
    pub(crate) place: Place,
}

/// What a sink does where changes are not kept any more that it was not told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenGone {
    /// It goes on with the first that is kept.
    GoOn,
    /// It stops.
    Stop,
}

/// What the words of a kind mean.
struct Meaning {
    target: SinkTarget,
    given: SinkOptions,
}

/// Every kind.
static KINDS: [Kind<Meaning>; 4] = [
    Kind {
        name: "file",
        form: "NAME",
        about: "A line of JSON for each change, appended to this file in the directory of the \
                sinks. It is on the disk before the sink's position moves.",
        example: "file changes.jsonl as uid=sync,ou=services,dc=example,dc=com",
        read: read_file,
    },
    Kind {
        name: "webhook",
        form: "URL key=FILE",
        about: "A POST of JSON for each change, one after the other, signed with the key.",
        example: "webhook https://hooks.example.com/roster key=hook.key as \
                  uid=sync,ou=services,dc=example,dc=com below ou=people,dc=example,dc=com",
        read: read_webhook,
    },
    Kind {
        name: "nats",
        form: "URL subject=SUBJECT",
        about: "A message of NATS JetStream for each change, which a stream has to confirm. The \
                URL is `tls://HOST:PORT`, or `nats://HOST:PORT` without TLS.",
        example: "nats tls://nats.example.com:4222 subject=directory.changes user=roster \
                  password=nats.password as uid=sync,ou=services,dc=example,dc=com",
        read: read_nats,
    },
    Kind {
        name: "kafka",
        form: "HOST:PORT,… topic=TOPIC",
        about: "A record of Kafka for each change, with the entry's `entryUUID` as its key, which \
                all replicas in sync have to confirm.",
        example: "kafka kafka1.example.com:9093,kafka2.example.com:9093 topic=directory \
                  user=roster password=kafka.password as uid=sync,ou=services,dc=example,dc=com \
                  where (objectClass=person)",
        read: read_kafka,
    },
];

/// The setting with the sinks.
pub(crate) const SINKS: &str = "sinks";

impl Line for Sink {
    const SETTING: &'static str = SINKS;

    fn read(text: &str, schema: &Schema) -> Parsed<Self> {
        Self::parse(text, schema)
    }
}

impl Sink {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is no sink, or names attributes that the schema does not know or that are secret.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, LineError> {
        let (name, mut scanner) = Scanner::begin(text, "sink", KINDS[0].example)?;
        let kind = scanner.kind(&KINDS)?;
        let Meaning { target, given } = (kind.read)(&mut scanner, schema)?;
        let identity = scanner.name(schema)?;
        let place = scanner.place(schema)?;
        let SinkOptions { attributes, is_from_first, when_gone, tries, .. } = given;
        Ok(Self {
            name: name.to_owned(),
            text: text.to_owned(),
            target,
            when_gone,
            tries,
            is_from_first,
            identity,
            attributes,
            place,
        })
    }

    /// The file that it writes to, if it does.
    pub(crate) fn file(&self) -> Option<&str> {
        match &self.target {
            SinkTarget::File(file) => Some(&file.name),
            SinkTarget::Webhook(_) | SinkTarget::Nats(_) | SinkTarget::Kafka(_) => None,
        }
    }

    /// Whether it writes to a file of this name, or renames one to it. Names that differ in
    /// capitals may be the same file.
    pub(crate) fn writes(&self, name: &str) -> bool {
        let (Some(file), name) = (self.file(), name.to_ascii_lowercase()) else { return false };
        let rest = name.strip_prefix(&file.to_ascii_lowercase());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('.').is_some_and(is_number))
    }
}

fn read_file(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Meaning> {
    let name = scanner.word().to_owned();
    if !is_file_name(&name) || name.rsplit('.').next().is_some_and(is_number) {
        return wrong(format!(
            "'{name}' is no name for the file of a sink: up to 64 letters, digits, '-', '_' and \
             '.', without a number behind the last '.'"
        ));
    }
    let given = SinkOptions::read(scanner, "file", schema)?;
    let file = FileTarget { name, max_bytes: given.max_mib << 20, keep: given.keep };
    Ok(Meaning { target: SinkTarget::File(file), given })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_digit())
}

fn read_webhook(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Meaning> {
    let endpoint = SinkEndpoint::of_url(scanner.word(), ["http", "https"], 443)?;
    let mut given = SinkOptions::read(scanner, "webhook", schema)?;
    check_cleartext(&endpoint, &given)?;
    let Some(key) = given.key.take() else {
        return wrong("'key=' and the file with the key that signs are expected");
    };
    let webhook = WebhookTarget { endpoint, key, ca: given.ca.take(), timeout: given.timeout };
    Ok(Meaning { target: SinkTarget::Webhook(webhook), given })
}

fn read_nats(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Meaning> {
    let endpoint = SinkEndpoint::of_url(scanner.word(), ["nats", "tls"], 4222)?;
    if !matches!(&*endpoint.path, "" | "/") {
        return wrong("nothing follows the port of a NATS server");
    }
    let mut given = SinkOptions::read(scanner, "nats", schema)?;
    check_cleartext(&endpoint, &given)?;
    let Some(subject) = given.subject.take() else {
        return wrong("'subject=' and a subject are expected, as in subject=directory.changes");
    };
    let (sign_in, token) = (sign_in(&mut given)?, given.token.take());
    if sign_in.is_some() && token.is_some() {
        return wrong("'token' stands alone, without 'user'");
    }
    let (ca, timeout) = (given.ca.take(), given.timeout);
    let nats = NatsTarget { endpoint, subject, ca, sign_in, token, timeout };
    Ok(Meaning { target: SinkTarget::Nats(nats), given })
}

fn read_kafka(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Meaning> {
    let brokers = scanner.word();
    let mut given = SinkOptions::read(scanner, "kafka", schema)?;
    // Brokers name others, which may be anywhere: that the first are here says nothing of them.
    let is_tls = !given.is_cleartext;
    let read = |text: &str| SinkEndpoint::of_pair(text, is_tls);
    let brokers = brokers.split(',').map(read).collect::<Parsed<Vec<_>>>()?;
    if brokers.len() > BROKERS_MAX {
        return wrong(format!("at most {BROKERS_MAX} brokers are named"));
    }
    let Some(topic) = given.topic.take() else {
        return wrong("'topic=' and the name of a topic are expected");
    };
    let sign_in = sign_in(&mut given)?;
    let mechanism = given.mechanism.take().unwrap_or_else(|| "scram-sha-512".to_owned());
    if mechanism == "plain" && !is_tls {
        return wrong("'mechanism=plain' would send the password without TLS");
    }
    let (ca, timeout) = (given.ca.take(), given.timeout);
    let kafka = KafkaTarget { brokers, topic, ca, sign_in, mechanism, timeout };
    Ok(Meaning { target: SinkTarget::Kafka(kafka), given })
}

fn sign_in(given: &mut SinkOptions) -> Parsed<Option<SignIn>> {
    match (given.user.take(), given.password.take()) {
        (Some(user), Some(password)) => Ok(Some(SignIn { user, password })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => wrong("'user' and 'password' stand together"),
    }
}

/// Refuses what would go over a network for all to read, where nobody said so.
fn check_cleartext(endpoint: &SinkEndpoint, given: &SinkOptions) -> Parsed<()> {
    if endpoint.is_tls || endpoint.is_local() || given.is_cleartext {
        return Ok(());
    }
    wrong(format!(
        "'{}' is another machine, and would be sent everything without TLS: use https:// or \
         tls://, or say 'cleartext=yes'",
        endpoint.host
    ))
}

/// The most brokers that are named.
const BROKERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sinks::options::OPTIONS;

    #[test]
    fn every_example_is_read() {
        let schema = Schema::builtin();
        for kind in &KINDS {
            let read = Sink::parse(&format!("a: {}", kind.example), &schema);
            assert!(read.is_ok(), "{}: {read:?}", kind.example);
            assert_eq!(read.unwrap().target.kind(), kind.name);
        }
    }

    #[test]
    fn what_is_written_is_meant() {
        let schema = Schema::builtin();
        let read = |text: &str| Sink::parse(text, &schema).unwrap();
        let one = read(
            "a: file a.jsonl max_mib=2 keep=3 from=first gone=stop attributes=mail,cn as \
             cn=a b,dc=x below dc=y where (cn=*)",
        );
        let file = FileTarget { name: "a.jsonl".to_owned(), max_bytes: 2 << 20, keep: 3 };
        assert_eq!(one.target, SinkTarget::File(file));
        assert_eq!((one.when_gone, one.is_from_first), (WhenGone::Stop, true));
        let names: Vec<&str> = one.attributes.iter().map(|one| one.text()).collect();
        assert_eq!(names, ["mail", "cn"]);
        assert_eq!(DnKey::from_text(&schema, "cn=a b,dc=x").as_ref(), Ok(&one.identity));
        assert!(one.place.below.is_some() && one.place.filter.is_some());
        let SinkTarget::Webhook(hook) =
            read("b: webhook https://h/x key=k ca=c timeout=3 as dc=x").target
        else {
            panic!("it is a webhook")
        };
        let told = (&*hook.key, hook.ca.as_deref(), hook.timeout.as_secs());
        assert_eq!(told, ("k", Some("c"), 3));
        let SinkTarget::Kafka(kafka) = read("c: kafka a:1,b:2 topic=t as dc=x").target else {
            panic!("it is kafka")
        };
        assert!(kafka.brokers.len() == 2 && kafka.brokers.iter().all(|one| one.is_tls));
        let SinkTarget::Kafka(kafka) = read("c: kafka localhost:1 topic=t as dc=x").target else {
            panic!("it is kafka")
        };
        // What such a broker names may be another machine.
        assert!(kafka.brokers.iter().all(|one| one.is_tls));
        let line = "c: kafka localhost:1 topic=t cleartext=yes as dc=x";
        let SinkTarget::Kafka(kafka) = read(line).target else { panic!("it is kafka") };
        assert!(kafka.brokers.iter().all(|one| !one.is_tls));
    }

    #[test]
    fn what_is_no_sink_is_refused_with_the_reason() {
        let schema = Schema::builtin();
        for (text, why) in [
            ("a file", "begins with a name"),
            ("a: mail x as dc=x", "no kind of sink; there are: file, webhook, nats, kafka"),
            ("a: file x", "'as' and the name of an entry"),
            ("a: file x as", "'as' and the name of an entry"),
            ("a: file x as below dc=x", "is no name"),
            ("a: file ../x as dc=x", "no name for the file"),
            ("a: file .x as dc=x", "no name for the file"),
            ("a: file x.1 as dc=x", "without a number"),
            ("a: file x keep as dc=x", "is no option such as"),
            ("a: file x keep=0 as dc=x", "keep: '0' is no number from 1"),
            ("a: file x keep=1 keep=1 as dc=x", "there twice"),
            ("a: file x key=a as dc=x", "no option of a file sink; there are: attributes"),
            ("a: file x from=x as dc=x", "none of: now, first"),
            ("a: file x attributes=userPassword as dc=x", "secret"),
            ("a: file x attributes=nothing as dc=x", "no attribute of the schema"),
            ("a: file x as dc=x where (userPassword=*)", "secret"),
            ("a: webhook https://h as dc=x", "'key='"),
            ("a: webhook https://h key=../k as dc=x", "no name of a file"),
            ("a: webhook http://h key=k as dc=x", "without TLS"),
            ("a: webhook ftp://h key=k as dc=x", "is not 'https' or 'http'"),
            ("a: nats nats://h subject=a as dc=x", "without TLS"),
            ("a: nats tls://h as dc=x", "'subject='"),
            ("a: nats tls://h subject=a.> as dc=x", "is no subject"),
            ("a: nats tls://h subject=a user=u as dc=x", "stand together"),
            ("a: nats tls://h subject=a user=u password=p token=t as dc=x", "stands alone"),
            ("a: kafka h topic=t as dc=x", "a port"),
            ("a: kafka h:1 as dc=x", "'topic='"),
            ("a: kafka h:1 topic=t/u as dc=x", "no name of a topic"),
            ("a: kafka h:1 topic=t cleartext=yes mechanism=plain as dc=x", "without TLS"),
            ("a: kafka localhost:1 topic=t cleartext=yes mechanism=plain as dc=x", "without TLS"),
        ] {
            let error = Sink::parse(text, &schema).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_reference_page_is_what_the_tables_say() {
        let mut text = HEAD.to_owned();
        for Kind { name, form, about, example, .. } in &KINDS {
            text += &format!("| `{name}` | `{form}` | {about} | `{example}` |\n");
        }
        text += OPTIONS_HEAD;
        for option in &OPTIONS {
            let kinds = match option.kinds {
                [] => "all".to_owned(),
                some => some.join(", "),
            };
            let (name, form, about) = (option.name, option.form, option.about);
            text += &format!("| `{name}` | `{form}` | {kinds} | {about} |\n");
        }
        let path = format!("{}/../../docs/reference/sinks.md", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let is = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(is == text, "{path} is not as the code says");
    }

    const HEAD: &str = "\
# Kinds of sinks

What follows the name in a [sink](../how-to/sinks.md): a kind, its target, options as `NAME=VALUE`,
`as` and the entry by whose rights it reads, then `below DN` or `where FILTER`, or both, for some
entries only.

To regenerate this page: `ROSTER_WRITE_REFERENCE=1 cargo test -p directory --lib reference`.

| kind | followed by | | example |
|---|---|---|---|
";

    const OPTIONS_HEAD: &str = "
## Options

A `FILE` is a name in the directory of the sinks, `sinks/` in the data directory, or where
`sinks.directory` says. Secrets come from such files alone.

| option | value | kinds | |
|---|---|---|---|
";
}
