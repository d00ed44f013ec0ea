//! The servers that are measured: roster, and in `peers.rs` those that it is compared with.
//!
//! Invariant: dropping a server ends its process, by its own id.

pub(crate) mod guard;
mod ldif;
pub(crate) mod members;
pub(crate) mod peers;
pub(crate) mod replicas;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testing::client::Client;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, Place, Running, now, pause};

use self::guard::Guard;

/// How often memory is looked at while a load runs.
pub(crate) const SAMPLE_PAUSE: Duration = Duration::from_millis(100);
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
    Other(Other),
}

/// Another server as a process that can be started again.
#[derive(Debug)]
struct Other {
    serve: Command,
    child: Child,
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
            Process::Other(other) => other.child.id(),
        }
    }

    /// From the start of roster's process until it served.
    pub(crate) fn start(&self) -> Duration {
        match &self.process {
            Process::Roster(Roster { running: Some(running), .. }) => running.start,
            _ => Duration::ZERO,
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

    /// A connection as its administrator.
    pub(crate) fn enter(&self) -> Result<Client, String> {
        let failed = |error| format!("{} at {}: {error}", self.name, self.address);
        let mut client = Client::connect(self.address).map_err(failed)?;
        client.bind(self.dn, self.password).map_err(failed)?;
        Ok(client)
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

    /// Asks it to change entries.
    pub(crate) fn modify(&self, ldif: &str) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("ldapmodify: {error}");
        let mut child = Command::new("ldapmodify")
            .args(["-x", "-H", &format!("ldap://{}", self.address), "-D", self.dn])
            .args(["-w", self.password])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(ldif.as_bytes()).map_err(failed)?;
        }
        let output = child.wait_with_output().map_err(failed)?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let why = String::from_utf8_lossy(&output.stderr);
                Err(format!("ldapmodify of {}: {why}", self.name))
            }
        }
    }

    /// Ends it at once, as a power cut would; `start_again` serves the same data.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        let killed = match &mut self.process {
            Process::Roster(roster) => roster.running.as_mut().map_or(Ok(()), Running::strike),
            Process::Other(other) => other.child.kill().map_err(|error| error.to_string()),
        };
        // Nothing comes before the signal. The number is this process's until it is waited for.
        self.guard.dismiss();
        let ended = match &mut self.process {
            Process::Roster(roster) => roster.running.take().map_or(Ok(()), Running::kill),
            Process::Other(other) => other.child.wait().map(drop).map_err(|one| one.to_string()),
        };
        killed.and(ended)
    }

    /// Starts it after it was killed, and waits until it serves.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        match &mut self.process {
            Process::Roster(roster) => {
                let running = roster.place.start()?;
                self.address = running.address;
                roster.running = Some(running);
            }
            Process::Other(other) => {
                let failed = |error: std::io::Error| format!("{}: {error}", self.name);
                other.child = other.serve.spawn().map_err(failed)?;
            }
        }
        self.guard = Guard::process(self.id());
        self.wait()
    }

    /// Stops roster as an administrator would.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        self.guard.dismiss();
        match &mut self.process {
            Process::Roster(roster) => {
                roster.running.take().map_or(Ok(()), |one| one.stop().map(drop))
            }
            Process::Other(_) => Ok(()),
        }
    }

    /// Its own log, where it has one.
    pub(crate) fn log(&self) -> String {
        match &self.process {
            Process::Roster(roster) => {
                fs::read_to_string(roster.place.folder.join("log")).unwrap_or_default()
            }
            Process::Other(_) => String::new(),
        }
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
        if let Process::Other(other) = &mut self.process {
            let _ = other.child.kill();
            let _ = other.child.wait();
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
    started(place, &[])
}

/// Starts roster on what is loaded, with further options.
pub(crate) fn started(place: Place, options: &[&str]) -> Result<Server, String> {
    let running = place.start_with(options)?;
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

/// Kills roster and starts it again on its data.
pub(crate) fn kill_and_start(server: &mut Server) -> Result<Recovered, String> {
    server.kill()?;
    let journal_bytes = disk_bytes(&server.folder.join("journal"));
    server.start_again()?;
    Ok(Recovered { journal_bytes, start: server.start() })
}

/// An address on this machine that nobody listens at.
fn free_address() -> Result<SocketAddr, String> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|one| one.local_addr());
    free.map_err(|error| format!("no free port: {error}"))
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
