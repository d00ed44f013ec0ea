//! Rules that were decided by a node that lost the lead: they are in force where their record is
//! visible, and nowhere else, however late the node hears of what.

use std::time::Duration;

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

use crate::support::cluster::{Cluster, Late, Loses};
use crate::support::{Asked, SUFFIX, Served, modifications};
use crate::writes::{code, submit};

const OK: ResultCode = ResultCode::Success;
const NO: ResultCode = ResultCode::InvalidCredentials;
const ANNA: &str = "uid=anna,dc=example,dc=org";
const POLICY: &str = "cn=policy,dc=example,dc=org";
const HAT: &str = "( 1.3.6.1.4.1.55555.1 NAME 'hat' EQUALITY caseIgnoreMatch \
     SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";

fn with_anna() -> Cluster {
    let fill = |served: &Served| {
        let mut root = served.root();
        let policy: &[(&str, &[&str])] = &[
            ("objectClass", &["top", "subentry", "pwdPolicy"]),
            ("subtreeSpecification", &["{}"]),
            ("pwdAttribute", &["userPassword"]),
            ("pwdMaxAge", &["1000"]),
        ];
        assert_eq!(root.add(POLICY, policy), OK);
        let anna: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["anna"]),
            ("sn", &["Berg"]),
            ("userPassword", &["right"]),
        ];
        assert_eq!(root.add(ANNA, anna), OK);
    };
    Cluster::filled(3, fill, |_| {})
}

/// The outcome was unknown to the node, which then applied the record as its own: its entries had
/// the rule, and its memory had forgotten it.
#[test]
fn a_policy_that_is_committed_after_all_is_in_force() {
    let cluster = with_anna();
    let first = cluster.leader();
    first.clock.advance(Duration::from_secs(100));
    assert_eq!(first.client().bind(ANNA, "right"), OK);
    let term = cluster.log.term();
    let is_late = Some(Late::Told);
    cluster.log.lose(Loses { is_committed: true, is_late, after: 0, to: 2 });
    let mut root = first.root();
    let changes = modifications(&[(ModifyOperation::Replace, "pwdMaxAge", &["10"])]);
    let modify = ldap::message::ModifyRequest { name: POLICY, changes: changes.as_ref() };
    let answer = submit(&mut root, ldap::message::Request::Modify(modify));
    cluster.log.wait_until_lost();
    // It is taken back: nobody here knows that it was committed.
    while first.client().bind(ANNA, "right") != OK {
        std::thread::yield_now();
    }
    cluster.log.apply_late(0, term);
    assert_eq!(first.client().bind(ANNA, "right"), NO, "it has expired");
    assert_eq!(code(&answer), OK);
}

#[test]
fn rules_that_became_visible_before_their_loss_was_heard_of_are_in_force() {
    let cluster = with_anna();
    let first = cluster.leader();
    first.clock.advance(Duration::from_secs(100));
    let lose = || {
        let is_late = Some(Late::AtOnce);
        cluster.log.lose(Loses { is_committed: true, is_late, after: 0, to: 2 });
    };
    let replace = |name: &str, attribute: &str, value: &str| {
        lose();
        let change = [(ModifyOperation::Replace, attribute, &[value][..])];
        assert_eq!(first.root().modify(name, &change), OK);
        cluster.lead(Some(0));
    };
    replace(POLICY, "pwdMaxAge", "10");
    assert_eq!(first.client().bind(ANNA, "right"), NO, "it has expired");
    let deny = "(targetattr=\"sn\")(version 3.0; acl \"hidden\"; deny (all) \
                userdn=\"ldap:///anyone\";)";
    let found = |filter: &str| {
        let attributes = &["sn"];
        let asked = Asked { filter, scope: Scope::Subtree, attributes, ..Asked::default() };
        first.client().search(&asked).entries.len()
    };
    assert_eq!(found("(sn=Berg)"), 1);
    replace(SUFFIX, "aci", deny);
    assert_eq!(found("(sn=Berg)"), 0);
    lose();
    let hat = [(ModifyOperation::Add, "attributeTypes", &[HAT][..])];
    assert_eq!(first.root().modify("cn=schema", &hat), OK);
    cluster.lead(Some(0));
    let attributes = &["attributeTypes"];
    let base = "cn=schema";
    let asked = Asked { base, scope: Scope::Base, attributes, ..Asked::default() };
    let types = first.root().search(&asked).entries[0].texts("attributeTypes");
    assert!(types.iter().any(|one| one.contains("'hat'")));
    // And what is decided from now on is decided under it.
    let hats = [(
        ModifyOperation::Add,
        "objectClasses",
        &["( 1.3.6.1.4.1.55555.2 NAME 'hatted' SUP top AUXILIARY MAY hat )"][..],
    )];
    assert_eq!(first.root().modify("cn=schema", &hats), OK);
}
