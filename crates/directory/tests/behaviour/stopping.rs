//! How soon a search on the pool ends that nobody waits for, or whose time is up.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use directory::{Flow, Next, Part};
use environment::{Clock, SystemClock, Timestamp};
use ldap::message::{Controls, MessageId, Request};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, Served};

/// No index knows any of it, and each of 300 candidates is tested for all of it.
fn slow_filter() -> String {
    let terms = (0..2_000).map(|term| format!("(description=no {term})")).collect::<String>();
    format!("(|{terms})")
}

fn job(client: &mut Client, search: &Asked<'_>) -> directory::Job {
    let message = client.encode_search(search);
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    job
}

fn slow_directory() -> Served {
    let served = Served::with(|options| options.limits.inline_candidates_max = 0);
    add_devices(&served, 300, "x");
    served
}

/// The best of some rounds: the machine may be busy with something else in any of them.
fn best(rounds: u32, mut round: impl FnMut() -> Duration) -> Duration {
    (0..rounds).map(|_| round()).min().unwrap()
}

#[test]
fn an_abandoned_search_ends_within_ten_milliseconds() {
    let clock = Arc::new(SystemClock::new());
    let served = slow_directory().under(Arc::<SystemClock>::clone(&clock));
    let filter = slow_filter();
    let took = best(7, || {
        let mut client = served.client();
        let job = job(&mut client, &Asked { filter: &filter, ..Asked::default() });
        let stop = job.stop();
        let abandon = client.encode(Request::Abandon(MessageId(1)), Controls::EMPTY);
        let (directory, watch) = (Arc::clone(&served.directory), Arc::clone(&clock));
        let scan = thread::spawn(move || {
            let mut pool = directory.worker();
            let mut answer = Answer::default();
            let done = pool
                .run(job, &mut |Part { bytes: chunk, .. }: Part| {
                    answer.take(&chunk);
                    Flow::Continue
                })
                .done()
                .unwrap();
            answer.take(&done.end);
            (answer, done, watch.elapsed())
        });
        // It is somewhere in its candidates, or still in its plan.
        thread::yield_now();
        let connection = &mut client.connection;
        let begun = clock.elapsed();
        let _ = connection.worker.handle(&mut connection.session, &abandon, &mut Vec::new());
        assert!(stop.is_abandoned());
        let (answer, done, ended) = scan.join().unwrap();
        connection.session.finish(&done);
        assert_eq!(answer.code, None, "an abandoned search has no result");
        ended.saturating_sub(begun)
    });
    assert!(took < Duration::from_millis(10), "{took:?}");
}

/// The clock of the machine, so much faster that a time limit of one second is soon reached.
struct FastClock(SystemClock);

const FASTER: u32 = 20;

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed() * FASTER
    }
}

#[test]
fn a_search_ends_within_ten_milliseconds_of_its_time_limit() {
    let served = slow_directory().under(Arc::new(FastClock(SystemClock::new())));
    let clock = SystemClock::new();
    let filter = slow_filter();
    let limit = Duration::from_secs(1) / FASTER;
    let took = best(7, || {
        let mut client = served.root();
        let search = Asked { filter: &filter, time_limit_s: 1, ..Asked::default() };
        let job = job(&mut client, &search);
        let begun = clock.elapsed();
        let mut answer = Answer::default();
        let done = client
            .connection
            .pool
            .run(job, &mut |Part { bytes: chunk, .. }: Part| {
                answer.take(&chunk);
                Flow::Continue
            })
            .done()
            .unwrap();
        answer.take(&done.end);
        let took = clock.elapsed().saturating_sub(begun);
        client.connection.session.finish(&done);
        match answer.code() {
            // A fast machine is done before.
            ResultCode::Success => Duration::ZERO,
            code => {
                assert_eq!(code, ResultCode::TimeLimitExceeded);
                took.saturating_sub(limit)
            }
        }
    });
    assert!(took < Duration::from_millis(10), "{took:?}");
}
