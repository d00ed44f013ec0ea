//! Searches that park, because their receiver has no room, and go on: the answer is the one they
//! give without, octet for octet; and what changes meanwhile neither repeats nor loses an entry.

use std::collections::BTreeMap;
use std::time::Duration;

use directory::{Flow, Job, Next, Part, Ran};
use ldap::ber::{Reader, Tag, Writer};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse, VlvTarget};
use ldap::message::{Controls, DerefAliases, ModifyOperation, Request, Scope};
use ldap::result::ResultCode;
use testing::chance::Chance;

use crate::counting::{self, Says};
use crate::support::{Answer, Asked, Client, SUFFIX, Served};

const SORT: &str = "1.2.840.113556.1.4.473";
const VLV: &str = "2.16.840.1.113730.3.4.9";
const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
const PAGED: &str = "1.2.840.113556.1.4.319";
const MANAGE_DSA_IT: &str = "2.16.840.1.113730.3.4.2";

const BASES: [&str; 6] = [
    SUFFIX,
    "ou=people,dc=example,dc=org",
    "ou=elsewhere,dc=example,dc=org",
    "ou=other,dc=example,dc=org",
    "cn=monitor",
    "cn=config",
];
const FILTERS: [&str; 8] = [
    "(objectClass=*)",
    "(objectClass=inetOrgPerson)",
    "(l=*)",
    "(description=*b*)",
    "(!(l=zug))",
    "(|(title=a*)(l=chur)(uid=p7))",
    "(memberOf=cn=g0,dc=example,dc=org)",
    "(member:1.2.840.113556.1.4.1941:=uid=p3,ou=people,dc=example,dc=org)",
];
const SORTS: [&[(&str, bool)]; 7] = [
    &[("l", false)],
    &[("l", true)],
    &[("description", false)],
    &[("l", false), ("description", true)],
    &[("description", true), ("title", false)],
    &[("uid", false)],
    // Nobody knows it.
    &[("nothing", false)],
];
const WORDS: [&str; 6] = ["a", "B", "ab", "zug", "Chur", "bb"];

/// People in two branches, aliases, groups of groups, referral objects.
fn directory(change: impl FnOnce(&mut directory::Limits)) -> Served {
    let served = Served::with(|options| {
        options.limits.inline_candidates_max = 0;
        options.limits.inline_output_max_bytes = 0;
        options.limits.chunk_bytes = 1;
        change(&mut options.limits);
    });
    let mut root = served.root();
    let all = "(targetattr=\"*\")(version 3.0; acl \"all\"; \
               allow (read,search,compare) userdn=\"ldap:///anyone\";)";
    let add = (ModifyOperation::Add, "aci", &[all][..]);
    assert_eq!(root.modify(SUFFIX, &[add]), ResultCode::Success);
    let mut chance = Chance::new(7, 0);
    let mut add = |name: &str, attributes: &[(&str, &[&str])]| {
        let answer = root.try_add(name, attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{name}: {}", answer.diagnostic);
    };
    for branch in ["people", "elsewhere"] {
        let name = format!("ou={branch},{SUFFIX}");
        add(&name, &[("objectClass", &["organizationalUnit"])]);
    }
    for number in 0..40 {
        let branch = if number % 4 == 3 && number != 3 { "elsewhere" } else { "people" };
        let mut list: Vec<(&str, &[&str])> =
            vec![("objectClass", &["inetOrgPerson"]), ("cn", &["c"]), ("sn", &["s"])];
        let picked = ["l", "title", "description"]
            .map(|one| (one, [*chance.pick(&WORDS).unwrap()], chance.below(4)));
        for (attribute, values, often) in &picked {
            if *often > 0 {
                list.push((attribute, values));
            }
        }
        add(&format!("uid=p{number},ou={branch},{SUFFIX}"), &list);
    }
    for number in 0..5 {
        let url = format!("ldap://host{number}.example.org/ou=there");
        let classes: &[&str] = &["referral", "extensibleObject"];
        add(&format!("ou=r{number},{SUFFIX}"), &[("objectClass", classes), ("ref", &[&url])]);
    }
    for number in 0..6 {
        let target = format!("uid=p{},ou=elsewhere,{SUFFIX}", 7 + 4 * number);
        let classes: &[&str] = &["alias", "extensibleObject"];
        let name = format!("cn=alias {number},ou=people,{SUFFIX}");
        add(&name, &[("objectClass", classes), ("aliasedObjectName", &[&target])]);
    }
    let target = format!("ou=elsewhere,{SUFFIX}");
    let classes: &[&str] = &["alias", "extensibleObject"];
    let attributes = [("objectClass", classes), ("aliasedObjectName", &[target.as_str()])];
    add(&format!("ou=other,{SUFFIX}"), &attributes);
    let mut member = format!("uid=p3,ou=people,{SUFFIX}");
    for number in 0..12 {
        let name = format!("cn=g{number},{SUFFIX}");
        add(&name, &[("objectClass", &["groupOfNames"]), ("member", &[&member])]);
        member = name;
    }
    served
}

fn sort_value(keys: &[(&str, bool)]) -> Vec<u8> {
    let key = |&(attribute, reverse)| SortKey { attribute, rule: None, reverse };
    write_sort_keys(&keys.iter().map(key).collect::<Vec<_>>())
}

fn page_value(size: u64, cookie: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::INTEGER, i64::try_from(size).unwrap());
    writer.octets(Tag::OCTET_STRING, cookie);
    writer.end(sequence);
    value
}

