//! Circles between the files of a crate: each names, over others or at once, what is in the other.
//!
//! Whoever reads one file of a circle has to read them all. An edge goes from a file to the one in
//! which an item is defined that it names; what a file only re-exports, and modules as such, make
//! none. Not seen are methods: which file has the one that is called, only types would tell.

mod facts;
mod graph;
pub(crate) mod product;
mod show;
mod tree;

use std::collections::{BTreeSet, HashMap};

use self::graph::Graph;
use self::tree::Tree;
use super::source::File;
use super::{EXCEPTIONS, Exception, Finding};

pub(crate) use self::show::run;

pub(super) const RULE: &str = "circle";

/// Files that may be in one circle.
const CIRCLE_FILES_MAX: usize = 6;
/// Edges that a finding names.
const CUTS_TOLD: usize = 3;

/// One crate.
struct Crate {
    name: String,
    /// The folder of its source, relative to the root.
    source: String,
    graph: Graph,
}

/// Checks each crate, and that each exception is as low as it can be.
pub(super) fn check(
    files: &[File],
    exceptions: &[Exception],
    findings: &mut Vec<Finding>,
) -> Result<(), String> {
    let crates = read(files)?;
    for one in &crates {
        check_crate(one, exceptions, findings);
    }
    for exception in exceptions {
        if !crates.iter().any(|one| one.source == exception.path) {
            findings.push(unneeded(format!("not needed: {RULE} in {}", exception.path)));
        }
    }
    Ok(())
}

fn check_crate(one: &Crate, exceptions: &[Exception], findings: &mut Vec<Finding>) {
    let circles = one.graph.circles();
    let largest = circles.first().map_or(0, Vec::len);
    let exception = exceptions.iter().find(|exception| exception.path == one.source);
    let most = exception.and_then(|exception| exception.most).unwrap_or(CIRCLE_FILES_MAX);
    for circle in circles.iter().filter(|circle| circle.len() > most) {
        findings.push(Finding {
            rule: RULE,
            path: one.source.clone(),
            line: 0,
            message: message(one, circle, most),
        });
    }
    if exception.is_some() && largest <= CIRCLE_FILES_MAX {
        findings.push(unneeded(format!("not needed: {RULE} in {}", one.source)));
    } else if exception.is_some() && largest < most {
        findings.push(unneeded(format!("{RULE} in {}: most is {largest} now", one.source)));
    }
}

fn unneeded(message: String) -> Finding {
    Finding { rule: "exception", path: EXCEPTIONS.to_owned(), line: 0, message }
}

fn message(one: &Crate, circle: &[usize], most: usize) -> String {
    let cuts = one.graph.cuts(circle, CUTS_TOLD).into_iter().map(|cut| {
        let file = |at| one.graph.file(at, &one.source);
        let names = one.graph.names(cut.from, cut.to).into_iter().flatten();
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        format!("{} → {} ({})", file(cut.from), file(cut.to), names.join(", "))
    });
    let cuts: Vec<String> = cuts.collect();
    format!(
        "{} files name each other, {most} may; 'cargo xtask circles {}' shows them; \
         what parts them best: {}",
        circle.len(),
        one.name,
        cuts.join("; ")
    )
}

/// The crates in `crates/`, in the order of their names, each read by a thread.
fn read(files: &[File]) -> Result<Vec<Crate>, String> {
    let texts: HashMap<&str, &str> =
        files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let name_of = |file: &File| -> Option<String> {
        let (name, rest) = file.path.strip_prefix("crates/")?.split_once('/')?;
        (file.is_rust() && rest.starts_with("src/")).then(|| name.to_owned())
    };
    let names: BTreeSet<String> = files.iter().filter_map(name_of).collect();
    std::thread::scope(|scope| {
        let texts = &texts;
        let readers: Vec<_> =
            names.iter().map(|name| scope.spawn(move || read_crate(name, texts))).collect();
        let lost = |_| Err("a reader of circles panicked".to_owned());
        readers.into_iter().map(|reader| reader.join().unwrap_or_else(lost)).collect()
    })
}

fn read_crate(name: &str, texts: &HashMap<&str, &str>) -> Result<Crate, String> {
    let source = format!("crates/{name}/src");
    let text = |path: &str| texts.get(path).map(|text| (*text).to_owned());
    let graph = Tree::read(name, &source, &text)?.graph();
    Ok(Crate { name: name.to_owned(), source, graph })
}

#[cfg(test)]
mod tests;
