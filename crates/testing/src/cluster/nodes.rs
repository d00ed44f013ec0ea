//! The servers of a cluster as processes: how they are made and first started is in `setup`; what
//! was killed is started again from here.
//!
//! Invariant: signals go to processes that were started from here, or that the demo's ready file
//! names and that still serve the data it names. Every wait has a limit.

mod members;
mod setup;

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

pub(super) use self::members::Member;
pub(super) use self::setup::Wanted;
use super::clock::Clocks;
use super::disks::Disks;
use super::medium::Media;
use super::network::Network;
use super::tools::run;
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
    /// Its number in the cluster.
    pub(super) member: u64,
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
    /// The password of the administrator.
    password: PathBuf,
    /// What started them at first, where that is the demo.
    demo: Option<Child>,
    nodes: Vec<Node>,
    clocks: Option<Clocks>,
    media: Option<Media>,
    disks: Option<Disks>,
    /// Where each node is in a namespace of its own.
    network: Option<Network>,
}

#[derive(Debug)]
struct Node {
    id: u64,
    door: Door,
    data: PathBuf,
    /// The program that it runs from its next start on.
    program: PathBuf,
    /// Settings of its own.
    environment: Vec<(String, String)>,
    process: Process,
    /// Kept from one look to the next.
    client: Option<Client>,
    /// The highest LSN this process has shown as applied.
    shown_lsn: u64,
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
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Where everything of this cluster is.
    pub(super) fn folder(&self) -> &Path {
        &self.place.folder
    }

    pub(super) fn doors(&self) -> Vec<Door> {
        self.nodes.iter().map(|node| node.door.clone()).collect()
    }

    pub(super) fn door(&self, which: usize) -> Result<&Door, String> {
        self.get(which).map(|node| &node.door)
    }

    /// The data directory of a node.
    pub(super) fn data(&self, which: usize) -> Result<PathBuf, String> {
        self.get(which).map(|node| node.data.clone())
    }

    /// The number of a node in the cluster: a machine that joins gets another one.
    pub(super) fn id(&self, which: usize) -> Result<u64, String> {
        self.get(which).map(|node| node.id)
    }

    pub(super) fn network(&self) -> Result<&Network, String> {
        self.network.as_ref().ok_or_else(|| "the nodes are in no namespaces".to_owned())
    }

    pub(super) fn disks(&self) -> Result<&Disks, String> {
        self.disks.as_ref().ok_or_else(|| "the nodes have no disks of their own".to_owned())
    }

    pub(super) fn clocks(&self) -> Result<&Clocks, String> {
        self.clocks.as_ref().ok_or_else(|| "the nodes have no clocks of their own".to_owned())
    }

    pub(super) fn media(&self) -> Result<&Media, String> {
        self.media.as_ref().ok_or_else(|| "the nodes have no media of their own".to_owned())
    }

    /// What a node says of itself, if it answers; an error when its process ended unasked.
    pub(super) fn view(&mut self, which: usize) -> Result<Option<View>, String> {
        let node = self.node(which)?;
        if node.has_ended()? {
            return Err(format!("node {} ended without being killed; {}", node.id, node.tail()));
        }
        let view = node.view();
        let applied = view.as_ref().map_or(node.shown_lsn, |view| view.applied_lsn);
        if applied < node.shown_lsn {
            let (id, shown) = (node.id, node.shown_lsn);
            return Err(format!("node {id} went back from LSN {shown} to {applied}"));
        }
        node.shown_lsn = applied;
        Ok(view)
    }

    /// If the process of a node has ended by itself: the end of its log. From then on it counts as
    /// one that was killed.
    pub(super) fn ended(&mut self, which: usize) -> Result<Option<String>, String> {
        let node = self.node(which)?;
        if !node.has_ended()? {
            return Ok(None);
        }
        node.wait_end()?;
        node.process = Process::Killed;
        Ok(Some(node.tail()))
    }

    /// Kills a node and waits until it is gone.
    pub(super) fn kill(&mut self, which: usize) -> Result<(), String> {
        self.node(which)?.kill()
    }

    /// Kills nodes in one moment, as far as that goes, and waits until they are gone.
    pub(super) fn kill_together(&mut self, nodes: &[usize]) -> Result<(), String> {
        let mut pids = Vec::new();
        for which in nodes {
            let node = self.node(*which)?;
            let pid = node.pid().filter(|pid| serves(*pid, &node.data));
            pids.extend(pid.map(|pid| pid.to_string()));
        }
        let pids: Vec<&str> = pids.iter().map(String::as_str).collect();
        run("kill", &[&["-KILL"][..], &pids].concat())?;
        nodes.iter().try_for_each(|which| self.node(*which)?.ended_by_signal())
    }

