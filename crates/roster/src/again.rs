//! Beginning once more: the program is started anew in its process, which keeps its number.
//!
//! Invariant: it is the same program, also when another one has come into its place on the disk.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// This program, wherever it lies, or if it lies nowhere any more.
const PROGRAM: &str = "/proc/self/exe";

/// This program once more, with the arguments that it has.
pub(crate) fn command() -> Command {
    command_with(env::args_os().skip(1))
}

/// This program once more, with another value for an option that may be given.
pub(crate) fn command_setting(option: &str, value: &str) -> Command {
    let mut arguments = without(env::args_os().skip(1), option);
    arguments.extend([option, value].map(OsString::from));
    command_with(arguments)
}

/// This program once more, without an option that may be given and has a value.
pub(crate) fn command_without(option: &str) -> Command {
    command_with(without(env::args_os().skip(1), option))
}

/// This program with other arguments.
pub(crate) fn command_with(arguments: impl IntoIterator<Item = OsString>) -> Command {
    let mut command = Command::new(program().unwrap_or_else(|| PROGRAM.into()));
    if let Some(name) = env::args_os().next() {
        command.arg0(name);
    }
    command.args(arguments);
    command
}

/// Where this program lies, if it is still there: a process is called as it was started.
fn program() -> Option<PathBuf> {
    let path = env::current_exe().ok()?;
    let [found, own] = [path.as_path(), Path::new(PROGRAM)].map(|path| fs::metadata(path).ok());
    let (found, own) = found.zip(own)?;
    ((found.dev(), found.ino()) == (own.dev(), own.ino())).then_some(path)
}

/// The arguments without an option and the value behind it.
fn without(arguments: impl Iterator<Item = OsString>, option: &str) -> Vec<OsString> {
    let (mut left, mut arguments) = (Vec::new(), arguments);
    while let Some(argument) = arguments.next() {
        if argument == OsStr::new(option) {
            arguments.next();
        } else {
            left.push(argument);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_taken_out_with_its_value() {
        for (given, left) in [
            ("serve --data d", "serve --data d"),
            ("serve --as 1 --data d", "serve --data d"),
            ("serve --as 1 --as 2", "serve"),
            ("serve --as", "serve"),
        ] {
            let given = given.split(' ').map(OsString::from);
            assert_eq!(without(given, "--as"), left.split(' ').collect::<Vec<_>>());
        }
    }
}
