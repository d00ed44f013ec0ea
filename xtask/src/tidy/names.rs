//! One type for one word: a public name stands for one thing in the whole workspace.
//!
//! Where two crates define a public `Reader`, whoever reads the word asks which one is meant, and a
//! file that needs both renames one of them. What only tests use may repeat a name.

use std::collections::BTreeMap;

use super::Finding;
use super::source::File;

/// How the definitions begin that the rule looks at.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
/// Files of product crates that only tests use: their folder, or their name.
const TEST_ONLY: [&str; 3] = ["/conformance", "/test_support.rs", "/simulated.rs"];
/// The crate that only tests use.
const TEST_CRATE: &str = "testing";

/// Where a name is defined.
struct Definition<'f> {
    of_crate: &'f str,
    path: &'f str,
    /// Counted from 1.
    line: usize,
}

/// Finds public names that two crates define.
pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let mut names: BTreeMap<&str, Vec<Definition<'_>>> = BTreeMap::new();
    for file in files {
        let Some(of_crate) = product_crate(file) else { continue };
        for (at, line) in file.text.lines().take(file.product_lines()).enumerate() {
            if let Some(name) = public_name(line) {
                let definition = Definition { of_crate, path: &file.path, line: at + 1 };
                names.entry(name).or_default().push(definition);
            }
        }
    }
    for (name, definitions) in names {
        for one in &definitions {
            let other = definitions.iter().find(|other| other.of_crate != one.of_crate);
            if let Some(Definition { path, line, .. }) = other {
                let message = format!("{name} is also defined in {path}:{line}");
                let path = one.path.to_owned();
                findings.push(Finding { rule: "name", path, line: one.line, message });
            }
        }
    }
}

/// The crate whose product the file belongs to.
fn product_crate(file: &File) -> Option<&str> {
    let (of_crate, below) = file.path.strip_prefix("crates/")?.split_once('/')?;
    let is_product = file.is_rust()
        && below.starts_with("src/")
        && of_crate != TEST_CRATE
        && !TEST_ONLY.iter().any(|part| file.path.contains(part));
    is_product.then_some(of_crate)
}

/// The name that a line defines. Lines within a module of a file are indented, and left out.
fn public_name(line: &str) -> Option<&str> {
    let (keyword, rest) = line.strip_prefix("pub ")?.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = rest.get(..end)?;
    (KEYWORDS.contains(&keyword) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_names(texts: &[(&str, &str)], want: &[(&str, usize, &str)]) {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: format!("//! Why.\n{text}\n"),
        };
        let files: Vec<File> = texts.iter().map(file).collect();
        let mut findings = Vec::new();
        check(&files, &mut findings);
        let found: Vec<_> =
            findings.iter().map(|one| (&*one.path, one.line, &*one.message)).collect();
        assert_eq!(found, want);
        assert!(findings.iter().all(|one| one.rule == "name"));
    }

    #[test]
    fn two_crates_that_define_a_name_are_told_of_each_other() {
        let one = ("crates/a/src/x.rs", "pub struct Name<'a>(&'a str);");
        let other = ("crates/b/src/y/z.rs", "\npub enum Name {}");
        let in_one = ("crates/a/src/x.rs", 2, "Name is also defined in crates/b/src/y/z.rs:3");
        let in_other = ("crates/b/src/y/z.rs", 3, "Name is also defined in crates/a/src/x.rs:2");
        check_names(&[one, other], &[in_one, in_other]);
        let trait_and_type = [("crates/a/src/x.rs", "pub trait Name: Send {}"), other];
        check_names(&trait_and_type, &[in_one, in_other]);
    }

    #[test]
    fn a_name_may_be_defined_twice_within_a_crate_or_out_of_sight() {
        let one = ("crates/a/src/x.rs", "pub struct Name;");
        check_names(&[one, ("crates/a/src/y.rs", "pub struct Name;")], &[]);
        check_names(&[one, ("crates/b/src/y.rs", "pub struct Names;\npub fn Name() {}")], &[]);
        check_names(&[one, ("crates/b/src/y.rs", "pub(crate) struct Name;")], &[]);
        check_names(&[one, ("crates/b/src/y.rs", "mod m {\n    pub struct Name;\n}")], &[]);
        check_names(&[one, ("crates/b/src/y.rs", "pub use a::Name;")], &[]);
    }

    #[test]
    fn what_only_tests_use_may_repeat_a_name() {
        let one = ("crates/a/src/x.rs", "pub struct Name;");
        for path in [
            "crates/testing/src/x.rs",
            "crates/b/src/log/conformance/x.rs",
            "crates/b/src/test_support.rs",
            "crates/b/src/simulated.rs",
            "crates/b/src/x/tests.rs",
            "crates/b/tests/x.rs",
            "xtask/src/x.rs",
        ] {
            check_names(&[one, (path, "pub struct Name;")], &[]);
        }
        check_names(&[one, ("crates/b/src/y.rs", "#[cfg(test)]\npub struct Name;")], &[]);
    }
}
