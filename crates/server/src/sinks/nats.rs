//! Messages of NATS JetStream, each confirmed by the stream that takes its subject.
//!
//! Invariant: of one entry no message is sent before the one before it is confirmed, so none is
//! ever stored behind a later one; of different entries many are under way.
//! Invariant: `Nats-Msg-Id` is the id of the message: the stream drops what comes twice within its
//! window.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::jetstream::Error as StreamError;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    Context, ContextBuilder, PublishAckFuture, PublishError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, ConnectOptions, Event, Server};
use directory::sinks::{NatsTarget, SinkMessage};
use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::files::SinkFiles;
use super::received::Received;
use super::target::{NotSent, SendTime, take_confirmed};

/// Sends to a stream.
pub(super) struct NatsSender {
    target: NatsTarget,
    /// The sink, for the server.
    name: String,
    files: SinkFiles,
    received: Received,
    live: Option<Live>,
}

struct Live {
    stream: Context,
    _client: Client,
}

/// Why a message is not confirmed.
enum Unconfirmed {
    Away(String),
    TooLarge,
}

impl NatsSender {
    pub(super) fn new(target: NatsTarget, name: &str, files: SinkFiles) -> Self {
        let (name, received) = (name.to_owned(), Received::default());
        Self { target, name, files, received, live: None }
    }

    /// What comes from the server: its client keeps a line in memory, however long it is.
    pub(super) fn received(&self) -> Received {
        self.received.clone()
    }

    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        time: SendTime,
    ) -> Result<(), NotSent> {
        let limit = self.target.timeout;
        let live = match self.live.take() {
            Some(live) => live,
            None => match timeout(limit, self.connect()).await {
                Ok(connected) => connected.map_err(NotSent::Away)?,
                Err(_) => return Err(NotSent::Away(no_answer(limit.as_secs()))),
            },
        };
        let sent = self.publish(&live.stream, pending, time).await;
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
        time: SendTime,
    ) -> Result<(), NotSent> {
        let mut entries = BTreeSet::new();
        let is_other = |message: &&SinkMessage| entries.insert(message.entry);
        let window = pending.iter().take(WINDOW_MAX).take_while(is_other);
        let mut acknowledged = Vec::new();
        let (mut failed, mut is_stale) = (None, false);
        // Of all together.
        let until = Instant::now() + self.target.timeout;
        for message in window {
            if time.check().is_err() {
                is_stale = true;
                break;
            }
            let publish = PublishMessage::build()
                .payload(Bytes::from(message.json.clone()))
                .message_id(&message.id)
                .header("Roster-Key", &*message.key)
                .header("Roster-Sink", &*self.name);
            match stream.send_publish(self.target.subject.clone(), publish).await {
                Ok(future) => acknowledged.push(Some(future)),
                Err(error) if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                    if !self.is_believed(message) {
                        failed = Some(error.to_string());
                        break;
                    }
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
            let answer = match future {
                Some(future) => self.answer(future, until).await,
                None => Err(Unconfirmed::TooLarge),
            };
            match &answer {
                Ok(()) => {}
                Err(Unconfirmed::TooLarge) => refused = refused.or(Some(confirmed.len())),
                Err(Unconfirmed::Away(why)) => failed = failed.or_else(|| Some(why.clone())),
            }
            confirmed.push(answer.is_ok());
        }
        let before_refused = confirmed.iter().take(refused.unwrap_or(0));
        let at = before_refused.filter(|is_confirmed| !**is_confirmed).count();
        take_confirmed(pending, &confirmed);
        match (failed, refused) {
            (Some(why), _) => Err(NotSent::Away(why)),
            (None, Some(_)) => {
                let why = "it is larger than the server or the stream takes".to_owned();
                Err(NotSent::Refused { at, why })
            }
            (None, None) if is_stale => Err(NotSent::Stale),
            (None, None) => Ok(()),
        }
    }

    /// Whether a server is believed that says that it takes no message of this size. It says so
    /// before its certificate is seen: with TLS nobody on the way loses a message by that which a
    /// server takes that is set up as it comes.
    fn is_believed(&self, message: &SinkMessage) -> bool {
        let named = message.id.len() + message.key.len() + self.name.len();
        let bytes = message.json.len() + named + HEADERS_BYTES;
        !self.target.endpoint.is_tls || bytes > PAYLOAD_BYTES
    }

    /// What a stream says of a message, up to then.
    async fn answer(&self, future: PublishAckFuture, until: Instant) -> Result<(), Unconfirmed> {
        let error = match timeout_at(until, future.into_future()).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => return Err(Unconfirmed::Away(no_answer(self.target.timeout.as_secs()))),
        };
        if is_too_large(&error) {
            return Err(Unconfirmed::TooLarge);
        }
        Err(Unconfirmed::Away(match error.kind() {
            PublishErrorKind::StreamNotFound => {
                format!("no stream takes the subject {}", self.target.subject)
            }
            _ => error.to_string(),
        }))
    }

    async fn connect(&self) -> Result<Live, String> {
        let NatsTarget { endpoint, ca, sign_in, token, timeout, .. } = &self.target;
        let mut options = ConnectOptions::new()
            .name(format!("roster sink {}", self.name))
            .connection_timeout(*timeout)
            .ignore_discovered_servers()
            // So that there is a count of what comes before it is connected.
            .retry_on_initial_connect()
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
        let (options, mut connected) = told(options, endpoint.authority(), self.received.clone());
        let client = async_nats::connect_with_options(url, options).await;
        let client = client.map_err(|error| format!("{}: {error}", endpoint.authority()))?;
        self.received.is_of(client.statistics());
        // Where it fails that is seen there.
        if connected.recv().await.is_none() {
            return Err(format!("{}: it cannot be connected", endpoint.authority()));
        }
        let stream = ContextBuilder::new()
            .timeout(*timeout)
            .max_ack_inflight(2 * WINDOW_MAX)
            .build(client.clone());
        Ok(Live { stream, _client: client })
    }
}

