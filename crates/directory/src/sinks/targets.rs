//! Where a sink sends to, in the words of its line.

use std::time::Duration;

use super::endpoint::SinkEndpoint;

/// Where a sink sends to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SinkTarget {
    /// Lines of a file.
    File(FileTarget),
    /// Requests by HTTP, one for each change.
    Webhook(WebhookTarget),
    /// A stream of NATS.
    Nats(NatsTarget),
    /// A topic of Kafka.
    Kafka(KafkaTarget),
}

impl SinkTarget {
    /// The word for its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Webhook(_) => "webhook",
            Self::Nats(_) => "nats",
            Self::Kafka(_) => "kafka",
        }
    }

    /// The files that it reads: a key, a password, certificates.
    pub(crate) fn files_read(&self) -> impl Iterator<Item = &str> {
        let (sign_in, others) = match self {
            Self::File(_) => (None, [None, None]),
            Self::Webhook(one) => (None, [Some(&one.key), one.ca.as_ref()]),
            Self::Nats(one) => (one.sign_in.as_ref(), [one.token.as_ref(), one.ca.as_ref()]),
            Self::Kafka(one) => (one.sign_in.as_ref(), [None, one.ca.as_ref()]),
        };
        let password = sign_in.map(|one| &one.password);
        others.into_iter().flatten().chain(password).map(String::as_str)
    }

    /// How long an answer may take.
    pub const fn timeout(&self) -> Duration {
        match self {
            Self::File(_) => FILE_TIMEOUT,
            Self::Webhook(target) => target.timeout,
            Self::Nats(target) => target.timeout,
            Self::Kafka(target) => target.timeout,
        }
    }
}

/// A file in the directory of the sinks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileTarget {
    /// Its name.
    pub name: String,
    /// With so many octets in it the next one is begun.
    pub max_bytes: u64,
    /// So many that are full are kept.
    pub keep: u32,
}

/// A server that takes requests by HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebhookTarget {
    /// Where it is.
    pub endpoint: SinkEndpoint,
    /// The file with the key that signs.
    pub key: String,
    /// The file with certificates of authorities to trust; none: those of the system.
    pub ca: Option<String>,
    /// How long a request may take.
    pub timeout: Duration,
}

/// How the server proves who it is to a message bus.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignIn {
    /// The name.
    pub user: String,
    /// The file with the password.
    pub password: String,
}

/// A subject that a stream of NATS JetStream takes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NatsTarget {
    /// Where the server is.
    pub endpoint: SinkEndpoint,
    /// The subject.
    pub subject: String,
    /// The file with certificates of authorities to trust; none: those of the system.
    pub ca: Option<String>,
    /// Who it is there.
    pub sign_in: Option<SignIn>,
    /// The file with a token, instead.
    pub token: Option<String>,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// A topic of Kafka.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KafkaTarget {
    /// Servers to ask first.
    pub brokers: Vec<SinkEndpoint>,
    /// The topic.
    pub topic: String,
    /// The file with certificates of authorities to trust; none: those of the system.
    pub ca: Option<String>,
    /// Who it is there: by SCRAM-SHA-512, or by PLAIN where TLS protects it.
    pub sign_in: Option<SignIn>,
    /// The mechanism.
    pub mechanism: String,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// What is written to a file longer than that is told of.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
