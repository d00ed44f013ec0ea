//! The server under test as processes: started, killed, stopped and checked from outside.
//!
//! Invariant: only processes that were started here are ended, by their own id.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start, with the longest recovery, or to stop.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the ready file is looked for.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// How much of the log is told when something goes wrong.
const LOG_TAIL_BYTES: u64 = 3000;
/// The suffix of every data directory here.
pub const SUFFIX: &str = "dc=example,dc=com";
/// Who may do everything.
pub const ADMIN_DN: &str = "cn=Directory Manager";
/// Its password.
pub const ADMIN_PASSWORD: &str = "correct horse";

/// The administrator's password in a form that takes no time to verify.
const ADMIN_PASSWORD_STORED: &str = "{SSHA512}WBYKoEC7J6Zf/Fo15ZS/9IOzmwDEvESwo7nV7rG4lzb6MAfeMi\
                                     jfY+Q+gzAyGY7VzoyqghfILu0aaXlvaBxeQ3Jvc3RlcnJvc3RlcnJvc3Q=\n";

/// A program and the folder where its data and log are.
#[derive(Clone, Debug)]
pub struct Place {
    /// The program `roster`.
    pub roster: PathBuf,
    /// Holds `data`, `log` and `ready`.
    pub folder: PathBuf,
    /// Variables of its environment: settings.
    pub environment: Vec<(String, String)>,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Where it serves LDAP.
    pub address: SocketAddr,
    /// How long it took until it served.
    pub start: Duration,
}

/// The time, for what happens outside of this process.
#[allow(clippy::disallowed_methods, reason = "other processes live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[allow(clippy::disallowed_methods, reason = "other processes live in real time")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

impl Place {
    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Makes the folder and an empty data directory.
    pub fn init(&self) -> Result<(), String> {
        fs::create_dir_all(&self.folder)
            .map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let password = self.folder.join("password");
        fs::write(&password, ADMIN_PASSWORD).map_err(|error| error.to_string())?;
        let mut command = self.command(&["init", "--public", "--suffix", SUFFIX]);
        self.run(command.arg("--admin-password-file").arg(password))?;
        // A load that lasts milliseconds is no time to hash a password slowly.
        let stored = self.data().join("admin-password");
        fs::write(stored, ADMIN_PASSWORD_STORED).map_err(|error| error.to_string())
    }

    /// Runs another subcommand on the data directory; its output. Failing is an error.
    pub fn offline(&self, arguments: &[&str]) -> Result<String, String> {
        self.run(&mut self.command(arguments))
    }

    fn run(&self, command: &mut Command) -> Result<String, String> {
        let output =
            command.output().map_err(|error| format!("{}: {error}", self.roster.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Err(format!("{command:?}: {}\n{stdout}{stderr}", output.status))
    }

    /// Another subcommand on the data directory, to be run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.roster);
        command.args(arguments).arg("--data").arg(self.data()).stdin(Stdio::null());
        // Likewise.
        command.env("ROSTER_PASSWORD__SCHEME", "SSHA512");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.join("ready")
    }

    /// Starts the server without waiting for it.
    pub(super) fn spawn(&self, more: &[&str]) -> Result<Child, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.roster.display());
        match fs::remove_file(self.ready_file()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            Ok(()) | Err(_) => {}
        }
        let log = || OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        self.command(&["serve", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .arg("--ready-file")
            .arg(self.ready_file())
            .args(more)
            .stdout(log().map_err(failed)?)
            .stderr(log().map_err(failed)?)
            .spawn()
            .map_err(failed)
    }

    /// Starts the server and waits until it serves.
    pub fn start(&self) -> Result<Running, String> {
        self.start_with(&[])
    }

    /// Starts the server with further options and waits until it serves.
    pub fn start_with(&self, more: &[&str]) -> Result<Running, String> {
        let begin = now();
        let mut child = self.spawn(more)?;
        let address = match self.wait_ready(&mut child, begin) {
            Ok(address) => address,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{error}; the end of its log:\n{}", self.log_tail()));
            }
        };
        Ok(Running { child, address, start: begin.elapsed() })
    }

    fn wait_ready(&self, child: &mut Child, begin: Instant) -> Result<SocketAddr, String> {
        let ready = self.ready_file();
        while begin.elapsed() < PATIENCE {
            if let Ok(text) = fs::read_to_string(&ready) {
                let address = text.lines().find_map(|line| line.strip_prefix("ldap "));
                let address = address.and_then(|address| address.parse().ok());
                return address.ok_or_else(|| format!("the ready file has no address: {text}"));
            }
            match child.try_wait() {
                Ok(None) => pause(LOOK_PAUSE),
                Ok(Some(status)) => return Err(format!("the server ended at its start: {status}")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("the server does not serve after {} s", PATIENCE.as_secs()))
    }

    /// The end of the server's log.
    pub fn log_tail(&self) -> String {
        let read = |mut file: File| {
            let length = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = File::open(self.folder.join("log")).and_then(read).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Keeps a copy of the data directory as a killed server left it; holes stay holes.
    pub(super) fn keep_copy(&self, name: &str) {
        let copy = self.folder.join(name);
        let _ = fs::remove_dir_all(&copy);
        // A copy is for finding the cause of a fault; nothing is lost without it.
        let _ = Command::new("cp")
            .args(["-r", "--sparse=always", "--reflink=auto"])
            .args([self.data(), copy])
            .stderr(Stdio::null())
            .status();
    }
}

impl Running {
    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it the signal that ends it without a warning, and does not wait for its end.
    pub fn strike(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| error.to_string())
    }

    /// Ends it without a warning, as a crash would.
    pub fn kill(mut self) -> Result<(), String> {
        kill(&mut self.child)
    }

    /// Asks it to stop.
    pub(super) fn ask_to_stop(&self) -> Result<(), String> {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill: {status}")),
            Err(error) => Err(format!("kill: {error}")),
        }
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(mut self) -> Result<ExitStatus, String> {
        self.ask_to_stop()?;
        let begin = now();
        while begin.elapsed() < PATIENCE {
            match self.child.try_wait() {
                Ok(None) => pause(LOOK_PAUSE),
                Ok(Some(status)) => return Ok(status),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("the server did not stop in {} s", PATIENCE.as_secs()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(&mut self.child);
    }
}

/// Ends a process that was started here, and waits until it is gone.
pub(super) fn kill(child: &mut Child) -> Result<(), String> {
    let killed = child.kill();
    child.wait().map_err(|error| error.to_string())?;
    killed.map_err(|error| error.to_string())
}

/// A folder of this process in the system's place for temporary files.
pub fn scratch(name: &str) -> PathBuf {
    let name = format!("roster-{name}-{}", std::process::id());
    std::env::temp_dir().join(Path::new(&name))
}
