//! What the regression gauge counts the instructions of: each operation so many times, in one
//! thread and without sockets, with the real store in a temporary directory.
//!
//! `gauge --make FOLDER` makes the data and prints the kinds of operations with their numbers.
//! `cargo xtask gauge` runs `gauge FOLDER KIND` under valgrind, which counts between entry and
//! return of the function `measured` alone.
//!
//! Invariant: input, order and clock are the same in every run.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a measurement, not the product"
)]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use auth::password::Scheme;
use directory::DirectoryOptions;
use ldap::message::{
    AddRequest, Authentication, BindRequest, CompareRequest, Controls, DecodeLimits, Message,
    ModifyOperation, ModifyRequest, Request,
};
use ldap::result::ResultCode;
use tempfile::TempDir;

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Asked, Client, SUFFIX, Served, add_attributes, modifications};

/// People that are there before anything is measured, and operations of each kind.
const PEOPLE: usize = 1_000;
const OPERATIONS: usize = 1_000;
/// Operations before the measured ones: what is set up once is no part of an operation.
const WARM_UP: usize = 50;
/// Room for answers, so that none makes it grow.
const OUT_BYTES: usize = 1 << 16;
/// Valgrind has no room for the default.
const MAP_SIZE_BYTES: u64 = 1 << 30;
/// Groups that are there where the kind asks for them, and how many everybody is in.
const GROUPS: usize = 100;
const IN_GROUPS: usize = 30;
const UNIT: &str = "ou=people,dc=example,dc=org";
const CITIES: [&str; 5] = ["Berlin", "Hamburg", "Munich", "Bremen", "Cologne"];

/// A kind of operation: its name, who asks, what each answer holds at least (nothing: the requests
/// are only decoded), and the request of a number.
struct Kind {
    name: &'static str,
    as_user: bool,
    answer_bytes: usize,
    request: fn(&mut Client, usize) -> Vec<u8>,
}

const KINDS: [Kind; 8] = [
    Kind { name: "decode", as_user: false, answer_bytes: 0, request: any_request },
    Kind {
        name: "search",
        as_user: true,
        answer_bytes: 200,
        request: |client, number| {
            let filter = format!("(uid=user{})", spread(number));
            search(client, &filter, &["*"])
        },
    },
    Kind {
        name: "filter",
        as_user: true,
        answer_bytes: 30,
        request: |client, number| {
            // The middle of somebody's number.
            let phone = phone(spread(number)) / 10 % 100_000;
            let filter = format!("(&(telephoneNumber=*{phone:05}*)(|(uid=user1*)(title=*neer)))");
            search(client, &filter, &["cn"])
        },
    },
    Kind {
        name: "groups",
        as_user: true,
        answer_bytes: IN_GROUPS * 40,
        request: |client, number| {
            let filter = format!("(uid=user{})", spread(number));
            search(client, &filter, &["isMemberOf"])
        },
    },
    Kind {
        name: "compare",
        as_user: false,
        answer_bytes: 12,
        request: |client, number| {
            let name = name(spread(number));
            let compare = CompareRequest { name: &name, description: "sn", value: b"Person" };
            client.encode(Request::Compare(compare), Controls::EMPTY)
        },
    },
    Kind {
        name: "bind",
        as_user: false,
        answer_bytes: 12,
        request: |client, number| {
            let name = name(spread(number));
            let authentication = Authentication::Simple(b"secret");
            let bind = BindRequest { version: 3, name: &name, authentication };
            client.encode(Request::Bind(bind), Controls::EMPTY)
        },
    },
    Kind {
        name: "modify",
        as_user: false,
        answer_bytes: 12,
        request: |client, number| {
            let (name, value) = (name(spread(number)), format!("value {number:05}"));
            let changes = modifications(&[(ModifyOperation::Replace, "description", &[&value])]);
            let modify = ModifyRequest { name: &name, changes: changes.as_ref() };
            client.encode(Request::Modify(modify), Controls::EMPTY)
        },
    },
    Kind {
        name: "add",
        as_user: false,
        answer_bytes: 12,
        request: |client, number| add(client, PEOPLE + number),
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--make", folder] => {
            make(Path::new(folder));
            for kind in &KINDS {
                println!("{} {OPERATIONS}", kind.name);
            }
        }
        [folder, name] => {
            let kind = KINDS.iter().find(|kind| kind.name == *name).expect("there is such a kind");
            measure(Path::new(folder), kind);
        }
        _ => panic!("see the head of the example"),
    }
}

