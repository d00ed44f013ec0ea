//! Reads the entry that asks for a task: attributes of OpenDJ, of 389 Directory Server, and our
//! own.

use environment::Timestamp;
use ldap::message::AddRequest;
use ldap::result::ResultCode;
use schema::Schema;

use super::entries::{self, Place};
use super::kind::{self, TaskKind};
use super::option::{TASK_OPTIONS, TaskOption};
use super::text::TaskWork;
use crate::password_policy::attributes;
use crate::request::refusal::Refusal;

/// What an entry asks for.
pub(super) struct TaskForm {
    pub(super) work: TaskWork,
    /// Not before.
    pub(super) start: Option<Timestamp>,
    /// Tasks that must have ended, by their names.
    pub(super) after: Vec<String>,
}

/// An attribute with its values as text.
struct Given<'a> {
    name: &'a str,
    values: Vec<&'a str>,
}

/// Reads it.
pub(super) fn read(
    request: &AddRequest<'_>,
    place: &Place,
    schema: &Schema,
) -> Result<TaskForm, Refusal> {
    let all = given(request)?;
    let named_by = |name: &str| all.iter().find(|one| one.name.eq_ignore_ascii_case(name));
    let first = |name: &str| named_by(name).and_then(|one| one.values.first().copied());
    let kind = match place.kind {
        Some(kind) => kind,
        None => {
            let Some(class) = first(entries::CLASS) else {
                return Err(violation("a task needs its ds-task-class-name, such as 'backup'"));
            };
            kind::find(class).ok_or_else(|| {
                let all: Vec<_> = kind::TASK_KINDS.iter().map(|kind| kind.name).collect();
                refuse(format!("'{class}' is no kind of task; there are: {}", all.join(", ")))
            })?
        }
    };
    if kind.name == "verify-backup" && is_opendj(first(entries::CLASS)) {
        let verifies = first("ds-task-restore-verify-only");
        if !verifies.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Err(refuse(
                "a backup is restored into a data directory of its own, which is served \
                 afterwards: 'roster restore'; with ds-task-restore-verify-only it is verified",
            ));
        }
    }
    let mut values = Vec::new();
    for one in &all {
        if let Some(option) = option_of(one.name, kind, place) {
            values.push((option.name, spelled(option, &one.values)));
        } else if one.name.eq_ignore_ascii_case(entries::OPTION) {
            for &value in &one.values {
                let (name, value) = value.split_once('=').unwrap_or((value, ""));
                values.push((name, value.to_owned()));
            }
        } else if !is_known(one, kind) {
            return Err(refuse(format!(
                "'{}' is nothing that a task '{}' does",
                one.name, kind.name
            )));
        }
    }
    let work = TaskWork::of(kind, values, schema)
        .map_err(|error| Refusal::new(ResultCode::InvalidAttributeSyntax, error.to_string()))?;
    if work.value("on").is_some() {
        return Err(refuse("'on' is of scheduled tasks: any other is done by this server"));
    }
    let after: Vec<_> = named_by(entries::AFTER).map(|one| one.values.clone()).unwrap_or_default();
    if after.len() > AFTER_MAX {
        return Err(refuse(format!("a task waits for at most {AFTER_MAX} others")));
    }
    if work.value("if-failed").is_some() && after.is_empty() {
        return Err(refuse("'if-failed' is of tasks that wait for others"));
    }
    let after = after.into_iter().map(str::to_owned).collect();
    Ok(TaskForm { work, start: first(entries::START).map(start).transpose()?.flatten(), after })
}

fn given<'a>(request: &AddRequest<'a>) -> Result<Vec<Given<'a>>, Refusal> {
    let text = |value: &'a [u8]| {
        let text = std::str::from_utf8(value);
        text.map_err(|_| Refusal::new(ResultCode::InvalidAttributeSyntax, "a value is not UTF-8"))
    };
    let all = request.attributes.iter().map(|attribute| {
        let values = attribute.values.iter().map(text).collect::<Result<_, _>>()?;
        Ok(Given { name: attribute.description, values })
    });
    all.collect()
}

