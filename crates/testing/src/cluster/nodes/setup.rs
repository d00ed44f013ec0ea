//! Making a cluster: `roster demo --nodes`, all on loopback, or `roster cluster init`, each node in
//! a network namespace of its own and, where that is wanted, on a disk of its own.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::{Cluster, Door, LOOK_EVERY, Node, Process, log_file};
use crate::cluster::clock::Clocks;
use crate::cluster::disks::{self, Disks};
use crate::cluster::medium::Media;
use crate::cluster::network::Network;
use crate::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, SUFFIX, now, pause};

/// What a cluster is to have.
#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct Wanted {
    /// How many nodes.
    pub(in crate::cluster) count: usize,
    /// Each in a network namespace of its own; else all are on loopback.
    pub(in crate::cluster) networks: bool,
    /// Each on a disk of its own; only in namespaces.
    pub(in crate::cluster) disks: bool,
    /// Each with a clock of its own.
    pub(in crate::cluster) clocks: bool,
    /// Each on a medium that forgets what is not synced.
    pub(in crate::cluster) media: bool,
    /// Syncs of those media do nothing.
    pub(in crate::cluster) lies: bool,
}

impl Cluster {
    /// Makes a cluster below the place's folder, and starts it.
    pub(in crate::cluster) fn start(place: &Place, wanted: Wanted) -> Result<Self, String> {
        fs::create_dir_all(&place.folder)
            .map_err(|error| format!("{}: {error}", place.folder.display()))?;
        let mut cluster = Self {
            place: place.clone(),
            password: place.folder.join("admin"),
            demo: None,
            nodes: Vec::new(),
            clocks: None,
            media: None,
            disks: None,
            network: None,
        };
        if wanted.clocks {
            cluster.clocks = Some(Clocks::set_up(&place.folder, wanted.count)?);
        }
        if wanted.networks {
            cluster.start_in_namespaces(wanted)?;
        } else {
            cluster.start_demo(wanted.count)?;
            if wanted.clocks || wanted.media {
                // The demo gives its environment to all of them.
                (0..wanted.count).try_for_each(|which| cluster.kill(which))?;
                cluster.make_media(wanted)?;
                (0..wanted.count).try_for_each(|which| cluster.start_again(which))?;
            }
        }
        let password = &cluster.door(0)?.password;
        fs::write(&cluster.password, password)
            .map_err(|error| format!("{}: {error}", cluster.password.display()))?;
        Ok(cluster)
    }

