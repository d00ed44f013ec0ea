//! The servers of a cluster as processes: `roster demo --nodes` makes and starts them; what was
//! killed is started again from here.
//!
//! Invariant: signals go to processes that were started from here, or that the demo's ready file
//! names and that still serve the data it names. Every wait has a limit.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::client::{Client, ClientError, Search, Tree};
use crate::crash::server::{Place, SUFFIX, now, pause};

/// How to reach a server as its administrator.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) address: SocketAddr,
    pub(super) dn: String,
    pub(super) password: String,
}

/// What a node says of itself.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) role: String,
    pub(super) term: u64,
    pub(super) applied_lsn: u64,
    pub(super) committed_index: u64,
    pub(super) last_index: u64,
    /// Why it cannot go on, if it cannot.
    pub(super) error: Option<String>,
}

/// All servers. Dropping it kills them.
#[derive(Debug)]
pub(super) struct Cluster {
    place: Place,
    demo: Child,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    id: u64,
    door: Door,
    data: PathBuf,
    process: Process,
    /// Kept from one look to the next.
    client: Option<Client>,
}

#[derive(Debug)]
enum Process {
    /// A child of the demo.
    OfDemo(u32),
    Own(Child),
    Killed,
}

impl Door {
    pub(super) fn enter(&self) -> Result<Client, ClientError> {
        let mut client = Client::connect_within(self.address, ANSWER_MAX)?;
        client.bind(&self.dn, &self.password)?;
        Ok(client)
    }
}

impl Cluster {
    /// Makes a cluster of so many nodes below the place's data, and waits until all serve.
    pub(super) fn start(place: &Place, count: usize) -> Result<Self, String> {
        fs::create_dir_all(&place.folder)
            .map_err(|error| format!("{}: {error}", place.folder.display()))?;
        let ready = place.folder.join("ready");
        let log = log_file(&place.folder.join("log"))?;
        let mut command = place.command(&["demo", "-n", ENTRIES, "--nodes", &count.to_string()]);
        command.arg("--ready-file").arg(&ready).stdout(Stdio::null()).stderr(log);
        let demo = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut cluster = Self { place: place.clone(), demo, nodes: Vec::new() };
        let text = cluster.wait_ready(&ready)?;
        cluster.nodes =
            nodes(&text).ok_or_else(|| format!("no nodes in the ready file: {text}"))?;
        match cluster.nodes.len() == count {
            true => Ok(cluster),
            false => Err(format!("not {count} nodes: {text}")),
        }
    }

