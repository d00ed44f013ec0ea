//! A connection against servers that answer what a test wants.

use std::io::Read as _;
use std::net::TcpListener;
use std::thread;

use ldap::message::{AttributesBuf, ResponseKind};
use ldap::result::ResultCode;

use super::*;

/// A server that reads one request and sends these octets; then it closes if it is to.
fn server(answer: Vec<u8>, closes: bool) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = socket.read(&mut request).unwrap();
        socket.write_all(&answer).unwrap();
        if !closes {
            // Until the client goes.
            while socket.read(&mut request).is_ok_and(|read| read > 0) {}
        }
    };
    (url, thread::spawn(serve))
}

fn result(id: i32, kind: ResponseKind, code: ResultCode) -> Vec<u8> {
    let mut out = Vec::new();
    let result = LdapResult { diagnostic: "why not", ..LdapResult::new(code) };
    ldap::encode::result(&mut out, MessageId(id), kind, &result, Controls::EMPTY);
    out
}

fn open(url: &str, answer_timeout: Duration) -> Connection {
    Connection::open(ConnectOptions { answer_timeout, ..ConnectOptions::new(url) }).unwrap()
}

fn search_within(
    answer_timeout: Duration,
    answer: Vec<u8>,
    closes: bool,
) -> Result<Found, ClientError> {
    let (url, server) = server(answer, closes);
    let filter = Filter::parse("(cn=*)").unwrap();
    let found = open(&url, answer_timeout).search(&SearchFor::below("o=x", filter));
    server.join().unwrap();
    found
}

fn search(answer: Vec<u8>, closes: bool) -> Result<Found, ClientError> {
    search_within(PATIENCE, answer, closes)
}

/// Nothing waits that long where an answer comes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_search_gives_entries_references_and_the_outcome() {
    let mut values = ValuesBuf::new();
    values.push(b"Anna");
    let mut attributes = AttributesBuf::new();
    attributes.push(PartialAttribute { description: "cn", values: values.as_ref() });
    let op = Response::SearchEntry { dn: "cn=Anna,o=x", attributes: attributes.as_ref() };
    let mut answer = Vec::new();
    Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut answer);
    let mut urls = StringsBuf::new();
    urls.push("ldap://other/o=x");
    let op = Response::SearchReference(urls.as_ref());
    Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut answer);
    answer.extend(result(1, ResponseKind::SearchDone, ResultCode::SizeLimitExceeded));

    let found = search(answer, false).unwrap();
    assert_eq!(found.entries.len(), 1);
    assert_eq!(found.entries[0].dn, "cn=Anna,o=x");
    assert_eq!(found.entries[0].text("CN"), Some("Anna"));
    assert_eq!(found.references, ["ldap://other/o=x"]);
    assert_eq!(found.outcome.code, ResultCode::SizeLimitExceeded);
    assert_eq!(found.outcome.to_string(), "sizeLimitExceeded (4), why not");
}

#[test]
fn a_bind_that_fails_is_an_error_with_the_servers_words() {
    let answer = result(1, ResponseKind::Bind, ResultCode::InvalidCredentials);
    let (url, server) = server(answer, false);
    let error = open(&url, PATIENCE).bind("cn=x", b"y").unwrap_err().to_string();
    server.join().unwrap();
    assert_eq!(error, "the server refuses the bind: invalidCredentials (49), why not");
}

#[test]
fn what_is_no_answer_is_an_error() {
    let check = |answer: Vec<u8>, closes: bool, want: &str| {
        let error = search(answer, closes).unwrap_err().to_string();
        assert!(error.contains(want), "{error}\nlacks\n{want}");
    };
    check(Vec::new(), true, "closed the connection");
    check(vec![0xff; 40], false, "malformed");
    check(result(7, ResponseKind::SearchDone, ResultCode::Success), false, "to message 7");
    check(result(1, ResponseKind::Add, ResultCode::Success), false, "of another kind");
    let mut notice = Vec::new();
    ldap::encode::notice_of_disconnection(&mut notice, ResultCode::Unavailable, "going home");
    check(notice, true, "the server disconnects: unavailable (52), going home");
    // The length says more than anybody would wait for.
    check(vec![0x30, 0x84, 0x7f, 0xff, 0xff, 0xff], false, "malformed");
}

#[test]
fn who_does_not_answer_in_time_is_not_waited_for() {
    let error = search_within(Duration::from_millis(50), Vec::new(), false).unwrap_err();
    assert!(error.to_string().contains("did not answer within 0 s"), "{error}");
}

