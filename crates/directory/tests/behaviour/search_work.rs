//! What one search may cost besides entries: the work of testing them, whatever the filter is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use environment::{Clock, Timestamp};
use ldap::ber::{Tag, Writer};
use ldap::control_value::sort::{SortKey, SortResult, write_sort_keys};
use ldap::control_value::vlv::{VlvRequest, VlvTarget};
use ldap::filter::Filter;
use ldap::message::{
    CompareRequest, Control, ControlsBuf, ModifyOperation, ModifyRequest, Request, Scope,
};
use ldap::result::ResultCode;

use crate::add_devices;
use crate::support::{Asked, SUFFIX, Served, modifications};

/// A filter of many terms that nothing matches and no index answers.
fn costly(terms: usize) -> String {
    let terms = (0..terms).map(|term| format!("(description~=nobody{term})")).collect::<String>();
    format!("(|{terms})")
}

/// Devices whose descriptions are long.
fn add_long(served: &Served, count: usize) {
    add_devices(served, count, &"some words and others ".repeat(500));
}

#[test]
fn a_costly_filter_is_not_worked_off_where_requests_are_read() {
    // A filter of 50 KB held the thread for seconds: only candidates and octets of the answer were
    // counted.
    let served = Served::with(|options| options.limits.inline_candidates_max = 1_000);
    add_long(&served, 5);
    let mut client = served.client();
    let search = |filter: &str, base: &str| {
        let mut client = served.client();
        let scope = if base == SUFFIX { Scope::Subtree } else { Scope::Base };
        let asked = Asked { filter, base, scope, ..Asked::default() };
        let code = client.search(&asked).code();
        (code, client.connection.jobs)
    };
    let device = format!("cn=device 1,{SUFFIX}");
    assert_eq!(search(&costly(1), &device), (ResultCode::Success, 0));
    assert_eq!(search(&costly(900), SUFFIX), (ResultCode::AdminLimitExceeded, 1));
    // Of a single candidate, too.
    assert_eq!(search(&costly(50), &device), (ResultCode::Success, 1));
    // One that is larger still is not even resolved there.
    assert_eq!(search(&costly(2_000), &format!("cn=none,{SUFFIX}")).1, 1);
    // What indexes answer is not tested.
    let names = (0..900).map(|number| format!("(cn=device {number})")).collect::<String>();
    let filter = format!("(|{names})");
    let answer = client.search(&Asked { filter: &filter, ..Asked::default() });
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 5));
}

#[test]
fn the_work_of_a_search_is_limited_by_who_asks() {
    let served = Served::with(|options| {
        options.limits.search_work_anonymous_max = 10;
        options.limits.search_work_max = 100;
        options.limits.unindexed_entries = 1_000;
    });
    add_long(&served, 5);
    let mut root = served.root();
    let name = |who: &str| format!("uid={who},{SUFFIX}");
    for (who, given) in [("plain", None), ("more", Some("0")), ("less", Some("1"))] {
        let mut attributes: Vec<(&str, &[&str])> = vec![
            ("objectClass", &["account", "simpleSecurityObject"]),
            ("userPassword", &["secret"]),
        ];
        let values = given.map(|given| [given]);
        if let Some(values) = &values {
            attributes.push(("ds-rlim-search-work-limit", values));
        }
        let answer = root.try_add(&name(who), &attributes);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
    }
    // Each term reads 11,000 octets of five entries, letter by letter: some 3.5 million steps.
    let check = |who: Option<&str>, terms: usize, want: ResultCode| {
        let mut client = match who {
            Some("root") => served.root(),
            Some(_) | None => served.client(),
        };
        if let Some(who) = who.filter(|who| *who != "root") {
            assert_eq!(client.bind(&name(who), "secret"), ResultCode::Success);
        }
        let filter = costly(terms);
        let answer = client.search(&Asked { filter: &filter, ..Asked::default() });
        assert_eq!(answer.code(), want, "{who:?} {terms}: {}", answer.diagnostic);
        if want != ResultCode::Success {
            assert!(answer.diagnostic.contains("more work than allowed"), "{}", answer.diagnostic);
        }
    };
    let (done, ended) = (ResultCode::Success, ResultCode::AdminLimitExceeded);
    check(None, 2, done);
    check(None, 10, ended);
    check(Some("plain"), 10, done);
    check(Some("plain"), 100, ended);
    check(Some("less"), 3, ended);
    check(Some("more"), 100, done);
    check(Some("root"), 100, done);
}

