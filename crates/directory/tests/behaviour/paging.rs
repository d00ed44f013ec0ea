//! Simple paged results (RFC 2696): cookies are bound to search, asker and process, and a page
//! goes on after the last entry whatever happened in between.

use environment::{Chance as _, SeededChance};
use ldap::ber::{Reader, Tag, Writer};
use ldap::message::{DerefAliases, Scope};
use ldap::result::ResultCode;

use crate::support::{Answer, Asked, Client, SUFFIX, Served};
use crate::{add_device, add_devices};

const PAGED: &str = "1.2.840.113556.1.4.319";
const DEVICES: Asked<'_> = Asked {
    base: SUFFIX,
    scope: Scope::Subtree,
    deref: DerefAliases::Never,
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
fn a_cookie_does_not_tell_how_many_entries_there_are_in_between() {
    // The ids of entries are given in the order in which they are added, whoever may see them.
    let served = Served::new();
    add_devices(&served, 6, "x");
    let mut client = served.client();
    let cookies: Vec<Vec<u8>> = [1, 1, 2, 2, 5, 5]
        .into_iter()
        .map(|size| page(&mut client, &DEVICES, size, b"").1)
        .collect();
    for (at, one) in cookies.iter().enumerate() {
        assert_eq!(one.len(), cookies[0].len());
        for other in &cookies[at + 1..] {
            assert_ne!(one, other, "of the same position, too");
            // The same octets in the same place would be those of the position.
            let alike = one.iter().zip(other).filter(|(one, other)| one == other).count();
            assert!(alike < one.len() / 4, "{alike} of {}", one.len());
        }
    }
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
fn a_cookie_is_bound_to_what_decides_which_entries_there_are() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let mut client = served.client();
    let (_, cookie) = page(&mut client, &DEVICES, 2, b"");
    let value = [&b"\x30\x05\x02\x01\x02\x04"[..], &[cookie.len() as u8], &cookie].concat();
    let value = [&[0x30, value.len() as u8 - 2], &value[2..]].concat();
    let paged = (PAGED, true, Some(value.as_slice()));
    let answer = client.search(&Asked { controls: &[paged], ..DEVICES });
    assert_eq!(answer.entries.len(), 2);
    for other in [
        ("2.16.840.1.113730.3.4.2", true, None),
        ("1.3.6.1.4.1.4203.1.10.1", true, Some(&b"\x01\x01\x00"[..])),
        ("1.3.6.1.4.1.4203.1.10.1", true, Some(&b"\x01\x01\xff"[..])),
    ] {
        let answer = client.search(&Asked { controls: &[paged, other], ..DEVICES });
        refused(&answer, ResultCode::UnwillingToPerform);
    }
}

#[test]
fn random_octets_are_no_cookie() {
    let served = Served::new();
    add_devices(&served, 3, "x");
    let mut client = served.client();
    let mut chance = SeededChance(7);
    for round in 0..300 {
        let mut cookie = vec![0; 1 + round % 60];
        chance.fill(&mut cookie);
        let (answer, _) = page(&mut client, &DEVICES, 2, &cookie);
        assert!(answer.entries.is_empty());
        let code = answer.code();
        let is_refused =
            code == ResultCode::ProtocolError || code == ResultCode::UnwillingToPerform;
        assert!(is_refused, "{code:?} for {cookie:02x?}");
    }
}

#[test]
fn a_cookie_used_again_gives_what_is_there_now() {
    let served = Served::new();
    add_devices(&served, 6, "x");
    let (mut client, mut root) = (served.client(), served.root());
    let (_, cookie) = page(&mut client, &DEVICES, 2, b"");
    let (first, _) = page(&mut client, &DEVICES, 2, &cookie);
    assert_eq!(page(&mut client, &DEVICES, 2, &cookie).0.names(), first.names());
    assert_eq!(root.delete(&first.entries[0].dn), ResultCode::Success);
    let (again, _) = page(&mut client, &DEVICES, 2, &cookie);
    assert_eq!(again.entries[0].dn, first.entries[1].dn, "what was deleted is not told");
}

