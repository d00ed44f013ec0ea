//! The programs that tests are built into, run a few at a time: many of their tests wait for
//! elections, disks and clients.
//!
//! Invariant: a program runs as cargo would run it, in the folder of its package; what it prints is
//! printed when it has ended, in one piece.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::Error;

/// Programs that run at a time.
const SIDE_BY_SIDE: usize = 4;
/// Those that run longest, first: nothing is to wait for them in the end.
const LONGEST: [&str; 13] = [
    "behaviour",
    "cluster",
    "server",
    "follow",
    "cluster_faults",
    "bench",
    "archive_faults",
    "diff",
    "sinks",
    "stream_faults",
    "disaster",
    "history",
    "crash",
];

/// A program of tests.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Program {
    /// How its test target is called.
    name: String,
    executable: PathBuf,
    /// The folder of its package.
    folder: PathBuf,
}

/// Reads what `cargo test --no-run --message-format=json` says.
pub(super) fn of_messages(text: &str) -> Vec<Program> {
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs: Vec<Program> = messages.filter_map(|one| of_message(&one)).collect();
    programs.sort_by_key(|one| {
        LONGEST.iter().position(|name| *name == one.name).unwrap_or(LONGEST.len())
    });
    programs
}

fn of_message(message: &Value) -> Option<Program> {
    let text = |place: &str| message.pointer(place).and_then(Value::as_str).map(str::to_owned);
    let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
    if text("/reason").as_deref() != Some("compiler-artifact") || !is_test {
        return None;
    }
    let manifest = PathBuf::from(text("/manifest_path")?);
    let (name, executable) = (text("/target/name")?, PathBuf::from(text("/executable")?));
    Some(Program { name, executable, folder: manifest.parent()?.to_owned() })
}

/// Runs all of them; `heard` is told what each has printed. The names of those that failed.
pub(super) fn run(
    programs: &[Program],
    heard: &(dyn Fn(&str) + Sync),
) -> Result<Vec<String>, Error> {
    let next = Mutex::new(programs.iter());
    let failed = Mutex::new(Vec::new());
    let work = || -> Result<(), Error> {
        loop {
            let taken = lock(&next).next();
            let Some(program) = taken else { return Ok(()) };
            if !program.run(heard)? {
                lock(&failed).push(program.name.clone());
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::Wrong("a thread panicked".to_owned())))
        })
    })?;
    Ok(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Program {
    /// Whether its tests passed.
    #[allow(clippy::disallowed_methods, reason = "tells a person how long tests took")]
    fn run(&self, heard: &(dyn Fn(&str) + Sync)) -> Result<bool, Error> {
        let start = Instant::now();
        let output = command(&self.executable, &self.folder).output();
        let output = output
            .map_err(|error| Error::Wrong(format!("{}: {error}", self.executable.display())))?;
        let (out, errors) = (&output.stdout, &output.stderr);
        let [out, errors] = [out, errors].map(|octets| String::from_utf8_lossy(octets));
        let seconds = start.elapsed().as_secs();
        heard(&format!("\nxtask: {}, {seconds} s\n{out}{errors}", self.name));
        Ok(output.status.success())
    }
}

fn command(executable: &Path, folder: &Path) -> Command {
    let mut command = Command::new(executable);
    command.arg("--quiet").current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    // Tests with real clients must not skip themselves where the clients were just installed.
    command.env("ROSTER_TEST_CLIENTS", "required").stdin(Stdio::null());
    command
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_the_longest_first() {
        let line = |name: &str, executable: &str, is_test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/a/{name}/Cargo.toml\",\
                 \"target\":{{\"name\":\"{name}\"}},\"profile\":{{\"test\":{is_test}}},\
                 \"executable\":{executable}}}"
            )
        };
        let text = [
            line("ldap", "\"/t/ldap\"", true),
            line("roster", "\"/t/roster\"", false),
            line("aci", "null", true),
            "no JSON".to_owned(),
            line("behaviour", "\"/t/behaviour\"", true),
            "{\"reason\":\"build-finished\"}".to_owned(),
        ];
        let program = |name: &str| Program {
            name: name.to_owned(),
            executable: format!("/t/{name}").into(),
            folder: format!("/a/{name}").into(),
        };
        assert_eq!(of_messages(&text.join("\n")), [program("behaviour"), program("ldap")]);
    }

    #[test]
    fn what_fails_is_told_by_name() {
        let program = |name: &str, executable: &str| Program {
            name: name.to_owned(),
            executable: executable.into(),
            folder: "/".into(),
        };
        let programs = [program("fine", "/bin/true"), program("wrong", "/bin/false")];
        let told = Mutex::new(0);
        let failed = run(&programs, &|_| *lock(&told) += 1).unwrap();
        assert_eq!((failed, *lock(&told)), (vec!["wrong".to_owned()], 2));
        assert!(run(&[program("none", "/nowhere")], &|_| {}).is_err());
    }
}
