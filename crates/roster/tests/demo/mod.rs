//! A `roster demo` of its own for one test, on free ports, ended with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running demo.
pub struct Demo {
    child: Child,
    scratch: tempfile::TempDir,
    ready: Vec<(String, String)>,
    pub admin_dn: String,
    pub admin_password: String,
}

impl Demo {
    /// Starts a demo with `entries` people and waits until it answers.
    pub fn start(entries: u32) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let ready_file = scratch.path().join("ready");
        let socket = scratch.path().join("ldapi");
        let mut child = Command::new(env!("CARGO_BIN_EXE_roster"))
            .args(["demo", "--ldap", "127.0.0.1:0", "--ldaps", "127.0.0.1:0"])
            .args(["--entries", &entries.to_string()])
            .arg("--ldapi")
            .arg(&socket)
            .arg("--ready-file")
            .arg(&ready_file)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        // The demo prints what to do when it is ready; the file is there by then.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !ready_file.exists() {
            line.clear();
            let read = output.read_line(&mut line).unwrap();
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
    pub fn url(&self, scheme: &str) -> String {
        let address = find(&self.ready, scheme).unwrap_or_else(|| panic!("no {scheme} listener"));
        match scheme {
            "ldapi" => format!("ldapi://{}", address.replace('/', "%2F")),
            _ => format!("{scheme}://{address}"),
        }
    }

    /// A directory for files of the test.
    #[allow(dead_code, reason = "not every test that uses a demo needs files")]
    pub fn scratch(&self) -> PathBuf {
        self.scratch.path().to_owned()
    }

    /// The process id of the server.
    #[allow(dead_code, reason = "not every test that uses a demo measures it")]
    pub fn pid(&self) -> u32 {
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
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn find<'a>(ready: &'a [(String, String)], key: &str) -> Option<&'a str> {
    ready.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}
