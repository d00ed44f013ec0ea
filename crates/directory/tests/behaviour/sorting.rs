//! Sorted searches and virtual list views (RFC 2891, draft-ietf-ldapext-ldapv3-vlv-09): whole, in
//! pages and in parts they are what sorting all entries gives, by index and in memory alike, while
//! entries come, change and go.

use std::cmp::Ordering;

use ldap::ber::{Reader, Tag, Writer};
use ldap::control_value::sort::{SortKey, SortResult, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvResponse, VlvTarget};
use ldap::message::ModifyOperation;
use ldap::result::ResultCode;
use store::FlushOptions;

use crate::support::{Answer, Asked, Client, Found, SUFFIX, Served};

const SORT: &str = "1.2.840.113556.1.4.473";
const SORT_RESPONSE: &str = "1.2.840.113556.1.4.474";
const VLV: &str = "2.16.840.1.113730.3.4.9";
const VLV_RESPONSE: &str = "2.16.840.1.113730.3.4.10";
const PAGED: &str = "1.2.840.113556.1.4.319";

/// Indexed, indexed, not indexed, indexed by another equality rule.
const ATTRIBUTES: [&str; 4] = ["l", "title", "description", "mail"];
const INDEXED: [&str; 3] = ["l", "title", "mail"];
const FILTERS: [&str; 5] = [
    "(objectClass=inetOrgPerson)",
    "(l=*)",
    "(description=*b*)",
    "(!(l=zug))",
    "(|(title=a*)(l=chur)(mail=a@x))",
];

/// Chance that can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn value(&mut self, attribute: &str) -> String {
        let word = ["a", "B", "ab", "Abc", "zug", "Chur", "bb", "y"][self.roll(8)];
        if attribute == "mail" {
            return format!("{word}@x");
        }
        match self.roll(12) {
            // Longer than what an index keeps in order, alike for a while.
            0 => format!("{}{word}", "x".repeat(204 + self.roll(3))),
            1 => format!("{}{word}", "x".repeat(230)),
            2 => format!("{word}\u{fc}"),
            _ => word.to_owned(),
        }
    }

    fn values(&mut self, attribute: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for _ in 0..[0, 1, 1, 1, 2, 3][self.roll(6)] {
            let value = self.value(attribute);
            if !values.iter().any(|known| known.to_lowercase() == value.to_lowercase()) {
                values.push(value);
            }
        }
        values
    }
}

fn add_person(root: &mut Client, dice: &mut Dice, number: usize) {
    let name = format!("uid=p{number},{SUFFIX}");
    let values: Vec<(&str, Vec<String>)> =
        ATTRIBUTES.iter().map(|one| (*one, dice.values(one))).collect();
    let texts: Vec<(&str, Vec<&str>)> = values
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(one, values)| (*one, values.iter().map(String::as_str).collect()))
        .collect();
    let mut list: Vec<(&str, &[&str])> =
        vec![("objectClass", &["inetOrgPerson"]), ("cn", &["c"]), ("sn", &["s"])];
    list.extend(texts.iter().map(|(one, values)| (*one, values.as_slice())));
    let answer = root.try_add(&name, &list);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

fn change(root: &mut Client, dice: &mut Dice, people: usize) {
    let name = format!("uid=p{},{SUFFIX}", dice.roll(people));
    if dice.roll(3) == 0 {
        // It may be gone already.
        let _ = root.delete(&name);
        return;
    }
    let attribute = ATTRIBUTES[dice.roll(4)];
    let values = dice.values(attribute);
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let _ = root.modify(&name, &[(ModifyOperation::Replace, attribute, &values)]);
}

