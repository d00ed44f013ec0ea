//! `roster demo --nodes 3`, `roster cluster` and a member that is killed, all as real processes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the helpers of a test are a test"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use client::{ConnectOptions, Connection, SearchFor};
use common::{Run, roster};
use ldap::ber::{Frame, frame};
use ldap::control_value::read_level::{
    AskedLevel, OID as READ_LEVEL, POSITION_OID as POSITION, ReadLevelRequest,
};
use ldap::filter::Filter;
use ldap::message::{
    Authentication, BindRequest, Control, ControlsBuf, DecodeLimits, DerefAliases, Message,
    MessageId, Modification, ModificationsBuf, ModifyOperation, ModifyRequest, PartialAttribute,
    Request, Response, Scope, SearchRequest, StringsBuf, ValuesBuf,
};
use ldap::result::ResultCode;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use testing::crash::server::{now, pause};

/// How long anything may take before the test fails.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
/// How often it is looked whether something has come.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
const SUFFIX: &str = "dc=example,dc=com";
const PERSON: &str = "uid=user.42,ou=people,dc=example,dc=com";
const OTHER: &str = "uid=user.43,ou=people,dc=example,dc=com";

/// Waits until there is something.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = now();
    while begin.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        pause(LOOK_EVERY);
    }
    panic!("waited in vain: {what}");
}

/// Entries by name, each with its attributes.
type Entries = BTreeMap<String, BTreeMap<String, Vec<Vec<u8>>>>;

/// A node, as the ready file tells.
#[derive(Clone, Debug)]
struct Node {
    id: u64,
    address: String,
    pid: i32,
    data: PathBuf,
    role: String,
}

impl Node {
    fn of(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let [id, "ldap", address, "pid", pid, "data", data, "role", role] = words[..] else {
            panic!("not a node: {line}")
        };
        Self {
            id: id.parse().unwrap(),
            address: address.to_owned(),
            pid: pid.parse().unwrap(),
            data: PathBuf::from(data),
            role: role.to_owned(),
        }
    }

    fn url(&self) -> String {
        format!("ldap://{}", self.address)
    }
}

/// A demo of several nodes.
struct Demo {
    child: Child,
    scratch: tempfile::TempDir,
    nodes: Vec<Node>,
    password: String,
    said: Receiver<String>,
}

