//! What the configuration is to be, as one file of TOML says it.
//!
//! Invariant: what the file names, it names completely; what it does not name is left alone.
//! Invariant: a file is read in time by its length, and what it becomes has limits.

use std::collections::BTreeMap;
use std::fmt;

use schema::Schema;
use server::SettingDescription;
use store::IndexDefinition;
use toml_edit::{Array, Document, Item, Value};

use super::AREAS;

/// The most bytes of a file.
pub(crate) const FILE_MAX_BYTES: usize = 1 << 20;
/// The most values of one list.
const VALUES_MAX: usize = 10_000;

/// The list whose values are taken as they are: to servers, ACIs that differ in a space are two.
const EXACT: &str = "global_acis";

/// What is to be.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Desired {
    /// The settings that are not as by default; none: they are left alone.
    pub(crate) settings: Option<BTreeMap<String, Vec<String>>>,
    /// The definitions of the indexes.
    pub(crate) indexes: Option<Vec<String>>,
    /// The values of each other part, by its key.
    pub(crate) areas: BTreeMap<&'static str, Vec<String>>,
}

/// Why a text does not say what is to be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileError {
    /// Counted from 1; 0 where it is about the file as a whole.
    pub line: usize,
    /// What is wrong, and what to do.
    pub reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.reason),
            line => write!(f, "line {line}: {}", self.reason),
        }
    }
}

impl Desired {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is no TOML, names what there is not, or is too large.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        if text.len() > FILE_MAX_BYTES {
            let reason = format!("it has more than {} KiB", FILE_MAX_BYTES >> 10);
            return Err(FileError { line: 0, reason });
        }
        let document = Document::parse(text).map_err(|error| FileError {
            line: line_at(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        })?;
        let reader = Reader { text };
        let mut desired = Self::default();
        for (key, item) in document.iter() {
            match key {
                "settings" => desired.settings = Some(reader.settings(item)?),
                "indexes" => desired.indexes = Some(reader.indexes(item)?),
                key => match AREAS.iter().find(|area| area.key == key) {
                    Some(area) => {
                        desired.areas.insert(area.key, reader.list(item, key)?);
                    }
                    None => {
                        let all = AREAS.iter().map(|area| area.key).collect::<Vec<_>>().join(", ");
                        let why = format!(
                            "'{key}' is nothing that a file says; there are settings, indexes, \
                             {all}"
                        );
                        return Err(reader.wrong(item, why));
                    }
                },
            }
        }
        Ok(desired)
    }

    /// What a file may say and this one does not.
    pub(crate) fn left_alone(&self) -> Vec<&'static str> {
        let own = [("settings", self.settings.is_some()), ("indexes", self.indexes.is_some())];
        let own = own.into_iter().filter(|(_, is_there)| !is_there).map(|(key, _)| key);
        let others = AREAS.iter().map(|area| area.key);
        own.chain(others.filter(|key| !self.areas.contains_key(key))).collect()
    }

    /// The text of a file that says this.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = HEAD.to_owned();
        let lists = AREAS.iter().filter_map(|area| Some((area.key, self.areas.get(area.key)?)));
        let indexes = self.indexes.iter().map(|lines| ("indexes", lines));
        for (key, lines) in indexes.chain(lists) {
            out += &match lines.is_empty() {
                true => format!("\n{key} = []\n"),
                false => format!(
                    "\n{key} = [\n{}]\n",
                    lines.iter().map(|line| item(line)).collect::<String>()
                ),
            };
        }
        let Some(settings) = &self.settings else { return out };
        out += "\n[settings]\n";
        let described = server::setting_descriptions();
        let mut last = "";
        for (name, values) in settings {
            let (section, key) = name.split_once('.').unwrap_or(("", name));
            if section != last {
                out += &format!("\n[settings.{section}]\n");
                last = section;
            }
            let setting = described.iter().find(|one| one.name == *name);
            out += &format!("{key} = {}\n", setting_text(setting, values));
        }
        out
    }
}

