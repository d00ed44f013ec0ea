//! What filters of a kind cost in the store: planning, walking the candidates and testing them, in
//! CPU time of one thread (Linux), for a data directory of people of `examples/people.template`.
//! Nothing else is in it: no connection, no access control, no answer.
//!
//! `cargo run --release -p store --example filters -- DATA`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement for the terminal"
)]

#[path = "people/mod.rs"]
#[allow(dead_code, reason = "shared with other examples")]
mod people;

use std::path::Path;
use std::sync::Arc;

use ldap::filter::Filter;
use ldap::message::Scope;
use schema::{DnKey, EntryId, ResolvedFilter, Schema, Truth};
use store::{Ask, Resolved, Store, StoreOptions, StoreReader};

use people::Instant;

/// Filters of each kind.
const FILTERS: u64 = 2000;
/// The best of so many rounds: other work on the machine only adds.
const ROUNDS: usize = 5;

/// The filters of `cargo xtask bench`; `N` is a person's number, `U`, `M` and `P` are digits,
/// as many as the size of the directory asks for.
const KINDS: [(&str, &str); 9] = [
    ("exact", "(uid=user.N)"),
    ("uid substring", "(&(uid=user.U*)(l=Clear Falls))"),
    ("complex + exact", "(&(uid=user.N)(telephoneNumber=*123*)(title=*or))"),
    ("complex + uid substring", "(&(telephoneNumber=*P*)(|(title=*or)(uid=user.U*)))"),
    ("complex + mail substring", "(&(telephoneNumber=*P*)(|(mail=user.M*)(title=*or)))"),
    ("complex + givenName", "(&(telephoneNumber=*P*)(|(givenName=Werner)(title=*or)))"),
    ("middle of a number", "(telephoneNumber=*P*)"),
    ("end of a number", "(telephoneNumber=*P)"),
    ("begin of a name", "(uid=user.M*)"),
];

fn main() {
    let data = std::env::args().nth(1).expect("the argument is a data directory");
    let only = std::env::args().nth(2);
    let options = StoreOptions::default();
    let store = Store::open_read_only(Path::new(&data), &options, Schema::builtin()).unwrap();
    let mut reader = Arc::new(store).reader();
    let entries = reader.view().unwrap().entry_count().unwrap();
    println!("{entries} entries; CPU µs, and rows, ids, tests and entries found of one search");
    for (name, pattern) in KINDS {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            measure(&mut reader, name, pattern, entries);
        }
    }
}

/// The filter of a kind with this number, the same each time.
fn filled(pattern: &str, number: u64, entries: u64) -> String {
    let more = entries.ilog10().saturating_sub(5);
    let random = |salt: u64| (number + 1 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let begin = |digits: u32| {
        let low = 10_u64.pow(digits - 1);
        (low + random(1 << 32) % if more > 0 { low } else { 9 * low }).to_string()
    };
    let places = 5 + more as usize;
    let phone = format!("{:0places$}", random(1 << 40) % 10_u64.pow(5 + more));
    pattern
        .replace('N', &(1 + random(0) % (entries - 2)).to_string())
        .replace('U', &begin(2 + 2 * more))
        .replace('M', &begin(4 + more))
        .replace('P', &phone)
}

fn measure(reader: &mut StoreReader, name: &str, pattern: &str, entries: u64) {
    let schema = Schema::builtin();
    let key = DnKey::from_text(&schema, "dc=example,dc=com").unwrap();
    let base = match reader.view().unwrap().resolve(&key).unwrap() {
        Resolved::Found(id) => id,
        other => panic!("{other:?}"),
    };
    // The names of types are no pattern.
    let pattern = pattern.replace("givenName", "gn").replace("telephoneNumber", "2.5.4.20");
    let filters: Vec<ResolvedFilter> = (0..FILTERS)
        .map(|number| {
            let text = filled(&pattern, number, entries);
            ResolvedFilter::resolve(&Filter::parse(&text).unwrap(), &schema)
        })
        .collect();
    let mut best = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let (mut rows, mut ids, mut tests, mut found) = (0, 0, 0, 0);
        for filter in &filters {
            let view = reader.view().unwrap();
            let plan = view.plan(&Ask::new(filter, base, Scope::Subtree)).unwrap();
            let work = plan.work();
            (rows, ids, tests) = (rows + work.rows, ids + work.ids, tests + work.tests);
            for entry in plan.entries(view, EntryId::ROOT) {
                let entry = entry.unwrap();
                let is_match = plan.exact || filter.matches(&schema, &entry) == Truth::True;
                found += u64::from(is_match);
            }
        }
        let taken = start.elapsed();
        let counts = [rows, ids, tests, found].map(|count| count as f64 / FILTERS as f64);
        best = match best {
            Some((least, _)) if least <= taken => best,
            _ => Some((taken, counts)),
        };
    }
    let (taken, [rows, ids, tests, found]) = best.unwrap();
    let each = taken.as_secs_f64() * 1e6 / FILTERS as f64;
    println!("{name:25} {each:7.1} µs  {rows:6.1} {ids:8.1} {tests:6.1} {found:6.1}");
}
