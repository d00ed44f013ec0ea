//! Reading settings from file, environment and flags.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::row::{NotAccepted, Row};
use super::rows::{self, ROWS, SECTIONS};
use super::{Settings, SettingsError, policy};

/// Settings, and which of them this server's own sources say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// All of them together.
    pub settings: Settings,
    /// What files, environment and options say, by the names of the settings.
    pub given: BTreeMap<String, String>,
}

/// Where settings are read from, the later wins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'s> {
    /// What the directory says: lines `SECTION.KEY=VALUE`.
    pub directory: &'s [String],
    /// `roster.toml` of the data directory is as if it were this; none: it is read if it is there.
    pub own_text: Option<&'s str>,
    /// The file that is named.
    pub file: Option<&'s Path>,
    /// Variables of the environment; those that start with `ROSTER_` count.
    pub environment: &'s [(String, String)],
    /// Pairs such as `("listen.ldap", "[::1]:389")`.
    pub overrides: &'s [(&'s str, String)],
}

impl Settings {
    /// Reads the settings: defaults, then `roster.toml` of the data directory if it is there, then
    /// `file`, then the variables of the environment that start with `ROSTER_`, then `overrides`,
    /// which are pairs such as `("listen.ldap", "[::1]:389")`. The data directory is the one that
    /// the others name: its own file cannot name another.
    ///
    /// # Errors
    /// An unknown section, key or variable, a value of the wrong type or out of range, a file that
    /// cannot be read. The error says where and, for a misspelt name, what was probably meant.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        overrides: &[(&str, String)],
    ) -> Result<Self, SettingsError> {
        let environment: Vec<_> = environment.collect();
        let sources = Sources { file, environment: &environment, overrides, ..Sources::default() };
        Ok(Self::load_from(&sources)?.settings)
    }

    /// As [`Self::load`], from all sources there are.
    ///
    /// # Errors
    /// As those of [`Self::load`]. A line of the directory that this server does not know is none.
    pub fn load_from(sources: &Sources<'_>) -> Result<Loaded, SettingsError> {
        let &Sources { directory, own_text, file, environment, overrides } = sources;
        let layered = |mut draft: Loaded| {
            if let Some(path) = file {
                from_file(&mut draft, path)?;
            }
            from_environment(&mut draft, environment.iter().cloned())?;
            for (name, text) in overrides {
                from_flag(&mut draft, name, text)?;
            }
            Ok(draft)
        };
        let mut below = Loaded::default();
        super::of_directory::begin_with(&mut below.settings, directory);
        let mut draft: Loaded = layered(below.clone())?;
        let data = draft.settings.server.data.clone();
        let own = data.join(Self::DATA_FILE);
        let own_text = match own_text {
            Some(text) => Some(text.to_owned()),
            // The same file would be read twice.
            None if file != Some(own.as_path()) && own.is_file() => Some(read(&own)?),
            None => None,
        };
        if let Some(text) = own_text {
            from_toml(&mut below, &own.display().to_string(), &text)?;
            draft = layered(below)?;
            draft.settings.server.data = data;
        }
        check_together(&draft.settings)?;
        Ok(draft)
    }
}

impl Loaded {
    fn say(&mut self, row: &Row, value: String) {
        self.given.insert(row.name(), value);
    }
}

fn from_file(draft: &mut Loaded, path: &Path) -> Result<(), SettingsError> {
    from_toml(draft, &path.display().to_string(), &read(path)?)
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self::blank();
        for row in ROWS {
            row.set_text(&mut settings, row.default).expect("a test sets every default");
        }
        settings
    }
}

