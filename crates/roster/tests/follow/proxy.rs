//! What stands between a follower and a server, and breaks when it sees certain requests.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Which requests break the connection after they came to the server, so that their answers are
/// lost, and for how long nobody gets through then.
#[derive(Clone, Copy)]
pub(crate) struct Breaks {
    pub(crate) at: fn(&[u8]) -> bool,
    pub(crate) times: usize,
    pub(crate) away: Duration,
}

/// Where a follower connects instead of to a server; it ends with the process.
pub(crate) struct Proxy {
    pub(crate) url: String,
    /// How often it broke.
    pub(crate) broken: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) fn start(url: &str, breaks: Breaks) -> Self {
        let target = url.strip_prefix("ldap://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ldap://{}", listener.local_addr().unwrap());
        let broken = Arc::new(AtomicUsize::new(0));
        let is_away = Arc::new(AtomicBool::new(false));
        let counted = Arc::clone(&broken);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&target) else { continue };
                if is_away.load(Ordering::Relaxed) {
                    continue;
                }
                let (counted, is_away) = (Arc::clone(&counted), Arc::clone(&is_away));
                std::thread::spawn(move || pass(&client, &server, &breaks, &counted, &is_away));
            }
        });
        Self { url, broken }
    }
}

/// Where a follower connects instead of to a server: after a request of one kind, those of another
/// kind get no answer.
pub(crate) fn stalling(url: &str, after: fn(&[u8]) -> bool, at: fn(&[u8]) -> bool) -> String {
    let target = url.strip_prefix("ldap://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let stalls = Arc::new(AtomicBool::new(false));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(&target) else { continue };
            let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || copy(&from, &to, |_| true));
            let stalls = Arc::clone(&stalls);
            std::thread::spawn(move || {
                copy(&client, &server, |octets| {
                    stalls.fetch_or(after(octets), Ordering::Relaxed);
                    !(stalls.load(Ordering::Relaxed) && at(octets))
                });
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    url
}

/// Passes octets on, both ways, until one side ends or it breaks.
fn pass(
    client: &TcpStream,
    server: &TcpStream,
    breaks: &Breaks,
    broken: &AtomicUsize,
    is_away: &AtomicBool,
) {
    let is_deaf = Arc::new(AtomicBool::new(false));
    let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let deaf = Arc::clone(&is_deaf);
    std::thread::spawn(move || {
        copy(&from, &to, |_| !deaf.load(Ordering::Relaxed));
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut breaks_now = false;
    let other = client.try_clone().unwrap();
    copy(client, server, |octets| {
        if (breaks.at)(octets) && broken.load(Ordering::Relaxed) < breaks.times {
            broken.fetch_add(1, Ordering::Relaxed);
            is_away.store(breaks.away > Duration::ZERO, Ordering::Relaxed);
            is_deaf.store(true, Ordering::Relaxed);
            breaks_now = true;
            // What was asked for is passed on, and then nothing more comes.
            let _ = other.shutdown(Shutdown::Read);
        }
        true
    });
    if breaks_now {
        // The server is to do it before its connection ends.
        std::thread::sleep(DONE_AFTER);
        let _ = client.shutdown(Shutdown::Both);
        std::thread::sleep(breaks.away);
        is_away.store(false, Ordering::Relaxed);
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

const DONE_AFTER: Duration = Duration::from_millis(300);

/// Copies what is to be copied.
fn copy(mut from: &TcpStream, mut to: &TcpStream, mut is_passed: impl FnMut(&[u8]) -> bool) {
    let mut octets = [0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut octets) {
        let octets = &octets[..count];
        if is_passed(octets) && to.write_all(octets).is_err() {
            return;
        }
    }
}

/// Whether octets have a text.
pub(crate) fn has_text(octets: &[u8], text: &str) -> bool {
    octets.windows(text.len()).any(|part| part == text.as_bytes())
}