type Key = (&'static str, bool);

fn compare(one: &Found, other: &Found, keys: &[Key]) -> Ordering {
    let least = |found: &Found, attribute: &str| {
        found.texts(attribute).iter().map(|value| value.to_lowercase()).min()
    };
    for (attribute, reverse) in keys {
        let order = match (least(one, attribute), least(other, attribute)) {
            (None, None) => Ordering::Equal,
            // One that is missing counts as the largest.
            (None, Some(_)) if *reverse => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if *reverse => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(one), Some(other)) if *reverse => other.cmp(&one),
            (Some(one), Some(other)) => one.cmp(&other),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn sort_value(keys: &[Key]) -> Vec<u8> {
    let keys: Vec<SortKey<'_>> = keys
        .iter()
        .map(|(attribute, reverse)| SortKey { attribute, rule: None, reverse: *reverse })
        .collect();
    write_sort_keys(&keys)
}

fn control<'a>(answer: &'a Answer, oid: &str) -> Option<&'a [u8]> {
    answer.controls.iter().find(|(known, _)| known == oid).map(|(_, value)| value.as_slice())
}

#[track_caller]
fn sorted(answer: &Answer, code: ResultCode) {
    let value = control(answer, SORT_RESPONSE).expect("a sort response control");
    assert_eq!(SortResult::decode(value).unwrap().code, code.code(), "{}", answer.diagnostic);
}

fn names(found: &[Found]) -> Vec<String> {
    found.iter().map(|one| one.dn.clone()).collect()
}

/// A page of a sorted search, and the cookie for the next.
fn page(
    client: &mut Client,
    filter: &str,
    sort: &[u8],
    size: i64,
    cookie: &[u8],
) -> (Answer, Vec<u8>) {
    page_of(client, filter, (sort, true), (size, cookie))
}

/// A page of a search that is sorted, if that can be where it is not critical.
fn page_of(
    client: &mut Client,
    filter: &str,
    (sort, critical): (&[u8], bool),
    (size, cookie): (i64, &[u8]),
) -> (Answer, Vec<u8>) {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::INTEGER, size);
    writer.octets(Tag::OCTET_STRING, cookie);
    writer.end(sequence);
    let controls = [(SORT, critical, Some(sort)), (PAGED, true, Some(value.as_slice()))];
    let answer = client.search(&Asked { filter, controls: &controls, ..Asked::default() });
    let next = control(&answer, PAGED).map(|value| {
        let mut outer = Reader::new(value);
        let mut fields = outer.sequence(Tag::SEQUENCE).unwrap();
        fields.integer_i32(Tag::INTEGER).unwrap();
        fields.octets(Tag::OCTET_STRING).unwrap().to_vec()
    });
    (answer, next.unwrap_or_default())
}

fn pages(client: &mut Client, filter: &str, sort: &[u8], size: i64) -> Vec<String> {
    let (mut all, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let (answer, next) = page(client, filter, sort, size, &cookie);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        sorted(&answer, ResultCode::Success);
        all.extend(names(&answer.entries));
        if next.is_empty() {
            return all;
        }
        cookie = next;
    }
}

fn part(client: &mut Client, filter: &str, sort: &[u8], request: &VlvRequest<'_>) -> Answer {
    let value = request.encode();
    let controls = [(SORT, true, Some(sort)), (VLV, true, Some(value.as_slice()))];
    client.search(&Asked { filter, controls: &controls, ..Asked::default() })
}

