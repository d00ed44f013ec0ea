//! A request by HTTP for each change, signed as Standard Webhooks says (HMAC-SHA-256 over the id,
//! the time and the body), one after the other on one connection.
//!
//! Invariant: a request takes no longer than the sink's timeout, whatever the receiver does, and
//! no more of an answer is read than is said here. Redirects are not followed.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use directory::sinks::{SinkEndpoint, SinkMessage, WebhookTarget};
use environment::Timestamp;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sha2::Sha256;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::files::{SinkFiles, system_tls};
use super::target::{NotSent, SendTime};

/// Sends the requests.
pub(super) struct WebhookSender {
    target: WebhookTarget,
    /// The sink, for the receiver.
    name: String,
    files: SinkFiles,
    live: Option<Live>,
}

/// A connection; its task ends with it, whatever the receiver does.
struct Live {
    requests: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What an answer means.
#[derive(Debug, Eq, PartialEq)]
enum Meant {
    Taken,
    Away,
    Refused,
}

impl WebhookSender {
    pub(super) fn new(target: WebhookTarget, name: &str, files: SinkFiles) -> Self {
        Self { target, name: name.to_owned(), files, live: None }
    }

    /// Sends the first one.
    pub(super) async fn send(
        &mut self,
        pending: &mut Vec<SinkMessage>,
        time: SendTime,
    ) -> Result<(), NotSent> {
        let Some(message) = pending.first() else { return Ok(()) };
        if message.json.len() > BODY_MAX_BYTES {
            let why = format!("it has more than {BODY_MAX_BYTES} bytes");
            return Err(NotSent::Refused { at: 0, why });
        }
        let limit = self.target.timeout;
        let status = match timeout(limit, self.post(message, time)).await {
            Ok(Ok(Some(status))) => status,
            Ok(Ok(None)) => return Err(NotSent::Stale),
            Ok(Err(why)) => {
                self.live = None;
                return Err(NotSent::Away(why));
            }
            Err(_) => {
                self.live = None;
                let seconds = limit.as_secs();
                return Err(NotSent::Away(format!("no answer within {seconds} seconds")));
            }
        };
        match meaning(status) {
            Meant::Taken => drop(pending.remove(0)),
            Meant::Away => {
                // Another receiver may be behind the name by now.
                self.live = None;
                return Err(NotSent::Away(explained(status)));
            }
            Meant::Refused => {
                return Err(NotSent::Refused { at: 0, why: format!("it answers {status}") });
            }
        }
        Ok(())
    }

    /// The status of the answer; none where it is too late to send.
    async fn post(
        &mut self,
        message: &SinkMessage,
        time: SendTime,
    ) -> Result<Option<StatusCode>, String> {
        // Read each time: it may have been corrected, or replaced.
        let key = signing_key(&self.files.secret(&self.target.key)?)?;
        // One that the receiver has closed meanwhile is found out before the request is sent.
        let open = self.live.take().filter(|live| !live.requests.is_closed());
        let mut live = match open {
            Some(live) => live,
            None => self.connect().await?,
        };
        live.requests.ready().await.map_err(|error| error.to_string())?;
        if time.check().is_err() {
            self.live = Some(live);
            return Ok(None);
        }
        let request = self.request(message, time.now, &key)?;
        let answer = live.requests.send_request(request).await;
        let answer = answer.map_err(|error| format!("no answer: {error}"))?;
        let status = answer.status();
        let mut body = answer.into_body();
        let mut left = ANSWER_MAX_BYTES;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("an answer that ends early: {error}"))?;
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(less) => left = less,
                // The rest is not read, and the connection of no more use.
                None => return Ok(Some(status)),
            }
        }
        self.live = Some(live);
        Ok(Some(status))
    }

    fn request(
        &self,
        message: &SinkMessage,
        now: Timestamp,
        key: &[u8],
    ) -> Result<Request<Full<Bytes>>, String> {
        let SinkEndpoint { path, .. } = &self.target.endpoint;
        let seconds = (now.0 / 1_000_000).to_string();
        let signature = signature(key, &message.id, &seconds, &message.json);
        let path = if path.is_empty() { "/" } else { path };
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, host(&self.target.endpoint))
            .header(USER_AGENT, HeaderValue::from_static("roster"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .header("roster-sink", &self.name)
            .body(Full::new(Bytes::from(message.json.clone())));
        request.map_err(|error| error.to_string())
    }

    async fn connect(&self) -> Result<Live, String> {
        let WebhookTarget { endpoint, ca, .. } = &self.target;
        connect(endpoint, || self.files.tls(ca.as_deref())).await
    }
}

