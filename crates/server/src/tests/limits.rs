//! Limits: what happens at them, and that the others are not bothered.

use tokio::time::Instant;

use super::*;

#[test]
fn a_message_larger_than_allowed_ends_the_session_before_it_is_sent() {
    let running = Running::with(|settings| settings.limits.message_size_max_bytes = 1 << 20);
    let notice = "0 notice protocolError the request is larger than";
    // Nothing but the header is sent: the size is refused, not the content.
    let header = |size: u32| {
        let mut bytes = vec![0x30, 0x84];
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes
    };
    let mut client = running.connect();
    client.send(&header(65_536 - 5));
    // It says that it is the limit of anonymous clients, and where it is set.
    let want = format!(
        "{notice} 65536 bytes, which is the limit before signing in \
         (limits.message_size_anonymous_max_bytes)"
    );
    assert_eq!(client.receive(), want);
    assert_eq!(client.receive(), "closed");
    let mut client = running.connect_root();
    client.send(&header((1 << 20) - 5));
    let want = format!("{notice} 1048576 bytes (limits.message_size_max_bytes)");
    assert_eq!(client.receive(), want);
    assert_eq!(client.receive(), "closed");
}

#[test]
fn a_message_up_to_the_limit_is_handled() {
    let running = Running::with(|settings| settings.limits.message_size_max_bytes = 1 << 20);
    let mut client = running.connect_root();
    let size = (1 << 20) - add(2, "large", 100_000).len() + 100_000;
    assert_eq!(add(2, "large", size).len(), 1 << 20);
    client.send(&add(2, "large", size));
    assert_eq!(client.receive(), "2 add success");
}

#[test]
fn what_a_length_claims_is_not_allocated() {
    // 500 clients that claim 60 KB each and send next to nothing.
    let running = Running::start();
    let clients = (0..500).map(|_| {
        let mut client = running.connect();
        client.send(&[0x30, 0x82, 0xea, 0x60, 0x02]);
        client
    });
    let clients = clients.collect::<Vec<_>>();
    running.check_alive();
    let held = || budgets::metric(&running, "roster_undelivered_bytes");
    while held() < 5 * clients.len() {
        std::thread::yield_now();
    }
    let each = held() / clients.len();
    assert!(each < 1_024, "{each} octets are held for 5");
    drop(clients);
}

#[test]
fn one_connection_too_many_is_told_and_closed() {
    let running = Running::with(|settings| settings.limits.connections_max = 2);
    // Of those who have not signed in, one would give up its slot.
    let mut first = running.connect_root();
    let mut second = running.connect_root();
    let mut third = running.connect();
    assert_eq!(third.receive_all(), ["0 notice busy too many connections"]);
    assert_eq!(running.counters.refused.value(), 1);
    // The others go on, and a slot that becomes free is given away again.
    first.send(&request(2, Request::Unbind));
    assert_eq!(first.receive(), "closed");
    while running.counters.connections.value() > 1 {
        second.send(&extended(2, WHO_AM_I));
        assert_eq!(second.receive(), "2 extended success dn:cn=Directory Manager");
    }
    let mut fourth = running.connect();
    fourth.send(&extended(1, WHO_AM_I));
    assert_eq!(fourth.receive(), "1 extended success");
}

#[test]
fn more_operations_than_may_be_outstanding_are_answered_all_the_same() {
    let running = Running::with(|settings| settings.limits.outstanding_max = 2);
    let mut client = running.connect_root();
    let requests = (1..=100).flat_map(|id| add(id, &format!("a{id}"), 0)).collect::<Vec<_>>();
    client.send(&requests);
    let mut answers = (1..=100).map(|_| client.receive()).collect::<Vec<_>>();
    answers.sort();
    let mut want = (1..=100).map(|id| format!("{id} add success")).collect::<Vec<_>>();
    want.sort();
    assert_eq!(answers, want);
}

