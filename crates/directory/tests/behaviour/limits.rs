//! Limits of a search, and the way from the reading thread to the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use directory::{Flow, Next, Part};
use environment::{Clock, Timestamp};
use ldap::message::{Controls, MessageId, Request, Scope};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, SUFFIX, Served};

/// A clock that a second goes by on whenever somebody looks.
#[derive(Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_225_600_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// No index knows it, so every entry is a candidate.
const UNINDEXED: &str = "(description=x)";

#[test]
fn the_size_limit_of_the_server_is_not_for_the_administrator() {
    let served = Served::with(|options| options.limits.size_limit_entries = 3);
    add_devices(&served, 5, "x");
    let check = |asked: u32, root: bool, want: (ResultCode, usize)| {
        let mut client = if root { served.root() } else { served.client() };
        let search = Asked { filter: UNINDEXED, size_limit_entries: asked, ..Asked::default() };
        let answer = client.search(&search);
        assert_eq!((answer.code(), answer.entries.len()), want, "asked {asked}, root {root}");
    };
    check(0, false, (ResultCode::SizeLimitExceeded, 3));
    check(2, false, (ResultCode::SizeLimitExceeded, 2));
    check(100, false, (ResultCode::SizeLimitExceeded, 3));
    check(0, true, (ResultCode::Success, 5));
    check(4, true, (ResultCode::SizeLimitExceeded, 4));
    check(5, true, (ResultCode::Success, 5));
}

#[test]
fn a_search_that_takes_too_long_ends_with_what_it_found() {
    let served = Served::with(|options| options.limits.time_limit_s = 4);
    add_devices(&served, 300, "x");
    let served = served.under(Arc::new(TickingClock::default()));
    let check = |asked: u32, root: bool, want: ResultCode, entries: std::ops::Range<usize>| {
        let mut client = if root { served.root() } else { served.client() };
        let search = Asked { filter: UNINDEXED, time_limit_s: asked, ..Asked::default() };
        let answer = client.search(&search);
        assert_eq!(answer.code(), want, "asked {asked}, root {root}");
        let count = answer.entries.len();
        assert!(entries.contains(&count), "{count} entries; asked {asked}, root {root}");
    };
    // When so much time goes by, every candidate has a look at the clock.
    check(0, false, ResultCode::TimeLimitExceeded, 0..5);
    check(200, false, ResultCode::TimeLimitExceeded, 0..5);
    check(0, true, ResultCode::Success, 300..301);
    check(200, true, ResultCode::TimeLimitExceeded, 1..201);
}

#[test]
fn the_look_through_limit_counts_candidates() {
    let served = Served::with(|options| options.limits.look_through_limit_entries = 5);
    add_devices(&served, 8, "x");
    let check = |filter: &str, root: bool, want: (ResultCode, usize)| {
        let mut client = if root { served.root() } else { served.client() };
        let answer = client.search(&Asked { filter, ..Asked::default() });
        assert_eq!((answer.code(), answer.entries.len()), want, "{filter}, root {root}");
    };
    // The suffix comes first.
    check(UNINDEXED, false, (ResultCode::AdminLimitExceeded, 4));
    check(UNINDEXED, true, (ResultCode::Success, 8));
    check("(cn=device 7)", false, (ResultCode::Success, 1));
}

