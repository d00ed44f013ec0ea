//! Several servers on this machine, a process each, that are one cluster: what `roster demo
//! --nodes` starts, watches and ends.
//!
//! Start at `process.rs`, one of them; `ports.rs` has where they listen.
//!
//! Invariant: a process that was started here is ended here, or it is said that it did not end.

mod ports;
mod process;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use directory::JoinPart;
use environment::{Clock as _, SystemClock};
use server::Settings;

pub(crate) use self::ports::plan;
use self::process::{Ended, Node};
use crate::cluster_setup::NewMember;
use crate::cluster_status::ClusterView;
use crate::commands::cluster_join::{Place, make_token};
use crate::failure::Failure;
use crate::interrupt::Ending;
use crate::output;
use crate::progress;
use crate::table::{Side, Table};

/// The servers.
pub(crate) struct Nodes {
    nodes: Vec<Node>,
}

/// The data directories of the nodes below `base`, if there are any, in the order in which they
/// joined.
pub(crate) fn data_directories(base: &Path) -> Vec<PathBuf> {
    let all = (1u64..).map(|number| data_directory(base, number));
    all.take_while(|path| path.is_dir()).collect()
}

/// The data directory of a node, counted from 1.
pub(crate) fn data_directory(base: &Path, number: u64) -> PathBuf {
    base.join(format!("node{number}"))
}

impl Nodes {
    /// Starts a server for each data directory below `base`, and waits until all serve and one of
    /// them leads.
    ///
    /// # Errors
    /// When one of them ends, or it takes too long. Those that were started are ended.
    pub(crate) fn start(base: &Path, ending: &Ending) -> Result<Self, Failure> {
        let mut started = Self { nodes: Vec::new() };
        for data in data_directories(base) {
            started.add(data)?;
        }
        started.ready(ending)?;
        Ok(started)
    }

    /// Starts the server of another data directory.
    fn add(&mut self, data: PathBuf) -> Result<(), Failure> {
        let own = [("server.data", data.display().to_string())];
        let settings = Settings::load(None, std::iter::empty(), &own)?;
        self.nodes.push(Node::start(data, &settings)?);
        Ok(())
    }