#[test]
fn a_search_that_finds_the_pool_full_is_answered_busy() {
    let running = Running::with(|settings| {
        settings.server.scan_threads = 1;
        settings.server.scan_queue_max = 1;
        settings.server.scan_queue_asker_max = 1;
    });
    fill(&running, 300, 2_000);
    let mut client = running.connect_root();
    let requests = (2..62).flat_map(|id| search(id, "dc=example,dc=org", Scope::Subtree));
    client.send(&requests.collect::<Vec<_>>());
    let mut ends = Vec::new();
    while ends.len() < 60 {
        let answer = client.receive();
        if answer.contains(" done ") {
            ends.push(answer);
        }
    }
    let count = |end: &str| ends.iter().filter(|answer| answer.ends_with(end)).count();
    assert!(count(" done busy") > 0, "{ends:?}");
    assert!(count(" done success") > 0, "{ends:?}");
    assert_eq!(count(" done busy") + count(" done success"), 60);
}

#[test]
fn a_silent_client_is_told_and_closed() {
    let running =
        Running::with(|settings| settings.limits.idle_timeout = Duration::from_millis(50));
    let notice = "0 notice timeLimitExceeded the connection was idle for too long";
    assert_eq!(running.connect().receive_all(), [notice]);
    // In the middle of a request, and after one. Who gets to it late, on a busy machine, was idle
    // before it.
    let mut client = running.connect();
    client.send(&extended(1, WHO_AM_I)[..5]);
    assert_eq!(client.receive_all(), [notice]);
    loop {
        let mut client = running.connect();
        client.send(&extended(1, WHO_AM_I));
        let received = client.receive_all();
        if received != [notice] {
            assert_eq!(received, ["1 extended success", notice]);
            break;
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_closed_and_delays_nobody() {
    let running = Running::with(|settings| {
        settings.server.workers = 1;
        settings.limits.write_timeout = Duration::from_millis(100);
        settings.limits.output_buffer_max_bytes = 64 * 1024;
    });
    fill(&running, 300, 10_000);
    let mut client = running.connect_root();
    // 150 MB of answers, far more than kernel buffers take.
    let requests = (2..52).flat_map(|id| search(id, "dc=example,dc=org", Scope::Subtree));
    client.send(&requests.collect::<Vec<_>>());
    // A neighbour is served all the time until the server has let go of the first; only then the
    // first one reads, and its answers break off.
    let mut neighbour = running.connect();
    loop {
        neighbour.send(&extended(1, WHO_AM_I));
        assert_eq!(neighbour.receive(), "1 extended success");
        if running.counters.connections.value() == 1 {
            break;
        }
    }
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        match client.transport.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => received += count,
            Err(error) if is_closed(error.kind()) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(received < 100_000_000, "{received}");
}

/// A search of everything, with a time limit in seconds.
fn search_all(id: i32, time_limit_s: u32) -> Vec<u8> {
    request(
        id,
        Request::Search(SearchRequest {
            base: "dc=example,dc=org",
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s,
            types_only: false,
            filter: Filter::Present("objectClass"),
            attributes: Strings::EMPTY,
        }),
    )
}

/// One scan thread, and 30 MB to search: more than the buffers between it and a client take.
fn with_one_scan_thread() -> Running {
    let running = Running::with(|settings| {
        settings.server.scan_threads = 1;
        settings.limits.output_buffer_max_bytes = 64 * 1024;
    });
    fill(&running, 30, 1_000_000);
    running
}

#[test]
fn an_abandoned_search_of_a_client_that_does_not_read_gives_its_thread_back() {
    let running = with_one_scan_thread();
    let mut client = running.connect_root();
    client.send(&search_all(2, 0));
    assert_eq!(client.receive(), "2 entry dc=example,dc=org");
    // The only scan thread waits for the first client now, or soon; its abandon request is behind
    // another one, in a connection that has too much to send to handle any.
    client.send(&extended(3, WHO_AM_I));
    client.send(&request(4, Request::Abandon(MessageId(2))));
    let mut other = running.connect_root();
    other.send(&search(2, "ou=e1,dc=example,dc=org", Scope::Base));
    assert_eq!(other.receive(), "2 entry ou=e1,dc=example,dc=org");
    assert_eq!(other.receive(), "2 done success");
    // What was sent before comes, then the answer to the other request, and no result.
    let mut answers = Vec::new();
    while answers.last().is_none_or(|answer: &String| !answer.starts_with("3 ")) {
        answers.push(client.receive());
    }
    assert!(answers.len() < 30, "{}", answers.len());
    assert!(answers.iter().all(|answer| !answer.contains("done")), "{answers:?}");
}

#[test]
fn a_canceled_search_of_a_client_that_does_not_read_gives_its_thread_back() {
    let running = with_one_scan_thread();
    let mut client = running.connect_root();
    client.send(&search_all(2, 0));
    assert_eq!(client.receive(), "2 entry dc=example,dc=org");
    // As above; this one is answered, and what it cancels is, too.
    client.send(&extended(3, WHO_AM_I));
    let cancel = ExtendedRequest { oid: "1.3.6.1.1.8", value: Some(&[0x30, 3, 2, 1, 2]) };
    client.send(&request(4, Request::Extended(cancel)));
    let mut other = running.connect_root();
    other.send(&search(2, "ou=e1,dc=example,dc=org", Scope::Base));
    assert_eq!(other.receive(), "2 entry ou=e1,dc=example,dc=org");
    assert_eq!(other.receive(), "2 done success");
    let mut answers = Vec::new();
    while answers.last().is_none_or(|answer: &String| !answer.starts_with("4 ")) {
        answers.push(client.receive());
    }
    assert!(answers.len() < 30, "{}", answers.len());
    let ends: Vec<_> = answers.iter().filter(|answer| !answer.contains(" entry ")).collect();
    assert_eq!(ends.len(), 3, "{ends:?}");
    assert!(ends.iter().any(|end| *end == "2 done canceled"), "{ends:?}");
    assert!(ends.iter().any(|end| end.starts_with("4 ") && end.ends_with("success")), "{ends:?}");
}

#[test]
fn a_search_of_a_client_that_does_not_read_ends_with_its_time() {
    let running = with_one_scan_thread();
    let mut client = running.connect_root();
    client.send(&search_all(2, 1));
    assert_eq!(client.receive(), "2 entry dc=example,dc=org");
    // It has parked by then, at the latest, and another one has the thread; its time goes on.
    let begun = Instant::now();
    let mut other = running.connect_root();
    while begun.elapsed() < Duration::from_millis(1_100) {
        other.send(&search(2, "ou=e1,dc=example,dc=org", Scope::Base));
        assert_eq!(other.receive(), "2 entry ou=e1,dc=example,dc=org");
        assert_eq!(other.receive(), "2 done success");
    }
    // Its result waits for it.
    let mut last = client.receive();
    while last.starts_with("2 entry") {
        last = client.receive();
    }
    assert_eq!(last, "2 done timeLimitExceeded");
}

#[test]
fn an_entry_has_an_idle_time_of_its_own() {
    let running = Running::with(|settings| settings.limits.idle_timeout = Duration::ZERO);
    let mut root = running.connect_root();
    let name = "cn=hasty,dc=example,dc=org";
    let pairs = [
        ("objectClass", "person"),
        ("cn", "hasty"),
        ("sn", "x"),
        ("userPassword", "hers"),
        ("ds-rlim-idle-time-limit", "1"),
    ];
    root.send(&add_entry(2, name, &pairs));
    assert_eq!(root.receive(), "2 add success");
    let mut client = running.connect();
    client.send(&bind(1, name, "hers"));
    assert_eq!(client.receive(), "1 bind success");
    assert_eq!(client.receive(), "0 notice timeLimitExceeded the connection was idle for too long");
    root.send(&extended(3, WHO_AM_I));
    assert_eq!(root.receive(), "3 extended success dn:cn=Directory Manager");
}

/// Adds an entry that can sign in with the password `hers`.
fn add_account(running: &Running, name: &str, own: &[(&str, &str)]) -> String {
    let dn = format!("cn={name},dc=example,dc=org");
    let mut pairs =
        vec![("objectClass", "person"), ("cn", name), ("sn", "x"), ("userPassword", "hers")];
    pairs.extend_from_slice(own);
    let mut root = running.connect_root();
    root.send(&add_entry(2, &dn, &pairs));
    assert_eq!(root.receive(), "2 add success");
    dn
}

/// A connection that is bound as `dn`, or its refusal.
fn sign_in(running: &Running, dn: &str) -> Result<Client, String> {
    let mut client = running.connect();
    client.send(&bind(1, dn, "hers"));
    match client.receive() {
        answer if answer == "1 bind success" => Ok(client),
        answer => Err(answer),
    }
}

#[test]
fn an_identity_has_so_many_connections_and_others_have_theirs() {
    let running = Running::with(|settings| settings.limits.connections_per_identity_max = 2);
    let [anna, ben] = ["anna", "ben"].map(|name| add_account(&running, name, &[]));
    let carla = add_account(&running, "carla", &[("ds-rlim-connection-limit", "1")]);
    let dora = add_account(&running, "dora", &[("ds-rlim-connection-limit", "0")]);
    let mut hers = vec![sign_in(&running, &anna).unwrap(), sign_in(&running, &anna).unwrap()];
    // One more is refused; it stays open, bound as nobody.
    let mut third = running.connect();
    third.send(&bind(1, &anna, "hers"));
    assert_eq!(third.receive(), "1 bind busy");
    third.send(&extended(2, WHO_AM_I));
    assert_eq!(third.receive(), "2 extended success");
    // A wrong password is refused as ever, whatever else there is.
    third.send(&bind(3, &anna, "wrong"));
    assert_eq!(third.receive(), "3 bind invalidCredentials");
    // Others have their own, and some have a limit of their own.
    let _his = [sign_in(&running, &ben).unwrap(), sign_in(&running, &ben).unwrap()];
    let _one = sign_in(&running, &carla).unwrap();
    assert_eq!(sign_in(&running, &carla).err().unwrap(), "1 bind busy");
    let _many = [0; 4].map(|_| sign_in(&running, &dora).unwrap());
    let _roots = [0; 4].map(|_| running.connect_root());
    // A connection that becomes somebody else, or nobody, gives its slot back, and so does one
    // that ends.
    let mut first = hers.remove(0);
    first.send(&bind(2, &anna, "hers"));
    assert_eq!(first.receive(), "2 bind success");
    first.send(&bind(3, "", ""));
    assert_eq!(first.receive(), "3 bind success");
    third.send(&bind(4, &anna, "hers"));
    assert_eq!(third.receive(), "4 bind success");
    first.send(&bind(4, &anna, "hers"));
    assert_eq!(first.receive(), "4 bind busy");
    hers[0].send(&request(2, Request::Unbind));
    assert_eq!(hers[0].receive(), "closed");
    let mut id = 5;
    loop {
        first.send(&bind(id, &anna, "hers"));
        if first.receive() == format!("{id} bind success") {
            break;
        }
        id += 1;
    }
}

#[test]
fn an_identity_has_so_many_operations_under_way_over_all_its_connections() {
    let running = Running::with(|settings| {
        settings.server.scan_threads = 1;
        settings.limits.output_buffer_max_bytes = 64 * 1024;
        settings.limits.operations_per_identity_max = 2;
        settings.limits.look_through_limit_entries = 0;
        settings.limits.unindexed_entries = 1_000_000;
        settings.limits.size_limit_entries = 0;
        settings.limits.time_limit_s = 0;
    });
    fill(&running, 30, 1_000_000);
    let [anna, ben] = ["anna", "ben"].map(|name| add_account(&running, name, &[]));
    let mut hers = [0; 3].map(|_| sign_in(&running, &anna).unwrap());
    // Searches of a client that does not read: they do not end. Both are under way before the third
    // connection asks for anything, which would count, too.
    for one in &mut hers[..2] {
        one.send(&search_all(2, 0));
        assert_eq!(one.receive(), "2 entry dc=example,dc=org");
    }
    let mut id = 2;
    loop {
        // The other two are under way when this one is refused.
        hers[2].send(&extended(id, WHO_AM_I));
        let answer = hers[2].receive();
        if answer == format!("{id} extended busy") {
            break;
        }
        assert!(answer.starts_with(&format!("{id} extended success")), "{answer}");
        id += 1;
    }
    let mut his = sign_in(&running, &ben).unwrap();
    his.send(&extended(2, WHO_AM_I));
    assert_eq!(his.receive(), format!("2 extended success dn:{ben}"));
    // What a connection had under way ends with it.
    let [first, _second, mut third] = hers;
    drop(first);
    loop {
        id += 1;
        third.send(&extended(id, WHO_AM_I));
        let answer = third.receive();
        if answer == format!("{id} extended success dn:{anna}") {
            break;
        }
        assert_eq!(answer, format!("{id} extended busy"));
    }
}

#[test]
fn a_policy_limits_the_identities_it_is_for() {
    let running = Running::with(|settings| {
        settings.limits.connections_per_identity_max = 3;
        settings.policies = vec![directory::Policy {
            name: "applications".to_owned(),
            identities: vec!["cn=anna,dc=example,dc=org".to_owned()],
            connections_per_identity_max: Some(1),
            ..directory::Policy::default()
        }];
    });
    let [anna, ben] = ["anna", "ben"].map(|name| add_account(&running, name, &[]));
    let _hers = sign_in(&running, &anna).unwrap();
    assert_eq!(sign_in(&running, &anna).err().unwrap(), "1 bind busy");
    let _his = [0; 3].map(|_| sign_in(&running, &ben).unwrap());
    assert_eq!(sign_in(&running, &ben).err().unwrap(), "1 bind busy");
}

#[test]
fn a_stranger_who_asks_nothing_gives_the_place_back() {
    let running = Running::with(|settings| {
        settings.limits.first_request_timeout = Duration::from_millis(50);
    });
    let received = ["0 notice timeLimitExceeded no request came in time"];
    assert_eq!(running.connect().receive_all(), received);
    // However many octets come, when no request comes of them.
    let mut dripping = TcpStream::connect(running.ldap()).unwrap();
    dripping.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    dripping.write_all(&[0x30, 0x82, 0xea, 0x60]).unwrap();
    let mut octet = [0];
    let read = loop {
        match dripping.read(&mut octet) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                dripping.write_all(&[2]).unwrap();
            }
            read => break read.unwrap(),
        }
    };
    assert_eq!((read, octet), (1, [0x30]), "the notice");
    // Who has asked may think.
    let mut client = running.connect();
    client.send(&extended(1, WHO_AM_I));
    assert_eq!(client.receive(), "1 extended success");
    assert_eq!(running.connect().receive_all(), received);
    client.send(&extended(2, WHO_AM_I));
    assert_eq!(client.receive(), "2 extended success");
}

#[test]
fn who_takes_all_places_does_not_keep_the_local_administrator_out() {
    let running = Running::with(|settings| {
        settings.limits.connections_max = 2;
        settings.limits.connections_reserved = 1;
    });
    // Anonymous clients would give up a slot.
    let known = [running.connect_root(), running.connect_root()];
    let mut third = running.connect();
    assert_eq!(third.receive_all(), ["0 notice busy too many connections"]);
    let path = running.addresses.ldapi.clone().unwrap();
    let mut local = Client::unix(&path);
    local.send(&extended(1, WHO_AM_I));
    assert_eq!(local.receive(), "1 extended success");
    let mut another = Client::unix(&path);
    assert_eq!(another.receive_all(), ["0 notice busy too many connections"]);
    drop(known);
}