#[test]
fn what_stays_is_in_exactly_one_page_whatever_else_changes() {
    let mut chance = SeededChance(11);
    let mut below = move |most: usize| {
        let mut octets = [0; 8];
        chance.fill(&mut octets);
        usize::try_from(u64::from_be_bytes(octets) % most as u64).unwrap()
    };
    let served = Served::new();
    let (mut client, mut root) = (served.client(), served.root());
    for round in 0..6 {
        // Of these one half stays; the other may be renamed, deleted and added again.
        let name = |kind: &str, number: usize| format!("cn={kind} {round} {number},{SUFFIX}");
        for number in 0..12 {
            add_device(&mut root, &name("stays", number), "x");
            add_device(&mut root, &name("moves", number), "x");
        }
        let size = i64::try_from(1 + below(6)).unwrap();
        let (mut names, mut deleted, mut late) = (Vec::new(), Vec::new(), 0);
        let mut cookie = Vec::new();
        loop {
            let (answer, next) = page(&mut client, &DEVICES, size, &cookie);
            assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
            for entry in answer.entries {
                assert!(!deleted.contains(&entry.dn), "{} was deleted before", entry.dn);
                names.push(entry.dn);
            }
            if next.is_empty() {
                break;
            }
            cookie = next;
            for _ in 0..3 {
                let moved = name("moves", below(12));
                match below(3) {
                    0 if root.delete(&moved) == ResultCode::Success => deleted.push(moved),
                    1 => {
                        let rdn = format!("cn=moved {round} {}", names.len());
                        let _ = root.rename(&moved, &rdn, true, None);
                    }
                    // Not without end: what is added comes at the end of the pages.
                    _ if late < 10 => {
                        late += 1;
                        add_device(&mut root, &name("late", late), "x");
                    }
                    _ => {}
                }
            }
        }
        for number in 0..12 {
            let stays = name("stays", number);
            let times = names.iter().filter(|found| **found == stays).count();
            assert_eq!(times, 1, "{stays}, pages of {size}");
        }
        let mut distinct = names.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len(), "no name twice");
    }
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
fn the_servers_limit_of_all_pages_holds_for_all_of_them_together() {
    let served = Served::with(|options| options.limits.paged_total_entries_max = 7);
    add_devices(&served, 12, "x");
    let mut client = served.client();
    // A search without pages has its own limit.
    assert_eq!(client.search(&DEVICES).entries.len(), 12);
    for (asked, left) in [(0, 2), (6, 1), (9, 2)] {
        let limited = Asked { size_limit_entries: asked, ..DEVICES };
        let (answer, cookie) = page(&mut client, &limited, 5, b"");
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::Success, 5));
        let (answer, _) = page(&mut client, &limited, 5, &cookie);
        assert_eq!((answer.code(), answer.entries.len()), (ResultCode::SizeLimitExceeded, left));
    }
    let mut root = served.root();
    assert_eq!(read_all(&mut root, &DEVICES, 5).len(), 12);
    // An entry has its own.
    let name = format!("uid=anna,{SUFFIX}");
    let anna: [(&str, &[&str]); 4] = [
        ("objectClass", &["account", "simpleSecurityObject"]),
        ("uid", &["anna"]),
        ("userPassword", &["secret"]),
        ("ds-rlim-paged-total-limit", &["9"]),
    ];
    let added = root.try_add(&name, &anna);
    assert_eq!(added.code(), ResultCode::Success, "{}", added.diagnostic);
    assert_eq!(client.bind(&name, "secret"), ResultCode::Success);
    let (_, cookie) = page(&mut client, &DEVICES, 5, b"");
    let (answer, _) = page(&mut client, &DEVICES, 5, &cookie);
    assert_eq!((answer.code(), answer.entries.len()), (ResultCode::SizeLimitExceeded, 4));
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