    fn wait_ready(&mut self, ready: &Path) -> Result<String, String> {
        let begin = now();
        while begin.elapsed() < START_MAX {
            if let Ok(text) = fs::read_to_string(ready) {
                return Ok(text);
            }
            match self.demo.try_wait() {
                Ok(None) => pause(LOOK_EVERY),
                Ok(Some(status)) => {
                    let tail = self.place.log_tail();
                    return Err(format!("the demo ended at its start: {status}\n{tail}"));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("the demo does not serve after {} s", START_MAX.as_secs()))
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn doors(&self) -> Vec<Door> {
        self.nodes.iter().map(|node| node.door.clone()).collect()
    }

    /// What a node says of itself, if it answers; an error when its process ended unasked.
    pub(super) fn view(&mut self, which: usize) -> Result<Option<View>, String> {
        let node = self.node(which)?;
        if node.has_ended()? {
            return Err(format!("node {} ended without being killed; {}", node.id, node.tail()));
        }
        Ok(node.view())
    }

    /// Kills a node and waits until it is gone.
    pub(super) fn kill(&mut self, which: usize) -> Result<(), String> {
        self.node(which)?.kill()
    }

    /// Starts a node that was killed, without waiting for it.
    pub(super) fn start_again(&mut self, which: usize) -> Result<(), String> {
        let mut command = Command::new(&self.place.roster);
        command.envs(self.place.environment.iter().map(|(name, value)| (name, value)));
        let node = self.node(which)?;
        let ready = node.data.with_extension("ready");
        command.args(["serve", "--end-with-parent", "--data"]).arg(&node.data);
        command.arg("--ready-file").arg(ready);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log_file(&node.data.with_extension("log"))?);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        node.process = Process::Own(child);
        Ok(())
    }

    /// Stops a node's process for a while, as a machine that does not respond.
    pub(super) fn freeze(&mut self, which: usize) -> Result<(), String> {
        self.node(which)?.signal("-STOP")
    }

    /// Lets it go on.
    pub(super) fn thaw(&mut self, which: usize) -> Result<(), String> {
        self.node(which)?.signal("-CONT")
    }

    /// Everything below the suffix, as a node has it.
    pub(super) fn tree(&mut self, which: usize) -> Result<Tree, String> {
        let node = self.node(which)?;
        let search = Search {
            base: SUFFIX.to_owned(),
            scope: 2,
            filter: "(objectClass=*)".to_owned(),
            attributes: vec!["*".to_owned(), "+".to_owned()],
        };
        let tree = node.door.enter().and_then(|mut client| client.search_tree(&search));
        tree.map_err(|error| format!("node {}: {error}", node.id))
    }

    /// Asks every node to end, and waits for it; how those ended that were started from here.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        for node in &mut self.nodes {
            node.client = None;
            node.signal("-TERM")?;
        }
        let mut wrong = Vec::new();
        for node in &mut self.nodes {
            match node.wait_end() {
                Ok(Some(status)) if !status.success() => {
                    wrong.push(format!("node {} stopped with {status}; {}", node.id, node.tail()));
                }
                Ok(_) => node.process = Process::Killed,
                Err(error) => wrong.push(error),
            }
        }
        send("-TERM", self.demo.id())?;
        match wait(&mut self.demo) {
            Ok(status) if status.success() => {}
            Ok(status) => wrong.push(format!("the demo stopped with {status}")),
            Err(error) => wrong.push(error),
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Checks the files of every node; an error for what is not clean.
    pub(super) fn check(&self) -> Result<(), String> {
        for node in &self.nodes {
            let log = node.data.with_extension("check");
            let mut command = Command::new(&self.place.roster);
            command.args(["check", "--data"]).arg(&node.data).stdin(Stdio::null());
            command.stdout(log_file(&log)?).stderr(log_file(&log)?);
            let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
            let status = wait(&mut child).inspect_err(|_| drop(child.kill()))?;
            if !status.success() {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let first: Vec<&str> = text.lines().take(CHECK_LINES).collect();
                let (id, first, all) = (node.id, first.join("\n"), log.display());
                return Err(format!("node {id}: check: {status}\n{first}\nall of it: {all}"));
            }
        }
        Ok(())
    }

    fn node(&mut self, which: usize) -> Result<&mut Node, String> {
        self.nodes.get_mut(which).ok_or_else(|| format!("there is no node at {which}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
        }
        let _ = self.demo.kill();
        let _ = self.demo.wait();
    }
}

impl Node {
    fn pid(&self) -> Option<u32> {
        match &self.process {
            Process::OfDemo(pid) => Some(*pid),
            Process::Own(child) => Some(child.id()),
            Process::Killed => None,
        }
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let pid = self.pid().filter(|pid| serves(*pid, &self.data));
        match pid {
            Some(pid) => send(signal, pid),
            None => Err(format!("node {} does not run; {}", self.id, self.tail())),
        }
    }

    fn kill(&mut self) -> Result<(), String> {
        self.client = None;
        if matches!(self.process, Process::Killed) {
            return Ok(());
        }
        let sent = self.signal("-KILL");
        let ended = self.wait_end();
        self.process = Process::Killed;
        sent.and(ended.map(drop))
    }

    /// Waits until the process is gone; how it ended, where that is known.
    fn wait_end(&mut self) -> Result<Option<ExitStatus>, String> {
        match &mut self.process {
            Process::Own(child) => wait(child).map(Some),
            Process::OfDemo(pid) => {
                let begin = now();
                while serves(*pid, &self.data) {
                    if begin.elapsed() > END_MAX {
                        return Err(format!("node {} does not end", self.id));
                    }
                    pause(LOOK_EVERY);
                }
                Ok(None)
            }
            Process::Killed => Ok(None),
        }
    }

    fn has_ended(&mut self) -> Result<bool, String> {
        match &mut self.process {
            Process::Own(child) => match child.try_wait() {
                Ok(status) => Ok(status.is_some()),
                Err(error) => Err(error.to_string()),
            },
            Process::OfDemo(pid) => Ok(!serves(*pid, &self.data)),
            Process::Killed => Ok(false),
        }
    }

    fn view(&mut self) -> Option<View> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.door.enter().ok()?,
        };
        let search = Search {
            base: "cn=cluster,cn=monitor".to_owned(),
            scope: 0,
            filter: "(objectClass=*)".to_owned(),
            attributes: Vec::new(),
        };
        // A connection that fails is not used again.
        let found = client.search(&search).ok()?;
        let (_, attributes) = found.entries.into_iter().next()?;
        self.client = Some(client);
        let text = |name: &str| attributes.get(&format!("roster-cluster-{name}"))?.first().cloned();
        let number = |name: &str| text(name)?.parse().ok();
        Some(View {
            role: text("role")?,
            term: number("term")?,
            applied_lsn: number("applied-lsn")?,
            committed_index: number("committed-index")?,
            last_index: number("last-index")?,
            error: text("error"),
        })
    }

    /// The end of its log, in words.
    fn tail(&self) -> String {
        let text = fs::read(self.data.with_extension("log")).unwrap_or_default();
        let from = text.len().saturating_sub(LOG_TAIL_BYTES);
        let tail = String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned();
        format!("its log ends with:\n{tail}")
    }
}

/// The nodes that a ready file names, in lines such as `node 2 ldap 127.0.0.1:1390 pid 4711 data
/// PATH role follower`.
fn nodes(text: &str) -> Option<Vec<Node>> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let (dn, password) = (value("admin_dn ")?, value("admin_password ")?);
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("node ")) {
        let (id, rest) = line.split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        let words: BTreeMap<&str, &str> =
            words.chunks(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
        let address = words.get("ldap")?.parse().ok()?;
        found.push(Node {
            id: id.parse().ok()?,
            door: Door { address, dn: dn.to_owned(), password: password.to_owned() },
            data: PathBuf::from(words.get("data")?),
            process: Process::OfDemo(words.get("pid")?.parse().ok()?),
            client: None,
        });
    }
    Some(found)
}