/// One random question, asked in every way there is.
fn check(client: &mut Client, dice: &mut Dice, primary: &[&'static str]) {
    let filter = FILTERS[dice.roll(FILTERS.len())];
    let mut keys: Vec<Key> = vec![(primary[dice.roll(primary.len())], dice.roll(2) == 0)];
    for _ in 0..dice.roll(3) {
        let attribute = ATTRIBUTES[dice.roll(4)];
        if keys.iter().all(|(known, _)| *known != attribute) {
            keys.push((attribute, dice.roll(2) == 0));
        }
    }
    let context = format!("{filter} by {keys:?}");
    let asked = Asked { filter, attributes: &["*"], ..Asked::default() };
    let mut want = client.search(&asked).entries;
    // Stable: entries that are equal stay in the order of their ids.
    want.sort_by(|one, other| compare(one, other, &keys));
    let want_names = names(&want);

    let sort = sort_value(&keys);
    let controls = [(SORT, true, Some(sort.as_slice()))];
    let whole = client.search(&Asked { filter, controls: &controls, ..Asked::default() });
    assert_eq!(whole.code(), ResultCode::Success, "{context}: {}", whole.diagnostic);
    sorted(&whole, ResultCode::Success);
    assert_eq!(names(&whole.entries), want_names, "{context}");

    let limit = 1 + dice.roll(6) as u32;
    let asked =
        Asked { filter, controls: &controls, size_limit_entries: limit, ..Asked::default() };
    let first = client.search(&asked);
    assert_eq!(
        names(&first.entries)[..],
        want_names[..want.len().min(limit as usize)],
        "{context}"
    );

    let size = 1 + dice.roll(want.len() + 2) as i64;
    assert_eq!(pages(client, filter, &sort, size), want_names, "{context} in pages of {size}");
    check_parts(client, dice, filter, &keys, &want, &context);
}

fn check_parts(
    client: &mut Client,
    dice: &mut Dice,
    filter: &str,
    keys: &[Key],
    want: &[Found],
    context: &str,
) {
    let sort = sort_value(keys);
    let mut opened: Option<Vec<u8>> = None;
    for _ in 0..4 {
        let (before, after) = (dice.roll(5) as u32, dice.roll(5) as u32);
        let offset = 1 + dice.roll(want.len() + 1);
        let value = dice.value(keys[0].0);
        let is_by_value = dice.roll(2) == 0;
        let target = if is_by_value {
            VlvTarget::Value(value.as_bytes())
        } else {
            VlvTarget::Offset { offset: offset as i32, content_count: 0 }
        };
        let request = VlvRequest { before, after, target, context: opened.as_deref() };
        let answer = part(client, filter, &sort, &request);
        let said = VlvResponse::decode(control(&answer, VLV_RESPONSE).unwrap()).unwrap();
        if !is_by_value && offset > want.len() && !want.is_empty() {
            assert_eq!(answer.code(), ResultCode::VirtualListViewError, "{context}");
            assert_eq!(said.code, ResultCode::OffsetRangeError.code(), "{context}");
            continue;
        }
        let place = if want.is_empty() {
            0
        } else if is_by_value {
            let attributes = [(keys[0].0.to_owned(), vec![value.clone().into_bytes()])];
            let asserted = Found { dn: String::new(), attributes: attributes.into() };
            let precedes = |one: &&Found| compare(one, &asserted, &keys[..1]) == Ordering::Less;
            1 + want.iter().take_while(precedes).count()
        } else {
            offset
        };
        let context = format!("{context}: {request:?}");
        assert_eq!(answer.code(), ResultCode::Success, "{context}: {}", answer.diagnostic);
        let told = (said.target_position as usize, said.content_count as usize);
        assert_eq!(told, (place, want.len()), "{context}");
        let first = place.max(1).saturating_sub(1 + before as usize).min(want.len());
        let end = (place.max(1) + after as usize).min(want.len()).max(first);
        assert_eq!(names(&answer.entries), names(&want[first..end]), "{context}");
        opened = said.context.map(<[u8]>::to_vec);
    }
}

#[test]
fn sorted_pages_and_parts_are_those_of_all_entries_sorted() {
    for (seed, is_walked) in [(1, false), (2, true), (3, false), (4, true), (6, true)] {
        let served = Served::with(|options| {
            options.limits.inline_candidates_max = if seed % 2 == 0 { 0 } else { 1_000 };
            if is_walked {
                // What has an index is not sorted in memory.
                options.limits.sort_entries_max = 40;
            }
        });
        let (mut root, mut client) = (served.root(), served.client());
        if seed == 6 {
            // Who has no value is then found by walking the index of the values.
            for attribute in INDEXED {
                let entry = format!("ds-cfg-attribute={attribute},cn=Index,cn=config");
                let presence: &[&str] = &["presence"];
                let drop = [(ModifyOperation::Delete, "ds-cfg-index-type", presence)];
                assert_eq!(root.modify(&entry, &drop), ResultCode::Success);
            }
        }
        let mut dice = Dice(seed * 7919);
        let people = 60;
        (0..people).for_each(|number| add_person(&mut root, &mut dice, number));
        let primary: &[&'static str] = if is_walked { &INDEXED } else { &ATTRIBUTES };
        for round in 0..40 {
            check(&mut client, &mut dice, primary);
            (0..dice.roll(4)).for_each(|_| change(&mut root, &mut dice, people));
            if round % 10 == 9 {
                add_person(&mut root, &mut dice, people + round);
            }
        }
    }
}

#[test]
fn pages_hold_each_entry_that_stays_once_while_others_come_and_go() {
    let served = Served::new();
    let (mut root, mut client) = (served.root(), served.client());
    let mut dice = Dice(11);
    (0..80).for_each(|number| add_person(&mut root, &mut dice, number));
    let sort = sort_value(&[("l", true), ("title", false)]);
    let (mut seen, mut cookie, mut number) = (Vec::new(), Vec::new(), 100);
    loop {
        let (answer, next) = page(&mut client, "(uid=p*)", &sort, 7, &cookie);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        seen.extend(names(&answer.entries));
        if next.is_empty() {
            break;
        }
        cookie = next;
        for _ in 0..5 {
            add_person(&mut root, &mut dice, number);
            let _ = root.delete(&format!("uid=p{},{SUFFIX}", number - 1));
            number += 1;
        }
        // The last entry of the page goes, too.
        let last = seen.last().unwrap();
        assert_eq!(root.delete(last), ResultCode::Success);
    }
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "no entry comes twice");
    let left = client.search(&Asked { filter: "(uid=p*)", ..Asked::default() });
    for name in names(&left.entries) {
        let number: usize = name[5..name.find(',').unwrap()].parse().unwrap();
        assert!(number >= 100 || seen.contains(&name), "{name} was there all the time");
    }
}

#[test]
fn what_is_sorted_in_memory_is_bounded() {
    for (entries, bytes) in [(10, 1 << 20), (1_000, 500)] {
        let served = Served::with(|options| {
            options.limits.sort_entries_max = entries;
            options.limits.sort_bytes_max = bytes;
        });
        let mut root = served.root();
        let mut dice = Dice(5);
        (0..40).for_each(|number| add_person(&mut root, &mut dice, number));
        let sort = sort_value(&[("description", false)]);
        let filter = "(objectClass=inetOrgPerson)";
        for critical in [true, false] {
            let controls = [(SORT, critical, Some(sort.as_slice()))];
            let answer = root.search(&Asked { filter, controls: &controls, ..Asked::default() });
            sorted(&answer, ResultCode::AdminLimitExceeded);
            if critical {
                assert_eq!(answer.code(), ResultCode::UnavailableCriticalExtension);
                assert!(answer.entries.is_empty());
                assert!(answer.diagnostic.contains("narrow the filter"), "{}", answer.diagnostic);
            } else {
                assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 40));
            }
        }
        let target = VlvTarget::Offset { offset: 1, content_count: 0 };
        let request = VlvRequest { before: 0, after: 3, target, context: None };
        let answer = part(&mut root, filter, &sort, &request);
        assert_eq!(answer.code(), ResultCode::VirtualListViewError);
        let said = VlvResponse::decode(control(&answer, VLV_RESPONSE).unwrap()).unwrap();
        assert_eq!(said.code, ResultCode::AdminLimitExceeded.code());
        // By an index there is no limit.
        let sort = sort_value(&[("l", false)]);
        assert_eq!(part(&mut root, filter, &sort, &request).entries.len(), 4);
    }
    // The first few are kept, the others are thrown away.
    let served = Served::with(|options| options.limits.sort_entries_max = 120);
    let mut root = served.root();
    let mut dice = Dice(5);
    (0..150).for_each(|number| add_person(&mut root, &mut dice, number));
    let sort = sort_value(&[("description", false)]);
    let (answer, cookie) = page(&mut root, "(uid=p*)", &sort, 5, &[]);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 5));
    assert!(!cookie.is_empty());
}

