//! One server of several, as a process of its own.

use std::fs::{self, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use client::{ConnectOptions, Connection};
use rustix::process::{Pid, Signal, kill_process};
use server::Settings;
use store::StoreError;

use super::how;
use super::ports::SOCKET;
use crate::cluster_status::ClusterView;
use crate::failure::Failure;
use crate::output;

/// A server.
pub(crate) struct Node {
    /// Its number as a member.
    id: u64,
    data: PathBuf,
    ldap: SocketAddr,
    process: Child,
    /// How it ended, once that is known.
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended(pub(super) ExitStatus);

impl Node {
    /// Starts the server of a data directory. It writes what it logs beside that.
    pub(super) fn start(data: PathBuf, settings: &Settings) -> Result<Self, Failure> {
        let Some(&ldap) = settings.listen.ldap.first() else {
            let what = format!("the settings of {} have no address for LDAP", data.display());
            return Err(Failure::local(what).hint("set listen.ldap in its roster.toml"));
        };
        let log = log_of(&data);
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.map_err(|error| Failure::path("write", &log, &error))?;
        let ready = ready_of(&data);
        match fs::remove_file(&ready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::path("remove", &ready, &error));
            }
            Ok(()) | Err(_) => {}
        }
        let program = std::env::current_exe()
            .map_err(|error| Failure::local(format!("cannot find this program: {error}")))?;
        let process = command(&program, &data, &ready)
            .stderr(file)
            .spawn()
            .map_err(|error| Failure::path("start", &program, &error))?;
        Ok(Self { id: settings.cluster.id, data, ldap, process, ended: None })
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it serves LDAP.
    pub(crate) const fn ldap(&self) -> SocketAddr {
        self.ldap
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Where it logs.
    pub(super) fn log(&self) -> PathBuf {
        log_of(&self.data)
    }

    /// Whether it has told that clients are served.
    pub(super) fn is_serving(&self) -> bool {
        ready_of(&self.data).exists()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            // What cannot be asked for has not ended.
            self.ended = self.process.try_wait().ok().flatten().map(Ended);
        }
        self.ended
    }

    /// How it ended, where that was not known before.
    pub(super) fn ends_now(&mut self) -> Option<Ended> {
        if self.ended.is_some() { None } else { self.ended() }
    }

    /// Says that it ended, and how to start it again.
    pub(super) fn tell(&self, ended: &Ended) -> Result<(), Failure> {
        Ok(output::line(format_args!(
            "node {} {}; start it again with: roster serve --data {}",
            self.id,
            how(ended),
            output::in_shell(&self.data)
        ))?)
    }

    /// Why it never served.
    pub(super) fn did_not_start(&self, ended: &Ended) -> Failure {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let line = |start: &str| text.lines().rev().find_map(|line| line.strip_prefix(start));
        let what = format!("node {} {}", self.id, how(ended));
        match line("roster: error: ") {
            Some(reason) => {
                let hint = line("roster: hint: ").map(str::to_owned);
                let hint = hint.unwrap_or_else(|| format!("its log is {}", self.log().display()));
                Failure::local(format!("{what}: {reason}")).hint(hint)
            }
            None => Failure::local(what).hint(format!("see its log, {}", self.log().display())),
        }
    }

    /// What it says of the cluster, asked through its Unix socket as its owner.
    pub(super) fn view(&self) -> Option<ClusterView> {
        if self.ended.is_some() {
            return None;
        }
        ClusterView::read(&mut self.connect().ok()?).ok()
    }

    /// Connects to its Unix socket, as its owner.
    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        let url = client::ldapi_url(&self.data.join(SOCKET));
        let mut connection = Connection::open(ConnectOptions::new(url))?;
        connection.bind_external()?;
        Ok(connection)
    }

    /// Asks it to end in order; or whoever else serves its data now.
    pub(super) fn ask_to_end(&mut self) {
        let pid = match self.ended() {
            None => i32::try_from(self.process.id()).ok(),
            Some(_) => self.successor(),
        };
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // It may end by itself in this moment.
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Whether it runs, or another process on its data.
    pub(super) fn is_running(&mut self) -> bool {
        self.ended().is_none() || self.successor().is_some()
    }

    /// The process that somebody else has started on its data.
    fn successor(&self) -> Option<i32> {
        match store::refuse_in_use(&self.data) {
            Err(StoreError::InUse { pid, .. }) => pid.and_then(|pid| i32::try_from(pid).ok()),
            Ok(()) | Err(_) => None,
        }
    }
}

/// What serves a data directory, and ends with this process.
fn command(program: &Path, data: &Path, ready: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg("--end-with-parent").arg("--data").arg(data);
    command.arg("--ready-file").arg(ready);
    // They are for one server, or say what its own settings say.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if OWN_SETTINGS.iter().any(|section| text.starts_with(section)) {
            command.env_remove(name);
        }
    }
    // Ctrl-C is for this process, which then ends them in order.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn log_of(data: &Path) -> PathBuf {
    data.with_extension("log")
}

fn ready_of(data: &Path) -> PathBuf {
    data.with_extension("ready")
}

/// Variables that name what each of several servers must have of its own.
const OWN_SETTINGS: [&str; 4] =
    ["ROSTER_LISTEN__", "ROSTER_CLUSTER__", "ROSTER_ADMIN__", "ROSTER_SERVER__DATA"];
