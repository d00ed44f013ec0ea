//! `cargo xtask attack`: every way to attack a server that a test of ours knows, and the promise
//! that it attacks.
//!
//! Invariant: the table is what `docs/security.md` promises; a row without a test that runs is an
//! error. CI runs each of these tests with the others, with the turns they have by themselves.

use std::collections::BTreeSet;
use std::process::Stdio;

use crate::shell::{cargo, step, timed};
use crate::{Error, options};

mod table;

use self::table::PROMISES;

/// Something that roster promises, and the tests that try to break it.
struct Promise {
    against: Against,
    /// What is promised, a sentence without its full stop.
    says: &'static str,
    /// The package, the module and the name of each test.
    tests: &'static [(&'static str, &'static str, &'static str)],
}

/// Whom a promise is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Against {
    Strangers,
    SignedIn,
    Delegated,
    DiskHolder,
}

impl Against {
    const ALL: [Self; 4] = [Self::Strangers, Self::SignedIn, Self::Delegated, Self::DiskHolder];

    fn title(self) -> &'static str {
        match self {
            Self::Strangers => "Anonymous clients",
            Self::SignedIn => "Authenticated users",
            Self::Delegated => "Delegated administrators",
            Self::DiskHolder => "Access to the disk, and the disk itself",
        }
    }
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
    let names: BTreeSet<String> = tests().map(|(_, name)| name).collect();
    step("the tests", cargo(&["test", "--quiet", "--workspace", "--no-run"]))?;
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast", "--", "--exact"];
    arguments.extend(names.iter().map(String::as_str));
    let mut attacks = cargo(&arguments);
    attacks.env("ROSTER_ATTACK_TURNS", turns.to_string()).stderr(Stdio::null());
    let mut text = String::new();
    timed("attacks", || {
        let output = attacks.output().map_err(|error| Error::Wrong(format!("cargo: {error}")))?;
        text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(())
    })?;
    tell(&text)
}

/// Says of each promise whether it held.
fn tell(text: &str) -> Result<(), Error> {
    let ended = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("test "));
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" ... "))
    };
    let mut broken = 0;
    for against in Against::ALL {
        println!("\n{}", against.title());
        for promise in PROMISES.iter().filter(|promise| promise.against == against) {
            let names = promise.tests.iter().map(|&(_, module, name)| path(module, name));
            let failed: Vec<String> = names.filter(|name| ended(name) != Some("ok")).collect();
            let mark = if failed.is_empty() { "held  " } else { "BROKEN" };
            println!("  {mark}  {}", promise.says);
            for name in &failed {
                println!("          {name}: {}", ended(name).unwrap_or("did not run"));
            }
            broken += usize::from(!failed.is_empty());
        }
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

/// The package and the whole name of every test.
fn tests() -> impl Iterator<Item = (&'static str, String)> {
    let tests = PROMISES.iter().flat_map(|promise| promise.tests);
    tests.map(|&(package, module, name)| (package, path(module, name)))
}

fn path(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

/// How many times as long as in CI what draws its attacks by chance goes on.
const TURNS_LONG: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{root, source};

    const BEGIN: &str = "<!-- promises: begin -->\n";
    const END: &str = "<!-- promises: end -->\n";

    fn page() -> String {
        let mut page = String::new();
        for against in Against::ALL {
            page.push_str(&format!(
                "### {}\n\n| promise | attacked by |\n|---|---|\n",
                against.title()
            ));
            for promise in PROMISES.iter().filter(|promise| promise.against == against) {
                let tests: Vec<String> = promise
                    .tests
                    .iter()
                    .map(|(package, _, name)| format!("`{name}` ({package})"))
                    .collect();
                page.push_str(&format!("| {} | {} |\n", promise.says, tests.join(", ")));
            }
            page.push('\n');
        }
        page
    }

    /// `ROSTER_WRITE_REFERENCE=1 cargo test -p xtask promises` writes it again.
    #[test]
    fn the_promises_of_the_security_page_are_up_to_date() {
        let path = root().join("docs/security.md");
        let text = source("docs/security.md").unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (told, after) = rest.split_once(END).unwrap();
        if std::env::var_os("ROSTER_WRITE_REFERENCE").is_some() {
            let text = format!("{before}{BEGIN}\n{}{END}{after}", page());
            std::fs::write(path, text).unwrap();
            return;
        }
        assert_eq!(told.trim(), page().trim());
    }

    /// That each test is there is seen in the sources; `cargo xtask attack` sees that it runs.
    #[test]
    fn every_promise_is_attacked_by_tests_that_exist() {
        let mut sources = std::collections::BTreeMap::new();
        for (package, name) in tests() {
            let text = sources.entry(package).or_insert_with(|| whole(package));
            let function = name.rsplit("::").next().unwrap();
            assert!(text.contains(&format!("fn {function}(")), "{package}: {name}");
        }
        assert!(PROMISES.iter().all(|promise| !promise.tests.is_empty()));
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
    fn a_test_that_did_not_run_breaks_its_promise() {
        let all: String = tests().map(|(_, name)| format!("test {name} ... ok\n")).collect();
        assert!(tell(&all).is_ok());
        let (_, first) = tests().next().unwrap();
        assert!(tell(&all.replace(&format!("test {first} ... ok\n"), "")).is_err());
        let failed = all.replace(&format!("{first} ... ok"), &format!("{first} ... FAILED"));
        assert!(tell(&failed).is_err());
    }
}
