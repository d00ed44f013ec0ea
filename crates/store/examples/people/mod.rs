//! People for measurements, and what a thread's CPU time is.

#![allow(unreachable_pub, reason = "each example has its own copy")]

use std::time::Duration;

use ldap::dn::Dn;
use schema::{Entry, Schema};
use store::{LoadOptions, Store};

/// A point on the clock of the CPU time of this thread.
#[derive(Clone, Copy)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
        Self(Duration::from_nanos(nanoseconds))
    }

    pub fn elapsed(self) -> Duration {
        Self::now().0 - self.0
    }
}

/// One of them; each number makes another.
pub fn person(number: u64, schema: &Schema) -> Entry {
    const FIRST: [&str; 8] = ["Anna", "Bert", "Carla", "Dieter", "Eva", "Franz", "Greta", "Hans"];
    const LAST: [&str; 7] = ["Abel", "Brandt", "Conrad", "Dorn", "Engel", "Fuchs", "Graf"];
    const TOWN: [&str; 5] = ["Aachen", "Bremen", "Celle", "Dresden", "Essen"];
    let pick = |of: &[&'static str], step: u64| of[(number / step) as usize % of.len()];
    let (first, last) = (pick(&FIRST, 1), pick(&LAST, 8));
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let texts = [
        ("objectClass", "top".to_owned()),
        ("objectClass", "person".to_owned()),
        ("objectClass", "organizationalPerson".to_owned()),
        ("objectClass", "inetOrgPerson".to_owned()),
        ("uid", format!("user.{number}")),
        ("cn", format!("{first} {last}{}", number % 977)),
        ("sn", format!("{last}{}", number % 977)),
        ("givenName", format!("{first}{}", number % 331)),
        ("mail", format!("user.{number}@example.com")),
        ("telephoneNumber", format!("+1 {:03} {:03} {:04}", hash % 997, hash % 991, hash % 9973)),
        ("homePhone", format!("+1 {:03} {:03} {:04}", hash % 991, hash % 983, hash % 9967)),
        ("mobile", format!("+1 {:03} {:03} {:04}", hash % 983, hash % 977, hash % 9949)),
        ("street", format!("{} Main Street", hash % 99999)),
        ("l", format!("{} {}", pick(&TOWN, 3), hash % 100)),
        ("title", format!("{:06x}", hash >> 40)),
        ("postalCode", format!("{:05}", hash % 99991)),
        ("description", format!("This is the description for {first} {last} number {number}.")),
        ("employeeNumber", number.to_string()),
        ("initials", "ABC".to_owned()),
        ("userPassword", format!("{{SSHA512}}{hash:0128x}")),
        ("entryUUID", format!("{:08x}-0000-4000-8000-{number:012x}", hash >> 32)),
        ("createTimestamp", "20260101000000Z".to_owned()),
        ("modifyTimestamp", "20260101000000Z".to_owned()),
        ("creatorsName", "cn=Directory Manager".to_owned()),
        ("modifiersName", "cn=Directory Manager".to_owned()),
    ];
    let dn = Dn::parse(&format!("uid=user.{number},ou=People,dc=example,dc=com")).unwrap();
    let pairs = texts.iter().map(|(name, value)| (*name, value.as_bytes()));
    Entry::from_pairs(dn, pairs, schema).unwrap()
}

/// Loads so many in bulk.
pub fn load(store: &Store, count: u64) {
    let schema = Schema::builtin();
    let top = |dn: &str| {
        let pairs = [("objectClass", &b"top"[..]), ("objectClass", b"extensibleObject")];
        Entry::from_pairs(Dn::parse(dn).unwrap(), pairs, &schema).unwrap()
    };
    let entries: Vec<Entry> = (0..count.min(20_000)).map(|n| person(n, &schema)).collect();
    let mut loader = store.bulk_load(&LoadOptions::default()).unwrap();
    let start = Instant::now();
    loader.load(&top("dc=example,dc=com"), 1).unwrap();
    loader.load(&top("ou=People,dc=example,dc=com"), 2).unwrap();
    let mut made = Duration::ZERO;
    for number in 0..count {
        if let Some(entry) = entries.get(number as usize) {
            loader.load(entry, number).unwrap();
        } else {
            let before = Instant::now();
            let entry = person(number, &schema);
            made += before.elapsed();
            loader.load(&entry, number).unwrap();
        }
    }
    let added = start.elapsed() - made;
    loader.commit().unwrap();
    let all = start.elapsed() - made;
    let rate = count as f64 / all.as_secs_f64();
    println!("load: {added:?} adding, {all:?} in all, {rate:.0} entries/s");
}
