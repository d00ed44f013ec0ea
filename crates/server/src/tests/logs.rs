//! The access log and the audit log as an operator reads them.

use std::fs;
use std::path::PathBuf;

use environment::Clock as _;
use ldap::ber::{Tag, Writer};
use ldap::message::{
    CompareRequest, Control, ControlsBuf, DeleteRequest, Modification, ModificationsBuf,
    ModifyDnRequest, ModifyOperation, ModifyRequest, StringsBuf,
};
use serde_json::{Value, json};

use super::*;

impl Running {
    fn log(&self, name: &str) -> PathBuf {
        self.data.path().join("data").join("logs").join(name)
    }

    /// Stops the server and reads the access log.
    fn lines(&mut self) -> Vec<Value> {
        self.stop();
        let text = fs::read_to_string(self.log("access.log")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
            .collect()
    }
}

/// Those of a kind.
fn of_kind<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The line has these members, among others.
#[track_caller]
fn check(line: &Value, want: Value) {
    for (key, value) in want.as_object().unwrap() {
        assert_eq!(&line[key], value, "{key} of {line:#}");
    }
}

fn with_controls(id: i32, op: Request<'_>, controls: &[Control<'_>]) -> Vec<u8> {
    let mut list = ControlsBuf::new();
    controls.iter().for_each(|control| list.push(*control));
    let mut out = Vec::new();
    Message { id: MessageId(id), op, controls: list.as_ref() }.encode(&mut out);
    out
}

fn compare<'a>(name: &'a str, description: &'a str, value: &'a str) -> Request<'a> {
    Request::Compare(CompareRequest { name, description, value: value.as_bytes() })
}

fn modify(id: i32, name: &str, changes: &[(ModifyOperation, &str, &str)]) -> Vec<u8> {
    let mut list = ModificationsBuf::new();
    for (operation, description, value) in changes {
        let mut values = ValuesBuf::new();
        values.push(value.as_bytes());
        let attribute = PartialAttribute { description, values: values.as_ref() };
        list.push(Modification { operation: *operation, attribute });
    }
    request(id, Request::Modify(ModifyRequest { name, changes: list.as_ref() }))
}

const SUFFIX: &str = "dc=example,dc=org";

const ANNA: &str = "cn=anna,dc=example,dc=org";

/// Adds Anna, whose password is `hers`.
fn add_anna(client: &mut Client, id: i32) {
    let pairs =
        [("objectClass", "person"), ("cn", "anna"), ("sn", "Berg"), ("userPassword", "hers")];
    client.send(&add_entry(id, ANNA, &pairs));
    assert_eq!(client.receive(), format!("{id} add success"));
}

