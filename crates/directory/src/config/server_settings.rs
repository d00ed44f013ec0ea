//! `cn=Settings,cn=config`: settings of the server that are the same on all servers of the
//! directory, as lines `SECTION.KEY=VALUE`, and an entry below it for each section, with an
//! attribute for each setting.
//!
//! What settings there are, and which values each takes, the server says; without it there are
//! none.
//!
//! Invariant: a section's entry is another view of the same lines: what is not among them has its
//! default, and is shown with it.

use aci::Permitted;
use ldap::message::{Modification, ModifyOperation, ModifyRequest};
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry};

use crate::config::changes::{Setting, SettingConfig, SettingStep};
use crate::config::setting_rows::{SERVER_SETTINGS, SettingForm, SettingRow, SettingsTeller};
use crate::directory::Directory;
use crate::error::DirectoryError;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::SERVER_SETTINGS_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::named::{self, Named};
use crate::write::request::WriteOp;

/// The attribute of the lines.
pub(super) const ATTRIBUTE: &str = "roster-setting";
/// What this server's own file, environment or options say instead.
const OVERRIDDEN: &str = "roster-setting-overridden";
/// Names of settings that cannot hold on this server.
const LEFT_OUT: &str = "roster-setting-left-out";
/// The most lines.
const LINES_MAX: usize = 1_000;
/// The most of one line, in bytes.
const LINE_MAX_BYTES: usize = 4_096;

impl Directory {
    /// The lines of the server's settings that the directory has.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn setting_lines(&self) -> Result<Vec<String>, DirectoryError> {
        Ok(self.settings.lines()?)
    }

    /// Has `teller` say which settings of the server are the directory's, and has those in force
    /// that the directory has. Once; later calls have no effect.
    pub fn show_settings(&self, teller: SettingsTeller) {
        let _ = self.settings.teller.set(teller);
        self.settings.begin();
    }
}

/// The entries of the sections.
pub(crate) fn sections(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let settings = &source.directory.settings;
    let mut reader = settings.store.reader();
    let lines = reader.view()?.setting(SERVER_SETTINGS)?;
    let teller = settings.teller.get();
    let overridden = teller.map(|teller| (teller.overridden)()).unwrap_or_default();
    let left_out = teller.map(|teller| (teller.left_out)()).unwrap_or_default();
    let mut top = source.entry(SERVER_SETTINGS_DN, &["top", "extensibleObject"]);
    top = top
        .values(ATTRIBUTE, lines.iter().cloned())
        .values(OVERRIDDEN, overridden)
        .values(LEFT_OUT, left_out);
    let mut entries = vec![top.done()];
    let by_section = |a: &SettingRow, b: &SettingRow| a.section == b.section;
    for rows in settings.rows().chunk_by(by_section) {
        let Some(first) = rows.first() else { continue };
        let mut made = source.entry(&section_dn(first.section), &["top", "extensibleObject"]);
        for row in rows {
            let given = row.given(&lines);
            let shown = match given.is_empty() {
                true => row.default.iter().map(|value| row.shown(value)).collect::<Vec<_>>(),
                false => given.into_iter().map(|value| row.shown(value)).collect(),
            };
            made = made.values(&row.attribute, shown);
        }
        entries.push(made.done());
    }
    Ok(entries)
}

fn section_dn(section: &str) -> String {
    format!("cn={section},{SERVER_SETTINGS_DN}")
}

