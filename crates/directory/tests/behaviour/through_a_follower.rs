//! What is asked of a node that does not decide has the effect that it has where it is decided:
//! controls, requests that are given up, the configuration, the schema, and what the server does by
//! itself.

use auth::password::Scheme;
use history::log::Durability;
use history::record::{OpKind, Record};
use ldap::message::{
    Control, Controls, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;
use schema::Schema;

use crate::support::cluster::Cluster;
use crate::support::{Asked, Client, SUFFIX, Served, modifications};
use crate::writes::{code, exists, submit_unit};

const OK: ResultCode = ResultCode::Success;
const UNIT: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"])];
const LAZY_COMMIT: &str = "1.2.840.113556.1.4.619";

fn ou(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

fn read(client: &mut Client, base: &str, attribute: &str) -> Vec<String> {
    let attributes = &[attribute];
    let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
    client.search(&asked).entries.iter().flat_map(|entry| entry.texts(attribute)).collect()
}

#[test]
fn a_lazy_write_is_lazy_where_it_is_decided() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    assert_eq!(client.add(&ou("a"), UNIT), OK);
    assert_eq!(cluster.log.last_durability(), Some(Durability::Synced));
    let mut lazy = ControlsBuf::new();
    lazy.push(Control { oid: LAZY_COMMIT, critical: true, value: None });
    let changes = modifications(&[(ModifyOperation::Replace, "description", &["x"])]);
    let (name, changes) = (&*ou("a"), changes.as_ref());
    let modify = Request::Modify(ModifyRequest { name, changes });
    assert_eq!(client.request(modify, lazy.as_ref()).code(), OK);
    assert_eq!(cluster.log.last_durability(), Some(Durability::Written));
    assert_eq!(read(&mut client, &ou("a"), "description"), ["x"]);
}

#[test]
fn an_update_that_is_abandoned_before_it_is_sent_does_not_happen() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    cluster.lead(None);
    let first = submit_unit(&mut client, &ou("a"));
    let second = submit_unit(&mut client, &ou("b"));
    let third = submit_unit(&mut client, &ou("c"));
    // The first one is on its way, as far as anybody knows; the second one waits behind it.
    for number in [2, 3] {
        let abandon = Request::Abandon(ldap::message::MessageId(number));
        let message = client.encode(abandon, Controls::EMPTY);
        let connection = &mut client.connection;
        let _ = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    }
    cluster.lead(Some(0));
    assert_eq!(code(&first), OK, "it had been sent");
    assert!(second.recv().unwrap().is_empty(), "nobody is answered");
    assert_eq!(code(&third), OK);
    assert!(exists(cluster.leader(), &ou("a")) && !exists(cluster.leader(), &ou("b")));
    assert_eq!(cluster.log.len(), 2);
}

#[test]
fn the_configuration_is_changed_through_any_node() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    let index: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "ds-cfg-backend-index"]),
        ("ds-cfg-attribute", &["description"]),
        ("ds-cfg-index-type", &["substring"]),
    ];
    let name = "ds-cfg-attribute=description,cn=Index,cn=config";
    assert_eq!(client.add(name, index), OK);
    for served in &cluster.nodes {
        assert_eq!(read(&mut served.root(), name, "ds-cfg-index-type"), ["substring"]);
    }
    let equality = [(ModifyOperation::Add, "ds-cfg-index-type", &["equality"][..])];
    assert_eq!(client.modify(name, &equality), OK);
    assert_eq!(read(&mut cluster.leader().root(), name, "ds-cfg-index-type").len(), 2);
    assert_eq!(client.delete(name), OK);
    assert!(read(&mut cluster.leader().root(), name, "ds-cfg-index-type").is_empty());
    // Rules of the whole directory, which are in force on both.
    assert_eq!(client.add(&ou("a"), UNIT), OK);
    let handler = "cn=Access Control Handler,cn=config";
    let deny = "(targetattr=\"ou\")(version 3.0; acl \"hidden\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    let add = [(ModifyOperation::Add, "ds-cfg-global-aci", &[deny][..])];
    let seen = |served: &Served| read(&mut served.client(), &ou("a"), "ou").len();
    assert!(cluster.nodes.iter().all(|served| seen(served) == 1));
    assert_eq!(client.modify(handler, &add), OK);
    assert!(cluster.nodes.iter().all(|served| seen(served) == 0));
    assert!(cluster.wire.count() >= 5, "all of them were handed on");
    // Who may not is told what they are told there.
    let mut nobody = cluster.follower().client();
    assert_eq!(nobody.modify(handler, &add), ResultCode::InsufficientAccessRights);
}

#[test]
fn the_schema_is_changed_through_any_node_and_holds_for_the_next_request() {
    let cluster = Cluster::new();
    let mut client = cluster.follower().root();
    let unit: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalUnit", "hatted"]), ("hat", &["Panama"])];
    assert_eq!(client.add(&ou("a"), unit), ResultCode::UndefinedAttributeType);
    let hat = "( 1.3.6.1.4.1.55555.1 NAME 'hat' EQUALITY caseIgnoreMatch \
               SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
    let hatted = "( 1.3.6.1.4.1.55555.2 NAME 'hatted' SUP top AUXILIARY MAY hat )";
    let both: &[(ModifyOperation, &str, &[&str])] = &[
        (ModifyOperation::Add, "attributeTypes", &[hat]),
        (ModifyOperation::Add, "objectClasses", &[hatted]),
    ];
    assert_eq!(client.modify("cn=schema", both), OK);
    assert_eq!(client.add(&ou("a"), unit), OK);
    for served in &cluster.nodes {
        let hat = Asked { filter: "(hat=PANAMA)", ..Asked::default() };
        assert_eq!(served.root().search(&hat).names(), [ou("a")]);
    }
}

#[test]
fn a_password_that_a_follower_finds_stored_otherwise_is_stored_anew() {
    let anna = format!("uid=anna,{SUFFIX}");
    // The directory that all are copies of stores it as a digest.
    let fill = |served: &Served| {
        let person: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["anna"]),
            ("sn", &["anna"]),
            ("userPassword", &["secret"]),
        ];
        assert_eq!(served.root().add(&anna, person), OK);
    };
    let cluster = Cluster::filled(2, fill, |options| {
        options.passwords.storage = Scheme::Pbkdf2Sha256.into();
    });
    let stored = |served: &Served| read(&mut served.root(), &anna, "userPassword").remove(0);
    let before = stored(cluster.leader());
    assert_eq!(cluster.follower().client().bind(&anna, "secret"), OK);
    while stored(cluster.follower()) == before {
        std::thread::yield_now();
    }
    assert_eq!(stored(cluster.follower()), stored(cluster.leader()));
    let records = cluster.log.records();
    let record = Record::decode(&records.last().unwrap().bytes, &Schema::builtin()).unwrap();
    assert_eq!((records.len(), record.origin.op), (1, OpKind::Internal));
    for served in &cluster.nodes {
        assert_eq!(served.client().bind(&anna, "secret"), OK);
    }
}
