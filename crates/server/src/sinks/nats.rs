//! Messages of NATS JetStream, each confirmed by the stream that takes its subject.
//!
//! Invariant: of one entry no message is sent before the one before it is confirmed, so none is
//! ever stored behind a later one; of different entries many are under way.
//! Invariant: `Nats-Msg-Id` is the id of the message: the stream drops what comes twice within its
//! window.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_nats::jetstream::context::{Context, ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, ConnectOptions};
use directory::sinks::{NatsTarget, SinkMessage};
use hyper::body::Bytes;
use tokio::time::timeout;

use super::files::SinkFiles;
use super::target::{NotSent, take_confirmed};

/// Sends to a stream.
pub(super) struct NatsSender {
    target: NatsTarget,
    /// The sink, for the server.
    name: String,
    files: SinkFiles,
    live: Option<Live>,
}

struct Live {
    stream: Context,
    _client: Client,
}

impl NatsSender {
    pub(super) fn new(target: NatsTarget, name: &str, files: SinkFiles) -> Self {
        Self { target, name: name.to_owned(), files, live: None }
    }

    pub(super) async fn send(&mut self, pending: &mut Vec<SinkMessage>) -> Result<(), NotSent> {
        let limit = self.target.timeout;
        let live = match self.live.take() {
            Some(live) => live,
            None => match timeout(limit, self.connect()).await {
                Ok(connected) => connected.map_err(NotSent::Away)?,
                Err(_) => return Err(NotSent::Away(no_answer(limit.as_secs()))),
            },
        };
        let sent = self.publish(&live.stream, pending).await;
        // What was sent and not confirmed may come yet: the next ones go another way, and what
        // comes twice is dropped by its id.
        if !matches!(sent, Err(NotSent::Away(_))) {
            self.live = Some(live);
        }
        sent
    }

    /// Sends the first ones that are of different entries, and waits for all of them.
    async fn publish(
        &self,
        stream: &Context,
        pending: &mut Vec<SinkMessage>,
    ) -> Result<(), NotSent> {
        let mut entries = BTreeSet::new();
        let is_other = |message: &&SinkMessage| entries.insert(message.entry);
        let window = pending.iter().take(WINDOW_MAX).take_while(is_other);
        let mut acknowledged = Vec::new();
        let mut failed = None;
        for message in window {
            let publish = PublishMessage::build()
                .payload(Bytes::from(message.json.clone()))
                .message_id(&message.id)
                .header("Roster-Key", &*message.key)
                .header("Roster-Sink", &*self.name);
            match stream.send_publish(self.target.subject.clone(), publish).await {
                Ok(future) => acknowledged.push(Some(future)),
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    acknowledged.push(None);
                }
                Err(error) => {
                    failed = Some(error.to_string());
                    break;
                }
            }
        }
        let (mut confirmed, mut refused) = (Vec::new(), None);
        for future in acknowledged {
            let Some(future) = future else {
                refused = refused.or(Some(confirmed.len()));
                confirmed.push(false);
                continue;
            };
            match future.await {
                Ok(_) => confirmed.push(true),
                Err(error) => {
                    confirmed.push(false);
                    let why = match error.kind() {
                        PublishErrorKind::StreamNotFound => {
                            format!("no stream takes the subject {}", self.target.subject)
                        }
                        _ => error.to_string(),
                    };
                    failed = failed.or(Some(why));
                }
            }
        }
        let before_refused = confirmed.iter().take(refused.unwrap_or(0));
        let at = before_refused.filter(|is_confirmed| !**is_confirmed).count();
        take_confirmed(pending, &confirmed);
        match (failed, refused) {
            (Some(why), _) => Err(NotSent::Away(why)),
            (None, Some(_)) => {
                let why = "it is larger than max_payload of the server".to_owned();
                Err(NotSent::Refused { at, why })
            }
            (None, None) => Ok(()),
        }
    }

    async fn connect(&self) -> Result<Live, String> {
        let NatsTarget { endpoint, ca, sign_in, token, timeout, .. } = &self.target;
        let mut options = ConnectOptions::new()
            .name(format!("roster sink {}", self.name))
            .connection_timeout(*timeout)
            .ignore_discovered_servers()
            .max_reconnects(1)
            .require_tls(endpoint.is_tls);
        if endpoint.is_tls {
            let config = self.files.tls(ca.as_deref())?;
            options = options.tls_client_config(Arc::unwrap_or_clone(config));
        }
        if let Some(sign_in) = sign_in {
            let password = self.files.password(&sign_in.password)?;
            options = options.user_and_password(sign_in.user.clone(), password.to_string());
        }
        if let Some(token) = token {
            options = options.token(self.files.password(token)?.to_string());
        }
        let scheme = if endpoint.is_tls { "tls" } else { "nats" };
        let url = format!("{scheme}://{}", endpoint.authority());
        let client = async_nats::connect_with_options(url, options).await;
        let client = client.map_err(|error| format!("{}: {error}", endpoint.authority()))?;
        let stream = ContextBuilder::new()
            .timeout(*timeout)
            .max_ack_inflight(2 * WINDOW_MAX)
            .build(client.clone());
        Ok(Live { stream, _client: client })
    }
}

fn no_answer(seconds: u64) -> String {
    format!("no answer within {seconds} seconds")
}

/// Messages under way.
const WINDOW_MAX: usize = 256;