/// The option that an attribute stands for, with this kind of task.
fn option_of(name: &str, kind: &TaskKind, place: &Place) -> Option<&'static TaskOption> {
    let is_meant = |option: &&TaskOption| {
        let own = if place.kind.is_some() { option.attribute_389 } else { option.attribute };
        option.is_of(kind.name) && own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    TASK_OPTIONS.iter().find(is_meant)
}

/// Values as the option has them: with commas between, and booleans in small letters.
fn spelled(option: &TaskOption, values: &[&str]) -> String {
    match option.form {
        "true, false" | "process, cancel" => values.join(",").to_ascii_lowercase(),
        "NAMES" => values.iter().map(|value| index_name(value)).collect::<Vec<_>>().join(","),
        _ => values.join(","),
    }
}

/// `cn:eq,pres` of 389 Directory Server; any other name stays.
fn index_name(value: &str) -> String {
    let Some((attribute, kinds)) = value.split_once(':') else { return value.to_owned() };
    let one = |kind: &str| {
        let kind = match kind {
            "eq" => "equality",
            "pres" => "presence",
            "sub" => "substring",
            "approx" => "approximate",
            other => other,
        };
        format!("{attribute}.{kind}")
    };
    kinds.split(',').map(one).collect::<Vec<_>>().join(",")
}

fn is_opendj(class: Option<&str>) -> bool {
    class.is_some_and(|class| class.contains('.'))
}

/// Whether an attribute is one of the task itself, or says what is so anyway.
fn is_known(one: &Given<'_>, kind: &TaskKind) -> bool {
    let is = |name: &&str| one.name.eq_ignore_ascii_case(name);
    let of_all = [
        "objectClass",
        "cn",
        "ttl",
        entries::ID,
        entries::CLASS,
        entries::START,
        entries::AFTER,
        entries::RECURRING_ID,
        entries::SCHEDULE,
        // There is one backend, and it is backed up with all it has.
        "nsInstance",
        "nsDatabaseType",
        "ds-task-backup-all",
        "ds-task-backup-backend-id",
        "ds-task-backup-incremental",
        "ds-task-export-backend-id",
        "ds-task-import-backend-id",
        "ds-task-rebuild-base-dn",
        "ds-task-import-append",
    ];
    let is_unscheduled = || {
        one.name.eq_ignore_ascii_case(entries::STATE)
            && one.values.iter().all(|value| value.eq_ignore_ascii_case("UNSCHEDULED"))
    };
    let is_off = || {
        let lower = one.name.to_ascii_lowercase();
        lower.starts_with("ds-task-")
            && one.values.iter().all(|it| it.eq_ignore_ascii_case("false"))
    };
    of_all.iter().any(is)
        || is_unscheduled()
        || is_off()
        || (kind.name == "verify-backup" && is(&"ds-task-restore-verify-only"))
}

/// A moment: a GeneralizedTime, or 14 digits, which are UTC; `0` is now.
fn start(text: &str) -> Result<Option<Timestamp>, Refusal> {
    if text == "0" {
        return Ok(None);
    }
    let is_bare = text.len() == 14 && text.bytes().all(|octet| octet.is_ascii_digit());
    let full = if is_bare { format!("{text}Z") } else { text.to_owned() };
    match attributes::time(&full) {
        Some(moment) => Ok(Some(moment)),
        None => Err(Refusal::new(
            ResultCode::InvalidAttributeSyntax,
            format!("'{text}' is no time, such as 20261231020000Z"),
        )),
    }
}

fn refuse(why: impl Into<String>) -> Refusal {
    Refusal::new(ResultCode::UnwillingToPerform, why.into())
}

fn violation(why: &'static str) -> Refusal {
    Refusal::new(ResultCode::ObjectClassViolation, why)
}

/// The most tasks that one waits for.
const AFTER_MAX: usize = 16;