fn cookie(answer: &Answer) -> Vec<u8> {
    let found = answer.controls.iter().find(|(oid, _)| oid == PAGED);
    let Some((_, value)) = found else { return Vec::new() };
    let mut outer = Reader::new(value);
    let mut sequence = outer.sequence(Tag::SEQUENCE).unwrap();
    sequence.integer_i32(Tag::INTEGER).unwrap();
    sequence.octets(Tag::OCTET_STRING).unwrap().to_vec()
}

/// The context of a list view in an answer.
fn context(answer: &Answer) -> Vec<u8> {
    let found = answer.controls.iter().find(|(oid, _)| oid == VLV_RESPONSE);
    let said = found.map(|(_, value)| VlvResponse::decode(value).unwrap());
    said.and_then(|said| said.context.map(<[u8]>::to_vec)).unwrap_or_default()
}

/// Messages with zeros in place of cookies, no two of which are equal.
fn without_cookies(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut blank = messages.to_vec();
    for message in &mut blank {
        let mut answer = Answer::default();
        answer.take(message);
        for sealed in [cookie(&answer), context(&answer)] {
            let length = sealed.len().max(1);
            let found = message.windows(length).position(|octets| octets == sealed);
            if let Some(at) = found {
                message[at..at + length].fill(0);
            }
        }
    }
    blank
}

/// Asks the same of one who parks and of one who does not; the answer.
#[track_caller]
fn same(parks: &mut Client, other: &mut Client, asked: &Asked<'_>, what: &str) -> Answer {
    let answers = [parks, other].map(|client| {
        let message = client.encode_search(asked);
        client.connection.feed(&message);
        let messages = client.connection.received.drain(..).collect::<Vec<_>>();
        (messages, client.connection.completion.take())
    });
    // The message ids are the same: both have asked the same all the time.
    let is_same = without_cookies(&answers[0].0) == without_cookies(&answers[1].0)
        && answers[0].1 == answers[1].1;
    let mut told = [Answer::default(), Answer::default()];
    for (answer, (messages, _)) in told.iter_mut().zip(&answers) {
        messages.iter().for_each(|message| answer.take(message));
    }
    let short = |answer: &Answer| (answer.code, answer.entries.len(), answer.controls.clone());
    let [answer, want] = told;
    let (got_short, want_short) = (short(&answer), short(&want));
    let outcomes = (&answers[0].1, &answers[1].1);
    assert!(is_same, "{what} {asked:?}\n{got_short:?}\n{want_short:?}\n{outcomes:?}");
    answer
}