/// The next page of a list that was too large to be sorted was refused: its cookie was taken for
/// that of another search.
#[test]
fn pages_of_what_is_too_large_to_be_sorted_follow_each_other() {
    let served = Served::with(|options| options.limits.sort_entries_max = 20);
    let mut root = served.root();
    let mut dice = Dice(5);
    (0..40).for_each(|number| add_person(&mut root, &mut dice, number));
    let sort = sort_value(&[("description", false)]);
    let (mut all, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let page = (19, cookie.as_slice());
        let (answer, next) = page_of(&mut root, "(uid=p*)", (&sort, false), page);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        sorted(&answer, ResultCode::AdminLimitExceeded);
        all.extend(names(&answer.entries));
        cookie = next;
        if cookie.is_empty() {
            break;
        }
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 40);
}

/// `name` stands for `cn`, `sn`, `givenName` and others: of all their values the least counts,
/// wherever the order is from.
#[test]
fn a_type_with_subtypes_is_in_order_by_an_index_as_without() {
    let served = Served::with(|options| {
        options.flush = FlushOptions { index_build_percent: 100, ..FlushOptions::default() };
    });
    let mut root = served.root();
    for number in 0..60 {
        let text = |times: u32| format!("n{:02}", number * times % 61);
        let (cn, sn, given, german) = (text(7), text(11), text(13), text(17));
        let mut list: Vec<(&str, &[&str])> =
            vec![("objectClass", &["inetOrgPerson"]), ("uid", &["x"])];
        let (cn, sn, given, german) = ([&*cn], [&*sn], [&*given], [&*german]);
        list.extend([("cn", &cn[..]), ("sn", &sn[..])]);
        if number % 2 == 0 {
            list.push(("givenName", &given));
        }
        if number % 3 == 0 {
            list.push(("cn;lang-de", &german));
        }
        let name = format!("employeeNumber={number},{SUFFIX}");
        let number = [&*number.to_string()];
        list.push(("employeeNumber", &number));
        assert_eq!(root.try_add(&name, &list).code(), ResultCode::Success);
    }
    let filter = "(uid=x)";
    let answers = |client: &mut Client| {
        let mut all: Vec<Vec<String>> = Vec::new();
        for (attribute, reverse) in [("name", false), ("name", true), ("cn", false)] {
            let sort = sort_value(&[(attribute, reverse), ("employeeNumber", true)]);
            let controls = [(SORT, true, Some(sort.as_slice()))];
            for size_limit_entries in [0, 3] {
                let asked =
                    Asked { filter, size_limit_entries, controls: &controls, ..Asked::default() };
                all.push(names(&client.search(&asked).entries));
            }
        }
        for filter in
            ["(name=n07)", "(name=n1*)", "(name=*7)", "(!(name=n07))", "(name;lang-de=n51)"]
        {
            let asked = Asked { filter, ..Asked::default() };
            all.push(names(&client.search(&asked).entries));
        }
        all
    };
    let way = |root: &mut Client| {
        let sort = sort_value(&[("name", false)]);
        let controls = [(SORT, true, Some(sort.as_slice()))];
        let attributes = &["debugsearchindex"];
        let asked = Asked {
            filter,
            attributes,
            size_limit_entries: 3,
            controls: &controls,
            ..Asked::default()
        };
        root.search(&asked).entries[0].texts("debugsearchindex")[0].clone()
    };
    let mut client = served.client();
    let without = answers(&mut client);
    assert!(without.iter().all(|names| !names.is_empty()), "{without:?}");
    assert!(way(&mut root).ends_with("sort=name[NOT-INDEXED]"));
    let index: &[(&str, &[&str])] = &[
        ("objectClass", &["top", "ds-cfg-backend-index"]),
        ("ds-cfg-attribute", &["name"]),
        ("ds-cfg-index-type", &["equality", "substring"]),
    ];
    let name = "ds-cfg-attribute=name,cn=Index,cn=config";
    assert_eq!(root.try_add(name, index).code(), ResultCode::Success);
    while !way(&mut root).ends_with("sort=name[INDEX:name.equality]") {
        std::thread::yield_now();
    }
    assert_eq!(answers(&mut client), without);
    assert_eq!(answers(&mut root), without);
}

