//! Searches with controls against the same search without: cut off by a limit, in pages, in order,
//! in pages that are in order.

#![allow(missing_docs, unreachable_pub, reason = "a module of tests")]

use std::cmp::Ordering;

use ldap::ber::{Reader, Tag, Writer};
use ldap::control_value::sort::{SortKey, write_sort_keys};
use ldap::result::ResultCode;

use crate::naive::{fold, number};
use crate::support::{Answer, Asked, Client, Found};
use crate::{Dice, sorted};

const PAGED: &str = "1.2.840.113556.1.4.319";
const SORT: &str = "1.2.840.113556.1.4.473";

/// By index, by index of another rule, without an index, numbers.
const ATTRIBUTES: [&str; 4] = ["title", "mail", "description", "uidNumber"];

/// An attribute, and whether the largest values come first.
type Key = (&'static str, bool);

/// Asks again in one of these ways; `want` is the whole answer.
pub fn check(dice: &mut Dice, client: &mut Client, asked: &Asked<'_>, want: &[Found], what: &str) {
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..dice.roll(3) {
        let attribute = dice.pick(&ATTRIBUTES);
        if keys.iter().all(|(known, _)| *known != attribute) {
            keys.push((attribute, dice.roll(2) == 0));
        }
    }
    let what = format!("{what}, by {keys:?}");
    let (found, is_whole) = match dice.roll(3) {
        0 => {
            let limit = dice.roll(want.len() + 2);
            let asked =
                Asked { size_limit_entries: u32::try_from(limit).unwrap(), ..asked.clone() };
            let answer = ask(client, &asked, &keys, None);
            let is_cut = limit > 0 && limit < want.len();
            let code = if is_cut { ResultCode::SizeLimitExceeded } else { ResultCode::Success };
            assert_eq!(answer.code(), code, "{what}, at most {limit}");
            assert_eq!(answer.entries.len(), if is_cut { limit } else { want.len() }, "{what}");
            (answer.entries, !is_cut)
        }
        1 => {
            let answer = ask(client, asked, &keys, None);
            assert_eq!(answer.code(), ResultCode::Success, "{what}: {}", answer.diagnostic);
            (answer.entries, true)
        }
        _ => (pages(client, asked, &keys, 1 + dice.roll(7), &what), true),
    };
    for pair in found.windows(2) {
        assert_ne!(compare(&pair[0], &pair[1], &keys), Ordering::Greater, "{what}: {pair:?}");
    }
    let all = sorted(want.to_vec());
    let (found, given) = (sorted(found.clone()), found.len());
    assert!(found.iter().all(|entry| all.contains(entry)), "{what}");
    assert!(found.windows(2).all(|pair| pair[0].dn != pair[1].dn), "{what}: an entry twice");
    assert!(!is_whole || given == all.len(), "{what}: {given} of {}", all.len());
}

fn pages(
    client: &mut Client,
    asked: &Asked<'_>,
    keys: &[Key],
    size: usize,
    what: &str,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut cookie = Vec::new();
    loop {
        let answer = ask(client, asked, keys, Some((size, &cookie)));
        assert_eq!(answer.code(), ResultCode::Success, "{what}: {}", answer.diagnostic);
        assert!(answer.entries.len() <= size, "{what}: a page of {}", answer.entries.len());
        let next = answer.controls.iter().find(|(oid, _)| oid == PAGED);
        let value = &next.expect("a page has a cookie").1;
        let mut sequence = Reader::new(value).sequence(Tag::SEQUENCE).unwrap();
        sequence.integer_i32(Tag::INTEGER).unwrap();
        cookie = sequence.octets(Tag::OCTET_STRING).unwrap().to_vec();
        found.extend(answer.entries);
        if cookie.is_empty() {
            return found;
        }
    }
}

fn ask(
    client: &mut Client,
    asked: &Asked<'_>,
    keys: &[Key],
    page: Option<(usize, &[u8])>,
) -> Answer {
    let order: Vec<SortKey<'_>> = keys
        .iter()
        .map(|&(attribute, reverse)| SortKey { attribute, rule: None, reverse })
        .collect();
    let order_value = write_sort_keys(&order);
    let mut page_value = Vec::new();
    let mut controls: Vec<(&str, bool, Option<&[u8]>)> = Vec::new();
    if !order.is_empty() {
        controls.push((SORT, true, Some(&order_value)));
    }
    if let Some((size, cookie)) = page {
        let mut writer = Writer::new(&mut page_value);
        let sequence = writer.begin(Tag::SEQUENCE);
        writer.integer(Tag::INTEGER, i64::try_from(size).unwrap());
        writer.octets(Tag::OCTET_STRING, cookie);
        writer.end(sequence);
        controls.push((PAGED, true, Some(&page_value)));
    }
    client.search(&Asked { controls: &controls, ..asked.clone() })
}

/// By the least value of each key; who has none comes last (RFC 2891 §2.2).
fn compare(one: &Found, other: &Found, keys: &[Key]) -> Ordering {
    for (attribute, reverse) in keys {
        let least = |found: &Found| {
            let texts = found.texts(attribute);
            let values = texts.iter().map(|text| match *attribute {
                "uidNumber" => (number(text), String::new()),
                _ => (0, fold(text)),
            });
            values.min()
        };
        let order = match (least(one), least(other)) {
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
