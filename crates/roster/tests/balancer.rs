//! A real HAProxy with the configuration of the documentation, before three nodes of a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "the helpers of a test are a test"
)]

mod common;
mod machine;

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{ConnectOptions, Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use machine::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use testing::ports::free_addresses;

const PERSON: &str = "uid=user.42,ou=people,dc=example,dc=com";
/// The page that has the configuration.
const PAGE: &str = include_str!("../../../docs/how-to/clients.md");
const HAPROXY: &str = "/usr/sbin/haproxy";

/// A child that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node: where it serves LDAP, where its health is asked, and its process.
#[derive(Clone)]
struct Node {
    ldap: String,
    admin: String,
    pid: Pid,
}

impl Node {
    fn kill(&self) {
        kill_process(self.pid, Signal::KILL).unwrap();
    }
}

/// Three nodes, each with a listener for its health.
struct Cluster {
    nodes: Vec<Node>,
    password: String,
    _demo: Running,
    _scratch: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let ready = scratch.path().join("ready");
        let mut demo = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["demo", "--entries", "200", "--ldap", "127.0.0.1:0", "--nodes", "3"])
            .args(["--admin", "127.0.0.1:0"])
            .arg("--ready-file")
            .arg(&ready)
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(demo.stdout.take().unwrap());
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let demo = Running(demo);
        let text = wait_for("a demo that serves", || fs::read_to_string(&ready).ok());
        let node = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let ["node", _, "ldap", ldap, "pid", pid, "data", data, ..] = words[..] else {
                return None;
            };
            let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
            Some(Node { ldap: ldap.to_owned(), admin: admin(Path::new(data)), pid })
        };
        let nodes: Vec<Node> = text.lines().filter_map(node).collect();
        assert_eq!(nodes.len(), 3, "{text}");
        let password = text.lines().find_map(|line| line.strip_prefix("admin_password "));
        let password = password.unwrap().to_owned();
        Self { nodes, password, _demo: demo, _scratch: scratch }
    }

    fn connect(&self, address: &str) -> Option<Connection> {
        let options = ConnectOptions {
            answer_timeout: Duration::from_secs(20),
            ..ConnectOptions::new(format!("ldap://{address}"))
        };
        let mut connection = Connection::open(options).ok()?;
        connection.bind("cn=Directory Manager", self.password.as_bytes()).ok()?;
        Some(connection)
    }
}

/// The address of the listener for health, in the settings of a node.
fn admin(data: &Path) -> String {
    let text = fs::read_to_string(data.join("roster.toml")).unwrap();
    let section = text.split("[admin]\n").nth(1).unwrap();
    section.split('"').nth(1).unwrap().to_owned()
}

/// HAProxy with the configuration of the page, but for its addresses.
struct Balancer {
    _haproxy: Running,
    folder: tempfile::TempDir,
    ldap: String,
    reads: String,
}

impl Balancer {
    fn start(nodes: &[Node]) -> Self {
        let [ldap, reads] = free_addresses().unwrap().map(|address| address.to_string());
        let (_, begin) = PAGE.split_once("```haproxy\n").unwrap();
        let (text, _) = begin.split_once("```").unwrap();
        let mut text = text.to_owned();
        let mut put = |from: String, to: String, times: usize| {
            assert_eq!(text.matches(&from).count(), times, "{from}");
            text = text.replace(&from, &to);
        };
        put("bind 192.0.2.10:389\n".to_owned(), format!("bind {ldap}\n"), 1);
        put("bind 192.0.2.10:1389\n".to_owned(), format!("bind {reads}\n"), 1);
        for (number, node) in (1..).zip(nodes) {
            let port = node.admin.rsplit(':').next().unwrap();
            let from = format!("node{number} 192.0.2.{number}:389 check port 9389\n");
            put(from, format!("node{number} {} check port {port}\n", node.ldap), 2);
        }
        assert!(!text.contains("192.0.2."), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        fs::write(&file, text).unwrap();
        let log = || fs::File::options().create(true).append(true).open(folder.path().join("log"));
        let haproxy = Command::new(HAPROXY)
            // In the foreground.
            .args(["-db", "-f"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(log().unwrap())
            .stderr(log().unwrap())
            .spawn()
            .unwrap();
        Self { _haproxy: Running(haproxy), folder, ldap, reads }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

fn title(connection: &mut Connection) -> Option<String> {
    let asked = SearchFor {
        scope: Scope::Base,
        attributes: &["title"],
        ..SearchFor::below(PERSON, Filter::Present("objectClass"))
    };
    let found = connection.search(&asked).ok()?;
    found.entries.first()?.text("title").map(str::to_owned)
}

fn set_title(connection: &mut Connection, title: &str) -> bool {
    let change = (ModifyOperation::Replace, "title", &[title][..]);
    connection.modify(PERSON, &[change]).is_ok_and(|outcome| outcome.is_success())
}

/// Whether the test can run; must it, where clients were installed.
fn is_installed() -> bool {
    let is_there = PathBuf::from(HAPROXY).is_file();
    let must = std::env::var_os("ROSTER_TEST_CLIENTS").is_some_and(|value| value == "required");
    assert!(is_there || !must, "{HAPROXY} is missing");
    if !is_there {
        eprintln!("skipped: {HAPROXY} is missing, 'cargo xtask test' installs it");
    }
    is_there
}

#[test]
fn clients_behind_a_balancer_go_on_when_a_node_is_killed() {
    if !is_installed() {
        return;
    }
    let cluster = Cluster::start();
    let balancer = Balancer::start(&cluster.nodes);
    let connect = |address: &str| cluster.connect(address);
    // All nodes are in use: three connections, one for each.
    let mut connections: Vec<Connection> = wait_for("LDAP through the balancer", || {
        let open: Option<Vec<_>> = (0..3).map(|_| connect(&balancer.ldap)).collect();
        open
    });
    for (number, connection) in connections.iter_mut().enumerate() {
        let wanted = format!("Through {number}");
        assert!(set_title(connection, &wanted), "{}", balancer.log());
        assert_eq!(title(connection).unwrap(), wanted);
    }

    // What was acknowledged stays, and clients that connect anew go on.
    cluster.nodes[0].kill();
    let mut lost = 0;
    for connection in &mut connections {
        lost += usize::from(title(connection).is_none());
    }
    assert_eq!(lost, 1, "one node of three: {}", balancer.log());
    for number in 0..20 {
        let wanted = format!("After {number}");
        wait_for("an update after the end of a node", || {
            set_title(&mut connect(&balancer.ldap)?, &wanted).then_some(())
        });
    }
    // Once the balancer knows, nobody meets the node that is gone.
    wait_for("that it is taken out", || {
        balancer.log().contains("ready/node1 is DOWN").then_some(())
    });
    for number in 0..30 {
        let mut connection = connect(&balancer.ldap).unwrap_or_else(|| panic!("{number}"));
        assert_eq!(title(&mut connection).unwrap(), "After 19");
    }

    // Without a majority nothing is ready; clients that only read go on.
    cluster.nodes[1].kill();
    wait_for("that no node is ready", || {
        balancer.log().contains("backend 'ready' has no server available").then_some(())
    });
    assert!(connect(&balancer.ldap).is_none());
    let anonymous = ConnectOptions::new(format!("ldap://{}", balancer.reads));
    let found = wait_for("reads without a majority", || {
        title(&mut Connection::open(anonymous.clone()).ok()?)
    });
    assert_eq!(found, "After 19");
}
