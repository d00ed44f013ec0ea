//! Rules for single files: head, length, width, markers, the form of RFC references.

use std::path::Path;

use super::Finding;

/// Lines of a Rust file up to its tests.
const LENGTH_MAX_LINES: usize = 800;
/// Characters in a line of Rust.
const WIDTH_MAX_COLUMNS: usize = 100;
/// Directories that hold nothing of ours.
const FOREIGN: &[&str] = &["target", "corpus", "artifacts", "coverage"];
/// Text files that the rules look at.
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "ldap", "ldif", "skip", "sh", "template"];

/// Who may ask for a `Permitted`: what changes entries goes through the one list of checks.
const PERMITTING: &[&str] = &[
    // The list itself.
    "crates/directory/src/write/checks.rs",
    // No entries: settings, indexes, the schema.
    "crates/directory/src/config/setting_config.rs",
    "crates/directory/src/config/index_config.rs",
    "crates/directory/src/config/schema_modify.rs",
    // The setting beside the entry, which goes through the list.
    "crates/directory/src/write/context_rename.rs",
];

/// Who may make a `Permitted` without a decision: changes that the server makes on its own account.
const INTERNAL: &[&str] = &[
    // The entries of naming contexts, which `init` makes.
    "crates/directory/src/write/suffix.rs",
    // Values that follow the entries that they name.
    "crates/directory/src/write/references.rs",
    "crates/directory/src/write/references/gathering.rs",
    "crates/directory/src/write/references/listed.rs",
    // Numbers and memberships that administrators have the server write.
    "crates/directory/src/assignment/number.rs",
    "crates/directory/src/assignment/follow.rs",
    // What records may say, which no client asks for.
    "crates/directory/src/config/record_level.rs",
    "crates/directory/src/config/naming_context_config.rs",
    // Up to which change sinks were told.
    "crates/directory/src/sinks/position.rs",
    // Records of a test suite for logs.
    "crates/history/src/log/conformance/script.rs",
    "crates/aci/src/permitted.rs",
];

/// What reads a response: only clients do. What a response of our own says is its `Completion`.
const READS_RESPONSE: &[&str] = &["Message::<Response", "Message<'_, Response", "Response::read"];

/// The crates that answer.
const ANSWERING: &[&str] = &["crates/directory/src/", "crates/server/src/"];

/// A text file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines before the tests; a file in a `tests` directory has none.
    pub(crate) fn product_lines(&self) -> usize {
        if self.path.contains("/tests/") || self.path.ends_with("/tests.rs") {
            return 0;
        }
        let tests = self.text.lines().position(|line| line.trim() == "#[cfg(test)]");
        tests.unwrap_or_else(|| self.text.lines().count())
    }
}

/// All text files below `root`, sorted by path.
pub(crate) fn files(root: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') && !FOREIGN.contains(&name.as_str()) {
                    directories.push(path);
                }
            } else if extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                files.push(File { path: relative.to_string_lossy().into_owned(), text });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Applies every rule to one file.
pub(crate) fn check(file: &File, findings: &mut Vec<Finding>) {
    let mut report = |rule, line, message: String| {
        findings.push(Finding { rule, path: file.path.clone(), line, message });
    };
    if file.is_rust() {
        if !file.text.starts_with("//!") {
            report("head", 1, "the first line must say what the file is for (//!)".to_owned());
        }
        let lines = file.product_lines();
        if lines > LENGTH_MAX_LINES {
            report("length", 0, format!("{lines} lines without tests"));
        }
    }
    let product_lines = file.product_lines();
    for (at, line) in file.text.lines().enumerate() {
        let columns = line.chars().count();
        if file.is_rust() && columns > WIDTH_MAX_COLUMNS {
            report("width", at + 1, format!("{columns} columns"));
        }
        if at < product_lines && asks_for_permitted(&file.path, line) {
            let why = "changes of entries go through write/checks.rs, so that none skips a check";
            report("permit", at + 1, why.to_owned());
        }
        if at < product_lines && reads_response(&file.path, line) {
            let why = "a response of our own is not read back: its Completion says what it says";
            report("response", at + 1, why.to_owned());
        }
        if file.is_rust() && at < product_lines && begins_with_tuple(line) {
            let why = "parameters in a tuple: make them plain parameters, or a struct with a name";
            report("tuple", at + 1, why.to_owned());
        }
        if let Some(marker) = marker(line) {
            report("marker", at + 1, format!("{marker}: do it or open an issue"));
        }
        if let Some(reference) = odd_rfc_reference(line) {
            report("rfc", at + 1, format!("want the form 'RFC 4511 §4.5.1', not '{reference}'"));
        }
    }
}

fn asks_for_permitted(path: &str, line: &str) -> bool {
    const CALLS: [&str; 3] = [".permit(", ".permit_with(", ".permit_move("];
    let is_internal = path.starts_with("crates/")
        && !INTERNAL.contains(&path)
        && line.contains("Permitted::internal");
    let asks = path.starts_with("crates/directory/src/")
        && !PERMITTING.contains(&path)
        && CALLS.iter().any(|call| line.contains(call));
    is_internal || asks
}

