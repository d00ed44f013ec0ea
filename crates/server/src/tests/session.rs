//! Framing, pipelining, the end of a session.

use super::*;

#[test]
fn a_request_may_arrive_in_any_pieces() {
    let running = Running::start();
    let mut client = running.connect();
    let request = root_dse(2);
    for split in 1..request.len() {
        // The first piece comes with a whole request: when that one is answered, the piece has
        // been read.
        let mut first = extended(1, WHO_AM_I);
        first.extend_from_slice(&request[..split]);
        client.send(&first);
        assert_eq!(client.receive(), "1 extended success");
        client.send(&request[split..]);
        assert_eq!(client.receive(), "2 entry ", "split at {split}");
        assert_eq!(client.receive(), "2 done success");
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let running = Running::start();
    let mut client = running.connect();
    for byte in bind(1, ROOT, "secret") {
        client.send(&[byte]);
    }
    assert_eq!(client.receive(), "1 bind success");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let running = Running::start();
    let mut client = running.connect();
    let count = 1_000;
    let requests = (1..=count).flat_map(|id| extended(id, WHO_AM_I)).collect::<Vec<_>>();
    client.send(&requests);
    for id in 1..=count {
        assert_eq!(client.receive(), format!("{id} extended success"));
    }
}

#[test]
fn a_client_that_sends_without_end_does_not_starve_its_neighbours() {
    // One worker, so that both are on it.
    let running = Running::with(|settings| settings.server.workers = 1);
    let mut greedy = running.connect();
    let requests = (1..=20_000).flat_map(|id| extended(id, WHO_AM_I)).collect::<Vec<_>>();
    let mut reader = Client::plain(greedy.socket.as_ref().unwrap().try_clone().unwrap());
    let sender = std::thread::spawn(move || greedy.send(&requests));
    assert_eq!(reader.receive(), "1 extended success");
    // Not all of the greedy one's requests are answered before the neighbour's.
    running.check_alive();
    for id in 2..=20_000 {
        assert_eq!(reader.receive(), format!("{id} extended success"));
    }
    sender.join().unwrap();
}

#[test]
fn a_message_larger_than_a_read_is_put_together() {
    let running = Running::start();
    let mut client = running.connect_root();
    for (id, size) in [(1, 65_000), (2, 65_536), (3, 131_072), (4, 1_000_000)] {
        let mut request = add(id, &format!("big{id}"), size);
        request.extend_from_slice(&extended(100, WHO_AM_I));
        client.send(&request);
        let mut answers = [client.receive(), client.receive()];
        answers.sort();
        let mut want = [
            format!("{id} add success"),
            "100 extended success dn:cn=Directory Manager".to_owned(),
        ];
        want.sort();
        assert_eq!(answers, want, "{size}");
    }
}

#[test]
fn a_client_that_has_finished_sending_gets_its_answers() {
    let running = Running::start();
    let mut client = running.connect_root();
    let requests = (1..=20).flat_map(|id| add(id, &format!("a{id}"), 0)).collect::<Vec<_>>();
    client.send(&requests);
    client.send(&root_dse(21));
    client.finish_sending();
    let answers = client.receive_all();
    for id in 1..=20 {
        assert!(answers.contains(&format!("{id} add success")), "{answers:?}");
    }
    assert!(answers.contains(&"21 done success".to_owned()), "{answers:?}");
    assert_eq!(answers.len(), 22);
}

#[test]
fn a_client_that_sends_nothing_and_finishes_is_let_go() {
    let running = Running::start();
    let mut client = running.connect();
    client.finish_sending();
    assert_eq!(client.receive(), "closed");
    // In the middle of a message, too.
    let mut client = running.connect();
    client.send(&root_dse(1)[..5]);
    client.finish_sending();
    assert_eq!(client.receive(), "closed");
}

#[test]
fn unbind_ends_the_session_without_an_answer() {
    let running = Running::start();
    let mut client = running.connect();
    let mut requests = root_dse(1);
    requests.extend_from_slice(&request(2, Request::Unbind));
    requests.extend_from_slice(&root_dse(3));
    client.send(&requests);
    assert_eq!(client.receive_all(), ["1 entry ", "1 done success"]);
}

#[track_caller]
fn check_garbage(running: &Running, bytes: &[u8], want: &str) {
    let mut client = running.connect();
    let mut requests = root_dse(1);
    requests.extend_from_slice(bytes);
    client.send(&requests);
    let want = format!("0 notice protocolError {want}");
    assert_eq!(client.receive_all(), ["1 entry ", "1 done success", &want], "{bytes:x?}");
}

#[test]
fn garbage_is_answered_with_a_notice_and_the_end() {
    let running = Running::start();
    let check = |bytes: &[u8], want: &str| check_garbage(&running, bytes, want);
    check(b"GET / HTTP/1.1\r\n\r\n", "unexpected tag 0x47 at offset 0");
    check(b"\x16\x03\x01\x02\x00\x01", "unexpected tag 0x16 at offset 0");
    check(b"\x00", "unexpected tag 0x00 at offset 0");
    check(b"\xff\xff\xff\xff", "unexpected tag 0xff at offset 0");
    check(b"\x30\x80\x02\x01\x01", "indefinite length at offset 0");
    let most = "the request is larger than 65536 bytes, which is the limit before signing in \
                (limits.message_size_anonymous_max_bytes)";
    check(b"\x30\x84\x7f\xff\xff\xff", most);
    check(b"\x30\x88\xff\xff\xff\xff\xff\xff\xff\xff", "length too long at offset 0");
    running.check_alive();
}

#[test]
fn many_random_bytes_never_bring_the_server_down() {
    let running = Running::start();
    // A linear congruential generator: the same bytes in each run.
    let mut state = 4_711_u64;
    for _ in 0..200 {
        let mut bytes = vec![0x30];
        for _ in 0..64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push((state >> 56) as u8);
        }
        let mut client = running.connect();
        client.send(&bytes);
        client.finish_sending();
        let answers = client.receive_all();
        assert!(answers.len() <= 40, "{answers:?}");
    }
    assert_eq!(running.counters.panics.value(), 0);
    running.check_alive();
}