#[test]
fn every_operation_has_a_line_that_says_who_asked_for_what_and_what_came_of_it() {
    let mut running = Running::start();
    let mut client = running.connect_root();
    add_anna(&mut client, 2);
    let mut attributes = StringsBuf::new();
    attributes.push("cn");
    attributes.push("sn");
    client.send(&request(
        3,
        Request::Search(SearchRequest {
            base: SUFFIX,
            scope: Scope::Subtree,
            deref: DerefAliases::Never,
            size_limit_entries: 9,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::parse("(&(cn=anna)(sn=B*))").unwrap(),
            attributes: attributes.as_ref(),
        }),
    ));
    assert_eq!(
        [client.receive(), client.receive()],
        [format!("3 entry {ANNA}"), "3 done success".to_owned()]
    );
    client.send(&modify(4, ANNA, &[(ModifyOperation::Replace, "sn", "Tal")]));
    assert_eq!(client.receive(), "4 modify success");
    client.send(&request(5, compare(ANNA, "sn", "Tal")));
    client.send(&request(
        6,
        Request::ModifyDn(ModifyDnRequest {
            name: ANNA,
            new_rdn: "cn=anna tal",
            delete_old_rdn: true,
            new_superior: None,
        }),
    ));
    assert_eq!(client.receive(), "5 compare compareTrue");
    assert_eq!(client.receive(), "6 modifyDn success");
    client
        .send(&request(7, Request::Delete(DeleteRequest { name: "cn=nobody,dc=example,dc=org" })));
    assert_eq!(client.receive(), "7 delete noSuchObject");
    client.send(&request(8, Request::Abandon(MessageId(77))));
    client.send(&extended(9, WHO_AM_I));
    client.receive();
    let address = client.socket.as_ref().unwrap().local_addr().unwrap().to_string();
    client.send(&request(10, Request::Unbind));
    assert_eq!(client.receive(), "closed");
    let lines = running.lines();
    let kinds = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(kinds[..4], ["connect", "bind", "add", "search"]);
    assert_eq!(*kinds.last().unwrap(), "disconnect");
    assert_eq!(kinds.len(), 11, "{kinds:?}");
    let connection = lines[0]["conn"].clone();
    for line in &lines {
        check(line, json!({"conn": connection, "client": address}));
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
    for line in &lines[1..] {
        check(line, json!({"subject": ROOT, "mechanism": "simple"}));
    }
    for (number, line) in lines[1..10].iter().enumerate() {
        check(line, json!({"op": number, "msg": number + 1}));
        assert!(line["elapsed_us"].as_u64() >= line["queue_us"].as_u64(), "{line}");
    }
    check(&lines[0], json!({"listener": "ldap"}));
    check(&lines[1], json!({"dn": ROOT, "auth": "simple", "code": 0}));
    check(&lines[2], json!({"dn": ANNA, "code": 0}));
    assert!(lines[2]["elapsed_us"].as_u64().unwrap() > 0);
    check(
        &lines[3],
        json!({"base": SUFFIX, "scope": "sub", "filter": "(&(cn=anna)(sn=B*))",
            "attributes": ["cn", "sn"], "size_limit": 9, "code": 0, "entries": 1,
            "candidates": 1, "unindexed": null}),
    );
    assert!(lines[3]["octets"].as_u64().unwrap() > 50, "{}", lines[3]);
    check(of_kind(&lines, "modify")[0], json!({"dn": ANNA, "changes": ["replace sn"], "code": 0}));
    let compared = json!({"dn": ANNA, "attribute": "sn", "value": "Tal"});
    check(of_kind(&lines, "compare")[0], compared);
    let renamed = json!({"dn": ANNA, "new_rdn": "cn=anna tal", "delete_old_rdn": true, "code": 0});
    check(of_kind(&lines, "modify_dn")[0], renamed);
    check(of_kind(&lines, "delete")[0], json!({"code": 32, "result": "noSuchObject"}));
    check(of_kind(&lines, "abandon")[0], json!({"target": "77", "code": null}));
    check(of_kind(&lines, "extended")[0], json!({"oid": WHO_AM_I, "name": "who am I"}));
    check(&lines[10], json!({"reason": "unbind", "operations": 9}));
}

#[test]
fn no_password_is_ever_in_a_log() {
    let mut running = Running::with(|settings| settings.audit_log.format = "json");
    let mut client = running.connect_root();
    add_anna(&mut client, 2);
    let secrets = [
        "hers",
        "s3cret-bind",
        "s3cret-compare",
        "s3cret-search",
        "s3cret-modify",
        "s3cret-extended",
        "s3cret-plain",
        "s3cret-part",
        "s3cret-refused",
    ];
    client.send(&request(3, compare(ANNA, "userPassword", secrets[2])));
    let filter = format!("(|(userPassword={})(2.5.4.35={}*))", secrets[3], secrets[7]);
    client.send(&search_by(4, SUFFIX, Scope::Subtree, &filter));
    client.send(&modify(5, ANNA, &[(ModifyOperation::Replace, "userPassword", secrets[4])]));
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let mark = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::context(0, false), ANNA.as_bytes());
    writer.octets(Tag::context(2, false), secrets[5].as_bytes());
    writer.end(mark);
    let oid = "1.3.6.1.4.1.4203.1.11.1";
    client.send(&request(6, Request::Extended(ExtendedRequest { oid, value: Some(&value) })));
    for _ in 3..=6 {
        assert!(!client.receive().contains("entry"));
    }
    // What is refused for its filter is logged with a part of it.
    let reject = Control { oid: "1.3.6.1.4.1.30221.2.5.54", critical: true, value: None };
    let refused = Request::Search(SearchRequest {
        base: SUFFIX,
        scope: Scope::Subtree,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::parse("(userPassword=s3cret-refused)").unwrap(),
        attributes: Strings::EMPTY,
    });
    client.send(&with_controls(9, refused, &[reject]));
    assert_eq!(client.receive(), "9 done unwillingToPerform");
    client.send(&bind(7, ANNA, secrets[1]));
    assert_eq!(client.receive(), "7 bind invalidCredentials");
    let credentials = format!("\0anna\0{}", secrets[6]);
    let (mechanism, credentials) = ("PLAIN", Some(credentials.as_bytes()));
    let authentication = Authentication::Sasl { mechanism, credentials };
    client.send(&request(8, Request::Bind(BindRequest { version: 3, name: "", authentication })));
    client.receive();
    let lines = running.lines();
    check(of_kind(&lines, "compare")[0], json!({"attribute": "userPassword", "value": "{hidden}"}));
    let filter = "(|(userPassword={hidden})(2.5.4.35={hidden}))";
    check(of_kind(&lines, "search")[0], json!({"filter": filter}));
    // Who failed to bind is nobody.
    let bind = of_kind(&lines, "bind")[1];
    check(bind, json!({"dn": ANNA, "subject": "", "code": 49, "result": "invalidCredentials"}));
    check(of_kind(&lines, "bind")[2], json!({"auth": "PLAIN"}));
    let audit = fs::read_to_string(running.log("audit.log")).unwrap();
    assert!(audit.contains("\"userPassword\",\"values\":[\"{hidden}\"]"), "{audit}");
    let access = fs::read_to_string(running.log("access.log")).unwrap();
    for secret in secrets {
        assert!(!access.contains(secret), "{secret} is in\n{access}");
        assert!(!audit.contains(secret), "{secret} is in\n{audit}");
    }
    assert!(!audit.contains("SSHA") && !audit.contains("ARGON"), "{audit}");
}