/// Connects; `tls` says whom to trust, where that is asked.
async fn connect(
    endpoint: &SinkEndpoint,
    tls: impl FnOnce() -> Result<Arc<ClientConfig>, String>,
) -> Result<Live, String> {
    let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await;
    let stream = stream.map_err(|error| format!("{}: {error}", endpoint.authority()))?;
    let _ = stream.set_nodelay(true);
    if endpoint.is_tls {
        let name = ServerName::try_from(endpoint.host.clone());
        let name = name.map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(tls()?).connect(name, stream).await;
        let stream = stream.map_err(|error| format!("{}: {error}", endpoint.authority()))?;
        begin(TokioIo::new(stream)).await
    } else {
        begin(TokioIo::new(stream)).await
    }
}

/// Sends one request with JSON to a URL, and no second one, within a time; or says why it was not
/// taken. Of the answer nothing but the status is read.
pub(crate) async fn post_once(url: &str, json: Vec<u8>, limit: Duration) -> Result<(), String> {
    let endpoint = SinkEndpoint::webhook(url).map_err(|error| error.to_string())?;
    let send = async {
        let mut live = connect(&endpoint, system_tls).await?;
        live.requests.ready().await.map_err(|error| error.to_string())?;
        let path = if endpoint.path.is_empty() { "/" } else { &endpoint.path };
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, host(&endpoint))
            .header(USER_AGENT, HeaderValue::from_static("roster"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(Full::new(Bytes::from(json)))
            .map_err(|error| error.to_string())?;
        let answer = live.requests.send_request(request).await;
        let status = answer.map_err(|error| format!("no answer: {error}"))?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("it answers {status}")),
        }
    };
    let sent = timeout(limit, send).await;
    sent.unwrap_or_else(|_| Err(format!("no answer within {} seconds", limit.as_secs())))
}

/// The host of a request, without the port that the scheme has anyway.
fn host(endpoint: &SinkEndpoint) -> String {
    let usual = if endpoint.is_tls { 443 } else { 80 };
    let authority = endpoint.authority();
    let without = authority.strip_suffix(&format!(":{usual}")).map(str::to_owned);
    without.unwrap_or(authority)
}

/// Begins to speak HTTP on a connection.
async fn begin<S>(stream: S) -> Result<Live, String>
where
    S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (requests, connection) = handshake(stream).await.map_err(|error| error.to_string())?;
    let task = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    Ok(Live { requests, task })
}

/// The key that a file holds: its octets, or what follows `whsec_` in base64.
fn signing_key(octets: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
    let key = match octets.strip_prefix(KEY_PREFIX) {
        Some(text) => STANDARD.decode(text).map_err(|error| format!("the key: {error}"))?,
        None => octets.to_vec(),
    };
    match key.len() < KEY_MIN_BYTES {
        true => Err(format!("the key has less than {KEY_MIN_BYTES} bytes")),
        false => Ok(Zeroizing::new(key)),
    }
}

fn signature(key: &[u8], id: &str, seconds: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    let mac = mac.chain_update(format!("{id}.{seconds}.")).chain_update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Whether an answer is about the message, or about the receiver: that is waited for.
fn meaning(status: StatusCode) -> Meant {
    if status.is_success() {
        return Meant::Taken;
    }
    let is_of_receiver = matches!(status.as_u16(), 401 | 403 | 404 | 407 | 408 | 421 | 425 | 429);
    match status.is_client_error() && !is_of_receiver {
        true => Meant::Refused,
        false => Meant::Away,
    }
}

fn explained(status: StatusCode) -> String {
    match status.as_u16() {
        300..=399 => format!("it answers {status}: redirects are not followed, set the new URL"),
        401 | 403 => format!("it answers {status}: does it have the key of this sink?"),
        404 => format!("it answers {status}: is the path of the URL right?"),
        _ => format!("it answers {status}"),
    }
}

/// The longest message, in bytes.
const BODY_MAX_BYTES: usize = 32 << 20;
/// So much of an answer is read, so that the connection can be used again, in bytes.
const ANSWER_MAX_BYTES: usize = 64 * 1024;
/// The shortest key, in bytes.
const KEY_MIN_BYTES: usize = 16;
/// Before a key in base64.
const KEY_PREFIX: &[u8] = b"whsec_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        // The example of the specification's reference libraries.
        let key = signing_key(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(signing_key(b"short").is_err() && signing_key(b"whsec_*").is_err());
    }

    #[test]
    fn answers_are_about_the_message_or_about_the_receiver() {
        let meant = |code| meaning(StatusCode::from_u16(code).unwrap());
        for code in [200, 201, 204] {
            assert_eq!(meant(code), Meant::Taken, "{code}");
        }
        for code in [301, 302, 401, 403, 404, 408, 429, 500, 502, 503] {
            assert_eq!(meant(code), Meant::Away, "{code}");
        }
        for code in [400, 409, 410, 413, 415, 422] {
            assert_eq!(meant(code), Meant::Refused, "{code}");
        }
    }
}
