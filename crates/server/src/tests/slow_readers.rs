//! Clients that take their answers slowly, of one worker in process.

use testing::chance::Chance;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::simulated::{Peer, all_ended, ask_calmly, connect, finish, with_worker};
use super::*;

#[test]
fn a_client_that_ended_its_side_and_reads_slowly_gets_all_its_answers() {
    // Nothing was taken from its search while its output was full, and so the time of a search
    // that finds nothing for such a client ran: the connection ended though the client read.
    let own_settings = |settings: &mut Settings, options: &mut DirectoryOptions| {
        settings.server.scan_threads = 1;
        settings.limits.half_closed_timeout = HALF_CLOSED_TIMEOUT;
        settings.limits.output_buffer_max_bytes = 1_000;
        options.limits.inline_output_max_bytes = 1_000;
    };
    let answers = with_worker(own_settings, async |worker| {
        let adds = (2..2 + ENTRIES).flat_map(|id| add(id, &format!("e{id}"), 70_000));
        let begin = bind(1, ROOT, "secret");
        ask_calmly(worker, &begin.iter().copied().chain(adds).collect::<Vec<_>>()).await;
        let search_all = search(2, "dc=example,dc=org", Scope::Subtree);
        let requests = [begin, search_all].concat();

        let slow = connect(worker, Chance::new(0, 0), true);
        slow.borrow_mut().take_more(1_000);
        slow.borrow_mut().send(requests.iter().copied());
        until(|| slow.borrow().received.len() == 1_000).await;
        // The search of another client is at its end: so is that of the first, for there is one
        // thread. What it has found waits.
        let other = connect(worker, Chance::new(0, 0), true);
        other.borrow_mut().take_more(usize::MAX);
        other.borrow_mut().send(requests);
        until(|| described(&other.borrow()).last().is_some_and(|last| last.contains("done"))).await;
        finish(&mut other.borrow_mut(), &[]);

        slow.borrow_mut().end();
        for _ in 0..5 {
            let begun = Instant::now();
            until(|| begun.elapsed() > HALF_CLOSED_TIMEOUT).await;
            slow.borrow_mut().take_more(10_000);
        }
        slow.borrow_mut().take_more(usize::MAX);
        all_ended(worker).await;
        described(&slow.borrow())
    });
    let names = (2..2 + ENTRIES).map(|id| format!("2 entry ou=e{id},dc=example,dc=org"));
    let mut want = vec!["1 bind success".to_owned(), "2 entry dc=example,dc=org".to_owned()];
    want.extend(names);
    want.push("2 done success".to_owned());
    assert_eq!(answers, want);
}

#[test]
fn a_client_that_takes_nothing_is_not_read_on_beyond_its_output() {
    // What a client had not taken of answers that left with others' was not counted in the same
    // time slice: of 128 messages, each could have an answer as large as the directory allows at
    // once.
    let own_settings = |settings: &mut Settings, options: &mut DirectoryOptions| {
        settings.limits.output_buffer_max_bytes = 64 * 1024;
        options.limits.inline_output_max_bytes = 256 * 1024;
    };
    with_worker(own_settings, async |worker| {
        let begin = bind(1, ROOT, "secret");
        ask_calmly(worker, &[&*begin, &add(2, "large", 100_000)].concat()).await;
        // Each is about what is read at once.
        let filter = format!("(|(objectClass=*)(description={}))", "x".repeat(60_000));
        let large = |id| search_by(id, "ou=large,dc=example,dc=org", Scope::Base, &filter);
        let requests = begin.into_iter().chain((2..42).flat_map(large)).collect::<Vec<_>>();
        let peer = connect(worker, Chance::new(0, 0), true);
        peer.borrow_mut().send(requests.iter().copied());
        until(|| peer.borrow().unread() < requests.len()).await;
        let read = requests.len() - peer.borrow().unread();
        assert!(read < 4 * 64 * 1024, "{read} octets were read");
        // It gets everything when it takes it.
        finish(&mut peer.borrow_mut(), &[]);
        all_ended(worker).await;
        let answers = described(&peer.borrow());
        assert_eq!(answers.iter().filter(|answer| answer.ends_with("done success")).count(), 40);
    });
}

/// The whole messages that a peer has received.
fn described(peer: &Peer) -> Vec<String> {
    let (mut octets, mut all) = (peer.received.as_slice(), Vec::new());
    while let Ok(Frame::Complete(length)) = frame(octets, usize::MAX) {
        let (message, rest) = octets.split_at(length);
        all.push(describe(message));
        octets = rest;
    }
    all
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "it does not come");
        yield_now().await;
    }
}

/// Fewer than what a job on the pool may leave for its connection.
const ENTRIES: i32 = 5;

const HALF_CLOSED_TIMEOUT: Duration = Duration::from_millis(20);
