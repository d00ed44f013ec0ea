//! What is limited for each address: its connections, and its binds that fail.

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};
use tokio::time::Instant;

use super::*;

/// Passwords take some milliseconds to verify.
fn slow_storage() -> PasswordStorage {
    let argon2 = Argon2Cost { memory_kib: 1_024, passes: 1, lanes: 1 };
    PasswordStorage {
        scheme: Scheme::Argon2id,
        costs: HashCosts { argon2, ..HashCosts::default() },
    }
}

fn person(name: &str) -> String {
    format!("uid={name},dc=example,dc=org")
}

fn add_person(running: &Running, name: &str, password: &str) {
    let pairs = [("objectClass", "inetOrgPerson"), ("cn", "A"), ("sn", "B"), ("uid", name)];
    let mut root = running.connect_root();
    let pairs = [&pairs[..], &[("userPassword", password)]].concat();
    root.send(&add_entry(2, &person(name), &pairs));
    assert_eq!(root.receive(), "2 add success");
}

#[test]
fn an_address_with_too_many_connections_is_told_and_others_are_not() {
    let running = Running::with(|settings| settings.limits.connections_per_address_max = 2);
    let mut clients = [running.connect(), running.connect()];
    for client in &mut clients {
        client.send(&extended(1, WHO_AM_I));
        assert_eq!(client.receive(), "1 extended success");
    }
    let refused = running.connect().receive_all();
    assert_eq!(refused, ["0 notice busy too many connections of your address"]);
    // The Unix socket has no address.
    let mut local = Client::unix(&running.data.path().join("data/ldapi"));
    local.send(&extended(1, WHO_AM_I));
    assert_eq!(local.receive(), "1 extended success");
    let [first, mut second] = clients;
    drop(first);
    while running.counters.connections.value() > 2 {
        second.send(&extended(2, WHO_AM_I));
        assert_eq!(second.receive(), "2 extended success");
    }
    let mut fourth = running.connect();
    fourth.send(&extended(1, WHO_AM_I));
    assert_eq!(fourth.receive(), "1 extended success");
}

#[test]
fn after_binds_that_failed_the_next_ones_wait_and_nothing_else_does() {
    let running = Running::with(|settings| {
        settings.server.workers = 1;
        settings.limits.bind_failures_max = 2;
        settings.limits.bind_delay_max = Duration::from_millis(300);
    });
    let mut client = running.connect();
    for id in 1..=5 {
        client.send(&bind(id, ROOT, "wrong"));
        assert_eq!(client.receive(), format!("{id} bind invalidCredentials"));
    }
    // The right password waits as well, on this connection and on another one; what is sent
    // behind it waits with it.
    let mut waiting = running.connect();
    waiting.send(&bind(1, ROOT, "secret"));
    waiting.send(&extended(2, WHO_AM_I));
    waiting.socket.as_ref().unwrap().set_nonblocking(true).unwrap();
    let mut octet = [0];
    let mut others = 0;
    let mut neighbour = running.connect();
    while waiting.transport.read(&mut octet).is_err() {
        // The thread that it waits on serves others.
        neighbour.send(&root_dse(7));
        assert_eq!(neighbour.receive(), "7 entry ");
        assert_eq!(neighbour.receive(), "7 done success");
        others += 1;
    }
    assert!(others > 3, "{others}");
    waiting.received.extend(octet);
    waiting.socket.as_ref().unwrap().set_nonblocking(false).unwrap();
    assert_eq!(waiting.receive(), "1 bind success");
    assert_eq!(waiting.receive(), "2 extended success dn:cn=Directory Manager");
}

#[test]
fn who_fails_behind_a_gateway_delays_nobody_else() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
        settings.limits.bind_gateways = vec!["127.0.0.0/8".parse().unwrap()];
    });
    // Each would double the time that the next one waits.
    let mut clients = (0..30).map(|_| running.connect()).collect::<Vec<_>>();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&bind(1, &format!("uid=nobody {number},dc=example,dc=org"), "wrong"));
        assert_eq!(client.receive(), "1 bind invalidCredentials");
    }
    let mut client = running.connect();
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
}

/// How often a password was looked at: right, wrong or unseen.
fn count(answers: &[String], want: &str) -> usize {
    answers.iter().filter(|answer| *answer == want).count()
}