/// Draws searches, and compares. Returns how often each result came.
#[track_caller]
fn check_all(
    what: &str,
    seed: u64,
    change: impl FnOnce(&mut directory::Limits),
) -> BTreeMap<&'static str, usize> {
    let served = directory(change);
    let mut chance = Chance::new(seed, 1);
    let mut parked = 0;
    let mut codes = BTreeMap::new();
    for _ in 0..150 {
        let is_root = chance.below(2) == 0;
        let client = || if is_root { served.root() } else { served.client() };
        let (mut parks, mut other) = (client(), client());
        other.connection.parks = false;
        let sort = (chance.below(3) > 0).then(|| sort_value(chance.pick(&SORTS).unwrap()));
        let context = Vec::new();
        let view = sort.as_ref().filter(|_| chance.below(4) == 0).map(|_| {
            let target = match chance.below(2) {
                0 => VlvTarget::Offset { offset: 1 + chance.below(30) as i32, content_count: 0 },
                _ => VlvTarget::Value(b"b"),
            };
            let (before, after) = (chance.below(9) as u32, chance.below(60) as u32);
            VlvRequest { before, after, target, context: Some(context.as_slice()) }.encode()
        });
        let page = (view.is_none() && chance.below(3) == 0).then(|| 1 + chance.below(30));
        let manages = chance.below(3) == 0;
        let scopes = [Scope::Base, Scope::One, Scope::Subtree, Scope::Subtree, Scope::Subordinate];
        let derefs = [DerefAliases::Never, DerefAliases::InSearching, DerefAliases::Always];
        let asked = Asked {
            base: match chance.below(3) {
                0 => chance.pick(&BASES).unwrap(),
                _ => SUFFIX,
            },
            scope: *chance.pick(&scopes).unwrap(),
            deref: *chance.pick(&derefs).unwrap(),
            filter: chance.pick(&FILTERS).unwrap(),
            size_limit_entries: [0, 0, 0, 9, 25][chance.below(5) as usize],
            // Others of the server's own entries differ each time.
            attributes: &["cn", "objectClass", "l", "description"],
            ..Asked::default()
        };
        let mut next = Vec::new();
        loop {
            let page = page.map(|size| page_value(size, &next));
            let mut controls = Vec::new();
            controls.extend(sort.as_deref().map(|value| (SORT, false, Some(value))));
            controls.extend(view.as_deref().map(|value| (VLV, true, Some(value))));
            controls.extend(page.as_deref().map(|value| (PAGED, true, Some(value))));
            controls.extend(manages.then_some((MANAGE_DSA_IT, true, None)));
            let asked = Asked { controls: &controls, ..asked.clone() };
            let answer = same(&mut parks, &mut other, &asked, what);
            *codes.entry(answer.code().name()).or_default() += 1;
            next = cookie(&answer);
            if next.is_empty() {
                break;
            }
        }
        assert_eq!(other.connection.parked, 0);
        parked += parks.connection.parked;
    }
    assert!(parked > 1_000, "{what}: they parked {parked} times");
    assert!(codes["success"] > 100 && codes["sizeLimitExceeded"] > 10, "{codes:?}");
    codes
}

#[test]
fn a_search_that_parks_after_each_entry_answers_as_if_it_had_not() {
    check_all("as it comes", 1, |_| {});
}

#[test]
fn a_search_that_walks_an_index_does_so_too() {
    check_all("walked", 2, |limits| limits.sort_entries_max = 5);
}

#[test]
fn a_search_that_sorts_again_does_so_too() {
    check_all("sorted again", 3, |limits| limits.parked_max_bytes = 0);
}

