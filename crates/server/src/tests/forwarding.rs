//! Two servers over real sockets: what one is asked for is carried out by the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use auth::password::{Argon2Cost, HashCosts, PasswordStorage};
use directory::MakeLog;
use directory::forward::{ForwardError, Forwarder, ForwarderDone};
use zeroize::Zeroizing;

use super::follows::Follows;
use super::*;
use crate::metrics::counters::Counters;
use crate::pools::fair_queue::QueueSize;
use crate::pools::hash_pool::{HashPool, HashPoolSize};
use crate::{ForwardedPool, ForwardedPoolSize};

/// Hands requests to the pool of the other server, or keeps them.
#[derive(Debug, Default)]
struct ToPool {
    pool: OnceLock<ForwardedPool>,
    kept: Mutex<Vec<Vec<u8>>>,
    /// Nothing is answered: who waits is kept here.
    is_silent: AtomicBool,
    unanswered: Mutex<Vec<Unanswered>>,
}

struct Unanswered(#[expect(dead_code, reason = "it is only kept")] ForwarderDone);

impl std::fmt::Debug for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unanswered")
    }
}

impl Forwarder for ToPool {
    fn forward(&self, request: Zeroizing<Vec<u8>>, _: Duration, done: ForwarderDone) {
        match self.pool.get() {
            Some(pool) => {
                self.kept.lock().unwrap().push(request.to_vec());
                if self.is_silent.load(Ordering::SeqCst) {
                    return self.unanswered.lock().unwrap().push(Unanswered(done));
                }
                pool.carry_out(request, Box::new(|octets| done(Ok(octets))));
            }
            None => done(Err(ForwardError::NotSent)),
        }
    }
}

struct Pair {
    follower: Running,
    leader: Running,
    forwarder: Arc<ToPool>,
    pool: ForwardedPool,
}

impl Pair {
    fn start() -> Self {
        Self::hashing(1)
    }

    /// Where a hash takes so many passes.
    fn hashing(passes: u32) -> Self {
        Self::limited(passes, |_| {})
    }

    /// And with other settings of the follower.
    fn limited(passes: u32, adjust: impl FnOnce(&mut Settings)) -> Self {
        let (own, pool) = (Arc::<ToPool>::default(), std::sync::mpsc::channel());
        let leader = Running::with_pool(
            |options| {
                options.forwarder = Some(own);
                let argon2 = Argon2Cost { memory_kib: 64, passes, lanes: 1 };
                let costs = HashCosts { argon2, ..HashCosts::default() };
                options.passwords.storage = PasswordStorage { scheme: Scheme::Argon2id, costs };
            },
            &pool.0,
        );
        let pool = pool.1.recv().unwrap();
        let forwarder = Arc::<ToPool>::default();
        forwarder.pool.set(pool.clone()).unwrap();
        let given = Arc::clone(&forwarder);
        let follower = Running::with_both(|settings, options| {
            adjust(settings);
            options.forwarder = Some(given);
            options.log = Some(MakeLog::new(|_| Ok(Arc::<Follows>::default())));
        });
        Self { follower, leader, forwarder, pool }
    }
}

#[test]
fn what_one_server_is_asked_for_is_carried_out_by_the_other() {
    let pair = Pair::start();
    let mut client = pair.follower.connect_root();
    let anna = "uid=anna,dc=example,dc=org";
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    client.send(&add_entry(2, anna, &pairs));
    assert_eq!(client.receive(), "2 add success");
    client.send(&add_entry(3, anna, &pairs));
    assert_eq!(client.receive(), "3 add entryAlreadyExists");
    // It was hashed over there, by the pool for that.
    assert!(pair.leader.counters.hashes.value() > 0);
    assert_eq!(pair.follower.counters.hashes.value(), 0);
    let mut bound = pair.leader.connect();
    bound.send(&bind(1, anna, "a good secret"));
    assert_eq!(bound.receive(), "1 bind success");
}

