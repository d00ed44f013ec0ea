//! `roster index --data`: the indexes of a directory that no server uses.
#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test")]

mod common;
#[allow(dead_code, reason = "other tests ask a demo")]
mod demo;

use std::path::Path;

use common::{Run, check, command, example, roster};
use demo::Demo;

/// A data directory with people.
fn people(folder: &Path, count: u32) -> String {
    let data = folder.join("data").display().to_string();
    assert_eq!(
        roster(&["init", "--public", "--data", &data, "--suffix", "dc=example,dc=com"]).code,
        0
    );
    let file = folder.join("people.ldif").display().to_string();
    let generated =
        roster(&["generate", &example("people.template"), "--entries", &count.to_string()]);
    std::fs::write(&file, generated.output).expect("temporary files can be written");
    let run = roster(&["import", "--data", &data, &file]);
    assert_eq!(run.code, 0, "{run:?}");
    data
}

#[track_caller]
fn index(data: &str, arguments: &[&str]) -> String {
    let Run { code, output, errors } = roster(&[&["index"], arguments, &["--data", data]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}: {output}");
    output
}

fn files(data: &str) -> Vec<String> {
    let listing = std::fs::read_dir(data).unwrap();
    let mut names: Vec<String> =
        listing.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn indexes_are_added_rebuilt_verified_and_dropped_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = people(folder.path(), 3_000);
    index(&data, &["status"]);
    let before = files(&data);
    assert_eq!(
        index(&data, &["add", "substring description"]),
        "building  substring description\n"
    );
    let status = index(&data, &["status", "description.substring"]);
    assert!(status.contains("description  substring  yes "), "{status}");
    assert!(status.contains(", as of the last flush\n"), "{status}");
    let json = index(&data, &["status", "--json", "description.substring"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["state"], &json[0]["done"]), (&"valid".into(), &3_002.into()));
    assert_eq!(index(&data, &["rebuild", "uid.equality"]), "rebuilding  equality uid\n");
    let verified = index(&data, &["verify", "uid.equality", "description.substring"]);
    assert_eq!(verified, "description.substring: ok\nuid.equality: ok\n");
    assert_eq!(
        index(&data, &["drop", "description.substring"]),
        "dropping  substring description\n"
    );
    // Who is found by a value is enumerated, too.
    assert_eq!(
        index(&data, &["add", "equality description"]),
        "building  equality description\nbuilding  presence description (comes with it)\n"
    );
    assert_eq!(
        index(&data, &["drop", "equality description", "presence description"]),
        "dropping  equality description\ndropping  presence description\n"
    );
    assert_eq!(files(&data), before, "nothing is left behind");
    let told = roster(&["check", "--data", &data]).output;
    assert!(told.starts_with("3002 entries, 7 records in the journal"), "{told}");
    assert!(told.ends_with(" no fault\n"), "{told}");

    let missing = ["index", "status", "description.substring", "--data", &data];
    check(&missing, 1, "there is no index 'description.substring'");
    let missing = ["index", "drop", "description.presence", "--data", &data];
    check(&missing, 1, "there is no index 'presence description'");
    check(&["index", "add", "substring x", "--data", &data], 1, "refuses the new index");
    check(&["index", "status", "--data", "/nowhere"], 2, "roster: hint: make a data directory");
    check(&["index", "status", "--data", &data, "-w", "x"], 2, "cannot be used with");
}

#[test]
fn a_directory_that_is_served_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("demo").display().to_string();
    let demo = Demo::start_with(50, &["--data", &data]);
    check(&["index", "status", "--data", &data], 2, "or use the server that it runs");
    drop(demo);
    // What its journal has alone is in the directory all the same.
    assert!(index(&data, &["verify", "uid.equality"]).ends_with(": ok\n"));
}

#[test]
fn what_was_interrupted_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let data = people(folder.path(), 6_000);
    let arguments = ["index", "add", "substring description", "--data", &data];
    let mut child = command(&arguments).spawn().unwrap();
    // It says so when the change is in the journal.
    let mut line = String::new();
    let output = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
    assert_eq!(line, "building  substring description\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(roster(&["check", "--data", &data]).output.ends_with("no fault\n"));
    let run = roster(&["index", "add", "substring description", "--data", &data]);
    assert!(run.errors.contains("already exists"), "{run:?}");
    index(&data, &["rebuild", "description.substring"]);
    assert!(index(&data, &["verify", "description.substring"]).ends_with(": ok\n"));
}