/// Whether a parameter is a pattern of a tuple: `(start, end): (usize, usize)`, at the beginning of
/// a line or in the list of a function.
fn begins_with_tuple(line: &str) -> bool {
    let is_tuple = |text: &str| {
        let pattern = text.strip_prefix('(').and_then(|text| text.split_once("): ("));
        pattern.is_some_and(|(names, _)| !names.contains(['|', '=', '.']))
    };
    let line = line.trim_start();
    let Some((_, rest)) = line.split_once("fn ") else { return is_tuple(line) };
    rest.match_indices('(').any(|(at, _)| is_tuple(rest.get(at..).unwrap_or_default()))
        || rest.split_once('(').is_some_and(|(_, parameters)| is_tuple(parameters))
}

fn reads_response(path: &str, line: &str) -> bool {
    ANSWERING.iter().any(|source| path.starts_with(source))
        && READS_RESPONSE.iter().any(|text| line.contains(text))
}

fn marker(line: &str) -> Option<&'static str> {
    // Taken apart, or this file would break the rule it holds.
    const MARKERS: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X:")];
    MARKERS.into_iter().find(|marker| line.contains(marker))
}

/// A reference to an RFC in another form than `RFC 4511` or `RFC 4511 §4.5.1`.
fn odd_rfc_reference(line: &str) -> Option<String> {
    for (at, _) in line.match_indices("RFC") {
        let rest = line.get(at + 3..).unwrap_or_default();
        let number: &str = rest.trim_start_matches([' ', '-', '_', ':']);
        let digits = number.chars().take_while(char::is_ascii_digit).count();
        if digits < 3 {
            continue;
        }
        let after = number.get(digits..).unwrap_or_default();
        let spaced = rest.strip_prefix(' ') == Some(number);
        let odd_tail = ["§", ", §", ", section", ", sec", " section", " Section", " sec", ", Sec"];
        let odd = !spaced || odd_tail.iter().any(|tail| after.starts_with(tail));
        let bare = after.starts_with(" §")
            && !after.chars().nth(2).is_some_and(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
        if odd || bare {
            return Some(line.get(at..).unwrap_or_default().chars().take(24).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rules(path: &str, text: &str, want: &[&str]) {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let mut findings = Vec::new();
        check(&file, &mut findings);
        let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(rules, want, "{text}");
    }

    #[test]
    fn rust_files_have_a_head_and_measured_lines() {
        check_rules("a.rs", "//! Why.\n", &[]);
        check_rules("a.rs", "fn a() {}\n", &["head"]);
        check_rules("a.rs", &format!("//! Why.\n// {}\n", "x".repeat(98)), &["width"]);
        check_rules("a.rs", &format!("//! Why.\n{}", "\n".repeat(800)), &["length"]);
        check_rules("a.rs", &format!("//! Why.\n#[cfg(test)]\n{}", "\n".repeat(800)), &[]);
        check_rules("a/tests/b.rs", &format!("//! Why.\n{}", "\n".repeat(800)), &[]);
        check_rules("a.md", &"x".repeat(200), &[]);
    }

    #[test]
    fn markers_are_refused_everywhere() {
        check_rules("a.md", concat!("a FIX", "ME b"), &["marker"]);
        check_rules("a.rs", concat!("//! TO", "DO"), &["marker"]);
    }

    #[test]
    fn changes_of_entries_go_through_one_list_of_checks() {
        let text = "//! Why.\nlet change = rights.permit(change)?;\n";
        check_rules("crates/directory/src/ops/new.rs", text, &["permit"]);
        check_rules("crates/directory/src/write/checks.rs", text, &[]);
        check_rules("crates/aci/src/rights.rs", text, &[]);
        check_rules("crates/directory/src/ops/new.rs", "//! Why.\nchecks::permit(a)\n", &[]);
        let text = "//! Why.\nlet change = Permitted::internal(change);\n";
        check_rules("crates/directory/src/ops/new.rs", text, &["permit"]);
        check_rules("crates/directory/src/write/suffix.rs", text, &[]);
    }

    #[test]
    fn parameters_are_no_tuples() {
        let head = "//! Why.\n";
        let tuples = [
            "fn a((b, c): (u8, u8)) {}",
            "pub fn a(d: u8, (b, c): (u8, u8)) {}",
            "    (b, c): (u8, u8),",
        ];
        for tuple in tuples {
            check_rules("a.rs", &format!("{head}{tuple}"), &["tuple"]);
        }
        let fine =
            ["fn a(b: (u8, u8)) {}", "let (b, c): (u8, u8) = d;", "d.map(|(b, c): (u8, u8)| b)"];
        for fine in fine {
            check_rules("a.rs", &format!("{head}{fine}"), &[]);
        }
    }

    #[test]
    fn responses_are_not_read_back() {
        let text = "//! Why.\nlet said = Message::<Response<'_>>::decode(bytes, limits)?;\n";
        check_rules("crates/server/src/log/new.rs", text, &["response"]);
        check_rules("crates/directory/src/new.rs", text, &["response"]);
        check_rules("crates/client/src/connection.rs", text, &[]);
        check_rules("crates/server/src/tests/new.rs", text, &[]);
    }

    #[test]
    fn rfc_references_have_one_form() {
        for fine in ["RFC 4511", "RFC 4511 §4.5.1.7", "(RFC 4511 §A.2)", "the RFC says", "RFCs"] {
            check_rules("a.md", fine, &[]);
        }
        // Put together here, or this file would break the rule it holds.
        for odd in ["-4511", "4511", " 4511, section 4", " 4511 section 4", " 4511§4", " 4511 § 4"]
        {
            check_rules("a.md", &format!("{}{odd}", "RFC"), &["rfc"]);
        }
    }
}