/// What a file begins with.
const HEAD: &str = "\
# The configuration of a directory, as 'roster config export' writes it.
# 'roster config plan FILE' shows how a directory differs from it, 'roster config apply FILE' makes
# it so. What the file names, it names completely: what is not in a list goes, and a setting that
# is not below [settings] is as by default. A list that the file does not name is left alone.
#
# It does not hold: entries, with the ACIs and password policies that are entries or in them; the
# schema; the settings of each server (roster.toml), with its keys and passwords; tokens to join;
# what is followed. It holds no secrets: sinks name the files that keep theirs.
";

/// A value in a list, in a line.
fn item(value: &str) -> String {
    format!("  {},\n", Value::from(value))
}

/// A setting as it is written.
fn setting_text(setting: Option<&SettingDescription>, values: &[String]) -> String {
    if setting.is_some_and(|one| one.separator.is_some()) {
        let values = values.iter().filter(|value| !value.is_empty());
        return Array::from_iter(values.map(String::as_str)).to_string();
    }
    let value = values.first().map_or("", String::as_str);
    let is_plain =
        setting.is_some_and(|one| one.is_switch || is_plain(&one.default)) && is_plain(value);
    if is_plain { value.to_owned() } else { Value::from(value).to_string() }
}

/// A number or a switch.
fn is_plain(text: &str) -> bool {
    matches!(text, "true" | "false")
        || (text.parse::<u32>().is_ok_and(|number| number.to_string() == text))
        || (text.parse::<i64>().is_ok_and(|number| number.to_string() == text))
}

/// The values that a setting has by default.
pub(crate) fn default_values(setting: &SettingDescription) -> Vec<String> {
    let parsed = setting.default.parse::<Value>().ok();
    let values = parsed.and_then(|value| texts(&value).ok());
    let values = values.unwrap_or_else(|| vec![setting.default.clone()]);
    spelled(setting, values)
}

/// Values in the spelling that lines of the directory have.
fn spelled(setting: &SettingDescription, mut values: Vec<String>) -> Vec<String> {
    if setting.is_switch {
        for value in &mut values {
            match &*value.to_ascii_lowercase() {
                "on" | "true" => "true".clone_into(value),
                "off" | "false" => "false".clone_into(value),
                _ => {}
            }
        }
    }
    // An empty list is said by a line without a value.
    if values.is_empty() { vec![String::new()] } else { values }
}

/// An index in the form that the server has it, as far as the schema that comes with roster tells.
pub(crate) fn canonical(line: &str) -> Option<String> {
    let definition = IndexDefinition::parse(line.trim()).ok()?;
    let known = definition.canonical(&Schema::builtin()).ok();
    Some(known.unwrap_or(definition).to_string())
}

/// What a value of a file says as texts; an error if it is of a kind that says nothing here.
fn texts(value: &Value) -> Result<Vec<String>, &'static str> {
    match value {
        Value::String(text) => Ok(vec![text.value().trim().to_owned()]),
        Value::Integer(number) => Ok(vec![number.value().to_string()]),
        Value::Boolean(value) => Ok(vec![value.value().to_string()]),
        Value::Array(items) => {
            let text = |item: &Value| item.as_str().map(|text| text.trim().to_owned());
            items.iter().map(text).collect::<Option<Vec<_>>>().ok_or("a list has texts alone")
        }
        Value::Float(_) => Err("a fraction is no value"),
        Value::Datetime(_) => Err("a date is no value"),
        Value::InlineTable(_) => Err("a table is no value"),
    }
}

/// Reads parts of a file.
struct Reader<'t> {
    text: &'t str,
}

