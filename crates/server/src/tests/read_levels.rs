//! Reads that wait for fresh data, over real sockets.

use directory::{DefaultReadLevel, MakeLog};
use ldap::control_value::read_level::{AskedLevel, OID as READ_LEVEL, ReadLevelRequest};
use ldap::message::{Control, ControlsBuf};

use super::follows::Follows;
use super::*;
use crate::listen::read_levels::ListenerLevels;

struct Follower {
    running: Running,
    directory: Arc<Directory>,
    log: Arc<Follows>,
}

impl Follower {
    fn start(change: impl FnOnce(&mut Settings, &mut DirectoryOptions)) -> Self {
        let log = Arc::<Follows>::default();
        let given = Arc::clone(&log);
        let data = tempfile::tempdir().unwrap();
        let (directory, settings) = open(data.path(), |settings, options| {
            settings.server.workers = 1;
            options.log = Some(MakeLog::new(|_| Ok(given)));
            change(settings, options);
        });
        let server = Server::start(Arc::clone(&directory), &settings).unwrap();
        Self { running: Running::of(server, data), directory, log }
    }

    fn waiting(&self) -> usize {
        self.directory.waiting_reads().unwrap().0
    }

    /// Waits until so many reads wait.
    fn wait_for(&self, waiting: usize) {
        while self.waiting() != waiting {
            std::thread::yield_now();
        }
    }

    /// Has the questions answered until nobody waits.
    fn answer_all(&self) {
        while self.waiting() > 0 {
            self.log.answer();
            std::thread::yield_now();
        }
    }
}

/// A linearizable search of the suffix.
fn fresh(id: i32) -> Vec<u8> {
    let value = ReadLevelRequest::new(AskedLevel::Linearizable).encode();
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: READ_LEVEL, critical: true, value: Some(&value) });
    let attributes = ["1.1"].into_iter().collect::<ldap::message::StringsBuf>();
    let search = SearchRequest {
        base: "dc=example,dc=org",
        scope: Scope::Base,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::Present("objectClass"),
        attributes: attributes.as_ref(),
    };
    let mut out = Vec::new();
    let message =
        Message { id: MessageId(id), op: Request::Search(search), controls: controls.as_ref() };
    message.encode(&mut out);
    out
}

#[test]
fn later_requests_pass_one_that_waits() {
    let follower = Follower::start(|_, _| {});
    let mut client = follower.running.connect();
    client.send(&[fresh(1), root_dse(2)].concat());
    assert_eq!(client.receive(), "2 entry ");
    assert_eq!(client.receive(), "2 done success");
    follower.wait_for(1);
    assert_eq!(follower.running.metric("roster_queue_length")["{queue=\"read\"}"], "1");
    follower.answer_all();
    assert_eq!(client.receive(), "1 entry dc=example,dc=org");
    assert_eq!(client.receive(), "1 done success");
    assert_eq!(follower.running.metric("roster_queue_length")["{queue=\"read\"}"], "0");
    // Abandoned, it is not answered.
    client.send(&fresh(3));
    follower.wait_for(1);
    client.send(&request(4, Request::Abandon(MessageId(3))));
    follower.wait_for(0);
    client.send(&root_dse(5));
    assert_eq!(client.receive(), "5 entry ");
    assert_eq!(client.receive(), "5 done success");
}

#[test]
fn ten_thousand_reads_that_wait_leave_nothing_when_their_connections_end() {
    const READS: usize = 10_000;
    const OF_EACH: i32 = 100;
    let follower = Follower::start(|settings, options| {
        settings.limits.outstanding_max = 200;
        settings.limits.output_buffer_max_bytes = 64 << 20;
        // Strangers have half of them.
        options.limits.waiting_reads_max = 2 * READS;
        options.limits.waiting_reads_asker_max = READS;
    });
    let all: Vec<u8> = (1..=OF_EACH).flat_map(fresh).collect();
    let clients: Vec<_> = (0..100).map(|_| follower.running.connect()).collect();
    let clients: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            client.send(&all);
            client
        })
        .collect();
    follower.wait_for(READS);
    // What one more brings is held nowhere.
    let mut other = follower.running.connect();
    other.send(&fresh(1));
    assert_eq!(other.receive(), "1 done busy");
    assert!(follower.log.asked.lock().unwrap().len() <= 1, "they share a question");
    for client in &clients {
        let socket = socket2::SockRef::from(client.socket.as_ref().unwrap());
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }
    drop(clients);
    follower.wait_for(0);
    while follower.running.counters.connections.value() > 1 {
        std::thread::yield_now();
    }
    other.send(&fresh(2));
    follower.wait_for(1);
    follower.answer_all();
    assert_eq!(other.receive(), "2 entry dc=example,dc=org");
    assert_eq!(other.receive(), "2 done success");
    follower.running.check_alive();
}

#[test]
fn all_that_come_due_at_once_are_answered_also_to_a_client_that_has_ended_its_side() {
    let follower = Follower::start(|_, _| {});
    let mut client = follower.running.connect();
    let all: Vec<u8> = (1..=10).flat_map(fresh).collect();
    client.send(&all);
    follower.wait_for(10);
    client.socket.as_ref().unwrap().shutdown(Shutdown::Write).unwrap();
    // Another one is served meanwhile.
    follower.running.check_alive();
    follower.answer_all();
    for _ in 0..10 {
        let entry = client.receive();
        let id = entry.strip_suffix(" entry dc=example,dc=org").expect(&entry).to_owned();
        assert_eq!(client.receive(), format!("{id} done success"));
    }
    assert_eq!(client.receive(), "closed");
}

#[test]
fn a_server_that_stops_refuses_what_waits() {
    let mut follower = Follower::start(|_, _| {});
    let mut client = follower.running.connect();
    client.send(&fresh(1));
    follower.wait_for(1);
    follower.running.stop();
    assert_eq!(client.receive(), "1 done unavailable");
}

#[test]
fn a_listener_has_a_level() {
    let follower = Follower::start(|settings, _| {
        let levels = ["linearizable ldap"].iter().filter_map(|text| ListenerLevels::level(text));
        settings.listen.read_levels = ListenerLevels::new(levels);
        assert_eq!(settings.listen.read_levels.of("ldap", None), DefaultReadLevel::Linearizable);
    });
    let mut client = follower.running.connect();
    client.send(&search(1, "dc=example,dc=org", Scope::Base));
    follower.wait_for(1);
    client.send(&root_dse(2));
    assert_eq!(client.receive(), "2 entry ");
    assert_eq!(client.receive(), "2 done success");
    follower.answer_all();
    assert_eq!(client.receive(), "1 entry dc=example,dc=org");
    assert_eq!(client.receive(), "1 done success");
}
