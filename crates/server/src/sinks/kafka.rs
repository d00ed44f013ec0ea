//! Records of a topic of Kafka, confirmed by all replicas in sync (`acks=all`).
//!
//! Invariant: all changes of an entry go to one partition, in order, and a request for a partition
//! is sent when the one before it was confirmed.

use std::collections::BTreeMap;
use std::time::Duration;

use directory::sinks::{KafkaTarget, SinkMessage};
use environment::Timestamp;
use futures_util::future::join_all;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rskafka::{BackoffConfig, BackoffError};
use tokio::time::timeout;

use super::files::SinkFiles;
use super::partition::partition_of;
use super::target::{NotSent, SendTime, take_confirmed};

/// Sends to a topic.
pub(super) struct KafkaSender {
    target: KafkaTarget,
    files: SinkFiles,
    /// The partitions of the topic, as they were when it was connected.
    live: Option<Vec<PartitionClient>>,
    /// The broker has refused several records together: so many are sent alone, of each partition.
    alone: usize,
}

/// What became of the records of a partition.
#[derive(Default)]
struct Produced {
    confirmed: Vec<usize>,
    away: Option<String>,
    refused: Option<(usize, String)>,
    /// Records that are still to be sent alone.
    alone: usize,
}

/// How records are sent.
#[derive(Clone, Copy)]
struct How {
    time: SendTime,
    limit: Duration,
    /// So many records are sent alone.
    alone: usize,
}

impl KafkaSender {
    pub(super) fn new(target: KafkaTarget, files: SinkFiles) -> Self {
        Self { target, files, live: None, alone: 0 }
    }

    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        time: SendTime,
    ) -> Result<(), NotSent> {
        let limit = self.target.timeout;
        let seconds = limit.as_secs();
        let late = |_| NotSent::Away(format!("no answer within {seconds} seconds"));
        let live = match self.live.take() {
            Some(live) => live,
            None => timeout(limit, self.connect()).await.map_err(late)?.map_err(NotSent::Away)?,
        };
        let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, message) in pending.iter().enumerate() {
            let partition = partition_of(message.key.as_bytes(), live.len());
            places.entry(partition).or_default().push(at);
        }
        let how = How { time, limit, alone: self.alone };
        let all = places.into_iter().filter_map(|(partition, places)| {
            let client = live.get(partition)?;
            Some(produce(client, places, pending, how))
        });
        let all: Vec<Produced> = join_all(all).await;
        let mut confirmed = vec![false; pending.len()];
        for at in all.iter().flat_map(|one| &one.confirmed) {
            if let Some(one) = confirmed.get_mut(*at) {
                *one = true;
            }
        }
        self.alone = all.iter().map(|one| one.alone).max().unwrap_or(0);
        let away = all.iter().find_map(|one| one.away.clone());
        let refused = all.into_iter().find_map(|one| one.refused);
        let before = confirmed.iter().take(refused.as_ref().map_or(0, |(at, _)| *at));
        let at = before.filter(|is_confirmed| !**is_confirmed).count();
        take_confirmed(pending, &confirmed);
        if let Some(why) = away {
            return Err(NotSent::Away(why));
        }
        self.live = Some(live);
        match refused {
            Some((_, why)) => Err(NotSent::Refused { at, why }),
            // The age of what is left.
            None if !pending.is_empty() => Err(NotSent::Stale),
            None => Ok(()),
        }
    }

    async fn connect(&self) -> Result<Vec<PartitionClient>, String> {
        let KafkaTarget { brokers, topic, ca, sign_in, mechanism, .. } = &self.target;
        let names = brokers.iter().map(|broker| broker.authority()).collect();
        // It tries nothing again by itself: by then, what is to be sent may be too old.
        let backoff = BackoffConfig { deadline: Some(Duration::ZERO), ..BackoffConfig::default() };
        let mut builder = ClientBuilder::new(names)
            .client_id("roster")
            .backoff_config(backoff)
            .max_message_size(ANSWER_MAX_BYTES);
        if brokers.iter().any(|broker| broker.is_tls) {
            builder = builder.tls_config(self.files.tls(ca.as_deref())?);
        }
        if let Some(sign_in) = sign_in {
            let password = self.files.password(&sign_in.password)?;
            let credentials = Credentials::new(sign_in.user.clone(), password.to_string());
            builder = builder.sasl_config(match &**mechanism {
                "plain" => SaslConfig::Plain(credentials),
                "scram-sha-256" => SaslConfig::ScramSha256(credentials),
                _ => SaslConfig::ScramSha512(credentials),
            });
        }
        let failed = |error: Error| said(&error);
        let client = builder.build().await.map_err(failed)?;
        let topics = client.list_topics().await.map_err(failed)?;
        let Some(found) = topics.into_iter().find(|one| one.name == *topic) else {
            return Err(format!("there is no topic {topic}, or this user may not see it"));
        };
        let mut partitions = Vec::new();
        for number in found.partitions {
            let handling = UnknownTopicHandling::Error;
            let one = client.partition_client(topic.clone(), number, handling).await;
            partitions.push(one.map_err(failed)?);
        }
        match partitions.is_empty() {
            true => Err(format!("the topic {topic} has no partition")),
            false => Ok(partitions),
        }
    }
}

