//! Settings that are the directory's: the rows of the table whose place it is, as attributes and
//! as lines `SECTION.KEY=VALUE`.

#[cfg(test)]
use std::fmt::Write as _;

use directory::{LiveOptions, SettingForm, SettingRow};

use super::load::check_together;
use super::row::{Kind, NotAccepted, Place, Row, is_switch};
use super::rows::ROWS;
use super::{LimitSettings, Settings};

/// What the directory shows of them.
pub(crate) fn rows() -> Vec<SettingRow> {
    of_directory().map(|(row, _)| shown(row)).collect()
}

/// Refuses lines that cannot hold together, with the reason.
pub(crate) fn check(lines: &[String]) -> Result<(), String> {
    let mut settings = Settings::default();
    for (row, values) in given(lines) {
        set(&mut settings, row, &values).map_err(|NotAccepted(why)| why)?;
    }
    check_together(&settings).map_err(|error| error.to_string())
}

/// Sets what the lines say. What this server does not know, or cannot set, is left out: another
/// one, of another release, has decided on it.
pub(crate) fn begin_with(settings: &mut Settings, lines: &[String]) {
    let is_known = |line: &&String| of_directory().any(|(row, _)| is_of(row, line));
    for line in lines.iter().filter(|line| !is_known(line)) {
        tracing::warn!(line, "this server does not know a setting of the directory");
    }
    for (row, values) in given(lines) {
        if let Err(NotAccepted(why)) = set(settings, row, &values) {
            tracing::warn!(why, "a setting of the directory is not taken; its default holds");
        }
    }
}

/// Whether a change of a setting takes effect at the next start only.
pub(crate) fn needs_restart(name: &str) -> bool {
    let place = ROWS.iter().find(|row| row.name() == name).map(|row| row.place);
    place == Some(Place::Start)
}

/// The attribute types of all of them, as a schema file.
#[cfg(test)]
pub(super) fn schema() -> String {
    let mut text = String::from(SCHEMA_HEAD);
    for (row, number) in of_directory() {
        let (rule, syntax) = match shown(row).form {
            SettingForm::Number => (INTEGER_RULES, "27"),
            SettingForm::Switch => ("EQUALITY booleanMatch", "7"),
            SettingForm::Text | SettingForm::Texts => ("EQUALITY caseExactMatch", "15"),
        };
        let single = if shown(row).form == SettingForm::Texts { "" } else { "SINGLE-VALUE " };
        let _ = write!(
            text,
            "attributeTypes: ( {ARC}.{number}\n  NAME '{}'\n  DESC '{}'\n  {rule} SYNTAX \
             1.3.6.1.4.1.1466.115.121.1.{syntax}\n  {single}X-ORIGIN 'roster' )\n",
            attribute(row),
            row.name(),
        );
    }
    text
}

fn of_directory() -> impl Iterator<Item = (&'static Row, u16)> {
    ROWS.iter().filter_map(|row| match row.place {
        Place::Directory(number) => Some((row, number)),
        Place::Start | Place::Reload => None,
    })
}

/// `limits.idle_timeout_s` is `roster-limits-idle-timeout-s`.
pub(super) fn attribute(row: &Row) -> String {
    format!("roster-{}-{}", row.section, row.key).replace('_', "-")
}

fn shown(row: &Row) -> SettingRow {
    let form = match row.kind {
        Kind::Number { .. } => SettingForm::Number,
        Kind::Word { words, .. } if is_switch(words) => SettingForm::Switch,
        Kind::Path { .. }
        | Kind::Mode { .. }
        | Kind::TimeOfDay { .. }
        | Kind::Word { .. }
        | Kind::Text { .. } => SettingForm::Text,
        Kind::Addresses { .. } | Kind::Words { .. } | Kind::Texts { .. } => SettingForm::Texts,
    };
    let default = match (form, row.default) {
        (SettingForm::Switch, word) => vec![(word == "on").to_string()],
        (SettingForm::Texts, list) => row.items(list).map(str::to_owned).collect(),
        (SettingForm::Number | SettingForm::Text, "") => Vec::new(),
        (SettingForm::Number | SettingForm::Text, text) => vec![text.to_owned()],
    };
    SettingRow { section: row.section, key: row.key, attribute: attribute(row), form, default }
}

/// The rows that lines give values, with these.
fn given(lines: &[String]) -> Vec<(&'static Row, Vec<&str>)> {
    let values = |row: &Row| -> Vec<&str> {
        let own = lines.iter().filter(|line| is_of(row, line));
        own.filter_map(|line| Some(line.split_once('=')?.1)).collect()
    };
    let all = of_directory().map(|(row, _)| (row, values(row)));
    all.filter(|(_, values)| !values.is_empty()).collect()
}

fn is_of(row: &Row, line: &str) -> bool {
    let name = line.split_once('=').and_then(|(name, _)| name.split_once('.'));
    name == Some((row.section, row.key))
}

fn set(settings: &mut Settings, row: &Row, values: &[&str]) -> Result<(), NotAccepted> {
    match row.kind {
        Kind::Addresses { .. } | Kind::Words { .. } | Kind::Texts { .. } => {
            // A value that is empty stands for an empty list.
            row.set_list(settings, values.iter().copied().filter(|value| !value.is_empty()))
        }
        Kind::Number { .. }
        | Kind::Path { .. }
        | Kind::Mode { .. }
        | Kind::TimeOfDay { .. }
        | Kind::Word { .. }
        | Kind::Text { .. } => row.set_text(settings, values.last().copied().unwrap_or_default()),
    }
}

impl Settings {
    /// What a directory is to have of them; the rest stays as it is in `options`.
    #[must_use]
    pub fn live_options(&self, mut options: LiveOptions) -> LiveOptions {
        let LimitSettings {
            size_limit_entries,
            paged_total_entries_max,
            time_limit_s,
            look_through_limit_entries,
            connections_per_identity_max,
            operations_per_identity_max,
            search_work_max,
            search_work_anonymous_max,
            unindexed_entries,
            streams_max,
            streams_each_max,
            outstanding_max,
            sort_entries_max,
            sort_bytes_max,
            ..
        } = self.limits;
        let limits = &mut options.limits;
        limits.size_limit_entries = size_limit_entries;
        limits.paged_total_entries_max = paged_total_entries_max;
        limits.time_limit_s = time_limit_s;
        limits.look_through_limit_entries = look_through_limit_entries;
        limits.connections_per_identity_max = connections_per_identity_max;
        limits.operations_per_identity_max = operations_per_identity_max;
        limits.search_work_max = search_work_max;
        limits.search_work_anonymous_max = search_work_anonymous_max;
        limits.unindexed_entries = unindexed_entries;
        limits.streams_max = streams_max;
        limits.streams_each_max = streams_each_max;
        limits.outstanding_max = outstanding_max;
        limits.sort_entries_max = sort_entries_max;
        limits.sort_bytes_max = sort_bytes_max;
        options.passwords = self.password.options;
        options.authentication = self.authentication.options();
        options
    }
}

#[cfg(test)]
const ARC: &str = "2.25.240622864993748405525653984067480598434.3";
#[cfg(test)]
const INTEGER_RULES: &str = "EQUALITY integerMatch ORDERING integerOrderingMatch";
#[cfg(test)]
const SCHEMA_HEAD: &str = "\
dn: cn=schema
objectClass: top
objectClass: ldapSubentry
objectClass: subschema
cn: schema
#
# Settings that are the directory's, below cn=Settings,cn=config. Made from the table of settings;
# a test compares it. To make it anew: ROSTER_WRITE_REFERENCE=1 cargo test -p server reference
";
