//! The order of answers, which tells where a search was carried out.

use super::*;

const HIDDEN: &str = "ou=hidden,dc=example,dc=org";

/// So many entries that everybody sees, and so many that nobody does, beside what may be looked at
/// where requests are read.
fn with_hidden(seen: i32, hidden: i32, candidates_max: u64) -> Running {
    let running = Running::with_both(|settings, options| {
        settings.server.workers = 1;
        options.limits.inline_candidates_max = candidates_max;
    });
    let mut root = running.connect_root();
    let mut add = |name: &str, pairs: &[(&str, &str)]| {
        root.send(&add_entry(2, name, pairs));
        assert_eq!(root.receive(), "2 add success", "{name}");
    };
    let deny = r#"(version 3.0; acl "hidden"; deny (all) userdn="ldap:///anyone";)"#;
    add(HIDDEN, &[("objectClass", "organizationalUnit"), ("aci", deny)]);
    let device = [("objectClass", "device"), ("description", "x")];
    (0..seen).for_each(|one| add(&format!("cn=seen {one},dc=example,dc=org"), &device));
    (0..hidden).for_each(|one| add(&format!("cn=hidden {one},{HIDDEN}"), &device));
    running
}

/// A search that had more candidates than are looked at where requests are read was overtaken by
/// the next request, also when all but a few of them are hidden: the order of two answers told of
/// one hidden entry.
#[test]
fn what_was_sent_before_is_answered_before_whatever_is_hidden() {
    let filter = "(&(cn=*)(description=x))";
    let mut told = Vec::new();
    for hidden in [0, 40] {
        let running = with_hidden(4, hidden, 20);
        let mut client = running.connect();
        let mut messages = search_by(1, "dc=example,dc=org", Scope::Subtree, filter);
        messages.extend(root_dse(2));
        // It is over before this is looked at.
        messages.extend(request(3, Request::Abandon(MessageId(4))));
        messages.extend(search_by(4, "dc=example,dc=org", Scope::Subtree, filter));
        messages.extend(request(5, Request::Abandon(MessageId(4))));
        messages.extend(extended(6, WHO_AM_I));
        client.send(&messages);
        told.push((0..13).map(|_| client.receive()).collect::<Vec<_>>());
        assert!(told[0].contains(&"4 done success".to_owned()), "{told:?}");
        running.check_alive();
    }
    assert_eq!(told[0], told[1]);
}

/// Where what may be seen is enough for that, later requests overtake a search as ever.
#[test]
fn a_search_of_many_that_may_be_seen_lets_others_pass() {
    let running = with_hidden(40, 40, 4);
    let mut client = running.connect();
    let mut messages = search(1, "dc=example,dc=org", Scope::Subtree);
    messages.extend((2..=20).flat_map(root_dse));
    client.send(&messages);
    let mut told = Vec::new();
    while told.iter().filter(|one: &&String| one.ends_with("done success")).count() < 20 {
        told.push(client.receive());
    }
    // 40 entries, the suffix, and 19 times the root DSE.
    assert_eq!(told.len(), 40 + 1 + 1 + 19 * 2, "{told:?}");
    running.check_alive();
}

/// A search whose time was over while it waited for a thread was told so when its turn came, behind
/// whatever its asker had asked for before.
#[test]
fn a_search_that_waits_is_told_when_its_time_is_over() {
    let running = Running::with_both(|settings, options| {
        settings.server.scan_threads = 1;
        settings.limits.search_work_anonymous_max = 0;
        options.limits.inline_candidates_max = 0;
    });
    fill(&running, 30, 6_000);
    let terms = (0..300).map(|term| format!("(description=*{term}y*)")).collect::<String>();
    let costly = format!("(|{terms})");
    let mut busy = running.connect();
    let base = "dc=example,dc=org";
    busy.send(
        &(1..=40).flat_map(|id| search_by(id, base, Scope::Subtree, &costly)).collect::<Vec<_>>(),
    );
    // They have been begun when one is answered.
    assert!(busy.receive().ends_with(" done success"));
    let mut waiting = running.connect();
    let asked = SearchRequest {
        base,
        scope: Scope::Subtree,
        deref: DerefAliases::Never,
        size_limit_entries: 0,
        time_limit_s: 1,
        types_only: false,
        filter: Filter::parse(&costly).unwrap(),
        attributes: Strings::EMPTY,
    };
    waiting.send(&request(1, Request::Search(asked)));
    assert_eq!(waiting.receive(), "1 done timeLimitExceeded");
    busy.send(&request(90, Request::Abandon(MessageId(40))));
    busy.send(&root_dse(91));
    let mut done = 1;
    while busy.receive() != "91 done success" {
        done += 1;
    }
    assert!(done < 40, "it was told when all of them were done");
    running.check_alive();
}