#[test]
fn the_order_tells_nothing_about_what_may_not_be_searched() {
    let served = Served::new();
    let (mut root, mut client) = (served.root(), served.client());
    for (name, password) in [("a", "{x}zz"), ("b", "{x}aa"), ("c", "{x}mm")] {
        let name = format!("uid={name},{SUFFIX}");
        let list: [(&str, &[&str]); 4] = [
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["c"]),
            ("sn", &["s"]),
            ("userPassword", &[password]),
        ];
        assert_eq!(root.add(&name, &list), ResultCode::Success);
    }
    let keys = [SortKey {
        attribute: "userPassword",
        rule: Some("octetStringOrderingMatch"),
        reverse: false,
    }];
    let sort = write_sort_keys(&keys);
    let controls = [(SORT, false, Some(sort.as_slice()))];
    let asked = Asked { filter: "(uid=*)", controls: &controls, ..Asked::default() };
    let answer = client.search(&asked);
    sorted(&answer, ResultCode::InsufficientAccessRights);
    assert_eq!(answer.names(), client.search(&Asked { controls: &[], ..asked.clone() }).names());
    sorted(&root.search(&asked), ResultCode::Success);
}

#[test]
fn cookies_and_contexts_are_of_one_list_and_asker() {
    let served = Served::new();
    let (mut root, mut client) = (served.root(), served.client());
    let mut dice = Dice(3);
    (0..20).for_each(|number| add_person(&mut root, &mut dice, number));
    let sort = sort_value(&[("l", false)]);
    let (_, cookie) = page(&mut client, "(uid=p*)", &sort, 3, &[]);
    let refuse = |client: &mut Client, filter: &str, sort: &[u8], cookie: &[u8]| {
        let (answer, _) = page(client, filter, sort, 3, cookie);
        assert!(answer.entries.is_empty());
        assert_eq!(answer.code(), ResultCode::UnwillingToPerform, "{}", answer.diagnostic);
    };
    refuse(&mut root, "(uid=p*)", &sort, &cookie);
    refuse(&mut client, "(uid=p1*)", &sort, &cookie);
    refuse(&mut client, "(uid=p*)", &sort_value(&[("l", true)]), &cookie);
    for at in 0..cookie.len() {
        let mut forged = cookie.clone();
        forged[at] ^= 1;
        refuse(&mut client, "(uid=p*)", &sort, &forged);
    }
    let target = VlvTarget::Offset { offset: 1, content_count: 0 };
    let request = VlvRequest { before: 0, after: 3, target, context: None };
    let answer = part(&mut client, "(uid=p*)", &sort, &request);
    let said = VlvResponse::decode(control(&answer, VLV_RESPONSE).unwrap()).unwrap();
    let context = said.context.unwrap().to_vec();
    for (at, octet) in [(usize::MAX, 0), (0, 1), (context.len() - 1, 0x80)] {
        let mut sent = context.clone();
        if let Some(place) = sent.get_mut(at) {
            *place ^= octet;
        }
        let request = VlvRequest { context: Some(&sent), ..request };
        let good = part(&mut client, "(uid=p*)", &sort, &request);
        assert_eq!(good.code() == ResultCode::Success, at == usize::MAX);
        let other = part(&mut root, "(uid=p*)", &sort, &request);
        assert_eq!(other.code(), ResultCode::VirtualListViewError);
    }
}