/// What no row can see alone.
pub(super) fn check_together(settings: &Settings) -> Result<(), SettingsError> {
    let refuse = |reason| Err(SettingsError::Value { location: "settings".to_owned(), reason });
    let (low, full) = (settings.store.disk_low_bytes, settings.store.disk_full_bytes);
    if full > low {
        return refuse(format!(
            "store.disk_full_mib ({}) must not be above store.disk_low_mib ({})",
            full >> 20,
            low >> 20
        ));
    }
    let remote = settings.admin.listen.iter().find(|address| !address.ip().is_loopback());
    if let (Some(address), false) = (remote, settings.admin.remote) {
        return refuse(format!(
            "admin.listen is {address}, which other machines may reach, without TLS and without a \
             password; set admin.remote = \"on\" to confirm"
        ));
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, SettingsError> {
    fs::read_to_string(path).map_err(|source| SettingsError::Io { path: path.to_owned(), source })
}

/// Applies the text of a file; `file` is its name for errors.
pub(super) fn from_toml(draft: &mut Loaded, file: &str, text: &str) -> Result<(), SettingsError> {
    let document = DeTable::parse(text).map_err(|error| SettingsError::Syntax {
        location: location(file, text, error.span().map_or(0, |span| span.start)),
        reason: error.message().to_owned(),
    })?;
    for (section, content) in document.get_ref() {
        let location = location(file, text, section.span().start);
        let name = section.get_ref().as_ref();
        if name == policy::NAME {
            draft.settings.policies = policy::read(content, &|at| self::location(file, text, at))?;
            continue;
        }
        let known = SECTIONS.iter().any(|(known, _)| *known == name);
        match content.get_ref() {
            DeValue::Table(table) if known => {
                for (key, value) in table {
                    from_toml_key(draft, name, key, value, &|at| self::location(file, text, at))?;
                }
            }
            _ if known => {
                let reason = format!("{name} is a section: write [{name}] and its keys below");
                return Err(SettingsError::Value { location, reason });
            }
            // A key outside its section is a likely mistake: suggest the full name.
            _ => return Err(unknown(location, name, section_names().chain(key_names()))),
        }
    }
    Ok(())
}

fn from_toml_key(
    draft: &mut Loaded,
    section: &str,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    location: &dyn Fn(usize) -> String,
) -> Result<(), SettingsError> {
    let name = key.get_ref().as_ref();
    let Some(row) = rows::find(section, name) else {
        let candidates = ROWS.iter().map(Row::name);
        let location = location(key.span().start);
        return Err(unknown(location, &format!("{section}.{name}"), candidates));
    };
    let set = set_toml(&mut draft.settings, row, value.get_ref());
    set.map_err(|NotAccepted(reason)| SettingsError::Value {
        location: location(value.span().start),
        reason,
    })?;
    draft.say(row, as_text(value.get_ref()));
    Ok(())
}

fn set_toml(settings: &mut Settings, row: &Row, value: &DeValue<'_>) -> Result<(), NotAccepted> {
    match value {
        DeValue::String(text) => row.set_string(settings, text),
        DeValue::Integer(integer) => {
            // Negative or huge: print it as it stands.
            let number = u64::from_str_radix(integer.as_str(), integer.radix())
                .map_err(|_| row.not_accepted(&integer.to_string()))?;
            row.set_number(settings, number)
        }
        DeValue::Array(items) => {
            let texts = items
                .iter()
                .map(|item| item.get_ref().as_str().ok_or_else(|| row.not_accepted("other items")))
                .collect::<Result<Vec<_>, _>>()?;
            row.set_list(settings, texts.into_iter())
        }
        DeValue::Float(_) => Err(row.not_accepted("a fraction")),
        DeValue::Boolean(value) => row.set_switch(settings, *value),
        DeValue::Datetime(_) => Err(row.not_accepted("a date")),
        DeValue::Table(_) => Err(row.not_accepted("a table")),
    }
}

/// A value of a file as text: one that is written otherwise is another one.
fn as_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Array(items) => {
            let texts = items.iter().filter_map(|item| item.get_ref().as_str());
            texts.collect::<Vec<_>>().join(",")
        }
        // No setting takes these.
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => String::new(),
    }
}

/// Applies the variables that are ours: `ROSTER_SECTION__KEY`, optionally with `_FILE`. Others
/// that start with `ROSTER_` belong to the command line, unless they look like a slip.
fn from_environment(
    draft: &mut Loaded,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<(), SettingsError> {
    for (variable, text) in environment {
        let Some(rest) = variable.strip_prefix("ROSTER_") else {
            continue;
        };
        let direct = ROWS.iter().find(|row| row.variable() == variable);
        let through_file = variable.strip_suffix("_FILE");
        let row = direct.or_else(|| {
            through_file.and_then(|name| ROWS.iter().find(|row| row.variable() == name))
        });
        let Some(row) = row else {
            if is_slip(rest) {
                return Err(unknown(
                    "environment".to_owned(),
                    &variable,
                    ROWS.iter().map(Row::variable),
                ));
            }
            continue;
        };
        let text = if direct.is_some() { text } else { read(&PathBuf::from(text))? };
        row.set_text(&mut draft.settings, &text)
            .map_err(|NotAccepted(reason)| SettingsError::Value { location: variable, reason })?;
        draft.say(row, text);
    }
    Ok(())
}

/// `LISTEN__LDPA` and `LISTEN_LDAP` were meant to be settings.
fn is_slip(rest: &str) -> bool {
    rest.contains("__")
        || SECTIONS.iter().any(|(section, _)| {
            rest.strip_prefix(&section.to_uppercase()).is_some_and(|key| key.starts_with('_'))
        })
}

fn from_flag(draft: &mut Loaded, name: &str, text: &str) -> Result<(), SettingsError> {
    let location = "command line".to_owned();
    let row = name.split_once('.').and_then(|(section, key)| rows::find(section, key));
    let Some(row) = row else {
        return Err(unknown(location, name, ROWS.iter().map(Row::name)));
    };
    row.set_text(&mut draft.settings, text)
        .map_err(|NotAccepted(reason)| SettingsError::Value { location, reason })?;
    draft.say(row, text.to_owned());
    Ok(())
}

fn section_names() -> impl Iterator<Item = String> {
    SECTIONS.iter().map(|(name, _)| (*name).to_owned())
}

fn key_names() -> impl Iterator<Item = String> {
    ROWS.iter().map(Row::name)
}

/// `file:line` of a byte offset.
fn location(file: &str, text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    format!("{file}:{}", 1 + before.matches('\n').count())
}

/// The error for an unknown name, with the known one that is most like it.
pub(super) fn unknown(
    location: String,
    name: &str,
    candidates: impl Iterator<Item = String>,
) -> SettingsError {
    let suggestion = candidates
        .map(|candidate| (likeness(name, &candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate);
    SettingsError::Unknown { location, name: name.to_owned(), suggestion }
}

/// How like two names are, from 0 to 1; a key without or in the wrong section counts as alike.
fn likeness(given: &str, known: &str) -> f64 {
    let key = |name: &str| name.rsplit_once('.').map_or(name, |(_, key)| key).to_owned();
    let whole = strsim::normalized_damerau_levenshtein(given, known);
    let keys = strsim::normalized_damerau_levenshtein(&key(given), &key(known));
    whole.max(keys - WRONG_SECTION_COST)
}

/// Below this a suggestion would be a guess.
const LIKENESS_MIN: f64 = 0.6;

/// A right key in the wrong section ranks behind a slip in the right section.
const WRONG_SECTION_COST: f64 = 0.1;