#[test]
fn what_a_password_policy_refuses_is_told_here_alone() {
    let mut running = Running::start();
    let mut root = running.connect_root();
    add_anna(&mut root, 2);
    root.send(&modify(3, ANNA, &[(ModifyOperation::Add, "nsAccountLock", "true")]));
    assert_eq!(root.receive(), "3 modify success");
    let mut client = running.connect();
    for (id, password) in [(1, "hers"), (2, "another")] {
        client.send(&bind(id, ANNA, password));
        assert_eq!(client.receive(), format!("{id} bind invalidCredentials"));
    }
    let lines = running.lines();
    // The administrator's may have been written by another worker: behind hers.
    let (hers, others): (Vec<_>, Vec<_>) =
        of_kind(&lines, "bind").into_iter().partition(|line| line["dn"] == ANNA);
    for line in &hers {
        check(line, json!({"dn": ANNA, "code": 49, "policy": "accountLocked"}));
    }
    assert_eq!(hers.len(), 2);
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].get("policy"), None, "{others:?}");
}

#[test]
fn a_client_cannot_forge_lines() {
    let mut running = Running::start();
    let mut client = running.connect();
    let forged = "cn=a\r\n{\"time\":\"x\",\"kind\":\"bind\",\"code\":0}\u{2028}\u{1b}[2J";
    client.send(&search_by(1, forged, Scope::Base, "(cn=\n\\0a\u{202e})"));
    client.receive();
    client.send(&extended(2, "1.2.3\n4"));
    client.receive();
    let lines = running.lines();
    check(
        of_kind(&lines, "search")[0],
        json!({"base": forged, "filter": "(cn=\\0a\\0a\\e2\\80\\ae)"}),
    );
    check(of_kind(&lines, "extended")[0], json!({"oid": "1.2.3\n4"}));
    let text = fs::read_to_string(running.log("access.log")).unwrap();
    assert!(!text.chars().any(|one| one != '\n' && (one.is_control() || one == '\u{2028}')));
    assert_eq!(text.lines().count(), lines.len());
}

#[test]
fn who_is_behind_a_request_is_told() {
    let mut running = Running::start();
    let mut client = running.connect();
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let mark = writer.begin(Tag::SEQUENCE);
    for text in ["192.0.2.7", "portal", "1.3.6.1.4.1.21008.108.63.1.3", "anna\nx"] {
        writer.octets(Tag::OCTET_STRING, text.as_bytes());
    }
    writer.end(mark);
    let tracking =
        Control { oid: "1.3.6.1.4.1.21008.108.63.1", critical: true, value: Some(&value) };
    let proxied =
        Control { oid: "2.16.840.1.113730.3.4.18", critical: true, value: Some(b"dn:cn=other") };
    client.send(&with_controls(1, compare(SUFFIX, "dc", "example"), &[tracking, proxied]));
    // What was asked for is logged, though nobody anonymous acts as another.
    assert_eq!(client.receive(), "1 compare authorizationDenied");
    let root = Request::Search(SearchRequest {
        base: "",
        scope: Scope::Base,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::Present("objectClass"),
        attributes: Strings::EMPTY,
    });
    client.send(&with_controls(2, root, &[proxied, tracking]));
    client.receive();
    let lines = running.lines();
    for kind in ["compare", "search"] {
        check(
            of_kind(&lines, kind)[0],
            json!({"session_ip": "192.0.2.7", "session_name": "portal", "session_id": "anna\nx",
                "proxied": "dn:cn=other"}),
        );
    }
    let controls = json!({"controls": ["2.16.840.1.113730.3.4.18", "1.3.6.1.4.1.21008.108.63.1"]});
    check(of_kind(&lines, "search")[0], controls);
}