#[test]
fn of_guesses_side_by_side_no_more_are_answered_than_one_after_the_other() {
    // Six hundred at once were all looked at: failures counted when their hashes were done.
    let running = Running::with_both(|settings, options| {
        // Another one may begin a bind before it sees those of the first.
        settings.server.workers = 1;
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(60);
        options.passwords.storage = slow_storage();
    });
    let mut clients = (0..60).map(|_| running.connect()).collect::<Vec<_>>();
    let begun = Instant::now();
    for client in &mut clients {
        client.send(&bind(1, ROOT, "wrong"));
    }
    while running.counters.hashes.value() < 7 {
        std::thread::yield_now();
    }
    // Three, and one more, at once; then each after a wait, which doubles each time.
    let looked_at = running.counters.hashes.value();
    let waits = begun.elapsed().as_millis() / 100 + 1;
    assert!(looked_at <= 4 + u64::from(waits.ilog2()), "{looked_at} in {waits} tenths of a second");
}

#[test]
fn right_binds_side_by_side_wait_for_each_other_and_for_nothing_else() {
    let running = Running::with_both(|settings, options| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_secs(60);
        options.passwords.storage = slow_storage();
    });
    add_person(&running, "anna", "secret");
    let mut clients = (0..40).map(|_| running.connect()).collect::<Vec<_>>();
    for client in &mut clients {
        client.send(&bind(1, &person("anna"), "secret"));
    }
    assert!(clients.iter_mut().all(|client| client.receive() == "1 bind success"));
}

#[test]
fn an_account_is_one_behind_a_gateway_whatever_it_is_called() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
        settings.limits.bind_gateways = vec!["127.0.0.0/8".parse().unwrap()];
    });
    add_person(&running, "anna", "secret");
    add_person(&running, "bert", "secret");
    let mut client = running.connect();
    for id in 1..=2 {
        client.send(&bind(id, &person("anna"), "wrong"));
        assert_eq!(client.receive(), format!("{id} bind invalidCredentials"));
    }
    let mut next = running.connect();
    next.send(&bind(1, "bert", "secret"));
    assert_eq!(next.receive(), "1 bind success");
    for name in ["anna", "UID=Anna, dc=example,dc=org"] {
        let (begun, mut client) = (Instant::now(), running.connect());
        client.send(&bind(1, name, "wrong"));
        assert_eq!(client.receive(), "1 bind invalidCredentials");
        assert!(begun.elapsed() > Duration::from_millis(50), "{:?}", begun.elapsed());
    }
}

/// The answer to a message of SCRAM, and what the server says in it.
fn scram(client: &mut Client, id: i32, message: &str) -> (String, String) {
    let credentials = Some(message.as_bytes());
    let authentication = Authentication::Sasl { mechanism: "SCRAM-SHA-256", credentials };
    let bind = BindRequest { version: 3, name: "", authentication };
    client.send(&request(id, Request::Bind(bind)));
    let answer = client.receive_message().unwrap();
    let message = Message::<Response<'_>>::decode(&answer, &DecodeLimits::default()).unwrap();
    let Response::Bind { server_sasl_credentials, .. } = message.op else { panic!("{message:?}") };
    let says = String::from_utf8(server_sasl_credentials.unwrap_or_default().to_vec()).unwrap();
    (describe(&answer), says)
}

/// An exchange of SCRAM that ends with a wrong proof.
fn wrong_proof(client: &mut Client, username: &str) {
    let (answer, challenge) = scram(client, 1, &format!("n,,n={username},r=abc"));
    assert_eq!(answer, "1 bind saslBindInProgress");
    let nonce = challenge.split(',').next().unwrap();
    let (answer, _) = scram(client, 2, &format!("c=biws,{nonce},p={}=", "A".repeat(43)));
    assert_eq!(answer, "2 bind invalidCredentials");
}

#[test]
fn names_that_scram_makes_up_behind_a_gateway_delay_nobody_else() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
        settings.limits.bind_gateways = vec!["127.0.0.0/8".parse().unwrap()];
    });
    add_person(&running, "anna", "secret");
    // Each would double the time that the next one waits.
    let mut client = running.connect();
    (0..30).for_each(|number| wrong_proof(&mut client, &format!("nobody {number}")));
    wrong_proof(&mut client, "anna");
    wrong_proof(&mut client, "anna");
    // She is one account, however she signs in.
    let (begun, mut next) = (Instant::now(), running.connect());
    next.send(&bind(1, &person("anna"), "secret"));
    assert_eq!(next.receive(), "1 bind success");
    assert!(begun.elapsed() > Duration::from_millis(50), "{:?}", begun.elapsed());
}

