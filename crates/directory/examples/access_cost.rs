//! What access control costs a search by uid: the same search as the administrator, and as an
//! identity with twenty ACIs on single attributes on the path, in one thread and without sockets.
//!
//! `cargo run --release -p directory --example access_cost`: nanoseconds, in short turns. With
//! `-- --instructions`: instructions, whatever else the machine does; needs `perf`.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a measurement, not the product"
)]

use std::process::{Command, Stdio};
use std::time::Instant;

use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Asked, Client, SUFFIX, Served};

const PEOPLE: usize = 1_000;
/// Searches of one turn, and turns of each case.
const SEARCHES: usize = 1_000;
const TURNS: usize = 200;
/// People and searches where instructions are counted.
const COUNTED_PEOPLE: usize = 100;
const COUNTED_SEARCHES: usize = 100_000;

/// Who asks, and where the ACIs are.
struct Case {
    name: &'static str,
    holder: Option<&'static str>,
    /// Global ACIs are those of a new directory; else there are none.
    defaults: bool,
    as_user: bool,
    base: &'static str,
}

const UNIT: &str = "ou=people,dc=example,dc=org";

const CASES: [Case; 7] = [
    Case { name: "administrator", holder: None, defaults: true, as_user: false, base: SUFFIX },
    Case { name: "user, new directory", holder: None, defaults: true, as_user: true, base: SUFFIX },
    Case {
        name: "user, 20 ACIs at the base",
        holder: Some(SUFFIX),
        defaults: false,
        as_user: true,
        base: SUFFIX,
    },
    Case {
        name: "administrator, base ou=people",
        holder: None,
        defaults: true,
        as_user: false,
        base: UNIT,
    },
    Case {
        name: "user, base ou=people, 20 ACIs above it",
        holder: Some(SUFFIX),
        defaults: false,
        as_user: true,
        base: UNIT,
    },
    Case {
        name: "user, 20 ACIs below the base",
        holder: Some(UNIT),
        defaults: false,
        as_user: true,
        base: SUFFIX,
    },
    Case {
        name: "user, 20 ACIs below the base and those of a new directory",
        holder: Some(UNIT),
        defaults: true,
        as_user: true,
        base: SUFFIX,
    },
];

/// Each is read, searched and compared by those who are bound, by an ACI of its own.
const ATTRIBUTES: [&str; 20] = [
    "objectClass",
    "uid",
    "cn",
    "sn",
    "givenName",
    "displayName",
    "mail",
    "telephoneNumber",
    "mobile",
    "title",
    "employeeNumber",
    "employeeType",
    "departmentNumber",
    "l",
    "st",
    "street",
    "postalCode",
    "description",
    "manager",
    "preferredLanguage",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => in_turns(),
        ["--instructions"] => counted(),
        ["--case", case, searches] => {
            let (case, searches) = (&CASES[case.parse::<usize>().unwrap()], searches.parse());
            Measured::new(case, COUNTED_PEOPLE).run(case, searches.unwrap());
        }
        _ => panic!("see the head of the example"),
    }
}

/// Times every case in short turns, so that all see the same moods of the machine.
fn in_turns() {
    let mut measured: Vec<Measured> =
        CASES.iter().map(|case| Measured::new(case, PEOPLE)).collect();
    let mut took = vec![Vec::new(); CASES.len()];
    for _ in 0..TURNS {
        for ((measured, case), took) in measured.iter_mut().zip(&CASES).zip(&mut took) {
            took.push(measured.run(case, SEARCHES));
        }
    }
    let mut first = None;
    for (case, took) in CASES.iter().zip(&mut took) {
        took.sort_by(f64::total_cmp);
        // A tenth of the turns were disturbed by nothing.
        let low = took[TURNS / 10];
        let first = *first.get_or_insert(low);
        println!(
            "{low:6.0} ns {:+6.0} ns {:+5.1} %  {}",
            low - first,
            (low / first - 1.0) * 100.0,
            case.name
        );
    }
}

