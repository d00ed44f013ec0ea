//! Begins tasks when their time has come, and what waits for others when those have ended.
//!
//! Invariant: of a scheduled task one is at work or waits at a time.
//! Invariant: what came due while nobody looked (the server was down, another member led) is left
//! out: the next time is the next time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use directory::tasks::{ScheduledTask, Task, TaskMember, TaskState, TaskTime, TaskWork};
use directory::{Directory, Live};
use environment::Timestamp;

use super::board::{TaskBoard, push};
use super::notice::Notices;
use super::runner::{RunEnd, Runner};
use super::{TaskOrder, TaskPlaces, TaskProgram};
use crate::settings::TaskSettings;

/// What it works with.
pub(super) struct Parts {
    pub(super) directory: Arc<Directory>,
    pub(super) board: Arc<TaskBoard>,
    pub(super) places: TaskPlaces,
    pub(super) rules: Arc<Live<TaskSettings>>,
    pub(super) program: TaskProgram,
    /// The number of this member of a cluster; 0 for a server that is alone.
    pub(super) member: u64,
    /// Whether this server decides.
    pub(super) leads: Arc<AtomicBool>,
    pub(super) stops: Arc<AtomicBool>,
    pub(super) wake: Sender<()>,
    pub(super) woken: Receiver<()>,
}

/// The thread that begins them.
pub(super) struct Keeper {
    parts: Parts,
    running: BTreeMap<String, JoinHandle<RunEnd>>,
    notices: Notices,
    /// Up to when it was looked what is due.
    looked: Timestamp,
    /// Whether this server decided then.
    led: bool,
}

impl Keeper {
    pub(super) fn new(parts: Parts) -> Self {
        let looked = parts.directory.clock().now();
        let notices = Notices::new(Arc::clone(&parts.rules), Arc::clone(&parts.board));
        Self { parts, running: BTreeMap::new(), notices, looked, led: false }
    }

    /// Works until the server stops.
    pub(super) fn work(mut self) {
        while !self.parts.stops.load(Ordering::Acquire) {
            self.look();
            let _ = self.parts.woken.recv_timeout(LOOK_EVERY);
        }
        while !self.running.is_empty() {
            self.take_ended(&[]);
            thread::park_timeout(END_LOOK_EVERY);
        }
    }

    fn look(&mut self) {
        let now = self.parts.directory.clock().now();
        let scheduled = self.parts.directory.scheduled_tasks().unwrap_or_else(|error| {
            tracing::error!(error, "the scheduled tasks cannot be read");
            Vec::new()
        });
        self.take_ended(&scheduled);
        let leads = self.parts.leads.load(Ordering::Acquire);
        // What came due before this server led was another one's.
        let may_lead = leads && self.led;
        for task in &scheduled {
            if let TaskTime::At(times) = &task.when
                && self.is_here(task.on, may_lead)
                && times.next_after(self.looked).is_some_and(|next| next <= now)
            {
                self.ask(task, now);
            }
        }
        self.led = leads;
        // A clock that is put back a little has nothing done twice.
        let is_far_back = now.0.saturating_add(micros(STEP_MAX)) < self.looked.0;
        self.looked = if is_far_back { now } else { self.looked.max(now) };
        self.begin_waiting(now, &scheduled);
        let keep = self.parts.rules.get().keep;
        self.parts.board.forget_before(Timestamp(now.0.saturating_sub(micros(keep))));
    }

    fn is_here(&self, on: TaskMember, leads: bool) -> bool {
        match on {
            TaskMember::All => true,
            TaskMember::Leader => leads,
            TaskMember::Number(number) => {
                number == self.parts.member || (number == 1 && self.parts.member == 0)
            }
        }
    }

    /// Asks for a scheduled task to be done once.
    fn ask(&self, scheduled: &ScheduledTask, now: Timestamp) {
        let name = &scheduled.name;
        let all = self.parts.board.outlines();
        let is_under_way =
            |task: &Task| task.of.as_deref() == Some(name.as_str()) && !task.state.is_end();
        if all.iter().any(is_under_way) {
            tracing::warn!(task = name, "a scheduled task is left out: that of before goes on");
            return;
        }
        let plain = format!("{name}-{}", now.compact());
        let mut names = (2..).map(|number| format!("{plain}-{number}"));
        let is_taken = |id: &String| all.iter().any(|task| task.id.eq_ignore_ascii_case(id));
        let id = match is_taken(&plain) {
            true => names.find(|id| !is_taken(id)).unwrap_or_default(),
            false => plain.clone(),
        };
        let task = Task {
            id,
            work: without_member(&scheduled.work),
            of: Some(name.clone()),
            asked_us: now.0,
            ..Task::default()
        };
        if let Err(error) = self.parts.board.add(task) {
            tracing::error!(task = name, error, "a scheduled task cannot begin");
        }
    }