#[test]
fn a_large_search_has_one_line_with_all_its_entries() {
    let mut running = Running::start();
    let entries = fill(&running, 300, 1_000);
    let mut client = running.connect_root();
    client.send(&search_by(2, SUFFIX, Scope::Subtree, "(description=*)"));
    while client.receive() != "2 done success" {}
    client.send(&search_by(3, SUFFIX, Scope::Subtree, "(!(ou=e1))"));
    while client.receive() != "3 done success" {}
    let lines = running.lines();
    let searches = of_kind(&lines, "search");
    assert_eq!(searches.len(), 2);
    check(searches[0], json!({"entries": entries - 1, "code": 0, "msg": 2}));
    assert!(searches[0]["octets"].as_u64().unwrap() > 300_000);
    check(searches[1], json!({"unindexed": true, "candidates": entries, "entries": entries - 1}));
}

#[test]
fn tls_and_the_reason_of_an_end_are_told() {
    let mut running = Running::with(|settings| {
        settings.limits.idle_timeout = Duration::from_secs(2);
    });
    let mut silent = running.connect();
    silent.receive_all();
    let mut client = tls::connect_ldaps(&running, "localhost", tls::BOTH);
    client.send(&root_dse(1));
    client.receive();
    client.receive();
    client.send(&request(2, Request::Unbind));
    client.receive_all();
    let mut broken = running.connect();
    broken.send(b"\x31\x00");
    broken.receive_all();
    let lines = running.lines();
    let mut reasons = of_kind(&lines, "disconnect");
    // A client knows of the end before its line is written.
    reasons.sort_by_key(|line| line["conn"].as_u64());
    check(reasons[0], json!({"reason": "the connection was idle for too long"}));
    check(reasons[1], json!({"reason": "unbind"}));
    check(of_kind(&lines, "tls")[0], json!({"tls": "TLSv1.3"}));
    check(of_kind(&lines, "search")[0], json!({"tls": "TLSv1.3"}));
    assert!(reasons[2]["reason"].as_str().unwrap().contains("unexpected tag"), "{}", reasons[2]);
}

#[test]
fn the_text_form_is_like_that_of_opendj() {
    let mut running = Running::with(|settings| settings.access_log.format = "text");
    let mut client = running.connect_root();
    client.send(&search_by(2, SUFFIX, Scope::Base, "(dc=example)"));
    client.receive();
    client.receive();
    running.stop();
    let text = fs::read_to_string(running.log("access.log")).unwrap();
    let lines = text.lines().collect::<Vec<_>>();
    assert!(
        lines[0].contains("] CONNECT conn=") && lines[0].ends_with("protocol=\"ldap\""),
        "{text}"
    );
    assert!(lines[1].contains("] BIND conn=") && lines[1].contains("result=0"), "{text}");
    let search =
        "base=\"dc=example,dc=org\" scope=\"base\" filter=\"(dc=example)\" result=0 nentries=1";
    assert!(lines[2].contains("] SEARCH conn=") && lines[2].contains(search), "{text}");
    assert!(lines[2].contains(" op=1 msgID=2 from=\"127.0.0.1:"), "{text}");
    assert!(lines[3].contains("] DISCONNECT conn="), "{text}");
}

#[test]
fn how_the_logs_are_is_in_the_monitor() {
    let running = Running::with(|settings| settings.audit_log.format = "ldif");
    let mut client = running.connect_root();
    add_anna(&mut client, 2);
    client.send(&search(3, "cn=logs,cn=monitor", Scope::Subtree));
    let entries = (0..4).map(|_| client.receive()).collect::<Vec<_>>();
    let want = [
        "3 entry cn=logs,cn=monitor",
        "3 entry cn=access,cn=logs,cn=monitor",
        "3 entry cn=audit,cn=logs,cn=monitor",
        "3 done success",
    ];
    assert_eq!(entries, want);
}