#[test]
fn octets_that_are_no_request_are_refused_and_a_closed_pool_takes_none() {
    let mut pair = Pair::start();
    let ask = |octets: Vec<u8>| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let octets = Zeroizing::new(octets);
        pair.pool.carry_out(octets, Box::new(move |answer| sender.send(answer).unwrap()));
        directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap()).unwrap()
    };
    let refused = |octets: Vec<u8>| match ask(octets) {
        directory::forward::answer::ForwardedAnswer::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    };
    let mut octets = directory::forward::PROTOCOL_VERSION.to_le_bytes().to_vec();
    octets.extend_from_slice(b"nothing");
    assert_eq!(refused(octets), ldap::result::ResultCode::ProtocolError);
    // Its first two octets are those of another version.
    assert_eq!(refused(b"nothing".to_vec()), ldap::result::ResultCode::Unavailable);
    let mut client = pair.follower.connect_root();
    client.send(&add_entry(2, "ou=x,dc=example,dc=org", &[("objectClass", "organizationalUnit")]));
    assert_eq!(client.receive(), "2 add success");
    let request = pair.forwarder.kept.lock().unwrap()[0].clone();
    assert!(matches!(
        ask(request.clone()),
        directory::forward::answer::ForwardedAnswer::Answered(_)
    ));
    pair.leader.stop();
    let (sender, receiver) = std::sync::mpsc::channel();
    let request = Zeroizing::new(request);
    pair.pool.carry_out(request, Box::new(move |answer| sender.send(answer).unwrap()));
    let answer = directory::forward::answer::ForwardedAnswer::decode(&receiver.recv().unwrap());
    let nobody = directory::forward::answer::ForwardedAnswer::NotDeciding { leader: None };
    assert_eq!(answer.unwrap(), nobody, "whoever decides next carries it out");
}

/// The threads that go on with a request ended before the one that hashed for it: nobody answered.
#[test]
fn what_waits_for_a_hash_when_the_server_stops_is_answered() {
    let mut pair = Pair::hashing(4_000);
    let mut client = pair.follower.connect_root();
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    client.send(&add_entry(2, "uid=anna,dc=example,dc=org", &pairs));
    // It is on its way to the pool, and in it before the client is told anything.
    while pair.forwarder.kept.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let request = Zeroizing::new(pair.forwarder.kept.lock().unwrap()[0].clone());
    let (sender, receiver) = std::sync::mpsc::channel();
    pair.pool.carry_out(request, Box::new(move |answer| sender.send(answer).unwrap()));
    pair.leader.stop();
    let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("it is answered");
    let answer = directory::forward::answer::ForwardedAnswer::decode(&answer).unwrap();
    // Where the hash was there first, it was carried out.
    assert!(matches!(
        answer,
        directory::forward::answer::ForwardedAnswer::NotDeciding { leader: None }
            | directory::forward::answer::ForwardedAnswer::Answered(_)
    ));
}

/// The pool of a server alone, and requests for it as its forwarder has recorded them.
struct Alone {
    pool: ForwardedPool,
    threads: Vec<JoinHandle<()>>,
    _hashes: (HashPool, Vec<JoinHandle<()>>),
    _directory: (Arc<Directory>, tempfile::TempDir),
    /// Of a stranger, and of the administrator.
    requests: [Vec<u8>; 2],
    ids: std::cell::Cell<u8>,
}

impl Alone {
    fn start(size: ForwardedPoolSize) -> Self {
        let data = tempfile::tempdir().unwrap();
        let forwarder = Arc::<ToPool>::default();
        let (directory, _) = open(data.path(), |_, options| options.forwarder = Some(forwarder));
        let queue = QueueSize { max: 10, reserved: 5, asker_max: 10 };
        let counters = Arc::<Counters>::default();
        let hashes = HashPool::start(&counters, HashPoolSize { threads: 1, queue }).unwrap();
        let (pool, threads) = ForwardedPool::start(&directory, hashes.0.queue(), size).unwrap();
        let pair = Pair::start();
        for mut client in [pair.follower.connect(), pair.follower.connect_root()] {
            client.send(&add_entry(2, "ou=x,dc=example,dc=org", &[("ou", "x")]));
            client.receive();
        }
        let requests = pair.forwarder.kept.lock().unwrap().clone().try_into().unwrap();
        let (_hashes, _directory) = (hashes, (directory, data));
        Self { pool, threads, _hashes, _directory, requests, ids: std::cell::Cell::default() }
    }