impl Demo {
    fn start(count: usize) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let ready = scratch.path().join("ready");
        let mut child = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["demo", "--entries", "200", "--ldap", "127.0.0.1:0"])
            .args(["--nodes", &count.to_string()])
            .arg("--ready-file")
            .arg(&ready)
            .env("TMPDIR", scratch.path())
            // One that is for a server alone.
            .env("ROSTER_LISTEN__LDAPS", "127.0.0.1:1")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (sender, said) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let text = wait_for("a demo that serves", || {
            assert!(child.try_wait().unwrap().is_none(), "the demo ended");
            fs::read_to_string(&ready).ok()
        });
        let of = |key: &str| {
            let lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.filter(|(name, _)| *name == key).map(|(_, value)| value).collect::<Vec<_>>()
        };
        let nodes = of("node").into_iter().map(Node::of).collect();
        let password = of("admin_password").concat();
        assert_eq!(of("suffix"), [SUFFIX]);
        Self { child, scratch, nodes, password, said }
    }

    fn connect(&self, node: &Node) -> Option<Connection> {
        let mut connection = Connection::open(ConnectOptions::new(node.url())).ok()?;
        connection.bind("cn=Directory Manager", self.password.as_bytes()).ok()?;
        Some(connection)
    }

    /// Whether a node has taken a new title for somebody.
    fn modifies(&self, node: &Node, name: &str, title: &str) -> bool {
        let change = (ModifyOperation::Replace, "title", &[title][..]);
        let modify = |mut it: Connection| it.modify(name, &[change]).ok();
        self.connect(node).and_then(modify).is_some_and(|outcome| outcome.is_success())
    }

    /// What a node has: all entries with all attributes; none when it does not answer.
    fn all(&self, node: &Node) -> Option<Entries> {
        let asked = SearchFor {
            attributes: &["*", "+"],
            ..SearchFor::below(SUFFIX, Filter::Present("objectClass"))
        };
        let found = self.connect(node)?.search(&asked).ok()?;
        assert!(found.outcome.is_success(), "{:?}", found.outcome);
        let entries = found.entries.into_iter();
        Some(entries.map(|one| (one.dn, one.attributes.into_iter().collect())).collect())
    }

    fn status(&self, node: &Node, more: &[&str]) -> Run {
        let url = node.url();
        let asked = ["cluster", "status", "-H", &url, "-w", &self.password];
        roster(&[&asked, more].concat())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The nodes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn title(entries: &Entries, name: &str) -> String {
    let title = entries.get(name).and_then(|entry| entry.get("title")?.first());
    String::from_utf8(title.cloned().unwrap_or_default()).unwrap()
}

fn is_running(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

fn serve_again(data: &Path) -> Child {
    // Where it listens and who the others are stands in its data directory.
    let mut command = Command::new(env!("CARGO_BIN_EXE_roster"));
    command.arg("serve").arg("--data").arg(data).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn three_nodes_go_on_without_the_one_that_is_killed_and_take_it_back() {
    let mut demo = Demo::start(3);
    // The first began the cluster, the others joined it, each with a number that nobody had.
    let numbers: BTreeSet<u64> = demo.nodes.iter().map(|node| node.id).collect();
    assert!(numbers.len() == 3 && demo.nodes[0].id == 1, "{numbers:?}");
    assert!(demo.nodes[1..].iter().all(|node| node.id > 65_535), "{numbers:?}");
    for (node, number) in demo.nodes.iter().zip(1..) {
        assert!(node.data.ends_with(format!("node{number}")), "{node:?}");
    }
    let nodes = demo.nodes.iter().cloned();
    let (mut leaders, followers): (Vec<_>, Vec<_>) = nodes.partition(|node| node.role == "leader");
    let leader = leaders.pop().expect("it waits until one leads");
    assert_eq!(followers.len(), 2, "{:?}", demo.nodes);

    // A follower takes a change, and shows it to whoever asked for it.
    assert!(demo.modifies(&followers[0], PERSON, "Through a follower"));
    assert_eq!(title(&demo.all(&followers[0]).unwrap(), PERSON), "Through a follower");
    for node in &demo.nodes {
        wait_for("the change everywhere", || {
            (title(&demo.all(node)?, PERSON) == "Through a follower").then_some(())
        });
    }
    let status = demo.status(&followers[1], &["--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    let status: serde_json::Value = serde_json::from_str(&status.output).unwrap();
    assert_eq!(status["cluster"]["leader"], leader.id);
    assert_eq!(status["cluster"]["members"].as_array().unwrap().len(), 3);
    let top = roster(&["top", "--once", "-H", &leader.url(), "-w", &demo.password]);
    let line = format!("\ncluster      member {}, leader   term ", leader.id);
    assert!(top.output.contains(&line), "{}\nlacks{line}", top.output);

    // One of the others takes over.
    kill_process(Pid::from_raw(leader.pid).unwrap(), Signal::KILL).unwrap();
    let told = wait_for("word of its end", || {
        demo.said.try_iter().find(|line| line.starts_with(&format!("node {} was ended", leader.id)))
    });
    let again = format!("roster serve --data {}", leader.data.display());
    assert!(told.ends_with(&again), "{told}");
    wait_for("a change without the one that led", || {
        demo.modifies(&followers[1], OTHER, "Without the first").then_some(())
    });
    let status = wait_for("a leader", || {
        let status = demo.status(&followers[0], &[]);
        status.output.contains("leader").then_some(status)
    });
    assert_eq!(status.code, 1, "{status:?}");
    let away = format!("roster: note: member {} does not answer", leader.id);
    assert!(status.errors.contains(&away), "{status:?}");

    // It comes back as it was, and gets what it missed.
    let mut back = serve_again(&leader.data);
    wait_for("the same on all three", || {
        let of = |node: &Node| demo.all(node);
        let (one, two, three) = (of(&leader)?, of(&followers[0])?, of(&followers[1])?);
        assert_eq!(one.len(), 202);
        let is_there = title(&two, OTHER) == "Without the first";
        (is_there && one == two && two == three).then_some(())
    });
    wait_for("all is well", || {
        let status = demo.status(&leader, &[]);
        (status.code == 0).then_some(())
    });

    // They compare what they have, and find it to be the same.
    let compared = wait_for("the members compare", || {
        let status = demo.status(&leader, &["--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.output).ok()?;
        status["cluster"]["alike_lsn"].as_u64().map(|_| status)
    });
    assert!(compared["cluster"]["difference"].is_null(), "{compared}");

    // Ctrl-C ends them all, the one that was started by hand too, and leaves nothing.
    let pid = i32::try_from(demo.child.id()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    assert!(demo.child.wait().unwrap().success());
    assert!(back.wait().unwrap().success());
    for node in &followers {
        assert!(!is_running(node.pid), "{node:?}");
    }
    let left: Vec<_> = fs::read_dir(demo.scratch.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the ready file alone: {left:?}");
}

/// A member that was ended and comes back with the log kept for nobody.
fn serve_without_log(data: &Path) -> Child {
    let file = data.join("roster.toml");
    let text = fs::read_to_string(&file).unwrap();
    if !text.contains("log_keep_mib") {
        let text = text.replacen("[cluster]\n", "[cluster]\nlog_keep_mib = 0\n", 1);
        assert!(text.contains("log_keep_mib"), "{text}");
        fs::write(&file, text).unwrap();
    }
    serve_again(data)
}

#[test]
fn a_member_that_was_away_for_long_comes_back_with_a_copy() {
    let demo = Demo::start(3);
    let mut children: BTreeMap<u64, Child> = BTreeMap::new();
    for node in &demo.nodes {
        kill_process(Pid::from_raw(node.pid).unwrap(), Signal::TERM).unwrap();
        wait_for("its end", || (!is_running(node.pid)).then_some(()));
        children.insert(node.id, serve_without_log(&node.data));
        wait_for("all is well", || (demo.status(node, &[]).code == 0).then_some(()));
    }
    let sets = |node: &Node, password: &str| {
        let change = (ModifyOperation::Replace, "userPassword", &[password][..]);
        let modify = |mut it: Connection| it.modify(PERSON, &[change]).ok();
        demo.connect(node).and_then(modify).is_some_and(|outcome| outcome.is_success())
    };
    let signs_in = |node: &Node, password: &str| {
        let mut connection = Connection::open(ConnectOptions::new(node.url())).unwrap();
        connection.bind(PERSON, password.as_bytes()).is_ok()
    };
    let (away, here) = demo.nodes.split_first().unwrap();
    assert!(sets(away, "first"));
    for round in 0.. {
        assert!(round < 10, "whoever leads always has what the member lacks");
        let mut child = children.remove(&away.id).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let title_now = format!("Round {round}");
        let password = format!("of round {round}");
        wait_for("changes without it", || {
            let is_changed = demo.modifies(&here[0], OTHER, &title_now);
            (is_changed && sets(&here[1], &password)).then_some(())
        });
        // Whoever leads keeps what a member lacks, the other one does not, once it is flushed.
        for _ in 0..15 {
            pause(std::time::Duration::from_secs(1));
            demo.modifies(&here[0], OTHER, &title_now);
        }
        let leads = |node: &&Node| {
            demo.status(node, &["--json"]).output.contains(&format!("\"leader\":{}", node.id))
        };
        let next = here.iter().find(|node| !leads(node)).unwrap_or(&here[1]);
        let run = change(&demo, next, &["transfer", &next.id.to_string()]);
        assert_eq!(run.code, 0, "{run:?}");
        children.insert(away.id, serve_without_log(&away.data));
        wait_for("the same on all three", || {
            let of = |node: &Node| demo.all(node);
            let (one, two, three) = (of(away)?, of(&here[0])?, of(&here[1])?);
            (title(&one, OTHER) == title_now && one == two && two == three).then_some(())
        });
        assert!(signs_in(away, &password) && !signs_in(away, "first"));
        // What it was sent lay there.
        if away.data.join("copy").is_dir() {
            break;
        }
    }
    wait_for("all is well", || (demo.status(away, &[]).code == 0).then_some(()));
    // It counts like the others: with one of them it is a majority.
    let other = children.get_mut(&here[0].id).unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    wait_for("a change with it", || demo.modifies(away, OTHER, "With it").then_some(()));
    children.values_mut().for_each(|child| drop(child.kill()));
    children.values_mut().for_each(|child| drop(child.wait()));
}

#[test]
fn a_cluster_is_made_out_of_a_data_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (data, out) = (path("data"), path("out"));
    let init = roster(&["init", "--data", &data, "--suffix", SUFFIX]);
    assert_eq!(init.code, 0, "{init:?}");
    let members = [
        "1 127.0.0.1:7001 ldap://127.0.0.1:3001",
        "2 127.0.0.1:7002 ldap://127.0.0.1:3002",
        "3 127.0.0.1:7003 ldap://127.0.0.1:3003",
    ];
    let given: Vec<&str> = members.iter().flat_map(|member| ["--member", member]).collect();
    let made = [&["cluster", "init", "--data", &data, "--out", &out][..], &given].concat();
    let run = roster(&made);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.output.contains("roster serve --data DIR"), "{run:?}");
    for id in 1..=3 {
        let node = scratch.path().join(format!("out/node{id}"));
        let certificates =
            ["ca.pem", "ca.key", "node.pem", "node.key"].map(|name| format!("cluster/{name}"));
        for name in ["data.mdb", "format"].map(str::to_owned).iter().chain(&certificates) {
            assert!(node.join(name).is_file(), "{name}");
        }
        let settings = fs::read_to_string(node.join("roster.toml")).unwrap();
        assert!(settings.contains(&format!("id = {id}\n")), "{settings}");
        for member in members {
            assert!(settings.contains(&format!("\"{member}\"")), "{settings}");
        }
        assert_eq!(fs::read(node.join("format")).unwrap(), fs::read(path("data/format")).unwrap());
    }

    // What is there already stays as it is.
    let run = roster(&made);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.errors.contains("is not empty"), "{run:?}");
    let run = roster(&["cluster", "init", "--data", &data, "--out", &path("b"), "--member", "1"]);
    assert!(run.code == 2 && run.errors.contains("'1' is no member"), "{run:?}");
}

#[test]
fn a_server_alone_is_told_apart_from_a_cluster_that_is_not_shown() {
    let demo = Demo::start(1);
    // As today, it has no nodes.
    assert!(demo.nodes.is_empty());
    let text = fs::read_to_string(demo.scratch.path().join("ready")).unwrap();
    let url = format!("ldap://{}", text.lines().find_map(|it| it.strip_prefix("ldap ")).unwrap());
    let run = roster(&["cluster", "status", "-H", &url, "-w", &demo.password]);
    assert!(run.code == 1 && run.errors.contains("is not a member of a cluster"), "{run:?}");
    let run = roster(&["cluster", "status", "-H", &url]);
    assert!(run.code == 1 && run.errors.contains("only to its administrator"), "{run:?}");
    let run = roster(&["demo", "--nodes", "2"]);
    assert!(run.code == 2 && run.errors.contains("it is 1, 3 or 5"), "{run:?}");
}

/// The members of a demo, by the letters of a subcommand.
fn change(demo: &Demo, node: &Node, arguments: &[&str]) -> Run {
    let url = node.url();
    let asked = [&["cluster"], arguments, &["-H", &url, "-w", &demo.password]].concat();
    roster(&asked)
}

#[test]
fn members_are_changed_while_the_cluster_runs() {
    let demo = Demo::start(3);
    let (leaders, others): (Vec<Node>, Vec<Node>) =
        demo.nodes.iter().cloned().partition(|node| node.role == "leader");
    let (leader, one, other) = (&leaders[0], &others[0], &others[1]);
    let [first, second] = [one, other].map(|node| node.id.to_string());
    let both = [first.as_str(), second.as_str()];

    let run = change(&demo, one, &["transfer", &first]);
    assert_eq!((run.code, &*run.output), (0, &*format!("member {first} leads now\n")), "{run:?}");
    let run = change(&demo, leader, &["transfer", &first]);
    assert_eq!((run.code, &*run.output), (0, &*format!("member {first} leads already\n")));
    let run = change(&demo, other, &["promote", &first]);
    assert_eq!((run.code, &*run.output), (0, &*format!("member {first} is a voter already\n")));

    let run = change(&demo, other, &["demote", &first]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.errors.contains("demote or remove two members at once"), "{run:?}");
    let run = change(&demo, leader, &["remove", "--yes", "9"]);
    assert!(run.code == 1 && run.errors.contains("no member has the number 9"), "{run:?}");
    let run = change(&demo, leader, &["remove", both[0], both[1]]);
    assert!(run.code == 2 && run.errors.contains("say --yes"), "{run:?}");

    // The one that leads is among them.
    let run = change(&demo, other, &["demote", "--json", both[0], both[1]]);
    assert_eq!(run.code, 0, "{run:?}");
    let told: serde_json::Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(told["asked"]["change"], "demote");
    wait_for("a leader and two learners", || {
        let run = change(&demo, leader, &["status", "--json"]);
        let told: serde_json::Value = serde_json::from_str(&run.output).ok()?;
        let members = told["cluster"]["members"].as_array()?;
        let is = |role| members.iter().filter(|member| member["role"] == role).count();
        (is("leader") == 1 && is("learner") == 2).then_some(())
    });
    assert!(demo.modifies(one, PERSON, "by a learner"));
    let run = change(&demo, one, &["promote", both[0], both[1]]);
    assert_eq!(run.code, 0, "{run:?}");

    let run = change(&demo, leader, &["remove", "--yes", both[0], both[1]]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.output, format!("members {} are removed\n", both.join(" and ")));
    // It says so itself, takes no updates, and nobody waits for it.
    wait_for("one that was removed", || {
        let run = change(&demo, one, &["status"]);
        run.errors.contains(&format!("member {first} was removed from the cluster")).then_some(())
    });
    assert!(!demo.modifies(one, PERSON, "by one that was removed"));
    assert!(demo.modifies(leader, PERSON, "by the one that is left"));
    let run = change(&demo, leader, &["status"]);
    assert_eq!((run.code, run.output.lines().count()), (0, 2), "{run:?}");
    let run = change(&demo, leader, &["remove", "--yes", &leader.id.to_string()]);
    assert!(run.code == 1 && run.errors.contains("no voter would be left"), "{run:?}");
    let anonymous = roster(&["cluster", "promote", &first, "-H", &leader.url()]);
    assert!(anonymous.code == 1 && anonymous.errors.contains("config-write"), "{anonymous:?}");
}

impl Demo {
    /// How many changes that broke a rule of the schema a node has let pass.
    fn violations(&self, node: &Node, rule: &str) -> u64 {
        let name = "roster-schema-violations";
        let base = "cn=operations,cn=monitor";
        let asked =
            SearchFor { attributes: &[name], ..SearchFor::below(base, Filter::Present(name)) };
        let found = self.connect(node).unwrap().search(&asked).unwrap();
        let values = found.entries.iter().flat_map(|entry| entry.texts(name));
        let counts =
            values.filter_map(|value| value.strip_prefix(rule)?.trim().parse::<u64>().ok());
        counts.sum()
    }

    /// Gives an entry a value by a node; the result code and what it says.
    fn gives(&self, node: &Node, name: &str, attribute: &str, value: &str) -> (ResultCode, String) {
        let change = (ModifyOperation::Replace, attribute, &[value][..]);
        let outcome = self.connect(node).unwrap().modify(name, &[change]).unwrap();
        (outcome.code, outcome.diagnostic)
    }
}

/// Who leads decides by the modes that all members have; the others apply what breaks a rule.
#[test]
fn modes_of_the_schema_that_one_member_is_given_hold_at_all_of_them() {
    const OK: ResultCode = ResultCode::Success;
    const NO_SYNTAX: ResultCode = ResultCode::InvalidAttributeSyntax;
    let demo = Demo::start(3);
    let follower = demo.nodes.iter().find(|node| node.role == "follower").unwrap();
    // Not IA5, by each of the members.
    let of_all = |want: ResultCode, mode: &str| {
        for node in &demo.nodes {
            let (code, why) = demo.gives(node, PERSON, "mail", &format!("käthe@{mode}"));
            assert_eq!(code, want, "member {}: {why}", node.id);
        }
    };
    let counted = || demo.nodes.iter().map(|node| demo.violations(node, "syntax")).sum::<u64>();
    of_all(NO_SYNTAX, "reject");
    assert_eq!(counted(), 0);
    for (mode, want, in_all) in [("warn", OK, 3), ("accept", OK, 6), ("reject", NO_SYNTAX, 6)] {
        let line = format!("syntax: {mode}");
        let set = demo.gives(follower, "cn=Schema,cn=config", "roster-schema-mode", &line);
        assert_eq!(set, (OK, String::new()));
        of_all(want, mode);
        assert_eq!(counted(), in_all, "{mode}");
    }
    // What was let pass is at all of them, and other changes of the entry leave it there.
    assert!(demo.modifies(follower, PERSON, "Addressed"));
    wait_for("the same on all three", || {
        let all: Vec<_> = demo.nodes.iter().map(|node| demo.all(node)).collect::<Option<_>>()?;
        let mail = all[0][PERSON].get("mail")?.concat();
        let is_there = title(&all[0], PERSON) == "Addressed" && mail == "käthe@accept".as_bytes();
        (is_there && all[0] == all[1] && all[1] == all[2]).then_some(())
    });
}

/// A connection that sends controls and shows those of responses.
struct Raw {
    stream: TcpStream,
    id: i32,
}

/// What came back for one request.
#[derive(Debug, Default)]
struct Answer {
    code: Option<ResultCode>,
    diagnostic: String,
    titles: Vec<String>,
    position: Vec<u8>,
}

impl Raw {
    fn open(demo: &Demo, node: &Node) -> Self {
        let stream = TcpStream::connect(&node.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut raw = Self { stream, id: 0 };
        let authentication = Authentication::Simple(demo.password.as_bytes());
        let bind = BindRequest { version: 3, name: "cn=Directory Manager", authentication };
        let answer = raw.ask(Request::Bind(bind), None);
        assert_eq!(answer.code, Some(ResultCode::Success), "{answer:?}");
        raw
    }

    /// With a critical control: its OID and value.
    fn ask(&mut self, op: Request<'_>, control: Option<(&str, Option<&[u8]>)>) -> Answer {
        self.id += 1;
        let mut controls = ControlsBuf::new();
        if let Some((oid, value)) = control {
            controls.push(Control { oid, critical: true, value });
        }
        let mut out = Vec::new();
        Message { id: MessageId(self.id), op, controls: controls.as_ref() }.encode(&mut out);
        self.stream.write_all(&out).unwrap();
        let (mut answer, mut received) = (Answer::default(), Vec::new());
        while answer.code.is_none() {
            let length = loop {
                if let Frame::Complete(length) = frame(&received, usize::MAX).unwrap() {
                    break length;
                }
                let mut octets = [0; 4096];
                let read = self.stream.read(&mut octets).unwrap();
                assert!(read > 0, "the server has closed the connection");
                received.extend_from_slice(&octets[..read]);
            };
            answer.take(&received.drain(..length).collect::<Vec<_>>());
        }
        answer
    }

    /// Gives somebody a title; the position of that.
    fn set_title(&mut self, name: &str, title: &str) -> Vec<u8> {
        let values = [title.as_bytes()].into_iter().collect::<ValuesBuf>();
        let attribute = PartialAttribute { description: "title", values: values.as_ref() };
        let mut changes = ModificationsBuf::new();
        changes.push(Modification { operation: ModifyOperation::Replace, attribute });
        let modify = ModifyRequest { name, changes: changes.as_ref() };
        let answer = self.ask(Request::Modify(modify), Some((POSITION, None)));
        assert_eq!(answer.code, Some(ResultCode::Success), "{answer:?}");
        answer.position
    }

    /// Reads somebody's title.
    fn title(&mut self, name: &str, level: AskedLevel<'_>) -> Answer {
        let value = ReadLevelRequest::new(level).encode();
        let attributes = ["title"].into_iter().collect::<StringsBuf>();
        let search = SearchRequest {
            base: name,
            scope: Scope::Base,
            deref: DerefAliases::Never,
            size_limit_entries: 0,
            time_limit_s: 0,
            types_only: false,
            filter: Filter::Present("objectClass"),
            attributes: attributes.as_ref(),
        };
        self.ask(Request::Search(search), Some((READ_LEVEL, Some(&value))))
    }
}

impl Answer {
    fn take(&mut self, octets: &[u8]) {
        let message = Message::<Response<'_>>::decode(octets, &DecodeLimits::default()).unwrap();
        match message.op {
            Response::SearchEntry { attributes, .. } => {
                let values = attributes.iter().flat_map(|one| one.values.iter());
                self.titles.extend(values.map(|one| String::from_utf8_lossy(one).into_owned()));
            }
            Response::Bind { result, .. }
            | Response::Modify(result)
            | Response::SearchDone(result) => {
                self.code = Some(result.code);
                self.diagnostic = result.diagnostic.to_owned();
            }
            other => panic!("{other:?}"),
        }
        for control in message.controls.iter().filter(|control| control.oid == POSITION) {
            self.position = control.value.unwrap_or_default().to_vec();
        }
    }
}

/// Nodes that stand still until this is dropped.
struct Paused([Pid; 2]);

impl Paused {
    fn new(nodes: [&Node; 2]) -> Self {
        let pids = nodes.map(|node| Pid::from_raw(node.pid).unwrap());
        pids.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
        Self(pids)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        for pid in self.0 {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

#[test]
fn reads_are_as_fresh_as_they_ask_for_or_refused() {
    let demo = Demo::start(3);
    let nodes = demo.nodes.iter().cloned();
    let (leaders, followers): (Vec<_>, Vec<_>) = nodes.partition(|node| node.role == "leader");
    let [mut leader, mut one, mut two] =
        [&leaders[0], &followers[0], &followers[1]].map(|node| Raw::open(&demo, node));

    // What was written by one is read at all others.
    for round in 0..20 {
        let title = format!("Title {round}");
        let cookie = [&mut leader, &mut one][round % 2].set_title(PERSON, &title);
        let level = AskedLevel::AtLeast { cookie: &cookie };
        for reader in [&mut leader, &mut one, &mut two] {
            let found = reader.title(PERSON, level);
            assert_eq!(found.titles, [&*title], "{found:?}");
            let found = reader.title(PERSON, AskedLevel::Linearizable);
            assert_eq!(found.titles, [&*title], "{found:?}");
        }
    }

    // A follower whose others stand still knows that it cannot know.
    let paused = Paused::new([&leaders[0], &followers[1]]);
    let local = one.title(PERSON, AskedLevel::Local);
    assert_eq!(local.titles, ["Title 19"], "{local:?}");
    for level in [AskedLevel::Bounded { bound_ms: 1 }, AskedLevel::Linearizable] {
        // What the leader has sent before may be on its way still.
        let refused = wait_for("a refusal", || {
            let answer = one.title(PERSON, level);
            (answer.code == Some(ResultCode::Unavailable)).then_some(answer)
        });
        assert!(refused.diagnostic.contains("it heard from a leader "), "{refused:?}");
        assert!(refused.titles.is_empty());
    }
    drop(paused);
    wait_for("a majority again", || {
        let found = one.title(PERSON, AskedLevel::Linearizable);
        (found.titles == ["Title 19"]).then_some(())
    });
}

#[test]
fn a_setting_holds_on_all_nodes() {
    let demo = Demo::start(3);
    let strangers_get = |node: &Node| {
        let mut connection = Connection::open(ConnectOptions::new(node.url())).unwrap();
        let asked = SearchFor::below(SUFFIX, Filter::Present("objectClass"));
        connection.search(&asked).unwrap().entries.len()
    };
    for (at, node) in demo.nodes.iter().enumerate() {
        // Whoever is told hands it on to the one that decides.
        let setting = format!("limits.size_limit_entries={}", at + 3);
        let set = ["config", "set", &setting, "-H", &node.url(), "-w", &demo.password];
        assert_eq!(roster(&set).code, 0);
        for other in &demo.nodes {
            wait_for("the limit", || (strangers_get(other) == at + 3).then_some(()));
        }
    }
}

/// Naming contexts come, are renamed and go while one of three is away, which has them all when it
/// is back.
#[test]
fn naming_contexts_are_those_of_all_members() {
    let demo = Demo::start(3);
    let contexts = |node: &Node, arguments: &[&str]| {
        let url = node.url();
        let server = ["-H", &url, "-w", &demo.password];
        roster(&[&["naming-context"], arguments, &server].concat())
    };
    let nodes = demo.nodes.iter().cloned();
    let (leaders, followers): (Vec<_>, Vec<_>) = nodes.partition(|node| node.role == "leader");
    let (leader, other) = (&leaders[0], &followers[0]);
    let add = |node: &Node, name: &str| contexts(node, &["add", name]).code == 0;
    // It takes until all have said what they read.
    wait_for("the first", || add(other, "o=First").then_some(()));
    kill_process(Pid::from_raw(leader.pid).unwrap(), Signal::KILL).unwrap();
    wait_for("one without the one that led", || add(other, "o=Second").then_some(()));
    let rename = ["rename", "o=first", "o=Renamed"];
    wait_for("another name", || (contexts(other, &rename).code == 0).then_some(()));
    let drop = ["drop", SUFFIX, "--with-entries"];
    wait_for("one less", || (contexts(other, &drop).code == 0).then_some(()));
    let mut back = serve_again(&leader.data);
    for node in &demo.nodes {
        let listed = wait_for("the same on all three", || {
            let run = contexts(node, &["list", "--count"]);
            (run.code == 0 && !run.output.contains(SUFFIX)).then_some(run.output)
        });
        let lines: Vec<_> = listed.lines().map(|line| line.split_whitespace()).collect();
        let rows: Vec<Vec<&str>> = lines.into_iter().skip(1).map(Iterator::collect).collect();
        assert_eq!(rows, [["o=Renamed", "1"], ["o=Second", "1"]], "{node:?}");
    }
    let compared = wait_for("the members compare", || {
        let status = demo.status(other, &["--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.output).ok()?;
        status["cluster"]["alike_lsn"].as_u64().map(|_| status)
    });
    assert!(compared["cluster"]["difference"].is_null(), "{compared}");
    back.kill().unwrap();
    back.wait().unwrap();
}
