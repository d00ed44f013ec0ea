//! The sample file and the reference page, written from the table.

use std::fmt::Write as _;

use super::load::unknown;
use super::of_directory::attribute;
use super::policy;
use super::row::{Kind, Place, Row, is_switch};
use super::rows::{ROWS, SECTIONS};
use super::{Settings, SettingsError};

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
                let _ = writeln!(text, "- {}", place(row));
            }
        }
        text.push_str(policy::REFERENCE);
        text
    }
}

/// What a setting is, for those who ask for it by name.
#[derive(Clone, Debug)]
pub struct SettingDescription {
    /// `SECTION.KEY`.
    pub name: String,
    /// What it means.
    pub sentence: &'static str,
    /// Which values it takes, in words.
    pub accepts: String,
    /// Its default, as in a file.
    pub default: String,
    /// The variable of the environment that sets it.
    pub variable: String,
    /// Where it lives, and when a change of it takes effect.
    pub place: String,
    /// The attribute that shows it, where it is the directory's.
    pub attribute: Option<String>,
    /// What separates the items of a list; none where it has one value.
    pub separator: Option<char>,
    /// Whether it is `true` or `false`.
    pub is_switch: bool,
}

/// Every setting, by section.
#[must_use]
pub fn setting_descriptions() -> Vec<SettingDescription> {
    let described = |row: &Row| SettingDescription {
        name: row.name(),
        sentence: row.sentence,
        accepts: row.accepts(),
        default: toml_default(row),
        variable: row.variable(),
        place: place(row),
        attribute: matches!(row.place, Place::Directory(_)).then(|| attribute(row)),
        separator: row.separator(),
        is_switch: matches!(row.kind, Kind::Word { words, .. } if is_switch(words)),
    };
    SECTIONS.iter().flat_map(|(section, _)| rows_of(section)).map(described).collect()
}

/// The setting whose name is most like this one, if any is.
#[must_use]
pub fn setting_like(name: &str) -> Option<String> {
    let longer = ROWS.iter().map(Row::name).find(|known| known.contains(name));
    if longer.is_some() {
        return longer;
    }
    match unknown(String::new(), name, ROWS.iter().map(Row::name)) {
        SettingsError::Unknown { suggestion, .. } => suggestion,
        SettingsError::Io { .. } | SettingsError::Syntax { .. } | SettingsError::Value { .. } => {
            None
        }
    }
}

fn rows_of(section: &str) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.section == section)
}

/// Where it lives, and when a change of it takes effect.
fn place(row: &Row) -> String {
    match row.place {
        Place::Start => "Of this server; takes effect at the next start".to_owned(),
        Place::Reload => "Of this server; takes effect on SIGHUP".to_owned(),
        Place::Directory(_) => format!(
            "Of the directory, takes effect at once: `{}` of `cn={},cn=Settings,cn=config`; of \
             this server, where it is set here",
            attribute(row),
            row.section
        ),
    }
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
        Kind::Addresses { .. } | Kind::Words { .. } | Kind::Texts { .. } => {
            let quoted = row.items(row.default).map(|item| format!("\"{item}\""));
            format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
        }
    }
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

Settings of the directory are the same on all its servers: they are attributes of entries below
`cn=Settings,cn=config`, are changed with `roster config set`, and take effect at once. What this
server's own files, environment and options say comes before them. SIGHUP has a server read its
files again; the log tells what has changed, and what takes effect at the next start only.

An unknown section, key or variable is an error, and so is a value out of range.

This page is generated from the table in `crates/server/src/settings/rows.rs`; a test compares it.
To regenerate it: `ROSTER_WRITE_REFERENCE=1 cargo test -p server reference`.
";