impl Reader<'_> {
    fn wrong(&self, item: &Item, reason: impl Into<String>) -> FileError {
        let line = line_at(self.text, item.span().map_or(0, |span| span.start));
        FileError { line, reason: reason.into() }
    }

    fn list(&self, item: &Item, key: &str) -> Result<Vec<String>, FileError> {
        let shape = || format!("{key} is a list of texts: write {key} = [\"…\", \"…\"]");
        let list = item.as_array().ok_or_else(|| self.wrong(item, shape()))?;
        let is_exact = key == EXACT;
        let text = |value: &Value| {
            value.as_str().map(|text| if is_exact { text } else { text.trim() }.to_owned())
        };
        let texts = list.iter().map(text).collect::<Option<Vec<_>>>();
        let texts = texts.ok_or_else(|| self.wrong(item, shape()))?;
        if texts.len() > VALUES_MAX {
            return Err(self.wrong(item, format!("{key} has more than {VALUES_MAX} values")));
        }
        let mut known = std::collections::BTreeSet::new();
        for text in &texts {
            if text.trim().is_empty() {
                return Err(self.wrong(item, format!("a value of {key} is empty")));
            }
            let form = if is_exact { text.clone() } else { text.to_ascii_lowercase() };
            if !known.insert(form) {
                return Err(self.wrong(item, format!("'{text}' is there twice in {key}")));
            }
        }
        if AREAS.iter().any(|area| area.key == key && area.is_named) {
            let mut names = std::collections::BTreeSet::new();
            let name = |text: &String| text.split(':').next().unwrap_or_default().trim().to_owned();
            for name in texts.iter().map(name) {
                if !names.insert(name.to_ascii_lowercase()) {
                    let why = format!("{key} has two values with the name '{name}'");
                    return Err(self.wrong(item, why));
                }
            }
        }
        Ok(texts)
    }

    fn indexes(&self, item: &Item) -> Result<Vec<String>, FileError> {
        let mut all: Vec<String> = Vec::new();
        for line in self.list(item, "indexes")? {
            let known = canonical(&line).ok_or_else(|| {
                let why = format!("'{line}' is no index; write 'substring description'");
                self.wrong(item, why)
            })?;
            if all.contains(&known) {
                return Err(self.wrong(item, format!("'{known}' is there twice in indexes")));
            }
            all.push(known);
        }
        Ok(all)
    }

    fn settings(&self, item: &Item) -> Result<BTreeMap<String, Vec<String>>, FileError> {
        let shape = "settings are sections: write [settings.SECTION] and keys below";
        let sections = item.as_table_like().ok_or_else(|| self.wrong(item, shape))?;
        let described = server::setting_descriptions();
        let mut all = BTreeMap::new();
        for (section, content) in sections.iter() {
            let keys = content.as_table_like().ok_or_else(|| self.wrong(content, shape))?;
            for (key, value) in keys.iter() {
                let name = format!("{section}.{key}");
                let setting = described.iter().find(|one| one.name == name);
                let setting = setting.ok_or_else(|| self.wrong(value, unknown(&name)))?;
                let values = self.setting(setting, value)?;
                // What is said to be as by default is as by default.
                if values != default_values(setting) {
                    all.insert(name, values);
                }
            }
        }
        Ok(all)
    }

    fn setting(&self, setting: &SettingDescription, item: &Item) -> Result<Vec<String>, FileError> {
        let name = &setting.name;
        if setting.attribute.is_none() {
            let why = format!("{name} is a setting of each server, not of the directory");
            return Err(self.wrong(item, why));
        }
        let wrong =
            |why: &str| self.wrong(item, format!("{name}: {why}; it takes {}", setting.accepts));
        let value = item.as_value().ok_or_else(|| wrong("a table is no value"))?;
        if setting.separator.is_none() && value.is_array() {
            return Err(wrong("it has one value"));
        }
        let values = texts(value).map_err(wrong)?;
        let values = match (setting.separator, value.as_str()) {
            (Some(separator), Some(text)) => {
                let items = text.split(separator).map(str::trim).filter(|item| !item.is_empty());
                items.map(str::to_owned).collect()
            }
            _ => values,
        };
        Ok(spelled(setting, values))
    }
}

