//! Sessions are listed, and closed by those who may.

use std::collections::BTreeMap;

use ldap::message::{
    Control, ControlsBuf, DeleteRequest, Modification, ModificationsBuf, ModifyOperation,
    ModifyRequest,
};
use tokio::time::Instant;

use super::*;

const ANNA: &str = "ou=anna,dc=example,dc=org";
const BERT: &str = "ou=bert,dc=example,dc=org";
const SESSIONS: &str = "cn=Sessions,cn=monitor";

/// What a session shows: attributes, each with its value.
type Shown = BTreeMap<String, String>;

fn modify(id: i32, name: &str, description: &str, value: &str) -> Vec<u8> {
    let mut values = ValuesBuf::new();
    values.push(value.as_bytes());
    let attribute = PartialAttribute { description, values: values.as_ref() };
    let mut changes = ModificationsBuf::new();
    changes.push(Modification { operation: ModifyOperation::Add, attribute });
    request(id, Request::Modify(ModifyRequest { name, changes: changes.as_ref() }))
}

fn delete(id: i32, name: &str) -> Vec<u8> {
    request(id, Request::Delete(DeleteRequest { name }))
}

fn close(id: i32, number: u64) -> Vec<u8> {
    delete(id, &format!("cn={number},{SESSIONS}"))
}

impl Client {
    /// One request, and its answer.
    fn ask(&mut self, octets: &[u8]) -> String {
        self.send(octets);
        self.receive()
    }

    /// The address of this end.
    fn address(&self) -> String {
        self.socket.as_ref().unwrap().local_addr().unwrap().to_string()
    }

