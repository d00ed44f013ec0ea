//! The servers that are measured: roster, and Debian's slapd with the same people and indexes; the
//! others, and slapd as its experts set it up, are in `peers.rs`.
//!
//! Invariant: dropping a server ends its process, by its own id.

pub(crate) mod guard;
mod ldif;
pub(crate) mod peers;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, SUFFIX, now, pause};

use self::guard::Guard;

/// How often memory is looked at while a load runs.
pub(crate) const SAMPLE_PAUSE: Duration = Duration::from_millis(100);
const SLAPD: &str = "/usr/sbin/slapd";
const SLAPD_DN: &str = "cn=admin,dc=example,dc=com";
/// Everybody reads everything.
const OPEN_RULES: &str = "sizelimit unlimited
access to * by * read";
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) dn: &'static str,
    pub(crate) password: &'static str,
    /// Where its data are.
    folder: PathBuf,
    process: Process,
    /// Ends it if we do not.
    guard: Guard,
}

#[derive(Debug)]
enum Process {
    Roster(Roster),
    Other(Child),
}

/// roster as a process that can be started again.
#[derive(Debug)]
pub(crate) struct Roster {
    place: Place,
    /// `None` only between a kill and the next start.
    running: Option<Running>,
}

/// What a restart after a kill took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovered {
    /// Octets of the journal's files at the kill.
    pub(crate) journal_bytes: u64,
    /// From the start of the process until it served.
    pub(crate) start: Duration,
}

impl Server {
    pub(crate) fn id(&self) -> u32 {
        match &self.process {
            Process::Roster(roster) => roster.running.as_ref().map_or(0, Running::id),
            Process::Other(child) => child.id(),
        }
    }

    /// Waits until it listens.
    fn wait(&self) -> Result<(), String> {
        let begin = now();
        while TcpStream::connect(self.address).is_err() {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{} does not listen", self.name));
            }
            pause(SAMPLE_PAUSE);
        }
        Ok(())
    }

    /// Memory that is not backed by files; 0 when it cannot be read.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024)
    }

    /// What its files take on the disk.
    pub(crate) fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.folder)
    }

    pub(crate) fn log_tail(&self) -> String {
        match &self.process {
            Process::Roster(roster) => roster.place.log_tail(),
            Process::Other(_) => String::new(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Before its number can be another process's.
        self.guard.dismiss();
        if let Process::Other(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Loads roster, unless it is loaded, and starts it.
pub(crate) fn roster(program: &Path, folder: &Path, people: &Path) -> Result<Server, String> {
    roster_with(program, folder, people, &[])
}

/// Likewise, with settings as variables of its environment.
pub(crate) fn roster_with(
    program: &Path,
    folder: &Path,
    people: &Path,
    settings: &[(&str, &str)],
) -> Result<Server, String> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    let environment = settings.iter().map(owned).collect();
    let place = Place { roster: program.to_owned(), folder: folder.to_owned(), environment };
    if !place.data().exists() {
        place.init()?;
        place.offline(&["import", &people.display().to_string()])?;
    }
    let running = place.start()?;
    Ok(Server {
        name: "roster",
        address: running.address,
        dn: ADMIN_DN,
        password: ADMIN_PASSWORD,
        folder: place.data(),
        guard: Guard::process(running.id()),
        process: Process::Roster(Roster { place, running: Some(running) }),
    })
}

/// Kills roster and starts it again.
pub(crate) fn kill_and_start(server: &mut Server) -> Result<Recovered, String> {
    let Process::Roster(roster) = &mut server.process else {
        return Err("only roster is killed".to_owned());
    };
    server.guard.dismiss();
    roster.running.take().map_or(Ok(()), Running::kill)?;
    let journal_bytes = disk_bytes(&roster.place.data().join("journal"));
    let running = roster.place.start()?;
    let start = running.start;
    server.address = running.address;
    server.guard = Guard::process(running.id());
    roster.running = Some(running);
    Ok(Recovered { journal_bytes, start })
}

/// Loads slapd, unless it is loaded, and starts it; its writes are durable, as by default.
pub(crate) fn slapd(folder: &Path, people: &Path) -> Result<Server, String> {
    slapd_with(folder, people, OPEN_RULES)
}

/// Likewise, with global settings of its own: limits, modules, rules.
pub(crate) fn slapd_with(folder: &Path, people: &Path, rules: &str) -> Result<Server, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder.join("db")).map_err(failed)?;
    let config = folder.join("slapd.conf");
    fs::write(&config, configuration(folder, rules)).map_err(failed)?;
    // A load that was broken off is begun again.
    let loaded = folder.join("loaded");
    if !loaded.exists() {
        let _ = fs::remove_file(folder.join("db/data.mdb"));
        let output = Command::new(SLAPD)
            .args(["-T", "add", "-q", "-f"])
            .arg(&config)
            .arg("-l")
            .arg(people)
            .output()
            .map_err(failed)?;
        if !output.status.success() {
            return Err(format!("slapadd: {}", String::from_utf8_lossy(&output.stderr)));
        }
        fs::write(loaded, "").map_err(failed)?;
    }
    let address = free_address()?;
    let child = Command::new(SLAPD)
        .args(["-d", "0", "-h", &format!("ldap://{address}/"), "-f"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let server = Server {
        name: "slapd",
        address,
        dn: SLAPD_DN,
        password: "secret",
        folder: folder.to_owned(),
        guard: Guard::process(child.id()),
        process: Process::Other(child),
    };
    server.wait()?;
    Ok(server)
}

/// An address on this machine that nobody listens at.
fn free_address() -> Result<SocketAddr, String> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|one| one.local_addr());
    free.map_err(|error| format!("no free port: {error}"))
}

fn configuration(folder: &Path, rules: &str) -> String {
    slapd_configuration(
        folder,
        rules,
        "maxsize 34359738368
index objectClass eq
index uid,cn,sn,givenName,mail,telephoneNumber,l,title eq,sub
index entryUUID eq",
    )
}

/// A slapd in `folder`, with these settings of its own and of its database.
pub(crate) fn slapd_configuration(folder: &Path, settings: &str, database: &str) -> String {
    let folder = folder.display();
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
loglevel 0
{settings}
database mdb
suffix {SUFFIX}
rootdn {SLAPD_DN}
rootpw secret
directory {folder}/db
{database}
"
    )
}

/// What the files below a folder take on the disk; holes take nothing.
pub(crate) fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sum += disk_bytes(&path),
            // In units of 512 octets, whatever the file system's blocks are.
            Ok(metadata) => sum += metadata.blocks() * 512,
            Err(_) => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slapd_takes_the_configuration() {
        let folder = testing::crash::server::scratch("slapd-configuration");
        fs::create_dir_all(folder.join("db")).unwrap();
        let file = folder.join("slapd.conf");
        fs::write(&file, configuration(&folder, OPEN_RULES)).unwrap();
        let tested = Command::new(SLAPD).args(["-T", "test", "-u", "-f"]).arg(&file).output();
        let tested = tested.unwrap();
        let said = String::from_utf8_lossy(&tested.stderr).into_owned();
        fs::remove_dir_all(&folder).unwrap();
        assert!(tested.status.success(), "{said}");
    }
}