    /// A request that a thread of the pool refuses as soon as it looks at it.
    fn request(&self, is_root: bool, address: &[u8; 4]) -> Zeroizing<Vec<u8>> {
        let mut octets = self.requests[usize::from(is_root)].clone();
        self.ids.set(self.ids.get() + 1);
        octets[2..18].fill(self.ids.get());
        let local = octets.windows(5).position(|five| five == [4, 127, 0, 0, 1]).unwrap();
        octets[local + 1..][..4].copy_from_slice(address);
        // The last value would end behind the message.
        let length = octets.len() - "x".len() - 1;
        octets[length] = 0x7f;
        Zeroizing::new(octets)
    }

    /// Has a request carried out, whose answer is told by its name.
    fn ask(&self, octets: Zeroizing<Vec<u8>>, name: &'static str, tell: &Told) {
        let tell = tell.clone();
        let done = move |answer: Zeroizing<Vec<u8>>| {
            let answer = directory::forward::answer::ForwardedAnswer::decode(&answer).unwrap();
            let directory::forward::answer::ForwardedAnswer::Refused { code, .. } = answer else {
                panic!("{answer:?}")
            };
            tell.send((name, code)).unwrap();
        };
        self.pool.carry_out(octets, Box::new(done));
    }

    /// Has a thread answer this one until what is returned is dropped.
    fn occupy(&self, octets: Zeroizing<Vec<u8>>) -> std::sync::mpsc::Sender<()> {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let done = move |_| {
            begin.send(()).unwrap();
            let _ = released.recv();
        };
        self.pool.carry_out(octets, Box::new(done));
        begun.recv().unwrap();
        release
    }
}

