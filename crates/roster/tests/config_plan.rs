//! The configuration as one file: exported, compared, and made so.

mod common;
mod demo;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use common::{Run, check_all as check, command, roster};
use demo::Demo;

const ADMINISTRATOR: &str = "cn=Directory Manager";
const PASSWORD: &str = "a long password of this test";

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "another process has to come so far")]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The administrator's calls of one demo.
struct Calls {
    url: String,
    password: String,
    file: PathBuf,
}

impl Calls {
    fn of(demo: &Demo) -> Self {
        let file = demo.scratch().join("directory.toml");
        Self { url: demo.url("ldap"), password: demo.admin_password.clone(), file }
    }

    fn call(&self, arguments: &[&str]) -> Run {
        let login = ["-H", &self.url, "-D", ADMINISTRATOR, "-w", &self.password];
        roster(&[arguments, &login].concat())
    }

    /// `roster config WHAT FILE …`, where the file says this.
    fn with(&self, what: &str, text: &str, more: &[&str]) -> Run {
        fs::write(&self.file, text).expect("the test may write");
        let file = self.file.to_str().expect("it is text");
        self.call(&[&["config", what, file], more].concat())
    }

    fn export(&self) -> String {
        let run = self.call(&["config", "export"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.output
    }

    fn changes(&self) -> usize {
        self.call(&["config", "history", "--json"]).output.lines().count()
    }
}

#[test]
fn an_export_is_what_there_is_and_makes_another_directory_the_same() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let call = |arguments: &[&str]| check(&calls.call(arguments), 0, &[]);
    call(&["config", "set", "limits.size_limit_entries=5000", "log.level=info"]);
    call(&["config", "set", "authentication.name_attributes=mail,uid"]);
    call(&["constraint", "add", "numbers: unique employeeNumber"]);
    call(&["index", "add", "substring description", "--wait"]);
    let text = calls.export();
    for want in [
        "[settings.limits]\nsize_limit_entries = 5000\n",
        "\"substring description\"",
        "numbers: unique employeeNumber",
        "\nglobal_acis = [\n",
        "\nsinks = []\n",
    ] {
        assert!(text.contains(want), "{text}\nlacks\n{want}");
    }
    assert!(!text.contains("time_limit_s"), "{text}");
    check(&calls.with("plan", &text, &["--check"]), 0, &["nothing to change"]);
    let all = calls.call(&["config", "export", "--all"]).output;
    assert!(all.contains("time_limit_s = 60\n"), "{all}");
    check(&calls.with("plan", &all, &["--check"]), 0, &["nothing to change"]);
    let before = calls.changes();
    check(&calls.with("apply", &text, &[]), 0, &["nothing to change"]);
    assert_eq!(calls.changes(), before);

    let other = Demo::start(10);
    let others = Calls::of(&other);
    check(&others.with("plan", &text, &["--check"]), 1, &["+ index substring description"]);
    check(&others.with("apply", &text, &["-m", "as the first"]), 0, &["done: "]);
    check(&others.with("plan", &text, &["--check"]), 0, &["nothing to change"]);
    let last = others.call(&["config", "history", "--json"]).output;
    let last: serde_json::Value =
        serde_json::from_str(last.lines().last().expect("there is one")).expect("it is JSON");
    // All but the new indexes is one change.
    assert_eq!(last["message"], "as the first");
    assert_eq!(last["entries"].as_array().map(Vec::len), Some(2), "{last}");
    assert_eq!(others.export(), text);
}

#[test]
fn a_plan_tells_what_follows_and_changes_nothing() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    check(&calls.call(&["config", "set", "limits.size_limit_entries=5000"]), 0, &[]);
    let text = calls.export();
    let other = text
        .replace("size_limit_entries = 5000", "size_limit_entries = 7000\ntime_limit_s = 30")
        .replace("indexes = [\n", "indexes = [\n  'substring description',\n")
        .replace("  \"substring cn\",\n", "");
    assert!(other.len() < text.len() + 60, "{other}");
    let run = calls.with("plan", &other, &[]);
    let want = [
        "~ limits.size_limit_entries: 5000 -> 7000, raised\n",
        "~ limits.time_limit_s: 60 (by default) -> 30, lowered\n",
        "+ index substring description: built from all 1",
        "- index substring cn: searches such as (cn=*part*) have no index then; it was not asked",
        "4 to change; 'roster config apply ",
    ];
    check(&run, 0, &want);
    assert_eq!(calls.export(), text);
    check(&calls.with("plan", &other, &["--check"]), 1, &want);
    check(&calls.with("apply", &other, &[]), 0, &["done: 4 changed"]);
    check(&calls.with("plan", &other, &[]), 0, &["nothing to change"]);
    // Undoing takes back what was one change.
    let history = calls.call(&["config", "history", "--json"]).output;
    let last: serde_json::Value =
        serde_json::from_str(history.lines().last().expect("there is one")).expect("it is JSON");
    check(&calls.call(&["config", "undo", &last["number"].to_string()]), 0, &[]);
    let index = "+ index substring description";
    let run = calls.with("plan", &text, &[]);
    check(&run, 0, &["- index substring description"]);
    assert!(!run.output.contains(index) && run.output.lines().count() == 1, "{run:?}");
}

