//! OpenLDAP's slapd as a peer: a fresh database in a temporary directory for each dialogue.
//!
//! Invariant: nothing outlives the value: the child is ended by its own id, the directory removed.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ports::free_addresses;
use crate::run::Peer;
use crate::target::{ANSWER_TIMEOUT, Target, TcpTarget};

const PROGRAM: &str = "/usr/sbin/slapd";
const ROOT_DN: &str = "cn=admin,dc=example,dc=org";
const START_ATTEMPTS_MAX: u32 = 6_000;
const START_PAUSE_MS: u64 = 10;

/// Makes directories of one process distinct.
static COUNTER: AtomicU32 = AtomicU32::new(0);
/// Held from choosing a free port until a slapd listens there: two that choose the same one would
/// both take the first to listen for their own.
static CHOOSING: Mutex<()> = Mutex::new(());

/// A slapd that is started anew for each dialogue.
#[derive(Debug, Default)]
pub struct Slapd {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
}

impl Slapd {
    /// Whether slapd is installed (Debian package `slapd`).
    pub fn is_installed() -> bool {
        Path::new(PROGRAM).exists()
    }
}

impl Peer for Slapd {
    fn fresh(&mut self, ldif: &Path) -> Result<Box<dyn Target + '_>, String> {
        // The old one ends before the new one starts: two need twice the memory for nothing.
        self.running = None;
        // Another program may take the free port first: then a second try gets another one.
        let running = Running::start(ldif).or_else(|_| Running::start(ldif))?;
        let target = TcpTarget::new(running.address);
        self.running = Some(running);
        Ok(Box::new(target))
    }

    fn root_dn(&self) -> &str {
        ROOT_DN
    }

    fn died(&mut self) -> Option<String> {
        let running = self.running.as_mut()?;
        if answers(running.address) {
            return None;
        }
        // How it ends is settled by now; this only makes sure that it does.
        let _ = running.child.kill();
        Some(running.child.wait().ok()?.to_string())
    }
}

impl Running {
    fn start(ldif: &Path) -> Result<Self, String> {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("roster-slapd-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let result = Self::start_in(&directory, ldif);
        if result.is_err() {
            let _ = fs::remove_dir_all(&directory);
        }
        result
    }

    fn start_in(directory: &Path, ldif: &Path) -> Result<Self, String> {
        let describe = |error: std::io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(directory.join("db")).map_err(describe)?;
        let config = directory.join("slapd.conf");
        fs::write(&config, configuration(directory)).map_err(describe)?;
        load(&config, ldif)?;
        let _choosing = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
        let [address] = free_addresses()?;
        let child = Command::new(PROGRAM)
            .args(["-d", "0", "-h", &format!("ldap://{address}/"), "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{PROGRAM}: {error}"))?;
        let mut running = Self { child, directory: directory.to_owned(), address };
        running.wait_until_listening()?;
        Ok(running)
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "a foreign program gives no signal when it listens; asking again is the only way"
    )]
    fn wait_until_listening(&mut self) -> Result<(), String> {
        for _ in 0..START_ATTEMPTS_MAX {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("slapd ended at once: {status}"));
            }
            std::thread::sleep(Duration::from_millis(START_PAUSE_MS));
        }
        Err("slapd does not listen".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether somebody there answers an anonymous bind. Of one that dies, a connection may still be
/// taken: the sockets of its clients are closed before the one that listens.
fn answers(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(ANONYMOUS_BIND)?;
        stream.read(&mut [0; 1])
    };
    match ask() {
        Ok(count) => count > 0,
        // One that takes long has not died.
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// Message 1: version 3, no name, no password.
const ANONYMOUS_BIND: &[u8] = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00";

fn load(config: &Path, ldif: &Path) -> Result<(), String> {
    let output = Command::new(PROGRAM)
        .args(["-T", "add", "-q", "-f"])
        .arg(config)
        .arg("-l")
        .arg(ldif)
        .output()
        .map_err(|error| format!("slapadd: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("slapadd {}: {}", ldif.display(), String::from_utf8_lossy(&output.stderr)))
}

fn configuration(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        "include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload pw-sha2
moduleload sssvlv
pidfile {directory}/slapd.pid
sizelimit unlimited
access to dn.base=\"\" by * read
access to dn.base=\"cn=Subschema\" by * read
access to attrs=userPassword by self =xw by * auth
access to * by * read
database mdb
suffix dc=example,dc=org
rootdn {ROOT_DN}
rootpw secret
directory {directory}/db
maxsize 16777216
dbnosync
index objectClass eq
overlay sssvlv
"
    )
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_process_that_ended_by_itself_is_noticed() {
        let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = open.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = open.accept().unwrap();
            stream.read_exact(&mut [0; ANONYMOUS_BIND.len()]).unwrap();
            stream.write_all(b"0").unwrap();
            // The next one is taken, and left without an answer.
            drop(open.accept().unwrap());
        });
        let mut child = Command::new("sh").args(["-c", "kill -ABRT $$"]).spawn().unwrap();
        child.wait().unwrap();
        let directory = std::env::temp_dir().join(format!("roster-died-{}", std::process::id()));
        let mut slapd = Slapd { running: Some(Running { child, directory, address }) };
        assert_eq!(slapd.died(), None, "somebody answers");
        assert!(slapd.died().unwrap().contains("signal: 6"), "a connection is taken and closed");
        answering.join().unwrap();
        assert!(slapd.died().unwrap().contains("signal: 6"), "nobody listens");
        assert_eq!(Slapd::default().died(), None);
    }
}