    /// Begins what can, the oldest first.
    fn begin_waiting(&mut self, now: Timestamp, scheduled: &[ScheduledTask]) {
        let all = self.parts.board.outlines();
        let mut waiting: Vec<&Task> = all.iter().filter(|task| task.state.is_waiting()).collect();
        waiting.sort_by_key(|task| (task.start_us.unwrap_or(task.asked_us), task.asked_us));
        for task in waiting {
            if task.start_us.is_some_and(|start| start > now.0) {
                continue;
            }
            // One that is forgotten has done nothing that could be relied on.
            let state = |id: &String| {
                let found = all.iter().find(|one| one.id == *id);
                found.map_or(TaskState::CanceledBeforeStarting, |one| one.state)
            };
            if task.after.iter().any(|before| !state(before).is_end()) {
                self.has_state(task, TaskState::WaitingOnDependency);
                continue;
            }
            let Ok(work) = TaskWork::parse(&task.work, &self.parts.directory.schema()) else {
                let why = "this release does not know what it does".to_owned();
                self.end(&task.id, &failed(why), scheduled);
                continue;
            };
            let has_failed = |before: &&String| state(before) != TaskState::CompletedSuccessfully;
            let goes_on = work.value("if-failed") == Some("process");
            if let Some(before) = task.after.iter().find(has_failed).filter(|_| !goes_on) {
                let why = format!("'{before}' has not done what it was to do");
                let state = TaskState::CanceledBeforeStarting;
                let end = RunEnd { state, exit_code: None, why: Some(why) };
                self.end(&task.id, &end, scheduled);
                continue;
            }
            if self.running.len() >= self.parts.rules.get().running_max {
                self.has_state(task, TaskState::Unscheduled);
                continue;
            }
            self.begin(&task.id, &work, now, scheduled);
        }
    }

    fn has_state(&self, task: &Task, state: TaskState) {
        if task.state != state {
            self.parts.board.change(&task.id, |task| {
                // Somebody may have canceled it meanwhile.
                if task.state.is_waiting() {
                    task.state = state;
                }
            });
        }
    }

    fn begin(&mut self, id: &str, work: &TaskWork, now: Timestamp, scheduled: &[ScheduledTask]) {
        let Parts { places, program, board, stops, .. } = &self.parts;
        let order = TaskOrder {
            id,
            work,
            data: &places.data,
            files: &places.files,
            ldapi: places.ldapi.as_deref(),
        };
        let made = make_directory(places)
            .map_err(|error| format!("{}: {error}", places.files.display()))
            .and_then(|()| program(&order));
        let command = match made {
            Ok(command) => command,
            Err(why) => return self.end(id, &failed(why), scheduled),
        };
        if !board.begin(id, now) {
            return;
        }
        tracing::info!(task = id, work = work.text(), "a task begins");
        let runner =
            Runner { id: id.to_owned(), board: Arc::clone(board), stops: Arc::clone(stops) };
        let wake = self.parts.wake.clone();
        let spawned = thread::Builder::new().name("task".to_owned()).spawn(move || {
            let end = runner.run(command);
            let _ = wake.try_send(());
            end
        });
        match spawned {
            Ok(thread) => drop(self.running.insert(id.to_owned(), thread)),
            Err(error) => {
                self.end(id, &failed(format!("it has no thread: {error}")), scheduled);
            }
        }
    }

    /// Hears of those that have ended; what is done after them begins.
    fn take_ended(&mut self, scheduled: &[ScheduledTask]) {
        let ended = self.running.iter().filter(|(_, thread)| thread.is_finished());
        let ended: Vec<String> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended {
            let Some(thread) = self.running.remove(&id) else { continue };
            let end = thread.join().unwrap_or_else(|_| failed("its thread panicked".to_owned()));
            self.end(&id, &end, scheduled);
        }
    }

    fn end(&self, id: &str, end: &RunEnd, scheduled: &[ScheduledTask]) {
        let now = self.parts.directory.clock().now();
        let mut is_over = false;
        let task = self.parts.board.change(id, |task| {
            // Somebody may have canceled it meanwhile.
            is_over = task.state.is_end();
            if is_over {
                return;
            }
            if let Some(why) = &end.why {
                push(task, why);
            }
            (task.state, task.exit_code, task.ended_us) = (end.state, end.exit_code, Some(now.0));
        });
        let Some(task) = task.filter(|_| !is_over) else { return };
        let last = task.log.last().map_or("", String::as_str);
        match task.state {
            TaskState::CompletedSuccessfully => tracing::info!(task = id, "a task is done"),
            state => tracing::warn!(task = id, state = state.name(), last, "a task has ended"),
        }
        self.notices.tell(&task, &self.parts.directory.schema());
        // When the server ends, nothing begins.
        if task.state == TaskState::StoppedByShutdown {
            return;
        }
        let is_after = |next: &&ScheduledTask| match (&next.when, &task.of) {
            (TaskTime::After(name), Some(of)) => name.eq_ignore_ascii_case(of),
            _ => false,
        };
        let leads = self.parts.leads.load(Ordering::Acquire);
        for next in scheduled.iter().filter(is_after).filter(|next| self.is_here(next.on, leads)) {
            let is_fine = task.state == TaskState::CompletedSuccessfully;
            if is_fine || next.work.value("if-failed") == Some("process") {
                self.ask(next, now);
            } else {
                tracing::warn!(task = next.name, after = id, "not begun: the one before failed");
            }
        }
    }
}

/// What one time of a scheduled task does: where was decided.
fn without_member(work: &TaskWork) -> String {
    work.without("on").text()
}

fn failed(why: String) -> RunEnd {
    RunEnd { state: TaskState::StoppedByError, exit_code: None, why: Some(why) }
}

fn make_directory(places: &TaskPlaces) -> std::io::Result<()> {
    match places.files.is_dir() {
        true => Ok(()),
        false => fs::DirBuilder::new().recursive(true).mode(0o700).create(&places.files),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// A clock that is put back more than this is believed at once.
const STEP_MAX: Duration = Duration::from_secs(3_600);
/// How often it is looked at least what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const END_LOOK_EVERY: Duration = Duration::from_millis(10);
