//! Entries of `cn=config` that show a setting of the directory: each value of one attribute is a
//! value of the setting.
//!
//! An entry plugs in by one row of [`ENTRIES`], and its name in `virtual_tree/names.rs`.
//!
//! Invariant: the entry is not stored; it is made from the setting, and a change of it is a change
//! of the setting.

use std::borrow::Cow;

use aci::{Access, Permitted, Privilege};
use ldap::message::{ModifyOperation, ModifyRequest};
use ldap::result::ResultCode;
use schema::{Change, DnKey, Entry, Schema, SettingChange};
use store::{StoreError, View};

use crate::access::acis::{self, GLOBAL_ACI, NONE_AT_ALL};
use crate::assignment::text::ASSIGNMENTS;
use crate::config::access_config;
use crate::config::assignment_config;
use crate::config::changes::{Setting, SettingConfig, SettingStep};
use crate::config::constraint_config;
use crate::config::following_config;
use crate::config::group_config;
use crate::config::join_tokens::{self, JOIN_TOKENS};
use crate::config::naming_context_config;
use crate::config::reference_config;
use crate::config::schema_config;
use crate::config::server_settings::{self, line_name};
use crate::config::setting_rows::SERVER_SETTINGS;
use crate::config::sink_config;
use crate::config::virtual_attribute_config;
use crate::constraint::text::CONSTRAINTS;
use crate::enforcement::modes::MODES;
use crate::groups::lookup::MEMBER_OF;
use crate::groups::user_names::MEMBER_UID_BASES;
use crate::lines::name_of;
use crate::read::virtual_tree::branch::BranchSource;
use crate::read::virtual_tree::names::{
    ACCESS_CONFIG_DN, ASSIGNMENT_CONFIG_DN, CONSTRAINT_CONFIG_DN, FOLLOWING_CONFIG_DN,
    GROUP_CONFIG_DN, JOIN_TOKENS_DN, NAMING_CONTEXT_CONFIG_DN, REFERENCE_CONFIG_DN,
    SCHEMA_CONFIG_DN, SERVER_SETTINGS_DN, SINK_CONFIG_DN, TASK_CONFIG_DN,
    VIRTUAL_ATTRIBUTE_CONFIG_DN,
};
use crate::request::refusal::Refusal;
use crate::sinks::position;
use crate::sinks::text::SINKS;
use crate::tasks::recurring;
use crate::tasks::text::SCHEDULED_TASKS;
use crate::virtual_attributes::text::VIRTUAL_ATTRIBUTES;
use crate::write::decision::{Decide, Decision};
use crate::write::followed::FOLLOWED;
use crate::write::named::{self, Named};
use crate::write::references::{self, REFERENCES};
use crate::write::request::WriteOp;

