//! The network of a cluster on one machine: each node in a network namespace of its own, all on a
//! bridge. Clients are on the side of the bridge, so what is dropped between nodes reaches no
//! client.
//!
//! Invariant: one run has these names at a time. What an earlier run left is removed first, its
//! processes too: all processes in the namespaces were started by it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::tools::run;
use crate::crash::server::{now, pause};

/// One direction between two nodes, counted from 0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Namespaces, links and the bridge. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Network {
    count: usize,
    /// Locked while these names are ours.
    _lock: File,
}

impl Network {
    /// Makes a network for so many nodes.
    pub(super) fn set_up(count: usize) -> Result<Self, String> {
        let lock = lock()?;
        tear_down()?;
        // From here on it is removed when something fails.
        let network = Self { count, _lock: lock };
        run("ip", &["link", "add", BRIDGE, "type", "bridge"])?;
        run("ip", &["address", "add", &format!("{}/24", address(CLIENTS)), "dev", BRIDGE])?;
        run("ip", &["link", "set", BRIDGE, "up"])?;
        for which in 0..count {
            add_node(which)?;
        }
        Ok(network)
    }

    /// Where a node is.
    pub(super) fn address(which: usize) -> IpAddr {
        address(which + 1)
    }

    /// A command that runs a program in the namespace of a node, as the process that is started.
    pub(super) fn command(which: usize, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(in_namespace(which)).arg(program);
        command
    }

    /// Drops all packets on these links, and no others.
    pub(super) fn cut(&self, links: &BTreeSet<Link>) -> Result<(), String> {
        for to in 0..self.count {
            let from: Vec<String> = links
                .iter()
                .filter(|link| link.to == to)
                .map(|link| address(link.from + 1).to_string())
                .collect();
            let rule = match from.is_empty() {
                true => String::new(),
                false => format!("{RULE} ip saddr {{ {} }} drop", from.join(", ")),
            };
            filter(to, &rule)?;
        }
        Ok(())
    }

    /// Drops so many of a hundred packets between nodes, at random.
    pub(super) fn lose(&self, percent: u64) -> Result<(), String> {
        let clients = address(CLIENTS);
        for to in 0..self.count {
            let lost = format!("numgen random mod 100 < {percent} drop");
            filter(to, &format!("{RULE} ip saddr != {clients} iifname != \"lo\" {lost}"))?;
        }
        Ok(())
    }

    /// Drops nothing any more.
    pub(super) fn heal(&self) -> Result<(), String> {
        self.cut(&BTreeSet::new())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next run, which says so if it cannot, either.
        let _ = tear_down();
    }
}

fn add_node(which: usize) -> Result<(), String> {
    let (namespace, link) = (namespace(which), link(which));
    run("ip", &["netns", "add", &namespace])?;
    let peer = ["type", "veth", "peer", "name", DEVICE, "netns", &namespace];
    run("ip", &[&["link", "add", &link][..], &peer].concat())?;
    run("ip", &["link", "set", &link, "master", BRIDGE, "up"])?;
    let inside = ["-n", &namespace];
    let address = format!("{}/24", address(which + 1));
    run("ip", &[&inside[..], &["address", "add", &address, "dev", DEVICE]].concat())?;
    run("ip", &[&inside[..], &["link", "set", DEVICE, "up"]].concat())?;
    run("ip", &[&inside[..], &["link", "set", "lo", "up"]].concat())?;
    let chain = "{ type filter hook input priority 0; policy accept; }";
    let table = format!("add table inet faults; add chain inet faults input {chain}");
    run("nsenter", &[&in_namespace(which), "nft", &table]).map(drop)
}

/// Replaces all rules of a node by one, or by none, at once.
fn filter(which: usize, rule: &str) -> Result<(), String> {
    let rules = format!("flush chain inet faults input; {rule}");
    run("nsenter", &[&in_namespace(which), "nft", &rules]).map(drop)
}

/// Removes what a run made; nothing is there that is not removed.
fn tear_down() -> Result<(), String> {
    let listed = |folder: &str, start: &str| -> Vec<String> {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(start)).collect()
    };
    let namespaces = listed(NAMESPACES, NAMESPACE);
    for namespace in &namespaces {
        end_processes(namespace)?;
    }
    // A namespace gives its end of a link back some time after it is gone.
    for link in listed("/sys/class/net", LINK) {
        run("ip", &["link", "delete", &link])?;
    }
    for namespace in &namespaces {
        run("ip", &["netns", "delete", namespace])?;
    }
    match listed("/sys/class/net", BRIDGE).is_empty() {
        true => Ok(()),
        false => run("ip", &["link", "delete", BRIDGE]).map(drop),
    }
}

fn end_processes(namespace: &str) -> Result<(), String> {
    let begin = now();
    loop {
        let processes = run("ip", &["netns", "pids", namespace])?;
        if processes.trim().is_empty() {
            return Ok(());
        }
        if begin.elapsed() > END_MAX {
            return Err(format!("processes in {namespace} do not end: {processes}"));
        }
        for process in processes.split_whitespace() {
            // It may be gone by now.
            let _ = run("kill", &["-KILL", process]);
        }
        pause(LOOK_EVERY);
    }
}

fn lock() -> Result<File, String> {
    let file = File::create(LOCK).map_err(|error| format!("{LOCK}: {error}"))?;
    file.try_lock().map_err(|error| {
        format!("another run has the network namespaces of this machine: {LOCK}: {error}")
    })?;
    Ok(file)
}

fn namespace(which: usize) -> String {
    format!("{NAMESPACE}{}", which + 1)
}

fn in_namespace(which: usize) -> String {
    format!("--net={NAMESPACES}/{}", namespace(which))
}

fn link(which: usize) -> String {
    format!("{LINK}{}", which + 1)
}

fn address(last: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, last as u8))
}

/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";
/// Locked while a run has these names.
const LOCK: &str = "/run/roster-cluster.lock";
/// Names of namespaces begin with it.
const NAMESPACE: &str = "roster-node";
/// Names of links begin with it, on the side of the bridge.
const LINK: &str = "roster-veth";
/// The name of a link within a namespace.
const DEVICE: &str = "eth0";
/// The bridge.
const BRIDGE: &str = "roster-bridge";
/// The last number of the address of clients.
const CLIENTS: usize = 254;
/// What adds a rule.
const RULE: &str = "add rule inet faults input";
/// How long processes of an earlier run may take to end.
const END_MAX: Duration = Duration::from_secs(20);
/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(20);