/// An assertion in a control (RFC 4528) of so many costly terms.
fn asserts(terms: usize) -> Vec<u8> {
    let (mut value, filter) = (Vec::new(), costly(terms));
    Filter::parse(&filter).unwrap().encode(&mut Writer::new(&mut value));
    value
}

/// What is asserted of an entry was tested whatever it cost, where requests are read and where
/// updates are decided: a few such requests held everybody up for as long as one liked.
#[test]
fn what_is_asserted_costs_no_more_than_a_search() {
    const ASSERTION: &str = "1.3.6.1.1.12";
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 300);
    add_long(&served, 1);
    let device = format!("cn=device 0,{SUFFIX}");
    let mut root = served.root();
    for (terms, of_search, of_compare, of_update) in [
        (
            1,
            (ResultCode::AssertionFailed, 0),
            ResultCode::AssertionFailed,
            ResultCode::AssertionFailed,
        ),
        (
            20,
            (ResultCode::AssertionFailed, 1),
            ResultCode::AdminLimitExceeded,
            ResultCode::AssertionFailed,
        ),
        (
            900,
            (ResultCode::AdminLimitExceeded, 1),
            ResultCode::AdminLimitExceeded,
            ResultCode::AdminLimitExceeded,
        ),
        (
            1_000,
            (ResultCode::AdminLimitExceeded, 0),
            ResultCode::AdminLimitExceeded,
            ResultCode::AdminLimitExceeded,
        ),
    ] {
        let value = asserts(terms);
        let controls = &[(ASSERTION, true, Some(value.as_slice()))];
        let mut client = served.client();
        let asked = Asked { base: &device, scope: Scope::Base, controls, ..Asked::default() };
        let code = client.search(&asked).code();
        assert_eq!((code, client.connection.jobs), of_search, "{terms}");
        let mut list = ControlsBuf::new();
        list.push(Control { oid: ASSERTION, critical: true, value: Some(&value) });
        let compare =
            Request::Compare(CompareRequest { name: &device, description: "cn", value: b"x" });
        assert_eq!(client.request(compare, list.as_ref()).code(), of_compare, "{terms}");
        let changes = modifications(&[(ModifyOperation::Replace, "serialNumber", &["1"])]);
        let modify = Request::Modify(ModifyRequest { name: &device, changes: changes.as_ref() });
        assert_eq!(root.request(modify, list.as_ref()).code(), of_update, "{terms}");
    }
    // The schema has many values, and everybody reads it.
    let rules = (0..900).map(|number| format!("(:2.5.13.30:=2.99.{number})")).collect::<String>();
    let mut value = Vec::new();
    Filter::parse(&format!("(|{rules})")).unwrap().encode(&mut Writer::new(&mut value));
    let controls = &[(ASSERTION, true, Some(value.as_slice()))];
    let asked = Asked { base: "cn=schema", scope: Scope::Base, controls, ..Asked::default() };
    let mut client = served.client();
    let code = client.search(&asked).code();
    assert_eq!((code, client.connection.jobs), (ResultCode::AdminLimitExceeded, 1));
}

/// So was picking values (RFC 3876), item by item for each value.
#[test]
fn picking_values_is_work() {
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 30);
    add_long(&served, 1);
    let device = format!("cn=device 0,{SUFFIX}");
    for (base, items, want) in [
        (&*device, 1, (ResultCode::Success, 0)),
        (&device, 100, (ResultCode::Success, 1)),
        ("cn=schema", 100, (ResultCode::AdminLimitExceeded, 1)),
    ] {
        let mut value = Vec::new();
        let mut writer = Writer::new(&mut value);
        let list = writer.begin(Tag::SEQUENCE);
        for item in 0..items {
            Filter::parse(&format!("(description=nobody {item})")).unwrap().encode(&mut writer);
        }
        writer.end(list);
        let controls = &[("1.2.826.0.1.3344810.2.3", true, Some(value.as_slice()))];
        let attributes = &["*", "+"];
        let asked = Asked { base, scope: Scope::Base, controls, attributes, ..Asked::default() };
        let mut client = served.client();
        let code = client.search(&asked).code();
        assert_eq!((code, client.connection.jobs), want, "{base} {items}");
    }
}

#[test]
fn a_search_that_is_ended_returns_what_it_found_before() {
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 10);
    add_long(&served, 50);
    let filter = format!("(|(cn=device 1)(cn=device 49){})", costly(1));
    let search = Asked { filter: &filter, ..Asked::default() };
    let answer = served.client().search(&search);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::AdminLimitExceeded, 1));
    assert_eq!(served.root().search(&search).entries.len(), 2);
}