#[test]
fn cookies_and_contexts_tell_neither_keys_nor_places_nor_changes() {
    let served = Served::new();
    let (mut root, mut client) = (served.root(), served.client());
    let long = "x".repeat(600);
    for (number, title) in [("1", "a"), ("2", "secret"), ("3", long.as_str())] {
        let name = format!("uid=p{number},{SUFFIX}");
        let attributes: [(&str, &[&str]); 4] = [
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["c"]),
            ("sn", &["s"]),
            ("title", &[title]),
        ];
        assert_eq!(root.add(&name, &attributes), ResultCode::Success);
    }
    add_person(&mut root, &mut Dice(5), 4);
    for reverse in [false, true] {
        let sort = sort_value(&[("title", reverse)]);
        let mut sealed = Vec::new();
        for size in [1, 2, 3, 3] {
            sealed.push(page(&mut client, "(uid=p*)", &sort, size, &[]).1);
        }
        is_opaque(&sealed);
        let mut contexts = Vec::new();
        for offset in [1, 2, 4, 4] {
            let target = VlvTarget::Offset { offset, content_count: 0 };
            let request = VlvRequest { before: 0, after: 0, target, context: None };
            let answer = part(&mut client, "(uid=p*)", &sort, &request);
            let said = VlvResponse::decode(control(&answer, VLV_RESPONSE).unwrap()).unwrap();
            contexts.push(said.context.unwrap().to_vec());
            let change = [(ModifyOperation::Replace, "l", &["chur"] as &[&str])];
            assert_eq!(root.modify(&format!("uid=p1,{SUFFIX}"), &change), ResultCode::Success);
        }
        is_opaque(&contexts);
    }
}

/// All are equally long, no two are alike, and no key is in them, in either direction.
#[track_caller]
fn is_opaque(sealed: &[Vec<u8>]) {
    for (at, one) in sealed.iter().enumerate() {
        assert!(!one.is_empty() && one.len() == sealed[0].len(), "{sealed:02x?}");
        for key in [&b"secret"[..], b"xxxxxx"] {
            let reversed: Vec<u8> = key.iter().map(|octet| !octet).collect();
            let holds = |key: &[u8]| one.windows(key.len()).any(|octets| octets == key);
            assert!(!holds(key) && !holds(&reversed), "{one:02x?}");
        }
        for other in &sealed[at + 1..] {
            let alike = one.iter().zip(other).filter(|(one, other)| one == other).count();
            assert!(alike < one.len() / 4, "{alike} of {}", one.len());
        }
    }
}
