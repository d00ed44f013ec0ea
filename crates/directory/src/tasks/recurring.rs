//! What is done again and again: lines of a setting of the directory, `cn=Tasks,cn=config`, and an
//! entry for each below `cn=Recurring Tasks,cn=tasks`, which can be added and deleted.

use ldap::message::AddRequest;
use ldap::result::ResultCode;
use schema::{DnKey, Schema};

use super::entries::{Place, RECURRING_ID, SCHEDULE};
use super::form;
use super::text::{SCHEDULED_TASKS, ScheduledTask};
use crate::config::changes::{Setting, SettingConfig, SettingStep};
use crate::directory::Directory;
use crate::lines::name_of;
use crate::read::virtual_tree::names::RECURRING_TASKS_DN;
use crate::request::refusal::Refusal;
use crate::write::decision::Decide;
use crate::write::named::Named;
use crate::write::request::WriteOp;

/// The attribute of the lines.
pub(crate) const ATTRIBUTE: &str = "roster-task";
/// The most scheduled tasks.
pub(crate) const SCHEDULED_MAX: usize = 100;

impl Directory {
    /// The scheduled tasks.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn scheduled_tasks(&self) -> Result<Vec<ScheduledTask>, String> {
        let mut reader = self.storage.store.reader();
        let view = reader.view().map_err(|error| error.to_string())?;
        let all = self.rules.scheduled_tasks.of(view, &self.state.load().schema);
        Ok(all.to_vec())
    }
}

/// Refuses what is no scheduled task, one that whoever asks may not have done, and one that waits
/// for itself.
#[expect(clippy::ptr_arg, reason = "it is one of a table of such functions")]
pub(crate) fn put(
    decide: &Decide<'_>,
    others: &mut Vec<String>,
    text: &str,
) -> Result<(), Refusal> {
    let schema = &decide.state.schema;
    let task = ScheduledTask::parse(text, schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    let access = decide.guard.access();
    let lacks = task.work.kind.privileges.iter().find(|&&privilege| !access.has(privilege));
    if let Some(privilege) = lacks {
        let (kind, privilege) = (task.work.kind.name, privilege.name());
        let why = format!("a task '{kind}' takes the privilege {privilege}");
        return Err(Refusal::new(ResultCode::InsufficientAccessRights, why));
    }
    let others: Vec<_> =
        others.iter().filter_map(|other| ScheduledTask::parse(other, schema).ok()).collect();
    let mut at = &task;
    // Of a ring of others there is none: each was looked at when it came.
    for _ in 0..=SCHEDULED_MAX {
        let Some(before) = at.after() else { return Ok(()) };
        if before.eq_ignore_ascii_case(&task.name) {
            return Err(refuse(format!("'{}' would wait for itself", task.name)));
        }
        let found = others.iter().find(|other| other.name.eq_ignore_ascii_case(before));
        at = found.ok_or_else(|| refuse(format!("there is no scheduled task '{before}'")))?;
    }
    Err(refuse("too many tasks wait for each other".to_owned()))
}

/// What adding an entry below `cn=Recurring Tasks,cn=tasks` does; nothing, where that is not what
/// is added.
pub(crate) fn add(named: &Named, request: &AddRequest<'_>) -> Result<Option<WriteOp>, Refusal> {
    let Some(name) = name(named) else { return Ok(None) };
    let schema = &named.state.schema;
    let mut times = None;
    for attribute in request.attributes.iter() {
        if attribute.description.eq_ignore_ascii_case(SCHEDULE) {
            times = attribute.values.iter().next().and_then(|it| std::str::from_utf8(it).ok());
        }
    }
    let Some(times) = times else {
        let why = "a recurring task needs its ds-recurring-task-schedule, such as '0 2 * * *'";
        return Err(Refusal::new(ResultCode::ObjectClassViolation, why));
    };
    let place = Place { id: name.clone(), kind: None };
    let form = form::read(request, &place, schema)?;
    if form.start.is_some() || !form.after.is_empty() {
        return Err(refuse("a recurring task begins when its schedule says".to_owned()));
    }
    let when = match times.strip_prefix("after ") {
        Some(before) => format!("after {before}"),
        None => format!("at \"{}\"", times.replace('"', "\\\"")),
    };
    let line = format!("{name}: {} {when}", form.work.text());
    Ok(Some(op(vec![SettingStep::Put(line)])))
}

/// What deleting such an entry does; nothing, where that is not what is deleted.
pub(crate) fn delete(directory: &Directory, named: &Named) -> Result<Option<WriteOp>, Refusal> {
    let Some(name) = name(named) else { return Ok(None) };
    let mut reader = directory.storage.store.reader();
    let lines = reader.view()?.setting(SCHEDULED_TASKS)?;
    let line = lines.into_iter().find(|line| name_of(line).eq_ignore_ascii_case(&name));
    let line = line.ok_or_else(|| {
        Refusal::no_such_object(RECURRING_TASKS_DN.to_owned(), "there is no such recurring task")
    })?;
    Ok(Some(op(vec![SettingStep::Take(line)])))
}

fn op(steps: Vec<SettingStep>) -> WriteOp {
    WriteOp::SettingConfig(SettingConfig { setting: Setting::ScheduledTasks, steps })
}

/// The name of the recurring task that a request names, if it names one.
fn name(named: &Named) -> Option<String> {
    let schema: &Schema = &named.state.schema;
    let above = DnKey::from_text(schema, RECURRING_TASKS_DN).ok()?;
    let [ava] = named.dn.rdns().first()?.avas() else { return None };
    let is_id = schema.attribute_type(&ava.attribute)?.name() == RECURRING_ID;
    let is_here = is_id && named.key.parent().as_ref() == Some(&above);
    is_here.then(|| String::from_utf8(ava.value.to_vec()).ok())?
}

fn refuse(why: String) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, why)
}