#[test]
fn an_entry_has_limits_of_its_own() {
    let served = Served::with(|options| {
        options.limits.size_limit_entries = 3;
        options.limits.look_through_limit_entries = 6;
    });
    add_devices(&served, 8, "x");
    let mut root = served.root();
    let name = format!("uid=reader,{SUFFIX}");
    let check = |given: &[(&str, &str)], filter: &str, want: (ResultCode, usize)| {
        let mut root = served.root();
        let _ = root.delete(&name);
        let mut attributes: Vec<(&str, &[&str])> = vec![
            ("objectClass", &["account", "simpleSecurityObject"]),
            ("userPassword", &["secret"]),
        ];
        let values: Vec<[&str; 1]> = given.iter().map(|(_, value)| [*value]).collect();
        for ((description, _), value) in given.iter().zip(&values) {
            attributes.push((description, value));
        }
        let answer = root.try_add(&name, &attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        let mut client = served.client();
        assert_eq!(client.bind(&name, "secret"), ResultCode::Success);
        let answer = client.search(&Asked { filter, ..Asked::default() });
        assert_eq!((answer.code(), answer.entries.len()), want, "{given:?} {filter}");
    };
    let devices = "(objectClass=device)";
    check(&[], devices, (ResultCode::SizeLimitExceeded, 3));
    check(&[("ds-rlim-size-limit", "2")], devices, (ResultCode::SizeLimitExceeded, 2));
    let (size, look) = (("ds-rlim-size-limit", "7"), ("nsLookThroughLimit", "-1"));
    check(&[size, look], devices, (ResultCode::SizeLimitExceeded, 7));
    check(&[("nsSizeLimit", "-1"), look], devices, (ResultCode::Success, 8));
    check(&[("nsSizeLimit", "-1")], devices, (ResultCode::AdminLimitExceeded, 6));
    let given = [("ds-rlim-size-limit", "0"), ("ds-rlim-lookthrough-limit", "4")];
    check(&given, UNINDEXED, (ResultCode::AdminLimitExceeded, 3));
    assert_eq!(root.delete(&name), ResultCode::Success);
}

#[test]
fn a_search_answers_the_same_on_the_pool() {
    let here = Served::with(|options| options.limits.inline_candidates_max = u64::MAX);
    let pool = Served::with(|options| options.limits.inline_candidates_max = 0);
    let moved = Served::with(|options| {
        options.limits.inline_candidates_max = u64::MAX;
        // The answer grows too long on the way: what was written here must not come twice.
        options.limits.inline_output_max_bytes = 300;
        options.limits.chunk_bytes = 100;
    });
    for served in [&here, &pool, &moved] {
        add_devices(served, 20, "x");
    }
    for filter in [UNINDEXED, "(objectClass=*)", "(cn=device 1*)", "(cn=nobody)"] {
        let search = Asked { filter, attributes: &["cn"], ..Asked::default() };
        let want = here.client().search(&search);
        assert_eq!(pool.client().search(&search), want, "{filter}");
        assert_eq!(moved.client().search(&search), want, "{filter}");
    }
    let mut client = moved.client();
    let _ = client.search(&Asked { filter: UNINDEXED, ..Asked::default() });
    assert_eq!(client.connection.jobs, 1);
}

#[test]
fn a_base_search_is_never_a_job() {
    let served = Served::with(|options| options.limits.inline_candidates_max = 1);
    add_devices(&served, 3, "x");
    let mut client = served.client();
    for base in [SUFFIX, "", "cn=schema"] {
        let answer = client.search(&Asked { base, scope: Scope::Base, ..Asked::default() });
        assert_eq!(answer.entries.len(), 1);
    }
    assert_eq!(client.connection.jobs, 0);
}

#[test]
fn an_abandoned_search_on_the_pool_ends_without_a_result() {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.chunk_bytes = 1;
    });
    add_devices(&served, 100, "x");
    for flushes_before in [0, 1, 5] {
        let mut client = served.client();
        let message = client.encode_search(&Asked { filter: UNINDEXED, ..Asked::default() });
        let abandon = client.encode(Request::Abandon(MessageId(1)), Controls::EMPTY);
        let connection = &mut client.connection;
        let mut out = Vec::new();
        let next = connection.worker.handle(&mut connection.session, &message, &mut out);
        let Next::Later(job) = next else { panic!("a large search is a job") };
        assert_eq!(connection.session.outstanding(), 1);
        let mut abandon = || {
            let mut out = Vec::new();
            let next = connection.worker.handle(&mut connection.session, &abandon, &mut out);
            assert!(matches!(next, Next::Answered(_)) && out.is_empty());
        };
        let mut answer = Answer::default();
        let mut flushes = 0;
        if flushes_before == 0 {
            abandon();
        }
        let done = connection
            .pool
            .run(job, &mut |Part { bytes: chunk, .. }: Part| {
                answer.take(&chunk);
                flushes += 1;
                if flushes == flushes_before {
                    abandon();
                }
                Flow::Continue
            })
            .done()
            .unwrap();
        answer.take(&done.end);
        assert_eq!(answer.code, None, "an abandoned search has no result");
        assert!(answer.entries.len() < 50, "{} entries", answer.entries.len());
        connection.session.finish(&done);
        assert_eq!(connection.session.outstanding(), 0);
    }
}

/// The result used to leave for the client before its connection knew that the search was over:
/// the next request with the same message id was refused at times.
#[test]
fn a_result_comes_with_the_word_that_the_search_is_over() {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.chunk_bytes = 1;
    });
    add_devices(&served, 3, "x");
    let mut client = served.client();
    let message = client.encode_search(&Asked { filter: UNINDEXED, ..Asked::default() });
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    let mut answer = Answer::default();
    let done = connection
        .pool
        .run(job, &mut |Part { bytes: chunk, .. }: Part| {
            answer.take(&chunk);
            Flow::Continue
        })
        .done()
        .unwrap();
    assert_eq!((answer.entries.len(), answer.code), (3, None));
    answer.take(&done.end);
    assert_eq!(answer.code, Some(ResultCode::Success));
    connection.session.finish(&done);
}

#[test]
fn a_receiver_that_is_gone_stops_the_search() {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.chunk_bytes = 1;
    });
    add_devices(&served, 50, "x");
    let mut client = served.client();
    let message = client.encode_search(&Asked { filter: UNINDEXED, ..Asked::default() });
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    let mut chunks = 0;
    let done = connection
        .pool
        .run(job, &mut |_: Part| {
            chunks += 1;
            Flow::Stop
        })
        .done()
        .unwrap();
    connection.session.finish(&done);
    assert_eq!(chunks, 1);
}

#[test]
fn the_time_on_the_reading_thread_counts() {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.inline_planning_max = Duration::from_secs(900);
    });
    add_devices(&served, 100, "x");
    let clock = Arc::new(TickingClock::default());
    let served = served.under(Arc::<TickingClock>::clone(&clock));
    let mut client = served.client();
    let terms = (0..100).map(|term| format!("(cn=*{term}*)")).collect::<String>();
    let filter = format!("(|{terms}{UNINDEXED})");
    let search = Asked { filter: &filter, time_limit_s: 40, ..Asked::default() };
    let message = client.encode_search(&search);
    let connection = &mut client.connection;
    let begun = clock.0.load(Ordering::Relaxed);
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    let stop = job.stop();
    while !stop.is_late() {}
    let took = clock.0.load(Ordering::Relaxed) - begun;
    // One look before it, one at its beginning, and the one that found it late.
    assert!((40..=43).contains(&took), "{took} s");
}