/// A change of the own password.
fn change(id: i32, old: &str) -> Vec<u8> {
    let field = |tag: u8, text: &str| [&[tag, text.len() as u8], text.as_bytes()].concat();
    let fields = [field(0x81, old), field(0x82, "another one")].concat();
    let value = [&[0x30, fields.len() as u8], &*fields].concat();
    let oid = "1.3.6.1.4.1.4203.1.11.1";
    request(id, Request::Extended(ExtendedRequest { oid, value: Some(&value) }))
}

#[test]
fn a_wrong_old_password_is_a_bind_that_failed() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
    });
    add_person(&running, "anna", "secret");
    let mut client = running.connect();
    client.send(&bind(1, &person("anna"), "secret"));
    assert_eq!(client.receive(), "1 bind success");
    for id in 2..=5 {
        client.send(&change(id, "wrong"));
        let answer = client.receive();
        assert!(answer.starts_with(&format!("{id} extended invalidCredentials")), "{answer}");
    }
    // Whatever sends a password waits now: its delay is long, and then it doubles.
    let mut waiting = running.connect();
    let begun = Instant::now();
    waiting.send(&bind(1, &person("anna"), "secret"));
    assert_eq!(waiting.receive(), "1 bind success");
    assert!(begun.elapsed() > Duration::from_millis(50), "{:?}", begun.elapsed());
    // What sends none does not.
    client.send(&change(6, "wrong"));
    let answer = client.receive();
    assert!(answer.starts_with("6 extended invalidCredentials"), "{answer}");
    running.check_alive();
}

/// A compare of passwords was no guess to the address.
#[test]
fn a_wrong_compare_of_a_password_is_a_bind_that_failed() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(3_600);
    });
    add_person(&running, "anna", "secret");
    let mut client = running.connect();
    client.send(&bind(1, ROOT, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    let name = person("anna");
    for id in 2..=5 {
        let compare = CompareRequest { name: &name, description: "userpassword", value: b"wrong" };
        client.send(&request(id, Request::Compare(compare)));
        assert_eq!(client.receive(), format!("{id} compare compareFalse"));
    }
    let (begun, mut waiting) = (Instant::now(), running.connect());
    waiting.send(&bind(1, &name, "secret"));
    assert_eq!(waiting.receive(), "1 bind success");
    assert!(begun.elapsed() > Duration::from_millis(50), "{:?}", begun.elapsed());
}

#[test]
fn too_many_binds_in_line_are_refused_unseen() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_millis(100);
    });
    let mut first = running.connect();
    for id in 1..=2 {
        first.send(&bind(id, ROOT, "wrong"));
        first.receive();
    }
    let mut clients = (0..12).map(|_| running.connect()).collect::<Vec<_>>();
    for client in &mut clients {
        client.send(&bind(1, ROOT, "secret"));
    }
    let answers = clients.iter_mut().map(Client::receive).collect::<Vec<_>>();
    let (bound, busy) = (count(&answers, "1 bind success"), count(&answers, "1 bind busy"));
    assert!(bound >= 4 && busy >= 1 && bound + busy == 12, "{answers:?}");
}

#[test]
fn who_is_refused_in_line_is_signed_in_as_nobody() {
    let running = Running::with(|settings| {
        settings.limits.bind_failures_max = 1;
        settings.limits.bind_delay_max = Duration::from_millis(200);
    });
    let mut client = running.connect_root();
    let mut first = running.connect();
    for id in 1..=2 {
        first.send(&bind(id, ROOT, "wrong"));
        first.receive();
    }
    let mut others = Vec::new();
    for id in 2.. {
        // Their delays are over some time; it has to come before that.
        let mut line = (0..20).map(|_| running.connect()).collect::<Vec<_>>();
        line.iter_mut().for_each(|other| other.send(&bind(1, ROOT, "secret")));
        others.extend(line);
        client.send(&bind(id, ROOT, "secret"));
        let answer = client.receive();
        if answer == format!("{id} bind busy") {
            break;
        }
        assert_eq!(answer, format!("{id} bind success"));
    }
    client.send(&extended(7, WHO_AM_I));
    assert_eq!(client.receive(), "7 extended success");
}
