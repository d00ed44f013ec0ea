//! Three of a server that each take writes and pass them on: OpenLDAP with syncrepl, and OpenDJ
//! with its own replication; as their documentation sets them up, with writes as durable as where
//! one of them is measured.
//!
//! Invariant: all begin with the same data, loaded once and copied.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use testing::crash::server::SUFFIX;

use super::peers::{OpenDj, PASSWORD, ROOT_DN, SLAPD_DN, SLAPD_INDEXES, Slapd, done};
use super::{Server, free_address};

/// How many there are.
pub(crate) const COUNT: usize = 3;
/// Who may replicate in OpenDJ; made by its own tool.
const OPENDJ_ADMIN: &str = "admin";

/// slapd: every one is a provider for both others and a consumer of both, and writes are passed on
/// as they come (refreshAndPersist). A connection that is lost is tried again every second.
pub(crate) fn slapd(folder: &Path, people: &Path) -> Result<Vec<Server>, String> {
    let addresses: Result<Vec<SocketAddr>, String> = (0..COUNT).map(|_| free_address()).collect();
    let addresses = addresses?;
    let folders: Vec<_> = (1..=COUNT).map(|id| folder.join(format!("slapd{id}"))).collect();
    let mut servers = Vec::new();
    for ((id, address), own) in (1..).zip(&addresses).zip(&folders) {
        let (modules, indexes) = slapd_lines(id, &addresses);
        // The numbers of what is loaded (CSN) are the first server's, and the suffix has the last.
        let loading = ["-w", "-S", "1"];
        let (modules, indexes, loading) = (modules.as_str(), indexes.as_str(), &loading[..]);
        let one = Slapd { modules, indexes, loading, ..Slapd::default() };
        if id == 1 && !own.join("loaded").exists() {
            one.load(own, people)?;
            for other in folders.iter().skip(1) {
                copy(&own.join("db"), &other.join("db"))?;
                fs::write(other.join("loaded"), "").map_err(|error| error.to_string())?;
            }
        }
        servers.push(one.start_at(*address, own, people)?);
    }
    Ok(servers)
}

/// What a server of several has in its configuration: before its database, and in it.
fn slapd_lines(id: usize, addresses: &[SocketAddr]) -> (String, String) {
    let modules = format!("moduleload syncprov\nserverID {id}");
    let mut lines = format!("{SLAPD_INDEXES}\nindex entryCSN eq\n");
    for (other, address) in (1..).zip(addresses).filter(|(other, _)| *other != id) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            lines,
            "syncrepl rid={other:03} provider=ldap://{address} type=refreshAndPersist \
             searchbase={SUFFIX} bindmethod=simple binddn=\"{SLAPD_DN}\" credentials={PASSWORD} \
             schemachecking=off retry=\"1 +\""
        );
    }
    lines.push_str("multiprovider on\noverlay syncprov");
    (modules, lines)
}

/// OpenDJ: each is a directory server and a replication server, which its tool `dsreplication`
/// connects. Replication is not assured, the default.
pub(crate) fn opendj(folder: &Path, people: &Path) -> Result<Vec<Server>, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let folders = (1..=COUNT).map(|id| folder.join(format!("opendj{id}")));
    let set_up = |one: PathBuf| {
        // Its ports, which are in its files, are not free any more.
        let _ = fs::remove_dir_all(&one);
        OpenDj::set_up(&one)
    };
    let all: Result<Vec<OpenDj>, String> = folders.map(set_up).collect();
    let all = all?;
    let [first, others @ ..] = all.as_slice() else { return Ok(Vec::new()) };
    first.load(people)?;
    for other in others {
        copy(&first.home.join("db"), &other.home.join("db"))?;
    }
    let servers: Result<Vec<Server>, String> = all.iter().map(OpenDj::start).collect();
    let servers = servers?;
    let replication: Result<Vec<SocketAddr>, String> = all.iter().map(|_| free_address()).collect();
    let ports: Vec<String> = replication?.iter().map(|one| one.port().to_string()).collect();
    let places = all.iter().zip(&ports);
    let Some(one) = places.clone().next() else { return Ok(servers) };
    for other in places.skip(1) {
        let mut enable = Command::new(first.home.join("bin/dsreplication"));
        enable.args(["enable", "--trustAll", "--no-prompt", "--baseDN", SUFFIX]);
        enable.args(["--adminUID", OPENDJ_ADMIN, "--adminPassword", PASSWORD]);
        for (number, (replica, port)) in [("1", one), ("2", other)] {
            let mut put = |name: &str, value: &str| {
                enable.arg(format!("--{name}{number}")).arg(value);
            };
            put("host", "localhost");
            put("port", &replica.admin.port().to_string());
            put("bindDN", ROOT_DN);
            put("bindPassword", PASSWORD);
            put("replicationPort", port);
        }
        done(enable)?;
    }
    Ok(servers)
}

/// Copies a folder to a place where nothing is to be; holes stay holes.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to.parent().unwrap_or(to)).map_err(|error| error.to_string())?;
    let mut copy = Command::new("cp");
    copy.args(["-r", "--sparse=always"]).args([from, to]);
    done(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_asks_the_others_and_not_itself() {
        let addresses = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].map(|one| one.parse());
        let addresses: Vec<SocketAddr> = addresses.into_iter().map(Result::unwrap).collect();
        let (modules, lines) = slapd_lines(2, &addresses);
        assert!(modules.ends_with("serverID 2"), "{modules}");
        let asked: Vec<bool> =
            (1..=3).map(|id| lines.contains(&format!("rid=00{id} provider"))).collect();
        assert_eq!(asked, [true, false, true], "{lines}");
    }
}
