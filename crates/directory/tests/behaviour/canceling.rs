//! Cancel (RFC 3909): what is told to be canceled is answered so, and what is decided is not.

use directory::{Flow, Next, Part};
use ldap::message::{Controls, ExtendedRequest, MessageId, Request};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};
use crate::writes::{Held, code, exists, submit_unit};

/// Of the request with this id; under the next id.
fn cancel(client: &mut Client, id: i32) -> ResultCode {
    let octet = u8::try_from(id).unwrap();
    let request = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&[0x30, 3, 2, 1, octet]) };
    let message = client.encode(Request::Extended(request), Controls::EMPTY);
    handled(client, &message)
}

fn handled(client: &mut Client, message: &[u8]) -> ResultCode {
    let connection = &mut client.connection;
    let mut out = Vec::new();
    let next = connection.worker.handle(&mut connection.session, message, &mut out);
    assert!(matches!(next, Next::Answered(_)));
    let mut answer = Answer::default();
    answer.take(&out);
    answer.code()
}

#[test]
fn a_canceled_search_ends_with_canceled() {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.chunk_bytes = 1;
    });
    add_devices(&served, 100, "x");
    for flushes_before in [0, 1, 5] {
        let mut client = served.client();
        let asked = Asked { filter: "(description=*x*)", ..Asked::default() };
        let message = client.encode_search(&asked);
        let octets = [0x30, 3, 2, 1, 1];
        let request = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&octets) };
        let canceling = client.encode(Request::Extended(request), Controls::EMPTY);
        let again = client.encode(Request::Extended(request), Controls::EMPTY);
        let connection = &mut client.connection;
        let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
        let Next::Later(job) = next else { panic!("a large search is a job") };
        let (worker, session) = (&mut connection.worker, &mut connection.session);
        let mut cancel = || {
            [&canceling, &again].map(|message| {
                let (mut out, mut answer) = (Vec::new(), Answer::default());
                let _ = worker.handle(session, message, &mut out);
                answer.take(&out);
                answer.code()
            })
        };
        // It can be canceled once.
        let told = [ResultCode::Success, ResultCode::NoSuchOperation];
        let (mut answer, mut flushes) = (Answer::default(), 0);
        if flushes_before == 0 {
            assert_eq!(cancel(), told);
        }
        let mut take = |Part { bytes: chunk, .. }: Part| {
            answer.take(&chunk);
            flushes += 1;
            if flushes == flushes_before {
                assert_eq!(cancel(), told);
            }
            Flow::Continue
        };
        let done = connection.pool.run(job, &mut take).done().unwrap();
        answer.take(&done.end);
        assert_eq!(answer.code(), ResultCode::Canceled);
        assert!(answer.entries.len() < 50, "{} entries", answer.entries.len());
        connection.session.finish(&done);
        assert_eq!(connection.session.outstanding(), 0);
    }
}

#[test]
fn a_search_that_is_done_is_not_canceled() {
    let served = Served::with(|options| options.limits.inline_candidates_max = 0);
    add_devices(&served, 10, "x");
    let mut client = served.client();
    let message =
        client.encode_search(&Asked { filter: "(description=*none*)", ..Asked::default() });
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    let done = connection.pool.run(job, &mut |_: Part| Flow::Continue).done().unwrap();
    let mut answer = Answer::default();
    answer.take(&done.end);
    assert_eq!(answer.code(), ResultCode::Success);
    // Its answer is made, but not sent.
    assert_eq!(cancel(&mut client, 1), ResultCode::TooLate);
    client.connection.session.finish(&done);
    assert_eq!(cancel(&mut client, 1), ResultCode::NoSuchOperation);
}

#[test]
fn an_update_that_waits_is_canceled_and_one_that_is_decided_is_not() {
    let served = Held::one_by_one();
    let mut client = served.root();
    let held = Held::writer(&served);
    let (first, second) = (format!("ou=first,{SUFFIX}"), format!("ou=second,{SUFFIX}"));
    let kept = submit_unit(&mut client, &first);
    // Bound by the first message, and the add is the second.
    let canceled = submit_unit(&mut client, &second);
    assert_eq!(cancel(&mut client, 3), ResultCode::Success);
    held.release();
    assert_eq!(code(&canceled), ResultCode::Canceled);
    assert_eq!(code(&kept), ResultCode::Success);
    assert!(exists(&served, &first) && !exists(&served, &second));
    // The session has not heard of the answers yet.
    assert_eq!(cancel(&mut client, 2), ResultCode::TooLate);
    client.connection.session.forget(MessageId(2));
    assert_eq!(cancel(&mut client, 2), ResultCode::NoSuchOperation);
}

#[test]
fn a_cancel_is_not_canceled_and_reaches_no_other_session() {
    let served = Served::with(|options| options.limits.inline_candidates_max = 0);
    add_devices(&served, 10, "x");
    let mut client = served.client();
    let message = client.encode_search(&Asked { filter: "(description=*x*)", ..Asked::default() });
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    assert!(matches!(next, Next::Later(_)));
    let mut other = served.client();
    assert_eq!(cancel(&mut other, 2), ResultCode::NoSuchOperation);
    assert_eq!(cancel(&mut client, 2), ResultCode::CannotCancel);
    assert_eq!(cancel(&mut client, 1), ResultCode::Success);
}

#[test]
fn a_cancel_that_waits_has_its_effect_and_is_answered_later() {
    let served = Held::one_by_one();
    let mut client = served.root();
    let held = Held::writer(&served);
    let (first, second) = (format!("ou=first,{SUFFIX}"), format!("ou=second,{SUFFIX}"));
    let kept = submit_unit(&mut client, &first);
    let canceled = submit_unit(&mut client, &second);
    let request = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&[0x30, 3, 2, 1, 3]) };
    let message = client.encode(Request::Extended(request), Controls::EMPTY);
    // Not while hashes are computed; and once is as good as often.
    client.connection.session.look_ahead(&message, false);
    client.connection.session.look_ahead(&message, true);
    client.connection.session.look_ahead(&message, true);
    held.release();
    assert_eq!(code(&canceled), ResultCode::Canceled);
    assert_eq!(code(&kept), ResultCode::Success);
    assert!(exists(&served, &first) && !exists(&served, &second));
    client.connection.session.forget(MessageId(3));
    assert_eq!(handled(&mut client, &message), ResultCode::Success);
    // It has been answered; another one with its id is another one.
    assert_eq!(handled(&mut client, &message), ResultCode::NoSuchOperation);
}

#[test]
fn cancels_that_nobody_answers_are_not_kept_without_limit() {
    let served = Held::one_by_one();
    let mut client = served.root();
    let held = Held::writer(&served);
    let submitted: Vec<_> =
        (0..100).map(|number| submit_unit(&mut client, &format!("ou={number},{SUFFIX}"))).collect();
    for id in 2..102 {
        let value = [0x30, 3, 2, 1, id];
        let request = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&value) };
        let message = client.encode(Request::Extended(request), Controls::EMPTY);
        client.connection.session.look_ahead(&message, true);
    }
    held.release();
    let is_canceled = |one: &_| code(one) == ResultCode::Canceled;
    assert_eq!(submitted.iter().filter(|one| is_canceled(one)).count(), 64);
}
