//! The README's commands for a directory of one's own, run as they stand there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The commands of the README's section `title`: the lines after the prompt.
fn commands(title: &str) -> Vec<String> {
    let readme = include_str!("../../../README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with(title)).unwrap();
    section.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// The words of a command line as a shell splits them, as far as the README needs it.
fn words(line: &str) -> Vec<String> {
    let mut quoted = false;
    line.split(|character| {
        quoted ^= character == '\'';
        character == ' ' && !quoted
    })
    .map(|word| word.replace('\'', ""))
    .collect()
}

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `roster serve` on free ports and waits until it answers; the address is returned.
fn serve(mut command: Command, ready: &Path) -> (Served, String) {
    let child = command
        .args(["--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0", "--ready-file"])
        .arg(ready)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut served = Served(child);
    while !ready.exists() {
        let ended = served.0.try_wait().unwrap();
        assert!(ended.is_none(), "it ended before it was ready: {ended:?}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
    let text = std::fs::read_to_string(ready).unwrap();
    let address = text.lines().find_map(|line| line.strip_prefix("ldap ")).unwrap();
    (served, address.to_owned())
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let ready = scratch.path().join("ready");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut running: Option<(Served, String)> = None;
    let mut done = Vec::new();
    for line in commands("A directory of your own") {
        let mut words = words(&line).into_iter();
        let program = words.next().unwrap();
        let arguments = words.map(|word| match word.as_str() {
            "DIR" => data.display().to_string(),
            "ldap://127.0.0.1:1389" => {
                format!("ldap://{}", running.as_ref().expect("served by now").1)
            }
            _ => word,
        });
        let arguments = arguments.collect::<Vec<_>>();
        let mut command = match program.as_str() {
            "cargo" => continue,
            "target/release/roster" => Command::new(env!("CARGO_BIN_EXE_roster")),
            other => Command::new(other),
        };
        command.args(&arguments).current_dir(&root);
        if arguments.first().is_some_and(|verb| verb == "serve") {
            running = Some(serve(command, &ready));
        } else if program == "ldapsearch" && Command::new("ldapsearch").arg("-VV").output().is_err()
        {
            continue;
        } else {
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{line}: {text}");
            assert!(program != "ldapsearch" || text.contains("\nsn: Curie"), "{line}: {text}");
        }
        done.push(arguments.first().cloned().unwrap_or_default());
    }
    assert!(done.len() >= 3, "the README shows init, import and serve: {done:?}");
}

/// How often it is looked whether the server is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
