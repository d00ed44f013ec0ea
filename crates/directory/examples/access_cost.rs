//! What access control costs a search by uid: the time of the same search as the administrator,
//! and as an identity with twenty ACIs on single attributes on the path, in turns, in one thread
//! and without sockets.
//!
//! `cargo run --release -p directory --example access_cost`

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

use std::time::Instant;

use ldap::message::ModifyOperation;
use ldap::result::ResultCode;

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Asked, Client, SUFFIX, Served};

const PEOPLE: usize = 2_000;
const SEARCHES: usize = 20_000;
const ROUNDS: usize = 7;

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
    let served = Served::new();
    let mut root = served.root();
    let unit = format!("ou=people,{SUFFIX}");
    assert_eq!(root.add(&unit, &[("objectClass", &["organizationalUnit"])]), ResultCode::Success);
    for number in 0..PEOPLE {
        let uid = format!("user{number}");
        let (name, mail) = (format!("uid={uid},{unit}"), format!("{uid}@example.org"));
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
    for holder in [SUFFIX, &unit] {
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
        let config = "cn=Access Control Handler,cn=config";
        let none = [(ModifyOperation::Replace, "ds-cfg-global-aci", &[][..])];
        assert_eq!(root.modify(config, &none), ResultCode::Success);
        let put = [(ModifyOperation::Replace, "aci", acis.as_slice())];
        assert_eq!(root.modify(holder, &put), ResultCode::Success);
        let mut user = served.client();
        assert_eq!(user.bind(&format!("uid=user7,{unit}"), "secret"), ResultCode::Success);
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            for (place, client) in [&mut root, &mut user].into_iter().enumerate() {
                best[place] = best[place].min(measure(client));
            }
        }
        let [as_root, as_user] = best;
        println!(
            "20 ACIs at {holder}: root {as_root:.0} ns, user {as_user:.0} ns, {:+.1} %",
            (as_user / as_root - 1.0) * 100.0
        );
        let take = [(ModifyOperation::Delete, "aci", &[][..])];
        assert_eq!(root.modify(holder, &take), ResultCode::Success);
    }
}

/// Nanoseconds of a search, from the request's octets to those of the answer.
fn measure(client: &mut Client) -> f64 {
    let requests: Vec<Vec<u8>> = (0..SEARCHES)
        .map(|number| {
            let filter = format!("(uid=user{})", number * 7 % PEOPLE);
            client.encode_search(&Asked { filter: &filter, attributes: &["*"], ..Asked::default() })
        })
        .collect();
    let connection = &mut client.connection;
    let (mut out, mut octets) = (Vec::new(), 0);
    let begun = Instant::now();
    for request in &requests {
        out.clear();
        let next = connection.worker.handle(&mut connection.session, request, &mut out);
        assert!(matches!(next, directory::Next::Answered));
        octets += out.len();
    }
    let took = begun.elapsed();
    assert!(octets > SEARCHES * 200, "each search returns an entry");
    took.as_nanos() as f64 / SEARCHES as f64
}
