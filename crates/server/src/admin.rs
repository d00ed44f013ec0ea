//! The admin listener: HTTP for whoever watches the server. `/metrics`, `/livez`, `/readyz`.
//!
//! Invariant: each address has a thread and an event loop of its own; nothing it does waits for a
//! worker, and no worker waits for it.
//! Invariant: it changes nothing, and shows nothing of what the directory holds. There is neither
//! TLS nor a password: who reaches the address may ask.
//! Invariant: what clients can keep busy is bounded: connections, the size of a request, the time
//! for its head, the life of a connection.

mod ready;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::error::ServerError;
use crate::listen::listeners;
use crate::metrics::{Metrics, exposition};

/// The listeners of a server, each with its thread.
#[derive(Default)]
pub(crate) struct Admins(Vec<Admin>);

/// The listeners that a server is to have: those that it has already stay.
pub(crate) struct OtherAdmins {
    asked: Vec<SocketAddr>,
    opened: Vec<Admin>,
}

impl Admins {
    /// Listens where it does not yet.
    ///
    /// # Errors
    /// An address that cannot be listened on, a thread that cannot be started.
    pub(crate) fn open(
        &self,
        addresses: &[SocketAddr],
        metrics: &Arc<Metrics>,
    ) -> Result<OtherAdmins, ServerError> {
        let is_new = |address: &&SocketAddr| !self.0.iter().any(|admin| admin.asked == **address);
        let opened = addresses.iter().filter(is_new).map(|address| Admin::start(*address, metrics));
        Ok(OtherAdmins { opened: opened.collect::<Result<_, _>>()?, asked: addresses.to_vec() })
    }

    /// Has these, and ends the others.
    pub(crate) fn begin(&mut self, others: OtherAdmins) {
        self.0.retain(|admin| others.asked.contains(&admin.asked));
        self.0.extend(others.opened);
    }

    /// Where they listen, with the ports the system chose.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|admin| admin.bound).collect()
    }
}

/// The thread of a listener; dropping it ends it.
struct Admin {
    asked: SocketAddr,
    bound: SocketAddr,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    fn start(asked: SocketAddr, metrics: &Arc<Metrics>) -> Result<Self, ServerError> {
        let (bound, listener) = listeners::open_admin(asked)?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(ServerError::Thread)?;
        let stop = Arc::<Notify>::default();
        let mut admin = Self { asked, bound, stop: Arc::clone(&stop), thread: None };
        let metrics = Arc::clone(metrics);
        let work = move || {
            // Of this thread alone: whoever serves clients goes first.
            let _ = rustix::process::setpriority_process(None, ADMIN_NICE);
            LocalSet::new().block_on(&runtime, serve_until(listener, metrics, &stop));
        };
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(work);
        admin.thread = Some(thread.map_err(ServerError::Thread)?);
        Ok(admin)
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve_until(listener: TcpListener, metrics: Arc<Metrics>, stop: &Notify) {
    let router = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/livez", get(live))
        .route("/readyz", get(ready::answer))
        .with_state(metrics);
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            spawn_local(accept(listener, router, Rc::default()));
        }
        Err(error) => tracing::error!(%error, "the admin listener cannot be used"),
    }
    // With the tasks of the set, all connections end.
    stop.notified().await;
}

async fn accept(listener: tokio::net::TcpListener, router: Router, slots: Rc<Slots>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let (router, slots) = (router.clone(), Rc::clone(&slots));
                let (number, given_up) = slots.take(address.ip());
                spawn_local(async move {
                    tokio::select! {
                        () = serve(stream, router) => {}
                        () = given_up.notified() => {}
                    }
                    slots.give_back(number);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "no connection of the admin listener");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The connections there are. When there are as many as there may be, a new one takes the slot of
/// the oldest of the address that has most: whoever holds slots takes them from himself.
#[derive(Default)]
struct Slots {
    next: Cell<u64>,
    /// In the order in which they came.
    taken: RefCell<Vec<Taken>>,
}

struct Taken {
    number: u64,
    address: IpAddr,
    give_up: Rc<Notify>,
}

impl Slots {
    /// A slot for one connection more, and what it hears of when it is to give it up.
    fn take(&self, address: IpAddr) -> (u64, Rc<Notify>) {
        let mut taken = self.taken.borrow_mut();
        if taken.len() >= CONNECTIONS_MAX {
            let count = |one: &Taken| taken.iter().filter(|it| it.address == one.address).count();
            let most = taken.iter().map(count).max();
            let oldest = taken.iter().position(|one| Some(count(one)) == most);
            if let Some(at) = oldest {
                taken.remove(at).give_up.notify_one();
            }
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let give_up = Rc::<Notify>::default();
        taken.push(Taken { number, address, give_up: Rc::clone(&give_up) });
        (number, give_up)
    }

    /// A connection is over.
    fn give_back(&self, number: u64) {
        self.taken.borrow_mut().retain(|one| one.number != number);
    }
}

/// Serves one connection until its client or its time ends.
async fn serve(stream: TcpStream, router: Router) {
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_MAX_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    if timeout(CONNECTION_LIFE, connection.as_mut()).await.is_err() {
        // It may be in the middle of an answer, and gets a little longer for that.
        connection.as_mut().graceful_shutdown();
        let _ = timeout(HEAD_TIMEOUT, connection).await;
    }
}

async fn metrics_text(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.scrape() {
        Some(scrape) => (StatusCode::OK, METRICS_HEAD, exposition(&scrape)),
        None => (StatusCode::SERVICE_UNAVAILABLE, TEXT_HEAD, "the server is ending\n".to_owned()),
    }
}

/// Whether all workers run; it is asked whether to start the server anew.
async fn live(State(metrics): State<Arc<Metrics>>) -> impl IntoResponse {
    match metrics.stall() {
        None => (StatusCode::OK, TEXT_HEAD, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, TEXT_HEAD, format!("{why}\n")),
    }
}

type Head = [(HeaderName, &'static str); 2];

const METRICS_HEAD: Head =
    [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (CACHE_CONTROL, "no-store")];
const TEXT_HEAD: Head = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")];

/// Connections of an address at the same time.
const CONNECTIONS_MAX: usize = 32;
/// How long the head of a request may take, and a connection may be silent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept, however busy.
const CONNECTION_LIFE: Duration = Duration::from_secs(60);
/// The head of a request, with its headers. What comes as a body is not read.
const HEAD_MAX_BYTES: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
/// Without a pause, a process out of file descriptors would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ADMIN_NICE: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_most_places_gives_up_the_oldest_of_them() {
        let slots = Slots::default();
        let [greedy, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let (of_other, _) = slots.take(other);
        let first = slots.take(greedy).0;
        for _ in 2..CONNECTIONS_MAX {
            slots.take(greedy);
        }
        let numbers = || slots.taken.borrow().iter().map(|one| one.number).collect::<Vec<_>>();
        assert!(numbers().contains(&first));
        let (newest, _) = slots.take(other);
        assert!(!numbers().contains(&first));
        assert!(numbers().contains(&of_other) && numbers().contains(&newest));
        assert_eq!(numbers().len(), CONNECTIONS_MAX);
        slots.give_back(of_other);
        slots.give_back(first);
        assert_eq!(numbers().len(), CONNECTIONS_MAX - 1);
    }
}
