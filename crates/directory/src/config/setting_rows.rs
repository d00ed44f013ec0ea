//! Which settings of the server are the directory's, and what has them in force.

use std::sync::{Arc, OnceLock};

use schema::Change;
use store::{Store, StoreError};

/// What the store calls the lines.
pub(crate) const SERVER_SETTINGS: &str = "settings";
/// A setting of the server that is the same on all servers of the directory.
#[derive(Clone, Debug)]
pub struct SettingRow {
    /// The section of the settings file, which is the name of its entry.
    pub section: &'static str,
    /// Its key in the section.
    pub key: &'static str,
    /// The attribute type that shows it.
    pub attribute: String,
    /// What values look like.
    pub form: SettingForm,
    /// What it is where no line says so.
    pub default: Vec<String>,
}

/// What the values of a setting look like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SettingForm {
    /// One number.
    Number,
    /// `true` or `false`.
    Switch,
    /// One text.
    Text,
    /// Several texts.
    Texts,
}

/// Tells which settings there are, and has them in force.
pub struct SettingsTeller {
    /// Every setting, those of a section one after the other.
    pub rows: Vec<SettingRow>,
    /// Refuses lines that cannot hold together, with the reason.
    pub check: CheckLines,
    /// Has the settings in force that the directory has now. Whoever asks to be told of the lines
    /// calls the function, which tells those of the moment: the last one to ask has the last ones.
    pub begin: BeginLines,
    /// Lines of the settings that this server's own sources say, which come before the directory's.
    pub overridden: TellTexts,
    /// The names of those that cannot hold on this server, and so do not.
    pub left_out: TellTexts,
}

/// Refuses lines, with the reason.
pub type CheckLines = Box<dyn Fn(&[String]) -> Result<(), String> + Send + Sync>;

/// Tells texts.
pub type TellTexts = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// Has the lines in force that the function tells, when it is asked.
pub type BeginLines = Box<dyn Fn(&dyn Fn() -> Option<Vec<String>>) + Send + Sync>;

impl SettingRow {
    /// `SECTION.KEY`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The values that the lines give it; none: it has its default.
    pub(super) fn given<'l>(&self, lines: &'l [String]) -> Vec<&'l str> {
        let own = |line: &'l String| {
            let (name, value) = line.split_once('=')?;
            let (section, key) = name.split_once('.')?;
            (section == self.section && key == self.key).then_some(value)
        };
        lines.iter().filter_map(own).collect()
    }

    /// A value as the attribute has it.
    pub(super) fn shown(&self, value: &str) -> String {
        match self.form {
            SettingForm::Switch => value.to_ascii_uppercase(),
            SettingForm::Number | SettingForm::Text | SettingForm::Texts => value.to_owned(),
        }
    }

    /// The line of a value of the attribute.
    pub(super) fn line(&self, value: &str) -> String {
        let value = match self.form {
            SettingForm::Switch => match &*value.trim().to_ascii_lowercase() {
                "on" => "true".to_owned(),
                "off" => "false".to_owned(),
                word => word.to_owned(),
            },
            // Of two spellings of one number there is one line.
            SettingForm::Number => match value.trim().parse::<u64>() {
                Ok(number) => number.to_string(),
                Err(_) => value.to_owned(),
            },
            SettingForm::Text | SettingForm::Texts => value.trim().to_owned(),
        };
        format!("{}={value}", self.name())
    }
}

/// The server's settings in a directory.
pub(crate) struct ServerSettings {
    pub(super) store: Arc<Store>,
    pub(super) teller: OnceLock<SettingsTeller>,
}

impl ServerSettings {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self { store: Arc::clone(store), teller: OnceLock::new() }
    }

    /// Has those in force that are visible now. Every server does so when a change of them has
    /// become visible, the one that decided it before it answers.
    pub(crate) fn begin(&self) {
        let Some(teller) = self.teller.get() else { return };
        (teller.begin)(&|| {
            let lines = self.lines().inspect_err(|error| {
                tracing::error!(%error, "the settings of the directory cannot be read");
            });
            lines.ok()
        });
    }

    /// Those that are visible now.
    pub(super) fn lines(&self) -> Result<Vec<String>, StoreError> {
        self.store.reader().view()?.setting(SERVER_SETTINGS)
    }

    pub(super) fn rows(&self) -> &[SettingRow] {
        self.teller.get().map_or(&[], |teller| &teller.rows)
    }
}

/// Whether a change is one of the server's settings.
pub(crate) fn is_of_settings(change: &Change) -> bool {
    matches!(change, Change::Setting(setting) if setting.name == SERVER_SETTINGS)
}
