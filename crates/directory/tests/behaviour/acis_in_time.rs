//! An entry is guarded by the ACIs of its own point of the log, whatever is being written.

use std::sync::atomic::{AtomicBool, Ordering};

use ldap::message::{Control, ControlsBuf, DeleteRequest, ModifyOperation, Request};
use ldap::result::ResultCode;

use crate::support::{Asked, Client, SUFFIX, Served};

const PEOPLE: &str = "ou=people,dc=example,dc=org";
const OTHERS: &str = "ou=others,dc=example,dc=org";
const ANNA: &str = "uid=anna,ou=people,dc=example,dc=org";
const HIDE: &str = "(targetattr=\"employeeNumber\")(version 3.0; acl \"hidden\"; deny \
                    (read,search,compare) userdn=\"ldap:///anyone\";)";
const SHOW: &str = "(targetattr=\"*\")(version 3.0; acl \"shown\"; allow (read,search,compare) \
                    userdn=\"ldap:///anyone\";)";

fn fill(root: &mut Client) {
    let people: &[(&str, &[&str])] = &[("objectClass", &["organizationalUnit"]), ("aci", &[HIDE])];
    assert_eq!(root.add(PEOPLE, people), ResultCode::Success);
    let anna: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &["anna"]),
        ("sn", &["Berg"]),
        ("employeeNumber", &["hidden"]),
    ];
    assert_eq!(root.add(ANNA, anna), ResultCode::Success);
}

/// While one keeps changing things, nobody else sees what is hidden before and after.
fn check(change: impl Fn(&mut Client) + Sync) {
    let served = Served::new();
    let mut root = served.root();
    let show = &[(ModifyOperation::Add, "aci", &[SHOW][..])];
    assert_eq!(root.modify(SUFFIX, show), ResultCode::Success);
    fill(&mut root);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut root = served.root();
            for _ in 0..ROUNDS {
                change(&mut root);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut anybody = served.client();
        let mut seen = 0;
        while !is_over.load(Ordering::Relaxed) {
            let asked = Asked { attributes: &["*"], filter: "(sn=Berg)", ..Asked::default() };
            let answer = anybody.search(&asked);
            for entry in &answer.entries {
                seen += 1;
                assert!(entry.texts("employeeNumber").is_empty(), "{entry:?}");
            }
        }
        assert!(seen > 0);
    });
}

#[test]
fn an_entry_with_acis_is_renamed_and_they_go_with_it_at_once() {
    check(|root| {
        for (from, to) in [(PEOPLE, "ou=others"), (OTHERS, "ou=people")] {
            assert_eq!(root.rename(from, to, true, None), ResultCode::Success);
        }
    });
}

#[test]
fn a_tree_is_deleted_and_its_acis_guard_it_until_it_is_gone() {
    check(|root| {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: "1.2.840.113556.1.4.805", critical: true, value: None });
        let delete = Request::Delete(DeleteRequest { name: PEOPLE });
        assert_eq!(root.request(delete, controls.as_ref()).code(), ResultCode::Success);
        fill(root);
    });
}

const ROUNDS: usize = 40;
