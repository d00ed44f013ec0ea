//! A pipeline against servers that answer in orders of their own.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use ldap::ber::{Frame, frame};
use ldap::message::LdapResult;
use ldap::message::{
    AttributesBuf, DecodeLimits, DeleteRequest, Message, PartialAttribute, ResponseKind, ValuesBuf,
};
use ldap::result::ResultCode;

use super::*;
use crate::connection::ConnectOptions;

/// A server that waits for so many requests, then hands their ids to `answer`, and sends what that
/// makes; again and again.
fn server(
    batch: usize,
    answer: impl Fn(&[MessageId]) -> Vec<u8> + Send + 'static,
) -> (Connection, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = ConnectOptions::new(format!("ldap://{}", listener.local_addr().unwrap()));
    options.answer_timeout = Duration::from_secs(120);
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let (mut incoming, mut ids) = (Vec::new(), Vec::new());
        let mut buffer = [0; 4096];
        loop {
            let read = socket.read(&mut buffer).unwrap_or(0);
            if read == 0 {
                return;
            }
            incoming.extend_from_slice(&buffer[..read]);
            while let Ok(Frame::Complete(length)) = frame(&incoming, 1 << 20) {
                let octets: Vec<u8> = incoming.drain(..length).collect();
                let message =
                    Message::<Request<'_>>::decode(&octets, &DecodeLimits::default()).unwrap();
                if matches!(message.op, Request::Unbind) {
                    return;
                }
                ids.push(message.id);
                if ids.len() == batch {
                    socket.write_all(&answer(&ids)).unwrap();
                    ids.clear();
                }
            }
        }
    };
    let thread = thread::spawn(serve);
    (Connection::open(options).unwrap(), thread)
}

fn deleted(id: MessageId, code: ResultCode, out: &mut Vec<u8>) {
    let result = LdapResult::new(code);
    ldap::encode::result(out, id, ResponseKind::Delete, &result, Controls::EMPTY);
}

fn window(requests_max: usize) -> Window {
    Window { requests_max, bytes_max: 1 << 20 }
}

fn delete(pipeline: &mut Pipeline, name: &str) -> MessageId {
    pipeline.send(Request::Delete(DeleteRequest { name }), Controls::EMPTY).unwrap()
}

#[test]
fn answers_come_in_any_order_and_belong_to_their_requests() {
    let (connection, server) = server(4, |ids| {
        let mut out = Vec::new();
        for (place, id) in ids.iter().enumerate().rev() {
            let code = if place == 2 { ResultCode::NoSuchObject } else { ResultCode::Success };
            deleted(*id, code, &mut out);
        }
        out
    });
    let mut pipeline = Pipeline::new(connection, window(4));
    assert_eq!(pipeline.answer().unwrap(), None, "nothing is outstanding");
    let ids: Vec<_> = (0..4).map(|_| delete(&mut pipeline, "cn=x")).collect();
    assert!(!pipeline.has_room());
    assert_eq!(pipeline.outstanding(), 4);
    let mut answers = Vec::new();
    while let Some(answer) = pipeline.answer().unwrap() {
        answers.push((answer.id, answer.outcome.is_success()));
        assert!(pipeline.has_room());
    }
    assert_eq!(answers, [(ids[3], true), (ids[2], false), (ids[1], true), (ids[0], true)]);
    drop(pipeline);
    server.join().unwrap();
}

#[test]
fn octets_fill_the_window_too_and_one_request_always_goes() {
    let (connection, server) = server(1, |ids| {
        let mut out = Vec::new();
        deleted(ids[0], ResultCode::Success, &mut out);
        out
    });
    let window = Window { requests_max: 100, bytes_max: 50 };
    let mut pipeline = Pipeline::new(connection, window);
    let name = format!("cn={}", "x".repeat(10_000));
    assert!(pipeline.has_room());
    delete(&mut pipeline, &name);
    assert!(!pipeline.has_room(), "it is larger than the window");
    pipeline.answer().unwrap().unwrap();
    delete(&mut pipeline, "cn=short");
    assert!(pipeline.has_room());
    delete(&mut pipeline, "cn=x,ou=somewhere,dc=example,dc=com");
    assert!(!pipeline.has_room());
    pipeline.set_window(Window { requests_max: 100, bytes_max: 500 });
    assert!(pipeline.has_room());
    while pipeline.answer().unwrap().is_some() {}
    drop(pipeline);
    server.join().unwrap();
}

#[test]
fn entries_belong_to_the_search_that_found_them() {
    let (connection, server) = server(2, |ids| {
        let mut out = Vec::new();
        let mut values = ValuesBuf::new();
        values.push(b"x");
        let mut attributes = AttributesBuf::new();
        attributes.push(PartialAttribute { description: "cn", values: values.as_ref() });
        let op = Response::SearchEntry { dn: "cn=x", attributes: attributes.as_ref() };
        Message { id: ids[1], op, controls: Controls::EMPTY }.encode(&mut out);
        deleted(ids[0], ResultCode::Success, &mut out);
        let op = Response::SearchDone(LdapResult::new(ResultCode::Success));
        Message { id: ids[1], op, controls: Controls::EMPTY }.encode(&mut out);
        out
    });
    let mut pipeline = Pipeline::new(connection, window(8));
    let first = delete(&mut pipeline, "cn=a");
    let second = delete(&mut pipeline, "cn=b");
    let answer = pipeline.answer().unwrap().unwrap();
    assert_eq!((answer.id, answer.entries.len()), (first, 0));
    let answer = pipeline.answer().unwrap().unwrap();
    assert_eq!((answer.id, answer.entries.len()), (second, 1));
    drop(pipeline);
    server.join().unwrap();
}

#[test]
fn an_answer_to_nobody_is_an_error() {
    let (connection, server) = server(1, |_| {
        let mut out = Vec::new();
        deleted(MessageId(77), ResultCode::Success, &mut out);
        out
    });
    let mut pipeline = Pipeline::new(connection, window(8));
    delete(&mut pipeline, "cn=a");
    let error = pipeline.answer().unwrap_err().to_string();
    assert!(error.contains("an answer to message 77"), "{error}");
    drop(pipeline);
    server.join().unwrap();
}
