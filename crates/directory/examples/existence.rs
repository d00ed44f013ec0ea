//! Whether the time of an answer tells an entry that may not be seen from one that is not there:
//! the same request about both, in turns, in one thread and without sockets.
//!
//! `cargo run --release -p directory --example existence`

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

use ldap::message::{ModifyOperation, Scope};
use ldap::result::ResultCode;

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Asked, Client, SUFFIX, Served};

const ENTRIES: usize = 1_000;
const REQUESTS: usize = 20_000;

fn main() {
    let served = Served::new();
    let mut root = served.root();
    let person = |uid: &str, unit: &str| format!("uid={uid},ou={unit},{SUFFIX}");
    for unit in ["seen", "hidden"] {
        let name = format!("ou={unit},{SUFFIX}");
        let code = root.add(&name, &[("objectClass", &["organizationalUnit"])]);
        assert_eq!(code, ResultCode::Success);
    }
    let secret: &[&str] = &["secret"];
    for (uid, unit) in [("anna", "seen"), ("bert", "seen")] {
        let name = person(uid, unit);
        add(&mut root, &name, uid, secret);
    }
    for number in 0..ENTRIES {
        let uid = format!("u{number}");
        add(&mut root, &person(&uid, "hidden"), &uid, secret);
    }
    let hide = concat!(
        r#"(target="ldap:///uid=*,ou=hidden,dc=example,dc=org")(targetattr="* || +")"#,
        r#"(version 3.0; acl "hidden"; deny (all) userdn="ldap:///uid=anna,*,dc=example,dc=org";)"#,
    );
    let aci = [(ModifyOperation::Add, "aci", &[hide][..])];
    assert_eq!(root.modify(SUFFIX, &aci), ResultCode::Success);
    let mut anna = served.client();
    assert_eq!(anna.bind(&person("anna", "seen"), "secret"), ResultCode::Success);
    let hidden: Vec<String> =
        (0..ENTRIES).map(|number| person(&format!("u{number}"), "hidden")).collect();
    let missing: Vec<String> =
        (0..ENTRIES).map(|number| person(&format!("v{number}"), "hidden")).collect();
    let search = |scope: Scope| {
        move |client: &mut Client, base: &str| {
            let answer = client.search(&Asked { base, scope, ..Asked::default() });
            assert_eq!(answer.code(), ResultCode::NoSuchObject);
        }
    };
    let compare = |client: &mut Client, name: &str| {
        assert_eq!(client.compare(name, "cn", "x"), ResultCode::NoSuchObject);
    };
    measure("search base", &mut anna, &hidden, &missing, &search(Scope::Base));
    measure("search sub", &mut anna, &hidden, &missing, &search(Scope::Subtree));
    measure("compare", &mut anna, &hidden, &missing, &compare);
    let mut other = served.client();
    let bind = |client: &mut Client, name: &str| {
        assert_eq!(client.bind(name, "wrong"), ResultCode::InvalidCredentials);
    };
    measure("bind", &mut other, &hidden, &missing, &bind);
}

fn add(root: &mut Client, name: &str, uid: &str, password: &[&str]) {
    let uid = [uid];
    let attributes: [(&str, &[&str]); 4] = [
        ("objectClass", &["inetOrgPerson"]),
        ("cn", &uid),
        ("sn", &["Person"]),
        ("userPassword", password),
    ];
    let answer = root.try_add(name, &attributes);
    assert_eq!(answer.code(), ResultCode::Success, "{}", answer.diagnostic);
}

/// Prints the medians for entries that are hidden and names that are missing.
fn measure(
    what: &str,
    client: &mut Client,
    hidden: &[String],
    missing: &[String],
    ask: &dyn Fn(&mut Client, &str),
) {
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..REQUESTS {
        // Each goes first as often as the other.
        for turn in 0..2 {
            let which = (number + turn) % 2;
            let name = &[hidden, missing][which][number % ENTRIES];
            let begun = Instant::now();
            ask(client, name);
            times[which].push(begun.elapsed().as_nanos());
        }
    }
    let [hidden, missing] = times.map(|mut times| {
        times.sort_unstable();
        [1, 2, 3].map(|quarter| times[times.len() * quarter / 4])
    });
    println!("{what}: hidden {hidden:?} ns, missing {missing:?} ns (quartiles)");
}
