//! `roster explain`, `roster index` and `debugsearchindex` against a real `roster demo`.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
mod demo;

use std::process::Command;

use common::{Run, roster};
use demo::Demo;

const BASE: &str = "dc=example,dc=com";

/// Runs the program as the administrator of the demo.
fn ask(demo: &Demo, arguments: &[&str]) -> Run {
    let url = demo.url("ldap");
    let server = ["-H", &url, "-D", &demo.admin_dn, "-w", &demo.admin_password];
    roster(&[arguments, &server].concat())
}

#[track_caller]
fn check_lines(run: &Run, code: i32, want: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    for line in want {
        let all = format!("{}{}", run.output, run.errors);
        assert!(all.contains(line), "{all}\nlacks\n{line}");
    }
}

#[test]
fn a_search_is_explained_in_text_and_json() {
    let demo = Demo::start(2_000);
    let explain = |filter: &str, more: &[&str]| {
        ask(&demo, &[&["explain", "-b", BASE, filter], more].concat())
    };
    let run = explain("(uid=user.42)", &[]);
    let want = [
        "search      dc=example,dc=com, with all below\n",
        "filter      (uid=user.42)\n",
        "candidates  1 of 2,002 entries",
        "matching    1\n",
        " µs to plan",
        "part of the filter",
    ];
    check_lines(&run, 0, &want);

    // What nobody has leaves nothing, and is named.
    let run = explain("(&(objectClass=person)(uid=nobody))", &[]);
    check_lines(&run, 0, &["matching    0\n", "Nothing matches because of (uid=nobody)."]);

    let run = explain("(uid=user.42)", &["--json", "-s", "one"]);
    check_lines(&run, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(json["scope"], "one");
    assert_eq!(json["filter"], "(uid=user.42)");
    assert_eq!(json["entries"], 2_002);
    assert_eq!(json["plan"]["operator"], "item");

    let run = explain("(uid=user.42", &[]);
    check_lines(&run, 2, &["roster: error: invalid filter: "]);
    let run = ask(&demo, &["explain", "-b", "dc=nowhere", "(uid=x)"]);
    check_lines(&run, 1, &["roster: error: the server refuses the search: noSuchObject (32)"]);
}

#[test]
fn the_options_of_the_search_are_those_of_the_plan() {
    let demo = Demo::start(2_000);
    let explain = |more: &[&str]| {
        ask(&demo, &[&["explain", "-b", BASE, "(objectClass=person)"], more].concat())
    };
    let json = |more: &[&str]| {
        let run = explain(&[more, &["--json"]].concat());
        check_lines(&run, 0, &[]);
        serde_json::from_str::<serde_json::Value>(&run.output).unwrap()
    };
    // In the order of an index, and in memory where there is none.
    check_lines(
        &explain(&["-S", "-sn", "-z", "5"]),
        0,
        &["order       by -sn: sn.equality is walked"],
    );
    let order = json(&["-S", "-sn", "-S", "givenName", "-z", "5"])["order"].clone();
    assert_eq!((&order["keys"], &order["by"]), (&"-sn givenName".into(), &"index".into()));
    let order = json(&["-S", "sn:caseExactOrderingMatch"])["order"].clone();
    assert_eq!((&order["keys"], &order["by"]), (&"sn".into(), &"memory".into()));
    let run = explain(&["-S", "description", "-z", "5"]);
    check_lines(&run, 0, &["in memory", "roster index add 'equality description'"]);
    // Which entries are looked for.
    assert_eq!(json(&["-E", "subentries"])["subentries"], true);
    assert_eq!(json(&["-E", "subentries=false"])["subentries"], false);
    assert_eq!(json(&[])["subentries"], serde_json::Value::Null);
    assert_eq!(json(&["-a", "search"])["aliases"]["followed"], "search");

    for wrong in [["-a", "sometimes"], ["-E", "children"], ["-z", "-1"], ["-s", "some"]] {
        check_lines(&explain(&wrong), 2, &["roster: error: ", wrong[1]]);
    }
}

#[test]
fn explanations_come_over_every_way_to_the_server() {
    let demo = Demo::start(50);
    let explain =
        |more: &[&str]| roster(&[&["explain", "-b", BASE, "(uid=user.4)"], more].concat());
    let matching = ["matching    1\n"];
    let password = demo.scratch().join("password");
    std::fs::write(&password, format!("{}\n", demo.admin_password)).unwrap();
    let password = password.to_str().unwrap();
    check_lines(&explain(&["-H", &demo.url("ldapi")]), 0, &matching);
    let (ldap, ldaps) = (demo.url("ldap"), demo.url("ldaps"));
    let never = ["-y", password, "--reqcert", "never"];
    check_lines(&explain(&[&["-H", &ldaps], &never[..]].concat()), 0, &matching);
    check_lines(&explain(&[&["-ZZ", "-H", &ldap], &never[..]].concat()), 0, &matching);
    // Nobody vouches for the demo's certificate.
    let run = explain(&["-H", &ldaps, "-y", password]);
    check_lines(&run, 2, &["roster: error: TLS failed: ", "--reqcert never"]);
    let run = explain(&["-ZZ", "-H", &ldap, "-y", password]);
    check_lines(&run, 2, &["roster: error: TLS failed: "]);

    let run = explain(&["-H", &ldap, "-w", "wrong"]);
    check_lines(&run, 1, &["invalidCredentials (49)", "roster: hint: "]);
    let run = explain(&["-H", &ldap]);
    check_lines(&run, 1, &["explains searches only to its administrator", "-H ldapi://SOCKET"]);
    let run = explain(&["-H", &ldap, "-D", "cn=x"]);
    check_lines(&run, 2, &["'cn=x' needs a password", "-W asks for it"]);
    let run = explain(&["-H", "ldap://127.0.0.1:1"]);
    check_lines(&run, 2, &["cannot connect to 127.0.0.1:1: connection refused"]);
}

#[test]
fn indexes_are_listed_added_verified_and_dropped() {
    let demo = Demo::start(500);
    let index = |arguments: &[&str]| ask(&demo, &[&["index"], arguments].concat());
    let run = index(&["status"]);
    check_lines(&run, 0, &["index  ", "uid              equality   yes", "–: not needed"]);
    let run = index(&["status", "--json", "uid.equality"]);
    check_lines(&run, 0, &[]);
    let json: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(json[0]["definition"], "equality uid");
    assert_eq!(json[0]["state"], "valid");
    assert_eq!(json[1], serde_json::Value::Null);

    let filter = "(description=*x*y*z*)";
    let explain = || ask(&demo, &["explain", "-b", BASE, filter]);
    let advice = "roster index add 'substring description'";
    check_lines(&explain(), 0, &["Slow: no index narrows this search", advice]);
    check_lines(&index(&["add", "substring description", "--wait"]), 0, &["building  "]);
    let run = explain();
    check_lines(&run, 0, &["description.substring"]);
    assert!(!run.output.contains("Slow"), "{}", run.output);
    let run = index(&["add", "description.substring"]);
    check_lines(&run, 1, &["the index 'substring description' already exists"]);
    let run = index(&["verify", "description.substring", "equality uid"]);
    check_lines(&run, 0, &["description.substring: ok\n", "uid.equality: ok\n"]);
    check_lines(&index(&["rebuild", "uid.equality", "--wait"]), 0, &["rebuilding  equality uid"]);
    check_lines(&index(&["drop", "description.substring", "--wait"]), 0, &["dropping  "]);
    let run = index(&["status", "description.substring"]);
    check_lines(&run, 1, &["there is no index 'description.substring'", "roster: hint: "]);
    let run = index(&["drop", "description.substring"]);
    check_lines(&run, 1, &["there is no index 'substring description'"]);
    let run = index(&["add", "substring noSuchType"]);
    check_lines(&run, 1, &["roster: error: the server refuses the new index: "]);
    check_lines(&index(&["advise"]), 0, &[]);

    let run = roster(&["index", "status", "-H", &demo.url("ldap")]);
    check_lines(&run, 1, &["shows its indexes only to its administrator", "roster: hint: "]);
}

#[test]
fn an_index_is_advised_from_the_searches_of_late() {
    let demo = Demo::start(1_000);
    let url = demo.url("ldap");
    let advise = || ask(&demo, &["index", "advise"]);
    check_lines(&advise(), 0, &["no advice: recent searches need no other indexes\n"]);
    let advice = "roster index add 'substring description'\n    about ";
    // Searches are sampled, and nobody knows how many fit into a second.
    let search = || {
        let run = roster(&[
            "bench",
            "search",
            "-H",
            &url,
            "--filter",
            "(description=*q[1-9]q*)",
            "--expect",
            "0",
            "-c",
            "2",
            "-t",
            "1",
            "--warmup",
            "0",
        ]);
        assert_eq!(run.code, 0, "{run:?}");
        advise().output.contains(advice)
    };
    assert!((0..30).any(|_| search()), "{:?}", advise());
    let found = advise();
    check_lines(&found, 0, &["searches like (description=*?*) looked at 1002 entries each"]);
    let json = ask(&demo, &["index", "advise", "--json"]).output;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first =
        json.as_array().unwrap().iter().find(|one| one["definition"] == "substring description");
    assert_eq!(first.unwrap()["action"], "add");
    check_lines(&ask(&demo, &["index", "add", "substring description", "--wait"]), 0, &[]);
    assert!(!advise().output.contains(advice), "what is there is not advised");
}

#[test]
fn ldapsearch_is_given_the_line_of_opendj() {
    if Command::new("ldapsearch").arg("-VV").output().is_err() {
        return;
    }
    let demo = Demo::start(200);
    let search = |who: &[&str]| {
        let found = Command::new("ldapsearch")
            .args(["-x", "-LLL", "-o", "ldif_wrap=no", "-H", &demo.url("ldap"), "-b", BASE])
            .args(who)
            .args(["(uid=user.42)", "debugsearchindex"])
            .env("LDAPNOINIT", "1")
            .output()
            .unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    let found = search(&["-D", &demo.admin_dn, "-w", &demo.admin_password]);
    assert!(
        found.starts_with("dn: cn=debugsearch\ndebugsearchindex: filter=(uid=user.42)"),
        "{found}"
    );
    assert!(found.contains(" final=[COUNT:1]"), "{found}");
    let found = search(&[]);
    assert!(found.starts_with("dn: uid=user.42,ou=people,dc=example,dc=com"), "{found}");
}
