//! All tasks of a server, in memory and as a file each, `tasks/NAME.json` in the data directory.
//!
//! Invariant: what began, ended or was asked for is on the disk before anybody hears of it; what a
//! task tells meanwhile is there when it has ended.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use directory::tasks::{Task, TaskCancel, TaskState};
use environment::Timestamp;

/// The tasks.
#[derive(Debug)]
pub(super) struct TaskBoard {
    path: PathBuf,
    tasks: Mutex<BTreeMap<String, Task>>,
    /// Those that are at work and are to end, with who wants that.
    to_end: Mutex<BTreeMap<String, String>>,
}

impl TaskBoard {
    /// Those that are on the disk. What was at work ended with the server.
    pub(super) fn open(path: &Path, now: Timestamp) -> io::Result<Self> {
        if !path.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        let mut tasks = BTreeMap::new();
        let mut interrupted = Vec::new();
        for entry in fs::read_dir(path)? {
            let file = entry?.path();
            if file.extension().is_some_and(|suffix| suffix == PART) {
                let _ = fs::remove_file(&file);
            }
            let Some(id) = file.file_name().and_then(|name| name.to_str()?.strip_suffix(SUFFIX))
            else {
                continue;
            };
            match read(&file) {
                Ok(mut task) if task.id == id => {
                    if task.state == TaskState::Running {
                        task.state = TaskState::StoppedByShutdown;
                        task.ended_us = Some(now.0);
                        push(&mut task, "the server ended while it was at work");
                        interrupted.push(task.id.clone());
                    }
                    tasks.insert(id.to_owned(), task);
                }
                Ok(_) => tracing::warn!(file = %file.display(), "the task has another name"),
                Err(error) => tracing::warn!(file = %file.display(), %error, "is no task"),
            }
        }
        let board =
            Self { path: path.to_owned(), tasks: Mutex::new(tasks), to_end: Mutex::default() };
        for id in interrupted {
            // On a full disk it is told again at the next start.
            if let Some(task) = board.lock().get(&id) {
                board.write_or_tell(task);
            }
        }
        Ok(board)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All, by name.
    pub(super) fn all(&self) -> Vec<Task> {
        self.lock().values().cloned().collect()
    }

    /// All, by name, without what they have told: that is long.
    pub(super) fn outlines(&self) -> Vec<Task> {
        let outline = |task: &Task| Task {
            id: task.id.clone(),
            work: task.work.clone(),
            of: task.of.clone(),
            by: task.by.clone(),
            after: task.after.clone(),
            progress: String::new(),
            log: Vec::new(),
            ..*task
        };
        self.lock().values().map(outline).collect()
    }

    /// Takes one that was asked for.
    pub(super) fn add(&self, mut task: Task) -> Result<(), String> {
        let mut tasks = self.lock();
        if let Some(missing) = task.after.iter().find(|before| !tasks.contains_key(*before)) {
            return Err(format!("there is no task '{missing}' to wait for"));
        }
        if tasks.keys().any(|id| id.eq_ignore_ascii_case(&task.id)) {
            return Err(format!("there is a task '{}' already", task.id));
        }
        // What is scheduled has a limit of its own, and is kept out by nobody.
        let is_waiting = |task: &&Task| task.of.is_none() && task.state.is_waiting();
        let waiting = tasks.values().filter(is_waiting).count();
        if task.of.is_none() && waiting >= WAITING_MAX {
            return Err(format!("{WAITING_MAX} tasks wait already: cancel some"));
        }
        self.make_room(&mut tasks);
        task.state = if !task.after.is_empty() {
            TaskState::WaitingOnDependency
        } else if task.start_us.is_some() {
            TaskState::WaitingOnStartTime
        } else {
            TaskState::Unscheduled
        };
        self.write(&task).map_err(|error| format!("the task cannot be kept: {error}"))?;
        tasks.insert(task.id.clone(), task);
        Ok(())
    }

    /// Forgets the oldest that have ended, where there are too many.
    fn make_room(&self, tasks: &mut BTreeMap<String, Task>) {
        while tasks.len() >= TASKS_MAX {
            let ended = tasks.values().filter(|task| task.state.is_end());
            let oldest = ended.min_by_key(|task| task.ended_us).map(|task| task.id.clone());
            let Some(oldest) = oldest else { return };
            if !self.remove(tasks, &oldest) {
                return;
            }
        }
    }

    /// Forgets one, on the disk first: else it would be there again after the next start.
    fn remove(&self, tasks: &mut BTreeMap<String, Task>, id: &str) -> bool {
        let removed = fs::remove_file(self.file(id))
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .and_then(|()| File::open(&self.path)?.sync_all());
        match removed {
            Ok(()) => drop(tasks.remove(id)),
            Err(ref error) => {
                tracing::warn!(task = id, %error, "a task cannot be removed from the disk");
            }
        }
        removed.is_ok()
    }

    /// Forgets those that ended before a moment.
    pub(super) fn forget_before(&self, moment: Timestamp) {
        let mut tasks = self.lock();
        let is_old = |task: &&Task| task.ended_us.is_some_and(|ended| ended < moment.0);
        let old: Vec<_> = tasks.values().filter(is_old).map(|task| task.id.clone()).collect();
        for id in old {
            self.remove(&mut tasks, &id);
        }
    }

    /// Forgets one that is not at work.
    pub(super) fn forget(&self, id: &str) -> TaskCancel {
        let mut tasks = self.lock();
        match tasks.get(id).map(|task| task.state) {
            None => TaskCancel::Missing,
            Some(TaskState::Running) => TaskCancel::WasOver,
            Some(_) if self.remove(&mut tasks, id) => TaskCancel::Done,
            Some(_) => TaskCancel::NotKept,
        }
    }

    /// The one of this name, in whatever capitals.
    pub(super) fn get(&self, id: &str) -> Option<Task> {
        let tasks = self.lock();
        let is_it = |task: &&Task| task.id.eq_ignore_ascii_case(id);
        tasks.get(id).or_else(|| tasks.values().find(is_it)).cloned()
    }

    /// Has one end, or never begin.
    pub(super) fn cancel(&self, id: &str, by: &str, now: Timestamp) -> TaskCancel {
        let mut tasks = self.lock();
        let Some(task) = tasks.get_mut(id) else { return TaskCancel::Missing };
        if task.state.is_end() {
            return TaskCancel::WasOver;
        }
        if task.state == TaskState::Running {
            self.to_end().insert(id.to_owned(), by.to_owned());
            return TaskCancel::Done;
        }
        let before = task.clone();
        task.state = TaskState::CanceledBeforeStarting;
        task.ended_us = Some(now.0);
        push(task, &format!("canceled by {by}"));
        match self.write(task) {
            Ok(()) => TaskCancel::Done,
            Err(error) => {
                tracing::error!(task = id, %error, "that a task is canceled cannot be kept");
                *task = before;
                TaskCancel::NotKept
            }
        }
    }

    fn to_end(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.to_end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who wants one to end that is at work, if somebody does.
    pub(super) fn is_to_end(&self, id: &str) -> Option<String> {
        self.to_end().get(id).cloned()
    }

    /// Has one begin that waits still, if that can be kept on the disk: else it would begin again
    /// after the next start.
    pub(super) fn begin(&self, id: &str, now: Timestamp) -> bool {
        let mut tasks = self.lock();
        let Some(task) = tasks.get_mut(id).filter(|task| task.state.is_waiting()) else {
            return false;
        };
        let before = task.clone();
        task.state = TaskState::Running;
        task.began_us = Some(now.0);
        let kept = self.write(task);
        if let Err(error) = &kept {
            tracing::error!(task = id, %error, "a task waits: that it begins cannot be kept");
            *task = before;
        }
        kept.is_ok()
    }

    /// Changes one, and keeps it on the disk.
    pub(super) fn change(&self, id: &str, change: impl FnOnce(&mut Task)) -> Option<Task> {
        let mut tasks = self.lock();
        let task = tasks.get_mut(id)?;
        change(task);
        self.write_or_tell(task);
        if task.state.is_end() {
            self.to_end().remove(id);
        }
        Some(task.clone())
    }

    /// A line that one at work tells.
    pub(super) fn tell(&self, id: &str, line: &str) {
        if let Some(task) = self.lock().get_mut(id) {
            push(task, line);
        }
    }

    /// How far one at work is.
    pub(super) fn is_at(&self, id: &str, progress: &str) {
        if let Some(task) = self.lock().get_mut(id) {
            progress.clone_into(&mut task.progress);
        }
    }

    fn write_or_tell(&self, task: &Task) {
        if let Err(error) = self.write(task) {
            tracing::error!(task = task.id, %error, "how far a task is cannot be kept");
        }
    }

    fn write(&self, task: &Task) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(task).map_err(io::Error::other)?;
        let path = self.file(&task.id);
        let part = path.with_extension(PART);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&part, &path)?;
        File::open(&self.path)?.sync_all()
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}{SUFFIX}"))
    }
}

