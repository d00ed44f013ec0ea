//! Searches that follow many aliases.

use directory::{Flow, Next, Part};
use ldap::filter::Filter;
use ldap::message::{Controls, DerefAliases, MessageId, Request, Scope, SearchRequest, StringsBuf};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

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
    let done = connection
        .pool
        .run(job, &mut |Part { bytes: chunk, .. }: Part| {
            answer.take(&chunk);
            Flow::Continue
        })
        .done()
        .unwrap();
    answer.take(&done.end);
    connection.session.finish(&done);
    assert_eq!(answer.code, None);
}

/// An alias of one's own to something below a hidden alias was answered otherwise than one to
/// something below nothing.
#[test]
fn a_hidden_alias_is_not_told_from_nothing_by_what_is_below_it() {
    let served = Served::new();
    let mut root = served.root();
    let (hidden, own) = (format!("ou=hidden,{SUFFIX}"), format!("cn=own,{SUFFIX}"));
    let deny = "(targetattr=\"*\")(version 3.0; acl \"x\"; deny (all) userdn=\"ldap:///anyone\";)";
    let whole = "(version 3.0; acl \"y\"; deny (all) userdn=\"ldap:///anyone\";)";
    let unit: &[(&str, &[&str])] =
        &[("objectClass", &["organizationalUnit"]), ("aci", &[deny, whole])];
    assert_eq!(root.add(&hidden, unit), ResultCode::Success);
    let alias = |target: &str| {
        [
            ("objectClass", vec!["alias".to_owned(), "extensibleObject".to_owned()]),
            ("aliasedObjectName", vec![target.to_owned()]),
        ]
    };
    let put = |root: &mut Client, name: &str, target: &str| {
        let all = alias(target);
        let all = all
            .each_ref()
            .map(|(name, values)| (*name, values.iter().map(String::as_str).collect::<Vec<_>>()));
        let all = all.each_ref().map(|(name, values)| (*name, values.as_slice()));
        assert_eq!(root.try_add(name, &all).code(), ResultCode::Success);
    };
    put(&mut root, &format!("cn=there,{hidden}"), SUFFIX);
    let mut told = Vec::new();
    for above in ["there", "nothing"] {
        put(&mut root, &own, &format!("cn=x,cn={above},{hidden}"));
        let asked = Asked {
            base: &own,
            scope: Scope::Base,
            deref: DerefAliases::Always,
            ..Asked::default()
        };
        let answer = served.client().search(&asked);
        told.push((answer.code(), answer.matched, answer.diagnostic));
        assert_eq!(root.delete(&own), ResultCode::Success);
    }
    assert_eq!(told[0], told[1]);
}
