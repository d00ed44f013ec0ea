//! Reading settings from file, environment and flags.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
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

/// What this server's own sources say, read once.
#[derive(Clone, Debug, Default)]
pub struct OwnSources {
    /// `roster.toml` of the data directory.
    own: Option<FileText>,
    /// The file that is named.
    file: Option<FileText>,
    /// What variables of the environment say.
    environment: Vec<Variable>,
    /// Pairs such as `("listen.ldap", "[::1]:389")`.
    overrides: Vec<(&'static str, String)>,
}

#[derive(Clone, Debug)]
struct FileText {
    name: String,
    text: String,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    setting: String,
    text: String,
}

impl OwnSources {
    /// Reads `roster.toml` of the data directory if it is there, `file`, and the variables that
    /// start with `ROSTER_`; the later wins, `overrides` after all. `own_text` stands for
    /// `roster.toml`, if it is given.
    ///
    /// # Errors
    /// A file that cannot be read or has more than 1 MiB, an unknown variable, and
    /// what is wrong in what says where the data directory is.
    pub fn read(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        overrides: &[(&'static str, String)],
        own_text: Option<&str>,
    ) -> Result<Self, SettingsError> {
        let mut sources = Self {
            own: None,
            file: file.map(FileText::read).transpose()?,
            environment: variables(environment)?,
            overrides: overrides.to_vec(),
        };
        let data = sources.layered(Loaded::default())?.settings.server.data;
        let own = data.join(Settings::DATA_FILE);
        sources.own = match own_text {
            Some(text) => Some(FileText { name: own.display().to_string(), text: text.to_owned() }),
            // The same file would be read twice.
            None if file != Some(own.as_path()) && own.symlink_metadata().is_ok() => {
                // A pipe would keep the server waiting, which nobody sees.
                if own.metadata().is_ok_and(|own| !own.is_file()) {
                    let source = io::Error::other("it is no file");
                    return Err(SettingsError::Io { path: own, source });
                }
                Some(FileText::read(&own)?)
            }
            None => None,
        };
        Ok(sources)
    }

    /// The settings: defaults, then what the directory says (lines `SECTION.KEY=VALUE`), then
    /// these. The data directory is the one that the others name: its own file cannot name another.
    ///
    /// # Errors
    /// An unknown section or key, a value of the wrong type or out of range. The error says where
    /// and, for a misspelt name, what was probably meant. A line of the directory that this server
    /// does not know is none.
    pub fn load(&self, directory: &[String]) -> Result<Loaded, SettingsError> {
        let mut below = Loaded::default();
        super::of_directory::begin_with(&mut below.settings, directory);
        let mut draft = self.layered(below.clone())?;
        if let Some(own) = &self.own {
            let data = draft.settings.server.data.clone();
            from_toml(&mut below, &own.name, &own.text)?;
            draft = self.layered(below)?;
            draft.settings.server.data = data;
        }
        check_together(&draft.settings)?;
        Ok(draft)
    }

    fn layered(&self, mut draft: Loaded) -> Result<Loaded, SettingsError> {
        if let Some(file) = &self.file {
            from_toml(&mut draft, &file.name, &file.text)?;
        }
        for Variable { name, setting, text } in &self.environment {
            set(&mut draft, name, setting, text)?;
        }
        for (setting, text) in &self.overrides {
            set(&mut draft, "command line", setting, text)?;
        }
        Ok(draft)
    }
}

impl FileText {
    fn read(path: &Path) -> Result<Self, SettingsError> {
        Ok(Self { name: path.display().to_string(), text: read(path)? })
    }
}

impl Settings {
    /// Reads the settings: defaults, then `roster.toml` of the data directory if it is there, then
    /// `file`, then the variables of the environment that start with `ROSTER_`, then `overrides`,
    /// which are pairs such as `("listen.ldap", "[::1]:389")`.
    ///
    /// # Errors
    /// As those of [`OwnSources::read`] and [`OwnSources::load`].
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        overrides: &[(&'static str, String)],
    ) -> Result<Self, SettingsError> {
        Ok(OwnSources::read(file, environment, overrides, None)?.load(&[])?.settings)
    }
}

impl Loaded {
    fn say(&mut self, row: &Row, value: String) {
        self.given.insert(row.name(), value);
    }
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

/// Reads a file of text, or a pipe; no more than [`FILE_MAX_BYTES`].
fn read(path: &Path) -> Result<String, SettingsError> {
    let failed = |source| SettingsError::Io { path: path.to_owned(), source };
    let wrong = |why: String| failed(io::Error::other(why));
    let file = fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(wrong(format!("it has more than {} KiB", FILE_MAX_BYTES >> 10)));
    }
    Ok(text)
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

/// The variables that are ours: `ROSTER_SECTION__KEY`, optionally with `_FILE`. Others that start
/// with `ROSTER_` belong to the command line, unless they look like a slip.
fn variables(
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Vec<Variable>, SettingsError> {
    let mut found = Vec::new();
    for (name, text) in environment {
        let Some(rest) = name.strip_prefix("ROSTER_") else {
            continue;
        };
        let direct = ROWS.iter().find(|row| row.variable() == name);
        let through_file = name.strip_suffix("_FILE");
        let row = direct.or_else(|| {
            through_file.and_then(|name| ROWS.iter().find(|row| row.variable() == name))
        });
        let Some(row) = row else {
            if is_slip(rest) {
                let all = ROWS.iter().map(Row::variable);
                return Err(unknown("environment".to_owned(), &name, all));
            }
            continue;
        };
        let text = if direct.is_some() { text } else { read(&PathBuf::from(text))? };
        found.push(Variable { name, setting: row.name(), text });
    }
    Ok(found)
}

/// `LISTEN__LDPA` and `LISTEN_LDAP` were meant to be settings.
fn is_slip(rest: &str) -> bool {
    rest.contains("__")
        || SECTIONS.iter().any(|(section, _)| {
            rest.strip_prefix(&section.to_uppercase()).is_some_and(|key| key.starts_with('_'))
        })
}

/// Sets a setting by its name.
fn set(draft: &mut Loaded, location: &str, name: &str, text: &str) -> Result<(), SettingsError> {
    let location = location.to_owned();
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

/// The most of a file of settings, or of one that a variable names: a hundred times what all
/// settings take.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Below this a suggestion would be a guess.
const LIKENESS_MIN: f64 = 0.6;

/// A right key in the wrong section ranks behind a slip in the right section.
const WRONG_SECTION_COST: f64 = 0.1;
