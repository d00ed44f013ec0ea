//! Policies of connections: what may be asked for, by where a connection comes from, how it is
//! protected and who is bound.

use directory::{Directory, DirectoryError, Peer, Policy, PolicyAddress, PolicyOperation, Tls};
use ldap::ber::{Tag, Writer};
use ldap::control_value::policy_state::{self, PolicyState};
use ldap::message::{OperationKind, Scope};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, ROOT_DN, ROOT_PASSWORD, SUFFIX, Served};

fn policy(name: &str) -> Policy {
    Policy { name: name.to_owned(), ..Policy::default() }
}

fn ranges(texts: &[&str]) -> Vec<PolicyAddress> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn with(policies: &[Policy]) -> Served {
    let served = Served::with(|options| {
        options.policies = policies.to_vec();
        options.authentication.confidentiality = directory::Confidentiality::Never;
    });
    add_devices(&served, 3, "x");
    served
}

/// A client with this address.
fn from(served: &Served, address: &str, secure: bool) -> Client {
    let peer = Peer {
        address: address.to_owned(),
        ip: address.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()),
        secure,
        ..Peer::default()
    };
    served.client_from(peer)
}

const CLIENT: &str = "192.0.2.7:4711";

fn search(client: &mut Client, base: &str) -> Answer {
    client.search(&Asked { base, scope: Scope::Base, ..Asked::default() })
}

#[track_caller]
fn check_refused(answer: &Answer, want: &str) {
    assert_eq!((answer.code(), &*answer.diagnostic), (ResultCode::UnwillingToPerform, want));
}

#[test]
fn operations_that_a_policy_does_not_allow_are_refused() {
    let reading = Policy {
        operations: Some(vec![
            PolicyOperation::Kind(OperationKind::Bind),
            PolicyOperation::Kind(OperationKind::Search),
        ]),
        ..policy("reading")
    };
    let served = with(&[reading]);
    let mut client = from(&served, CLIENT, false);
    assert_eq!(client.bind(ROOT_DN, ROOT_PASSWORD), ResultCode::Success);
    assert_eq!(search(&mut client, SUFFIX).code(), ResultCode::Success);
    let refused =
        |word: &str| format!("the policy 'reading' of this connection does not allow {word}");
    let name = format!("cn=new,{SUFFIX}");
    check_refused(&client.try_add(&name, &[("objectClass", &["device"])]), &refused("add"));
    assert_eq!(client.delete(SUFFIX), ResultCode::UnwillingToPerform);
    assert_eq!(client.compare(SUFFIX, "dc", "example"), ResultCode::UnwillingToPerform);
    check_refused(&client.extended("1.3.6.1.4.1.4203.1.11.3", None), &refused("extended"));
    let answer = client.extended("1.3.6.1.4.1.4203.1.11.1", None);
    check_refused(&answer, &refused("password_modify"));
    // Protecting the connection is always allowed; here there is no TLS to begin.
    let answer = client.extended("1.3.6.1.4.1.1466.20037", None);
    assert_eq!(answer.code(), ResultCode::ProtocolError);
    // On the Unix socket nothing is restricted.
    let mut local = served.root();
    assert_eq!(local.add(&name, &[("objectClass", &["device"])]), ResultCode::Success);
}

