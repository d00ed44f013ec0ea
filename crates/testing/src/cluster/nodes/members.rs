//! Nodes as members: commands that change who takes part, machines that join, data that are lost,
//! and the programs that nodes run.
//!
//! Invariant: a node keeps its position here, whatever number and address it gets.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Cluster, Process};
use crate::chance::Chance;
use crate::client::Search;
use crate::cluster::tools::run;
use crate::ports::free_port;

/// What a member is, as another one tells.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::cluster) struct Member {
    pub(in crate::cluster) id: u64,
    pub(in crate::cluster) is_voter: bool,
}

impl Cluster {
    /// `roster cluster` with these words, which asks these nodes, one after the other.
    pub(in crate::cluster) fn command(
        &self,
        words: &[&str],
        asked: &[usize],
    ) -> Result<Command, String> {
        let first = asked.first().copied().unwrap_or_default();
        let mut command = Command::new(&self.get(first)?.program);
        command.arg("cluster").args(words);
        for which in asked {
            command.arg("-H").arg(format!("ldap://{}", self.door(*which)?.address));
        }
        command.arg("-y").arg(&self.password);
        Ok(command)
    }

    /// `roster cluster join` or `rejoin` on the machine of a node, which does not run.
    pub(in crate::cluster) fn join_command(
        &self,
        which: usize,
        verb: &str,
        token: &str,
        address: &str,
    ) -> Result<Command, String> {
        let node = self.get(which)?;
        let mut command = self.on_machine(which, &node.program)?;
        command.args(["cluster", verb, token, "--data"]).arg(&node.data);
        let url = format!("ldap://{}", node.door.address);
        command.args(["--address", address, "--url", &url]);
        Ok(command)
    }

    /// Where the other members reach a node, as its settings say.
    pub(in crate::cluster) fn address(&self, which: usize) -> Result<String, String> {
        let listen = setting(&self.get(which)?.data, "listen")?;
        Ok(listen.trim_matches(['[', ']', '"']).to_owned())
    }

    /// Has a machine that joins be at addresses of its own, where nodes are told apart by ports;
    /// where the others are to reach it.
    pub(in crate::cluster) fn move_elsewhere(
        &mut self,
        which: usize,
        chance: &mut Chance,
    ) -> Result<String, String> {
        if self.network.is_some() {
            return self.address(which);
        }
        // Taken until both are known.
        let (ldap, members) = (free_port(chance)?, free_port(chance)?);
        let addresses = [&ldap, &members].map(TcpListener::local_addr);
        let [Ok(ldap), Ok(members)] = addresses else {
            return Err("a port that was found free has no address".to_owned());
        };
        self.node(which)?.door.address = ldap;
        Ok(members.to_string())
    }

    /// Has a machine that joins listen only where it says.
    pub(in crate::cluster) fn prepare_settings(&mut self, which: usize) -> Result<(), String> {
        let own = ("ROSTER_LISTEN__LDAPS".to_owned(), String::new());
        let is_apart = self.network.is_some();
        let node = self.node(which)?;
        if !is_apart && !node.environment.contains(&own) {
            node.environment.push(own);
        }
        Ok(())
    }

    /// Takes the number that a machine was given when it joined.
    pub(in crate::cluster) fn take_number(&mut self, which: usize) -> Result<u64, String> {
        let node = self.node(which)?;
        let number = setting(&node.data, "id")?;
        let wrong = |error| format!("the number of a machine that joined is '{number}': {error}");
        node.id = number.parse().map_err(wrong)?;
        Ok(node.id)
    }