/// A wait for each octet alone held a command for ever.
#[test]
fn who_sends_octet_after_octet_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        // A message of 4,096 octets begins.
        let mut next: &[u8] = &[0x30, 0x84, 0, 0, 0x10, 0];
        while socket.write_all(next).is_ok() {
            next = &[2];
            thread::park_timeout(Duration::from_millis(20));
        }
    });
    let filter = Filter::parse("(cn=*)").unwrap();
    let mut connection = open(&url, Duration::from_millis(200));
    let error = connection.search(&SearchFor::below("o=x", filter)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
    drop(connection);
    server.join().unwrap();
}

/// A server that reads one request and sends the same message again and again, as long as somebody
/// takes it, with a pause after each.
fn endless(message: Vec<u8>, pause: Duration) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldap://{}", listener.local_addr().unwrap());
    let serve = move || {
        let (mut socket, _) = listener.accept().unwrap();
        while socket.write_all(&message).is_ok() {
            thread::park_timeout(pause);
        }
    };
    (url, thread::spawn(serve))
}

/// A message with an entry that has a name and nothing else.
fn entry(dn: &str) -> Vec<u8> {
    let (mut out, attributes) = (Vec::new(), AttributesBuf::new());
    let op = Response::SearchEntry { dn, attributes: attributes.as_ref() };
    Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut out);
    out
}

/// Each message alone had its time, and all entries that came were kept.
#[test]
fn who_sends_message_after_message_is_not_waited_for() {
    let mut intermediate = Vec::new();
    let op = Response::Intermediate { oid: Some("1.2.3"), value: None };
    Message { id: MessageId(1), op, controls: Controls::EMPTY }.encode(&mut intermediate);
    let search = |connection: &mut Connection| {
        let filter = Filter::parse("(cn=*)").unwrap();
        connection.search(&SearchFor::below("o=x", filter)).map(drop)
    };
    let extended = |connection: &mut Connection| connection.extended("1.2.3", None).map(drop);
    let delete = |connection: &mut Connection| connection.delete("o=x").map(drop);
    type Ask<'a> = &'a dyn Fn(&mut Connection) -> Result<(), ClientError>;
    let asks: [(Vec<u8>, Ask<'_>); 4] = [
        (intermediate.clone(), &extended),
        (intermediate.clone(), &delete),
        (intermediate, &search),
        (entry("o=x"), &search),
    ];
    for (message, ask) in asks {
        for pause in [Duration::ZERO, Duration::from_millis(20)] {
            let (url, server) = endless(message.clone(), pause);
            let mut connection = open(&url, Duration::from_millis(200));
            let error = ask(&mut connection).unwrap_err();
            assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
            drop(connection);
            server.join().unwrap();
        }
    }
    // Nor is more kept than one answer may have.
    let (url, server) = endless(entry(&"o=x,".repeat(1024)), Duration::ZERO);
    let message_size_max_bytes = 1 << 20;
    let options = ConnectOptions { message_size_max_bytes, ..ConnectOptions::new(&url) };
    let mut connection = Connection::open(options).unwrap();
    let error = search(&mut connection).unwrap_err().to_string();
    assert_eq!(error, "the server sends more than 1 MiB where little is expected");
    drop(connection);
    server.join().unwrap();
}

/// A search that is given to somebody entry by entry goes on as long as entries come.
#[test]
fn a_search_that_is_not_collected_takes_its_time() {
    let (url, server) = endless(entry("o=x"), Duration::from_millis(20));
    let mut connection = open(&url, Duration::from_millis(200));
    let filter = Filter::parse("(cn=*)").unwrap();
    let mut entries = 0;
    let ended = connection.search_page(&SearchFor::below("o=x", filter), 100, &[], &mut |_| {
        entries += 1;
        if entries > 50 { Err(ClientError::TooMuch(0)) } else { Ok(()) }
    });
    assert!(matches!(ended, Err(ClientError::TooMuch(0))), "{ended:?}");
    drop(connection);
    server.join().unwrap();
}

#[test]
fn where_nobody_listens_the_address_is_named() {
    let open = |url: &str| Connection::open(ConnectOptions::new(url)).err().unwrap().to_string();
    assert!(open("ldap://127.0.0.1:1").starts_with("cannot connect to 127.0.0.1:1: "));
    assert!(open("ldapi://%2Fnowhere").starts_with("cannot connect to /nowhere: "));
    assert!(open("http://x").starts_with("cannot use the URL 'http://x': "));
}
