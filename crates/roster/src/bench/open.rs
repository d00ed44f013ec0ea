//! Opening the connections of a run: many at a time, and not more than a server can answer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use client::ClientStream;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::wire::Socket;
use crate::connect::Login;
use crate::failure::{Failure, plain};
use crate::output;

/// Opens so many connections, bound as `login` says if `binds`. Who watches is told how far it is:
/// where passwords are hashed slowly, thousands of binds take minutes.
pub(crate) fn open(login: &Login, count: usize, binds: bool) -> Result<Vec<Socket>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut opened = Vec::with_capacity(count);
    // A password that is wrong is sent once, not by all that connect at the same time.
    opened.push(one(login, binds)?);
    let opened = Mutex::new((opened, None));
    let next = AtomicUsize::new(1);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(count) {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let socket = one(login, binds);
                    // A thread that panicked has opened nothing.
                    let Ok(mut opened) = opened.lock() else { return };
                    match socket {
                        Ok(socket) => {
                            opened.0.push(socket);
                            let so_far = opened.0.len();
                            if so_far.is_multiple_of(TOLD_EVERY) && output::is_watched() {
                                output::note(format_args!("{so_far} connections of {count}"));
                            }
                        }
                        Err(failure) => {
                            next.store(count, Ordering::Relaxed);
                            opened.1.get_or_insert(failure);
                        }
                    }
                }
            });
        }
    });
    let (sockets, failure) =
        opened.into_inner().map_err(|_| Failure::local("a thread that connects panicked"))?;
    match failure {
        Some(failure) if sockets.is_empty() => Err(failure),
        Some(failure) => {
            let count = sockets.len();
            let text = format!("after {count} connections: {}", failure.message);
            let hint = match failure.message.contains(NO_PORT) {
                true => Some(MORE_PORTS.to_owned()),
                false => failure.hint,
            };
            Err(Failure { message: text, hint, ..failure })
        }
        None => Ok(sockets),
    }
}

fn one(login: &Login, binds: bool) -> Result<Socket, Failure> {
    let connection = if binds { login.connect() } else { login.connect_unbound() }?;
    let stream: Option<ClientStream> = connection.into_stream();
    let stream = stream.ok_or_else(|| Failure::refused("the server closed a connection"))?;
    Socket::new(stream)
        .map_err(|error| Failure::local(format!("cannot use a socket: {}", plain(&error))))
}

/// Asks the system for as many open files as the connections need; the default of most is 1,024.
pub(crate) fn raise_file_limit(connections: usize) -> Result<(), Failure> {
    let wanted = (connections as u64).saturating_add(FILES_RESERVED);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    let hard = limit.maximum;
    raised.map_err(|_| {
        let allowed = hard.or(limit.current).unwrap_or(0);
        Failure::local(format!(
            "{connections} connections need {wanted} open files, and {allowed} are allowed"
        ))
        .hint(format!("run 'ulimit -Hn {wanted}' as root before, or use fewer --connections"))
    })
}

/// What the system says when all its ports are taken (`EADDRNOTAVAIL`).
const NO_PORT: &str = "cannot assign requested address";
const MORE_PORTS: &str = "one machine has ports for some 28,000 connections to an address: widen \
                          net.ipv4.ip_local_port_range, or share the load among --agents";
/// Connections that are being opened at any time.
const AT_A_TIME: usize = 32;
/// Connections after which who watches is told.
const TOLD_EVERY: usize = 1_000;
/// Files a process has open besides.
const FILES_RESERVED: u64 = 64;