/// A thousand people, all of them in the database and none in memory.
fn make(folder: &Path) {
    let served = Served::new();
    let mut root = served.root();
    assert_eq!(root.add(UNIT, &[("objectClass", &["organizationalUnit"])]), ResultCode::Success);
    for number in 0..PEOPLE {
        let request = add(&mut root, number);
        root.connection.feed(&request);
        root.connection.received.clear();
    }
    drop(root);
    let data = served.options.data.clone();
    let served = served.reopen();
    copy(&data, folder);
    drop(served);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A directory of its own with what was made, so that no kind depends on what another one left.
fn open(folder: &Path) -> Served {
    let place = TempDir::new().unwrap();
    copy(folder, &place.path().join("data"));
    let mut options = DirectoryOptions {
        journal_segment_bytes: 1 << 20,
        ..DirectoryOptions::new(place.path().join("data"))
    };
    options.passwords.storage = Scheme::Ssha512.into();
    options.passwords.check_own = false;
    options.store.map_size_bytes = MAP_SIZE_BYTES;
    Served::opened(options, Arc::new(place))
}

fn measure(folder: &Path, kind: &Kind) {
    let mut served = open(folder);
    if kind.name == "groups" {
        add_groups(&mut served.root());
        served = served.reopen();
    }
    let mut client = served.root();
    if kind.as_user {
        client = served.client();
        assert_eq!(client.bind(&name(7), "secret"), ResultCode::Success);
    }
    let requests: Vec<Vec<u8>> =
        (0..WARM_UP + OPERATIONS).map(|number| (kind.request)(&mut client, number)).collect();
    let (before, counted) = requests.split_at(WARM_UP);
    let only_decode = kind.answer_bytes == 0;
    let out = Vec::with_capacity(OUT_BYTES);
    let mut asking = Asking { client, out, only_decode, answered_bytes: 0 };
    asking.ask(before);
    asking.answered_bytes = 0;
    measured(&mut asking, counted);
    let least = OPERATIONS * kind.answer_bytes;
    assert!(asking.answered_bytes >= least, "{}: {} octets", kind.name, asking.answered_bytes);
}

/// Groups, so that everybody is in as many.
fn add_groups(root: &mut Client) {
    for group in 0..GROUPS {
        let is_in = |person: &usize| (person + GROUPS - group) % GROUPS < IN_GROUPS;
        let members: Vec<String> = (0..PEOPLE).filter(is_in).map(name).collect();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let name = format!("cn=group number {group},{UNIT}");
        let class: &[&str] = &["groupOfNames"];
        let code = root.add(&name, &[("objectClass", class), ("member", &members)]);
        assert_eq!(code, ResultCode::Success);
    }
}

/// What is counted, from its entry to its return.
#[inline(never)]
fn measured(asking: &mut Asking, requests: &[Vec<u8>]) {
    asking.ask(requests);
    black_box(asking.answered_bytes);
}

/// Somebody who asks, without making sense of the answers.
struct Asking {
    client: Client,
    out: Vec<u8>,
    only_decode: bool,
    answered_bytes: usize,
}

impl Asking {
    fn ask(&mut self, requests: &[Vec<u8>]) {
        if self.only_decode {
            return decode_all(requests);
        }
        let connection = &mut self.client.connection;
        for request in requests {
            self.out.clear();
            let next = connection.worker.handle(&mut connection.session, request, &mut self.out);
            match next {
                directory::Next::Answered(_) => {}
                directory::Next::Write(pending) => {
                    let id = pending.id();
                    let (sender, receiver) = std::sync::mpsc::channel();
                    pending.submit(Box::new(move |done| sender.send(done.bytes).unwrap()));
                    self.out = receiver.recv().unwrap();
                    connection.session.forget(id);
                }
                _ => panic!("nothing here takes another way"),
            }
            self.answered_bytes += self.out.len();
            // What a LDAPResult of success looks like: 10, one octet, 0.
            let code = self.out.windows(3).rev().find(|at| at[..2] == [10, 1]).map(|at| at[2]);
            assert!(matches!(code, Some(0 | 6)), "{:02x?}", self.out);
        }
    }
}

fn decode_all(requests: &[Vec<u8>]) {
    let limits = DecodeLimits::default();
    for request in requests {
        black_box(Message::<Request<'_>>::decode(request, &limits).unwrap());
    }
}

/// All numbers, none next to the one before.
fn spread(number: usize) -> usize {
    number * 617 % PEOPLE
}

fn name(number: usize) -> String {
    format!("uid=user{number},{UNIT}")
}

fn phone(number: usize) -> usize {
    number * 7919 % 10_000_000
}

fn search(client: &mut Client, filter: &str, attributes: &[&str]) -> Vec<u8> {
    client.encode_search(&Asked { base: SUFFIX, filter, attributes, ..Asked::default() })
}

fn add(client: &mut Client, number: usize) -> Vec<u8> {
    let uid = format!("user{number}");
    let mail = format!("{uid}@example.org");
    let phone = format!("+49 30 {:07}", phone(number));
    let list = add_attributes(&[
        ("objectClass", &["inetOrgPerson"]),
        ("uid", &[&uid]),
        ("cn", &[&uid]),
        ("sn", &["Person"]),
        ("givenName", &["Some"]),
        ("mail", &[&mail]),
        ("telephoneNumber", &[&phone]),
        ("homePhone", &[&phone]),
        ("title", &["Engineer"]),
        ("l", &[CITIES[number % CITIES.len()]]),
        ("employeeNumber", &["12345"]),
        ("description", &["This is somebody."]),
        ("userPassword", &["secret"]),
    ]);
    let add = AddRequest { name: &name(number), attributes: list.as_ref() };
    client.encode(Request::Add(add), Controls::EMPTY)
}

/// Searches, adds, modifies and binds in turn.
fn any_request(client: &mut Client, number: usize) -> Vec<u8> {
    let kind = ["search", "add", "modify", "bind"][number % 4];
    let kind = KINDS.iter().find(|one| one.name == kind).unwrap();
    (kind.request)(client, number)
}