fn unknown(name: &str) -> String {
    match server::setting_like(name) {
        Some(like) => format!("there is no setting '{name}'; is {like} meant?"),
        None => format!("there is no setting '{name}'; 'roster config describe' lists all"),
    }
}

/// The line of a place in a text, counted from 1.
fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|octet| **octet == b'\n').count() + 1
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        let settings = [
            ("authentication.name_attributes", &["mail", "uid"][..]),
            ("limits.size_limit_entries", &["5000"]),
            ("log.level", &["debug"]),
            ("password.check_own", &["false"]),
        ];
        let settings = settings.map(|(name, values)| {
            (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        });
        let odd = "x: pattern mail /^\"[a-z]+\\\\'$/".to_owned();
        let desired = Desired {
            settings: Some(BTreeMap::from(settings)),
            indexes: Some(vec!["equality cn".to_owned(), "substring sn".to_owned()]),
            areas: BTreeMap::from([("constraints", vec![odd]), ("sinks", Vec::new())]),
        };
        let text = desired.text();
        assert_eq!(Desired::parse(&text).unwrap(), desired, "{text}");
        assert!(text.contains("[settings.limits]\nsize_limit_entries = 5000\n"), "{text}");
        assert!(text.contains("check_own = false\n"), "{text}");
        let left: Vec<_> = desired.left_alone();
        assert!(!left.contains(&"settings") && left.contains(&"global_acis"), "{left:?}");
    }

    #[test]
    fn what_is_said_in_another_form_is_the_same() {
        let read = |text: &str| Desired::parse(text).unwrap();
        let plain = read("[settings.limits]\nsize_limit_entries = 5000\n");
        for text in [
            "[settings]\nlimits = { size_limit_entries = 5_000 }\n",
            "settings.limits.size_limit_entries = \"5000\"\n",
            "settings.limits.size_limit_entries = 5000\nsettings.password.check_own = \"on\"\n",
            "[settings.limits]\nsize_limit_entries = 5000\ntime_limit_s = 60\n",
        ] {
            assert_eq!(read(text), plain, "{text}");
        }
        let indexes = read("indexes = ['equality commonName']\n").indexes.unwrap();
        assert_eq!(indexes, ["equality cn"]);
        // ACIs are as they are written.
        let acis = read("global_acis = ['(a) ', '(A) ', '(a)']\nsinks = [' x: y ']\n").areas;
        assert_eq!(acis["global_acis"], ["(a) ", "(A) ", "(a)"]);
        assert_eq!(acis["sinks"], ["x: y"]);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line, want) in [
            ("indexes = [", 1, ""),
            ("\nnothing = []\n", 2, "'nothing' is nothing that a file says"),
            ("sinks = 'x'\n", 1, "sinks is a list of texts"),
            ("sinks = ['']\n", 1, "is empty"),
            ("indexes = ['uid']\n", 1, "'uid' is no index"),
            ("indexes = ['equality cn', 'equality commonName']\n", 1, "there twice"),
            ("constraints = ['a: x', 'A: x']\n", 1, "there twice"),
            ("schema_modes = ['syntax: warn', 'syntax: accept']\n", 1, "two values with the name"),
            ("global_acis = ['(a)', '(a)']\n", 1, "there twice"),
            ("[settings.limits]\nsize_limit = 5\n", 2, "there is no setting 'limits.size_limit'"),
            ("[settings.listen]\nldap = []\n", 2, "a setting of each server"),
            ("[settings.limits]\ntime_limit_s = 1.5\n", 2, "a fraction is no value"),
            ("[settings.limits]\ntime_limit_s = ['1', '2']\n", 2, "it has one value"),
            ("settings = 5\n", 1, "settings are sections"),
        ] {
            let error = Desired::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(want), "{text}: {error}");
        }
        let long = format!("# {}", "x".repeat(FILE_MAX_BYTES));
        assert!(Desired::parse(&long).unwrap_err().reason.contains("1024 KiB"));
    }
}
