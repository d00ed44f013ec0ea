//! Tasks at work: each is a process of its own, with the command that does the same by hand; a
//! thread begins them when their time has come, and hears of their ends.
//!
//! Start at `tasks/keeper.rs`; `board.rs` knows all tasks and keeps them on the disk, `runner.rs`
//! has one process, `notice.rs` tells who wants to hear.
//!
//! Invariant: nothing of the server waits for a task, and a task that fails, hangs or takes memory
//! is another process.
//! Invariant: a task is on the disk before whoever asked for it is answered.

mod board;
mod keeper;
mod notice;
mod runner;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use directory::Directory;
use directory::tasks::{TaskTeller, TaskWork};
use history::log::Role;

use self::board::TaskBoard;
use self::keeper::Keeper;
use crate::error::ServerError;
use crate::settings::{Settings, TaskSettings};

/// Makes the command that does a task; or says why it cannot be done, in a sentence.
pub type TaskProgram = Box<dyn Fn(&TaskOrder<'_>) -> Result<Command, String> + Send>;

/// A task that is to begin.
#[derive(Debug)]
pub struct TaskOrder<'a> {
    /// Its name.
    pub id: &'a str,
    /// What it does.
    pub work: &'a TaskWork,
    /// The data directory.
    pub data: &'a Path,
    /// The directory that its files are below.
    pub files: &'a Path,
    /// Where the server listens for processes of its own user; none: nowhere.
    pub ldapi: Option<&'a Path>,
}

/// The tasks of a server.
pub(crate) struct Tasks {
    stops: Arc<AtomicBool>,
    wake: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

/// Where tasks are.
#[derive(Clone, Debug)]
pub(crate) struct TaskPlaces {
    data: PathBuf,
    files: PathBuf,
    ldapi: Option<PathBuf>,
}

impl Tasks {
    /// Takes tasks from now on, and goes on with those of before.
    ///
    /// # Errors
    /// When the directory of the tasks cannot be used, or there cannot be one more thread.
    pub(crate) fn start(
        directory: &Arc<Directory>,
        settings: &Settings,
        ldapi: Option<PathBuf>,
        rules: Arc<directory::Live<TaskSettings>>,
        program: TaskProgram,
    ) -> Result<Self, ServerError> {
        let data = settings.server.data.clone();
        let places = TaskPlaces { files: data.join(&settings.tasks.directory), ldapi, data };
        let now = directory.clock().now();
        let board = TaskBoard::open(&places.data.join(BOARD), now).map_err(ServerError::Tasks)?;
        let board = Arc::new(board);
        let (wake, woken) = bounded(1);
        let (stops, leads) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (told, waker) = (Arc::clone(&leads), wake.clone());
        directory.log().watch(Box::new(move |role| {
            told.store(matches!(role, Role::Deciding(_)), Ordering::Release);
            let _ = waker.try_send(());
        }));
        show(directory, &board, &wake);
        let keeper = Keeper::new(keeper::Parts {
            directory: Arc::clone(directory),
            board,
            places,
            rules,
            program,
            member: settings.cluster.id,
            leads,
            stops: Arc::clone(&stops),
            wake: wake.clone(),
            woken,
        });
        let thread = thread::Builder::new()
            .name("tasks".to_owned())
            .spawn(move || keeper.work())
            .map_err(ServerError::Thread)?;
        Ok(Self { stops, wake, thread: Some(thread) })
    }

    /// Has those that are at work end.
    pub(crate) fn ask_to_stop(&self) {
        self.stops.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
    }

    /// Waits until they have ended, and no longer than some seconds.
    pub(crate) fn stop(&mut self) {
        self.ask_to_stop();
        let Some(thread) = self.thread.take() else { return };
        let mut waited = Duration::ZERO;
        while !thread.is_finished() && waited < STOP_MAX {
            thread::park_timeout(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        match thread.is_finished() {
            true => drop(thread.join()),
            false => tracing::error!("the thread of the tasks does not end, and is left"),
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Has the directory show the tasks, and take and end them.
fn show(directory: &Directory, board: &Arc<TaskBoard>, wake: &Sender<()>) {
    let [list, get, add, cancel, forget] = [(); 5].map(|()| Arc::clone(board));
    let clock = Arc::clone(directory.clock());
    let [added, ended] = [(); 2].map(|()| wake.clone());
    directory.show_tasks(TaskTeller {
        list: Box::new(move || list.all()),
        get: Box::new(move |id| get.get(id)),
        add: Box::new(move |task| {
            add.add(task)?;
            let _ = added.try_send(());
            Ok(())
        }),
        cancel: Box::new(move |id, by| {
            let done = cancel.cancel(id, by, clock.now());
            let _ = ended.try_send(());
            done
        }),
        forget: Box::new(move |id| forget.forget(id)),
    });
}

/// Where tasks are kept, in the data directory.
const BOARD: &str = "tasks";
/// How long they may take to end when the server does.
const STOP_MAX: Duration = Duration::from_secs(8);
const LOOK_EVERY: Duration = Duration::from_millis(10);
