//! The process of one task: what it tells goes to the board, and its end to whoever waits.
//!
//! Invariant: what a process tells is cut to lines of a limited length before it is kept.
//! Invariant: a process that is to end and does not is killed.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use directory::tasks::TaskState;
use rustix::process::{Pid, Signal, kill_process};

use super::board::TaskBoard;

/// How a process ended.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) state: TaskState,
    pub(super) exit_code: Option<i32>,
    /// Why, where the process itself does not say.
    pub(super) why: Option<String>,
}

/// One that is at work; on a thread of its own.
pub(super) struct Runner {
    pub(super) id: String,
    pub(super) board: Arc<TaskBoard>,
    /// The server ends.
    pub(super) stops: Arc<AtomicBool>,
}

impl Runner {
    /// Has the process begin, and returns when it has ended.
    pub(super) fn run(&self, mut command: Command) -> RunEnd {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let why = Some(format!("it cannot begin: {error}"));
                return RunEnd { state: TaskState::StoppedByError, exit_code: None, why };
            }
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        thread::scope(|scope| {
            scope.spawn(|| self.hear(out));
            scope.spawn(|| self.hear(err));
            self.wait(&mut child)
        })
    }

    fn wait(&self, child: &mut Child) -> RunEnd {
        let (mut asked, mut waited) = (None, Duration::ZERO);
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            if asked.is_none() {
                asked = self.is_to_end();
                if asked.is_some() {
                    self.signal(child, Signal::INT);
                }
            } else {
                waited += LOOK_EVERY;
                if waited >= END_MAX {
                    let _ = child.kill();
                }
            }
            thread::park_timeout(LOOK_EVERY);
        };
        match (status, asked) {
            (Ok(status), None) => ended(status),
            (Ok(status), Some(RunEnd { state, why, .. })) => {
                RunEnd { state, why, exit_code: status.code() }
            }
            (Err(error), _) => RunEnd {
                state: TaskState::StoppedByError,
                exit_code: None,
                why: Some(format!("nothing is heard of its process: {error}")),
            },
        }
    }

    /// Whether somebody wants it to end, and what it is then.
    fn is_to_end(&self) -> Option<RunEnd> {
        let (state, why) = match self.board.is_to_end(&self.id) {
            Some(by) => (TaskState::StoppedByAdministrator, format!("ended by {by}")),
            None if self.stops.load(Ordering::Acquire) => {
                (TaskState::StoppedByShutdown, "the server ends".to_owned())
            }
            None => return None,
        };
        Some(RunEnd { state, exit_code: None, why: Some(why) })
    }

    fn signal(&self, child: &Child, signal: Signal) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::warn!(task = self.id, %error, "a task cannot be told to end");
        }
    }

    /// Reads what a process tells, until it has ended.
    fn hear(&self, stream: Option<impl Read>) {
        let Some(mut stream) = stream else { return };
        let mut lines = Lines::default();
        let mut octets = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut octets) {
            lines.take(octets.get(..count).unwrap_or_default(), |line| self.line(line));
        }
        lines.end(|line| self.line(line));
    }

    fn line(&self, line: &str) {
        match line.strip_prefix(PROGRESS) {
            Some(progress) => self.board.is_at(&self.id, progress),
            None => self.board.tell(&self.id, line),
        }
    }
}

fn ended(status: ExitStatus) -> RunEnd {
    let state = match status.success() {
        true => TaskState::CompletedSuccessfully,
        false => TaskState::StoppedByError,
    };
    let why = match status.code() {
        Some(_) => None,
        // Of a signal.
        None => Some(format!("its process ended: {status}")),
    };
    RunEnd { state, exit_code: status.code(), why }
}

/// Octets on their way to lines.
#[derive(Default)]
struct Lines {
    line: Vec<u8>,
    /// The rest of this line is left out.
    is_full: bool,
}

impl Lines {
    fn take(&mut self, octets: &[u8], mut each: impl FnMut(&str)) {
        for &octet in octets {
            if matches!(octet, b'\n' | b'\r') {
                self.end(&mut each);
            } else if self.line.len() < LINE_MAX_BYTES {
                self.line.push(octet);
            } else {
                self.is_full = true;
            }
        }
    }

    fn end(&mut self, mut each: impl FnMut(&str)) {
        let mut text: String = String::from_utf8_lossy(&self.line)
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        if std::mem::take(&mut self.is_full) {
            text.push('…');
        }
        self.line.clear();
        if !text.trim().is_empty() {
            each(text.trim_end());
        }
    }
}

/// Before what tells how far a process is, and is no line of its log.
const PROGRESS: &str = "progress: ";
/// The longest line, in bytes; of a longer one the rest is left out.
const LINE_MAX_BYTES: usize = 1_000;
/// How often it is looked whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process may take to end when it is asked to.
const END_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use directory::tasks::Task;
    use environment::Timestamp;

    use super::*;

    fn run(script: &str, before: impl FnOnce(&Runner)) -> (RunEnd, Task) {
        let place = tempfile::tempdir().unwrap();
        let board = Arc::new(TaskBoard::open(place.path(), Timestamp(0)).unwrap());
        let id = "a".to_owned();
        board.add(Task { id: id.clone(), work: "check".to_owned(), ..Task::default() }).unwrap();
        board.change(&id, |task| task.state = TaskState::Running);
        let runner = Runner { id, board: Arc::clone(&board), stops: Arc::default() };
        before(&runner);
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        (runner.run(command), board.all().remove(0))
    }

    #[test]
    fn what_a_process_tells_is_kept_in_lines() {
        let script = "echo one; printf 'progress: 5 %%\\n' >&2; printf '\\033[1mtwo'; exit 3";
        let (end, task) = run(script, |_| {});
        assert_eq!((end.state, end.exit_code), (TaskState::StoppedByError, Some(3)));
        assert_eq!(task.progress, "5 %");
        assert_eq!(task.log, ["one", " [1mtwo"]);
    }

    #[test]
    fn a_flood_is_cut() {
        let script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; yes | head -n 9999";
        let (end, task) = run(script, |_| {});
        assert_eq!(end.state, TaskState::CompletedSuccessfully);
        assert!(task.log.len() <= 200, "{}", task.log.len());
        assert!(task.log.iter().all(|line| line.len() <= LINE_MAX_BYTES + 3));
    }

    #[test]
    fn one_that_is_to_end_does_even_if_it_does_not_want_to() {
        let (end, _) = run("exec sleep 60", |runner| {
            assert_eq!(
                runner.board.cancel("a", "cn=x", Timestamp(1)),
                directory::tasks::TaskCancel::Done
            );
        });
        assert_eq!(end.state, TaskState::StoppedByAdministrator);
        let (end, _) = run("trap '' INT; exec sleep 60", |runner| {
            runner.stops.store(true, Ordering::Release);
        });
        assert_eq!(end.state, TaskState::StoppedByShutdown);
    }

    #[test]
    fn what_cannot_begin_says_why() {
        let place = tempfile::tempdir().unwrap();
        let board = Arc::new(TaskBoard::open(place.path(), Timestamp(0)).unwrap());
        let runner = Runner { id: "a".to_owned(), board, stops: Arc::default() };
        let end = runner.run(Command::new(place.path().join("nothing")));
        assert_eq!(end.state, TaskState::StoppedByError);
        assert!(end.why.unwrap().contains("cannot begin"));
    }
}
