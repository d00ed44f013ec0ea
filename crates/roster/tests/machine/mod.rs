//! Machines of a cluster that begins with one, as real processes.
#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::{ConnectOptions, Connection, SearchFor};
use ldap::filter::Filter;
use ldap::message::{ModifyOperation, Scope};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testing::crash::server::{ADMIN_DN, ADMIN_PASSWORD, now, pause};
use testing::ports::free_addresses;

use crate::common::{self, Run, roster};

/// How long anything may take before the test fails.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
pub(crate) const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
pub(crate) const PERSON: &str = "uid=anna,ou=people,dc=example,dc=com";

#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = now();
    while begin.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        pause(LOOK_EVERY);
    }
    panic!("waited in vain: {what}");
}

/// A machine: its data directory, and where it is found.
pub(crate) struct Machine {
    pub(crate) data: PathBuf,
    pub(crate) password: PathBuf,
    pub(crate) ldap: String,
    pub(crate) address: String,
    pub(crate) server: Option<Child>,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machine {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let [ldap, address] = free_addresses().unwrap().map(|address| address.to_string());
        let password = folder.join("password");
        fs::write(&password, ADMIN_PASSWORD).unwrap();
        Self { data: folder.join(name), password, ldap, address, server: None }
    }

    pub(crate) fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("ldap://{}", self.ldap)
    }

    pub(crate) fn serve(&mut self) {
        self.serve_on(|_| {});
    }

    /// Serves with an environment of its own.
    pub(crate) fn serve_on(&mut self, prepare: impl FnOnce(&mut Command)) {
        let ready = self.data.with_extension("ready");
        let _ = fs::remove_file(&ready);
        let log = fs::File::create(self.data.with_extension("log")).unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_roster"));
        prepare(&mut server);
        let server = server
            .args(["serve", "--data", self.data(), "--ldap", &self.ldap])
            .args(["--admin", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        wait_for("a server that serves", || ready.exists().then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.server.as_ref().unwrap()), signal).unwrap();
    }

    /// Has it end by itself.
    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut server) = self.server.take() {
            let _ = server.wait();
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Asks this one, as the administrator.
    pub(crate) fn ask(&self, command: &[&str]) -> Run {
        let url = self.url();
        let login =
            ["-H", &url, "-ZZ", "--reqcert", "never", "-y", self.password.to_str().unwrap()];
        roster(&[&["cluster"], command, &login].concat())
    }

    pub(crate) fn token(&self, more: &[&str]) -> String {
        let run = self.ask(&[&["token"], more].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run.output.trim().to_owned()
    }

    pub(crate) fn join_command(&self, token: &str) -> Vec<String> {
        let url = self.url();
        let words = ["cluster", "join", token, "--data", self.data(), "--address", &self.address];
        words.into_iter().chain(["--url", &url]).map(str::to_owned).collect()
    }

    pub(crate) fn join(&self, token: &str) -> Run {
        let words = self.join_command(token);
        roster(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn connect(&self) -> Option<Connection> {
        let mut connection = Connection::open(ConnectOptions::new(self.url())).ok()?;
        connection.bind(ADMIN_DN, ADMIN_PASSWORD.as_bytes()).ok()?;
        Some(connection)
    }

    pub(crate) fn title(&self) -> Option<String> {
        let asked = SearchFor {
            scope: Scope::Base,
            attributes: &["title"],
            ..SearchFor::below(PERSON, Filter::Present("objectClass"))
        };
        let found = self.connect()?.search(&asked).ok()?;
        found.entries.first()?.text("title").map(str::to_owned)
    }

    pub(crate) fn set_title(&self, title: &str) {
        let change = [(ModifyOperation::Replace, "title", &[title][..])];
        wait_for("a change that is made", || {
            let outcome = self.connect()?.modify(PERSON, &change).ok()?;
            outcome.is_success().then_some(())
        });
    }

    /// The roles of all members, by number, as this one tells.
    pub(crate) fn roles(&self) -> Vec<(u64, String, bool)> {
        let run = self.ask(&["status", "--json"]);
        let Ok(told) = serde_json::from_str::<Value>(&run.output) else { return Vec::new() };
        let members = told["cluster"]["members"].as_array().cloned().unwrap_or_default();
        let role = |member: &Value| {
            let text = |name: &str| member[name].as_str().unwrap_or_default().to_owned();
            (member["member"].as_u64().unwrap(), text("role"), member["voter"].as_bool().unwrap())
        };
        members.iter().map(role).collect()
    }
}

/// A machine with data, of which there is no other.
pub(crate) fn alone(folder: &Path) -> Machine {
    let machine = Machine::new(folder, "one");
    let (password, data) = (machine.password.display().to_string(), machine.data().to_owned());
    let suffix = "dc=example,dc=com";
    for words in [
        vec!["init", "--data", &data, "--suffix", suffix, "--admin-password-file", &password],
        vec!["import", "--data", &data, &common::example("people.ldif")],
    ] {
        let run = roster(&words);
        assert_eq!(run.code, 0, "{words:?}: {run:?}");
    }
    machine
}

/// The first machine, whose data directory is that of the only member.
pub(crate) fn first(folder: &Path) -> Machine {
    let mut machine = alone(folder);
    let member = format!("1 {} {}", machine.address, machine.url());
    let run = roster(&["cluster", "init", "--data", machine.data(), "--member", &member]);
    assert_eq!(run.code, 0, "{run:?}");
    machine.serve();
    machine
}

/// The first machine and two that joined it: three voters.
pub(crate) fn three(folder: &Path) -> [Machine; 3] {
    let one = first(folder);
    let [mut two, mut three] = ["two", "three"].map(|name| Machine::new(folder, name));
    for machine in [&mut two, &mut three] {
        let run = machine.join(&one.token(&[]));
        assert_eq!(run.code, 0, "{run:?}");
        machine.serve();
    }
    wait_for("all are voters", || {
        let roles = one.roles();
        (roles.len() == 3 && roles.iter().all(|(_, _, is_voter)| *is_voter)).then_some(())
    });
    [one, two, three]
}