/// A clock by which so many milliseconds go by whenever somebody looks.
struct TickingClock(AtomicU64, u64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_225_600_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(self.1, Ordering::Relaxed))
    }
}

#[test]
fn the_time_is_looked_at_while_one_entry_is_tested() {
    // It was looked at between entries only: one with many values, and a filter of many terms, took
    // any time.
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 0);
    add_long(&served, 2);
    let served = served.under(Arc::new(TickingClock(AtomicU64::default(), 1)));
    let filter = costly(900);
    let base = format!("cn=device 1,{SUFFIX}");
    let search = |time_limit_s: u32| {
        let scope = Scope::Base;
        let asked = Asked { filter: &filter, base: &base, scope, time_limit_s, ..Asked::default() };
        served.client().search(&asked).code()
    };
    assert_eq!(search(0), ResultCode::Success);
    assert_eq!(search(1), ResultCode::TimeLimitExceeded);
}

#[test]
fn subordinates_are_counted_once_however_often_a_filter_asks() {
    // Each term of a filter read up to a thousand subordinates again, of one candidate and on the
    // thread that reads requests.
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 4);
    add_devices(&served, 300, "x");
    let terms = (1_000..1_500).map(|term| format!("(numSubordinates={term})")).collect::<String>();
    let filter = format!("(|{terms})");
    let asked = Asked { filter: &filter, scope: Scope::Base, ..Asked::default() };
    assert_eq!(served.client().search(&asked).code(), ResultCode::Success);
}

/// A value that is not ASCII is normalized whole, which nothing interrupts: an entry with one of
/// megabytes held the writer, and the thread that reads requests, for a second at a time.
#[test]
fn preparing_a_value_is_counted_before_it_is_done() {
    const ASSERTION: &str = "1.3.6.1.1.12";
    const VALUE_BYTES: usize = 1 << 20;
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 50);
    let long = "\u{FC}".repeat(VALUE_BYTES / 2);
    add_devices(&served, 1, &long);
    let device = format!("cn=device 0,{SUFFIX}");
    let mut asserted = Vec::new();
    let filter = "(description=*nobody*)";
    Filter::parse(filter).unwrap().encode(&mut Writer::new(&mut asserted));
    let mut root = served.root();
    let mut client = served.client();
    let too_much = ResultCode::AdminLimitExceeded;

    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: ASSERTION, critical: true, value: Some(&asserted) });
    let changes = modifications(&[(ModifyOperation::Replace, "l", &["x"])]);
    let request = ModifyRequest { name: &device, changes: changes.as_ref() };
    let answer = root.request(Request::Modify(request), controls.as_ref());
    assert_eq!(answer.code(), too_much, "an update with an assertion");

    let asked = Asked { base: &device, scope: Scope::Base, filter, ..Asked::default() };
    assert_eq!((root.search(&asked).code(), root.connection.jobs), (ResultCode::Success, 1));
    assert_eq!((client.search(&asked).code(), client.connection.jobs), (too_much, 1));

    // What is compared, and what it is compared with.
    let same = format!("{long} ");
    for value in ["x", &same] {
        let mut root = served.root();
        let code = root.compare(&device, "description", value);
        let want = if value == "x" { ResultCode::CompareFalse } else { ResultCode::CompareTrue };
        assert_eq!((code, root.connection.jobs), (want, 1));
        let mut client = served.client();
        let code = client.compare(&device, "description", value);
        assert_eq!((code, client.connection.jobs), (too_much, 1));
    }
    let code = client.compare(&device, "cn", &same);
    assert_eq!((code, client.connection.jobs), (too_much, 2));
    assert_eq!(client.compare(&device, "cn", "DEVICE 0"), ResultCode::CompareTrue);
    assert_eq!(client.compare("", "objectClass", "TOP"), ResultCode::CompareTrue);
    assert_eq!(client.connection.jobs, 2);
    assert_eq!(client.compare("", "objectClass", &same), too_much, "never a job");
    assert_eq!(client.connection.jobs, 2);
}

