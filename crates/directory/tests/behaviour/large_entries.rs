//! Entries with very many values, which are sent in parts: the answer is the one they give whole,
//! octet for octet, whatever becomes of the entry meanwhile.

use std::sync::mpsc::channel;
use std::time::Duration;

use directory::{Flow, Job, Next, Part, Ran};
use ldap::control_value::persistent_search::{
    ENTRY_CHANGE_OID, OID as PERSISTENT, PersistentSearch,
};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::message::ModifyOperation::{Add, Delete};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const MANY: usize = 400;
const SORT: &str = "1.2.840.113556.1.4.473";

fn person(number: usize) -> String {
    let branch = if number.is_multiple_of(7) { "elsewhere" } else { "people" };
    format!("uid=member-number-{number},ou={branch},{SUFFIX}")
}

fn group(name: &str) -> String {
    format!("cn={name},{SUFFIX}")
}

#[track_caller]
fn add(root: &mut Client, name: &str, attributes: &[(&str, &[&str])]) {
    let answer = root.try_add(name, attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
}

/// People, and groups of many of them and of few. Values are sent in parts from so many on.
fn filled(values_min: u64, chunk_bytes: usize) -> Served {
    let served = Served::with(|options| {
        options.limits.large_entry_values_min = values_min;
        options.limits.chunk_bytes = chunk_bytes;
        options.limits.large_entries_max = 4;
    });
    let mut root = served.root();
    for branch in ["people", "elsewhere"] {
        let name = format!("ou={branch},{SUFFIX}");
        add(&mut root, &name, &[("objectClass", &["organizationalUnit"])]);
    }
    for number in 0..MANY {
        let classes = ("objectClass", &["inetOrgPerson"][..]);
        add(&mut root, &person(number), &[classes, ("sn", &["x"]), ("cn", &["x"])]);
    }
    for (name, step) in [("all", 1), ("few", 40), ("odd", 1), ("tail", 100)] {
        // One of them is nobody.
        let members: Vec<String> = (0..=MANY).step_by(step).map(person).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let classes = ("objectClass", &["groupOfNames", "extensibleObject"][..]);
        let texts = ("description", &["one", "two"][..]);
        let others = ("uniqueMember", if name == "odd" { &members[..] } else { &members[..1] });
        add(&mut root, &group(name), &[classes, ("member", &members), texts, others]);
    }
    let users: Vec<String> = (0..1500).map(|number| format!("user.number.{number}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let classes = ("objectClass", &["groupOfNames", "extensibleObject"][..]);
    add(&mut root, &group("users"), &[classes, ("member", &[SUFFIX]), ("memberUid", &users)]);
    let readers = "(targetattr=\"cn || member || memberUid || objectClass\")(version 3.0; \
                   acl \"all\"; allow (read,search,compare) userdn=\"ldap:///anyone\";)";
    assert_eq!(root.modify(SUFFIX, &[(Add, "aci", &[readers])]), ResultCode::Success);
    drop(root);
    served
}

/// What comes back, as octets.
fn octets(client: &mut Client, asked: &Asked<'_>) -> Vec<Vec<u8>> {
    let message = client.encode_search(asked);
    client.connection.feed(&message);
    client.connection.received.drain(..).collect()
}

fn decoded(messages: &[Vec<u8>]) -> Answer {
    let mut answer = Answer::default();
    messages.iter().for_each(|message| answer.take(message));
    answer
}

#[test]
fn an_entry_in_parts_is_the_entry_as_a_whole() {
    let sort = |attribute| write_sort_keys(&[SortKey { attribute, rule: None, reverse: true }]);
    let sorted = sort("cn");
    let by_name = [(SORT, true, Some(&*sorted))];
    let lists: [&[&str]; 7] = [
        &["member"],
        &["memberUid", "cn"],
        &["*"],
        &["cn", "uniqueMember", "member"],
        &["description", "member;range=3-8"],
        &["1.1"],
        // A part comes before lists that are sent in parts, and behind others.
        &["uniqueMember", "member;range=3-8"],
    ];
    let whole = filled(u64::MAX, 1 << 20);
    for chunk_bytes in [1, 300, 1 << 20] {
        let served = filled(20, chunk_bytes);
        for is_root in [true, false] {
            let client = |served: &Served| if is_root { served.root() } else { served.client() };
            let (mut one, mut other) = (client(&served), client(&whole));
            for attributes in lists {
                for (filter, controls) in [
                    ("(cn=all)", &[][..]),
                    ("(cn=users)", &[]),
                    ("(objectClass=groupOfNames)", &[]),
                    ("(objectClass=groupOfNames)", &by_name),
                    ("(objectClass=*)", &[]),
                ] {
                    let asked = Asked { filter, attributes, controls, ..Asked::default() };
                    let (got, want) = (octets(&mut one, &asked), octets(&mut other, &asked));
                    match attributes {
                        ["uniqueMember", ..] => assert_eq!(decoded(&got), decoded(&want)),
                        _ => assert!(got == want, "{chunk_bytes} {is_root} {asked:?}"),
                    }
                    assert!(want.len() > 1, "{asked:?}");
                }
            }
            // Small chunks make it park between the parts.
            assert!(chunk_bytes > 1 || one.connection.parked > 1_000);
        }
    }
}

/// Begins to read all of a group.
fn begin(client: &mut Client, name: &str) -> Job {
    let (filter, attributes) = (format!("(cn={name})"), &["member"][..]);
    begin_search(client, &Asked { filter: &filter, attributes, ..Asked::default() })
}

fn begin_search(client: &mut Client, asked: &Asked<'_>) -> Job {
    let message = client.encode_search(asked);
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large entry is a job") };
    job
}

/// Goes on until it parks; the job, unless it is over.
fn go_on(client: &mut Client, job: Job, taken: &mut Vec<u8>) -> Option<Job> {
    let connection = &mut client.connection;
    let ran = connection.pool.run(job, &mut |Part { bytes, .. }: Part| {
        taken.extend(bytes);
        Flow::Park
    });
    match ran {
        Ran::Broken => panic!("it cannot be read"),
        Ran::Done(done) => {
            taken.extend(&done.end);
            connection.session.finish(&done);
            None
        }
        Ran::Parked(mut job) => {
            connection.session.renew(&mut job);
            Some(job)
        }
    }
}

fn answer(client: &mut Client, taken: &[u8]) -> Answer {
    let mut answer = Answer::default();
    let mut rest = taken;
    while let Ok(ldap::ber::Frame::Complete(length)) = ldap::ber::frame(rest, usize::MAX) {
        answer.take(&rest[..length]);
        rest = &rest[length..];
    }
    assert!(rest.is_empty(), "whole messages");
    client.connection.received.clear();
    answer
}

#[test]
fn what_changes_meanwhile_is_not_seen() {
    let served = filled(20, 300);
    let mut reader = served.client();
    let mut job = Some(begin(&mut reader, "all"));
    let (mut taken, mut rounds) = (Vec::new(), 0);
    let mut root = served.root();
    while let Some(parked) = job.take() {
        assert_eq!(parked.is_within_message(), rounds > 0, "round {rounds}");
        job = go_on(&mut reader, parked, &mut taken);
        rounds += 1;
        if taken.len() > 20_000 {
            continue;
        }
        // Those that come next are called otherwise, or are gone, and so is the group at last.
        let (gone, renamed) = (MANY - rounds, rounds * 4);
        assert_eq!(root.delete(&person(gone)), ResultCode::Success);
        let code = root.rename(&person(renamed), &format!("uid=other-{renamed}"), true, None);
        assert_eq!(code, ResultCode::Success);
        let nobody = person(MANY);
        let change = [(Delete, "member", &[nobody.as_str()][..])];
        let code = root.modify(&group("all"), &change);
        assert_eq!(code == ResultCode::Success, rounds == 1);
        if rounds == 40 {
            let branch = format!("ou=people,{SUFFIX}");
            let code = root.rename(&branch, "ou=renamed", true, None);
            assert_eq!(code, ResultCode::Success);
            break;
        }
    }
    assert_eq!(root.delete(&group("all")), ResultCode::Success);
    while let Some(parked) = job.take() {
        job = go_on(&mut reader, parked, &mut taken);
    }
    assert!(rounds >= 40);
    let answer = answer(&mut reader, &taken);
    assert_eq!(answer.code(), ResultCode::Success);
    let mut want: Vec<String> = (0..=MANY).map(person).collect();
    let mut got = answer.entries[0].texts("member");
    want.sort();
    got.sort();
    assert_eq!(got, want);
    let filter = "(cn=all)";
    assert_eq!(reader.search(&Asked { filter, ..Asked::default() }).entries.len(), 0);
}

#[test]
fn who_gave_up_gets_the_rest_of_a_message_that_was_begun() {
    let served = filled(20, 300);
    let mut client = served.root();
    let job = begin(&mut client, "all");
    let mut taken = Vec::new();
    let mut job = go_on(&mut client, job, &mut taken);
    assert!(job.as_ref().is_some_and(Job::is_within_message));
    client.connection.session.abandon_all();
    while let Some(parked) = job.take() {
        job = go_on(&mut client, parked, &mut taken);
    }
    let answer = answer(&mut client, &taken);
    // And nothing else: the search is over.
    assert_eq!((answer.entries[0].texts("member").len(), answer.code), (MANY + 1, None));
}

#[test]
fn they_are_few_at_a_time_and_clients_take_them_in_time() {
    let served = filled(20, 300);
    let (mut first, mut second) = (served.client(), served.client());
    let job = begin(&mut first, "all");
    assert!(!job.stop().is_client_late());
    let stop = job.stop();
    let job = go_on(&mut first, job, &mut Vec::new()).unwrap();
    // All strangers together have a quarter, which is one of four.
    let mut refused = Vec::new();
    let other = begin(&mut second, "all");
    assert!(go_on(&mut second, other, &mut refused).is_none());
    let told = answer(&mut second, &refused);
    assert_eq!((told.code(), told.entries.len()), (ResultCode::Busy, 0));
    assert!(told.diagnostic.contains("member;range=0-1499"), "{}", told.diagnostic);
    // Others have room, and so has this one for part of the values.
    let mut root = served.root();
    let attributes = &["member"][..];
    let asked = Asked { filter: "(cn=all)", attributes, ..Asked::default() };
    assert_eq!(root.search(&asked).entries[0].texts("member").len(), MANY + 1);
    let attributes = &["member;range=0-9"][..];
    let part = Asked { attributes, ..asked.clone() };
    assert_eq!(second.search(&part).entries[0].texts("member;range=0-9").len(), 10);
    // It has a minute, and as long as half a mebioctet a second takes.
    served.clock.advance(Duration::from_secs(59));
    assert!(!stop.is_client_late());
    served.clock.advance(Duration::from_secs(2));
    assert!(stop.is_client_late());
    // The server had no thread for the rest of it: that is not the client's time.
    stop.waits();
    assert!(!stop.is_client_late());
    drop(job);
    assert_eq!(second.search(&asked).entries[0].texts("member").len(), MANY + 1);
    let job = begin(&mut first, "all");
    let (mut job, stop) = (Some(job), first.connection.session.outstanding());
    assert!(stop > 0);
    let mut taken = Vec::new();
    let mut last = None;
    while let Some(parked) = job.take() {
        last = Some(parked.stop());
        job = go_on(&mut first, parked, &mut taken);
    }
    served.clock.advance(Duration::from_secs(1_000));
    let last = last.unwrap();
    assert!(!last.is_client_late(), "all of it is on its way");
}

#[test]
fn the_time_a_job_waits_for_a_thread_is_not_that_of_its_client() {
    let served = filled(20, 300);
    let mut client = served.client();
    let job = begin(&mut client, "all");
    let job = go_on(&mut client, job, &mut Vec::new()).unwrap();
    let stop = job.stop();
    served.clock.advance(Duration::from_secs(50));
    stop.waits();
    served.clock.advance(Duration::from_secs(1_000));
    assert!(!stop.is_client_late());
    stop.goes_on();
    served.clock.advance(Duration::from_secs(9));
    assert!(!stop.is_client_late());
    served.clock.advance(Duration::from_secs(2));
    assert!(stop.is_client_late());
}

/// Each of many searches of one connection held a view, and had its share of what all may hold,
/// while the one before was sent.
#[test]
fn one_connection_sends_one_at_a_time() {
    let served = filled(20, 300);
    let mut client = served.client();
    let first = begin(&mut client, "all");
    let mut taken = Vec::new();
    let mut first = go_on(&mut client, first, &mut taken);
    assert!(first.as_ref().is_some_and(|job| job.is_within_message() && !job.waits_for_turn()));
    assert!(!client.connection.session.may_send_in_parts());
    // In whatever order: those before it come, it waits.
    let sort = write_sort_keys(&[SortKey { attribute: "cn", rule: None, reverse: false }]);
    let by_name = [(SORT, true, Some(&*sort))];
    let filter = "(|(cn=all)(cn=few)(cn=odd))";
    for controls in [&[][..], &by_name] {
        let asked = Asked { filter, attributes: &["member"], controls, ..Asked::default() };
        let mut waiting = Some(begin_search(&mut client, &asked));
        let mut of_waiting = Vec::new();
        // It is no use to go on: strangers have room for one.
        for _ in 0..3 {
            let job = go_on(&mut client, waiting.take().unwrap(), &mut of_waiting).unwrap();
            assert!(job.waits_for_turn() && !job.is_within_message());
            assert!(!job.stop().is_client_to_take() && of_waiting.is_empty());
            waiting = Some(job);
        }
        // The end of it.
        while let Some(parked) = first.take() {
            first = go_on(&mut client, parked, &mut taken);
        }
        assert!(client.connection.session.may_send_in_parts());
        let mut rounds = 0;
        while let Some(parked) = waiting.take() {
            waiting = go_on(&mut client, parked, &mut of_waiting);
            rounds += 1;
        }
        assert!(rounds > 50);
        let told = answer(&mut client, &of_waiting);
        assert_eq!(told.code(), ResultCode::Success);
        let members: Vec<usize> =
            told.entries.iter().map(|entry| entry.texts("member").len()).collect();
        assert_eq!(members, [MANY + 1, MANY / 40 + 1, MANY + 1]);
        // The next one is first.
        let again = begin(&mut client, "all");
        first = go_on(&mut client, again, &mut Vec::new());
        assert!(first.as_ref().is_some_and(Job::is_within_message));
    }
}

#[test]
fn what_waits_is_looked_at_again() {
    let served = filled(20, 300);
    let mut client = served.client();
    let first = begin(&mut client, "all");
    let first = go_on(&mut client, first, &mut Vec::new()).unwrap();
    let mut taken = Vec::new();
    let asked =
        Asked { filter: "(|(cn=odd)(cn=tail))", attributes: &["member"], ..Asked::default() };
    let waiting = begin_search(&mut client, &asked);
    let mut waiting = go_on(&mut client, waiting, &mut taken);
    assert!(waiting.as_ref().is_some_and(Job::waits_for_turn));
    assert_eq!(served.root().delete(&group("odd")), ResultCode::Success);
    drop(first);
    while let Some(parked) = waiting.take() {
        waiting = go_on(&mut client, parked, &mut taken);
    }
    let told = answer(&mut client, &taken);
    assert_eq!(told.code(), ResultCode::Success);
    assert_eq!(told.entries.len(), 1, "it is gone, the other one is not");
}

#[test]
fn a_search_that_goes_on_waits_for_room() {
    let served = filled(20, 300);
    let (mut first, mut reader) = (served.client(), served.client());
    let what = PersistentSearch { change_types: 15, changes_only: true, return_changes: true };
    let value = what.encode();
    let controls = &[(PERSISTENT, true, Some(&value[..]))][..];
    let asked = Asked { filter: "(cn=all)", attributes: &["member"], controls, ..Asked::default() };
    let mut taken = Vec::new();
    let job = begin_search(&mut reader, &asked);
    let job = go_on(&mut reader, job, &mut taken).unwrap();
    assert!(job.waits_for_change() && taken.is_empty());
    // All strangers together have room for one.
    let holding = begin(&mut first, "all");
    let holding = go_on(&mut first, holding, &mut Vec::new()).unwrap();
    assert_eq!(served.root().modify(&group("all"), &[(Add, "cn", &["x"])]), ResultCode::Success);
    let mut job = job;
    for _ in 0..3 {
        job = go_on(&mut reader, job, &mut taken).unwrap();
        assert!(job.waits_for_change() && taken.is_empty(), "it is not over, and holds nothing");
    }
    let (sender, receiver) = channel();
    let wake = move |passed| sender.send(passed).unwrap();
    let wait = served.directory.wait_for_change(&job, Box::new(wake)).unwrap();
    assert!(receiver.try_recv().is_err(), "it is not woken while there is none");
    drop(holding);
    job.pass(receiver.try_recv().expect("it is when there is"));
    drop(wait);
    let busy = begin(&mut first, "all");
    let mut refused = Vec::new();
    assert!(go_on(&mut first, busy, &mut refused).is_none(), "the room is its own");
    loop {
        job = go_on(&mut reader, job, &mut taken).unwrap();
        if job.waits_for_change() {
            break;
        }
    }
    let told = answer(&mut reader, &taken);
    assert_eq!(told.entries[0].texts("member").len(), MANY + 1);
    let said = String::from_utf8_lossy(&taken);
    assert!(said.contains(ENTRY_CHANGE_OID), "with what has happened");
    // Nothing is held by then, and the server does not wait for who waits.
    assert_eq!(first.search(&Asked { controls: &[], ..asked }).code(), ResultCode::Success);
}

#[test]
fn one_that_tells_what_there_is_does_not_wait_for_room() {
    let served = filled(20, 300);
    let (mut first, mut reader) = (served.client(), served.client());
    let holding = begin(&mut first, "all");
    let holding = go_on(&mut first, holding, &mut Vec::new()).unwrap();
    let what = PersistentSearch { change_types: 15, changes_only: false, return_changes: true };
    let value = what.encode();
    let controls = &[(PERSISTENT, true, Some(&value[..]))][..];
    let asked = Asked { filter: "(cn=all)", attributes: &["member"], controls, ..Asked::default() };
    let mut taken = Vec::new();
    let job = begin_search(&mut reader, &asked);
    assert!(go_on(&mut reader, job, &mut taken).is_none(), "it would keep its connection");
    assert_eq!(answer(&mut reader, &taken).code(), ResultCode::Busy);
    drop(holding);
}