#[test]
fn what_is_refused_changes_nothing_and_mistakes_are_told_with_their_line() {
    let demo = Demo::start(10);
    let calls = Calls::of(&demo);
    let before = calls.export();
    // The second of three is refused: the first is not made either.
    let text = "constraints = ['a: unique employeeNumber', 'b: nonsense']\nsinks = []\n\
                [settings.limits]\nsize_limit_entries = 7\n";
    let run = calls.with("apply", text, &[]);
    check(&run, 1, &["'nonsense' is no kind of constraint", "nothing was changed"]);
    assert_eq!(calls.export(), before);
    let bad = "[settings.limits]\noutstanding_max = 0\n";
    check(&calls.with("apply", bad, &[]), 1, &["limits.outstanding_max must be a number of"]);
    assert_eq!(calls.export(), before);
    // A part that the file does not name stays as it is.
    let run = calls.with("plan", "sinks = []\n", &[]);
    check(&run, 0, &["nothing to change", "left alone, not in the file: settings, indexes"]);
    for (text, want) in [
        ("sinks = 5\n", "line 1: sinks is a list of texts"),
        ("[settings.limits]\n\nsize_limit = 5\n", "line 3: there is no setting"),
        ("[settings.listen]\nldap = []\n", "a setting of each server"),
        ("sinks = [", "line 1: "),
    ] {
        check(&calls.with("plan", text, &[]), 2, &[want]);
        check(&calls.with("apply", text, &[]), 2, &[want]);
    }
    check(&calls.call(&["config", "plan", "/nowhere/file.toml"]), 2, &["cannot read"]);
    // Who may not see the configuration is told.
    fs::write(&calls.file, "sinks = []\n").expect("the test may write");
    let file = calls.file.to_str().expect("it is text");
    let run = roster(&["config", "plan", file, "-H", &calls.url]);
    assert_eq!(run.code, 1, "{run:?}");
}

/// A data directory without a server.
fn initialized(folder: &std::path::Path) -> String {
    let data = folder.join("data").display().to_string();
    let init = ["init", "--data", &data, "--suffix", "dc=example,dc=com", "--public"];
    let secret = folder.join("password").display().to_string();
    fs::write(&secret, PASSWORD).expect("the test may write");
    check(&roster(&[&init[..], &["--admin-password-file", &secret]].concat()), 0, &[]);
    data
}

#[test]
fn no_setting_of_a_directory_keeps_out_who_has_its_files() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = initialized(folder.path());
    let file = folder.path().join("directory.toml").display().to_string();
    let apply = |text: &str, want: &[&str]| {
        fs::write(&file, text).expect("the test may write");
        check(&roster(&["config", "apply", &file, "--data", &data]), 0, want);
    };
    let text = "[settings.authentication]\nmechanisms = ['SCRAM-SHA-256']\n\
                [settings.limits]\nfirst_request_timeout_s = 1\nsize_limit_entries = 1\n";
    apply(text, &["done: 3 changed"]);
    apply(text, &["nothing to change"]);
    check(&roster(&["index", "status", "--data", &data]), 0, &[]);
    apply("[settings.authentication]\n", &["done: 3 changed"]);
}