#[test]
fn a_compare_with_a_large_group_is_a_job_and_tells_the_same() {
    let served = Served::new();
    let mut root = served.root();
    let members = (0..5_000).map(|n| format!("uid=user.{n},{SUFFIX}")).collect::<Vec<_>>();
    let members = members.iter().map(String::as_str).collect::<Vec<_>>();
    let group = format!("cn=large,{SUFFIX}");
    let attributes: &[(&str, &[&str])] =
        &[("objectClass", &["groupOfNames"]), ("member", &members)];
    assert_eq!(root.add(&group, attributes), ResultCode::Success);
    let mut client = served.client();
    let mut check = |value: &str, want: (ResultCode, usize)| {
        let code = client.compare(&group, "member", value);
        assert_eq!((code, client.connection.jobs), want, "{value}");
    };
    check(&format!("UID=user.5,{SUFFIX}"), (ResultCode::CompareTrue, 0));
    check(&format!("UID=user.4999,{SUFFIX}"), (ResultCode::CompareTrue, 1));
    check(&format!("uid=nobody,{SUFFIX}"), (ResultCode::CompareFalse, 2));
    check("no name", (ResultCode::InvalidAttributeSyntax, 2));
}

/// A sort by some keys took any time: reading the candidates, preparing their values and comparing
/// the keys was no work.
#[test]
fn sorting_is_work() {
    const SORT: &str = "1.2.840.113556.1.4.473";
    const SORT_RESPONSE: &str = "1.2.840.113556.1.4.474";
    const VLV: &str = "2.16.840.1.113730.3.4.9";
    // As many octets, which take longer; and many that are short.
    let (plain, unicode) = ("x".repeat(1_000), "\u{FC}".repeat(500));
    for (count, description, want) in [
        (100, plain.as_str(), ResultCode::Success),
        (100, &unicode, ResultCode::AdminLimitExceeded),
        (4_000, "x", ResultCode::AdminLimitExceeded),
    ] {
        let served = Served::with(|options| {
            options.limits.search_work_anonymous_max = 5;
            options.limits.size_limit_entries = 0;
        });
        add_devices(&served, count, description);
        let keys = ["description", "cn"].map(|attribute| SortKey {
            attribute,
            rule: None,
            reverse: false,
        });
        let keys = write_sort_keys(&keys);
        let target = VlvTarget::Offset { offset: 1, content_count: 0 };
        let view = VlvRequest { before: 0, after: 9, target, context: None }.encode();
        let sort = (SORT, true, Some(keys.as_slice()));
        let list = [sort, (VLV, true, Some(view.as_slice()))];
        for controls in [&list[..1], &list[..]] {
            let filter = "(objectClass=*)";
            let asked = Asked { filter, controls, ..Asked::default() };
            let answer = served.client().search(&asked);
            assert_eq!(answer.code(), want, "{count}: {}", answer.diagnostic);
            if want != ResultCode::Success {
                assert!(answer.diagnostic.contains("more work than"), "{}", answer.diagnostic);
                assert!(answer.entries.is_empty());
                let told = answer.controls.iter().find(|(oid, _)| oid == SORT_RESPONSE).unwrap();
                assert_eq!(SortResult::decode(&told.1).unwrap().code, want.code());
            }
            let answer = served.root().search(&asked);
            assert_eq!(answer.code(), ResultCode::Success, "{count}: {}", answer.diagnostic);
        }
        let asked = Asked { filter: "(objectClass=*)", ..Asked::default() };
        assert_eq!(served.client().search(&asked).entries.len(), count + 1, "unsorted");
    }
}

/// The time was looked at between candidates, and not while their keys were prepared.
#[test]
fn the_time_is_looked_at_while_keys_are_taken() {
    const SORT: &str = "1.2.840.113556.1.4.473";
    let served = Served::with(|options| options.limits.search_work_anonymous_max = 0);
    let texts = (0..100).map(|n| format!("{n} {}", "\u{FC}".repeat(200))).collect::<Vec<_>>();
    let values = texts.iter().map(String::as_str).collect::<Vec<_>>();
    let attributes: &[(&str, &[&str])] = &[("objectClass", &["device"]), ("description", &values)];
    let mut root = served.root();
    for number in 0..10 {
        let name = format!("cn=device {number},{SUFFIX}");
        assert_eq!(root.add(&name, attributes), ResultCode::Success);
    }
    drop(root);
    // Some 33 million steps, and a look at each 250,000.
    let served = served.under(Arc::new(TickingClock(AtomicU64::default(), 10)));
    let keys = [SortKey { attribute: "description", rule: None, reverse: false }];
    let keys = write_sort_keys(&keys);
    let controls = &[(SORT, true, Some(keys.as_slice()))];
    for (time_limit_s, want) in [(0, ResultCode::Success), (1, ResultCode::TimeLimitExceeded)] {
        let asked = Asked { filter: "(cn=*)", controls, time_limit_s, ..Asked::default() };
        assert_eq!(served.client().search(&asked).code(), want);
    }
}
