//! Small crates as text: which edges there are, and what is found.

use super::*;

/// Files of a crate `a`: path in its source, and text.
fn tree(files: &[(&str, &str)]) -> Vec<File> {
    let file = |(path, text): &(&str, &str)| File {
        path: format!("crates/a/src/{path}"),
        text: (*text).to_owned(),
    };
    files.iter().map(file).collect()
}

/// The edges, as `from.rs>to.rs:Name,Name`.
#[track_caller]
fn check_edges(files: &[(&str, &str)], want: &[&str]) {
    let crates = read(&tree(files)).unwrap();
    let Crate { graph, source, .. } = crates.first().unwrap();
    let all: Vec<usize> = (0..graph.files.len()).collect();
    let mut found: Vec<String> = Vec::new();
    for (from, to) in graph.inner_edges(&all) {
        let names: Vec<&str> = graph.names(from, to).unwrap().keys().map(String::as_str).collect();
        let file = |at| graph.file(at, source);
        found.push(format!("{}>{}:{}", file(from), file(to), names.join(",")));
    }
    found.sort();
    assert_eq!(found, want, "{files:#?}");
}

#[track_caller]
fn check_findings(files: &[File], most: Option<usize>, want: &[(&str, &str)]) {
    let exception = Exception { rule: RULE.to_owned(), path: "crates/a/src".to_owned(), most };
    let exceptions: Vec<Exception> = most.map(|_| exception).into_iter().collect();
    let mut findings = Vec::new();
    check(files, &exceptions, &mut findings).unwrap();
    assert_eq!(findings.len(), want.len(), "{findings:#?}");
    for (finding, (rule, text)) in findings.iter().zip(want) {
        assert_eq!(finding.rule, *rule);
        assert!(finding.message.contains(text), "{finding:#?}");
    }
}

/// `count` files of which each names the next, the last one the first.
fn circle_of(count: usize) -> Vec<File> {
    let name = |at: usize| format!("m{}", at % count);
    let modules: String = (0..count).map(|at| format!("mod {};\n", name(at))).collect();
    let mut files = tree(&[("lib.rs", &modules)]);
    for at in 0..count {
        let text = format!("pub fn f() {{ crate::{}::f() }}", name(at + 1));
        files.extend(tree(&[(&format!("{}.rs", name(at)), &text)]));
    }
    files
}

#[test]
fn a_circle_of_three_passes_and_one_of_seven_does_not() {
    check_findings(&circle_of(3), None, &[]);
    check_findings(&circle_of(6), None, &[]);
    check_findings(&circle_of(7), None, &[("circle", "7 files name each other, 6 may")]);
    check_findings(&circle_of(7), None, &[("circle", "m0.rs → m1.rs (f)")]);
}

#[test]
fn an_exception_is_as_low_as_it_can_be() {
    check_findings(&circle_of(8), Some(8), &[]);
    check_findings(&circle_of(9), Some(8), &[("circle", "9 files name each other, 8 may")]);
    check_findings(&circle_of(8), Some(9), &[("exception", "most is 8 now")]);
    check_findings(&circle_of(6), Some(8), &[("exception", "not needed")]);
    check_findings(&circle_of(6), Some(6), &[("exception", "not needed")]);
}

#[test]
fn declarations_and_reexports_are_no_edges() {
    check_edges(
        &[
            ("lib.rs", "mod b; pub use b::B; pub(crate) use b::c::*;"),
            ("b/mod.rs", "mod c; pub use self::c::C; pub struct B;"),
            ("b/c.rs", "pub struct C;"),
        ],
        &[],
    );
}

#[test]
fn reexports_are_followed_to_the_file_behind_them() {
    let lib = ("lib.rs", "mod b; mod user; pub use b::C as Renamed;");
    let b = ("b/mod.rs", "mod c; pub(crate) use self::c::C; pub(crate) use c::*; pub struct B;");
    let c = ("b/c.rs", "pub struct C; pub fn d() {} use super::B;");
    let check = |text: &str, want: &[&str]| {
        let want = [&["b/c.rs>b/mod.rs:B"], want].concat();
        check_edges(&[lib, b, c, ("user.rs", text)], &want);
    };
    check("use crate::b::C;", &["user.rs>b/c.rs:C"]);
    check("use crate::b::d as e;", &["user.rs>b/c.rs:d"]);
    check("use crate::Renamed;", &["user.rs>b/c.rs:C"]);
    check("use super::Renamed as _;", &["user.rs>b/c.rs:C"]);
    check("fn f() { crate::b::d() }", &["user.rs>b/c.rs:d"]);
    check("use crate::b; fn f() -> b::B { b::d() }", &["user.rs>b/c.rs:d", "user.rs>b/mod.rs:B"]);
    check("use crate::b::{self, B}; fn f() { b::C; }", &["user.rs>b/c.rs:C", "user.rs>b/mod.rs:B"]);
    check("use crate::b;", &[]);
}

