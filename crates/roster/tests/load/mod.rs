//! Loads at work: agents, and runs that are watched.
#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Run, command};

/// An agent of its own, on a free port.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) address: String,
}

impl Agent {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let all = [&["bench", "agent", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut child = command(&all).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that is at work: its lines of a second are read from its errors.
pub(crate) struct Watched {
    pub(crate) child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

impl Watched {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = command(&[arguments, &["--live", "--json"]].concat()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, errors }
    }

    /// Waits until so many seconds were measured in which something was answered.
    pub(crate) fn seconds(&mut self, count: usize) {
        let mut line = String::new();
        let mut seconds = 0;
        while seconds < count {
            line.clear();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "it ended");
            // The number of the second, and the operations in it.
            let mut words = line.split_ascii_whitespace().map(|word| word.parse::<u64>());
            let is_second = matches!((words.next(), words.next()), (Some(Ok(_)), Some(Ok(1..))));
            seconds += usize::from(is_second);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn end(mut self) -> Run {
        let (mut output, mut errors) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.errors.read_to_string(&mut errors).unwrap();
        Run { code: self.child.wait().unwrap().code().unwrap(), output, errors }
    }
}
