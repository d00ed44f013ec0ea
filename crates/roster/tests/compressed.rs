//! A compressed directory through the built program: it holds what a plain one does, in less room,
//! and whatever works on the one works on the other.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Run, example, roster};

const PEOPLE: &str = "600";

/// Runs the program, which must succeed; its output.
#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let Run { code, output, errors } = roster(arguments);
    assert_eq!(code, 0, "{arguments:?}: {output}{errors}");
    output
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// A data directory with the entries of a file.
fn load(folder: &Path, name: &str, file: &str, more: &[&str]) -> String {
    let data = path(folder, name);
    succeed(&["init", "--public", "--data", &data, "--suffix", "dc=example,dc=com"]);
    let mut arguments = vec!["import", "--data", &data, file];
    arguments.extend(more);
    succeed(&arguments);
    data
}

#[test]
fn a_compressed_directory_holds_the_same_in_less_room() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let people = path(folder, "people.ldif");
    let template = example("people.template");
    succeed(&["generate", &template, "--entries", PEOPLE, "-o", &people]);
    let plain = load(folder, "plain", &people, &[]);
    let exported = path(folder, "exported.ldif");
    succeed(&["export", "--data", &plain, "-o", &exported]);
    let compressed = load(folder, "compressed", &exported, &["--compress"]);
    assert!(succeed(&["check", "--data", &compressed]).contains("no fault"));
    let again = succeed(&["export", "--data", &compressed]);
    assert_eq!(std::fs::read_to_string(&exported).unwrap(), again);
    let bytes = |data: &str| std::fs::metadata(format!("{data}/data.mdb")).unwrap().len();
    let (plain, small) = (bytes(&plain), bytes(&compressed));
    assert!(small * 4 < plain * 3, "{small} of {plain}");
    // A backup is a copy of it.
    let (backup, restored) = (path(folder, "backup"), path(folder, "restored"));
    succeed(&["backup", "--data", &compressed, "--to", &backup]);
    succeed(&["restore", "--from", &backup, "--data", &restored]);
    assert_eq!(succeed(&["export", "--data", &restored]), again);
}

/// Ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The line in which a server with these arguments says that it has read its file.
fn preloaded(data: &str, arguments: &[&str]) -> Option<String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roster"))
        .args(["serve", "--data", data, "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let server = Server(child);
    let line = lines.find_map(|line| line.ok().filter(|line| line.contains("preload: done")));
    drop(server);
    line
}

#[test]
fn a_server_reads_its_file_ahead_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let data = path(folder.path(), "data");
    succeed(&["init", "--public", "--data", &data, "--suffix", "dc=example,dc=com"]);
    for arguments in [&["--preload"][..], &[]] {
        let done = preloaded(&data, arguments).unwrap();
        assert!(done.contains("of_bytes"), "{done}");
    }
}