#[test]
fn limits_hold_as_if_it_had_not_parked() {
    let small = |limits: &mut directory::Limits| {
        limits.look_through_limit_entries = 45;
        limits.size_limit_entries = 20;
    };
    let in_memory = check_all("limited", 4, small);
    let walked = check_all("limited and walked", 5, |limits| {
        small(limits);
        limits.sort_entries_max = 5;
    });
    let again = check_all("limited and sorted again", 6, |limits| {
        small(limits);
        limits.parked_max_bytes = 0;
    });
    for codes in [in_memory, walked, again] {
        assert!(codes["adminLimitExceeded"] > 5, "{codes:?}");
    }
}

/// Begins a search that goes to the pool.
fn begin(client: &mut Client, asked: &Asked<'_>) -> Job {
    let message = client.encode_search(asked);
    let connection = &mut client.connection;
    let next = connection.worker.handle(&mut connection.session, &message, &mut Vec::new());
    let Next::Later(job) = next else { panic!("a large search is a job") };
    job
}

/// Goes on until it parks; the job, unless it is over.
fn go_on(client: &mut Client, job: Job, answer: &mut Answer) -> Option<Job> {
    let connection = &mut client.connection;
    let ran = connection.pool.run(job, &mut |Part { bytes: chunk, .. }: Part| {
        answer.take(&chunk);
        Flow::Park
    });
    match ran {
        Ran::Done(done) => {
            answer.take(&done.end);
            connection.session.finish(&done);
            None
        }
        Ran::Broken => panic!("it cannot be read"),
        Ran::Parked(mut job) => {
            connection.session.renew(&mut job);
            Some(job)
        }
    }
}

#[test]
fn entries_that_stay_come_once_and_in_order_while_others_come_and_go() {
    let served = directory(|_| {});
    let mut root = served.root();
    for (round, sort) in [None, Some(SORTS[2]), Some(SORTS[3]), Some(SORTS[0])].iter().enumerate() {
        let value = sort.map(sort_value);
        let controls = value.as_deref().map(|value| (SORT, true, Some(value)));
        let attributes = &["l", "description"];
        let filter = "(objectClass=inetOrgPerson)";
        let asked = Asked { controls: controls.as_slice(), filter, attributes, ..Asked::default() };
        let mut quiet = served.root();
        quiet.connection.parks = false;
        let before = quiet.search(&asked);
        let mut chance = Chance::new(11, round as u64);
        let mut client = served.root();
        let mut answer = Answer::default();
        let mut job = Some(begin(&mut client, &asked));
        let mut touched = Vec::new();
        let mut parked = 0;
        while let Some(at) = job.take() {
            job = go_on(&mut client, at, &mut answer);
            parked += 1;
            let number = chance.below(40);
            let branch = if number % 4 == 3 && number != 3 { "elsewhere" } else { "people" };
            let name = format!("uid=p{number},ou={branch},{SUFFIX}");
            match chance.below(4) {
                // It may be gone already.
                0 if chance.below(3) == 0 => {
                    let _ = root.delete(&name);
                    touched.push(name);
                }
                0 => {
                    let word: &[&str] = &[chance.pick(&WORDS).unwrap()];
                    let replace = (ModifyOperation::Replace, "description", word);
                    let _ = root.modify(&name, &[replace]);
                    touched.push(name);
                }
                1 => {
                    let list: [(&str, &[&str]); 4] = [
                        ("objectClass", &["inetOrgPerson"]),
                        ("cn", &["c"]),
                        ("sn", &["s"]),
                        ("description", &["b"]),
                    ];
                    let name = format!("uid=n{round}-{parked},{SUFFIX}");
                    assert_eq!(root.add(&name, &list), ResultCode::Success);
                }
                _ => {}
            }
        }
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        assert!(parked > 20 && touched.len() > 2, "{parked} {touched:?}");
        // Those that stayed, in the order that they had.
        let stays = |name: &&str| {
            !touched.iter().any(|other| other == name) && before.names().contains(name)
        };
        let want = before.names().into_iter().filter(stays).collect::<Vec<_>>();
        let got = answer.names().into_iter().filter(stays).collect::<Vec<_>>();
        assert_eq!(got, want, "{sort:?}");
        // None came twice, as long as the order is not read from an index meanwhile.
        let mut names = answer.names();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert!(names.len() == count || *sort == Some(SORTS[0]), "{sort:?}");
    }
}

