//! How a task is written: `KIND [OPTION=VALUE …]`; one that is done again and again is a line,
//! `NAME: KIND [OPTION=VALUE …] at "CRON"` or `… after NAME`.

use std::fmt::Write as _;

use schema::Schema;

use super::cron::CronTimes;
use super::kind::{self, TASK_KINDS, TaskKind};
use super::option;
use crate::lines::Line;
use crate::lines::scanner::{LineError, Parsed, Scanner, wrong};

/// The setting with the scheduled tasks.
pub(crate) const SCHEDULED_TASKS: &str = "tasks";

/// What a task does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TaskWork {
    /// The kind.
    pub kind: &'static TaskKind,
    /// What was said of it, by the names of the options.
    values: Vec<TaskValue>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct TaskValue {
    option: &'static str,
    value: String,
}

/// A task that is done again and again.
#[derive(Clone, Debug)]
pub struct ScheduledTask {
    /// Its name.
    pub name: String,
    /// The line.
    pub text: String,
    /// What it does.
    pub work: TaskWork,
    /// When.
    pub when: TaskTime,
    /// On which member of a cluster.
    pub on: TaskMember,
}

/// When a scheduled task is done.
#[derive(Clone, Debug)]
pub enum TaskTime {
    /// At these times.
    At(CronTimes),
    /// Each time the scheduled task of this name has ended.
    After(String),
}

/// Which member of a cluster does a scheduled task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskMember {
    /// Whoever leads; a server that is alone does.
    Leader,
    /// Each.
    All,
    /// The one with this number.
    Number(u64),
}

impl TaskWork {
    /// Reads `KIND [OPTION=VALUE …]`.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, LineError> {
        let line = format!("task: {text}");
        let (_, mut scanner) = Scanner::begin(&line, "task", "backup to=nightly")?;
        let work = Self::read(&mut scanner, schema)?;
        if let Some(rest) = scanner.left() {
            return wrong(format!("'{rest}' is no option: NAME=VALUE is expected"));
        }
        if work.value("on").is_some() {
            return wrong(
                "'on' is of scheduled tasks: any other is done by the server it is sent to",
            );
        }
        Ok(work)
    }

    /// One of this kind, with these options.
    pub(super) fn of(
        kind: &'static TaskKind,
        values: Vec<(&str, String)>,
        schema: &Schema,
    ) -> Parsed<Self> {
        let mut work = Self { kind, values: Vec::new() };
        for (option, value) in values {
            work.put(option, value, schema)?;
        }
        let work = work.complete()?;
        // It is read again when it begins.
        match Self::parse(&work.text(), schema)? == work {
            true => Ok(work),
            false => wrong("it cannot be written in a line"),
        }
    }

    fn read(scanner: &mut Scanner<'_>, schema: &Schema) -> Parsed<Self> {
        let word = scanner.word();
        let Some(kind) = kind::find(word) else {
            let all: Vec<_> = TASK_KINDS.iter().map(|kind| kind.name).collect();
            return wrong(format!("'{word}' is no kind of task; there are: {}", all.join(", ")));
        };
        let mut work = Self { kind, values: Vec::new() };
        while let Some((name, value)) = scanner.option()? {
            work.put(name, value, schema)?;
        }
        work.complete()
    }

    fn put(&mut self, name: &str, value: String, schema: &Schema) -> Parsed<()> {
        let kind = self.kind.name;
        let Some(option) = option::find(name, kind) else {
            let all = option::TASK_OPTIONS.iter().filter(|option| option.is_of(kind));
            let all: Vec<_> = all.map(|option| option.name).collect();
            return wrong(format!(
                "'{name}' is no option of {kind}; there are: {}",
                all.join(", ")
            ));
        };
        if self.value(option.name).is_some() {
            return wrong(format!("'{name}' is there twice"));
        }
        if value.chars().any(char::is_control) {
            return wrong(format!("the value of '{name}' has a control character"));
        }
        // It would not be read again as it was.
        if value.ends_with('\\') || value.contains("\\\"") {
            return wrong(format!("the value of '{name}' has a '\\' before nothing"));
        }
        (option.check)(&value, schema)?;
        self.values.push(TaskValue { option: option.name, value });
        Ok(())
    }

    fn complete(self) -> Parsed<Self> {
        match self.kind.required.iter().find(|option| self.value(option).is_none()) {
            None => Ok(self),
            Some(option) => {
                let (kind, example) = (self.kind.name, self.kind.example);
                wrong(format!("{kind} needs '{option}=', as in '{example}'"))
            }
        }
    }

    /// The value of an option, if it was said.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        let found = self.values.iter().find(|value| value.option == option);
        found.map(|value| value.value.as_str())
    }

    /// Whether an option is `true`; `default` where nothing was said.
    #[must_use]
    pub fn is(&self, option: &str, default: bool) -> bool {
        self.value(option).map_or(default, |value| value == "true")
    }

    /// The same without an option.
    #[must_use]
    pub fn without(&self, option: &str) -> Self {
        let mut work = self.clone();
        work.values.retain(|value| value.option != option);
        work
    }

    /// Every option, `NAME=VALUE`.
    pub(super) fn options(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|TaskValue { option, value }| format!("{option}={value}"))
    }

    /// Every value, with the name of its option.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|TaskValue { option, value }| (*option, value.as_str()))
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.kind.name.to_owned();
        for TaskValue { option, value } in &self.values {
            let needs_marks = value.is_empty() || value.contains([' ', '"']);
            let _ = match needs_marks {
                true => write!(text, " {option}=\"{}\"", value.replace('"', "\\\"")),
                false => write!(text, " {option}={value}"),
            };
        }
        text
    }
}

