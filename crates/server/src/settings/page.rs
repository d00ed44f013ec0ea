//! The sample file and the reference page, written from the table.

use std::fmt::Write as _;

use super::Settings;
use super::policy;
use super::row::{Kind, Row};
use super::rows::{ROWS, SECTIONS};

impl Settings {
    /// A commented `roster.toml` that sets every setting to its default.
    #[must_use]
    pub fn sample() -> String {
        let mut text = String::from(
            "# Settings of a roster server. Every line that is commented out shows the default.\n",
        );
        for (section, sentence) in SECTIONS {
            let _ = write!(text, "\n# {sentence}\n[{section}]\n");
            for row in rows_of(section) {
                let _ = write!(text, "\n# {}\n# {}.\n", row.sentence, capitalized(&row.accepts()));
                let _ = writeln!(text, "#{} = {}", row.key, toml_default(row));
            }
        }
        text.push_str(policy::SAMPLE);
        text
    }

    /// The reference page, Markdown.
    #[must_use]
    pub fn reference() -> String {
        let mut text = String::from(HEAD);
        for (section, sentence) in SECTIONS {
            let _ = write!(text, "\n## [{section}]\n\n{sentence}\n");
            for row in rows_of(section) {
                let _ = write!(text, "\n### {}\n\n{}\n\n", row.name(), row.sentence);
                let _ = writeln!(text, "- Value: {}", row.accepts());
                let _ = writeln!(text, "- Default: `{}`", toml_default(row));
                let _ = writeln!(text, "- Variable: `{}`", row.variable());
            }
        }
        text.push_str(policy::REFERENCE);
        text
    }
}

fn rows_of(section: &str) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.section == section)
}

/// The default as TOML.
fn toml_default(row: &Row) -> String {
    match row.kind {
        Kind::Number { .. } => row.default.to_owned(),
        Kind::Path { .. }
        | Kind::Mode { .. }
        | Kind::TimeOfDay { .. }
        | Kind::Word { .. }
        | Kind::Text { .. } => {
            format!("\"{}\"", row.default)
        }
        Kind::Addresses { .. } | Kind::Words { .. } => list(row.default, ','),
        Kind::Texts { separator, .. } => list(row.default, separator),
    }
}

fn list(text: &str, separator: char) -> String {
    let items = text.split(separator).filter(|item| !item.is_empty());
    let quoted = items.map(|item| format!("\"{item}\""));
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

const HEAD: &str = "# Settings

Settings are in `roster.toml`: the file of that name in the data directory, which is read if it is
there, and the file that `roster serve --config FILE` names, which overrides it. Both are optional,
because every setting has a default. An environment variable overrides the files; a command line
option overrides them all. The file in the data directory cannot change `server.data`. With `_FILE`
appended to its name, a variable names a file that contains the value.
In a variable, commas separate the items of a list, unless another character is named.

An unknown section, key or variable is an error, and so is a value out of range.

This page is generated from the table in `crates/server/src/settings/rows.rs`; a test compares it.
To regenerate it: `ROSTER_WRITE_REFERENCE=1 cargo test -p server reference`.
";
