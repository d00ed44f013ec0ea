//! Simple paged results (RFC 2696): cookies are bound to search, asker and process, and a page
//! goes on after the last entry whatever happened in between.

use ldap::ber::{Reader, Tag, Writer};
use ldap::message::Scope;
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};
use crate::{add_device, add_devices};

const PAGED: &str = "1.2.840.113556.1.4.319";
const DEVICES: Asked<'_> = Asked {
    base: SUFFIX,
    scope: Scope::Subtree,
    filter: "(objectClass=device)",
    attributes: &["cn"],
    size_limit_entries: 0,
    time_limit_s: 0,
    controls: &[],
};

/// A page of `search`; the answer and the cookie for the next one.
fn page(client: &mut Client, search: &Asked<'_>, size: i64, cookie: &[u8]) -> (Answer, Vec<u8>) {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let sequence = writer.begin(Tag::SEQUENCE);
    writer.integer(Tag::INTEGER, size);
    writer.octets(Tag::OCTET_STRING, cookie);
    writer.end(sequence);
    let controls = [(PAGED, true, Some(value.as_slice()))];
    let answer = client.search(&Asked { controls: &controls, ..search.clone() });
    let next = answer.controls.iter().find(|(oid, _)| oid == PAGED).map(|(_, value)| {
        let mut outer = Reader::new(value);
        let mut sequence = outer.sequence(Tag::SEQUENCE).unwrap();
        sequence.integer_i32(Tag::INTEGER).unwrap();
        sequence.octets(Tag::OCTET_STRING).unwrap().to_vec()
    });
    assert_eq!(next.is_some(), answer.code() == ResultCode::Success, "{answer:?}");
    (answer, next.unwrap_or_default())
}

/// All pages; the names in the order they came.
fn read_all(client: &mut Client, search: &Asked<'_>, size: i64) -> Vec<String> {
    let mut names = Vec::new();
    let mut cookie = Vec::new();
    loop {
        let (answer, next) = page(client, search, size, &cookie);
        assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        assert!(answer.entries.len() <= usize::try_from(size).unwrap());
        names.extend(answer.entries.into_iter().map(|entry| entry.dn));
        if next.is_empty() {
            return names;
        }
        cookie = next;
    }
}

#[track_caller]
fn refused(answer: &Answer, code: ResultCode) {
    assert_eq!(answer.code(), code, "{}", answer.diagnostic);
    assert!(answer.entries.is_empty());
}

#[test]
fn pages_of_every_size_hold_each_entry_once() {
    for inline_candidates_max in [0, 1_000] {
        let served = Served::with(|options| {
            options.limits.inline_candidates_max = inline_candidates_max;
        });
        add_devices(&served, 12, "x");
        let mut client = served.client();
        let all = client.search(&DEVICES);
        for size in 1..15 {
            assert_eq!(read_all(&mut client, &DEVICES, size), all.names(), "page size {size}");
        }
        assert_eq!(client.connection.jobs > 0, inline_candidates_max == 0);
    }
}

#[test]
fn an_altered_cookie_is_refused() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let mut client = served.client();
    let (_, cookie) = page(&mut client, &DEVICES, 2, b"");
    for index in 0..cookie.len() {
        let mut altered = cookie.clone();
        altered[index] ^= 1;
        let (answer, _) = page(&mut client, &DEVICES, 2, &altered);
        refused(&answer, ResultCode::UnwillingToPerform);
    }
    for length in 1..cookie.len() {
        let (answer, _) = page(&mut client, &DEVICES, 2, &cookie[..length]);
        refused(&answer, ResultCode::ProtocolError);
    }
    let (answer, _) = page(&mut client, &DEVICES, 2, &[&cookie[..], b"x"].concat());
    refused(&answer, ResultCode::ProtocolError);
    let (answer, _) = page(&mut client, &DEVICES, 2, &cookie);
    assert_eq!(answer.entries.len(), 2, "the true one still goes on");
}