#[test]
fn an_entry_that_moves_behind_is_not_sent_again() {
    let served = directory(|_| {});
    let mut root = served.root();
    let value = sort_value(SORTS[0]);
    let asked = Asked {
        filter: "(l=*)",
        controls: &[(SORT, true, Some(value.as_slice()))],
        // So few are found by walking the index.
        size_limit_entries: 20,
        ..Asked::default()
    };
    let mut client = served.root();
    let mut answer = Answer::default();
    let mut job = Some(begin(&mut client, &asked));
    while let Some(at) = job.take() {
        job = go_on(&mut client, at, &mut answer);
        let name = answer.names().last().copied().unwrap_or_default().to_owned();
        let moved = (ModifyOperation::Replace, "l", &["ac"][..]);
        assert_eq!(root.modify(&name, &[moved]), ResultCode::Success);
    }
    let mut names = answer.names();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), answer.entries.len(), "{:?}", answer.names());
    assert_eq!((names.len(), answer.code()), (20, ResultCode::SizeLimitExceeded));
}

#[test]
fn a_parked_search_that_nobody_waits_for_or_whose_time_is_up_ends() {
    let served = directory(|_| {});
    let value = sort_value(SORTS[2]);
    for controls in [&[][..], &[(SORT, true, Some(value.as_slice()))]] {
        let asked = Asked { time_limit_s: 5, controls, ..Asked::default() };
        // Abandoned.
        let mut client = served.root();
        let job = begin(&mut client, &asked);
        let id = job.id();
        let mut answer = Answer::default();
        let job = go_on(&mut client, job, &mut answer).unwrap();
        let abandon = client.encode(Request::Abandon(id), Controls::EMPTY);
        client.connection.feed(&abandon);
        assert!(go_on(&mut client, job, &mut answer).is_none());
        assert_eq!((answer.entries.len(), answer.code), (1, None));
        assert_eq!(client.connection.session.outstanding(), 0);
        // Late.
        let mut client = served.root();
        let job = begin(&mut client, &asked);
        let mut answer = Answer::default();
        let job = go_on(&mut client, job, &mut answer).unwrap();
        served.clock.advance(Duration::from_secs(6));
        assert!(go_on(&mut client, job, &mut answer).is_none());
        assert_eq!(answer.entries.len(), 1);
        assert_eq!(answer.code(), ResultCode::TimeLimitExceeded);
        assert_eq!(answer.controls.len(), controls.len(), "it says that it is sorted");
        assert_eq!(client.connection.session.outstanding(), 0);
    }
}

#[test]
fn what_may_not_be_seen_any_more_is_not_sent() {
    let served = directory(|_| {});
    let mut root = served.root();
    let elsewhere = format!("ou=elsewhere,{SUFFIX}");
    let value = sort_value(SORTS[2]);
    for controls in [&[][..], &[(SORT, true, Some(value.as_slice()))]] {
        let filter = "(objectClass=inetOrgPerson)";
        let asked = Asked { controls, filter, ..Asked::default() };
        let mut client = served.client();
        let before = client.search(&asked);
        let mut answer = Answer::default();
        let job = begin(&mut client, &asked);
        let job = go_on(&mut client, job, &mut answer).unwrap();
        let add = (ModifyOperation::Add, "aci", &[DENY][..]);
        assert_eq!(root.modify(&elsewhere, &[add]), ResultCode::Success);
        let mut next = Some(job);
        while let Some(job) = next.take() {
            next = go_on(&mut client, job, &mut answer);
        }
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        let is_seen = |(at, name): &(usize, &str)| *at == 0 || !name.ends_with(&elsewhere);
        let names = before.names();
        let want = names.iter().copied().enumerate().filter(is_seen).map(|(_, name)| name);
        assert_eq!(answer.names(), want.collect::<Vec<_>>());
        assert!(answer.entries.len() < before.entries.len());
        let remove = (ModifyOperation::Delete, "aci", &[DENY][..]);
        assert_eq!(root.modify(&elsewhere, &[remove]), ResultCode::Success);
    }
}