/// What is to tell that it is connected, and that it is not, or no more: it never connects a second
/// time, since what waits for that would be sent by rights of before.
fn told(
    options: ConnectOptions,
    authority: String,
    received: Received,
) -> (ConnectOptions, mpsc::Receiver<()>) {
    let (tell, connected) = mpsc::channel(1);
    let attempts = AtomicU64::default();
    let options = options
        .event_callback(move |event| {
            let tell = tell.clone();
            async move {
                if event == Event::Connected {
                    let _ = tell.try_send(());
                }
            }
        })
        // It is asked before each attempt: before the second one, how the first one ended is known.
        .reconnect_to_server_callback(move |servers, _| {
            let is_first = attempts.fetch_add(1, Ordering::Relaxed) == 0;
            let (authority, received) = (authority.clone(), received.clone());
            async move {
                if is_first {
                    return None;
                }
                let why = match servers.into_iter().next() {
                    Some(server) if server.did_connect => "the connection is lost".to_owned(),
                    Some(Server { last_error: Some(why), .. }) => why,
                    _ => "its name is not known, or it is away".to_owned(),
                };
                received.is_lost(format!("{authority}: {why}"));
                // It ends with its runtime.
                pending().await
            }
        });
    (options, connected)
}

/// Whether it is larger than the stream's `max_msg_size`.
fn is_too_large(error: &PublishError) -> bool {
    let said = error.source().and_then(|source| source.downcast_ref::<StreamError>());
    said.is_some_and(|said| said.error_code() == ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM)
}

fn no_answer(seconds: u64) -> String {
    format!("no answer within {seconds} seconds")
}

/// What a server takes that is set up as it comes.
const PAYLOAD_BYTES: usize = 1 << 20;
/// What the headers of a message take beside what they say, and a little more: the server counts
/// them, too.
const HEADERS_BYTES: usize = 256;
/// Messages under way.
const WINDOW_MAX: usize = 256;
