//! `cargo xtask lines`: how much source there is to read, crate by crate.
//!
//! Counted are the lines of `src` that are not blank and do not belong to tests, comments too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item};

use crate::tidy::circles::product;
use crate::tidy::source;
use crate::{Error, options, shell};

/// What a crate has: files with product lines, and their lines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Count {
    files: usize,
    pub(crate) lines: usize,
}

/// Prints the table; of another tree than this if its folder is named.
pub(crate) fn run(arguments: &[String]) -> Result<(), Error> {
    let mut folder = shell::root();
    options::read(arguments, |name, _| {
        folder = name.into();
        Ok(!name.starts_with('-'))
    })?;
    let crates = count(&source::files(&folder)).map_err(Error::Wrong)?;
    let print = |name: &str, count: Count| {
        println!("{name:<12} {:>6} {:>9}", count.files, count.lines);
    };
    println!("{:<12} {:>6} {:>9}", "crate", "files", "lines");
    for (name, count) in &crates {
        print(name, *count);
    }
    print("together", together(&crates));
    Ok(())
}

/// The sum of all crates.
pub(crate) fn together(crates: &BTreeMap<String, Count>) -> Count {
    crates.values().fold(Count::default(), |sum, one| Count {
        files: sum.files + one.files,
        lines: sum.lines + one.lines,
    })
}

/// What each crate has.
pub(crate) fn count(files: &[source::File]) -> Result<BTreeMap<String, Count>, String> {
    let mut tests = Tests::default();
    let mut counted = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(name) = crate_of(&file.path) else { continue };
        let text = syn::parse_file(&file.text);
        tests.enter(&file.path);
        tests.visit_file(&text.map_err(|error| format!("{}: {error}", file.path))?);
        let lines = (1..).zip(file.text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let lines = lines.filter(|(at, _)| !tests.lines.contains(at)).count();
        counted.push((name, &file.path, lines));
    }
    let mut crates: BTreeMap<String, Count> = BTreeMap::new();
    for (name, path, lines) in counted {
        let is_of = |test: &String| path.strip_prefix(test.as_str()).unwrap_or_default();
        if !tests.modules.iter().map(is_of).any(|rest| rest == ".rs" || rest.starts_with('/')) {
            let count = crates.entry(name.to_owned()).or_default();
            *count = Count { files: count.files + 1, lines: count.lines + lines };
        }
    }
    Ok(crates)
}

/// The crate whose `src` a file stands in.
fn crate_of(path: &str) -> Option<&str> {
    let (name, rest) = path.strip_prefix("crates/").unwrap_or(path).split_once('/')?;
    rest.starts_with("src/").then_some(name)
}

/// The lines of a file, and the modules in files of their own, that are there for tests alone.
#[derive(Default)]
struct Tests {
    folder: String,
    lines: BTreeSet<usize>,
    modules: Vec<String>,
}

impl Tests {
    fn enter(&mut self, path: &str) {
        let folder = Path::new(path).with_extension("");
        let owns = ["lib", "main", "mod"].iter().any(|name| folder.ends_with(name));
        let folder = if owns { folder.parent().unwrap_or(&folder) } else { &folder };
        self.folder = folder.to_string_lossy().into_owned();
        self.lines.clear();
    }
}

impl Visit<'_> for Tests {
    fn visit_item(&mut self, item: &Item) {
        if !product::is_test(product::attributes(item)) {
            return visit::visit_item(self, item);
        }
        self.lines.extend(item.span().start().line..=item.span().end().line);
        if let Item::Mod(module) = item {
            self.modules.push(format!("{}/{}", self.folder, module.ident));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &ImplItemFn) {
        if product::is_test(&item.attrs) {
            self.lines.extend(item.span().start().line..=item.span().end().line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_blank_lines_do_not_count() {
        let file = |path: &str, text: &str| source::File { path: path.into(), text: text.into() };
        let files = [
            file(
                "crates/a/src/lib.rs",
                "//! A.\n\nfn a() {}\n\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod tests {\n}\n",
            ),
            file("crates/a/src/b.rs", "//! B.\n"),
            file("crates/a/src/b/c.rs", "//! C.\n"),
            file("crates/a/src/d.rs", "impl D {\n    #[cfg(test)]\n    fn d() {}\n}\n"),
            file("crates/a/tests/e.rs", "//! E.\n"),
            file("xtask/src/main.rs", "//! X.\n"),
        ];
        let crates = count(&files).unwrap();
        assert_eq!(crates["a"], Count { files: 2, lines: 4 });
        assert_eq!(together(&crates), Count { files: 3, lines: 5 });
    }
}