    /// Puts the nodes, none of which runs, on media that forget.
    fn make_media(&mut self, wanted: Wanted) -> Result<(), String> {
        if !wanted.media {
            return Ok(());
        }
        let directories = self.directories();
        self.media = Some(Media::set_up(&self.place.folder, &directories, wanted.lies)?);
        for node in &mut self.nodes {
            // Flushes come often, so that power is lost and syncs fail in the midst of one.
            let small = ("ROSTER_STORE__OVERLAY_MAX_MIB".to_owned(), OVERLAY_MIB.to_owned());
            node.environment.push(small);
        }
        Ok(())
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.data.clone()).collect()
    }

    fn start_demo(&mut self, count: usize) -> Result<(), String> {
        let ready = self.place.folder.join("ready");
        let log = log_file(&self.place.folder.join("log"))?;
        let count_text = count.to_string();
        let mut command = self.place.command(&["demo", "-n", ENTRIES, "--nodes", &count_text]);
        // Others may run one, too: any ports that are free.
        command.args(["--ldap", ANY, "--ldaps", ANY]);
        command.arg("--ready-file").arg(&ready).stdout(Stdio::null()).stderr(log);
        let demo = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        self.demo = Some(demo);
        let text = self.wait_ready(&ready)?;
        let program = &self.place.roster;
        self.nodes =
            nodes(&text, program).ok_or_else(|| format!("no nodes in the ready file: {text}"))?;
        match self.nodes.len() == count {
            true => Ok(()),
            false => Err(format!("not {count} nodes: {text}")),
        }
    }

    fn wait_ready(&mut self, ready: &Path) -> Result<String, String> {
        let begin = now();
        while begin.elapsed() < START_MAX {
            if let Ok(text) = fs::read_to_string(ready) {
                return Ok(text);
            }
            match self.demo.as_mut().map_or(Ok(None), std::process::Child::try_wait) {
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

    fn start_in_namespaces(&mut self, wanted: Wanted) -> Result<(), String> {
        self.network = Some(Network::set_up(wanted.count)?);
        disks::tear_down()?;
        let folder = self.place.folder.join(disks::FOLDER);
        self.make_members(&folder, wanted.count)?;
        self.nodes =
            (0..wanted.count).map(|which| member(&folder, &self.place.roster, which)).collect();
        if wanted.disks {
            self.disks = Some(Disks::set_up(&self.directories())?);
            for (node, limit) in self.nodes.iter_mut().zip(DISK_FULL_MIB.into_iter().cycle()) {
                for name in ["ROSTER_STORE__DISK_LOW_MIB", "ROSTER_STORE__DISK_FULL_MIB"] {
                    node.environment.push((name.to_owned(), limit.to_owned()));
                }
            }
        }
        self.make_media(wanted)?;
        (0..wanted.count).try_for_each(|which| self.start_again(which))
    }

    /// Makes a data directory with a few entries, and members out of it.
    fn make_members(&self, folder: &Path, count: usize) -> Result<(), String> {
        let place = &self.place;
        place.init()?;
        let entries = place.folder.join("entries.ldif");
        fs::write(&entries, ldif()).map_err(|error| format!("{}: {error}", entries.display()))?;
        place.offline(&["import", &entries.display().to_string()])?;
        let out = folder.display().to_string();
        let members: Vec<String> = (0..count)
            .map(|which| {
                let (id, address) = (which + 1, Network::address(which));
                format!("{id} {address}:{MEMBER_PORT} ldap://{address}:{LDAP_PORT}")
            })
            .collect();
        let mut words = vec!["cluster", "init", "--out", &out];
        words.extend(members.iter().flat_map(|member| ["--member", member.as_str()]));
        place.offline(&words).map(drop)
    }
}

/// A member that was made there.
fn member(folder: &Path, program: &Path, which: usize) -> Node {
    let id = which as u64 + 1;
    let environment = vec![
        ("ROSTER_CLUSTER__WRITE_WAIT_MS".to_owned(), WRITE_WAIT_MS.to_string()),
        // Nobody listens between namespaces of one machine.
        ("ROSTER_AUTHENTICATION__CONFIDENTIALITY".to_owned(), "never".to_owned()),
    ];
    let address = SocketAddr::new(Network::address(which), LDAP_PORT);
    let (dn, password) = (ADMIN_DN.to_owned(), ADMIN_PASSWORD.to_owned());
    Node {
        id,
        door: Door { address, dn, password },
        data: folder.join(format!("node{id}")),
        program: program.to_owned(),
        environment,
        process: Process::Killed,
        client: None,
        shown_lsn: 0,
    }
}

fn ldif() -> String {
    let mut text = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n\
         dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n"
    );
    for number in 1..=PEOPLE {
        text.push_str(&format!(
            "dn: uid=person{number},ou=people,{SUFFIX}\nobjectClass: inetOrgPerson\n\
             uid: person{number}\ncn: Person {number}\nsn: {number}\n\n"
        ));
    }
    text
}

/// The nodes that a ready file names, in lines such as `node 2 ldap 127.0.0.1:1390 pid 4711 data
/// PATH role follower`.
fn nodes(text: &str, program: &Path) -> Option<Vec<Node>> {
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
            program: program.to_owned(),
            environment: Vec::new(),
            process: Process::OfDemo(words.get("pid")?.parse().ok()?),
            client: None,
            shown_lsn: 0,
        });
    }
    Some(found)
}

/// Any port of this machine.
const ANY: &str = "127.0.0.1:0";
/// People that are there from the start, of the demo.
const ENTRIES: &str = "500";
/// People that are there from the start, in namespaces.
const PEOPLE: usize = 500;
/// How long the demo may take until all its nodes serve.
const START_MAX: Duration = Duration::from_secs(120);
/// Where a node in a namespace of its own listens for the others.
const MEMBER_PORT: u16 = 7636;
/// Where it listens for clients.
const LDAP_PORT: u16 = 389;
/// How long an update waits for whoever decides, in milliseconds: shorter than usual, because every
/// client at a node that was cut off waits so long.
pub(in crate::cluster) const WRITE_WAIT_MS: u64 = 3000;
/// Free space below which nobody writes, of one node after the other: some notice before the disk
/// is full, some when it is.
const DISK_FULL_MIB: [&str; 2] = ["0", "16"];
/// The memory for changes that are not in the database, on media that forget: a flush takes a few
/// hundred of them.
const OVERLAY_MIB: &str = "1";

#[cfg(test)]
mod tests {
    use super::super::{is_gone, serves};
    use super::*;

    #[test]
    fn the_ready_file_names_the_nodes() {
        let text = "ldap 127.0.0.1:1\nnode 1 ldap 127.0.0.1:1 pid 5 data /a/node1 role leader\n\
                    node 2 ldap 127.0.0.1:2 pid 6 data /a/node2 role follower\n\
                    admin_dn cn=Directory Manager\nadmin_password x y\n";
        let found = nodes(text, Path::new("roster")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].id, found[1].pid()), (2, Some(6)));
        assert_eq!(found[1].data, Path::new("/a/node2"));
        assert_eq!(found[1].door.password, "x y");
        let incomplete = "node 1 ldap 127.0.0.1:1\nadmin_dn a\nadmin_password b\n";
        assert!(nodes(incomplete, Path::new("roster")).is_none());
        // This process serves nothing, whatever its number.
        assert!(!serves(std::process::id(), &found[0].data));
        assert!(is_gone(std::process::id(), &found[0].data));
    }
}