/// Whether a process runs that serves these data: its number may be another's by now.
fn serves(pid: u32, data: &Path) -> bool {
    // What has ended and is not waited for has no arguments any more.
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let data = data.as_os_str().as_encoded_bytes();
    words.split(|octet| *octet == 0).any(|word| word == data)
}

fn send(signal: &str, pid: u32) -> Result<(), String> {
    match Command::new("kill").args([signal, &pid.to_string()]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("kill {signal} {pid}: {status}")),
        Err(error) => Err(format!("kill: {error}")),
    }
}

/// Waits for the end of a process that was started from here.
fn wait(child: &mut Child) -> Result<ExitStatus, String> {
    let begin = now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if begin.elapsed() > END_MAX => {
                let (pid, limit) = (child.id(), END_MAX.as_secs());
                return Err(format!("process {pid} has not ended after {limit} s"));
            }
            Ok(None) => pause(LOOK_EVERY),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn log_file(path: &Path) -> Result<fs::File, String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.map_err(|error| format!("{}: {error}", path.display()))
}

/// People that are there from the start.
const ENTRIES: &str = "500";
/// How long a node may take for one answer; longer than one is frozen.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long the demo may take until all its nodes serve.
const START_MAX: Duration = Duration::from_secs(120);
/// How long a process may take to end, or to check its files.
const END_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How much of what a check says is told.
const CHECK_LINES: usize = 10;
/// How much of a log is told.
const LOG_TAIL_BYTES: usize = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_file_names_the_nodes() {
        let text = "ldap 127.0.0.1:1\nnode 1 ldap 127.0.0.1:1 pid 5 data /a/node1 role leader\n\
                    node 2 ldap 127.0.0.1:2 pid 6 data /a/node2 role follower\n\
                    admin_dn cn=Directory Manager\nadmin_password x y\n";
        let found = nodes(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].id, found[1].pid()), (2, Some(6)));
        assert_eq!(found[1].data, Path::new("/a/node2"));
        assert_eq!(found[1].door.password, "x y");
        assert!(nodes("node 1 ldap 127.0.0.1:1\nadmin_dn a\nadmin_password b\n").is_none());
        // This process serves nothing, whatever its number.
        let forgotten = std::mem::take(&mut found.into_iter().collect::<Vec<_>>());
        assert!(!serves(std::process::id(), &forgotten[0].data));
    }
}