/// Resolves a modify of the entry of a section; none where the request names none.
pub(crate) fn modify(
    directory: &Directory,
    named: &Named,
    request: &ModifyRequest<'_>,
) -> Result<Option<WriteOp>, Refusal> {
    let schema = &named.state.schema;
    let is_own = |section: &str| {
        DnKey::from_text(schema, &section_dn(section)).is_ok_and(|key| key == named.key)
    };
    let rows = directory.settings.rows();
    let Some(section) = rows.iter().map(|row| row.section).find(|section| is_own(section)) else {
        return Ok(None);
    };
    let mut steps = Vec::new();
    for modification in request.changes.iter() {
        let description = modification.attribute.description;
        let kind = schema.attribute_type(description);
        let is_meant = |row: &&SettingRow| {
            row.section == section && kind.is_some_and(|kind| kind.name() == row.attribute)
        };
        let Some(row) = rows.iter().find(is_meant) else {
            let why = format!("'{description}' is no setting of the section {section}");
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        };
        take_steps(row, &modification, &mut steps)?;
    }
    Ok(Some(WriteOp::SettingConfig(SettingConfig { setting: Setting::Server, steps })))
}

/// What a modification of one attribute does to the lines.
fn take_steps(
    row: &SettingRow,
    modification: &Modification<'_>,
    steps: &mut Vec<SettingStep>,
) -> Result<(), Refusal> {
    let values = modification.attribute.values.iter();
    let is_empty = modification.attribute.values.iter().next().is_none();
    let texts = values.map(|value| {
        let text = std::str::from_utf8(value).map_err(|_| {
            Refusal::new(ResultCode::InvalidAttributeSyntax, "a value is not UTF-8")
        })?;
        Ok(row.line(text))
    });
    let lines = texts.collect::<Result<Vec<_>, Refusal>>()?;
    match modification.operation {
        ModifyOperation::Increment => return Err(named::refuse_special()),
        ModifyOperation::Delete if !is_empty => {
            steps.extend(lines.into_iter().map(SettingStep::Take));
            return Ok(());
        }
        ModifyOperation::Replace | ModifyOperation::Delete => {
            steps.push(SettingStep::TakeOf(row.name()));
        }
        ModifyOperation::Add => {}
    }
    steps.extend(lines.into_iter().map(SettingStep::Put));
    Ok(())
}

/// Refuses a line of no setting, and a second one of a setting that has one value.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(super) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let name = line_name(text);
    let rows = decide.directory.settings.rows();
    let Some(row) = rows.iter().find(|row| row.name() == name) else {
        let why = format!("'{name}' is no setting of the directory");
        return Err(Refusal::new(ResultCode::InvalidAttributeSyntax, why));
    };
    let is_second = row.form != SettingForm::Texts && !row.given(others).is_empty();
    if is_second {
        let why = format!("{name} has a value, and takes one alone; replace it");
        return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
    }
    let malformed = |why: String| Err(Refusal::new(ResultCode::InvalidAttributeSyntax, why));
    let Some((_, value)) = text.split_once('=') else {
        return malformed(format!("'{text}' is no line of a setting: write {name}=VALUE"));
    };
    if text.len() > LINE_MAX_BYTES || text.chars().any(char::is_control) {
        let most = LINE_MAX_BYTES;
        return malformed(format!("a line of {name} has at most {most} bytes, none for control"));
    }
    let line = row.line(value);
    if line != text {
        return malformed(format!("write '{line}'"));
    }
    let given = row.given(others);
    if !given.is_empty() && (value.is_empty() || given.contains(&"")) {
        return malformed(format!("{name} is empty, or has values"));
    }
    if others.len() >= LINES_MAX {
        let why = format!("there are at most {LINES_MAX} lines of settings");
        return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    }
    Ok(())
}

/// Refuses lines that cannot hold together. Nothing else changes with them.
pub(super) fn check(
    decide: &Decide<'_>,
    lines: &[String],
) -> Result<Vec<Permitted<Change>>, Refusal> {
    let Some(teller) = decide.directory.settings.teller.get() else { return Ok(Vec::new()) };
    (teller.check)(lines).map_err(|why| Refusal::new(ResultCode::InvalidAttributeSyntax, why))?;
    Ok(Vec::new())
}

/// The name of the setting that a line is of.
pub(super) fn line_name(line: &str) -> &str {
    line.split_once('=').map_or(line, |(name, _)| name)
}
