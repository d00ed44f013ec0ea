//! Tasks: work that a server does by itself, at once, later, or again and again; what they are,
//! and `cn=tasks`, where they are entries.
//!
//! Start at `text.rs`; kinds and options are rows of `kind.rs` and `option.rs`, `task.rs` is one
//! that was asked for, `request.rs` has it begin and end, `entries.rs` shows it. Whoever does the
//! work is the server: see `tasks.rs` there.
//!
//! Invariant: a task names files below one directory, and nothing that is not in the tables.

mod cron;
pub(crate) mod entries;
mod form;
mod kind;
mod option;
pub(crate) mod recurring;
pub(crate) mod request;
mod task;
pub(crate) mod text;

pub use self::cron::CronTimes;
pub use self::kind::{TASK_KINDS, TaskKind};
pub use self::option::{TASK_OPTIONS, TaskOption};
pub use self::task::{FindTask, Task, TaskCancel, TaskState, TaskTeller, ToTask, ToTaskFor};
pub use self::text::{ScheduledTask, TaskMember, TaskTime, TaskWork};
