//! Running the built program.
#![allow(dead_code, reason = "each test program uses a part")]

use std::process::{Command, Stdio};

/// What came of one call.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// The program with these arguments, not started yet.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roster"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program to its end.
pub(crate) fn roster(arguments: &[&str]) -> Run {
    let output = command(arguments).output().expect("the program is built");
    Run {
        code: output.status.code().expect("no signal ended it"),
        output: String::from_utf8(output.stdout).expect("output is UTF-8"),
        errors: String::from_utf8(output.stderr).expect("errors are UTF-8"),
    }
}

/// The call ends with this exit code, and its errors contain `want`.
#[track_caller]
pub(crate) fn check(arguments: &[&str], code: i32, want: &str) {
    let run = roster(arguments);
    assert_eq!(run.code, code, "{arguments:?}: {run:?}");
    assert!(run.errors.contains(want), "{arguments:?}:\n{}\nlacks:\n{want}", run.errors);
}

/// The path of a file in `examples/`.
pub(crate) fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Checks how a run of the program ended, and that it has printed all of these.
#[track_caller]
#[allow(dead_code, reason = "not every test checks so")]
pub(crate) fn check_all(run: &Run, code: i32, want: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    let all = format!("{}{}", run.output, run.errors);
    for line in want {
        assert!(all.contains(line), "{all}\nlacks\n{line}");
    }
}

/// Whether `program` is here. Where clients are required (`cargo xtask test` installs them) a
/// missing one fails the test; a plain `cargo test` on a machine without them skips it.
#[allow(clippy::print_stderr, reason = "tells a person which tests are not run")]
pub(crate) fn have(program: &str, arguments: &[&str]) -> bool {
    let found = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let required = std::env::var("ROSTER_TEST_CLIENTS").is_ok_and(|value| value == "required");
    assert!(found || !required, "{program} is missing: run cargo xtask test, which installs it");
    if !found {
        eprintln!("skipped: {program} is not installed; cargo xtask test installs it");
    }
    found
}