    /// Makes the data directory of a node that does not run empty.
    pub(in crate::cluster) fn empty(&self, which: usize) -> Result<(), String> {
        let data = self.data(which)?;
        // It may be where a disk is mounted.
        each(
            &data,
            |path| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) },
        )?;
        self.settle(which)
    }

    /// Takes the data of a node that does not run away, but for what an administrator has of it.
    pub(in crate::cluster) fn lose_data(&self, which: usize) -> Result<(), String> {
        let data = self.data(which)?;
        each(&data.join("journal"), |path| fs::remove_file(path))?;
        let base = data.join(BASE);
        fs::write(&base, "no data any more")
            .map_err(|error| format!("{}: {error}", base.display()))?;
        self.settle(which)
    }

    /// Keeps an image of the data of a node that does not run.
    pub(in crate::cluster) fn keep_image(&self, which: usize) -> Result<(), String> {
        let (data, image) = (self.data(which)?, self.image(which)?);
        let _ = fs::remove_dir_all(&image);
        copy(&data, &image)
    }

    /// Puts the image in place of the data of a node that does not run.
    pub(in crate::cluster) fn restore_image(&self, which: usize) -> Result<(), String> {
        self.empty(which)?;
        let image = self.image(which)?;
        copy(&image, &self.data(which)?)?;
        fs::remove_dir_all(&image).map_err(|error| format!("{}: {error}", image.display()))
    }

    fn image(&self, which: usize) -> Result<PathBuf, String> {
        Ok(self.data(which)?.with_extension("image"))
    }

    /// Deletes what a machine that rejoined has put aside.
    pub(in crate::cluster) fn delete_old(&self, which: usize) -> Result<(), String> {
        let data = self.data(which)?;
        let mut old = Vec::new();
        each(&data, |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("old-") {
                old.push(path.to_owned());
            }
            Ok(())
        })?;
        for path in old {
            fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// What was written to the data directory of a node without it is there to stay.
    fn settle(&self, which: usize) -> Result<(), String> {
        self.media.as_ref().map_or(Ok(()), |media| media.settle(which))
    }

    /// Who takes part, as a node tells.
    pub(in crate::cluster) fn members(&self, which: usize) -> Result<Vec<Member>, String> {
        let search = Search {
            base: "cn=cluster,cn=monitor".to_owned(),
            scope: 1,
            filter: "(roster-cluster-member=*)".to_owned(),
            attributes: Vec::new(),
        };
        let found = self.door(which)?.enter().and_then(|mut client| client.search(&search));
        let found = found.map_err(|error| format!("node {}: {error}", which + 1))?;
        let mut members: Vec<Member> = found
            .entries
            .iter()
            .filter_map(|(_, attributes)| {
                let text = |name: &str| attributes.get(name)?.first().cloned();
                let id = text("roster-cluster-member")?.parse().ok()?;
                Some(Member { id, is_voter: text("roster-cluster-voter")? == "1" })
            })
            .collect();
        members.sort();
        Ok(members)
    }

    /// The program that a node runs from its next start on.
    pub(in crate::cluster) fn program(&self, which: usize) -> Result<&Path, String> {
        self.get(which).map(|node| &*node.program)
    }

    /// Has a node run another program from its next start on.
    pub(in crate::cluster) fn give_program(
        &mut self,
        which: usize,
        program: &Path,
    ) -> Result<(), String> {
        self.node(which)?.program = program.to_owned();
        Ok(())
    }

    /// Asks a node to end, and waits for it.
    pub(in crate::cluster) fn end(&mut self, which: usize) -> Result<(), String> {
        let node = self.node(which)?;
        node.client = None;
        node.signal("-TERM")?;
        let status = node.wait_end()?;
        node.process = Process::Killed;
        match status {
            Some(status) if !status.success() => {
                Err(format!("node {} stopped with {status}; {}", node.id, node.tail()))
            }
            _ => Ok(()),
        }
    }

    /// How often the log of a node has a line with this text.
    pub(in crate::cluster) fn log_count(&self, which: usize, text: &str) -> Result<usize, String> {
        let log = fs::read(self.data(which)?.with_extension("log")).unwrap_or_default();
        Ok(String::from_utf8_lossy(&log).matches(text).count())
    }
}

/// What the settings of a member say in `[cluster]`.
fn setting(data: &Path, key: &str) -> Result<String, String> {
    let file = data.join("roster.toml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    value(&text, key).ok_or_else(|| format!("{}: there is no cluster.{key}", file.display()))
}

fn value(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().skip_while(|line| line.trim() != "[cluster]").skip(1);
    let mut lines = lines.take_while(|line| !line.starts_with('['));
    lines.find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Does something with each file and folder of a folder.
fn each(folder: &Path, mut done: impl FnMut(&Path) -> std::io::Result<()>) -> Result<(), String> {
    let all = fs::read_dir(folder).and_then(|all| {
        all.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()
    });
    let done = all.and_then(|all| {
        let all = all.iter().filter(|path| !path.ends_with("lost+found"));
        all.map(PathBuf::as_path).try_for_each(&mut done)
    });
    done.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Copies what is in a folder into another, which may be there.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
    let (from, to) = (from.join(".").display().to_string(), to.display().to_string());
    run("cp", &["-a", "--sparse=always", &from, &to]).map(drop)
}

/// The file of the database.
const BASE: &str = "data.mdb";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_cluster_are_read() {
        let text = "[listen]\nldap = [\"a:1\"]\n\n[cluster]\nid = 65612\nlisten = [\"b:2\"]\n\
                    [limits]\nid = 7\n";
        assert_eq!(value(text, "id").as_deref(), Some("65612"));
        assert_eq!(value(text, "listen").as_deref(), Some("[\"b:2\"]"));
        assert_eq!(value(text, "ldap"), None);
    }
}