/// Whoever asks for somebody else has no session that is looked at: the search itself looks.
#[test]
fn a_search_for_somebody_else_ends_with_their_power_and_with_the_power_to_act_so() {
    const PROXIED: &str = "2.16.840.1.113730.3.4.18";
    let (gate, vip) = (format!("cn=gate,{SUFFIX}"), format!("cn=vip,{SUFFIX}"));
    let right = format!("(version 3.0; acl \"x\"; allow (proxy) userdn=\"ldap:///{gate}\";)");
    let authorization = format!("dn:{vip}");
    let controls = &[(PROXIED, true, Some(authorization.as_bytes()))];
    for change in ["vip", "gate", "right", "gone", "nothing"] {
        let served = directory(|_| {});
        let mut root = served.root();
        for (name, privilege) in [(&gate, "proxied-auth"), (&vip, "bypass-acl")] {
            let attributes: &[(&str, &[&str])] = &[
                ("objectClass", &["person"]),
                ("sn", &["x"]),
                ("userPassword", &["secret"]),
                ("ds-privilege-name", &[privilege]),
            ];
            assert_eq!(root.add(name, attributes), ResultCode::Success);
        }
        let allow = (ModifyOperation::Add, "aci", &[right.as_str()][..]);
        assert_eq!(root.modify(SUFFIX, &[allow]), ResultCode::Success);
        let mut client = served.client();
        assert_eq!(client.bind(&gate, "secret"), ResultCode::Success);
        let filter = "(objectClass=inetOrgPerson)";
        let asked = Asked { controls, filter, ..Asked::default() };
        let mut answer = Answer::default();
        let job = begin(&mut client, &asked);
        let mut next = go_on(&mut client, job, &mut answer);
        let taken = [(ModifyOperation::Replace, "ds-privilege-name", &[][..])];
        let done = match change {
            "vip" => root.modify(&vip, &taken),
            "gate" => root.modify(&gate, &taken),
            "right" => {
                let take = (ModifyOperation::Delete, "aci", &[right.as_str()][..]);
                root.modify(SUFFIX, &[take])
            }
            "gone" => root.delete(&vip),
            _ => ResultCode::Success,
        };
        assert_eq!(done, ResultCode::Success);
        while let Some(job) = next.take() {
            next = go_on(&mut client, job, &mut answer);
        }
        let (code, is_cut) = (answer.code(), answer.entries.len() <= 1);
        let want = match change {
            "nothing" => (ResultCode::Success, false),
            _ => (ResultCode::InsufficientAccessRights, true),
        };
        assert_eq!((code, is_cut), want, "{change}: {}", answer.diagnostic);
    }
}

#[test]
fn a_base_that_may_not_be_seen_is_told_by_what_was_found_before() {
    let served = directory(|_| {});
    let mut root = served.root();
    let deny = DENY.replacen("targetattr=\"*\"", "targetscope=\"base\"", 1);
    let add = (ModifyOperation::Add, "aci", &[deny.as_str()][..]);
    assert_eq!(root.modify(SUFFIX, &[add]), ResultCode::Success);
    let (mut parks, mut other) = (served.client(), served.client());
    other.connection.parks = false;
    for (filter, code) in [
        ("(uid=p1)", ResultCode::Success),
        ("(l=*)", ResultCode::Success),
        ("(uid=nobody)", ResultCode::NoSuchObject),
    ] {
        // References would tell of it, too.
        let controls = &[(MANAGE_DSA_IT, true, None)];
        let asked = Asked { filter, controls, ..Asked::default() };
        let answer = same(&mut parks, &mut other, &asked, "hidden");
        assert_eq!(answer.code(), code, "{filter}");
    }
    assert!(parks.connection.parked > 10);
}