#[test]
fn indexes_that_are_being_built_are_waited_for() {
    let demo = Demo::start_set(300, &[], &[("ROSTER_STORE__INDEX_BUILD_PERCENT", "1")]);
    let calls = Calls::of(&demo);
    let text = calls.export();
    let new = text.replace("indexes = [\n", "indexes = [\n  'equality description',\n");
    assert_ne!(new, text);
    // As one who applied the file and was interrupted.
    check(&calls.call(&["index", "add", "equality description"]), 0, &[]);
    let state = || calls.call(&["index", "status", "--json", "description.equality"]).output;
    check(&calls.with("apply", &new, &[]), 0, &["indexes go: the list of the file"]);
    assert!(state().contains("\"valid\""), "{}", state());
    // Alone, too.
    let more = new.replace("indexes = [\n", "indexes = [\n  'substring description',\n");
    check(&calls.with("apply", &more, &[]), 0, &["the new indexes were added", "done: 1 changed"]);
    let state = calls.call(&["index", "status", "--json", "description.substring"]).output;
    assert!(state.contains("\"valid\""), "{state}");
}

#[test]
fn what_applies_a_file_for_a_server_ends_with_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = initialized(folder.path());
    let file = folder.path().join("directory.toml").display().to_string();
    fs::write(&file, "sinks = []\n").expect("the test may write");
    // A process that is not its parent, as after the end of the one that was.
    let apply = ["config", "apply", "--data", &data, "--end-with", "1", &file];
    check(&roster(&apply), 130, &["the server ended that was to begin"]);
    let own = std::process::id().to_string();
    let apply = ["config", "apply", "--data", &data, "--end-with", &own, &file];
    check(&roster(&apply), 0, &["nothing to change"]);
}

#[test]
fn a_server_begins_with_the_configuration_of_a_file_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (data, file) = (initialized(folder.path()), path("directory.toml"));
    let constraints = "constraints = ['numbers: unique employeeNumber']\n";
    fs::write(&file, constraints).expect("the test may write");
    let apply = ["config", "apply", &file, "--data", &data, "-m", "made so"];
    check(&roster(&apply), 0, &["+ constraint numbers: unique", "done: 1 changed"]);
    check(&roster(&apply), 0, &["nothing to change"]);

    let serve = |ready: &str| {
        command(&["serve", "--data", &data, "--apply", &file, "--ready-file", ready])
            .args(["--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .spawn()
            .expect("the program is built")
    };
    let text = format!("{constraints}[settings.limits]\nsize_limit_entries = 7000\n");
    fs::write(&file, text).expect("the test may write");
    let ready = path("ready");
    let child = serve(&ready);
    until("the server", || fs::exists(&ready).is_ok_and(|is_there| is_there));
    let told = fs::read_to_string(&ready).expect("it is there");
    let address = told.lines().find_map(|line| line.strip_prefix("ldap ")).expect("it listens");
    let url = format!("ldap://{address}");
    let login = ["-H", &url, "-D", ADMINISTRATOR, "-w", PASSWORD];
    let get = ["config", "get", "limits.size_limit_entries"];
    check(&roster(&[&get[..], &login].concat()), 0, &["7000\n"]);
    let list = ["constraint", "list"];
    check(&roster(&[&list[..], &login].concat()), 0, &["numbers: unique employeeNumber"]);
    // Beside a server that has the directory nobody changes it so.
    assert_ne!(roster(&apply).code, 0);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{ended:?}");

    // What is no file is empty when it is read once more, and would change nothing.
    for stream in ["-", "/dev/stdin", "/dev/null"] {
        let begun = ["serve", "--data", &data, "--apply", stream, "--ldap", "127.0.0.1:0"];
        check(&roster(&begun), 2, &["is no file: --apply needs one that can be read again"]);
    }

    // What is no configuration is no server.
    for (text, want) in [
        ("constraints = ['numbers: nonsense']\n", "was not applied"),
        ("nothing = 5\n", "line 1: 'nothing' is nothing that a file says"),
    ] {
        fs::write(&file, text).expect("the test may write");
        let ended = serve(&path("never")).wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && errors.contains(want), "{errors}");
        assert!(!fs::exists(path("never")).expect("it can be looked for"));
    }
}
