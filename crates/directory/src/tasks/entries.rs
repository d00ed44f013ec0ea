//! `cn=tasks`: an entry for each task and for each scheduled task, as OpenDJ has them; and
//! `cn=Tasks,cn=config`, with the lines of what is scheduled, and tasks as 389 Directory Server has
//! them.

use environment::Timestamp;
use schema::{DnKey, Entry};

use super::kind::{TASK_KINDS, TaskKind};
use super::option;
use super::task::{Task, TaskState};
use super::text::{ScheduledTask, TaskTime, TaskWork};
use crate::config::setting_config::shown;
use crate::read::virtual_tree::branch::{BranchSource, EntryMaker};
use crate::read::virtual_tree::names::{
    RECURRING_TASKS_DN, SCHEDULED_TASKS_DN as SCHEDULED_TASKS, TASK_CONFIG_DN,
};
use crate::request::refusal::Refusal;
use crate::write::named::Named;

/// The entry above those of the tasks.
pub(super) const SCHEDULED_DN: &str = SCHEDULED_TASKS;
/// Attributes of OpenDJ.
pub(super) const ID: &str = "ds-task-id";
pub(super) const CLASS: &str = "ds-task-class-name";
pub(super) const STATE: &str = "ds-task-state";
pub(super) const START: &str = "ds-task-scheduled-start-time";
pub(super) const AFTER: &str = "ds-task-dependency-id";
pub(super) const RECURRING_ID: &str = "ds-recurring-task-id";
pub(super) const SCHEDULE: &str = "ds-recurring-task-schedule";
/// An option of a task, `NAME=VALUE`.
pub(super) const OPTION: &str = "roster-task-option";
/// What ends a task of 389 Directory Server.
pub(super) const CANCEL_389: &str = "nsTaskCancel";

/// Where the entry of a task is.
pub(super) struct Place {
    /// The name of the task.
    pub(super) id: String,
    /// The kind, where the place says it.
    pub(super) kind: Option<&'static TaskKind>,
}

/// The place of a task that a request names, if it names one.
pub(super) fn place(named: &Named) -> Option<Place> {
    let schema = &named.state.schema;
    let above = named.key.parent()?;
    let key = |name: &str| DnKey::from_text(schema, name).ok();
    let [ava] = named.dn.rdns().first()?.avas() else { return None };
    let attribute = schema.attribute_type(&ava.attribute)?.name();
    let id = std::str::from_utf8(&ava.value).ok()?.to_owned();
    if attribute == ID && key(SCHEDULED_TASKS).as_ref() == Some(&above) {
        return Some(Place { id, kind: None });
    }
    let is_of =
        |kind: &&TaskKind| branch_dn(kind).and_then(|name| key(&name)).as_ref() == Some(&above);
    let kind = (attribute == "cn").then(|| TASK_KINDS.iter().find(is_of)).flatten()?;
    Some(Place { id, kind: Some(kind) })
}

/// The name of the branch that 389 Directory Server has for a kind.
fn branch_dn(kind: &TaskKind) -> Option<String> {
    kind.branch.map(|branch| format!("cn={branch},{TASK_CONFIG_DN}"))
}

fn tasks(source: &BranchSource<'_>) -> Vec<Task> {
    source.directory.monitors.tasks.get().map(|teller| (teller.list)()).unwrap_or_default()
}

/// `cn=Scheduled Tasks,cn=tasks`.
pub(crate) fn scheduled(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut made = vec![source.entry(SCHEDULED_TASKS, &["top", "extensibleObject"]).done()];
    for task in tasks(source) {
        let name = format!("{ID}={},{SCHEDULED_TASKS}", task.id);
        let maker = source.entry(&name, &["top", "ds-task", "extensibleObject"]);
        made.push(entry(source, maker, &task));
    }
    Ok(made)
}

fn entry(source: &BranchSource<'_>, maker: EntryMaker<'_>, task: &Task) -> Entry {
    let work = TaskWork::parse(&task.work, source.schema).ok();
    let time = |moment: Option<u64>| moment.map(|us| Timestamp(us).generalized_time());
    let present = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    with_work(maker, work.as_ref())
        .value(STATE, task.state.name())
        .values(START, time(task.start_us))
        .values("ds-task-actual-start-time", time(task.began_us))
        .values("ds-task-completion-time", time(task.ended_us))
        .values(AFTER, task.after.iter().cloned())
        .values("ds-task-log-message", numbered(&task.log))
        .value("roster-task-work", &task.work)
        .values("roster-task-progress", present(&task.progress))
        .values("roster-task-by", present(&task.by))
        .values("roster-task-of", task.of.clone())
        .values("roster-task-exit-code", task.exit_code.map(|code| code.to_string()))
        .value("createTimestamp", &Timestamp(task.asked_us).generalized_time())
        .done()
}

