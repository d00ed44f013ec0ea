//! Searches that follow many aliases.

use directory::{Flow, Next};
use ldap::filter::Filter;
use ldap::message::{Controls, DerefAliases, MessageId, Request, Scope, SearchRequest, StringsBuf};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Client, SUFFIX, Served};

/// Two devices, and `count` aliases of the first one.
fn aliases(count: usize) -> Served {
    let served = Served::with(|options| options.limits.inline_candidates_max = 30);
    add_devices(&served, 2, "x");
    let mut root = served.root();
    let target = format!("cn=device 0,{SUFFIX}");
    for number in 0..count {
        let name = format!("cn=alias {number},{SUFFIX}");
        let (classes, named): (&[&str], &[&str]) = (&["alias", "extensibleObject"], &[&target]);
        let attributes = [("objectClass", classes), ("aliasedObjectName", named)];
        assert_eq!(root.try_add(&name, &attributes).code(), ResultCode::Success);
    }
    served
}

/// A search that follows them, of one candidate.
fn search(client: &mut Client) -> Vec<u8> {
    let attributes = StringsBuf::new();
    let search = SearchRequest {
        base: SUFFIX,
        scope: Scope::Subtree,
        deref: DerefAliases::Always,
        size_limit_entries: 0,
        time_limit_s: 0,
        types_only: false,
        filter: Filter::parse("(cn=device 0)").unwrap(),
        attributes: attributes.as_ref(),
    };
    client.encode(Request::Search(search), Controls::EMPTY)
}

#[test]
fn many_aliases_are_followed_on_the_pool() {
    for (count, is_job) in [(20, false), (40, true)] {
        let served = aliases(count);
        let mut client = served.client();
        let message = search(&mut client);
        let connection = &mut client.connection;
        connection.feed(&message);
        assert_eq!(connection.jobs, usize::from(is_job), "{count} aliases");
        let mut answer = Answer::default();
        connection.received.drain(..).for_each(|octets| answer.take(&octets));
        assert_eq!(answer.code(), ResultCode::Success);
        assert_eq!(answer.names(), [format!("cn=device 0,{SUFFIX}")]);
    }
}

#[test]
fn whoever_abandons_a_search_waits_for_no_alias() {
    let served = aliases(40);
    let mut client = served.client();
    let message = search(&mut client);
    let abandon = client.encode(Request::Abandon(MessageId(1)), Controls::EMPTY);
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("many aliases make a job") };
    let _ = connection.worker.handle(&mut connection.session, &abandon, &mut Vec::new());
    let mut answer = Answer::default();
    let mut done = connection
        .pool
        .run(job, &mut |chunk: Vec<u8>| {
            answer.take(&chunk);
            Flow::Continue
        })
        .done()
        .unwrap();
    answer.take(&done.take_end());
    connection.session.finish(done);
    assert_eq!(answer.code, None);
}