/// Sends the messages at these places to a partition, in requests of some size, while they are
/// young.
async fn produce(
    client: &PartitionClient,
    places: Vec<usize>,
    pending: &[SinkMessage],
    how: How,
) -> Produced {
    let mut produced = Produced { alone: how.alone, ..Produced::default() };
    let mut left = places.as_slice();
    while !left.is_empty() && how.time.check().is_ok() {
        let mut bytes = 0;
        let fits = |at: &&usize| {
            bytes += pending.get(**at).map_or(0, |message| message.json.len() + OVERHEAD_BYTES);
            bytes <= REQUEST_BYTES
        };
        let fit = left.iter().take_while(fits).count().max(1);
        let (now, later) = left.split_at(if produced.alone > 0 { 1 } else { fit });
        let records = now.iter().filter_map(|at| pending.get(*at)).map(record).collect();
        let sent = client.produce(records, Compression::NoCompression);
        match timeout(how.limit, sent).await {
            Ok(Ok(_)) => {
                produced.alone = produced.alone.saturating_sub(1);
                produced.confirmed.extend(now);
            }
            Ok(Err(error)) if is_of_records(&error) => {
                if let [alone] = now {
                    produced.alone = produced.alone.saturating_sub(1);
                    produced.refused = Some((*alone, error.to_string()));
                    return produced;
                }
                produced.alone = now.len();
                continue;
            }
            Ok(Err(error)) => {
                produced.away = Some(said(&error));
                return produced;
            }
            Err(_) => {
                produced.away = Some(format!("no answer within {} seconds", how.limit.as_secs()));
                return produced;
            }
        }
        left = later;
    }
    produced
}

/// What went wrong, without that it was not tried again.
fn said(error: &Error) -> String {
    match error {
        Error::RetryFailed(BackoffError::DeadlineExceded { source, .. }) => source.to_string(),
        _ => error.to_string(),
    }
}

fn record(message: &SinkMessage) -> Record {
    Record {
        key: Some(message.key.clone().into_bytes()),
        value: Some(message.json.clone()),
        headers: BTreeMap::from([("roster-id".to_owned(), message.id.clone().into_bytes())]),
        timestamp: moment(message.time),
    }
}

fn moment(time: Timestamp) -> DateTime<Utc> {
    i64::try_from(time.0).ok().and_then(DateTime::from_timestamp_micros).unwrap_or_default()
}

/// Whether the broker takes others, but not what is among these.
fn is_of_records(error: &Error) -> bool {
    use ProtocolError::{InvalidRecord, InvalidTimestamp, MessageTooLarge, RecordListTooLarge};
    matches!(
        error,
        Error::ServerError {
            protocol_error: MessageTooLarge | RecordListTooLarge | InvalidRecord | InvalidTimestamp,
            ..
        }
    )
}

/// Octets of a request: a broker takes 1 MiB by default.
const REQUEST_BYTES: usize = 768 * 1024;
/// The largest answer: that about all topics of a cluster.
const ANSWER_MAX_BYTES: usize = 16 << 20;
/// What a record has beside its object, about.
const OVERHEAD_BYTES: usize = 256;