    /// The sessions there are, by their names.
    fn sessions(&mut self) -> BTreeMap<String, Shown> {
        self.send(&search(500, SESSIONS, Scope::One));
        let mut all = BTreeMap::new();
        loop {
            let message = self.receive_message().unwrap();
            let decoded = Message::<Response<'_>>::decode(&message, &DecodeLimits::default());
            match decoded.unwrap().op {
                Response::SearchEntry { dn, attributes } => {
                    let attributes = attributes.iter().map(|attribute| {
                        let value = attribute.values.iter().next().unwrap_or_default();
                        let value = String::from_utf8(value.to_vec()).unwrap();
                        (attribute.description.to_owned(), value)
                    });
                    all.insert(dn.to_owned(), attributes.collect());
                }
                Response::SearchDone(result) => {
                    assert_eq!(result.code.name(), "success");
                    return all;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The number of the session of another client, as this one sees it.
    fn number_of(&mut self, other: &Self) -> u64 {
        self.number_at(&other.address())
    }

    fn number_at(&mut self, address: &str) -> u64 {
        let all = self.sessions();
        let shown = all.values().find(|shown| shown["roster-session-address"] == address);
        shown.unwrap_or_else(|| panic!("{all:#?}"))["cn"].parse().unwrap()
    }
}

/// A server with Anna and Bert, who have passwords; Anna may read and close sessions.
fn served(change: impl FnOnce(&mut Settings)) -> (Running, Client) {
    let running = Running::with(change);
    let mut root = running.connect_root();
    for (id, name) in [(2, ANNA), (3, BERT)] {
        let entry = [
            ("objectClass", "organizationalUnit"),
            ("objectClass", "simpleSecurityObject"),
            ("userPassword", "secret"),
        ];
        assert_eq!(root.ask(&add_entry(id, name, &entry)), format!("{id} add success"));
    }
    for (id, name) in [(4, "config-read"), (5, "disconnect-client")] {
        let request = modify(id, ANNA, "ds-privilege-name", name);
        assert_eq!(root.ask(&request), format!("{id} modify success"));
    }
    let aci = "(target=\"ldap:///cn=monitor\")(targetattr=\"* || +\")(version 3.0; acl \
               \"figures\"; allow (read,search) userdn=\"ldap:///all\";)";
    let config = "cn=Access Control Handler,cn=config";
    assert_eq!(root.ask(&modify(6, config, "ds-cfg-global-aci", aci)), "6 modify success");
    (running, root)
}

fn signed_in(running: &Running, name: &str) -> Client {
    let mut client = running.connect();
    assert_eq!(client.ask(&bind(1, name, "secret")), "1 bind success");
    client
}

const CLOSED: &str = "0 notice adminLimitExceeded closed by an administrator";

#[test]
fn sessions_are_listed_with_who_where_and_what() {
    let (running, mut root) = served(|_| {});
    let bert = signed_in(&running, BERT);
    let mut secure = tls::connect_ldaps(&running, "localhost", tls::BOTH);
    secure.send(&root_dse(1));
    secure.receive();
    secure.receive();
    let all = root.sessions();
    assert_eq!(all.len(), 3, "{all:#?}");
    let of = |key: &str, value: &str| {
        let mut found = all.values().filter(|one| one.get(key).is_some_and(|it| it == value));
        found.next().unwrap_or_else(|| panic!("{key} {value}: {all:#?}")).clone()
    };
    let shown = of("roster-session-bind-dn", BERT);
    assert_eq!(shown["roster-session-address"], bert.address());
    let want = [
        ("listener", "ldap"),
        ("mechanism", "simple"),
        ("operations", "1"),
        ("outstanding", "0"),
        ("waiting-bytes", "0"),
    ];
    for (name, value) in want {
        assert_eq!(shown[&format!("roster-session-{name}")], value, "{name}");
    }
    assert!(shown["roster-session-since"].starts_with("20"), "{shown:?}");
    assert!(shown["roster-session-last-activity"].starts_with("20"), "{shown:?}");
    assert!(!shown.contains_key("roster-session-tls"), "{shown:?}");
    let shown = of("roster-session-listener", "ldaps");
    assert_eq!(shown["roster-session-tls"], "TLSv1.3");
    assert!(!shown.contains_key("roster-session-bind-dn"), "{shown:?}");
    // Whoever asks is one of them.
    assert_eq!(of("roster-session-bind-dn", ROOT)["roster-session-address"], root.address());
    // One alone; and by what it shows.
    let name = format!("cn={},{SESSIONS}", shown["cn"]);
    root.send(&search(2, &name, Scope::Base));
    assert_eq!(root.receive(), format!("2 entry {name}"));
    assert_eq!(root.receive(), "2 done success");
    let filter = format!("(roster-session-bind-dn={})", BERT.to_uppercase());
    root.send(&search_by(3, SESSIONS, Scope::Subtree, &filter));
    assert!(root.receive().starts_with("3 entry cn="));
    assert_eq!(root.receive(), "3 done success");
    // Who is gone is not there.
    drop(bert);
    let begun = Instant::now();
    while root.sessions().len() != 2 {
        assert!(begun.elapsed() < TIMEOUT, "a session outlives its connection");
    }
}

#[test]
fn who_may_not_neither_sees_sessions_nor_closes_one() {
    let (running, mut root) = served(|_| {});
    let mut anna = signed_in(&running, ANNA);
    for mut client in [running.connect(), signed_in(&running, BERT)] {
        assert_eq!(client.ask(&search(2, SESSIONS, Scope::One)), "2 done noSuchObject");
        let number = root.number_of(&anna);
        for number in [number, 999_999] {
            let answer = client.ask(&close(3, number));
            assert_eq!(answer, "3 delete insufficientAccessRights");
        }
    }
    assert_eq!(anna.ask(&extended(7, WHO_AM_I)), format!("7 extended success dn:{ANNA}"));
    // Not even for a moment longer than the entry has the privilege.
    let mut values = ValuesBuf::new();
    values.push(b"disconnect-client");
    let attribute = PartialAttribute { description: "ds-privilege-name", values: values.as_ref() };
    let mut changes = ModificationsBuf::new();
    changes.push(Modification { operation: ModifyOperation::Delete, attribute });
    let number = anna.number_of(&root);
    let take = ModifyRequest { name: ANNA, changes: changes.as_ref() };
    assert_eq!(root.ask(&request(8, Request::Modify(take))), "8 modify success");
    assert_eq!(anna.ask(&close(8, number)), "8 delete insufficientAccessRights");
    assert_eq!(root.ask(&extended(9, WHO_AM_I)), format!("9 extended success dn:{ROOT}"));
}

#[test]
fn a_session_is_closed_with_a_notice_and_the_log_says_by_whom() {
    let (mut running, root) = served(|_| {});
    let mut bert = signed_in(&running, BERT);
    let mut anna = signed_in(&running, ANNA);
    let number = anna.number_of(&bert);
    assert_eq!(anna.ask(&close(2, number)), "2 delete success");
    assert_eq!(bert.receive_all(), [CLOSED]);
    let begun = Instant::now();
    while anna.ask(&close(3, number)) != "3 delete noSuchObject" {
        assert!(begun.elapsed() < TIMEOUT, "the session does not end");
    }
    // One that comes now has another number.
    let mut again = signed_in(&running, BERT);
    assert_ne!(anna.number_of(&again), number);
    for _ in 0..10 {
        assert_eq!(anna.ask(&close(4, number)), "4 delete noSuchObject");
    }
    assert_eq!(again.ask(&extended(5, WHO_AM_I)), format!("5 extended success dn:{BERT}"));
    // One's own: the answer comes first.
    let address = anna.address();
    let own = anna.number_at(&address);
    anna.send(&close(6, own));
    assert_eq!(anna.receive_all(), ["6 delete success", CLOSED]);
    drop((root, again));
    running.stop();
    let log = running.data.path().join("data/logs/access.log");
    let log = std::fs::read_to_string(log).unwrap();
    let want = format!("closed by {ANNA}, connection {own}");
    let line = log.lines().find(|line| line.contains(&want)).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("disconnect"), "{line}");
    assert!(log.contains(&format!("cn={number},{SESSIONS}")), "{log}");
}

#[test]
fn names_that_are_of_no_session_close_nothing() {
    let (running, mut root) = served(|_| {});
    let mut bert = signed_in(&running, BERT);
    let number = root.number_of(&bert);
    for name in [
        format!("cn=0{number},{SESSIONS}"),
        format!("cn=\\+{number},{SESSIONS}"),
        format!("cn={number}+ou=x,{SESSIONS}"),
        format!("ou={number},{SESSIONS}"),
        format!("cn=,{SESSIONS}"),
        format!("cn=99999999999999999999999,{SESSIONS}"),
    ] {
        assert_eq!(root.ask(&delete(2, &name)), "2 delete noSuchObject", "{name}");
    }
    for name in [SESSIONS.to_owned(), format!("cn=x,cn={number},{SESSIONS}")] {
        assert_eq!(root.ask(&delete(3, &name)), "3 delete unwillingToPerform", "{name}");
    }
    // With a condition it is none of the plain deletes.
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: NO_OP, critical: true, value: None });
    let name = format!("cn={number},{SESSIONS}");
    let op = Request::Delete(DeleteRequest { name: &name });
    let mut octets = Vec::new();
    Message { id: MessageId(4), op, controls: controls.as_ref() }.encode(&mut octets);
    assert_eq!(root.ask(&octets), "4 delete unwillingToPerform");
    // As many as can come.
    let unknown = (0..10_000_u64).flat_map(|at| close(5, 1_000_000 + at)).collect::<Vec<_>>();
    let mut sender = root.socket.as_ref().unwrap().try_clone().unwrap();
    let sending = std::thread::spawn(move || sender.write_all(&unknown).unwrap());
    for _ in 0..10_000 {
        assert_eq!(root.receive(), "5 delete noSuchObject");
    }
    sending.join().unwrap();
    assert_eq!(bert.ask(&extended(6, WHO_AM_I)), format!("6 extended success dn:{BERT}"));
    // In other words it is the same name.
    let other = format!("CommonName={number} , CN=sessions,cn=MONITOR");
    assert_eq!(root.ask(&delete(7, &other)), "7 delete success");
    assert_eq!(bert.receive_all(), [CLOSED]);
}

#[test]
fn a_session_whose_client_reads_nothing_is_closed_and_gives_up_its_thread() {
    let (running, mut root) = served(|settings| {
        settings.server.scan_threads = 1;
        settings.limits.output_buffer_max_bytes = 1_000;
    });
    for id in 10..40 {
        assert_eq!(root.ask(&add(id, &format!("e{id}"), 500_000)), format!("{id} add success"));
    }
    let mut stalled = signed_in(&running, BERT);
    stalled.send(&search(2, "dc=example,dc=org", Scope::Subtree));
    let address = stalled.address();
    let begun = Instant::now();
    // As few as there are, they are listed though no thread of the pool is free.
    let number = loop {
        let all = root.sessions().into_values();
        let shown = all.into_iter().find(|one| one["roster-session-address"] == address).unwrap();
        if shown["roster-session-waiting-bytes"] != "0" {
            assert_eq!(shown["roster-session-outstanding"], "1");
            break shown["cn"].parse().unwrap();
        }
        assert!(begun.elapsed() < TIMEOUT, "the search does not stall");
    };
    assert_eq!(root.ask(&close(50, number)), "50 delete success");
    // Though nothing was read of it.
    let begun = Instant::now();
    while root.sessions().len() > 1 {
        assert!(begun.elapsed() < TIMEOUT, "the session does not end");
    }
    // The one thread is free again.
    root.send(&search(51, "dc=example,dc=org", Scope::Subtree));
    assert!((0..33).all(|_| root.receive().starts_with("51 entry")));
    assert_eq!(root.receive(), "51 done success");
}

/// draft-zeilenga-ldap-noop.
const NO_OP: &str = "1.3.6.1.4.1.4203.1.10.2";
