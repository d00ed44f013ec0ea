//! `cargo xtask attack`: every way to attack a server that a test of ours knows, and the promise
//! that it attacks.
//!
//! Invariant: the promises are those of `docs/security.md`; one without a test that runs is an
//! error. CI runs each of these tests with the others, with the turns they have by themselves.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::shell::{cargo, source, step, timed};
use crate::{Error, options};

/// Something that roster promises, and the tests that try to break it.
#[derive(Debug, PartialEq)]
struct Promise<'p> {
    /// Against whom.
    against: &'p str,
    /// What is promised, a sentence without its full stop.
    says: &'p str,
    /// The package and the name of each test.
    tests: Vec<(&'p str, &'p str)>,
}

/// Runs the tests, long or short.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut turns = TURNS_LONG;
    options::read(arguments, |word, _| {
        if word == "--short" {
            turns = 1;
        }
        Ok(word == "--short")
    })?;
    let page = source(PAGE).map_err(Error::Wrong)?;
    let promises = promises(&page).map_err(Error::Wrong)?;
    let tests = promises.iter().flat_map(|promise| &promise.tests);
    let names: BTreeSet<&str> = tests.map(|(_, name)| *name).collect();
    step("the tests", cargo(&["test", "--quiet", "--workspace", "--no-run"]))?;
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast", "--"];
    arguments.extend(names);
    let mut attacks = cargo(&arguments);
    attacks.env("ROSTER_ATTACK_TURNS", turns.to_string()).stderr(Stdio::null());
    let mut text = String::new();
    timed("attacks", || {
        let output = attacks.output().map_err(|error| Error::Wrong(format!("cargo: {error}")))?;
        text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(())
    })?;
    tell(&promises, &text)
}

/// The promises of the page, in its order.
fn promises(page: &str) -> Result<Vec<Promise<'_>>, String> {
    let (_, rest) = page.split_once(BEGIN).ok_or_else(|| format!("{PAGE}: no {BEGIN}"))?;
    let (told, _) = rest.split_once(END).ok_or_else(|| format!("{PAGE}: no {END}"))?;
    let mut against = "";
    let mut promises = Vec::new();
    for line in told.lines().filter(|line| !line.is_empty() && !TABLE_HEAD.contains(line)) {
        match line.strip_prefix("### ") {
            Some(title) => against = title,
            None => {
                let promise = promise(against, line);
                promises.push(promise.ok_or_else(|| format!("{PAGE}: no promise: {line}"))?);
            }
        }
    }
    Ok(promises)
}

/// ``| sentence | `test` (package), `test` (package) |``
fn promise<'p>(against: &'p str, line: &'p str) -> Option<Promise<'p>> {
    let (says, tests) = line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
    let test = |test: &'p str| {
        let (name, package) = test.strip_prefix('`')?.strip_suffix(')')?.split_once("` (")?;
        Some((package, name))
    };
    Some(Promise { against, says, tests: tests.split(", ").map(test).collect::<Option<_>>()? })
}

/// Says of each promise whether it held.
fn tell(promises: &[Promise<'_>], text: &str) -> Result<(), Error> {
    let ended = |name: &str| {
        let is_it = |path: &str| path.rsplit("::").next() == Some(name);
        let lines = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        let ends: Vec<&str> = lines.filter(|(path, _)| is_it(path)).map(|(_, end)| end).collect();
        let worst = ends.iter().find(|end| **end != "ok").or(ends.first());
        worst.copied().unwrap_or("did not run")
    };
    let (mut broken, mut against) = (0, "");
    for promise in promises {
        if promise.against != against {
            against = promise.against;
            println!("\n{against}");
        }
        let names = promise.tests.iter().map(|(_, name)| (name, ended(name)));
        let failed: Vec<_> = names.filter(|(_, end)| *end != "ok").collect();
        let mark = if failed.is_empty() { "held  " } else { "BROKEN" };
        println!("  {mark}  {}", promise.says);
        for (name, end) in &failed {
            println!("          {name}: {end}");
        }
        broken += usize::from(!failed.is_empty());
    }
    match broken {
        0 => Ok(()),
        broken => {
            println!(
                "\n{}",
                text.lines().skip_while(|line| *line != "failures:").collect::<Vec<_>>().join("\n")
            );
            Err(Error::Wrong(format!("{broken} promises are broken")))
        }
    }
}

/// The page that makes the promises, and the marks around them.
const PAGE: &str = "docs/security.md";
const BEGIN: &str = "<!-- promises: begin -->";
const END: &str = "<!-- promises: end -->";
const TABLE_HEAD: [&str; 2] = ["| promise | attacked by |", "|---|---|"];
/// How many times as long as in CI what draws its attacks by chance goes on.
const TURNS_LONG: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::root;

    /// That each test is there is seen in the sources; `cargo xtask attack` sees that it runs.
    #[test]
    fn every_promise_is_attacked_by_tests_that_exist() {
        let page = source(PAGE).unwrap();
        let promises = promises(&page).unwrap();
        assert!(promises.len() > 20 && promises.iter().all(|one| !one.against.is_empty()));
        let mut sources = std::collections::BTreeMap::new();
        for (package, name) in promises.iter().flat_map(|promise| &promise.tests) {
            let text = sources.entry(*package).or_insert_with(|| whole(package));
            assert!(text.contains(&format!("fn {name}(")), "{package}: {name}");
        }
    }

    /// All sources of a package.
    fn whole(package: &str) -> String {
        let mut folders = vec![root().join("crates").join(package)];
        let mut text = String::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    text.push_str(&std::fs::read_to_string(path).unwrap());
                }
            }
        }
        text
    }

    #[test]
    fn a_row_is_a_promise_with_its_tests() {
        let row = "| A `b` holds, always | `one` (aci), `two` (server) |";
        let tests = vec![("aci", "one"), ("server", "two")];
        assert_eq!(
            promise("", row),
            Some(Promise { against: "", says: "A `b` holds, always", tests })
        );
        for wrong in ["| A |", "| A |  |", "| A | `one` |", "A | `one` (aci)", "| A | one (aci) |"]
        {
            assert_eq!(promise("", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_test_that_did_not_run_breaks_its_promise() {
        let promises = [Promise { against: "A", says: "B", tests: vec![("c", "d"), ("e", "f")] }];
        let held = |text: &str| tell(&promises, text).is_ok();
        assert!(held("test g::d ... ok\ntest f ... ok\n"));
        assert!(!held("test g::d ... ok\n"));
        assert!(!held("test g::d ... ok\ntest f ... FAILED\n"));
        assert!(!held("test g::d ... ok\ntest f ... ok\ntest h::f ... FAILED\n"));
        assert!(!held("test g::d ... ok\ntest gf ... ok\n"));
    }
}