/// An entry that shows a setting.
pub(crate) struct SettingEntry {
    /// Its name.
    dn: &'static str,
    /// The attribute with the values.
    attribute: &'static str,
    /// The setting, and what the store calls it.
    setting: Setting,
    name: &'static str,
    /// What a value is called.
    what: &'static str,
    /// What a change takes besides `config-write`.
    privilege: Option<Privilege>,
    /// Where values are [lines](crate::lines), each with a name of its own: the most there may be.
    lines_max: Option<usize>,
    /// The values, where these are not just as they are set.
    values: Option<Values>,
    /// Refuses what is no value; those that it is to stand beside may lose some.
    put: fn(&Decide<'_>, &mut Vec<String>, &str) -> Result<(), Refusal>,
    /// Stands in the setting for "none at all", where that is not the default.
    none_at_all: Option<&'static str>,
    /// What else changes with it.
    follow: Option<Follow>,
    /// How a value is spelled, where there are several ways.
    spelling: Option<Spelling>,
}

/// What values a setting has, other than just as they are set.
type Values = fn(&View<'_>) -> Result<Vec<String>, StoreError>;

/// The spelling of a value, given those that it is to stand beside, or to leave.
type Spelling = fn(&Decide<'_>, &[String], &str) -> Result<String, Refusal>;

/// What follows for other settings, given the new values.
type Follow = fn(&Decide<'_>, &[String]) -> Result<Vec<Permitted<Change>>, Refusal>;

/// Every entry.
static ENTRIES: [SettingEntry; 14] = [
    SettingEntry {
        dn: ACCESS_CONFIG_DN,
        attribute: access_config::ATTRIBUTE,
        setting: Setting::GlobalAcis,
        name: GLOBAL_ACI,
        what: "ACI",
        privilege: Some(Privilege::ModifyAcl),
        lines_max: None,
        values: Some(acis::global_values),
        put: access_config::put,
        none_at_all: Some(NONE_AT_ALL),
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: JOIN_TOKENS_DN,
        attribute: join_tokens::ATTRIBUTE,
        setting: Setting::JoinTokens,
        name: JOIN_TOKENS,
        what: "token",
        privilege: None,
        lines_max: None,
        values: Some(join_tokens::values),
        put: join_tokens::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: CONSTRAINT_CONFIG_DN,
        attribute: constraint_config::ATTRIBUTE,
        setting: Setting::Constraints,
        name: CONSTRAINTS,
        what: "constraint",
        privilege: None,
        lines_max: Some(constraint_config::CONSTRAINTS_MAX),
        values: None,
        put: constraint_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: ASSIGNMENT_CONFIG_DN,
        attribute: assignment_config::ATTRIBUTE,
        setting: Setting::Assignments,
        name: ASSIGNMENTS,
        what: "assignment",
        // What it writes may be what rights follow from.
        privilege: Some(Privilege::ModifyAcl),
        lines_max: Some(assignment_config::ASSIGNMENTS_MAX),
        values: None,
        put: assignment_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: VIRTUAL_ATTRIBUTE_CONFIG_DN,
        attribute: virtual_attribute_config::ATTRIBUTE,
        setting: Setting::VirtualAttributes,
        name: VIRTUAL_ATTRIBUTES,
        what: "virtual attribute",
        // What it gives may be read by whoever may not read where it comes from.
        privilege: Some(Privilege::ModifyAcl),
        lines_max: Some(virtual_attribute_config::VIRTUAL_ATTRIBUTES_MAX),
        values: None,
        put: virtual_attribute_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: GROUP_CONFIG_DN,
        attribute: group_config::ATTRIBUTE,
        setting: Setting::MemberOf,
        name: MEMBER_OF,
        what: "meaning",
        privilege: None,
        lines_max: None,
        values: Some(group_config::values),
        put: group_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: GROUP_CONFIG_DN,
        attribute: group_config::BASE_ATTRIBUTE,
        setting: Setting::MemberUid,
        name: MEMBER_UID_BASES,
        what: "base",
        // It says who is in groups, and so who has their rights.
        privilege: Some(Privilege::ModifyAcl),
        lines_max: None,
        values: None,
        put: group_config::put_base,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: REFERENCE_CONFIG_DN,
        attribute: reference_config::ATTRIBUTE,
        setting: Setting::References,
        name: REFERENCES,
        what: "attribute",
        privilege: None,
        lines_max: None,
        values: Some(reference_config::values),
        put: reference_config::put,
        none_at_all: Some(references::NONE_AT_ALL),
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: SCHEMA_CONFIG_DN,
        attribute: schema_config::ATTRIBUTE,
        setting: Setting::SchemaModes,
        name: MODES,
        what: "mode",
        privilege: Some(Privilege::UpdateSchema),
        lines_max: None,
        values: None,
        put: schema_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: SINK_CONFIG_DN,
        attribute: sink_config::ATTRIBUTE,
        setting: Setting::Sinks,
        name: SINKS,
        what: "sink",
        // It tells elsewhere what its identity may read, whoever that is.
        privilege: Some(Privilege::ModifyAcl),
        lines_max: Some(sink_config::SINKS_MAX),
        values: None,
        put: sink_config::put,
        none_at_all: None,
        follow: Some(position::follow),
        spelling: None,
    },
    SettingEntry {
        dn: FOLLOWING_CONFIG_DN,
        attribute: following_config::ATTRIBUTE,
        setting: Setting::Following,
        name: FOLLOWED,
        what: "followed branch",
        privilege: None,
        lines_max: Some(following_config::BRANCHES_MAX),
        values: None,
        put: following_config::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
    SettingEntry {
        dn: SERVER_SETTINGS_DN,
        attribute: server_settings::ATTRIBUTE,
        setting: Setting::Server,
        name: SERVER_SETTINGS,
        what: "setting",
        // They say how somebody proves who he is, and what everybody may take.
        privilege: Some(Privilege::ModifyAcl),
        lines_max: None,
        values: None,
        put: server_settings::put,
        none_at_all: None,
        follow: Some(server_settings::check),
        spelling: None,
    },
    SettingEntry {
        dn: NAMING_CONTEXT_CONFIG_DN,
        attribute: naming_context_config::ATTRIBUTE,
        setting: Setting::NamingContexts,
        name: naming_context_config::SETTING,
        what: "naming context",
        privilege: None,
        lines_max: None,
        values: Some(naming_context_config::values),
        put: naming_context_config::put,
        none_at_all: Some(store::NO_CONTEXT),
        follow: Some(naming_context_config::follow),
        spelling: Some(naming_context_config::spelling),
    },
    SettingEntry {
        dn: TASK_CONFIG_DN,
        attribute: recurring::ATTRIBUTE,
        setting: Setting::ScheduledTasks,
        name: SCHEDULED_TASKS,
        what: "scheduled task",
        // Each kind takes its own, see `put`.
        privilege: None,
        lines_max: Some(recurring::SCHEDULED_MAX),
        values: None,
        put: recurring::put,
        none_at_all: None,
        follow: None,
        spelling: None,
    },
];

/// By which entry and attribute a setting is shown, if readers of changes may learn of it: of
/// tokens nobody learns there, and positions of who follows another server come each second.
pub(crate) fn told(name: &str) -> Option<(&'static str, &'static str)> {
    let mut told = ENTRIES.iter().filter(|entry| is_told(entry));
    let found = told.find(|entry| entry.name == name)?;
    Some((found.dn, found.attribute))
}

const fn is_told(entry: &SettingEntry) -> bool {
    !matches!(entry.setting, Setting::JoinTokens | Setting::Following)
}

/// The settings that the entry shows which a request names.
pub(crate) fn named(named: &Named) -> Vec<&'static SettingEntry> {
    let is_named = |entry: &&SettingEntry| {
        let own = DnKey::from_text(&named.state.schema, entry.dn);
        own.is_ok_and(|own| own == named.key)
    };
    ENTRIES.iter().filter(is_named).collect()
}

/// Resolves a modify of an entry that shows these: of one of them.
pub(crate) fn modify(
    entries: &[&SettingEntry],
    named: &Named,
    request: &ModifyRequest<'_>,
) -> Result<WriteOp, Refusal> {
    let refuse = |why: String| Err(Refusal::new(ResultCode::UnwillingToPerform, why));
    let mut changed: Option<&SettingEntry> = None;
    let mut steps = Vec::new();
    for modification in request.changes.iter() {
        let (operation, attribute) = (modification.operation, modification.attribute);
        let has_it = |entry: &&&SettingEntry| entry.has(&named.state.schema, attribute.description);
        let Some(entry) = entries.iter().find(has_it) else {
            return refuse(format!("'{}' cannot be changed here", attribute.description));
        };
        if changed.is_some_and(|changed| changed.setting != entry.setting) {
            return refuse("one attribute is changed at a time here: send two requests".to_owned());
        }
        changed = Some(entry);
        let is_empty = attribute.values.iter().next().is_none();
        match operation {
            ModifyOperation::Increment => return Err(named::refuse_special()),
            ModifyOperation::Replace => steps.push(SettingStep::TakeAll),
            ModifyOperation::Delete if is_empty => steps.push(SettingStep::TakeAll),
            ModifyOperation::Add | ModifyOperation::Delete => {}
        }
        for value in attribute.values.iter() {
            let text = std::str::from_utf8(value).map_err(|_| {
                Refusal::new(ResultCode::InvalidAttributeSyntax, "a value is not UTF-8")
            })?;
            let text = text.to_owned();
            steps.push(match operation {
                ModifyOperation::Delete => SettingStep::Take(text),
                _ => SettingStep::Put(text),
            });
        }
    }
    let Some(entry) = changed.or(entries.first().copied()) else {
        return refuse("nothing can be changed here".to_owned());
    };
    Ok(WriteOp::SettingConfig(SettingConfig { setting: entry.setting, steps }))
}

/// Decides on the values that the changes before it left.
pub(crate) fn decide(decide: &Decide<'_>, op: &SettingConfig) -> Result<Decision, Refusal> {
    let SettingConfig { setting, steps } = op;
    let entry = entry(*setting);
    let before = entry.values(decide.view)?;
    let mut after = before.clone();
    for step in steps {
        match step {
            SettingStep::TakeAll => after.clear(),
            SettingStep::TakeOf(name) => after.retain(|line| line_name(line) != name),
            SettingStep::Put(text) => {
                let text = &*entry.spelled(decide, &after, text)?;
                if after.iter().any(|one| one == text) {
                    let why = format!("the {} is there already", entry.what);
                    return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
                }
                entry.has_room(&after, text)?;
                (entry.put)(decide, &mut after, text)?;
                after.push(text.to_owned());
            }
            SettingStep::Take(text) => {
                let text = &*entry.spelled(decide, &after, text)?;
                let place = after.iter().position(|one| one == text);
                let place = place.ok_or_else(|| {
                    let why = format!("there is no such {}", entry.what);
                    Refusal::new(ResultCode::NoSuchAttribute, why)
                })?;
                after.remove(place);
            }
        }
    }
    if after == before {
        return Ok(Decision::default());
    }
    let follows = entry.follow.map(|follow| follow(decide, &after)).transpose()?;
    let change = |mut values: Vec<String>| {
        if values.is_empty() {
            values.extend(entry.none_at_all.map(str::to_owned));
        }
        let change = SettingChange { name: entry.name.to_owned(), values };
        decide.guard.access().permit(Change::Setting(change))
    };
    let mut decision = Decision::default();
    // The record says what was, for who reads it later: see `history::record::ChangeRole`.
    if is_told(entry) {
        decision.changes.push(change(before)?);
    }
    decision.changes.push(change(after)?);
    decision.changes.extend(follows.into_iter().flatten());
    Ok(decision)
}

/// Whether an identity may change it.
pub(crate) fn may_change(setting: Setting, access: &Access) -> bool {
    access.has(Privilege::ConfigWrite)
        && entry(setting).privilege.is_none_or(|privilege| access.has(privilege))
}

fn entry(setting: Setting) -> &'static SettingEntry {
    let found = ENTRIES.iter().find(|entry| entry.setting == setting);
    found.expect("each setting has its row")
}

/// The entry with this name, for the tree that it is shown in.
pub(crate) fn shown(source: &BranchSource<'_>, dn: &str) -> Result<Vec<Entry>, Refusal> {
    let mut reader = source.directory.storage.store.reader();
    let view = reader.view()?;
    let mut made = source.entry(dn, &["top", "extensibleObject"]);
    for entry in ENTRIES.iter().filter(|entry| entry.dn == dn) {
        made = made.values(entry.attribute, entry.values(view)?);
    }
    Ok(vec![made.done()])
}

impl SettingEntry {
    fn values(&self, view: &View<'_>) -> Result<Vec<String>, StoreError> {
        match self.values {
            Some(values) => values(view),
            None => view.setting(self.name),
        }
    }

    fn spelled<'t>(
        &self,
        decide: &Decide<'_>,
        others: &[String],
        text: &'t str,
    ) -> Result<Cow<'t, str>, Refusal> {
        match self.spelling {
            Some(spelling) => Ok(Cow::Owned(spelling(decide, others, text)?)),
            None => Ok(Cow::Borrowed(text)),
        }
    }

    /// Refuses a line that has the name of another one, and one too many.
    fn has_room(&self, others: &[String], text: &str) -> Result<(), Refusal> {
        let Some(max) = self.lines_max else { return Ok(()) };
        let (what, name) = (self.what, name_of(text));
        // They are names of entries, too, which are the same in capitals.
        if others.iter().any(|other| name_of(other).eq_ignore_ascii_case(name)) {
            let why = format!("the {what} '{name}' is there already; delete that value");
            return Err(Refusal::new(ResultCode::AttributeOrValueExists, why));
        }
        if others.len() >= max {
            let plural = if what.ends_with("ch") { "es" } else { "s" };
            let why = format!("there are at most {max} {what}{plural}");
            return Err(Refusal::new(ResultCode::UnwillingToPerform, why));
        }
        Ok(())
    }

    fn has(&self, schema: &Schema, attribute: &str) -> bool {
        schema.attribute_type(attribute).is_some_and(|kind| kind.name() == self.attribute)
    }
}