#[test]
fn a_panic_ends_its_session_and_no_other() {
    let running = Running::with(|settings| settings.server.workers = 1);
    let mut other = running.connect();
    other.send(&root_dse(1));
    assert_eq!(other.receive(), "1 entry ");
    let mut client = running.connect();
    let mut requests = root_dse(1);
    requests.extend_from_slice(&bind(2, PANIC, "x"));
    requests.extend_from_slice(&root_dse(3));
    client.send(&requests);
    let want = ["1 entry ", "1 done success", "0 notice other internal error"];
    assert_eq!(client.receive_all(), want);
    assert_eq!(running.counters.panics.value(), 1);
    assert_eq!(other.receive(), "1 done success");
    other.send(&root_dse(2));
    assert_eq!(other.receive(), "2 entry ");
    running.check_alive();
}

#[test]
fn a_large_search_is_streamed_while_others_are_served() {
    let running = Running::with(|settings| {
        settings.server.workers = 1;
        settings.limits.output_buffer_max_bytes = 1_024;
    });
    let entries = fill(&running, 600, 1_000);
    let mut client = running.connect_root();
    let mut requests = search(2, "dc=example,dc=org", Scope::Subtree);
    requests.extend_from_slice(&search(3, "dc=example,dc=org", Scope::Subtree));
    client.send(&requests);
    running.check_alive();
    let mut count = [0, 0];
    let mut done = 0;
    while done < 2 {
        match &*client.receive() {
            "2 done success" | "3 done success" => done += 1,
            answer if answer.starts_with("2 entry") => count[0] += 1,
            answer if answer.starts_with("3 entry") => count[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(count, [entries, entries]);
}

#[test]
fn a_slow_bind_comes_before_what_is_sent_behind_it() {
    let running = Running::start();
    let mut client = running.connect_root();
    let name = "cn=anna,dc=example,dc=org";
    // crypt(3) of `secret`: verified on the scan pool, because it takes long.
    let password = "{CRYPT}$6$salt$egUxKNxDs8kPfh8iPMNcosMhb2eWah6d3R44JDm5Rj/j/XWR5E33\
        QPd0YmHXoDHOIDR6kL5D3JcQcz0O8FHE00";
    let attributes =
        [("objectClass", "person"), ("cn", "anna"), ("sn", "a"), ("userPassword", password)];
    client.send(&add_entry(2, name, &attributes));
    assert_eq!(client.receive(), "2 add success");
    for (password, code, who) in [
        ("wrong", "invalidCredentials", ""),
        ("secret", "success", " dn:cn=anna,dc=example,dc=org"),
    ] {
        let mut requests = bind(3, name, password);
        requests.extend_from_slice(&extended(4, WHO_AM_I));
        client.send(&requests);
        assert_eq!(client.receive(), format!("3 bind {code}"));
        assert_eq!(client.receive(), format!("4 extended success{who}"));
    }
}

#[test]
fn a_search_whose_client_is_gone_frees_its_thread() {
    let running = Running::with(|settings| {
        settings.server.scan_threads = 1;
        settings.limits.output_buffer_max_bytes = 1_024;
    });
    let entries = fill(&running, 600, 1_000);
    for _ in 0..3 {
        let mut client = running.connect_root();
        let requests = (2..60).flat_map(|id| search(id, "dc=example,dc=org", Scope::Subtree));
        client.send(&requests.collect::<Vec<_>>());
        assert!(client.receive().contains(" entry "));
        drop(client);
    }
    let mut client = running.connect_root();
    client.send(&search(2, "dc=example,dc=org", Scope::Subtree));
    client.finish_sending();
    assert_eq!(client.receive_all().len(), entries + 1);
}

#[test]
fn a_search_that_finds_nothing_ends_soon_after_its_client_is_gone() {
    let running = Running::with(|settings| {
        settings.server.scan_threads = 1;
        settings.limits.half_closed_timeout = Duration::from_millis(20);
    });
    fill(&running, 300, 20_000);
    // Each entry takes so long to test that all of them together take minutes.
    let terms = (0..1_000).map(|term| format!("(description=*no {term}*)")).collect::<String>();
    let filter = format!("(|{terms})");
    for _ in 0..2 {
        let mut client = running.connect_root();
        client.send(&search_by(2, "dc=example,dc=org", Scope::Subtree, &filter));
    }
    // The second one waited for the only thread; so does this one, whose client is there.
    let mut client = running.connect_root();
    client.send(&search(2, "dc=example,dc=org", Scope::Subtree));
    assert_eq!(client.receive(), "2 entry dc=example,dc=org");
}