impl ScheduledTask {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, LineError> {
        let (name, mut scanner) = Scanner::begin(text, "scheduled task", EXAMPLE)?;
        let work = TaskWork::read(&mut scanner, schema)?;
        let when = if scanner.takes("at") {
            let given = scanner.enclosed('"', '"', None)?;
            TaskTime::At(CronTimes::parse(given.first().map_or("", String::as_str))?)
        } else if scanner.takes("after") {
            TaskTime::After(scanner.word().to_owned())
        } else {
            return wrong(format!("it says when: at \"CRON\" or after NAME, as in 'x: {EXAMPLE}'"));
        };
        if let Some(rest) = scanner.left() {
            return wrong(format!("'{rest}' is too much behind the time"));
        }
        if work.value("if-failed").is_some() && !matches!(when, TaskTime::After(_)) {
            return wrong("'if-failed' is of tasks that are done after others");
        }
        let on = match work.value("on") {
            None | Some("leader") => TaskMember::Leader,
            Some("all") => TaskMember::All,
            Some(number) => TaskMember::Number(number.parse().unwrap_or_default()),
        };
        Ok(Self { name: name.to_owned(), text: text.to_owned(), work, when, on })
    }

    /// The name of the scheduled task that it is done after.
    pub(crate) fn after(&self) -> Option<&str> {
        match &self.when {
            TaskTime::At(_) => None,
            TaskTime::After(name) => Some(name),
        }
    }

    /// When it is done, as it is written.
    #[must_use]
    pub fn when(&self) -> String {
        match &self.when {
            TaskTime::At(times) => times.text().to_owned(),
            TaskTime::After(name) => format!("after {name}"),
        }
    }
}

impl Line for ScheduledTask {
    const SETTING: &'static str = SCHEDULED_TASKS;

    fn read(text: &str, schema: &Schema) -> Parsed<Self> {
        Self::parse(text, schema)
    }
}

/// A scheduled task, without its name.
const EXAMPLE: &str = "backup to=nightly at \"0 2 * * *\"";

#[cfg(test)]
mod tests;