#[test]
fn a_cookie_of_another_search_is_refused() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let mut client = served.client();
    let (_, cookie) = page(&mut client, &DEVICES, 2, b"");
    for other in [
        Asked { filter: "(objectClass=*)", ..DEVICES },
        Asked { scope: Scope::One, ..DEVICES },
        Asked { base: "DC=example,dc=org", ..DEVICES },
    ] {
        let (answer, _) = page(&mut client, &other, 2, &cookie);
        refused(&answer, ResultCode::UnwillingToPerform);
    }
    let (answer, _) = page(&mut client, &Asked { attributes: &["*"], ..DEVICES }, 3, &cookie);
    assert_eq!(answer.entries.len(), 3, "size and attributes may differ");
}

#[test]
fn a_cookie_of_another_asker_is_refused() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let (_, cookie) = page(&mut served.client(), &DEVICES, 2, b"");
    let (answer, _) = page(&mut served.root(), &DEVICES, 2, &cookie);
    refused(&answer, ResultCode::UnwillingToPerform);
    let (answer, _) = page(&mut served.client(), &DEVICES, 2, &cookie);
    assert_eq!(answer.entries.len(), 2, "another connection of the same asker may go on");
}

#[test]
fn a_cookie_of_an_earlier_process_is_refused() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let (_, cookie) = page(&mut served.client(), &DEVICES, 2, b"");
    let served = served.reopen();
    let (answer, _) = page(&mut served.client(), &DEVICES, 2, &cookie);
    refused(&answer, ResultCode::UnwillingToPerform);
}

#[test]
fn changes_between_pages_neither_repeat_nor_lose_other_entries() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let (mut client, mut root) = (served.client(), served.root());
    let (first, cookie) = page(&mut client, &DEVICES, 3, b"");
    let last = &first.entries[2].dn;
    assert_eq!(root.delete(last), ResultCode::Success, "even the entry the page ended at");
    assert_eq!(root.delete(&format!("cn=device 4,{SUFFIX}")), ResultCode::Success);
    assert_eq!(
        root.rename(&format!("cn=device 3,{SUFFIX}"), "cn=renamed", true, None),
        ResultCode::Success
    );
    add_device(&mut root, &format!("cn=late,{SUFFIX}"), "x");
    let (second, cookie) = page(&mut client, &DEVICES, 10, &cookie);
    let names = ["cn=renamed,", "cn=device 5,", "cn=late,"].map(|rdn| format!("{rdn}{SUFFIX}"));
    assert_eq!(second.names(), names);
    assert!(cookie.is_empty());
}

#[test]
fn the_clients_size_limit_holds_for_all_pages_together() {
    let served = Served::new();
    add_devices(&served, 12, "x");
    let mut client = served.client();
    let limited = Asked { size_limit_entries: 7, ..DEVICES };
    let (answer, cookie) = page(&mut client, &limited, 5, b"");
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 5));
    let (answer, _) = page(&mut client, &limited, 5, &cookie);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::SizeLimitExceeded, 2));
}

#[test]
fn the_servers_size_limit_holds_for_each_page() {
    let served = Served::with(|options| options.limits.size_limit_entries = 3);
    add_devices(&served, 12, "x");
    let mut client = served.client();
    assert_eq!(client.search(&DEVICES).code(), ResultCode::SizeLimitExceeded);
    assert_eq!(read_all(&mut client, &DEVICES, 3).len(), 12);
    let (answer, _) = page(&mut client, &DEVICES, 4, b"");
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::SizeLimitExceeded, 3));
}

#[test]
fn a_page_of_size_zero_ends_the_paging() {
    let served = Served::new();
    add_devices(&served, 4, "x");
    let mut client = served.client();
    let (_, cookie) = page(&mut client, &DEVICES, 2, b"");
    let (answer, next) = page(&mut client, &DEVICES, 0, &cookie);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 0));
    assert!(next.is_empty());
    let (answer, _) = page(&mut client, &DEVICES, -1, b"");
    refused(&answer, ResultCode::ProtocolError);
}

#[test]
fn the_root_dse_and_the_subschema_are_one_page() {
    let served = Served::new();
    let mut client = served.client();
    for base in ["", "cn=schema"] {
        let search = Asked { base, scope: Scope::Base, filter: "(objectClass=*)", ..DEVICES };
        let (answer, next) = page(&mut client, &search, 5, b"");
        assert_eq!(answer.entries.len(), 1);
        assert!(next.is_empty());
    }
}