#[test]
fn a_star_gives_the_names_that_are_used() {
    let lib = ("lib.rs", "mod b; mod user;");
    let b = ("b.rs", "pub struct B; pub struct Other; pub fn f() {} pub enum E { V }");
    check_edges(&[lib, b, ("user.rs", "use crate::b::*; fn g(_: B) {}")], &["user.rs>b.rs:B"]);
    check_edges(&[lib, b, ("user.rs", "use crate::b::*; fn g(f: u8) { f; }")], &[]);
    check_edges(&[lib, b, ("user.rs", "use crate::b::*; fn g() { f() }")], &["user.rs>b.rs:f"]);
    check_edges(&[lib, b, ("user.rs", "use crate::b::E::*; fn g() { V }")], &["user.rs>b.rs:E"]);
}

#[test]
fn paths_are_read_wherever_they_stand() {
    let lib = ("lib.rs", "mod b; mod user;");
    let b = (
        "b.rs",
        "pub struct B; pub fn f() {} pub enum E { V } pub trait T {} pub const K: u8 = 1;
         macro_rules! m { () => {} } pub(crate) use m;",
    );
    let check = |text: &str, name: &str| {
        check_edges(&[lib, b, ("user.rs", text)], &[&format!("user.rs>b.rs:{name}")]);
    };
    check("fn g() -> Vec<crate::b::B> { loop {} }", "B");
    check("struct S { b: Option<super::b::B> }", "B");
    check("fn g(e: u8) { match e { crate::b::K => {} _ => {} } }", "K");
    check("fn g() { if let crate::b::E::V = e {} }", "E");
    check("impl crate::b::T for u8 {}", "T");
    check("fn g<A: crate::b::T>() {}", "T");
    check("fn g() { fn h() { use crate::b::B as C; } }", "B");
    check("fn g() { println!(\"{}\", crate::b::f()) }", "f");
    check("fn g() { assert!(matches!(e, Some(crate::b::E::V))) }", "E");
    check("use crate::b; fn g() { vec![b::f(); 2] }", "f");
    check("macro_rules! n { () => { $crate::b::f() } }", "f");
    check("fn g() { crate::b::m!() }", "m");
    check("fn g() { let b = a::b::f(); }", "f");
}

#[test]
fn words_that_only_look_alike_are_none() {
    let lib = ("lib.rs", "mod b; mod user; pub(crate) use b::{B, f};");
    let b = ("b.rs", "pub struct B; pub fn f() {}");
    let check = |text: &str| check_edges(&[lib, b, ("user.rs", text)], &[]);
    check("pub use super::*; fn g(x: u8) { m!(x.f, f: 1, $f, std::f, f = 2) }");
    check("pub use super::*; fn g() { let f = 1; h(f) }");
    check("pub use super::*; fn g() { f!() }");
    check("use ::b::B; fn g() { ::b::f() }");
}

#[test]
fn tests_are_skipped() {
    check_edges(
        &[
            ("lib.rs", "mod b; mod c; #[cfg(test)] mod support; mod tests;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::c::C; }"),
            (
                "c.rs",
                "pub struct C; #[cfg(test)] use crate::b::B; #[test] fn t() { crate::b::B; }
                 impl C {
                     #[cfg(test)] fn t() { crate::b::B; }
                     fn u() { #[cfg(test)] crate::b::B.call(); #[cfg(test)] let b = crate::b::B; }
                 }",
            ),
            ("support.rs", "use crate::b::B;"),
            ("tests.rs", "use crate::b::B;"),
        ],
        &[],
    );
}

#[test]
fn modules_nest_and_may_say_where_they_are() {
    check_edges(
        &[
            ("lib.rs", "mod b; mod d { mod e; pub struct D; } #[path = \"odd/x.rs\"] mod g;"),
            ("b.rs", "mod c; pub struct B;"),
            ("b/c.rs", "use super::B; use super::super::g::G; fn f(_: crate::d::D) {}"),
            ("d/e.rs", "use super::D; use crate::b::B;"),
            ("odd/x.rs", "pub struct G;"),
        ],
        &[
            "b/c.rs>b.rs:B",
            "b/c.rs>lib.rs:D",
            "b/c.rs>odd/x.rs:G",
            "d/e.rs>b.rs:B",
            "d/e.rs>lib.rs:D",
        ],
    );
}

#[test]
fn items_that_a_macro_makes_are_of_the_file_that_calls_it() {
    check_edges(
        &[("lib.rs", "mod b; mod user;"), ("b.rs", "make! { C }"), ("user.rs", "use crate::b::C;")],
        &["user.rs>b.rs:C"],
    );
}

#[test]
fn a_name_may_be_a_module_and_a_function() {
    check_edges(
        &[
            ("lib.rs", "mod check; mod user; pub use check::check;"),
            ("check.rs", "pub fn check() {}"),
            ("user.rs", "fn f() { crate::check() } fn g() { crate::check::check() }"),
            ("main.rs", "fn main() { a::check() }"),
        ],
        &["main.rs>check.rs:check", "user.rs>check.rs:check"],
    );
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let wrong = |files: &[(&str, &str)]| read(&tree(files)).err().unwrap();
    assert!(wrong(&[("lib.rs", "\nfn fn")]).starts_with("crates/a/src/lib.rs: line 2"));
    assert_eq!(wrong(&[("lib.rs", "mod b;")]), "crates/a/src/lib.rs: no file for mod b");
}