/// Values have no order, and equal ones are one: each line has its number.
fn numbered(log: &[String]) -> impl Iterator<Item = String> + '_ {
    log.iter().enumerate().map(|(number, line)| format!("{:03} {line}", number + 1))
}

fn with_work<'a>(maker: EntryMaker<'a>, work: Option<&TaskWork>) -> EntryMaker<'a> {
    let Some(work) = work else { return maker };
    let mut maker = maker
        .value(CLASS, work.kind.class.unwrap_or(work.kind.name))
        .values(OPTION, work.options());
    for (option, value) in work.values() {
        let attribute = option::find(option, work.kind.name).and_then(|option| option.attribute);
        if let Some(attribute) = attribute {
            maker = maker.value(attribute, &as_opendj(value));
        }
    }
    maker
}

fn as_opendj(value: &str) -> String {
    match value {
        "true" | "false" => value.to_ascii_uppercase(),
        other => other.to_owned(),
    }
}

/// `cn=Recurring Tasks,cn=tasks`.
pub(crate) fn recurring(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut made = vec![source.entry(RECURRING_TASKS_DN, &["top", "extensibleObject"]).done()];
    let mut reader = source.directory.storage.store.reader();
    let view = reader.view()?;
    let now = source.directory.clock.now();
    for line in view.setting(super::text::SCHEDULED_TASKS)? {
        let Ok(task) = ScheduledTask::parse(&line, source.schema) else { continue };
        let name = format!("{RECURRING_ID}={},{RECURRING_TASKS_DN}", task.name);
        let classes = ["top", "ds-task", "ds-recurring-task", "extensibleObject"];
        let next = match &task.when {
            TaskTime::At(times) => times.next_after(now).map(Timestamp::generalized_time),
            TaskTime::After(_) => None,
        };
        let maker = source
            .entry(&name, &classes)
            .value(ID, &task.name)
            .value(STATE, "RECURRING")
            .value(SCHEDULE, &task.when())
            .value("roster-task", &line)
            .values("roster-task-next", next);
        made.push(with_work(maker, Some(&task.work)).done());
    }
    Ok(made)
}

/// `cn=Tasks,cn=config`.
pub(crate) fn config(source: &BranchSource<'_>) -> Result<Vec<Entry>, Refusal> {
    let mut made = shown(source, TASK_CONFIG_DN)?;
    let all = tasks(source);
    for kind in TASK_KINDS {
        let Some(branch) = branch_dn(kind) else { continue };
        made.push(source.entry(&branch, &["top", "extensibleObject"]).done());
        let is_of = |task: &&Task| task.work.split(' ').next() == Some(kind.name);
        for task in all.iter().filter(is_of) {
            made.push(entry_389(source, &branch, task));
        }
    }
    Ok(made)
}

fn entry_389(source: &BranchSource<'_>, branch: &str, task: &Task) -> Entry {
    let time = |moment: Option<u64>| moment.map(|us| Timestamp(us).generalized_time());
    let code = match task.state {
        TaskState::CompletedSuccessfully => Some(0),
        state if state.is_end() => Some(task.exit_code.filter(|&code| code != 0).unwrap_or(-1)),
        _ => None,
    };
    let status = match task.progress.is_empty() {
        true => task.state.name(),
        false => &task.progress,
    };
    source
        .entry(&format!("cn={},{branch}", task.id), &["top", "extensibleObject"])
        .value("nsTaskStatus", status)
        .values("nsTaskExitCode", code.map(|code| code.to_string()))
        .values("nsTaskLog", (!task.log.is_empty()).then(|| task.log.join("\n")))
        .value("nsTaskCreated", &Timestamp(task.asked_us).generalized_time())
        .values("ds-task-completion-time", time(task.ended_us))
        .done()
}

/// Making them may take long where there are many.
pub(crate) fn is_slow(source: &BranchSource<'_>) -> bool {
    tasks(source).len() > FEW
}

/// Each may have a log of some kilobytes.
const FEW: usize = 32;