#[test]
fn names_outside_of_what_a_policy_allows_are_refused() {
    let devices = format!("cn=device 1,{SUFFIX}");
    let served = with(&[Policy { suffixes: vec![devices.clone()], ..policy("narrow") }]);
    let mut client = from(&served, CLIENT, false);
    assert_eq!(client.bind(ROOT_DN, ROOT_PASSWORD), ResultCode::Success);
    let refused = "the policy 'narrow' of this connection does not allow this name";
    assert_eq!(search(&mut client, &devices).code(), ResultCode::Success);
    assert_eq!(search(&mut client, "CN=Device  1,DC=Example,DC=ORG").code(), ResultCode::Success);
    for public in ["", "cn=schema"] {
        assert_eq!(search(&mut client, public).code(), ResultCode::Success);
    }
    for outside in [SUFFIX, &format!("cn=device 2,{SUFFIX}"), "cn=nowhere", "cn=monitor"] {
        check_refused(&search(&mut client, outside), refused);
    }
    // The tree below the root DSE is not the root DSE.
    check_refused(&client.search(&Asked { base: "", ..Asked::default() }), refused);
    assert_eq!(client.compare(SUFFIX, "dc", "example"), ResultCode::UnwillingToPerform);
    assert_eq!(client.delete(&format!("cn=device 2,{SUFFIX}")), ResultCode::UnwillingToPerform);
    let code = client.rename(&devices, "cn=device 1", false, Some(SUFFIX));
    assert_eq!(code, ResultCode::UnwillingToPerform);
    // Operations that name an entry in their value, too.
    let other = format!("cn=device 2,{SUFFIX}");
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let whole = writer.begin(Tag::SEQUENCE);
    writer.octets(Tag::context(0, false), other.as_bytes());
    writer.octets(Tag::context(2, false), b"another one of theirs");
    writer.end(whole);
    client.connection.session.set_tls(Tls::default());
    check_refused(&client.extended("1.3.6.1.4.1.4203.1.11.1", Some(&value)), refused);
    let value = PolicyState { target: other.into(), operations: Vec::new() }.encode();
    check_refused(&client.extended(policy_state::OID, Some(&value)), refused);
    // What is no name is refused as that.
    assert_eq!(search(&mut client, "x").code(), ResultCode::InvalidDnSyntax);
    assert_eq!(client.delete(&devices), ResultCode::Success);
}

#[test]
fn the_first_policy_counts_whose_conditions_hold() {
    let nothing = Some(Vec::new());
    let served = with(&[
        Policy {
            addresses: ranges(&["192.0.2.0/24"]),
            tls: Some(false),
            operations: nothing.clone(),
            ..policy("plain")
        },
        Policy {
            identities: vec![ROOT_DN.to_owned()],
            operations: Some(vec![
                PolicyOperation::Kind(OperationKind::Bind),
                PolicyOperation::Kind(OperationKind::Search),
            ]),
            ..policy("the administrator")
        },
        Policy {
            identities: vec!["anonymous".to_owned()],
            addresses: ranges(&["192.0.2.0/24"]),
            operations: Some(vec![PolicyOperation::Kind(OperationKind::Bind)]),
            ..policy("not bound")
        },
        Policy { addresses: ranges(&["local"]), ..policy("local") },
    ]);
    let refused_by = |answer: &Answer| {
        let text = answer.diagnostic.split('\'').nth(1).unwrap_or_default().to_owned();
        (answer.code() == ResultCode::UnwillingToPerform).then_some(text)
    };
    let by = |name: &str| Some(name.to_owned());
    assert_eq!(refused_by(&search(&mut from(&served, CLIENT, false), SUFFIX)), by("plain"));
    let mut secure = from(&served, CLIENT, true);
    assert_eq!(refused_by(&search(&mut secure, SUFFIX)), by("not bound"));
    // A bind changes which one it is, and so does its failure.
    assert_eq!(secure.bind(ROOT_DN, ROOT_PASSWORD), ResultCode::Success);
    assert_eq!(refused_by(&search(&mut secure, SUFFIX)), None);
    let name = format!("cn=new,{SUFFIX}");
    let answer = secure.try_add(&name, &[("objectClass", &["device"])]);
    assert_eq!(refused_by(&answer), by("the administrator"));
    assert_eq!(secure.bind(ROOT_DN, "wrong"), ResultCode::InvalidCredentials);
    assert_eq!(refused_by(&search(&mut secure, SUFFIX)), by("not bound"));
    // Nobody said anything about others.
    let mut elsewhere = from(&served, "[2001:db8::1]:4711", false);
    assert_eq!(refused_by(&search(&mut elsewhere, SUFFIX)), None);
}

#[test]
fn a_policy_with_a_name_that_is_none_keeps_the_directory_from_opening() {
    let (mut options, data) = Served::new().pulled();
    options.policies = vec![Policy { suffixes: vec!["x".to_owned()], ..policy("bad") }];
    let clock = std::sync::Arc::new(environment::SystemClock::new());
    let error = Directory::open(options, clock).err().unwrap();
    assert!(matches!(error, DirectoryError::Name { .. }), "{error}");
    drop(data);
}
