//! A task that was asked for: a record that outlives a restart.

use serde::{Deserialize, Serialize};

/// A task.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Task {
    /// Its name; no other one of the server has it.
    pub id: String,
    /// What it does, as [`super::TaskWork::text`] writes it.
    pub work: String,
    /// How far it is.
    pub state: TaskState,
    /// The scheduled task that it is one time of.
    #[serde(default)]
    pub of: Option<String>,
    /// Who asked for it: a DN; empty if a schedule did.
    #[serde(default)]
    pub by: String,
    /// When it was asked for, in microseconds since 1970.
    pub asked_us: u64,
    /// It begins not before.
    #[serde(default)]
    pub start_us: Option<u64>,
    /// When it began.
    #[serde(default)]
    pub began_us: Option<u64>,
    /// When it ended.
    #[serde(default)]
    pub ended_us: Option<u64>,
    /// Tasks that must have ended before it begins, by their names.
    #[serde(default)]
    pub after: Vec<String>,
    /// How far it is, as it tells itself.
    #[serde(default)]
    pub progress: String,
    /// What it has told, the last lines of it.
    #[serde(default)]
    pub log: Vec<String>,
    /// The exit code of what did it.
    #[serde(default)]
    pub exit_code: Option<i32>,
}

/// How far a task is, by the words of OpenDJ.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    /// It begins as soon as there is room.
    #[default]
    Unscheduled,
    /// Its time has not come.
    WaitingOnStartTime,
    /// Others must end first.
    WaitingOnDependency,
    /// It is at work.
    Running,
    /// It has done what it was to do.
    CompletedSuccessfully,
    /// It has not: its log says why.
    StoppedByError,
    /// Somebody ended it.
    StoppedByAdministrator,
    /// The server ended.
    StoppedByShutdown,
    /// It never began, because somebody or a failed task before it said so.
    CanceledBeforeStarting,
}

impl TaskState {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Unscheduled,
        Self::WaitingOnStartTime,
        Self::WaitingOnDependency,
        Self::Running,
        Self::CompletedSuccessfully,
        Self::StoppedByError,
        Self::StoppedByAdministrator,
        Self::StoppedByShutdown,
        Self::CanceledBeforeStarting,
    ];

    /// The word of OpenDJ.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unscheduled => "UNSCHEDULED",
            Self::WaitingOnStartTime => "WAITING_ON_START_TIME",
            Self::WaitingOnDependency => "WAITING_ON_DEPENDENCY",
            Self::Running => "RUNNING",
            Self::CompletedSuccessfully => "COMPLETED_SUCCESSFULLY",
            Self::StoppedByError => "STOPPED_BY_ERROR",
            Self::StoppedByAdministrator => "STOPPED_BY_ADMINISTRATOR",
            Self::StoppedByShutdown => "STOPPED_BY_SHUTDOWN",
            Self::CanceledBeforeStarting => "CANCELED_BEFORE_STARTING",
        }
    }

    /// Whether nothing comes behind it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !self.is_waiting() && !matches!(self, Self::Running)
    }

    /// Whether it has not begun and may.
    #[must_use]
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Unscheduled | Self::WaitingOnStartTime | Self::WaitingOnDependency)
    }
}

/// What came of the wish to end a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TaskCancel {
    /// It ends, or never begins.
    Done,
    /// It had ended.
    WasOver,
    /// There is none of this name.
    Missing,
    /// It could not be kept on the disk, so nothing has changed.
    NotKept,
}

/// Finds the task of a name.
pub type FindTask = Box<dyn Fn(&str) -> Option<Task> + Send + Sync>;

/// Does something with the task of a name.
pub type ToTask = Box<dyn Fn(&str) -> TaskCancel + Send + Sync>;

/// Does something with the task of a name, for somebody (a DN).
pub type ToTaskFor = Box<dyn Fn(&str, &str) -> TaskCancel + Send + Sync>;

/// Whoever does the tasks. It waits for nothing but the disk of the data directory.
pub struct TaskTeller {
    /// All that are known, by name.
    pub list: Box<dyn Fn() -> Vec<Task> + Send + Sync>,
    /// The one of this name, in whatever capitals.
    pub get: FindTask,
    /// Takes one; else says why not, in a sentence.
    pub add: Box<dyn Fn(Task) -> Result<(), String> + Send + Sync>,
    /// Has it end.
    pub cancel: ToTaskFor,
    /// Forgets it, unless it is at work.
    pub forget: ToTask,
}