#[test]
fn the_audit_log_has_who_changed_what_from_where() {
    let mut running = Running::with(|settings| settings.audit_log.format = "ldif");
    let mut client = running.connect_root();
    add_anna(&mut client, 2);
    client.send(&modify(3, ANNA, &[(ModifyOperation::Replace, "sn", "Tal")]));
    client.receive();
    let rename = ModifyDnRequest {
        name: ANNA,
        new_rdn: "cn=anna tal",
        delete_old_rdn: true,
        new_superior: None,
    };
    client.send(&request(4, Request::ModifyDn(rename)));
    client.receive();
    let name = "cn=anna tal,dc=example,dc=org";
    client.send(&request(5, Request::Delete(DeleteRequest { name })));
    assert_eq!(client.receive(), "5 delete success");
    let address = client.socket.as_ref().unwrap().local_addr().unwrap();
    running.stop();
    let text = fs::read_to_string(running.log("audit.log")).unwrap();
    for want in [
        &format!("# who=\"{ROOT}\" from=\"{address}\" mechanism=\"simple\"\n"),
        "operation=add",
        &format!("dn: {ANNA}\nchangetype: add\n"),
        "\nuserPassword: {hidden}\n",
        "msg=3\n",
        "changetype: modify\ndelete: sn\nsn: Berg\n-\nadd: sn\nsn: Tal\n-\n",
        "changetype: modrdn\nnewrdn: cn=anna tal\ndeleteoldrdn: 1\n",
        "# sn: Tal\n",
        &format!("dn: {name}\nchangetype: delete\n"),
    ] {
        assert!(text.contains(want), "{want}\nis not in\n{text}");
    }
}

#[test]
fn connections_that_are_refused_have_a_line_with_the_reason() {
    let mut running = Running::with(|settings| {
        settings.limits.connections_per_address_max = 1;
        settings.listen.proxies = vec!["127.0.0.2".parse().unwrap()];
        settings.access_log.refused_per_second_max = 1_000;
    });
    let mut first = running.connect();
    first.send(&root_dse(1));
    first.receive();
    // More than the address may have.
    let mut second = running.connect();
    assert_eq!(second.receive(), "0 notice busy too many connections of your address");
    let address = second.socket.as_ref().unwrap().local_addr().unwrap().to_string();
    first.send(&request(2, Request::Unbind));
    assert_eq!(first.receive_all().last().unwrap(), "1 done success");
    while running.counters.connections.value() > 0 {
        std::thread::yield_now();
    }
    // No TLS where TLS is due.
    let mut plain = Client::plain(TcpStream::connect(running.addresses.ldaps[0]).unwrap());
    plain.send(&root_dse(1));
    while plain.transport.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
    // A proxy that does not say for whom it speaks.
    let from = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    from.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    from.connect(&running.ldap().into()).unwrap();
    let mut proxied = Client::plain(from.into());
    proxied.send(&root_dse(1));
    assert_eq!(proxied.receive(), "closed");
    let lines = running.lines();
    let refused = of_kind(&lines, "refused");
    assert_eq!(refused.len(), 3, "{refused:?}");
    let of = |start: &str| {
        let has = |line: &&&Value| line["reason"].as_str().unwrap().starts_with(start);
        *refused.iter().find(has).unwrap_or_else(|| panic!("{start}: {refused:?}"))
    };
    let many = of("too many connections of the address");
    check(many, json!({"client": address, "listener": "ldap"}));
    check(of("TLS handshake failed: "), json!({"listener": "ldaps"}));
    let header = of("the connection does not begin with a header of the PROXY protocol");
    assert!(header["client"].as_str().unwrap().starts_with("127.0.0.2:"), "{header}");
    // They were no connections: nothing else has them.
    assert_eq!(of_kind(&lines, "connect").len(), 1);
    assert_eq!(of_kind(&lines, "disconnect").len(), 1);
}

#[test]
fn a_flood_of_refused_connections_is_counted_and_has_few_lines() {
    let mut running = Running::with(|settings| {
        settings.limits.connections_max = 1;
        settings.access_log.refused_per_second_max = 2;
    });
    // An anonymous client would give up the slot.
    let _first = running.connect_root();
    let clock = SystemClock::new();
    for _ in 0..200 {
        let refused = running.connect().receive();
        assert_eq!(refused, "0 notice busy too many connections");
    }
    // Those that were begun.
    let seconds = clock.elapsed().as_secs() + 2;
    let lines = running.lines();
    let (counted, received): (Vec<_>, Vec<_>) =
        of_kind(&lines, "refused").into_iter().partition(|line| line.get("count").is_some());
    let left_out = counted.iter().map(|line| line["count"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(received.len() as u64 + left_out, 200, "{lines:?}");
    let (received, counted) = (received.len() as u64, counted.len() as u64);
    assert!(
        received <= 2 * seconds && counted <= seconds + 1,
        "{received} and {counted} in {seconds} s"
    );
    assert!(received < 200, "it took so long that none was left out");
}