    /// A command that runs a program on the machine of a node: in its network, on its medium, with
    /// its clock and settings.
    fn on_machine(&self, which: usize, program: &Path) -> Result<Command, String> {
        let mut command = match self.network {
            Some(_) => Network::command(which, program),
            None => Command::new(program),
        };
        command.envs(self.place.environment.iter().map(|(name, value)| (name, value)));
        if let Some(clocks) = &self.clocks {
            clocks.give(which, &mut command);
        }
        if let Some(media) = &self.media {
            media.give(which, &mut command);
        }
        let node = self.get(which)?;
        command.envs(node.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log_file(&node.data.with_extension("log"))?);
        Ok(command)
    }

    /// Starts a node that was killed, without waiting for it.
    pub(super) fn start_again(&mut self, which: usize) -> Result<(), String> {
        let program = self.get(which)?.program.clone();
        let mut command = self.on_machine(which, &program)?;
        let node = self.node(which)?;
        let ready = node.data.with_extension("ready");
        command.args(["serve", "--end-with-parent", "--data"]).arg(&node.data);
        command.arg("--ready-file").arg(ready);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let pid = child.id();
        node.process = Process::Own(child);
        node.shown_lsn = 0;
        self.disks.as_ref().map_or(Ok(()), |disks| disks.confine(which, pid))
    }

    /// Stops a node's process for a while, as a machine that does not respond.
    pub(super) fn freeze(&mut self, which: usize) -> Result<(), String> {
        self.node(which)?.signal("-STOP")
    }

    /// How many flushes to the database have failed at a node, if it says so.
    pub(super) fn failed_flushes(&self, which: usize) -> Result<Option<u64>, String> {
        let search = Search {
            base: "cn=monitor".to_owned(),
            scope: 2,
            filter: format!("({FAILED_FLUSHES}=*)"),
            attributes: Vec::new(),
        };
        let found = self.door(which)?.enter().and_then(|mut client| client.search(&search));
        let entries = found.map(|found| found.entries).unwrap_or_default();
        let mut values = entries
            .iter()
            .filter_map(|(_, attributes)| attributes.get(FAILED_FLUSHES)?.first()?.parse().ok());
        Ok(values.next())
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
        if let Some(demo) = &mut self.demo {
            send("-TERM", demo.id())?;
            match wait(demo) {
                Ok(status) if status.success() => {}
                Ok(status) => wrong.push(format!("the demo stopped with {status}")),
                Err(error) => wrong.push(error),
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Checks the files of every node; an error for what is not clean.
    pub(super) fn check(&self) -> Result<(), String> {
        for node in &self.nodes {
            let log = node.data.with_extension("check");
            let mut command = Command::new(&node.program);
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

    fn get(&self, which: usize) -> Result<&Node, String> {
        self.nodes.get(which).ok_or_else(|| format!("there is no node at {which}"))
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
        if let Some(demo) = &mut self.demo {
            let _ = demo.kill();
            let _ = demo.wait();
        }
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
        sent.and(self.ended_by_signal())
    }

    /// Waits for the end of what was sent the signal that ends it.
    fn ended_by_signal(&mut self) -> Result<(), String> {
        self.client = None;
        let ended = self.wait_end();
        self.process = Process::Killed;
        ended.map(drop)
    }

    /// Waits until the process is gone; how it ended, where that is known.
    fn wait_end(&mut self) -> Result<Option<ExitStatus>, String> {
        match &mut self.process {
            Process::Own(child) => wait(child).map(Some),
            Process::OfDemo(pid) => {
                let begin = now();
                while !is_gone(*pid, &self.data) {
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
            Process::OfDemo(pid) => Ok(is_gone(*pid, &self.data)),
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
            member: number("member")?,
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

/// Whether a process runs that serves these data: its number may be another's by now.
fn serves(pid: u32, data: &Path) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let data = data.as_os_str().as_encoded_bytes();
    words.split(|octet| *octet == 0).any(|word| word == data)
}

/// Whether the process that served these data has given up all it had: ports and locks, too. Its
/// arguments are gone before that, and its first thread may have ended before others.
fn is_gone(pid: u32, data: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(text) = fs::read_to_string(process.join("stat")) else { return true };
    // The name of the program stands in brackets and may have any character.
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    let has_ended = matches!(state, Some("Z" | "X"))
        && fs::read_dir(process.join("task")).map_or(0, Iterator::count) <= 1;
    let is_another = fs::read(process.join("cmdline")).is_ok_and(|words| !words.is_empty())
        && !serves(pid, data);
    has_ended || is_another
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

/// The attribute that counts flushes that failed.
const FAILED_FLUSHES: &str = "roster-flush-failures";
/// How long a node may take for one answer; longer than one is frozen.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a process may take to end, or to check its files.
const END_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How much of what a check says is told.
const CHECK_LINES: usize = 10;
/// How much of a log is told.
const LOG_TAIL_BYTES: usize = 3000;
