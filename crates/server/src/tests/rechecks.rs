//! A session has no power that its entry has lost, and ends with its entry.

use ldap::message::{
    CompareRequest, DeleteRequest, Modification, ModificationsBuf, ModifyDnRequest,
    ModifyOperation, ModifyRequest,
};

use tokio::time::Instant;

use super::*;

const ANNA: &str = "ou=anna,dc=example,dc=org";
const BERT: &str = "ou=bert,dc=example,dc=org";

fn modify(id: i32, name: &str, operation: ModifyOperation, attribute: (&str, &str)) -> Vec<u8> {
    let (description, value) = attribute;
    let mut values = ValuesBuf::new();
    values.push(value.as_bytes());
    let attribute = PartialAttribute { description, values: values.as_ref() };
    let mut changes = ModificationsBuf::new();
    changes.push(Modification { operation, attribute });
    request(id, Request::Modify(ModifyRequest { name, changes: changes.as_ref() }))
}

/// A server with Anna and Bert, who have passwords; Anna may do everything.
fn served() -> (Running, Client) {
    let running = Running::start();
    let mut root = running.connect_root();
    for (id, name) in [(2, ANNA), (3, BERT)] {
        let entry = [
            ("objectClass", "organizationalUnit"),
            ("objectClass", "simpleSecurityObject"),
            ("userPassword", "secret"),
        ];
        root.send(&add_entry(id, name, &entry));
        assert_eq!(root.receive(), format!("{id} add success"));
    }
    root.send(&modify(4, ANNA, ModifyOperation::Add, ("ds-privilege-name", "bypass-acl")));
    assert_eq!(root.receive(), "4 modify success");
    (running, root)
}

fn signed_in(running: &Running, name: &str) -> Client {
    let mut client = running.connect();
    client.send(&bind(1, name, "secret"));
    assert_eq!(client.receive(), "1 bind success");
    client
}

#[test]
fn a_privilege_that_is_taken_is_gone_from_its_sessions() {
    let (running, mut root) = served();
    let mut anna = signed_in(&running, ANNA);
    let ask = |id| {
        let (description, value) = ("userPassword", b"secret");
        request(id, Request::Compare(CompareRequest { name: BERT, description, value }))
    };
    anna.send(&ask(2));
    assert_eq!(anna.receive(), "2 compare compareTrue");
    let take = ("ds-privilege-name", "bypass-acl");
    root.send(&modify(5, ANNA, ModifyOperation::Delete, take));
    assert_eq!(root.receive(), "5 modify success");
    let begun = Instant::now();
    loop {
        anna.send(&ask(3));
        match anna.receive() {
            answer if answer == "3 compare compareTrue" => {}
            answer => {
                assert_eq!(answer, "3 compare insufficientAccessRights");
                break;
            }
        }
        assert!(begun.elapsed() < TIMEOUT, "the privilege outlives its reason");
    }
    // It is still hers in all else.
    anna.send(&extended(1_000_000, WHO_AM_I));
    assert_eq!(anna.receive(), format!("1000000 extended success dn:{ANNA}"));
}

#[test]
fn what_is_under_way_with_a_privilege_that_is_taken_ends() {
    let (running, mut root) = served();
    let mut anna = signed_in(&running, ANNA);
    let start = "1.3.6.1.1.21.1";
    anna.send(&extended(2, start));
    assert!(anna.receive().starts_with("2 extended success"));
    let take = ("ds-privilege-name", "bypass-acl");
    root.send(&modify(5, ANNA, ModifyOperation::Delete, take));
    assert_eq!(root.receive(), "5 modify success");
    // The updates of her transaction would be carried out with it.
    let want = "0 notice strongerAuthRequired the rights of this session changed during a request";
    assert_eq!(anna.receive_all(), [want]);
}

#[test]
fn a_session_ends_with_its_entry_and_with_its_account() {
    let (running, mut root) = served();
    let mut anna = signed_in(&running, ANNA);
    let mut bert = signed_in(&running, BERT);
    root.send(&modify(5, BERT, ModifyOperation::Add, ("pwdAccountLockedTime", "000001010000Z")));
    assert_eq!(root.receive(), "5 modify success");
    // Though it asks for nothing.
    let want = "0 notice strongerAuthRequired the account of this session was switched off, or has \
                expired";
    assert_eq!(bert.receive_all(), [want]);
    root.send(&request(6, Request::Delete(DeleteRequest { name: ANNA })));
    assert_eq!(root.receive(), "6 delete success");
    let want = "0 notice strongerAuthRequired the entry of this session was deleted";
    assert_eq!(anna.receive_all(), [want]);
}

#[test]
fn a_session_goes_with_its_entry_to_another_name_and_takes_over_none() {
    let (running, mut root) = served();
    let mut anna = signed_in(&running, ANNA);
    let rename = ModifyDnRequest {
        name: ANNA,
        new_rdn: "ou=anne",
        delete_old_rdn: true,
        new_superior: None,
    };
    root.send(&request(5, Request::ModifyDn(rename)));
    assert_eq!(root.receive(), "5 modifyDn success");
    // Another entry of the old name is not hers.
    root.send(&add(6, "anna", 0));
    assert_eq!(root.receive(), "6 add success");
    let begun = Instant::now();
    loop {
        anna.send(&extended(7, WHO_AM_I));
        match anna.receive() {
            answer if answer == format!("7 extended success dn:{ANNA}") => {}
            answer => {
                assert_eq!(answer, "7 extended success dn:ou=anne,dc=example,dc=org");
                return;
            }
        }
        assert!(begun.elapsed() < TIMEOUT, "the session keeps a name that is another's");
    }
}
