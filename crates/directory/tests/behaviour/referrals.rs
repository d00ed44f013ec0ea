//! Referral objects beyond the scripts (RFC 3296): what lies below them, and large answers.

use ldap::message::{AddRequest, Control, ControlsBuf, Request, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, Served, add_attributes};

const MANAGE_DSA_IT: (&str, bool, Option<&[u8]>) = ("2.16.840.1.113730.3.4.2", true, None);

fn add_referral(root: &mut Client, number: usize) {
    let name = format!("ou={number},dc=example,dc=org");
    let url = format!("ldap://host{number}.example.org/ou=there");
    let classes: &[&str] = &["referral", "extensibleObject"];
    assert_eq!(root.add(&name, &[("objectClass", classes), ("ref", &[&url])]), ResultCode::Success);
}

fn search(client: &mut Client, scope: Scope, manage: bool) -> Answer {
    let controls: &[_] = if manage { &[MANAGE_DSA_IT] } else { &[] };
    client.search(&Asked { scope, controls, ..Asked::default() })
}

#[test]
fn references_are_complete_on_the_reading_thread_and_on_the_pool() {
    for (candidates, output) in [(1_000, 1 << 20), (0, 1 << 20), (1_000, 100)] {
        let served = Served::with(|options| {
            options.limits.inline_candidates_max = candidates;
            options.limits.inline_output_max_bytes = output;
            options.limits.chunk_bytes = 64;
        });
        let mut root = served.root();
        for number in 0..20 {
            add_referral(&mut root, number);
        }
        for (scope, below) in [(Scope::Subtree, "sub"), (Scope::One, "base")] {
            let answer = search(&mut root, scope, false);
            assert_eq!(answer.code(), ResultCode::Success);
            let want: Vec<Vec<String>> = (0..20)
                .map(|number| vec![format!("ldap://host{number}.example.org/ou=there??{below}")])
                .collect();
            assert_eq!(answer.references, want);
        }
        let answer = search(&mut root, Scope::Subtree, true);
        assert_eq!((answer.entries.len(), answer.references.len()), (21, 0));
    }
}

#[test]
fn the_first_and_the_last_referral_object_are_noticed_at_once() {
    let served = Served::new();
    let (mut root, mut client) = (served.root(), served.client());
    assert_eq!(search(&mut client, Scope::Subtree, false).references.len(), 0);
    add_referral(&mut root, 1);
    assert_eq!(search(&mut client, Scope::Subtree, false).references.len(), 1);
    let base = Asked { base: "ou=1,dc=example,dc=org", ..Asked::default() };
    assert_eq!(client.search(&base).code(), ResultCode::Referral);
    assert_eq!(root.delete("ou=1,dc=example,dc=org"), ResultCode::Referral);
    assert_eq!(search(&mut client, Scope::Subtree, true).entries.len(), 2);
    assert_eq!(search(&mut client, Scope::Subtree, false).references.len(), 1);
}

#[test]
fn a_search_does_not_enter_what_lies_below_a_referral_object() {
    let served = Served::new();
    let mut root = served.root();
    add_referral(&mut root, 1);
    let (oid, critical, value) = MANAGE_DSA_IT;
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid, critical, value });
    for name in ["cn=a,ou=1,dc=example,dc=org", "cn=b,cn=a,ou=1,dc=example,dc=org"] {
        let attributes = add_attributes(&[("objectClass", &["device"])]);
        let add = AddRequest { name, attributes: attributes.as_ref() };
        let answer = root.request(Request::Add(add), controls.as_ref());
        assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
    }
    let answer = search(&mut root, Scope::Subtree, false);
    assert_eq!((answer.entries.len(), answer.references.len()), (1, 1));
    let answer = search(&mut root, Scope::Subtree, true);
    assert_eq!((answer.entries.len(), answer.references.len()), (4, 0));
    let below = Asked { base: "cn=a,ou=1,dc=example,dc=org", ..Asked::default() };
    assert_eq!(root.search(&below).code(), ResultCode::Referral);
}