#[test]
fn a_count_that_parks_after_each_entry_is_the_same() {
    let served = directory(|_| {});
    let mut chance = Chance::new(29, 1);
    let mut parked = 0;
    for _ in 0..100 {
        let is_root = chance.below(2) == 0;
        let client = || if is_root { served.root() } else { served.client() };
        let (mut parks, mut other) = (client(), client());
        other.connection.parks = false;
        let value = counting::request_value(Says {
            examine_max: [0, 10, 1_000][chance.below(3) as usize],
            always_examine: chance.below(2) == 0,
            even_unindexed: chance.below(2) == 0,
        });
        let mut controls = vec![(counting::REQUEST, true, Some(value.as_slice()))];
        controls.extend((chance.below(3) == 0).then_some((MANAGE_DSA_IT, true, None)));
        let (base, filter) = (*chance.pick(&BASES).unwrap(), *chance.pick(&FILTERS).unwrap());
        let asked = Asked { base, filter, controls: &controls, ..Asked::default() };
        same(&mut parks, &mut other, &asked, "count");
        parked += parks.connection.parked;
    }
    assert!(parked > 200, "they parked {parked} times");
}

const DENY: &str =
    "(targetattr=\"*\")(version 3.0; acl \"no\"; deny (all) userdn=\"ldap:///anyone\";)";

/// A list that was kept held entries of which the next plan proves nothing: such as were moved out
/// of scope, or changed so that the filter is not true of them any more, were sent all the same.
#[test]
fn what_left_the_scope_or_the_filter_is_not_sent_from_a_list_that_was_kept() {
    let sort = sort_value(&[("uid", false)]);
    let view = VlvRequest {
        before: 0,
        after: 100,
        target: VlvTarget::Offset { offset: 1, content_count: 0 },
        context: None,
    }
    .encode();
    let sorted: &[(&str, bool, Option<&[u8]>)] = &[(SORT, true, Some(&sort))];
    let viewed: &[(&str, bool, Option<&[u8]>)] =
        &[(SORT, true, Some(&sort)), (VLV, true, Some(&view))];
    for controls in [sorted, viewed] {
        for (filter, scope) in
            [("(l=*)", Scope::One), ("(sn=s)", Scope::One), ("(sn=s)", Scope::Subtree)]
        {
            let served = directory(|_| ());
            let (mut client, mut root) = (served.client(), served.root());
            let base = "ou=people,dc=example,dc=org";
            let asked = Asked { base, scope, filter, controls, ..Asked::default() };
            let before = served.root().search(&Asked { controls: &[], ..asked.clone() });
            let mut answer = Answer::default();
            let job = begin(&mut client, &asked);
            let mut job = go_on(&mut client, job, &mut answer);
            let sent = answer.names().len();
            let mut names = before.names();
            names.retain(|name| !answer.names().contains(name) && name.starts_with("uid="));
            assert!(names.len() > 4, "{} are left", names.len());
            let (moved, changed) = (names[0].to_owned(), names[1].to_owned());
            let rdn = moved.split_once(',').unwrap().0;
            let there = Some("ou=elsewhere,dc=example,dc=org");
            assert_eq!(root.rename(&moved, rdn, false, there), ResultCode::Success);
            let attribute = if filter == "(l=*)" { "l" } else { "sn" };
            let values: &[&str] = if attribute == "l" { &[] } else { &["t"] };
            let change = [(ModifyOperation::Replace, attribute, values)];
            assert_eq!(root.modify(&changed, &change), ResultCode::Success);
            while let Some(parked) = job {
                job = go_on(&mut client, parked, &mut answer);
            }
            let found = answer.names();
            assert!(found.len() > sent, "it went on");
            let is_moved = |name: &&str| name.split_once(',').is_some_and(|(leaf, _)| leaf == rdn);
            assert!(!found.iter().any(is_moved), "{filter} {scope:?}: {moved}");
            assert!(!found.contains(&changed.as_str()), "{filter} {scope:?}: {changed}");
        }
    }
}
