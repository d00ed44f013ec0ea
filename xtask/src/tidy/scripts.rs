//! Rules for dialogue scripts: they parse, start with a sentence, and their fixtures exist.

use std::path::Path;

use testing::{Script, SkipList, run};

use super::Finding;

/// Checks every script and every skip list.
pub(crate) fn check(root: &Path, findings: &mut Vec<Finding>) {
    let directory = root.join("tests/scripts");
    let mut report = |path: &Path, line: usize, message: String| {
        let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        findings.push(Finding { rule: "script", path, line, message });
    };
    for path in run::script_paths(&directory).unwrap_or_default() {
        let script = match Script::read(&path) {
            Ok(script) => script,
            Err(error) => {
                report(&path, error.line, error.reason);
                continue;
            }
        };
        if !script.headline.ends_with('.') {
            report(&path, 1, "the first comment must be a sentence".to_owned());
        }
        for dialogue in &script.dialogues {
            if !directory.join("data").join(&dialogue.fixture).exists() {
                report(&path, dialogue.line, format!("no fixture {}", dialogue.fixture));
            }
        }
    }
    for entry in std::fs::read_dir(root.join("tests/peers")).into_iter().flatten().flatten() {
        if let Err(error) = SkipList::read(&entry.path()) {
            report(&entry.path(), 0, error);
        }
    }
}