    /// Has further machines join the cluster of the first server, each with a token of its own, and
    /// waits until all are voters.
    ///
    /// # Errors
    /// As [`Self::start`] and `roster cluster join`.
    pub(crate) fn grow(&mut self, machines: &[NewMember], ending: &Ending) -> Result<(), Failure> {
        for machine in machines {
            let Some(first) = self.nodes.first() else { return Ok(()) };
            let url = format!("ldap://{}", first.ldap());
            let (token, _) =
                make_token(&mut first.connect()?, url, JoinPart::Voter, TOKEN_VALID_S)?;
            let place = Place::ask_for(&token, machine, None)?;
            place.fill(&|| ending.is_asked())?;
            self.add(machine.data.clone())?;
            self.ready(ending)?;
        }
        let all = |view: &ClusterView| self.nodes.iter().all(|node| view.has_voter(node.id()));
        let clock = SystemClock::new();
        let begin = clock.elapsed();
        while !self.view().as_ref().is_some_and(all) {
            if ending.is_asked() {
                return Err(Failure::interrupted("interrupted"));
            }
            if clock.elapsed() - begin > START_MAX {
                let what = format!("not all servers vote after {} s", START_MAX.as_secs());
                return Err(Failure::local(what).hint("'roster cluster status' says what hinders"));
            }
            thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    /// Waits until all that were started serve and one of them leads.
    fn ready(&mut self, ending: &Ending) -> Result<(), Failure> {
        let bar = progress::bar(Some(self.nodes.len() as u64), "servers");
        bar.set_message("starting");
        let waited = self.wait(ending, &mut |serving| bar.set_position(serving));
        bar.finish_and_clear();
        waited
    }

    /// Waits until all serve and one leads; tells how many serve.
    fn wait(&mut self, ending: &Ending, serving: &mut dyn FnMut(u64)) -> Result<(), Failure> {
        let clock = SystemClock::new();
        let begin = clock.elapsed();
        loop {
            if ending.is_asked() {
                return Err(Failure::interrupted("interrupted"));
            }
            for node in &mut self.nodes {
                if let Some(ended) = node.ended() {
                    return Err(node.did_not_start(&ended));
                }
            }
            let ready =
                self.nodes.iter_mut().filter_map(|node| node.is_serving().then_some(())).count();
            serving(ready as u64);
            if ready == self.nodes.len() && self.view().is_some_and(|view| view.leader().is_some())
            {
                return Ok(());
            }
            if clock.elapsed() - begin > START_MAX {
                let what = if ready < self.nodes.len() {
                    "not all servers serve"
                } else {
                    "no server leads"
                };
                let logs = self.nodes.first().map(|node| node.log().display().to_string());
                return Err(Failure::local(format!("{what} after {} s", START_MAX.as_secs()))
                    .hint(format!("see {} and those beside it", logs.unwrap_or_default())));
            }
            thread::park_timeout(LOOK_EVERY);
        }
    }

    /// What the first of them that answers says of the cluster.
    fn view(&self) -> Option<ClusterView> {
        self.nodes.iter().find_map(Node::view)
    }

    /// The servers as a table, and their lines for the ready file.
    pub(crate) fn table(&self) -> (Table, Vec<(&'static str, String)>) {
        let view = self.view();
        let mut table = Table::new(&[
            ("node", Side::Right),
            ("LDAP", Side::Left),
            ("pid", Side::Right),
            ("role", Side::Left),
            ("data", Side::Left),
        ]);
        let mut lines = Vec::new();
        for node in &self.nodes {
            let role = view.as_ref().and_then(|view| view.role_of(node.id())).unwrap_or("unknown");
            let (id, pid, data) = (node.id(), node.pid(), node.data().display());
            let address = node.ldap();
            table.row(vec![
                id.to_string(),
                format!("ldap://{address}"),
                pid.to_string(),
                role.to_owned(),
                data.to_string(),
            ]);
            let text = format!("{id} ldap {address} pid {pid} data {data} role {role}");
            lines.push(("node", text));
        }
        (table, lines)
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<&Node> {
        self.nodes.first()
    }

    /// The last of them.
    pub(crate) fn last(&self) -> Option<&Node> {
        self.nodes.last()
    }

    /// Waits for the end; says when one of the servers ends meanwhile, and how to start it again.
    pub(crate) fn watch(&mut self, ending: &Ending) -> Result<(), Failure> {
        while !ending.is_asked() {
            for node in &mut self.nodes {
                if let Some(ended) = node.ends_now() {
                    node.tell(&ended)?;
                }
            }
            thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    /// Ends all of them, and those that somebody started again on the same data; says which have
    /// not ended. Whether all have.
    pub(crate) fn stop(&mut self) -> bool {
        let has_ended = self.end();
        self.nodes.clear();
        has_ended
    }

    fn end(&mut self) -> bool {
        self.nodes.iter_mut().for_each(Node::ask_to_end);
        let clock = SystemClock::new();
        let begin = clock.elapsed();
        loop {
            let running: Vec<&mut Node> = self
                .nodes
                .iter_mut()
                .filter_map(|node| node.is_running().then_some(node))
                .collect();
            if running.is_empty() {
                return true;
            }
            if clock.elapsed() - begin > END_MAX {
                for node in running {
                    output::note(format_args!(
                        "roster: note: node {} (pid {}) has not ended after {} s",
                        node.id(),
                        node.pid(),
                        END_MAX.as_secs()
                    ));
                }
                return false;
            }
            thread::park_timeout(LOOK_EVERY);
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How a process ended, in words.
fn how(ended: &Ended) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (ended.0.signal(), ended.0.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(0)) => "ended".to_owned(),
        (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
    }
}

/// How long a token can be used by which a server joins that is made here, in seconds.
const TOKEN_VALID_S: u64 = 3_600;
/// How long servers may take until all serve and one leads.
const START_MAX: Duration = Duration::from_secs(300);
/// How long they may take to end.
const END_MAX: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
