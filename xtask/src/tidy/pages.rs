//! Rules for pages: links lead somewhere, the architecture page agrees with the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::File;
use super::{Finding, manifests};

const ARCHITECTURE: &str = "docs/architecture.md";

/// Links of a Markdown page to files of the tree must exist.
pub(crate) fn check_links(root: &Path, file: &File, findings: &mut Vec<Finding>) {
    if !file.path.ends_with(".md") {
        return;
    }
    let directory = root.join(&file.path).parent().unwrap_or(root).to_owned();
    let mut fenced = false;
    for (at, line) in file.text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        for target in links(line).into_iter().filter(|_| !fenced) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !directory.join(path).exists() {
                findings.push(Finding {
                    rule: "link",
                    path: file.path.clone(),
                    line: at + 1,
                    message: format!("the link leads nowhere: {target}"),
                });
            }
        }
    }
}

/// Targets of `[text](target)` in a line, those with a scheme left out.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// The page names every folder of every crate, under `## Folders`; those of tests have none.
pub(crate) fn check_folders(files: &[File], findings: &mut Vec<Finding>) {
    let page = files.iter().find(|file| file.path == ARCHITECTURE);
    let named = page.map(|page| folders_named(&page.text)).unwrap_or_default();
    let is_of_tests = |folder: &str| folder == "tests" || folder == "conformance";
    let there: BTreeSet<(&str, &str)> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.split_once("/src/"))
        .filter_map(|(name, rest)| Some((name, rest.split_once('/')?.0)))
        .filter(|(name, folder)| *name != "testing" && !is_of_tests(folder))
        .collect();
    let mut report = |message: String| {
        findings.push(Finding {
            rule: "architecture",
            path: ARCHITECTURE.to_owned(),
            line: 0,
            message,
        });
    };
    for (name, folder) in there.difference(&named) {
        report(format!("the page does not name the folder {folder}/ of {name}"));
    }
    for (name, folder) in named.difference(&there) {
        report(format!("{name} has no folder {folder}/"));
    }
}

/// The folders that the page names, with their crates: a line that begins without a space begins
/// with the name of a crate.
fn folders_named(page: &str) -> BTreeSet<(&str, &str)> {
    let block = page.split("\n## Folders\n").nth(1).and_then(|rest| rest.split("```").nth(1));
    let mut named = BTreeSet::new();
    let mut name = "";
    for line in block.unwrap_or_default().lines() {
        if !line.starts_with(' ') {
            name = line.split(' ').next().unwrap_or_default();
        }
        let folders = line.split(' ').filter_map(|word| word.strip_suffix('/'));
        named.extend(folders.map(|folder| (name, folder)));
    }
    named
}

/// Every crate has a row in the page's table and depends on what the row allows, without test code.
pub(crate) fn check_architecture(root: &Path, findings: &mut Vec<Finding>) {
    let mut report = |message: String| {
        findings.push(Finding {
            rule: "architecture",
            path: ARCHITECTURE.to_owned(),
            line: 0,
            message,
        });
    };
    let Ok(page) = std::fs::read_to_string(root.join(ARCHITECTURE)) else {
        report("the page is missing".to_owned());
        return;
    };
    let allowed = dependency_table(&page);
    for manifest in manifests::read(root) {
        let name = &manifest.name;
        for other in &manifest.test_support_of {
            report(format!("{name} switches on test-support of {other} outside tests"));
        }
        match allowed.get(name) {
            Some(allowed) => {
                for other in manifest.dependencies.iter().filter(|one| !allowed.contains(one)) {
                    report(format!("the table does not allow {name} to depend on {other}"));
                }
            }
            None => report(format!("the table has no row for the crate {name}")),
        }
    }
}

/// The table with the columns `crate` and `may depend on`: crate to the crates it may use.
fn dependency_table(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut table = BTreeMap::new();
    let mut columns = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let column = |title: &str| cells.iter().position(|cell| *cell == title);
        match (columns, column("crate"), column("may depend on")) {
            (_, Some(name), Some(allowed)) => columns = Some((name, allowed)),
            (Some((name, allowed)), _, _) => {
                let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
                if let Some(name) = code_words(cell(name)).pop() {
                    table.insert(name, code_words(cell(allowed)));
                }
            }
            (None, _, _) => {}
        }
    }
    table
}

/// The words between back quotes.
fn code_words(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_by_its_column_titles() {
        let page = [
            "| crate | knows | may depend on |",
            "|---|---|---|",
            "| `ldap` | BER | – |",
            "| `aci` | ACI | `ldap`, `schema` |",
            "",
            "| a | b |",
            "| `c` | d |",
        ]
        .join("\n");
        let table = dependency_table(&page);
        assert_eq!(table.len(), 2);
        assert_eq!(table["ldap"], Vec::<String>::new());
        assert_eq!(table["aci"], ["ldap", "schema"]);
    }

    #[test]
    fn links_with_a_scheme_are_not_followed() {
        assert_eq!(links("[a](b.md) and [c](https://d) [e](f.md#g)"), ["b.md", "f.md#g"]);
    }
}
