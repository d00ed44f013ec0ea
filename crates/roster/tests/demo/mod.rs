//! A `roster demo` of its own for one test, on free ports, ended with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running demo.
pub(crate) struct Demo {
    child: Child,
    scratch: tempfile::TempDir,
    ready: Vec<(String, String)>,
    #[allow(dead_code, reason = "not every test binds as the administrator")]
    pub(crate) admin_dn: String,
    #[allow(dead_code, reason = "not every test binds as the administrator")]
    pub(crate) admin_password: String,
}

impl Demo {
    /// Starts a demo with `entries` people and waits until it answers.
    #[allow(dead_code, reason = "not every test has the plainest one")]
    pub(crate) fn start(entries: u32) -> Self {
        Self::start_with(entries, &[])
    }

    /// Likewise, with further arguments.
    pub(crate) fn start_with(entries: u32, arguments: &[&str]) -> Self {
        Self::start_set(entries, arguments, &[])
    }

    /// Likewise, with settings as variables of the environment.
    pub(crate) fn start_set(entries: u32, arguments: &[&str], settings: &[(&str, &str)]) -> Self {
        let scratch = tempfile::tempdir().expect("temporary files can be made");
        let ready_file = scratch.path().join("ready");
        let socket = scratch.path().join("ldapi");
        let mut child = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["demo", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .args(["--entries", &entries.to_string()])
            .arg("--ldapi")
            .arg(&socket)
            .arg("--ready-file")
            .arg(&ready_file)
            .args(arguments)
            // The data go with the scratch directory: the demo is killed and cannot delete them.
            .env("TMPDIR", scratch.path())
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program is built");
        // The demo prints what to do when it is ready; the file is there by then.
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while !ready_file.exists() {
            line.clear();
            let read = output.read_line(&mut line).expect("the output is UTF-8");
            assert!(read > 0, "the demo ended before it was ready");
        }
        // Whatever else it prints must not block it.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let ready = read_ready(&ready_file);
        let get = |key: &str| find(&ready, key).unwrap_or_default().to_owned();
        let (admin_dn, admin_password) = (get("admin_dn"), get("admin_password"));
        Self { child, scratch, ready, admin_dn, admin_password }
    }

    /// The URL of a listener: `ldap`, `ldaps` or `ldapi`.
    pub(crate) fn url(&self, scheme: &str) -> String {
        let address = find(&self.ready, scheme).unwrap_or_else(|| panic!("no {scheme} listener"));
        match scheme {
            "ldapi" => format!("ldapi://{}", address.replace('/', "%2F")),
            _ => format!("{scheme}://{address}"),
        }
    }

    /// A directory for files of the test.
    #[allow(dead_code, reason = "not every test that uses a demo needs files")]
    pub(crate) fn scratch(&self) -> PathBuf {
        self.scratch.path().to_owned()
    }

    /// The process id of the server.
    #[allow(dead_code, reason = "not every test that uses a demo measures it")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_ready(path: &std::path::Path) -> Vec<(String, String)> {
    fs::read_to_string(path)
        .expect("the ready file is whole")
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn find<'a>(ready: &'a [(String, String)], key: &str) -> Option<&'a str> {
    ready.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}