fn read(file: &Path) -> io::Result<Task> {
    if fs::metadata(file)?.len() > FILE_MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {FILE_MAX_BYTES} bytes")));
    }
    serde_json::from_slice(&fs::read(file)?).map_err(io::Error::other)
}

/// Adds a line to the log of a task; the first lines stay, and the last.
pub(super) fn push(task: &mut Task, line: &str) {
    task.log.push(line.to_owned());
    let mut bytes: usize = task.log.iter().map(String::len).sum();
    while task.log.len() > LINES_MAX || (bytes > LOG_MAX_BYTES && task.log.len() > 1) {
        let place = LINES_FIRST.min(task.log.len() - 2);
        bytes -= task.log.remove(place).len();
    }
}

const SUFFIX: &str = ".json";
/// Of a file that is being written.
const PART: &str = "part";
/// The most tasks that are known: the oldest that have ended are forgotten.
const TASKS_MAX: usize = 1_000;
/// The most that wait.
const WAITING_MAX: usize = 200;
/// The most lines of a log.
const LINES_MAX: usize = 200;
/// The longest log, in bytes.
const LOG_MAX_BYTES: usize = 32 << 10;
/// So many of the first lines stay.
const LINES_FIRST: usize = 20;
/// The longest file.
const FILE_MAX_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str) -> Task {
        Task { id: id.to_owned(), work: "check".to_owned(), ..Task::default() }
    }

    fn open(path: &Path) -> TaskBoard {
        TaskBoard::open(path, Timestamp(7)).unwrap()
    }

    #[test]
    fn what_was_asked_for_outlives_the_server_and_what_was_at_work_is_told() {
        let place = tempfile::tempdir().unwrap();
        let board = open(place.path());
        board.add(task("a")).unwrap();
        board.add(Task { start_us: Some(9), ..task("b") }).unwrap();
        board.change("a", |task| task.state = TaskState::Running).unwrap();
        board.tell("a", "half way");
        drop(board);
        fs::write(place.path().join("c.json"), "{").unwrap();
        fs::write(place.path().join("d.json.part"), "").unwrap();
        for _ in 0..2 {
            let all = open(place.path()).all();
            assert_eq!(all.iter().map(|task| &*task.id).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(all[0].state, TaskState::StoppedByShutdown);
            assert_eq!(all[0].ended_us, Some(7));
            assert_eq!(all[1].state, TaskState::WaitingOnStartTime);
        }
    }

    #[test]
    fn there_is_no_second_of_a_name_and_none_waits_for_nothing() {
        let place = tempfile::tempdir().unwrap();
        let board = open(place.path());
        board.add(task("a")).unwrap();
        assert!(board.add(task("A")).is_err());
        let waits = Task { after: vec!["x".to_owned()], ..task("b") };
        assert_eq!(board.add(waits.clone()).unwrap_err(), "there is no task 'x' to wait for");
        board.add(Task { after: vec!["a".to_owned()], ..waits }).unwrap();
        assert_eq!(board.all()[1].state, TaskState::WaitingOnDependency);
    }

    #[test]
    fn one_that_waits_never_begins_and_one_at_work_is_to_end() {
        let place = tempfile::tempdir().unwrap();
        let board = open(place.path());
        board.add(task("a")).unwrap();
        board.add(task("b")).unwrap();
        board.change("b", |task| task.state = TaskState::Running).unwrap();
        assert_eq!(board.cancel("a", "cn=x", Timestamp(8)), TaskCancel::Done);
        assert_eq!(board.cancel("a", "cn=x", Timestamp(8)), TaskCancel::WasOver);
        assert_eq!(board.cancel("b", "cn=x", Timestamp(8)), TaskCancel::Done);
        assert_eq!(board.cancel("c", "cn=x", Timestamp(8)), TaskCancel::Missing);
        assert_eq!(board.is_to_end("b").as_deref(), Some("cn=x"));
        assert_eq!(board.forget("b"), TaskCancel::WasOver);
        board.change("b", |task| task.state = TaskState::StoppedByAdministrator).unwrap();
        assert_eq!(board.is_to_end("b"), None);
        assert_eq!(board.forget("b"), TaskCancel::Done);
        assert_eq!(open(place.path()).all().len(), 1);
    }

    #[test]
    fn how_many_there_are_has_a_limit_and_so_has_what_they_tell() {
        let place = tempfile::tempdir().unwrap();
        let board = open(place.path());
        for number in 0..WAITING_MAX {
            board.add(task(&format!("t{number}"))).unwrap();
        }
        assert!(board.add(task("more")).unwrap_err().contains("wait already"));
        for number in 0..LINES_MAX + 50 {
            board.tell("t0", &number.to_string());
        }
        let log = &board.all()[0].log;
        assert_eq!(log.len(), LINES_MAX);
        assert_eq!((&*log[0], &*log[LINES_MAX - 1]), ("0", "249"));
        board.change("t0", |task| {
            task.state = TaskState::StoppedByError;
            task.ended_us = Some(5);
        });
        board.forget_before(Timestamp(5));
        assert_eq!(board.all().len(), WAITING_MAX);
        board.forget_before(Timestamp(6));
        assert_eq!(board.all().len(), WAITING_MAX - 1);
    }
}
