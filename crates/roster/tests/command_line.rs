//! The command line as a user meets it: the built program, its exit codes and messages.

mod common;

use common::{check, roster};

#[test]
fn every_subcommand_explains_itself() {
    for command in [
        "demo",
        "init",
        "serve",
        "import",
        "export",
        "check",
        "backup",
        "restore",
        "generate",
        "bench",
        "bench search",
        "bench add",
        "bench replay",
        "explain",
        "why",
        "account",
        "account show",
        "account enable",
        "account disable",
        "account unlock",
        "account lock",
        "account expire",
        "account reset",
        "session",
        "session list",
        "session close",
        "index",
        "index status",
        "index verify",
        "index rebuild",
        "index add",
        "index drop",
        "index advise",
        "schema",
        "schema list",
        "schema add",
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let run = roster(&arguments);
        assert_eq!((run.code, run.errors.as_str()), (0, ""), "{command}");
        assert!(run.output.contains(&format!("Usage: roster {command}")), "{}", run.output);
    }
    let help = roster(&["--help"]);
    assert!(help.output.contains("Exit codes:"), "{}", help.output);
}

#[test]
fn wrong_use_ends_with_2_and_a_hint() {
    check(&["generat"], 2, "roster: error: unrecognized subcommand 'generat'");
    check(&["assignmen"], 2, "roster: hint: a similar subcommand exists: 'assignment'");
    check(&["generate"], 2, "roster: error: the following required arguments were not provided:");
    check(&["generate", "t", "--entries", "x"], 2, "roster: error: invalid value 'x'");
    check(&["bench", "search", "-c", "0"], 2, "roster: error: invalid value '0'");
    check(&["bench", "search", "-D", "cn=x"], 2, "'cn=x' needs a password to bind\nroster: hint");
    check(&["bench", "run", "oid"], 2, "'roster bench --list' shows all of them");
    check(&["bench", "mixed", "--mix", "find=1"], 2, "'find' is not an operation");
    check(&["bench", "mixed", "--mix", "delete=1"], 2, "hint: a mix with delete needs add");
    check(&["bench", "bind", "--dn", "[file:/no/file]"], 2, "cannot read /no/file");
    check(
        &["bench", "search", "-g", "dec(1,2)"],
        2,
        "column 1: there is no generator 'dec'\nroster: hint",
    );
    check(&["bench", "bind", "--outstanding", "2"], 2, "roster: error: a bind must be the only");
    check(
        &["bench", "search", "-H", "ldap://127.0.0.1:1"],
        2,
        "roster: error: cannot connect to 127.0.0.1:1: connection refused\nroster: hint: ",
    );
    check(&["bench", "search", "-f", "(uid=["], 2, "'(uid=[' is not a search filter");
    check(&["explain", "-b", "o=x", "-s", "two", "(cn=a)"], 2, "base, one, sub or subordinate");
    check(&["index", "add", "equal uid"], 2, "roster: error: 'equal uid' is not an index");
    check(
        &["index", "status", "-H", "ldap://127.0.0.1:1"],
        2,
        "roster: error: cannot connect to 127.0.0.1:1: connection refused\nroster: hint: ",
    );
}

#[test]
fn nobody_gets_more_threads_than_machines_have_cores() {
    for command in [
        &["generate", "examples/people.template"][..],
        &["export", "--data", "nowhere"],
        &["import", "--data", "nowhere", "nowhere.ldif"],
    ] {
        for wrong in ["0", "1025", "99999999", "-1", "many"] {
            let threads = format!("--threads={wrong}");
            let arguments = [command, &[&threads]].concat();
            check(&arguments, 2, "a number from 1 to 1024; without it there is a thread for each");
        }
    }
    check(&["export", "--data", "nowhere", "--threads=1024"], 2, "roster: error: ");
}

#[test]
fn a_template_that_is_not_there_is_named() {
    check(
        &["generate", "nowhere.template"],
        2,
        "roster: error: cannot read nowhere.template: no such file or directory\n",
    );
}

#[test]
fn a_fault_in_a_template_has_file_line_reason_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.template");
    std::fs::write(&path, "branch: o=x\n\nou: <frist>\n").unwrap();
    let path = path.to_str().unwrap();
    let want = format!(
        "roster: error: {path}:3: unknown tag '<frist>'\n\
         roster: hint: write '\\<' for a plain '<'\n"
    );
    check(&["generate", path], 2, &want);
}

#[test]
fn generate_gives_the_same_bytes_for_the_same_seed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("people.ldif");
    let template = common::example("people.template");
    let base = ["generate", &template, "--entries", "50", "--seed"];
    let of = |more: &[&str]| {
        let run = roster(&[&base[..], more].concat());
        assert_eq!((run.code, run.errors.as_str()), (0, ""));
        run.output
    };
    let first = of(&["1"]);
    assert_eq!(first.matches("\ndn: ").count(), 51, "the first dn starts the file");
    assert_eq!(first, of(&["1"]));
    assert_ne!(first, of(&["2"]));
    assert_eq!(of(&["1", "-o", file.to_str().unwrap()]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);
    let other = of(&["1", "--define", "suffix=o=other"]);
    assert!(other.starts_with("dn: o=other\nobjectClass: top\nobjectClass: organization\n"));
}

#[test]
fn word_files_beside_the_template_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::write(&path, "branch: o=x\ndescription: <file:cities> <file:states:sequential>\n")
        .unwrap();
    std::fs::write(folder.path().join("cities"), "Here\n").unwrap();
    let run = roster(&["generate", path.to_str().unwrap()]);
    assert!(run.output.contains("description: Here AL\n"), "{}", run.output);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    use std::io::Read as _;
    let template = common::example("people.template");
    let mut child = common::command(&["generate", &template, "-n", "100000"]).spawn().unwrap();
    let mut start = [0; 3];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"dn:");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