/// Counts the instructions of each case: with searches less without.
fn counted() {
    let mut first = None;
    for (number, case) in CASES.iter().enumerate() {
        let [none, all] = [0, COUNTED_SEARCHES].map(|searches| count(number, searches));
        let each = (all - none) / COUNTED_SEARCHES as f64;
        let first = *first.get_or_insert(each);
        println!(
            "{each:6.0} {:+6.0} {:+5.1} %  {}",
            each - first,
            (each / first - 1.0) * 100.0,
            case.name
        );
    }
}

fn count(case: usize, searches: usize) -> f64 {
    let output = Command::new("perf")
        .args(["stat", "-x", ",", "-e", "instructions:u", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--case", &case.to_string(), &searches.to_string()])
        .stdout(Stdio::null())
        .output()
        .expect("perf is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stderr).unwrap();
    let line = told.lines().find(|line| line.contains("instructions")).expect("perf counted");
    line.split(',').next().unwrap().parse().expect("perf can count instructions here")
}

/// A directory, and who asks.
struct Measured {
    client: Client,
    people: usize,
    _served: Served,
}

impl Measured {
    fn new(case: &Case, people: usize) -> Self {
        let served = Served::new();
        let mut root = served.root();
        assert_eq!(
            root.add(UNIT, &[("objectClass", &["organizationalUnit"])]),
            ResultCode::Success
        );
        for number in 0..people {
            let uid = format!("user{number}");
            let (name, mail) = (format!("uid={uid},{UNIT}"), format!("{uid}@example.org"));
            let answer = root.try_add(
                &name,
                &[
                    ("objectClass", &["inetOrgPerson"]),
                    ("cn", &[&uid]),
                    ("sn", &["Person"]),
                    ("givenName", &["Some"]),
                    ("mail", &[&mail]),
                    ("telephoneNumber", &["+49 30 1234567"]),
                    ("title", &["Engineer"]),
                    ("l", &["Berlin"]),
                    ("employeeNumber", &["12345"]),
                    ("userPassword", &["secret"]),
                ],
            );
            assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
        }
        let acis: Vec<String> = ATTRIBUTES
            .iter()
            .map(|name| {
                format!(
                    "(targetattr=\"{name}\")(version 3.0; acl \"{name}\"; \
                     allow (read, search, compare) userdn=\"ldap:///all\";)"
                )
            })
            .collect();
        let acis: Vec<&str> = acis.iter().map(String::as_str).collect();
        if !case.defaults {
            let none = [(ModifyOperation::Replace, "ds-cfg-global-aci", &[][..])];
            let config = "cn=Access Control Handler,cn=config";
            assert_eq!(root.modify(config, &none), ResultCode::Success);
        }
        if let Some(holder) = case.holder {
            let put = [(ModifyOperation::Replace, "aci", acis.as_slice())];
            assert_eq!(root.modify(holder, &put), ResultCode::Success);
        }
        let mut client = root;
        if case.as_user {
            client = served.client();
            assert_eq!(client.bind(&format!("uid=user7,{UNIT}"), "secret"), ResultCode::Success);
        }
        Self { client, people, _served: served }
    }

    /// Nanoseconds of a search, from the request's octets to those of the answer.
    fn run(&mut self, case: &Case, searches: usize) -> f64 {
        let requests: Vec<Vec<u8>> = (0..self.people)
            .map(|number| {
                let filter = format!("(uid=user{})", number * 7 % self.people);
                let asked = Asked {
                    base: case.base,
                    filter: &filter,
                    attributes: &["*"],
                    ..Asked::default()
                };
                self.client.encode_search(&asked)
            })
            .collect();
        let connection = &mut self.client.connection;
        let (mut out, mut octets) = (Vec::new(), 0);
        let begun = Instant::now();
        for request in requests.iter().cycle().take(searches) {
            out.clear();
            let next = connection.worker.handle(&mut connection.session, request, &mut out);
            assert!(matches!(next, directory::Next::Answered(_)));
            octets += out.len();
        }
        let took = begun.elapsed();
        assert!(octets >= searches * 200, "each search returns an entry");
        took.as_nanos() as f64 / searches as f64
    }
}