type Told = std::sync::mpsc::Sender<(&'static str, ldap::result::ResultCode)>;

impl Drop for Alone {
    fn drop(&mut self) {
        self.pool.close();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn pool_of(threads: usize, threads_reserved: usize) -> ForwardedPoolSize {
    ForwardedPoolSize { threads, threads_reserved, ..ForwardedPoolSize::default() }
}

/// All waited in one line: whoever sent many costly ones had everybody wait for them.
#[test]
fn those_who_ask_other_servers_take_turns() {
    let alone = Alone::start(pool_of(1, 0));
    let occupied = alone.occupy(alone.request(true, &[192, 0, 2, 1]));
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..5 {
        alone.ask(alone.request(false, &[192, 0, 2, 2]), "stranger", &tell);
    }
    alone.ask(alone.request(false, &[192, 0, 2, 3]), "other stranger", &tell);
    alone.ask(alone.request(true, &[192, 0, 2, 2]), "root", &tell);
    drop(occupied);
    let order: Vec<_> = (0..7).map(|_| told.recv().unwrap().0).collect();
    assert!(order[..2].contains(&"root"), "{order:?}");
    assert!(order[..4].contains(&"other stranger"), "{order:?}");
}

#[test]
fn a_full_line_of_one_who_asks_is_that_ones_alone() {
    let queue = QueueSize { max: 4, reserved: 1, asker_max: 2 };
    let alone = Alone::start(ForwardedPoolSize { queue, ..pool_of(1, 0) });
    let occupied = alone.occupy(alone.request(true, &[192, 0, 2, 1]));
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..2 {
        alone.ask(alone.request(false, &[192, 0, 2, 2]), "stranger", &tell);
    }
    assert!(told.try_recv().is_err());
    let busy = ldap::result::ResultCode::Busy;
    alone.ask(alone.request(false, &[192, 0, 2, 2]), "third of one", &tell);
    assert_eq!(told.try_recv(), Ok(("third of one", busy)));
    alone.ask(alone.request(false, &[192, 0, 2, 3]), "other stranger", &tell);
    assert!(told.try_recv().is_err());
    alone.ask(alone.request(false, &[192, 0, 2, 4]), "one more stranger", &tell);
    assert_eq!(told.try_recv(), Ok(("one more stranger", busy)));
    alone.ask(alone.request(true, &[192, 0, 2, 2]), "root", &tell);
    assert!(told.try_recv().is_err());
    drop(occupied);
    let mut answered: Vec<_> = (0..4).map(|_| told.recv().unwrap()).collect();
    assert!(answered.iter().all(|(_, code)| *code == ldap::result::ResultCode::ProtocolError));
    answered.sort_by_key(|(name, _)| *name);
    let names: Vec<_> = answered.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["other stranger", "root", "stranger", "stranger"]);
}

#[test]
fn octets_of_strangers_do_not_take_the_room_of_others() {
    let octets = 4 * 200;
    let alone = Alone::start(ForwardedPoolSize { bytes_max: octets, ..pool_of(1, 0) });
    let length = alone.requests[0].len();
    assert!(length < octets / 4 && 2 * length > octets / 4, "{length}");
    let occupied = alone.occupy(alone.request(true, &[192, 0, 2, 1]));
    let (tell, told) = std::sync::mpsc::channel();
    alone.ask(alone.request(false, &[192, 0, 2, 2]), "stranger", &tell);
    assert!(told.try_recv().is_err());
    alone.ask(alone.request(false, &[192, 0, 2, 3]), "other stranger", &tell);
    let busy = ldap::result::ResultCode::Busy;
    assert_eq!(told.try_recv(), Ok(("other stranger", busy)));
    alone.ask(alone.request(true, &[192, 0, 2, 2]), "root", &tell);
    assert!(told.try_recv().is_err());
    drop(occupied);
    let names = [told.recv().unwrap().0, told.recv().unwrap().0];
    assert!(names.contains(&"root") && names.contains(&"stranger"), "{names:?}");
    // They are not counted any more when they are answered.
    drop(alone.occupy(alone.request(true, &[192, 0, 2, 1])));
    alone.ask(alone.request(false, &[192, 0, 2, 3]), "other stranger", &tell);
    assert_eq!(told.recv().unwrap().1, ldap::result::ResultCode::ProtocolError);
}

/// However many strangers there are, and whatever theirs take.
#[test]
fn strangers_never_have_all_threads_that_serve_other_servers() {
    let alone = Alone::start(pool_of(3, 1));
    let first = alone.occupy(alone.request(false, &[192, 0, 2, 1]));
    let second = alone.occupy(alone.request(false, &[192, 0, 2, 2]));
    let (tell, told) = std::sync::mpsc::channel();
    alone.ask(alone.request(false, &[192, 0, 2, 3]), "stranger", &tell);
    for _ in 0..3 {
        alone.ask(alone.request(true, &[192, 0, 2, 3]), "root", &tell);
        assert_eq!(told.recv().unwrap().0, "root");
    }
    drop((first, second));
    assert_eq!(told.recv().unwrap().0, "stranger");
}

/// The value of a password modify request with an old password that is wrong (RFC 3062).
fn guess(id: i32, user: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (tag, text) in [(0x80, user), (0x81, "wrong"), (0x82, "a better secret")] {
        fields.extend([tag, u8::try_from(text.len()).unwrap()]);
        fields.extend(text.as_bytes());
    }
    let value = [&[0x30, u8::try_from(fields.len()).unwrap()][..], &fields].concat();
    let value = Some(&value[..]);
    request(id, Request::Extended(ExtendedRequest { oid: "1.3.6.1.4.1.4203.1.11.1", value }))
}

/// Guesses that were handed on counted when they were answered: as many as were sent at once were
/// looked at.
#[test]
fn of_guesses_that_are_handed_on_no_more_are_under_way_than_may_fail() {
    let pair = Pair::limited(1, |settings| {
        settings.server.workers = 1;
        settings.limits.bind_failures_max = 3;
        settings.limits.bind_delay_max = Duration::from_secs(60);
    });
    let anna = "uid=anna,dc=example,dc=org";
    let mut root = pair.leader.connect_root();
    let pairs = [
        ("objectClass", "inetOrgPerson"),
        ("cn", "Anna"),
        ("sn", "Berg"),
        ("userPassword", "a good secret"),
    ];
    root.send(&add_entry(2, anna, &pairs));
    assert_eq!(root.receive(), "2 add success");
    let mut client = pair.follower.connect_root();
    let begun = tokio::time::Instant::now();
    for id in 2..40 {
        client.send(&guess(id, anna));
    }
    let sent = || pair.forwarder.kept.lock().unwrap().len();
    while sent() < 7 {
        std::thread::yield_now();
    }
    // Three, and one more, at once; then each after a wait, which doubles each time.
    let looked_at = sent();
    let waits = begun.elapsed().as_millis() / 100 + 1;
    let most = 4 + usize::try_from(waits.ilog2()).unwrap();
    assert!(looked_at <= most, "{looked_at} in {waits} tenths of a second");
    let answer = client.receive();
    assert!(answer.starts_with("2 extended invalidCredentials"), "{answer}");
}

/// While nobody decides they took all places of their address: its binds waited as long as they.
#[test]
fn guesses_that_nobody_answers_are_not_in_the_way_of_binds() {
    let pair = Pair::limited(1, |settings| {
        settings.server.workers = 1;
        settings.limits.bind_failures_max = 8;
        settings.limits.bind_delay_max = Duration::from_secs(60);
    });
    pair.forwarder.is_silent.store(true, Ordering::SeqCst);
    let anna = "uid=anna,dc=example,dc=org";
    let mut clients: Vec<_> = (0..5).map(|_| pair.follower.connect_root()).collect();
    let (last, waiting) = clients.split_last_mut().unwrap();
    for client in waiting {
        client.send(&guess(2, anna));
    }
    while pair.forwarder.kept.lock().unwrap().len() < 4 {
        std::thread::yield_now();
    }
    last.send(&guess(2, anna));
    assert_eq!(last.receive(), "2 extended busy");
    // Right ones and wrong ones of the same address, one after the other.
    for _ in 0..6 {
        drop(pair.follower.connect_root());
    }
    let mut client = pair.follower.connect();
    for id in 1..4 {
        client.send(&bind(id, ROOT, "wrong"));
        assert_eq!(client.receive(), format!("{id} bind invalidCredentials"));
    }
    assert_eq!(pair.forwarder.kept.lock().unwrap().len(), 4);
}

/// Settings may have clients ask the leader themselves: the URL names the entry that it was about.
#[test]
fn clients_are_told_whom_to_ask_where_the_settings_say_so() {
    let forwarder = Arc::<ToPool>::default();
    let given = Arc::clone(&forwarder);
    let follower = Running::with_both(|_, options| {
        options.forwarder = Some(given);
        options.log = Some(MakeLog::new(|_| Ok(Arc::<Follows>::default())));
        options.refers_writes = true;
    });
    let mut client = follower.connect_root();
    let name = "ou=new unit,dc=example,dc=org";
    client.send(&add_entry(2, name, &[("objectClass", "organizationalUnit")]));
    let answer = client.receive_message().unwrap();
    let answer = Message::<Response<'_>>::decode(&answer, &DecodeLimits::default()).unwrap();
    let Response::Add(result) = answer.op else { panic!("{answer:?}") };
    assert_eq!(result.code, ldap::result::ResultCode::Referral);
    let urls: Vec<_> = result.referrals.iter().collect();
    assert_eq!(urls, ["ldap://leader.example:1389/ou=new%20unit,dc=example,dc=org"]);
    client.send(&request(3, Request::Delete(ldap::message::DeleteRequest { name })));
    assert_eq!(client.receive(), "3 delete referral");
    assert!(forwarder.kept.lock().unwrap().is_empty());
    follower.check_alive();
}
